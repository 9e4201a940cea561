"""The kinds of commands and events that a drive's log shows. Pure.

Commands are told apart by what a drive could make its answer depend on: command, what is asked
for, size, flags, and whether it writes where nobody has read; and, by itself, that one is at the
namespace's end.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from tests.lab.nvme.commandlog import LoggedCommand, LoggedEvent
from tests.lab.nvme.spec import AdminOp, NvmOp

_BLOCK: Final = 4096
_END: Final = 1 << 20
"""Bytes at a namespace's end where tables, labels and superblocks have their second copies."""
_FUA: Final = 1 << 30
_LIMITED_RETRY: Final = 1 << 31
_DEALLOCATE: Final = 1 << 2
"""Dataset Management, dword 11."""
_ADMIN: Final[dict[int, tuple[str, Callable[[LoggedCommand], str]]]] = {
    AdminOp.IDENTIFY: ("Identify", lambda c: f"CNS {c.cdws[0] & 0xFF:02X}h"),
    AdminOp.GET_FEATURES: ("Get Features", lambda c: f"{c.cdws[0] & 0xFF:02X}h"),
    AdminOp.SET_FEATURES: ("Set Features", lambda c: f"{c.cdws[0] & 0xFF:02X}h"),
    AdminOp.GET_LOG_PAGE: ("Get Log Page", lambda c: f"{c.cdws[0] & 0xFF:02X}h"),
    AdminOp.NAMESPACE_MANAGEMENT: (
        "Namespace Management",
        lambda c: "delete" if c.cdws[0] & 0xF else "create",
    ),
    AdminOp.NAMESPACE_ATTACHMENT: (
        "Namespace Attachment",
        lambda c: "detach" if c.cdws[0] & 0xF else "attach",
    ),
}
_OF_BLOCKS: Final = (NvmOp.READ, NvmOp.WRITE, NvmOp.WRITE_ZEROES, NvmOp.COMPARE)
_EVENTS: Final = {
    "pci_reset": "reset of the function",
    "reset": "reset of the controller",
    "subsystem_reset": "reset of the subsystem",
    "shutdown": "shutdown of the controller",
}


class Kinds:
    """Of what one drive met, in order; it remembers where it was read since its last reset."""

    def __init__(self, sector: int, size: int) -> None:
        """``sector`` and ``size`` of the namespace are in bytes."""
        self._sector = sector
        self._size = size
        self._read: set[int] = set()

    def of(self, commands: Iterable[LoggedCommand], events: Iterable[LoggedEvent]) -> Iterator[str]:
        """The kinds of each command, and of each event that a host caused."""
        found: list[LoggedCommand | LoggedEvent] = [*commands, *events]
        for one in sorted(found, key=_when):
            if isinstance(one, LoggedCommand):
                yield from self._nvm(one) if not one.is_admin else (_admin(one),)
            elif one.event in _EVENTS:
                self._read.clear()
                yield _EVENTS[one.event]

    def _nvm(self, command: LoggedCommand) -> Iterator[str]:
        name, opcode = _words(command), command.opcode
        if opcode == NvmOp.DATASET_MANAGEMENT:
            yield "Deallocate" if command.cdws[1] & _DEALLOCATE else name
            return
        if opcode not in _OF_BLOCKS:
            yield name
            return
        first = (command.cdws[1] << 32 | command.cdws[0]) * self._sector
        length = ((command.cdws[2] & 0xFFFF) + 1) * self._sector
        told = [name]
        if opcode != NvmOp.WRITE_ZEROES:
            told.append(_size(length))
        if command.cdws[2] & _FUA:
            told.append("with FUA")
        if command.cdws[2] & _LIMITED_RETRY:
            told.append("with Limited Retry")
        places = range(first // _BLOCK, (first + length - 1) // _BLOCK + 1)
        if opcode == NvmOp.READ:
            self._read.update(places)
        elif self._read.isdisjoint(places):
            told.append("where nobody has read")
        yield ", ".join(told)
        if first + length > self._size - _END:
            yield f"{name} at the end"


def _when(one: LoggedCommand | LoggedEvent) -> float:
    return one.at if isinstance(one, LoggedEvent) else one.begun


def _admin(command: LoggedCommand) -> str:
    if command.opcode in _ADMIN:
        name, detail = _ADMIN[command.opcode]
        return f"{name} {detail(command)}"
    return _words(command)


def _words(command: LoggedCommand) -> str:
    return command.name.replace("_", " ").capitalize()


def _size(length: int) -> str:
    """By what a drive maps: below, at and above 4 KiB, and more than most ask for at once."""
    if length < _BLOCK:
        return "less than 4 KiB"
    if length == _BLOCK:
        return "4 KiB"
    return "up to 128 KiB" if length <= 128 << 10 else "more than 128 KiB"
