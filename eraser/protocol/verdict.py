"""How a case ended, in two words: all of a report that the last gate needs to know."""

from __future__ import annotations

import enum


class Verdict(enum.StrEnum):
    """Three-valued on purpose (promise 6): unknown holds the drive."""

    ERASED = "erased"
    NOT_ERASED = "not_erased"
    UNKNOWN = "unknown"


class Outcome(enum.StrEnum):
    """How the case ended on the host."""

    COMPLETED = "completed"
    """The plan was carried out as far as the drive let it; the verdict says with what result."""
    IN_USE = "in_use"
    """The drive is or may be in use: nothing was sent; the order may come again."""
    WRONG_DRIVE = "wrong_drive"
    """Another controller than ordered is in the slot, or one that is not unique: nothing was sent
    to it. What was sent to the ordered one before it left is in the report."""
    NO_METHOD = "no_method"
    """The policy allows no method that this drive offers: nothing destructive was sent."""
    ABSENT = "absent"
    """No NVMe controller answers at the slot; as above."""
