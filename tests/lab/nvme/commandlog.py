"""The drive's own record of what it was told to do; tests assert on it.

One JSON object per line, appended with a single write, so a killed server leaves whole lines.
A command that changes or destroys something is noted when it arrives (``begun``) and again when
it is answered, under one number; any other command only when it is answered.
"""

from __future__ import annotations

import json
import os
import time
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.spec import AdminOp, Command, NvmOp


def log_path(backing: Path) -> Path:
    """Where the log of the drive with this backing file is."""
    return backing.with_name(backing.name + ".commands.jsonl")


@dataclass(frozen=True, slots=True)
class LoggedCommand:
    """One command as the drive saw it.

    ``status`` is the 15-bit status field (DNR is bit 14), None while unanswered. ``begun`` and
    ``ended`` are CLOCK_MONOTONIC seconds of this machine, ``wall`` is Unix time of arrival.
    ``power_cycle`` counts from 1. ``via`` names the socket.
    """

    seq: int
    queue: str
    opcode: int
    name: str
    nsid: int
    cdws: tuple[int, int, int, int, int, int]
    via: str
    power_cycle: int
    begun: float
    ended: float | None
    wall: float
    status: int | None

    @property
    def is_admin(self) -> bool:
        """Whether it came through the admin queue."""
        return self.queue == "admin"

    @property
    def succeeded(self) -> bool:
        """Whether it was answered with success."""
        return self.status == 0


@dataclass(frozen=True, slots=True)
class LoggedEvent:
    """Something that happened to the drive: power, resets, the course of a sanitize, faults."""

    event: str
    detail: str
    power_cycle: int
    at: float
    wall: float


class CommandLog:
    """Appends to the log file of one drive."""

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        self._closed = weakref.finalize(self, os.close, self._fd)

    def command(
        self,
        seq: int,
        phase: str,
        command: Command,
        *,
        admin: bool,
        via: str,
        power_cycle: int,
        status: int | None,
    ) -> None:
        """Note a command; ``phase`` is ``begun`` or ``answered``."""
        self._append(
            {
                "kind": "command",
                "seq": seq,
                "phase": phase,
                "at": time.monotonic(),
                "wall": time.time(),
                "via": via,
                "power_cycle": power_cycle,
                "queue": "admin" if admin else "io",
                "opcode": command.opcode,
                "name": opcode_name(command.opcode, admin=admin),
                "nsid": command.nsid,
                "cdws": [
                    command.cdw10,
                    command.cdw11,
                    command.cdw12,
                    command.cdw13,
                    command.cdw14,
                    command.cdw15,
                ],
                "status": status,
            }
        )

    def event(self, event: str, detail: str, power_cycle: int) -> None:
        """Note an event."""
        self._append(
            {
                "kind": "event",
                "event": event,
                "detail": detail,
                "at": time.monotonic(),
                "wall": time.time(),
                "power_cycle": power_cycle,
            }
        )

    def close(self) -> None:
        """Close the file."""
        self._closed()

    def _append(self, record: dict[str, object]) -> None:
        os.write(self._fd, json.dumps(record, separators=(",", ":")).encode() + b"\n")


def opcode_name(opcode: int, *, admin: bool) -> str:
    """``sanitize``, ``write_zeroes`` and so on; ``opcode_c0`` for what the model does not know."""
    known: type[AdminOp] | type[NvmOp] = AdminOp if admin else NvmOp
    try:
        return known(opcode).name.lower()
    except ValueError:
        return f"opcode_{opcode:02x}"


def read_commands(path: Path) -> list[LoggedCommand]:
    """All commands in order of arrival, each once."""
    found: dict[int, LoggedCommand] = {}
    for record in _records(path, "command"):
        earlier = found.get(record["seq"])
        answered = record["phase"] == "answered"
        cdw10, cdw11, cdw12, cdw13, cdw14, cdw15 = record["cdws"]
        found[record["seq"]] = LoggedCommand(
            seq=record["seq"],
            queue=record["queue"],
            opcode=record["opcode"],
            name=record["name"],
            nsid=record["nsid"],
            cdws=(cdw10, cdw11, cdw12, cdw13, cdw14, cdw15),
            via=record["via"],
            power_cycle=record["power_cycle"],
            begun=earlier.begun if earlier else record["at"],
            ended=record["at"] if answered else None,
            wall=earlier.wall if earlier else record["wall"],
            status=record["status"],
        )
    return [found[seq] for seq in sorted(found)]


def read_events(path: Path) -> list[LoggedEvent]:
    """All events in the order they happened."""
    return [
        LoggedEvent(
            record["event"], record["detail"], record["power_cycle"], record["at"], record["wall"]
        )
        for record in _records(path, "event")
    ]


def _records(path: Path, kind: str) -> list[dict[str, Any]]:
    try:
        lines = path.read_bytes().splitlines(keepends=True)
    except FileNotFoundError:
        return []
    records = []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"\n"):
            continue  # being written at this moment
        try:
            record = json.loads(line)
        except ValueError as error:
            raise DriveError(f"{path} line {number} should be JSON, found {line[:60]!r}") from error
        if record["kind"] == kind:
            records.append(record)
    return records
