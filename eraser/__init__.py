"""The data plane: one drive in, one signed report out. Knows no OpenStack."""
