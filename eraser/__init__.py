"""The data plane: one drive in, one signed report out. Knows no OpenStack."""

VERSION = "0.1.0"
"""The distribution's version; pyproject.toml takes it from here."""
