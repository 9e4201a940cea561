"""What may be written to: real devices (loop), real files, and a machine that is played."""

from __future__ import annotations

import os
import random
import struct
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from qualify.errors import BadInputError, BenchError, TargetInUseError
from qualify.fio.workload import MIB, Place
from qualify.host import inuse, target
from qualify.host.system import System
from tests.unit.qualify.conftest import Loop


class Visible(System):
    """This machine, a stand-in in one thing: a sandbox may hide what processes outside of it have
    open even from root, and then nothing could ever be written to."""

    def children(self, name: str) -> list[str]:
        found = super().children(name)
        return [pid for pid in found if _readable(pid)] if name == "/proc" else found


def _readable(pid: str) -> bool:
    try:
        for number in os.listdir(f"/proc/{pid}/fd"):
            os.readlink(f"/proc/{pid}/fd/{number}")
    except PermissionError:
        return False
    except OSError:
        pass  # no process, or one that ended
    return True


def take(path: str, *, readonly: bool = False, overwrite: bool = True, size: int = MIB) -> Place:
    with target.held(
        target.look(path), size, readonly=readonly, overwrite=overwrite, system=Visible()
    ) as place:
        return place


def run(*argv: str) -> None:
    subprocess.run(argv, check=True, capture_output=True)


def test_an_empty_device_that_may_be_overwritten(loop: Loop) -> None:
    device = loop(8)
    seen = target.look(device)

    assert (seen.kind, seen.capacity, seen.path) == (target.DEVICE, 8 * MIB, device)
    assert take(device) == Place(device, MIB)
    with pytest.raises(BadInputError, match="--overwrite"):
        take(device, overwrite=False)


def test_a_link_leads_to_the_device(loop: Loop, tmp_path: Path) -> None:
    device = loop(8)
    link = tmp_path / "disk"
    link.symlink_to(device)

    assert target.look(str(link)).path == device


SIGNED = {
    "ext4": ["mkfs.ext4", "-q"],
    "swap": ["mkswap"],
}


@pytest.mark.parametrize("kind", SIGNED)
def test_a_signature_is_refused_even_where_overwriting_is_allowed(loop: Loop, kind: str) -> None:
    device = loop(8)
    run(*SIGNED[kind], device)

    with pytest.raises(TargetInUseError, match=f"it holds {kind}"):
        take(device)
    assert take(device, readonly=True).readonly


def test_a_partition_table(loop: Loop) -> None:
    """With one partition of type 83h from sector 2048, as on paper: the MBR's table at 446."""
    device = loop(8)
    entry = struct.pack("<B3sB3sII", 0, bytes(3), 0x83, bytes(3), 2048, 8192)
    with open(device, "wb") as raw:
        raw.write(bytes(446) + entry + bytes(48) + b"\x55\xaa")

    with pytest.raises(TargetInUseError, match="it holds dos"):
        take(device)


def test_noise_is_a_freshly_erased_drive(loop: Loop) -> None:
    """What a crypto erase leaves: no signature, so nothing that is lost."""
    device = loop(8)
    with open(device, "wb") as raw:
        raw.write(random.Random(7).randbytes(8 * MIB))

    assert take(device) == Place(device, MIB)


def test_a_mounted_device(loop: Loop, tmp_path: Path) -> None:
    device, point = loop(8), tmp_path / "mnt"
    point.mkdir()
    run("mkfs.ext4", "-q", device)
    if subprocess.run(["mount", device, str(point)], capture_output=True).returncode != 0:
        pytest.skip("mounting is not allowed here")
    try:
        with pytest.raises(TargetInUseError, match=f"is mounted at {point}"):
            take(device)
        assert take(device, readonly=True).readonly
    finally:
        run("umount", str(point))


