"""Who has a drive open, on this very machine: what keeps a look, and what hides from one."""

from __future__ import annotations

import errno
import gc
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from eraser.errors import InUseError
from eraser.host import bounded, kcmp, openers, statx
from eraser.host.children import CHILDREN
from eraser.host.sysfs import Host
from tests.unit.host.silentfs import silent_file

ZERO = (False, os.stat("/dev/zero").st_rdev)
HERE = Host()

UNSHARED = """
import ctypes, os, sys, threading, time
def hide():
    assert ctypes.CDLL(None).unshare(0x400) == 0, "CLONE_FILES"
    os.open("/dev/zero", os.O_RDONLY)
    print(flush=True)
    time.sleep(60)
threading.Thread(target=hide, daemon=True).start()
time.sleep(60)
"""


def test_a_device_node_is_known_by_its_numbers(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/dev/zero")
    (tmp_path / "file").touch()
    assert statx.device(Path("/dev/zero")) == ZERO
    assert statx.device(tmp_path / "link") == ZERO
    assert statx.device(tmp_path / "file") is None
    assert statx.device(tmp_path) is None
    with pytest.raises(FileNotFoundError):
        statx.device(tmp_path / "nothing")


def test_our_own_descriptors_are_seen() -> None:
    with open("/dev/zero", "rb"):
        [found] = openers.openers(HERE, [os.getpid()], frozenset({ZERO}), frozenset())
    assert (found.pid, found.target, found.device) == (os.getpid(), "/dev/zero", ZERO)
    assert not openers.openers(HERE, [os.getpid()], frozenset({ZERO}), frozenset())


def test_a_thread_with_descriptors_of_its_own_is_seen() -> None:
    with subprocess.Popen([sys.executable, "-c", UNSHARED], stdout=subprocess.PIPE) as child:
        try:
            assert child.stdout is not None
            child.stdout.readline()
            found = openers.openers(HERE, [child.pid], frozenset({ZERO}), frozenset())
        finally:
            child.kill()
    assert [each.target for each in found] == ["/dev/zero"]


def test_threads_that_share_their_descriptors_are_looked_at_once() -> None:
    assert kcmp.same_files(os.getpid(), os.getpid())
    assert not kcmp.same_files(os.getpid(), 1)


@pytest.mark.parametrize("owner", [0, 65534], ids=["silent", "another user's"])
def test_a_file_on_a_dead_mount_keeps_no_look(tmp_path: Path, owner: int) -> None:
    """Mounted lazily off: its name tells nothing any more, and its server does not answer."""
    with silent_file(tmp_path, owner) as holder:
        found = openers.openers(HERE, [holder], frozenset({ZERO}), frozenset(), seconds=5)
    assert found == []


def test_what_keeps_a_look_all_the_same_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statx, "device", lambda _path: time.sleep(60))
    with pytest.raises(InUseError, match=rf"cannot prove idle.*process {os.getpid()} \("):
        openers.openers(HERE, [os.getpid()], frozenset({ZERO}), frozenset(), seconds=0.3)


