"""What a guest waits for when libvirt's hook asks the gate: the modules that are loaded for it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from eraser.gate import door
from eraser.gate.hookfile import HookSettings
from tests.unit.gate.world import World, domain, world
from tests.unit.ownership.parts import ADDRESS, MINE

__all__ = ["world"]

TOP = Path(__file__).resolve().parents[3]

OURS = """
eraser eraser.clock eraser.errors
eraser.controller eraser.controller.adminioctl eraser.controller.held eraser.controller.lock
eraser.controller.passthru eraser.controller.spec eraser.controller.unique
eraser.gate eraser.gate.admit eraser.gate.door eraser.gate.read_drives eraser.gate.rules
eraser.host eraser.host.children eraser.host.domains eraser.host.forked_child
eraser.host.proc eraser.host.sysfs
eraser.ownership eraser.ownership.audit eraser.ownership.cases eraser.ownership.counters
eraser.ownership.facts eraser.ownership.model eraser.ownership.revocation eraser.ownership.store
eraser.protocol eraser.protocol.codec eraser.protocol.errors eraser.protocol.hostcard
eraser.protocol.identity eraser.protocol.ticket eraser.protocol.verdict
eraser.state eraser.state.case_dir eraser.state.hostcard eraser.state.journal
"""
"""Orders, reports, policies, profiles, nvme-cli and the command line are not among them."""

SLOW = ("argparse", "asyncio", "logging", "socket", "ssl", "subprocess", "tempfile", "threading")
"""Of the standard library: each takes as long to load as a good part of a bare Python."""

PROBE = """
import sys
sys.path.append({top!r})
from eraser.gate.door import main
code = main("guest", {document!r}, {state!r}, {run!r}, 4.0)
print(code, *sorted(sys.modules))
"""


def test_a_start_loads_no_more_than_it_was_found_to_need(tmp_path: Path) -> None:
    """With a drive that is not there: the whole way but for the ioctl."""
    probe = PROBE.format(
        top=str(TOP), document=domain(ADDRESS), state=str(tmp_path / "s"), run=str(tmp_path / "r")
    )
    (tmp_path / "s").mkdir()
    argv = [sys.executable, "-IS", "-c", probe]
    done = subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60)
    code, *loaded = done.stdout.split()
    assert code == "11", done.stderr
    assert ADDRESS in done.stderr
    ours = {name for name in loaded if name.partition(".")[0] == "eraser"}
    assert sorted(ours - set(OURS.split())) == []
    assert [name for name in SLOW if name in loaded] == []
    third = {"cryptography", "celery", "oslo_config", "kombu", "pyudev", "qualify"}
    assert third.isdisjoint(loaded)


def test_the_door_says_in_one_line_why_it_stays_shut(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(door, "Host", lambda: world.host)
    world.certified()
    directories = (str(world.state), str(world.run))
    assert door.main("instance-1", domain(ADDRESS), *directories, 4.0) == 0
    assert capsys.readouterr() == ("", "")
    other = domain(ADDRESS, uuid="3" * 8 + MINE[8:], name="other")
    assert door.main("other", other, *directories, 4.0) == 11
    said = capsys.readouterr()
    assert said.err.startswith("nvme-eraser: refused the start of domain 'other': ")
    assert said.err.count("\n") == 1


def test_the_hook_finds_the_door_where_it_was_installed() -> None:
    settings = HookSettings("/usr/bin/python3", str(TOP), "/s", "/r")
    assert os.path.samefile(settings.door, door.__file__)
