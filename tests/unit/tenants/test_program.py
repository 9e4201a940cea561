"""The command line: what it says, and its exit code."""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path

import pytest
from nvme_raid import program
from nvme_raid.errors import RaidError
from nvme_raid.model import Machine, Wish
from nvme_raid.steps import Assemble, MakeXfs, Step

from tests.unit.tenants.simulated import Simulated, fresh


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Simulated:
    simulated = Simulated(fresh(2))
    monkeypatch.setattr(program, "locked", lambda make: contextlib.nullcontext())
    monkeypatch.setattr(program, "look", simulated.look)
    monkeypatch.setattr(program, "act", simulated.act)
    return simulated


def test_a_run_says_its_steps_and_the_next_that_there_are_none(
    machine: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.set_drive("nvme1n1", size=2 << 30)

    assert program.main(["--drives", "2"]) == program.DONE
    first = capsys.readouterr()
    assert first.out.startswith("create /dev/md/nvme: RAID 0 of /dev/nvme0n1, /dev/nvme1n1\n")
    assert "nvme-raid: note: the drives differ in size" in first.err
    assert program.main(["--drives", "2"]) == program.DONE
    second = capsys.readouterr()
    assert second.out == "nothing to do: /dev/md/nvme is mounted on /mnt/nvme\n"
    assert program.main(["--drives", "2", "-f", "json"]) == program.DONE
    assert json.loads(capsys.readouterr().out)["warnings"] == []


def test_no_mount_options_are_none_as_with_the_role(machine: Simulated) -> None:
    assert program.main(["--drives", "2", "--options", ""]) == program.DONE
    assert " xfs nofail,x-systemd" in (machine.machine.text("/etc/fstab") or "")
    assert program.main(["--drives", "2", "--options", "noatime,"]) == program.REFUSED


def test_a_refusal_says_what_was_done_before_it(
    machine: Simulated, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program.main(["--drives", "2"])
    machine.unmount()
    machine.set(arrays=())
    for name in ("nvme0n1", "nvme1n1"):
        machine.set_drive(name, holders=(), busy=False)
    capsys.readouterr()

    def act(step: Step) -> None:
        machine.act(step)
        if isinstance(step, Assemble):
            machine.set_array(filesystem=None, signatures=("LVM2_member",))

    monkeypatch.setattr(program, "act", act)

    assert program.main(["--drives", "2"]) == program.REFUSED
    said = capsys.readouterr().err.splitlines()
    assert said[0] == (
        "nvme-raid: refused, after this was done: "
        "assemble /dev/md/nvme of /dev/nvme0n1, /dev/nvme1n1"
    )
    assert said[1].startswith("nvme-raid: refused: expected /dev/md127 to hold our XFS")
    assert program.main(["--drives", "2"]) == program.REFUSED
    assert [line[:19] for line in capsys.readouterr().err.splitlines()] == ["nvme-raid: refused:"]


def test_what_fails_is_no_refusal(
    monkeypatch: pytest.MonkeyPatch, machine: Simulated, capsys: pytest.CaptureFixture[str]
) -> None:
    def look(wish: Wish) -> None:
        raise RaidError("expected blkid to look")

    monkeypatch.setattr(program, "look", look)

    assert program.main(["--drives", "2"]) == program.FAILED
    assert capsys.readouterr().err == "nvme-raid: expected blkid to look\n"


def test_another_run_that_does_not_end_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(program, "LOCK_SECONDS", 0.5)
    path = str(tmp_path / "lock")
    named = f"'fuser {path}' names it"
    with program.locked(path), pytest.raises(RaidError, match=named), program.locked(path):
        pass
    with program.locked(path):
        pass


def test_check_mode_writes_nothing_also_no_lock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    simulated = Simulated(fresh(2))
    path = tmp_path / "lock"
    monkeypatch.setattr(program, "LOCK_SECONDS", 0.1)
    monkeypatch.setattr(program, "LOCK", str(path))
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(program, "look", simulated.look)
    monkeypatch.setattr(program, "act", simulated.act)
    assert program.main(["--drives", "2", "--check"]) == program.DONE
    assert not path.exists()
    with program.locked():
        assert program.main(["--drives", "2", "--check"]) == program.FAILED, "another one is at it"
    assert program.main(["--drives", "2"]) == program.DONE
    assert path.exists()


@pytest.mark.parametrize("where", ["step", "look"])
def test_a_failure_says_what_was_done_before_it(
    machine: Simulated,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    where: str,
) -> None:
    def act(step: Step) -> None:
        if isinstance(step, MakeXfs):
            raise RaidError("expected mkfs.xfs to succeed")
        machine.act(step)

    def look(wish: Wish) -> Machine:
        if where == "look" and machine.machine.arrays:
            raise RaidError("expected blkid to look")
        return machine.machine

    monkeypatch.setattr(program, "act", act)
    monkeypatch.setattr(program, "look", look)

    assert program.main(["--drives", "2"]) == program.FAILED
    first, second = capsys.readouterr().err.splitlines()
    assert first == (
        "nvme-raid: failed, after this was done: "
        "create /dev/md/nvme: RAID 0 of /dev/nvme0n1, /dev/nvme1n1"
    )
    assert second.startswith("nvme-raid: expected ")
