"""What the demo found, for people and for machines."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from quarantine.record.words.facts import HistoryRow
from quarantine.record.words.states import Event, State
from tests.lab.demo.novasite import Told
from tests.lab.nvme.commandlog import LoggedCommand


@dataclass(frozen=True)
class SlotResult:
    """How one slot came through quarantine, up to the moment of the second hand-out."""

    slot: str
    serial: str
    state: State
    states: tuple[tuple[State, datetime], ...]
    """Every state passed through, with when it was entered."""
    method: tuple[str, ...]
    verification: str
    certificate: str | None
    """Path of the signed certificate; None where there is none."""
    page: str | None
    """Path of the printable page."""
    reason: str


@dataclass(frozen=True)
class DemoResult:
    """The whole run."""

    outcome: State
    leaked_blocks: int
    found_by_tenant: tuple[str, ...]
    """What the second tenant found of the first one's data, by searching the raw devices."""
    slots: tuple[SlotResult, ...]
    commands: dict[str, list[dict[str, Any]]]
    seconds: dict[str, float]
    directory: Path
    told: Told | None = None
    """What the API said of the first tenant's server; with the real Nova alone."""

    def plain(self) -> dict[str, Any]:
        """The one JSON object of ``tools/demo -f json``."""
        return {
            "outcome": self.outcome.value,
            "leaked_blocks": self.leaked_blocks,
            "found_by_tenant": list(self.found_by_tenant),
            "slots": [_plain_slot(slot) for slot in self.slots],
            "commands": self.commands,
            "seconds": {name: round(value, 3) for name, value in self.seconds.items()},
            "directory": str(self.directory),
            "told": dataclasses.asdict(self.told) if self.told else None,
        }


def _plain_slot(slot: SlotResult) -> dict[str, Any]:
    return {
        "slot": slot.slot,
        "serial": slot.serial,
        "state": slot.state.value,
        "states": [{"state": state.value, "at": at.isoformat()} for state, at in slot.states],
        "method": list(slot.method),
        "verification": slot.verification,
        "certificate": slot.certificate,
        "page": slot.page,
        "reason": slot.reason,
    }


def command_rows(commands: Sequence[LoggedCommand]) -> list[dict[str, Any]]:
    """A drive's own log of admin commands, shortened to what matters."""
    return [
        {
            "at": command.wall,
            "name": command.name,
            "opcode": f"0x{command.opcode:02x}",
            "nsid": command.nsid,
            "cdw10": f"0x{command.cdws[0]:08x}",
            "status": command.status,
        }
        for command in commands
        if command.is_admin
    ]


def last(rows: Sequence[HistoryRow], event: Event) -> HistoryRow | None:
    """The newest row of an event."""
    return next((row for row in reversed(rows) if row.event is event), None)
