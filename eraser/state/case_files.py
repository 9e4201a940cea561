"""What a case keeps on the host's disk (:mod:`eraser.state.case_dir`), and how it is read back."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import LimitOverrides, Limits, Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport, Step
from eraser.state.case_dir import (
    DEFAULT_RUN_DIR,
    DEFAULT_STATE_DIR,
    CaseEnding,
    CasePlace,
    is_there,
    names,
)
from eraser.state.journal import make_directory, replace_durably, sync_directory

__all__ = ["DEFAULT_RUN_DIR", "DEFAULT_STATE_DIR", "CaseFiles", "CaseProgress", "CaseRequest"]

MAX_LOG = 1 << 20
"""Bytes of what a case's runners say, before it is put aside; only the newest such part is kept."""


@dataclass(frozen=True)
class CaseRequest:
    """Erase what is in this slot.

    Stand-alone ``identity`` may be None: it is learned, and written to the journal first. The ids
    are the order's, empty or 0 stand-alone; ``seconds_allowed`` 0 means no limit of the whole.
    ``serial`` is what a person said instead of an identity, empty where nobody did. ``look`` is
    the order's of that name.
    """

    slot: Slot
    identity: ControllerIdentity | None
    profile: Profile
    policy: Policy
    order_id: str = ""
    generation: int = 0
    nonce: str = ""
    incarnation: str = ""
    seconds_allowed: int = 0
    stuck: float = field(default=0.0, metadata=codec.LATE)
    serial: str = field(default="", metadata=codec.LATE)
    look: int = field(default=0, metadata=codec.LATE)

    @property
    def same_work(self) -> str:
        """A digest of what must be alike for one run to go on with another's work.

        Time limits and the profile may differ: a too short limit is mended by calling again, and
        the profile decides release, and a layout that is always made from what is there.
        """
        quirks = tuple(
            dataclasses.replace(quirk, limits=LimitOverrides())
            # Quirks that only change limits are left out: limits may differ between runs.
            for quirk in self.policy.quirks
            if quirk.skip or quirk.purge_methods or quirk.clear_methods
        )
        policy = dataclasses.replace(self.policy, limits=_ANY_LIMITS, quirks=quirks)
        return codec.digest([self.order_id, self.slot, self.generation, self.nonce, policy])


_ANY_LIMITS: Final = Limits(
    command=30.0, format=3600.0, sanitize=86400.0, stuck=900.0, poll=0.5, ready=60.0
)
"""In the place of a policy's own. Never to be changed, whatever the defaults become: journals have
the digest, and a case that an earlier release began would be begun anew."""


@dataclass(frozen=True)
class CaseProgress:
    """A look at a running case, replaced as a whole; only for people and their patience."""

    step: Step
    fraction: float
    detail: str
    pid: int
    sequence: int


