"""Who has a drive open and keeps nobody else out: what O_EXCL does not see."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from nvme_raid import look, openers
from nvme_raid.model import Filesystem, Member, Running
from nvme_raid.sysfs import Sysfs

from tests.unit.tenants.simulated import drive
from tests.unit.tenants.test_machine import controller, disk, put

ZERO = os.stat("/dev/zero").st_rdev
HOLD = (
    "import sys, time; held = open('/dev/zero'); print(flush=True); time.sleep(float(sys.argv[1]))"
)


@pytest.fixture
def holder() -> Iterator[int]:
    with subprocess.Popen([sys.executable, "-c", HOLD, "60"], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        yield child.pid
        child.kill()


def test_a_process_that_has_the_device_open_is_named(holder: int) -> None:
    found = openers.openers({(False, ZERO): "nvme0n1", (True, ZERO): "nvme1n1"})

    assert any(text.endswith(f" (process {holder})") for text in found["nvme0n1"])
    assert "nvme1n1" not in found


def test_who_passes_by_is_waited_for_and_who_stays_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """udev and blkid look at a drive for a moment, also while we do."""
    clock = [100.0]
    asked: list[list[str]] = []

    def openers_then(numbers: openers.Numbers) -> dict[str, tuple[str, ...]]:
        asked.append(sorted(numbers.values()))
        passing = {"nvme0n1": ("blkid (process 7)",)} if clock[0] < 100.4 else {}
        return {**passing, "nvme1n1": ("qemu (process 8)",)}

    monkeypatch.setattr(openers, "openers", openers_then)
    monkeypatch.setattr(openers.time, "monotonic", lambda: clock[0])
    monkeypatch.setattr(
        openers.time, "sleep", lambda seconds: clock.__setitem__(0, clock[0] + seconds)
    )

    found = openers.lasting({(True, n + 1): f"nvme{n}n1" for n in range(3)})

    # Somebody went, who may have written to nvme0n1.
    assert found == ({"nvme1n1": ("qemu (process 8)",)}, True)
    # A drive that nobody had for one moment is free of them.
    assert asked[0] == ["nvme0n1", "nvme1n1", "nvme2n1"]
    assert asked[-1] == ["nvme1n1"]
    assert 5 < clock[0] - 100 < 6
    monkeypatch.setattr(openers, "openers", lambda numbers: {})
    start = clock[0]
    assert openers.lasting({(True, 1): "nvme0n1"}) == ({}, False)
    assert clock[0] == start
    assert len(asked) > 4


def test_a_process_that_ends_while_we_look_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "7").mkdir()
    put(tmp_path, "8/comm", "qemu\x1b[31m\n")
    (tmp_path / "8/fd").mkdir()
    (tmp_path / "8/fd/3").symlink_to("/no/such/node")
    (tmp_path / "8/fd/4").symlink_to("/dev/zero")
    (tmp_path / "8/fd/5").symlink_to("socket:[1]")
    (tmp_path / "self").mkdir()

    assert openers.openers({(False, ZERO): "x"}, tmp_path) == {"x": ("qemu?[31m (process 8)",)}


def test_a_process_whose_first_thread_has_ended_is_seen(tmp_path: Path) -> None:
    """Its /proc/PID/fd is empty; its other threads have the drive open all the same."""
    put(tmp_path, "8/comm", "writer\n")
    (tmp_path / "8/fd").mkdir()
    (tmp_path / "8/task/8/fd").mkdir(parents=True)
    (tmp_path / "8/task/9/fd").mkdir(parents=True)
    (tmp_path / "8/task/9/fd/3").symlink_to("/dev/zero")

    assert openers.openers({(False, ZERO): "x"}, tmp_path) == {"x": ("writer (process 8)",)}


def test_a_namespace_is_open_by_its_character_device_too(tmp_path: Path) -> None:
    """io_uring's passthrough goes there, past every claim on the disk."""
    for name in ("nvme0n1", "md127"):
        disk(tmp_path, name, "pci/nvme0" if name == "nvme0n1" else "virtual")
    put(tmp_path, "sys/devices/pci/nvme0/nvme0n1/dev", "259:0\n")
    put(tmp_path, "sys/devices/virtual/md127/dev", "9:127\n")
    put(tmp_path, "sys/class/nvme-generic/ng0n1/dev", "238:0\n")
    sysfs = Sysfs(tmp_path)

    assert sysfs.nodes("nvme0n1") == ((True, os.makedev(259, 0)), (False, os.makedev(238, 0)))
    assert sysfs.nodes("md127") == ((True, os.makedev(9, 127)),)
    assert sysfs.nodes("nvme1n1") == ()


