"""Where learned durations live on a host: one small file per model, firmware and method.

Losing them costs an estimate and nothing else, so nothing that goes wrong here reaches a case.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator
from pathlib import Path

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Method
from eraser.protocol.report import EraseReport, Outcome, Verdict
from eraser.state.durations import MAX_SECONDS, DurationSample, ModelDurations
from eraser.state.journal import replace_durably

LOG = logging.getLogger(__name__)

MAX_FILES = 256
"""Models times methods. A tenant that flashes new revisions cannot fill the disk."""

_TEXT = 40
"""Characters of a model number (Identify Controller bytes 63:24)."""


def _directory(state_dir: Path) -> Path:
    return state_dir / "durations"


def _path(state_dir: Path, vendor_id: int, model: str, firmware: str, method: Method) -> Path:
    return _directory(state_dir) / f"{codec.digest([vendor_id, model, firmware, method])}.json"


def load(
    state_dir: Path, identity: ControllerIdentity, firmware: str, method: Method
) -> ModelDurations | None:
    """What is known; None where nothing is, or it cannot be read."""
    return _read(_path(state_dir, identity.vendor_id, identity.model, firmware, method))


def rows(state_dir: Path) -> tuple[ModelDurations, ...]:
    """Everything that is known on this host."""
    directory = _directory(state_dir)
    if not directory.is_dir():
        return ()
    found = (_read(path) for path in sorted(directory.glob("*.json")))
    return tuple(row for row in found if row is not None)


def learn(state_dir: Path, report: EraseReport) -> None:
    """Takes in what a case proved. Only whole durations of erases that nobody doubts count."""
    identity, facts = report.identity, report.facts_before
    if (
        report.outcome is not Outcome.COMPLETED
        or report.verdict is not Verdict.ERASED
        or report.resumed
        or identity is None
        or facts is None
    ):
        return
    took: dict[Method, float] = {}
    for record in report.methods:
        if record.verdict is not Verdict.ERASED or record.adopted or record.attempts != 1:
            return
        # Several namespaces, or several rounds: the longest stands for the drive.
        took[record.method] = max(took.get(record.method, 0.0), record.seconds)
    try:
        with _locked(state_dir):
            for method, seconds in took.items():
                _add(state_dir, identity, facts.firmware, method, min(seconds, MAX_SECONDS))
            _prune(state_dir)
    except (OSError, ValueError) as error:
        LOG.warning("durations: not learned: %s", error)


def _add(
    state_dir: Path, identity: ControllerIdentity, firmware: str, method: Method, seconds: float
) -> None:
    path = _path(state_dir, identity.vendor_id, identity.model, firmware, method)
    row = _read(path) or ModelDurations(
        identity.vendor_id, identity.model[:_TEXT], firmware[:_TEXT], method
    )
    row = row.with_sample(DurationSample(identity.digest[:16], round(seconds, 3)))
    replace_durably(path, codec.canonical(row) + b"\n")


def _read(path: Path) -> ModelDurations | None:
    try:
        return codec.load(ModelDurations, path.read_bytes(), path.name)
    except FileNotFoundError:
        return None
    except (OSError, BadInputError) as error:
        LOG.warning("durations: passed over: %s", error)
        return None


def _prune(state_dir: Path) -> None:
    """The rows that were not added to for longest go."""
    paths = sorted(_directory(state_dir).glob("*.json"), key=lambda path: path.stat().st_mtime_ns)
    for path in paths[: max(0, len(paths) - MAX_FILES)]:
        path.unlink(missing_ok=True)


@contextlib.contextmanager
def _locked(state_dir: Path) -> Iterator[None]:
    """One writer at a time: several cases of a host may end at once."""
    directory = _directory(state_dir)
    directory.mkdir(mode=0o700, exist_ok=True)
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
