"""What is installed on hosts names our modules by strings: these never change with a move.

A hook in libvirt's directory, a worker that runs while its package is replaced, unit files,
journals and messages under way are all older than the code that they meet.
"""

from __future__ import annotations

import subprocess
import sys
from dataclasses import is_dataclass
from pathlib import Path

import pytest

from eraser.agent import conf
from eraser.agent.worker import Worker
from eraser.case import entries
from quarantine.service.inbound import oldqueue
from quarantine.service.issue import celery_app

TOP = Path(__file__).resolve().parents[2]

JOURNALED = """
Again Allocated Allocating AttemptOver Began Changing CommandEntry Drawn Fingerprinted Freed
Identified Inspected Intent Keyed MethodDone Planned Planted Resumed Restored Revoked Seeded
SeenRunning Sent Spent Unlocked Uprooted Verified Visited WasReset
"""
"""Kinds of entries in journals that hosts have on disk: a case goes on after an upgrade."""


@pytest.mark.parametrize(
    ("module", "words"),
    [
        ("eraser.cli", ["case", "--help"]),
        ("eraser.cli", ["gate", "--help"]),
        ("quarantine.cli", ["worker", "--help"]),
    ],
)
def test_running_daemons_start_the_new_code_by_the_old_words(module: str, words: list[str]) -> None:
    """A worker that was started before the upgrade spawns its runners by this name."""
    argv = [sys.executable, "-m", module, *words]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert words[0] in done.stdout


def test_console_scripts_and_option_files_keep_their_names() -> None:
    text = (TOP / "pyproject.toml").read_text()
    for line in (
        'nvme-quarantine = "quarantine.cli:main"',
        'nvme-eraser = "eraser.cli:main"',
        'quarantine = "quarantine.conf.opts:list_opts"',
        '"eraser.worker" = ',
    ):
        assert line in text
    assert conf.list_opts()


def test_tasks_and_old_messages_keep_their_names() -> None:
    assert (celery_app.ORDER_TASK, celery_app.TICKET_TASK) == ("eraser.order", "eraser.ticket")
    source = Path(sys.modules[Worker.__module__].__file__ or "").read_text()
    for task in ("eraser.order", "eraser.ticket", "eraser.tick"):
        assert f'"{task}"' in source
    assert oldqueue.NAME == "quarantine"


def test_kinds_of_journal_entries_are_never_renamed() -> None:
    known = {name for name, value in vars(entries).items() if is_dataclass(value)}
    assert set(JOURNALED.split()) <= known