def test_only_what_something_may_be_made_on_is_asked_about() -> None:
    """A mounted array's members may be open to whom they like: nothing is made on them."""
    free, foreign, system = drive(0), drive(1, signatures=("ext4",)), drive(2, system=True)
    member = drive(3, member=Member("u", "nvme", 0, 1, 0, 0))
    ours = Filesystem("u", "nvme", 0, 0, 0)
    array = Running("md127", members=("nvme3n1",), filesystem=ours)
    drives = (free, foreign, system, member, drive(4, filesystem=ours))
    asked = {"nvme0n1", "nvme1n1", "nvme3n1", "nvme4n1"}

    assert look._maybe_made_on(drives, (array,), asked) == ["nvme0n1"]
    for filesystem in (None, replace(ours, unfinished=True)):
        bare = replace(array, filesystem=filesystem)
        assert look._maybe_made_on(drives, (bare,), asked) == ["nvme0n1", "nvme3n1", "md127"]
    half = drive(0, filesystem=replace(ours, unfinished=True))
    assert look._maybe_made_on((half,), (), asked) == ["nvme0n1"]
    # Whoever has a drive that was not asked for is not waited for.
    assert look._maybe_made_on((half, drive(5)), (), {"nvme5n1"}) == ["nvme5n1"]
    assert look._maybe_made_on(drives, (bare,), {"nvme0n1"}) == ["nvme0n1"]


def loop(root: Path, name: str, backing: str) -> None:
    disk(root, name, "virtual")
    put(root, f"sys/devices/virtual/{name}/loop/backing_file", backing + "\n")


def test_a_loop_device_over_a_drive_and_an_export_are_seen(tmp_path: Path) -> None:
    controller(tmp_path, "pci/nvme0")
    disk(tmp_path, "nvme0n1", "pci/nvme0")
    disk(tmp_path, "nvme0n12", "pci/nvme0")
    put(tmp_path, "dev/nvme0n1")
    put(tmp_path, "srv/nvme0n1")
    (tmp_path / "dev/by-id").mkdir()
    (tmp_path / "dev/by-id/x").symlink_to("../nvme0n1")
    loop(tmp_path, "loop0", "/srv/nvme0n1")
    loop(tmp_path, "loop1", "/dev/nvme0n1")
    loop(tmp_path, "loop2", "/dev/nvme0n1 (deleted)")
    loop(tmp_path, "loop3", "/dev/nvme0n12")
    for name, path in (("a", "/dev/by-id/x"), ("b", "/dev/vda"), ("c", "(null)")):
        put(tmp_path, f"sys/kernel/config/nvmet/subsystems/{name}/namespaces/1/device_path", path)

    assert Sysfs(tmp_path).exports("nvme0n1") == (
        "loop1",
        "loop2",
        "nvmet's namespace 1 of a",
    )


def test_a_loop_device_over_another_node_of_the_drive_is_seen(tmp_path: Path) -> None:
    """mknod makes as many as one likes; the numbers are what counts."""
    if os.geteuid() != 0:
        pytest.skip("only root makes device nodes")
    disk(tmp_path, "nvme0n1", "pci/nvme0")
    put(tmp_path, "sys/devices/pci/nvme0/nvme0n1/dev", "259:4095\n")
    node = tmp_path / "srv/node"
    node.parent.mkdir()
    try:
        os.mknod(node, 0o060600, os.makedev(259, 4095))
    except OSError as error:
        pytest.skip(f"no device nodes here: {error.strerror}")
    loop(tmp_path, "loop1", "/srv/node")

    assert Sysfs(tmp_path).exports("nvme0n1") == ("loop1",)
