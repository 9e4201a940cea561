"""Reasons to hold a slot as people see them: with the code, and with what would return the drive.

The operators' table is generated from :class:`HoldCode` (``tools/samples``). Pure.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quarantine.record.words.facts import HistoryRow, SlotRecord
from quarantine.record.words.reasons import OLDER as OLDER
from quarantine.record.words.reasons import HoldCode, HoldReason
from quarantine.record.words.states import State


@dataclass(frozen=True)
class Meaning:
    """What a stored code says, where it is none of :class:`HoldCode`."""

    why: str
    remedy: str


_OLDER: Final = Meaning(
    "A former release held it, which had no codes; its words say why.",
    "Do what the text says, then `slot release`.",
)
_UNKNOWN: Final = Meaning(
    "A newer release held it, for a reason that this one does not know.",
    "Do what the text says, then `slot release`.",
)


def table() -> str:
    """All reasons as a Markdown table, for the operators' guide."""
    rows = (f"| `{code}` | {code.why} | {code.remedy} |" for code in HoldCode)
    return "\n".join(("| code | why the drive is not handed out | do |", "|---|---|---|", *rows))


def because(code: HoldCode, text: str) -> HoldReason:
    """The reason with its remedy; ``text`` has the particulars."""
    return HoldReason(code, text, code.remedy)


def meaning(code: str) -> HoldCode | Meaning:
    """What a stored code means; also of one that this release does not know."""
    try:
        return HoldCode(code)
    except ValueError:
        return _OLDER if code == OLDER else _UNKNOWN


def shown(of: SlotRecord | HistoryRow) -> str:
    """The code of a slot, or of a line of its history, for people; empty where nothing is held."""
    state = of.state if isinstance(of, SlotRecord) else of.target
    if state is not State.HELD:
        return ""
    return of.hold_code or OLDER


def said(of: SlotRecord | HistoryRow) -> str:
    """The reason as people see it: with its code, where something is held."""
    return f"{code}: {of.reason}" if (code := shown(of)) else of.reason


def remedy(record: SlotRecord) -> str:
    """What would return a held slot's drive; empty for a slot that is not held."""
    code = shown(record)
    return meaning(code).remedy if code else ""


def counted(codes: Mapping[str | None, int]) -> dict[str, int]:
    """Held slots by code, as the record counts them, with a name for those without; most first."""
    named = {code or OLDER: count for code, count in codes.items()}
    return dict(sorted(named.items(), key=lambda each: (-each[1], each[0])))
