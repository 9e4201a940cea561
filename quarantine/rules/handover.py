"""What Nova says of a drive that another consumer holds than the one on record."""

from __future__ import annotations

import enum


class Handover(enum.StrEnum):
    """What Nova says of two consumers of one drive, the former one and the one of now."""

    MOVED = "moved"
    """One of them is a migration of the other."""
    OVER = "over"
    """One of them was a migration of the other, which ended a while ago."""
    STRANGE = "strange"
    """Nova knows of no such migration, or is not asked at all."""
    UNKNOWN = "unknown"
    """Nova does not answer, and that has not lasted."""
    UNASKED = "unasked"
    """To be asked."""