@pytest.mark.parametrize("number", [errno.EACCES, errno.ESTALE, errno.ENOTCONN, errno.ENOENT])
def test_a_file_that_its_server_keeps_from_us_is_no_device(
    monkeypatch: pytest.MonkeyPatch, number: int
) -> None:
    def refuse(_path: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(statx, "device", refuse)
    assert openers.openers(HERE, [os.getpid()], frozenset({ZERO}), frozenset()) == []


def test_any_other_error_counts_as_use(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_path: object) -> None:
        raise OSError(errno.ENOMEM, "no memory")

    monkeypatch.setattr(statx, "device", fail)
    with pytest.raises(InUseError, match="no memory; run as root"):
        openers.openers(HERE, [os.getpid()], frozenset({ZERO}), frozenset())


def test_a_child_that_dies_has_said_nothing() -> None:
    def die(at: object) -> None:
        os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(bounded.StuckError):
        bounded.done_alone(CHILDREN, die, 5)


def test_a_long_answer_comes_whole() -> None:
    assert bounded.done_alone(CHILDREN, lambda _at: ["x" * 1_000_000], 5) == ["x" * 1_000_000]


@pytest.fixture
def machine(tmp_path: Path) -> Path:
    """One process with two files open; the kernel gave VFIO the numbers of memory devices."""
    (tmp_path / "proc/50/fd").mkdir(parents=True)
    (tmp_path / "proc/50/fdinfo").mkdir()
    (tmp_path / "proc/50/mountinfo").write_text(
        "30 22 8:1 / / rw - ext4 /dev/sda1 rw\n31 30 0:20 / /sys rw - sysfs sysfs rw\n"
    )
    (tmp_path / "proc/devices").write_text("Character devices:\n  1 vfio\n\nBlock devices:\n")
    return tmp_path


def _held(machine: Path, name: str, leads_to: str | None) -> bool:
    """Whether the process counts that has a file of that name open; a plain file, or a device."""
    file = machine / name
    file.parent.mkdir(parents=True, exist_ok=True)
    if leads_to is None:
        file.touch()
    else:
        file.symlink_to(leads_to)
    (machine / "proc/50/fd/3").symlink_to(file)
    names = frozenset({"/vfio/9", "/0000:01:00.0/resource0"})
    return bool(openers.openers(Host(machine), [50], frozenset(), names))


@pytest.mark.parametrize("leads_to", [None, "/", "/dev/tty"], ids=["file", "directory", "device"])
def test_a_file_that_is_only_called_like_vfio_is_not_held(
    machine: Path, leads_to: str | None
) -> None:
    """Any user may have one, with any device of the host mounted over it by that name."""
    assert not _held(machine, "home/ada/vfio/9", leads_to)


def test_a_vfio_device_that_sysfs_knows_no_more_is_held_by_its_name(machine: Path) -> None:
    assert _held(machine, "dev/vfio/9", "/dev/zero")


@pytest.mark.parametrize(
    ("mount", "held"), [("30", False), ("31", True), ("99", True)], ids=["disk", "sysfs", "gone"]
)
def test_a_pci_resource_is_known_by_the_file_system_that_it_is_on(
    machine: Path, mount: str, held: bool
) -> None:
    (machine / "proc/50/fdinfo/3").write_text(f"pos:\t0\nmnt_id:\t{mount}\nino:\t116\n")
    assert _held(machine, "home/0000:01:00.0/resource0", None) is held


def test_a_thread_that_ended_hides_no_other_one(tmp_path: Path) -> None:
    """It was listed, and its table was gone before that could be read."""
    nobody = 1 << 23  # above the kernel's largest process number
    tasks = tmp_path / f"proc/{nobody}/task"
    (tmp_path / f"proc/{nobody}/fd").mkdir(parents=True)
    (tasks / str(nobody + 1)).mkdir(parents=True)
    (tasks / str(nobody + 2) / "fd").mkdir(parents=True)
    (tasks / str(nobody + 2) / "fd/3").symlink_to("/dev/zero")
    found = openers.openers(Host(tmp_path), [nobody], frozenset({ZERO}), frozenset())
    assert [each.target for each in found] == ["/dev/zero"]


def test_half_an_answer_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("json.dumps", lambda _found: "[1, ")
    with pytest.raises(bounded.StuckError):
        bounded.done_alone(CHILDREN, lambda _at: [1, 2], 5)


def test_no_child_at_all_leaves_nothing_open(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_child() -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr(os, "fork", no_child)
    gc.collect()  # else what earlier tests forgot may be closed between the two counts
    before = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match="no more processes"):
        bounded.done_alone(CHILDREN, lambda _at: 1, 1.0)
    assert len(os.listdir("/proc/self/fd")) <= before
