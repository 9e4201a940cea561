"""The patch's errors. Each message is one line: what was expected, what was found, what to do."""

from __future__ import annotations


class PatchError(Exception):
    """The patch cannot be installed, or must not let nova-compute start."""
