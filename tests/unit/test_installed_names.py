"""What is installed on hosts names our modules by strings: these never change with a move.

A hook in libvirt's directory, a worker that runs while its package is replaced, unit files,
journals and messages under way are all older than the code that they meet.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import get_args

import pytest

from eraser.agent import conf
from eraser.agent.worker import Worker
from eraser.case import entries
from eraser.protocol import inbound, order, report, ticket
from eraser.protocol.conclusions import claim
from quarantine.evidence import certificate
from quarantine.evidence.chain import head
from quarantine.evidence.keys import rotation
from quarantine.service.inbound import oldqueue
from quarantine.service.issue import celery_app
from tests.lab import releases

TOP = Path(__file__).resolve().parents[2]

PROGRAMS = {"nvme-eraser": "eraser.cli", "nvme-quarantine": "quarantine.cli"}
"""Each console script's module."""

JOURNALED = """
Again Allocated Allocating AttemptOver Began Changing Drawn Fingerprinted Freed Identified
Inspected Intent Keyed Loosened Mapped MethodDone Narrowed Planned Planted Resumed Restored Risking
Revoked Seeded SeenRunning Sent Spent Unlocked Uprooted Verified Visited WasReset
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


@pytest.mark.parametrize(
    "start", sorted({start for name in releases.NAMES for start in releases.starts(name)})
)
def test_units_of_former_releases_call_what_there_is(start: str) -> None:
    """Each belongs to an operator, and outlives the package: it would fail for ever, every 2 s."""
    program, *words = shlex.split(start)
    argv = [sys.executable, "-m", PROGRAMS[Path(program).name], *words, "--help"]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert words[-1] in done.stdout or "--config-file" in words


@pytest.mark.parametrize(
    ("module", "words", "unit"),
    [
        ("eraser.cli", ["gate", "serve"], "nvme-eraser-gate"),
        ("quarantine.cli", ["listener"], "nvme-quarantine-listener"),
    ],
)
def test_what_a_unit_that_is_gone_called_says_so_and_waits_to_be_stopped(
    module: str, words: list[str], unit: str
) -> None:
    """These units have ``Restart=always``: a program that ends begins anew for ever."""
    argv = [sys.executable, "-m", module, *words]
    with subprocess.Popen(argv, cwd=TOP, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            assert f"systemctl disable --now {unit}" in line
            with pytest.raises(subprocess.TimeoutExpired):
                process.wait(0.3)
            process.terminate()
            assert process.wait(30) == 0
            assert process.stderr.read() == ""
        finally:
            process.kill()


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
    """A new kind is written down here too: from then on it is on disks."""
    assert set(entries._KINDS) == set(JOURNALED.split())
    assert {kind.__name__ for kind in get_args(entries.Entry)} == set(JOURNALED.split())


def test_types_of_signed_tokens_are_never_renamed() -> None:
    """They are signed with what they name: in files, on the way, and with whoever has a copy."""
    assert (order.ORDER_TYPE, report.REPORT_TYPE, ticket.TICKET_TYPE, ticket.RECEIPT_TYPE) == (
        "nvme-quarantine.erase-order+json",
        "nvme-quarantine.erase-report+json",
        "nvme-quarantine.ticket+json",
        "nvme-quarantine.ticket-receipt+json",
    )
    assert report.PROGRESS_TYPE == "nvme-quarantine.progress+json"
    assert report.HELLO_TYPE == "nvme-quarantine.hello+json"
    for kind in (claim.CERTIFICATE_TYPE, certificate.CERTIFICATE_TYPE):
        assert kind == "nvme-quarantine.certificate+json"
    assert head.HEAD_TYPE == "nvme-quarantine.head+json"
    assert rotation.ROTATION_TYPE == "nvme-quarantine.key-rotation+json"


def test_every_type_of_a_token_is_among_these() -> None:
    """One that is added is written down above too."""
    type_ = re.compile(r'"nvme-quarantine\.[a-z-]+\+json"')
    found = {
        literal
        for room in ("eraser", "quarantine")
        for path in (TOP / room).rglob("*.py")
        for literal in type_.findall(path.read_text())
    }
    assert found == set(type_.findall(Path(__file__).read_text()))
    assert len(found) == 9


def test_lists_of_messages_keep_their_names() -> None:
    """A host pushes under its version's name; the control plane takes under its own's."""
    assert {kind.name: inbound.key(kind, "compute-1") for kind in inbound.MessageKind} == {
        "REPORT": "quarantine:report:compute-1",
        "RECEIPT": "quarantine:receipt:compute-1",
        "BELL": "quarantine:bell:compute-1",
        "HELLO": "quarantine:hello:compute-1",
        "PROGRESS": "quarantine:progress:compute-1",
    }
