"""What may be said about an erase, by whom it is signed, and how the sayings hang together."""