def test_a_device_that_another_process_has_open(loop: Loop) -> None:
    device = loop(8)
    with subprocess.Popen(["sleep", "60"], stdin=os.open(device, os.O_RDONLY)) as other:
        try:
            with pytest.raises(
                TargetInUseError, match=rf"process {other.pid} \(sleep\) has it open"
            ):
                take(device)
        finally:
            other.kill()


LEFT = """
import ctypes, threading, time
def work():
    time.sleep(0.2)
    print(flush=True)
    time.sleep(60)
threading.Thread(target=work).start()
ctypes.CDLL(None).pthread_exit(None)
"""


def test_a_device_that_a_process_without_its_first_thread_has_open(loop: Loop) -> None:
    """/proc/PID/fd is empty once the first thread has ended; the others work on."""
    device = loop(8)
    with subprocess.Popen(
        [sys.executable, "-c", LEFT], stdin=os.open(device, os.O_RDONLY), stdout=subprocess.PIPE
    ) as other:
        try:
            assert other.stdout is not None
            other.stdout.readline()
            with pytest.raises(
                TargetInUseError, match=rf"process {other.pid} \(\w+.*\) has it open"
            ):
                take(device)
        finally:
            other.kill()


def test_a_device_that_the_kernel_keeps_for_another(loop: Loop) -> None:
    """Nothing in /proc or /sys names who: the kernel's refusal decides."""
    device = loop(8)
    descriptor = os.open(device, os.O_RDONLY | os.O_EXCL)
    try:
        with pytest.raises(TargetInUseError, match="the kernel says that it is in use"):
            take(device)
    finally:
        os.close(descriptor)


