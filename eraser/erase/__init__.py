"""Which commands erase a drive, and how each ends."""