class CaseFiles(CasePlace):
    """The files of one case, and what is in them."""

    @classmethod
    def of(cls, state_dir: Path, request: CaseRequest) -> CaseFiles:
        """The case of a request, ordered or stand-alone."""
        if request.order_id:
            return cls.of_order(state_dir, request.order_id)
        return cls.of_slot(state_dir, request.slot)

    @property
    def probe_key(self) -> Path:
        """32 secret bytes: whoever has them can forge a canary."""
        return self.directory / "probe.key"

    def fingerprints(self, nsid: int) -> Path:
        """Keyed digests of a namespace's blocks as the tenant left them; never their content."""
        return self.directory / f"fingerprints-{nsid}.bin"

    @property
    def verify_state(self) -> Path:
        """How far the reading has come."""
        return self.directory / "verify.json"

    def read_anew(self) -> None:
        """Forgets how far the reading had come: it read what stood before another erase."""
        self.verify_state.unlink(missing_ok=True)

    def format_result(self, place: int, attempt: int) -> Path:
        """What the detached child that sends one Format writes."""
        return self.directory / f"format-{place}-{attempt}.json"

    def change_result(self, number: int) -> Path:
        """The same of a command that rearranges the drive."""
        return self.directory / f"change-{number}.json"

    def runner_log(self) -> Path:
        """Where a new runner's words go. Raises ``OSError``."""
        log = self.directory / "runner.log"
        # One that dies each time is started again for as long as its order stands.
        if log.exists() and log.stat().st_size > MAX_LOG:
            log.replace(log.with_name("runner.log.1"))
        return log

    def make(self) -> None:
        """Makes the directories, durably. Raises :class:`BadInputError` where that fails."""
        try:
            for directory in (
                self.state_dir,
                self.state_dir / "reports",
                self.directory.parent,
                self.directory,
            ):
                make_directory(directory)
        except OSError as error:
            raise BadInputError(
                f"expected a state directory to write in, found {error.filename}: "
                f"{error.strerror}; give another with --state-dir"
            ) from error

    def clear(self) -> None:
        """Removes the case, the journal first: what stands without it means nothing."""
        if is_there(self.directory):
            self.sweep()
            shutil.rmtree(self.directory)
            sync_directory(self.directory.parent)

    def sweep(self) -> None:
        """Removes what an earlier case left, but not the request that asks for a new one."""
        # Synced before the rest is removed, for a journal that stands alone would be resumed.
        self.journal.unlink(missing_ok=True)
        sync_directory(self.directory)
        for path in self.directory.iterdir():
            if path.name not in ("request.json", "runner.log"):
                path.unlink()
        sync_directory(self.directory)

    def write_request(self, request: CaseRequest) -> None:
        """Keeps the request for whoever looks at the case."""
        replace_durably(self.directory / "request.json", codec.canonical(request) + b"\n")

    def request(self) -> CaseRequest:
        """The request as kept. Raises :class:`BadInputError`, also where there is none."""
        path = self.directory / "request.json"
        try:
            raw = path.read_bytes()
        except OSError as error:
            raise BadInputError(f"expected {path}, found none ({error.strerror})") from error
        return codec.load(CaseRequest, raw, "request.json")

    def write_progress(self, progress: CaseProgress) -> None:
        """Replaces the progress at once; not synced, nothing is decided on it."""
        path = self.directory / "progress.json"
        temporary = path.with_name(f".progress.{os.getpid()}.tmp")
        temporary.write_bytes(codec.canonical(progress) + b"\n")
        # A reader sees the old or the new progress, never a half of one.
        temporary.replace(path)

    def progress(self) -> CaseProgress | None:
        """The newest progress, None where there is none that can be read."""
        try:
            raw = (self.directory / "progress.json").read_bytes()
            return codec.load(CaseProgress, raw, "progress.json")
        except (OSError, BadInputError):
            # After a power loss the file may be empty: it was never synced and decides nothing.
            return None

    def report(self) -> EraseReport | None:
        """The report of a finished case. Raises :class:`BadInputError` where it is damaged."""
        try:
            raw = self.report_file.read_bytes()
        except FileNotFoundError:
            return None
        return codec.load(EraseReport, raw, "report.json")

    def ending(self) -> CaseEnding:
        """How a finished case ended, by as much of its report as every release reads. Raises
        :class:`BadInputError` where it is damaged."""
        return codec.load_part(CaseEnding, self.report_file.read_bytes(), "report.json")

    def write_report(self, report: EraseReport) -> Path:
        """Ends the case. Both copies are on the disk when this returns."""
        # This ends the case. A crash before the copy is made good when the report is taken.
        replace_durably(self.report_file, codec.canonical(report) + b"\n")
        return self.keep_report(report)

    def keep_report(self, report: EraseReport) -> Path:
        """The copy that stays when the case is removed; writing it again changes nothing."""
        path = self.kept_report(report)
        if not path.exists():
            replace_durably(path, codec.canonical(report) + b"\n")
        return path

    def kept_report(self, report: EraseReport) -> Path:
        """Where the copy of ``report`` stands."""
        return self.state_dir / "reports" / f"{codec.digest(report)}.json"


def by_hand(state_dir: Path, address: str) -> Iterator[CaseFiles]:
    """Erases of a slot by hand that were interrupted. One that cannot be read is nobody's: its slot
    is not known, and it must not keep the erase of every other slot."""
    for name in names(state_dir / "cases"):
        files = CaseFiles(state_dir, name)
        # Whatever cannot be read keeps guests away until a person has looked
        # (eraser.ownership.cases).
        with contextlib.suppress(BadInputError, OSError):
            if not files.interrupted():
                continue
            request = files.request()
            if not request.order_id and request.slot.address == address:
                yield files
