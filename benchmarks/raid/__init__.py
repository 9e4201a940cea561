"""The tenant's array against the commands typed by hand, and against one drive times four."""
