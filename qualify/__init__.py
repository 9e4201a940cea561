"""Measures a drive or an array with fio, grades it, and shows what it found.

Imports none of the other parts and nothing but the standard library: a tenant runs it as it is.
"""

from __future__ import annotations

from typing import Final

VERSION: Final = "0.1.0"
"""The project's. Not imported from there: a tenant has this package alone."""
