"""One worker per slot, and nobody else at the drive."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from eraser.controller.adminqueue import AdminQueue
from eraser.controller.lock import NamespaceHold, SlotLock, exclusive
from eraser.controller.nvme import Controller
from eraser.controller.passthru import SANITIZE
from eraser.errors import BusyError, DriveError, InUseError
from eraser.host import sysfs
from eraser.host.sysfs import Host, Node

ADDRESS = "0000:01:00.0"


def test_a_locked_slot_names_its_holder(tmp_path: Path) -> None:
    first, second = SlotLock(ADDRESS, tmp_path / "run"), SlotLock(ADDRESS, tmp_path / "run")
    with first:
        with pytest.raises(BusyError, match=f"process {os.getpid()}"):
            second.acquire()
        SlotLock("0000:02:00.0", tmp_path / "run").acquire()
        assert not second.held
    second.acquire()
    assert second.held
    with pytest.raises(BusyError):
        first.fd  # noqa: B018 - the property raises


def test_a_full_disk_keeps_no_slot_locked(tmp_path: Path) -> None:
    """The worker locks each slot for a moment, again and again: a lock that it lost sight of would
    be held until it ends."""
    lock = SlotLock(ADDRESS, tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, limits[1]))
    try:
        with pytest.raises(OSError, match="large"):
            (tmp_path / "nothing fits").write_text("x")
        lock.acquire()
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert lock.held
    lock.release()
    SlotLock(ADDRESS, tmp_path).acquire()


def test_a_child_holds_the_slot_after_its_parent_let_go(tmp_path: Path) -> None:
    lock = SlotLock(ADDRESS, tmp_path)
    lock.acquire()
    child = subprocess.Popen(
        [sys.executable, "-c", "input()"], stdin=subprocess.PIPE, pass_fds=[lock.share()]
    )
    try:
        lock.release()
        with pytest.raises(BusyError):
            SlotLock(ADDRESS, tmp_path).acquire()
    finally:
        child.communicate(b"\n")
    SlotLock(ADDRESS, tmp_path).acquire()


def test_a_caller_that_is_killed_leaves_no_command_behind_while_the_slot_is_free(
    tmp_path: Path,
) -> None:
    """nvme-cli that is slow to start opens the drive by a name, which may be another's by then."""
    nvme, ready, go = tmp_path / "nvme", tmp_path / "ready", tmp_path / "go"
    nvme.write_text(
        "#!/bin/sh\n[ $1 = version ] && exit 0\n"
        f": > {ready}\nuntil [ -e {go} ]; do sleep 0.05; done\n"
    )
    nvme.chmod(0o755)
    node = tmp_path / "nvme5"
    node.write_text("")
    caller = os.fork()
    if not caller:
        with contextlib.suppress(BaseException):
            lock = SlotLock(ADDRESS, tmp_path / "run")
            lock.acquire()
            queue = AdminQueue(Host(nvme=str(nvme)), ADDRESS, str(node), timeout=30)
            queue.keeps = (lock.fd, os.open(node, os.O_RDONLY))
            queue.admin(SANITIZE, cdw10=2, timeout=30)
        os._exit(0)
    deadline = time.monotonic() + 60
    while not ready.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    os.kill(caller, signal.SIGKILL)
    os.waitpid(caller, 0)
    try:
        with pytest.raises(BusyError):
            SlotLock(ADDRESS, tmp_path / "run").acquire()
    finally:
        go.touch()  # whatever came of it, the program ends
    while time.monotonic() < deadline:
        with contextlib.suppress(BusyError), SlotLock(ADDRESS, tmp_path / "run"):
            break
        time.sleep(0.05)
    else:
        raise AssertionError("expected the slot to be free once nvme-cli has ended")


def test_a_directory_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "run").write_text("")
    with pytest.raises(DriveError, match="expected to open the lock"):
        SlotLock(ADDRESS, tmp_path / "run").acquire()


@pytest.fixture
def loop(tmp_path: Path) -> Iterator[Node]:
    """A real block device, so that the kernel's own claims are what is tested."""
    if os.geteuid() != 0:
        pytest.skip("needs root for a loop device")
    (tmp_path / "image").write_bytes(bytes(1 << 20))
    made = subprocess.run(
        ["losetup", "--find", "--show", str(tmp_path / "image")],
        capture_output=True,
        text=True,
        check=False,
    )
    if made.returncode != 0:
        pytest.skip(f"no loop device here: {made.stderr.strip()}")
    path = Path(made.stdout.strip())
    rdev = path.stat().st_rdev
    try:
        yield Node(path.name, os.major(rdev), os.minor(rdev), block=True)
    finally:
        subprocess.run(["losetup", "--detach", str(path)], check=True)


class OneDisk(Controller):
    """A controller whose only disk is a loop device."""

    def __init__(self, node: Node) -> None:
        self.function = sysfs.PciFunction(Host(), ADDRESS)
        self.node = node

    def block_nodes(self) -> dict[int, Node]:
        return {1: self.node}


def test_a_held_disk_can_be_claimed_and_probed_by_nobody_else(loop: Node) -> None:
    hold = NamespaceHold(OneDisk(loop), patience=0)
    with hold:
        assert hold.claimed == {loop.name}
        assert hold.paths == {1: f"/dev/{loop.name}"}
        with pytest.raises(OSError, match="busy") as caught:
            os.close(os.open(f"/dev/{loop.name}", os.O_RDONLY | os.O_EXCL))
        assert caught.value.errno == errno.EBUSY
        with open(f"/dev/{loop.name}", "rb") as probe, pytest.raises(BlockingIOError):
            fcntl.flock(probe, fcntl.LOCK_SH | fcntl.LOCK_NB)
        with pytest.raises(InUseError, match="found it claimed"):
            NamespaceHold(OneDisk(loop), patience=0).take()
    assert hold.claimed == frozenset()
    NamespaceHold(OneDisk(loop), patience=0).take().close()


def test_udevs_probing_is_waited_for_and_no_longer(
    loop: Node, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as probing:
        probe = probing.enter_context(open(f"/dev/{loop.name}", "rb"))
        fcntl.flock(probe, fcntl.LOCK_SH)
        with pytest.raises(InUseError):
            NamespaceHold(OneDisk(loop), patience=0).take()
        monkeypatch.setattr(time, "sleep", lambda _seconds: probing.close())
        NamespaceHold(OneDisk(loop), patience=60).take().drop()


def test_a_write_protected_disk_can_be_held(loop: Node) -> None:
    subprocess.run(["blockdev", "--setro", f"/dev/{loop.name}"], check=True)
    os.close(exclusive(Host(), loop))


def test_the_device_behind_the_name_must_be_the_disk(loop: Node) -> None:
    with pytest.raises(DriveError, match="found another"):
        exclusive(Host(), Node(loop.name, loop.major, loop.minor + 1, block=True))
