"""``nvme-eraser case``: one ordered case, in a process that the worker's death does not end."""

from __future__ import annotations

import argparse
import contextlib
import os
import time
from pathlib import Path

from eraser.case.run import run_case
from eraser.cli.output import read_file
from eraser.host.sysfs import Host
from eraser.media.reader import BlockDevice
from eraser.protocol import codec
from eraser.protocol.report import Step
from eraser.state.case_files import (
    DEFAULT_RUN_DIR,
    DEFAULT_STATE_DIR,
    CaseFiles,
    CaseProgress,
    CaseRequest,
)

_PAUSE = 0.2
"""Seconds between two writes of the progress file within one step."""


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--request", required=True, type=Path, metavar="FILE")
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
    parser.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")


def run(arguments: argparse.Namespace) -> int:
    """Ends with 0 when there is a report, whatever it says. Raises ``EraserError``."""
    request = codec.load(CaseRequest, read_file(arguments.request, "request"), "request")
    files = CaseFiles.of(arguments.state_dir, request)
    run_case(
        request,
        files,
        Host(),
        on_progress=ProgressFile(files),
        run_dir=arguments.run_dir,
        disk=BlockDevice,
    )
    return 0


class ProgressFile:
    """Replaces the case's progress file with every step, and now and then within one."""

    def __init__(self, files: CaseFiles) -> None:
        self._files = files
        self._sequence = 0
        self._step: Step | None = None
        self._at = 0.0

    def __call__(self, step: Step, fraction: float, detail: str) -> None:
        """Shows one look."""
        now = time.monotonic()
        if step is self._step and now - self._at < _PAUSE:
            return
        if not self._files.directory.is_dir():
            return  # waiting for the lock of a case that is not there yet
        self._sequence += 1
        self._step, self._at = step, now
        # It is for people alone: a disk that is full for a moment ends no erase by it.
        with contextlib.suppress(OSError):
            self._files.write_progress(
                CaseProgress(step, fraction, detail, os.getpid(), self._sequence)
            )