def test_udev_may_finish_its_look_first(
    loop: Loop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for udevadm: what had the device open lets go of it when it is asked to settle."""
    device = loop(8)
    with subprocess.Popen(["sleep", "60"], stdin=os.open(device, os.O_RDONLY)) as other:
        program = tmp_path / "udevadm"
        program.write_text(f"#!/bin/sh\nkill {other.pid}\nsleep 0.3\n")
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        try:
            assert take(device).path == device
        finally:
            other.kill()


def test_while_it_is_held_nobody_can_mount_it(loop: Loop) -> None:
    device = loop(8)
    seen = target.look(device)
    with target.held(seen, MIB, readonly=False, overwrite=True, system=Visible()):
        with pytest.raises(OSError, match="busy"):
            os.open(device, os.O_RDONLY | os.O_EXCL)
        os.close(os.open(device, os.O_RDWR))  # fio opens it without


def test_a_loop_device_on_the_device(loop: Loop) -> None:
    below = loop(8)
    done = subprocess.run(
        ["losetup", "--find", "--show", below], capture_output=True, text=True, check=True
    )
    try:
        with pytest.raises(TargetInUseError, match=r"behind the loop device|in use"):
            take(below)
    finally:
        run("losetup", "--detach", done.stdout.strip())


def test_a_device_that_is_read_only(loop: Loop) -> None:
    device = loop(8)
    run("blockdev", "--setro", device)
    try:
        with pytest.raises(BadInputError, match="--readonly"):
            take(device)
    finally:
        run("blockdev", "--setrw", device)


def test_a_name_that_sys_gives_to_another_device(loop: Loop, tmp_path: Path) -> None:
    """As 'docker run --device /dev/nvme3n1:/dev/nvme0n1' makes it: /sys shows the whole machine."""
    device = loop(8)
    name = os.path.basename(device)
    other = tmp_path / "sys/class/block" / name
    other.mkdir(parents=True)
    (other / "dev").write_text("259:7\n")
    (other / "size").write_text("2048\n")

    with pytest.raises(BadInputError, match=f"that /sys calls {name}, found 7:"):
        target.look(device, System(tmp_path))


def test_a_character_device_is_none() -> None:
    with pytest.raises(BadInputError, match="not /dev/nvme0 or /dev/ng0n1"):
        target.look("/dev/null")


def test_nothing_there(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="No such file"):
        target.look(str(tmp_path / "nvme9n1"))


def test_a_file_of_somebodys(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_bytes(bytes(2 * MIB))

    assert take(str(file)) == Place(str(file), MIB)
    with pytest.raises(BadInputError, match="--overwrite"):
        take(str(file), overwrite=False)
    with subprocess.Popen(["sleep", "60"], stdin=file.open()) as other:
        try:
            with pytest.raises(TargetInUseError, match=r"\(sleep\) has it open"):
                take(str(file))
        finally:
            other.kill()
    assert file.stat().st_size == 2 * MIB


def test_a_file_behind_a_loop_device(loop: Loop, room: Path) -> None:
    loop(8)
    with pytest.raises(TargetInUseError, match="behind the loop device"):
        take(str(room / "loop-0"))


def test_in_a_directory_a_new_file_is_made_and_removed(tmp_path: Path) -> None:
    (tmp_path / "mine").write_text("stays")
    seen = target.look(str(tmp_path))
    with target.held(seen, MIB, readonly=False, overwrite=False) as place:
        assert Path(place.path).parent == tmp_path
        assert Path(place.path).stat().st_size == MIB
        assert Path(place.path).stat().st_blocks * 512 >= MIB  # the room is taken, not promised
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    assert (tmp_path / "mine").read_text() == "stays"


def test_the_file_goes_where_the_run_fails(tmp_path: Path) -> None:
    with (
        pytest.raises(RuntimeError),
        target.held(target.look(str(tmp_path)), MIB, readonly=False, overwrite=False),
    ):
        raise RuntimeError
    assert list(tmp_path.iterdir()) == []


def test_a_directory_without_room(tmp_path: Path) -> None:
    seen = target.look(str(tmp_path))
    with pytest.raises(BadInputError, match="give a smaller --size"):
        target.working_size(seen, seen.capacity, given=True)


def test_sizes_of_devices_and_files(loop: Loop, tmp_path: Path) -> None:
    seen = target.look(loop(8))
    small = tmp_path / "small"
    small.write_bytes(bytes(1000))

    assert target.working_size(seen, 10 * MIB, given=False) == 8 * MIB
    assert target.working_size(seen, 3 * MIB + 5, given=True) == 3 * MIB
    with pytest.raises(BadInputError, match="at most 8M"):
        target.working_size(seen, 9 * MIB, given=True)
    with pytest.raises(BadInputError, match="at least 1 MiB"):
        target.working_size(target.look(str(small)), MIB, given=False)
    for there in (seen, target.look(str(tmp_path))):
        # What the fill cannot write in steps of 1 MiB is not measured.
        assert target.working_size(there, 3 * MIB + 5, given=True) == 3 * MIB
        with pytest.raises(BadInputError, match="--size of at least 1M"):
            target.working_size(there, MIB - 1, given=True)


def test_the_sources_files(tmp_path: Path) -> None:
    seen = target.look(str(tmp_path))
    with target.source_files(seen) as stem:
        assert stem == f"{tmp_path}/test"
        (tmp_path / "test.0.0").touch()
        (tmp_path / "test.31.0").touch()
    assert list(tmp_path.iterdir()) == []

    (tmp_path / "test.7.0").write_text("a tenant's")
    with pytest.raises(TargetInUseError, match=r"test\.7\.0"), target.source_files(seen):
        pass
    assert (tmp_path / "test.7.0").read_text() == "a tenant's"


def test_the_sources_files_need_a_directory(loop: Loop) -> None:
    seen = target.look(loop(8))
    with pytest.raises(BadInputError, match="expected a directory"), target.source_files(seen):
        pass


@pytest.fixture
def played(tmp_path: Path) -> System:
    """A machine of files: a drive that is part of an array, and one below LVM."""
    for name, numbers, holder, dm in (
        ("nvme0n1", "259:0", "md127", ""),
        ("nvme1n1", "259:1", "dm-0", "vg-data"),
        ("nvme2n1", "259:2", "", ""),
    ):
        place = tmp_path / "sys/class/block" / name
        (place / "holders").mkdir(parents=True)
        (place / "dev").write_text(f"{numbers}\n")
        (place / "size").write_text("2048\n")
        if holder:
            (place / "holders" / holder).touch()
        if dm:
            name_file = tmp_path / "sys/class/block" / holder / "dm/name"
            name_file.parent.mkdir(parents=True)
            name_file.write_text(f"{dm}\n")
    (tmp_path / "sys/class/block/nvme2n1/nvme2n1p1").mkdir()
    (tmp_path / "sys/class/block/nvme2n1/nvme2n1p1/partition").write_text("1\n")
    part = tmp_path / "sys/class/block/nvme2n1p1"
    part.mkdir()
    (part / "dev").write_text("259:3\n")
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_text(
        "30 1 259:3 / /mnt/a\\040b rw,relatime shared:1 - xfs /dev/nvme2n1p1 rw\n"
    )
    (tmp_path / "proc/1/fd").mkdir(parents=True)
    (tmp_path / "proc/7/fd").mkdir(parents=True)
    return System(tmp_path)


class Block:
    """What os.stat tells of a block device's node."""

    st_mode = 0o060600

    def __init__(self, minor: int) -> None:
        self.st_rdev = os.makedev(259, minor)


def test_a_drive_is_known_by_more_than_its_name(played: System) -> None:
    """The next start of the machine may give the name to another drive of the same size."""
    seen = target.Target("/dev/nvme0n1", target.DEVICE, MIB, "a drive")
    wwid = played.path("/sys/class/block/nvme0n1/wwid")
    wwid.write_text("eui.0025388101b00001\n")
    assert target.identity(seen, played) == "eui.0025388101b00001"
    wwid.write_text("eui.0025388101b00002\n")
    assert target.identity(seen, played) == "eui.0025388101b00002"
    assert target.identity(replace(seen, path="/dev/nvme1n1"), played) == ""
    assert target.identity(replace(seen, kind=target.DIRECTORY), played) == ""


@pytest.mark.parametrize(
    ("name", "numbers", "reasons"),
    [
        ("nvme0n1", (259, 0), ["nvme0n1 is part of md127"]),
        ("nvme1n1", (259, 1), ["nvme1n1 is part of dm-0 (vg-data)"]),
        (
            "nvme2n1",
            (259, 2),
            ["it has the partition nvme2n1p1", "nvme2n1p1 is mounted at /mnt/a b"],
        ),
    ],
)
def test_arrays_volumes_and_partitions(
    played: System, name: str, numbers: tuple[int, int], reasons: list[str]
) -> None:
    assert list(inuse.device_reasons(played, name, os.makedev(*numbers))) == reasons


def test_the_same_namespace_by_another_path(played: System) -> None:
    """nvme_core.multipath=N: a claim on one path's disk says nothing of the other's."""
    for name in ("nvme0n1", "nvme3n1"):
        played.path(f"/sys/class/block/{name}").mkdir(exist_ok=True)
        played.path(f"/sys/class/block/{name}/wwid").write_text("eui.0025388101b00001\n")
    assert list(inuse.device_reasons(played, "nvme3n1", os.makedev(259, 9))) == [
        "nvme0n1 is part of md127"
    ]


def test_who_has_a_partitions_disk_open(played: System, monkeypatch: pytest.MonkeyPatch) -> None:
    disk, partition = (played.path(f"/sys/class/block/{name}") for name in ("nvme0n1", "nvme0n1p1"))
    (disk / "nvme0n1p1").mkdir()
    (disk / "nvme0n1p1/partition").write_text("1\n")
    (disk / "holders/md127").unlink()
    partition.symlink_to(disk / "nvme0n1p1")
    monkeypatch.setattr(
        inuse, "_openers", lambda _system, ours: ["it is open"] if ours(Block(0)) else []
    )
    assert list(inuse.device_reasons(played, "nvme0n1p1", os.makedev(259, 8))) == ["it is open"]


def test_a_program_that_has_the_character_device_open(played: System) -> None:
    """A user-space stack on the same namespace: the kernel's claim knows nothing of it."""
    generic = played.path("/sys/class/nvme-generic/ng0n1")
    generic.mkdir(parents=True)
    null = os.stat("/dev/null").st_rdev
    (generic / "dev").write_text(f"{os.major(null)}:{os.minor(null)}\n")
    played.path("/proc/7/comm").write_text("reactor_0\n")
    played.path("/proc/7/fd/3").symlink_to("/dev/null")
    reasons = list(inuse.device_reasons(played, "nvme0n1", os.makedev(259, 0)))
    assert "process 7 (reactor_0) has it open" in reasons
    others = list(inuse.device_reasons(played, "nvme1n1", os.makedev(259, 1)))
    assert others == ["nvme1n1 is part of dm-0 (vg-data)"]


def test_what_nvmet_exports_is_in_use(played: System) -> None:
    """Another machine works on it: no claim, no holder and no process here tells of that."""
    node = played.path("/dev/nvme2n1")
    node.parent.mkdir()
    node.symlink_to("/dev/null")
    file = played.path("/srv/image")
    file.parent.mkdir()
    file.write_bytes(bytes(4096))
    for number, backing in enumerate(("/dev/nvme2n1", "/srv/image", "(null)"), 1):
        path = played.path(f"/sys/kernel/config/nvmet/subsystems/nqn.a/namespaces/{number}")
        path.mkdir(parents=True)
        (path / "device_path").write_text(f"{backing}\n")
    null = os.stat("/dev/null").st_rdev
    exported = list(inuse._exports(played, lambda status: status.st_rdev == null))
    assert exported == ["nvmet exports it (namespace 1 of nqn.a)"]
    assert list(inuse.file_reasons(played, file)) == ["nvmet exports it (namespace 2 of nqn.a)"]


def test_swap(played: System) -> None:
    file = played.path("/swapfile")
    file.write_bytes(bytes(4096))
    played.path("/proc/swaps").write_text(
        "Filename\tType\tSize\tUsed\tPriority\n/swapfile file 4 0 -2\n"
    )
    assert list(inuse.file_reasons(played, file)) == ["/swapfile is swap space"]


def test_without_proc_nothing_is_proven(tmp_path: Path) -> None:
    with pytest.raises(TargetInUseError, match="mount it"):
        list(inuse.device_reasons(System(tmp_path), "nvme0n1", os.makedev(259, 0)))


def test_processes_that_proc_hides_may_have_it_open(played: System) -> None:
    played.path("/proc/1/fd").rmdir()
    played.path("/proc/1").rmdir()
    with pytest.raises(TargetInUseError, match="hidepid"):
        list(inuse.device_reasons(played, "nvme0n1", os.makedev(259, 0)))


def test_a_process_that_cannot_be_looked_at_may_have_it_open(
    played: System, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.listdir

    def hidden(path: str | Path) -> list[str]:
        if str(path).endswith("/proc/7/fd"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "listdir", hidden)
    with pytest.raises(
        TargetInUseError, match="process 7 has open: Permission denied; run as root"
    ):
        list(inuse.device_reasons(played, "nvme0n1", os.makedev(259, 0)))


def test_without_wipefs_nothing_is_proven(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def absent(*_argv: object, **_options: object) -> None:
        raise FileNotFoundError(2, "No such file or directory", "wipefs")

    monkeypatch.setattr(subprocess, "run", absent)
    with pytest.raises(TargetInUseError, match="install util-linux"):
        inuse.signatures(str(tmp_path / "device"))


def test_a_reader_of_signatures_that_fails_is_no_proof(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot prove"):
        inuse.signatures(str(tmp_path / "nothing"))
