"""Writes the signed head of each day into a file and to syslog, and has it time stamped.

A head that cannot be written, or stamped, is tried again with the next pass: one alarm, and one
line when it is over. Nothing waits for it.
"""

from __future__ import annotations

import contextlib
import logging
import syslog
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from eraser.protocol.transport.signing import PrivateKey
from quarantine import outputfile
from quarantine.doors import Clock, utc_now
from quarantine.errors import BadInputError, QuarantineError, UnavailableError, UnreadableError
from quarantine.evidence.certificate import Link, checked_link
from quarantine.evidence.chain import head
from quarantine.evidence.chain.head import Head
from quarantine.inputfile import read_found
from quarantine.record.store import Store
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import StandingAlarms, alarm
from quarantine.service.issue.registrar import iso

LOG = logging.getLogger(__name__)

PASS_SECONDS = 600.0
"""Between two looks at the clock: so late at most after midnight UTC is a day's head."""


STAMPS_A_PASS = 3
"""An authority that was away, or is new, is not flooded with the heads of a year."""


def stamp_of(file: Path) -> Path:
    """Where the time stamp of a head's file is."""
    return file.with_name(file.name.removesuffix(head.SUFFIX) + head.STAMP_SUFFIX)


def to_syslog(text: str) -> None:
    """One line, facility daemon, level notice; a machine without syslog drops it."""
    syslog.openlog("nvme-quarantine", 0, syslog.LOG_DAEMON)
    syslog.syslog(syslog.LOG_NOTICE, text)


@dataclass
class HeadDirectory:
    """One directory of heads. For one thread, with a store of its own."""

    store: Store
    key: PrivateKey
    directory: Path
    organisation: str = "not stated"
    tell: Callable[[str], None] = to_syslog
    clock: Clock = utc_now
    stamp: Callable[[bytes], bytes] | None = None
    """Asks a time stamping authority; None where none is configured."""
    _wrong: StandingAlarms = field(default_factory=StandingAlarms)

    def run_forever(self, stop: threading.Event) -> None:
        """Pass after pass until ``stop`` is set; nothing but ``stop`` ends it."""
        while not stop.is_set():
            try:
                self.turn()
            except Exception:
                LOG.exception("heads")  # ours to mend; tomorrow's head must not wait for that
            stop.wait(PASS_SECONDS)

    def turn(self) -> bool:
        """Today's head and the stamps, where they are not there yet; whether nothing is missing."""
        written = self._tried("the signed head of today", self._write)
        stamped = self.stamp is None or self._tried("the time stamp of a head", self._stamp)
        return written and stamped

    def newest(self) -> Path | None:
        """The file of the last day that has one."""
        return max(self._files(), default=None)

    def _files(self) -> list[Path]:
        return list(self.directory.glob(f"*{head.SUFFIX}"))

    def _write(self) -> None:
        now = self.clock()
        day = now.date().isoformat()
        path = self.directory / f"{day}{head.SUFFIX}"
        if path.exists():
            return
        outputfile.make_directory(self.directory)
        # Of a day before: one of a time to come was written by a clock that was ahead. Until that
        # day each head would name it, and none the one before, of which nobody would see that it
        # is missing.
        before = max((file for file in self._files() if file < path), default=None)
        last, link = self.store.chain_end(), Link()
        if last is not None:
            link = checked_link(last.number, last.digest, last.token)
        said = Head(
            format=head.FORMAT,
            day=day,
            written_at=iso(now),
            position=link.position,
            digest=link.digest,
            previous=head.digest(read_found(before, "head")) if before else "",
            organisation=self.organisation,
        )
        lost = self._lost(before) if before else ""
        token = head.sign(said, self.key)
        # On the disk first, then told, then in its place: what was told once is not told anew
        # with another time because the disk is full.
        end = f"certificate {said.position} {said.digest}" if last else "no certificate yet"
        told = f"signed head {day}: {end}; {token}"
        with contextlib.suppress(FileExistsError):  # another process was quicker
            outputfile.create(path, token.encode(), before=lambda: self.tell(told))
        LOG.info("signed head of %s written: %s", day, path)
        if lost:
            alarm("the chain of certificates", AlarmCode.CHAIN_CUT, lost)

    def _lost(self, before: Path) -> str:
        """A record that was set back says nothing of it; the head before today's does."""
        try:
            kept = head.read(read_found(before, "head"), [self.key.public], str(before))
        except BadInputError:
            return ""  # of a former key, or damaged: 'ledger verify --heads' tells
        try:
            if not kept.digest or self.store.certificate(kept.digest) is not None:
                return ""
        except UnreadableError:
            return ""  # it is there, and damaged: 'ledger verify' tells
        return (
            f"the record is without certificate {kept.position} {kept.digest}, its end on "
            f"{kept.day}: was the database set back? 'nvme-quarantine ledger verify --heads "
            f"{self.directory}' names what is missing"
        )

    def _stamp(self) -> None:
        """The newest first: it names, by the chains, what all before it name."""
        assert self.stamp is not None
        files = sorted(self.directory.glob(f"*{head.SUFFIX}"), reverse=True)
        missing = [file for file in files if not stamp_of(file).exists()]
        for file in missing[:STAMPS_A_PASS]:
            outputfile.replace(stamp_of(file), self.stamp(read_found(file, "head")))
            LOG.info("time stamp of %s written", file)

    def _tried(self, what: str, action: Callable[[], None]) -> bool:
        """Alarms once where it fails, and says once that it is over."""
        try:
            action()
        except UnavailableError as error:
            LOG.warning("%s waits: %s", what, error)  # the loops alarm of the record itself
            return False
        except (QuarantineError, OSError) as error:
            text = f"missing: {error}; tried again with each pass"
            self._wrong.tell(what, AlarmCode.HEAD_MISSING, text)
            return False
        self._wrong.end(what, AlarmCode.HEAD_MISSING, "it is there")
        return True
