"""What we know about every slot, and how it may change: compare-and-set, with a history."""
