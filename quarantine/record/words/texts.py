"""Texts that every database takes, and how long they may be. No database."""

from __future__ import annotations

from typing import Final

ALARM_LENGTH: Final = 1000
"""Characters of an alarm in a slot's row."""

SUBJECT_LENGTH: Final = 300
"""Characters of what an alarm is about."""

NAME_LENGTH: Final = 64
"""Characters of a drive's model or serial in a slot's row; whoever looks for one cuts it alike."""


USED_AGAIN: Final = "used again without an erase?"
"""How a line of history ends by which another server has the drive, and Nova knows of no migration.
Who tells under which certificate a server got its drive asks for it."""


def storable(text: str, limit: int = 4000) -> str:
    """``text`` as every database takes it: no NUL, no lone surrogates, at most ``limit`` long.

    Reasons and excerpts quote drives and hosts, which send what they like; PostgreSQL refuses NUL.
    """
    clean = text.encode("utf-8", "backslashreplace").decode("utf-8").replace("\0", "\\x00")
    return clean if len(clean) <= limit else clean[: limit - 3] + "..."
