"""The table of everything that can be asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from quarantine.api import root, slots
from quarantine.api.operation import Operation

OPERATIONS: Final[tuple[Operation, ...]] = (
    *root.OPERATIONS,
    *slots.OPERATIONS,
)

RULES: Final[Mapping[str, str]] = {one.rule: one.default for one in OPERATIONS if one.rule}
"""By its name, each rule's default."""

PUBLIC: Final = frozenset(one.path for one in OPERATIONS if not one.rule)
"""Paths that are answered to everybody."""
