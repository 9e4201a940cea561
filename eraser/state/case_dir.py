"""Where a case lives on the host's disk. Every name is a digest: a serial is 20 hostile bytes.

``STATE_DIR/cases/<key>/`` holds what a resumed case needs; ``STATE_DIR/reports/`` keeps reports by
their own digests, for ``[worker]keep_reports`` days. A finished case stays until whoever started it
has taken the report.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.verdict import Outcome, Verdict

DEFAULT_STATE_DIR = Path("/var/lib/nvme-eraser")
DEFAULT_RUN_DIR = Path("/run/nvme-quarantine")
"""Shared by eraser and gate: the slot locks."""


@dataclass(frozen=True)
class CaseEnding:
    """What the gate needs of a case's report; the rest of it is long, and a guest waits."""

    outcome: Outcome
    verdict: Verdict
    fit: bool
    identity: ControllerIdentity | None


class CasePlace:
    """The directory of one case, and whether the case has ended."""

    def __init__(self, state_dir: Path, key: str) -> None:
        self.state_dir = state_dir
        self.key = key
        self.directory = state_dir / "cases" / key

    @classmethod
    def of_order(cls, state_dir: Path, order_id: str) -> Self:
        """The case of an order."""
        return cls(state_dir, codec.digest(["order", order_id]))

    @classmethod
    def of_slot(cls, state_dir: Path, slot: Slot) -> Self:
        """The stand-alone case of a slot."""
        return cls(state_dir, codec.digest(["stand-alone", slot]))

    @property
    def journal(self) -> Path:
        """The journal (:mod:`eraser.state.journal`)."""
        return self.directory / "journal.jsonl"

    def finished(self) -> bool:
        """Whether the case has ended with a report. Raises ``OSError`` where nobody can tell."""
        return is_there(self.report_file)

    def interrupted(self) -> bool:
        """Whether the case was begun and has not ended. Raises ``OSError`` as :meth:`finished`."""
        return is_there(self.journal) and not self.finished()

    @property
    def report_file(self) -> Path:
        """The report of a finished case."""
        return self.directory / "report.json"


def is_there(path: Path, *, as_link: bool = False) -> bool:
    """Unlike ``Path.exists``, which takes whatever cannot be looked at for absent from Python 3.14
    on. ``as_link``: also a link that leads nowhere is there. Raises ``OSError``."""
    try:
        path.stat(follow_symlinks=not as_link)
    except (FileNotFoundError, NotADirectoryError):
        return False
    return True


def names(directory: Path) -> tuple[str, ...]:
    """What stands in ``directory``, sorted; nothing where it is not there. Unlike ``Path.glob``,
    which takes one that cannot be listed for empty from Python 3.13 on. Raises ``OSError``."""
    try:
        return tuple(sorted(os.listdir(directory)))
    except FileNotFoundError:
        return ()
