"""The commands that a host says it sent, asked for by what they were. Pure.

A report may have thousands, and a case is judged in the one lane that all hosts' reports share: so
they are looked through once, and their times are read once.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from datetime import datetime

from eraser.protocol.policy import Method
from eraser.protocol.report import CommandRecord, EraseReport, MethodRecord
from quarantine.evidence.checks import clocks

SANITIZE_OPCODE, FORMAT_OPCODE, NAMESPACE_OPCODE = 0x84, 0x80, 0x0D
"""NVM Express Base 2.0, figure 138 (admin opcodes)."""
_SECURITY_SEND, _FIRMWARE_COMMIT, _FIRMWARE_DOWNLOAD, _CAPACITY = 0x81, 0x10, 0x11, 0x20
_ERASING_SANITIZE = frozenset({2, 3, 4})
"""SANACT (Base 2.0, figure 311): block erase, overwrite, crypto erase. The others end a state."""
_CHANGING_NOTHING = frozenset({0x00, 0x02, 0x05, 0x0C, 0x0D, 0x0E, 0x11, 0x15})
"""I/O commands that carry no data to the medium: Flush, Read, Compare, Verify, and those of
reservations (Base 2.0, figure 390; NVM 1.0, figure 19)."""


class SentCommands:
    """Of one report."""

    def __init__(self, commands: Iterable[CommandRecord]) -> None:
        self._each = tuple(commands)
        self._by_kind: defaultdict[tuple[int, int, int], list[tuple[int, datetime | None]]]
        self._by_kind = defaultdict(list)
        self._statuses = set[tuple[int, int, int, int | None]]()
        for place, sent in enumerate(self._each):
            kind = (sent.opcode, sent.nsid, sent.cdw10)
            self._statuses.add((*kind, sent.status))
            # A refused command carried nothing out. None is one whose exit was lost: it may have.
            if sent.status in (0, None):
                self._by_kind[kind].append((place, clocks.moment(sent.started_at)))

    def has(self, record: MethodRecord, statuses: tuple[int | None, ...]) -> bool:
        """Whether a technique's command came to one of these statuses."""
        return any((*_kind(record), status) in self._statuses for status in statuses)

    def of(self, record: MethodRecord) -> CommandRecord | None:
        """The command that was carried out, as the host recorded it; None where it was not.

        A method may have been run twice: its command is the last one that was sent before its end.
        """
        place = self._place(record)
        return None if place is None else self._each[place]

    def breaking_seal(self, report: EraseReport) -> Iterator[str]:
        """What was sent after the last technique and changes what lies on the medium, or may: what
        was read then is not what the technique left, or what was read is not what is there.

        A status other than 0 is a drive that refused. By places and not by times: a case of several
        rounds may have had its clock set back. Between two rounds a host acts as a next tenant, so
        nothing is said where the last round's own command may not be on record, as its sender died.
        """
        last = report.methods[-1]
        places = self._by_kind.get(_kind(last), ())
        alike = [record for record in report.methods if _kind(record) == _kind(last)]
        # How many sends to expect. A resumed case lost some with their senders, so there each
        # attempt counts; with fewer on record the last of them may not be the last technique's.
        least = sum(record.attempts for record in alike) if report.resumed else len(alike)
        if last.adopted or not places or len(places) < least:
            return
        for sent in self._each[places[-1][0] + 1 :]:
            if sent.status in (0, None) and (what := _writes(sent)):
                yield (
                    f"expected nothing that writes or erases after the last technique, found {what}"
                )
                return

    def made_and_deleted(self) -> tuple[int, int]:
        """Namespaces that were created, and deletions that were sent: one that is answered as not
        there any more counts."""
        layout = [c for c in self._each if _is_admin(c) and c.opcode == NAMESPACE_OPCODE]
        # SEL, CDW10 bits 3:0: 0 creates, anything else deletes.
        made = sum(1 for each in layout if not each.cdw10 & 0xF and each.status in (0, None))
        return made, sum(1 for each in layout if each.cdw10 & 0xF)

    def _place(self, record: MethodRecord) -> int | None:
        ended = clocks.moment(record.ended_at) if record.ended_at else None
        # The last one first. One that was sent after the end is of a later run of the same method.
        for place, started in reversed(self._by_kind.get(_kind(record), ())):
            if ended is None or started is None or started <= ended:
                return place
        return None


def opcode_of(method: Method) -> int:
    """The admin command that a method is."""
    return SANITIZE_OPCODE if method.is_sanitize else FORMAT_OPCODE


def _kind(record: MethodRecord) -> tuple[int, int, int]:
    return opcode_of(record.method), record.nsid, record.cdw10


def _is_admin(sent: CommandRecord) -> bool:
    # The same number is another command in an I/O queue.
    return "io-passthru" not in sent.argv


def _writes(sent: CommandRecord) -> str:
    """The name of a command that writes, erases or changes what is where; empty for any other."""
    if not _is_admin(sent):
        return "" if sent.opcode in _CHANGING_NOTHING else f"the I/O command {sent.opcode:#04x}"
    if sent.opcode == SANITIZE_OPCODE:
        return "a Sanitize" if sent.cdw10 & 0x7 in _ERASING_SANITIZE else ""
    if sent.opcode == NAMESPACE_OPCODE:
        return "" if sent.cdw10 & 0xF else "a namespace that was created"
    names = {
        FORMAT_OPCODE: "a Format",
        _SECURITY_SEND: "a Security Send",
        _FIRMWARE_COMMIT: "a Firmware Commit",
        _FIRMWARE_DOWNLOAD: "a Firmware Image Download",
        _CAPACITY: "a Capacity Management",
    }
    return names.get(sent.opcode, "")
