"""Looking, on trees of files laid out as sysfs and proc have them; and files written for good."""

from __future__ import annotations

import ast
import base64
import errno
import gzip
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from nvme_raid import act, command, diffs, look, platforms, reading
from nvme_raid.errors import RaidError
from nvme_raid.model import Platform, Wish
from nvme_raid.steps import CreateArray, MakeXfs, Mount, Relink, WriteFile
from nvme_raid.sysfs import Sysfs

REPOSITORY = Path(__file__).resolve().parents[3]
PACKAGE = REPOSITORY / "ansible/plugins/module_utils/nvme_raid"


def test_a_machine_without_udev_is_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    """Containers and small images have none: that is no reason to stop before a drive was seen."""
    called: list[str] = []

    def gone(argv: list[str], **_more: object) -> None:
        called.append(argv[0])
        raise FileNotFoundError(2, "No such file or directory")

    monkeypatch.setattr(command.subprocess, "Popen", gone)
    monkeypatch.setattr(command.shutil, "which", lambda name, path: None)
    command.settle()
    assert called == []
    with pytest.raises(RaidError, match="expected to run udevadm, found No such file"):
        act.act(Relink("/dev/md/x", "/dev/md127"))
    assert called == ["udevadm"], "what cannot be done without it says so"
    monkeypatch.setattr(command.shutil, "which", lambda name, path: f"/usr/bin/{name}")
    with pytest.raises(RaidError, match="udevadm"):
        command.settle()


def put(root: Path, path: str, text: str = "") -> Path:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def disk(root: Path, name: str, device: str, *, partitions: int = 0) -> None:
    """A disk as /sys has it: a directory below its controller, and a link in class/block."""
    block = root / "sys/devices" / device / name
    put(block, "size", "2097152\n")
    put(block, "ro", "0\n")
    (block / "holders").mkdir()
    (block / "device").symlink_to("..")
    _link(root, name, block)
    for number in range(1, partitions + 1):
        part = f"{name}p{number}" if name[-1].isdigit() else f"{name}{number}"
        put(block, f"{part}/partition", f"{number}\n")
        put(block, f"{part}/size", "2048\n")
        _link(root, part, block / part)


def _link(root: Path, name: str, target: Path) -> None:
    block = root / "sys/class/block"
    block.mkdir(parents=True, exist_ok=True)
    (block / name).symlink_to(target)


def controller(root: Path, device: str, transport: str = "pcie", serial: str = "S1") -> None:
    directory = root / "sys/devices" / device
    for name, text in (
        ("transport", transport),
        ("address", "0000:01:00.0"),
        ("model", "LAB\x1b[31m DRIVE   "),
        ("serial", serial),
    ):
        put(directory, name, text + "\n")


def number(root: Path, digits: str, name: str) -> None:
    directory = root / "sys/dev/block"
    directory.mkdir(parents=True, exist_ok=True)
    (directory / digits).symlink_to((root / "sys/class/block" / name).resolve())


def test_a_namespace_behind_pci_is_found_with_what_its_controller_says(tmp_path: Path) -> None:
    controller(tmp_path, "pci/nvme0")
    disk(tmp_path, "nvme0n1", "pci/nvme0", partitions=1)
    controller(tmp_path, "fabric/nvme1", "tcp")
    disk(tmp_path, "nvme1n1", "fabric/nvme1")
    disk(tmp_path, "vda", "virtio")
    sysfs = Sysfs(tmp_path)

    assert sysfs.namespaces() == ("nvme0n1",)
    # A drive's own words may be anything; a terminal's escapes are not passed on.
    assert sysfs.describe("nvme0n1") == ("0000:01:00.0", "LAB?[31m DRIVE", "S1")
    assert sysfs.partitions("nvme0n1") == ("nvme0n1p1",)
    assert sysfs.size("nvme0n1") == 1 << 30
    assert not sysfs.read_only("nvme0n1")


def test_with_native_multipath_the_controller_is_in_the_subsystem(tmp_path: Path) -> None:
    controller(tmp_path, "subsystem0/nvme3", serial="S9")
    disk(tmp_path, "nvme0n1", "subsystem0")
    disk(tmp_path, "nvme0c3n1", "subsystem0/nvme3")
    disk(tmp_path, "nvme5n1", "subsystem0")
    put(tmp_path, "sys/devices/subsystem0/nvme5n1/hidden", "1\n")

    assert Sysfs(tmp_path).namespaces() == ("nvme0n1",)
    assert Sysfs(tmp_path).describe("nvme0n1")[2] == "S9"


def test_the_system_stands_on_every_disk_below_its_mounts(tmp_path: Path) -> None:
    controller(tmp_path, "pci/nvme0")
    disk(tmp_path, "nvme0n1", "pci/nvme0", partitions=2)
    disk(tmp_path, "vda", "virtio0", partitions=1)
    disk(tmp_path, "vdb", "virtio1")
    disk(tmp_path, "dm-0", "virtual")
    slaves = tmp_path / "sys/devices/virtual/dm-0/slaves"
    slaves.mkdir()
    (slaves / "nvme0n1p2").symlink_to(tmp_path)
    for digits, name in (("253:0", "dm-0"), ("254:1", "vda1"), ("254:16", "vdb")):
        number(tmp_path, digits, name)
    put(
        tmp_path,
        "proc/self/mountinfo",
        "1 0 253:0 / / rw,noatime shared:1 - ext4 /dev/root rw\n"
        "2 1 254:1 / /boot rw - vfat /dev/vda1 rw,fmask=0022\n"
        "3 1 254:16 / /srv/with\\040space rw,relatime - ext4 /dev/vdb rw\n"
        "4 1 0:25 / /proc rw - proc proc rw\n"
        "nonsense\n",
    )
    sysfs = Sysfs(tmp_path)
    mounts = sysfs.mounts()

    assert [(mount.point, mount.device) for mount in mounts] == [
        ("/", "dm-0"),
        ("/boot", "vda1"),
        ("/srv/with space", "vdb"),
        ("/proc", "proc"),
    ]
    assert mounts[0].options == ("rw", "noatime")
    assert sysfs.system(mounts) == {"dm-0", "nvme0n1p2", "nvme0n1", "vda1", "vda"}


@pytest.mark.parametrize("sign", ["\u00a0", "\u2028", "\x0b", "\x0c", "\r", "\x1c", "\x85"])
def test_a_mount_is_seen_whatever_is_in_its_name(tmp_path: Path, sign: str) -> None:
    """The kernel escapes space, tab and newline, nothing else that Python takes for them."""
    text = f"1 0 254:16 /a{sign}b /srv/c{sign}d rw - ext4 /dev/vdb rw\n"
    (tmp_path / "proc/self").mkdir(parents=True)
    (tmp_path / "proc/self/mountinfo").write_bytes(text.encode())
    disk(tmp_path, "vdb", "virtio1")
    number(tmp_path, "254:16", "vdb")

    (mount,) = Sysfs(tmp_path).mounts()

    assert (mount.point, mount.device, mount.options) == (f"/srv/c{sign}d", "vdb", ("rw",))


def test_a_mount_point_is_looked_for_by_its_real_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(tmp_path, "var/srv/db/file")
    (tmp_path / "srv").symlink_to("var/srv")
    real, asked = str(tmp_path / "var/srv/db"), str(tmp_path / "srv/db")
    table = put(tmp_path, "proc/self/mountinfo", f"1 0 259:0 / {real} rw - xfs /dev/nvme0n1 rw\n")
    monkeypatch.setattr(look, "Sysfs", lambda: Sysfs(tmp_path))
    monkeypatch.setattr(look, "platform", lambda: Platform(str(tmp_path / "mdadm.conf")))
    monkeypatch.setattr(command, "settle", lambda: None)

    machine = look.look(Wish(1, mount=asked))
    assert (machine.point, machine.directories, machine.crowded) == (real, (asked,), False)
    table.write_text("")
    assert look.look(Wish(1, mount=asked)).crowded


@pytest.mark.parametrize(
    ("asked", "found"),
    [("file", "a file"), ("file/below", "Not a directory"), ("dead", "Input/output error")],
)
def test_what_keeps_the_mount_point_from_being_a_directory_is_seen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, asked: str, found: str
) -> None:
    """A file, a path below one, and a filesystem that answers with errors only."""
    put(tmp_path, "file")
    put(tmp_path, "proc/self/mountinfo")
    monkeypatch.setattr(look, "Sysfs", lambda: Sysfs(tmp_path))
    monkeypatch.setattr(look, "platform", lambda: Platform(str(tmp_path / "mdadm.conf")))
    monkeypatch.setattr(command, "settle", lambda: None)
    real = os.stat

    def stat(path: str, **more: Any) -> os.stat_result:
        if str(path).endswith("/dead"):
            raise OSError(errno.EIO, "Input/output error", path)
        return real(path, **more)

    monkeypatch.setattr(os, "stat", stat)

    assert look.look(Wish(1, mount=str(tmp_path / asked))).no_directory == found
    assert look.look(Wish(1, mount=str(tmp_path))).no_directory == ""
    assert look.look(Wish(1, mount=str(tmp_path / "new"))).no_directory == ""


def test_a_drive_that_goes_while_it_is_looked_at_is_an_error_of_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller(tmp_path, "pci/nvme0")
    disk(tmp_path, "nvme0n1", "pci/nvme0")
    put(tmp_path, "proc/self/mountinfo")
    monkeypatch.setattr(look, "Sysfs", lambda: Sysfs(tmp_path))
    monkeypatch.setattr(command, "settle", lambda: None)
    monkeypatch.setattr(look, "_head", lambda _device: (bytes(reading.EDGE), None))

    def gone(path: str) -> bool:
        raise OSError(errno.ENXIO, "No such device or address", path)

    monkeypatch.setattr(reading, "is_busy", gone)

    with pytest.raises(RaidError, match="look at /dev/nvme0n1, found No such device or address"):
        look.look(Wish(1))


def raid(root: Path, name: str, digits: str, *members: str) -> None:
    disk(root, name, "virtual")
    number(root, digits, name)
    put(root, f"sys/devices/virtual/{name}/md/array_state", "clean\n")
    for member in members:
        link = root / f"sys/devices/virtual/{name}/slaves" / member
        link.parent.mkdir(exist_ok=True)
        link.symlink_to(root)


@pytest.fixture
def looked_into(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Five drives: the system on an array of two, a free one, and an array of two others. What the
    tools and the samples were asked about."""
    for at in range(5):
        controller(tmp_path, f"pci{at}/nvme{at}", serial=f"S{at}")
        disk(tmp_path, f"nvme{at}n1", f"pci{at}/nvme{at}")
        put(tmp_path, f"sys/devices/pci{at}/nvme{at}/nvme{at}n1/dev", f"259:{at}\n")
    raid(tmp_path, "md0", "9:0", "nvme0n1", "nvme1n1")
    raid(tmp_path, "md1", "9:1", "nvme3n1", "nvme4n1")
    put(tmp_path, "sys/devices/virtual/md1/dev", "9:1\n")
    put(tmp_path, "proc/self/mountinfo", "1 0 9:0 / / rw - ext4 /dev/md0 rw\n")
    asked: list[str] = []

    def heard(device: Any, *_: object) -> Any:
        asked.append(getattr(device, "path", device))

    monkeypatch.setattr(look, "Sysfs", lambda: Sysfs(tmp_path))
    monkeypatch.setattr(command, "settle", lambda: None)
    monkeypatch.setattr(look, "_head", lambda device: (heard(device), (bytes(1 << 20), None))[1])
    monkeypatch.setattr(look, "_signatures", lambda path, _known: (heard(path), ())[1])
    monkeypatch.setattr(look, "_given_name", lambda _path: "")
    monkeypatch.setattr(look, "_sampled", lambda *_: look.Sampled(look.Content.UNIFORM))
    monkeypatch.setattr(reading, "is_busy", lambda _path: False)
    monkeypatch.setattr(
        look.openers, "lasting", lambda numbers: (asked.extend(numbers.values()) or {}, False)
    )
    return asked


def test_what_the_system_stands_on_is_not_looked_into(looked_into: list[str]) -> None:
    machine = look.look(Wish(3))

    assert {"/dev/nvme2n1", "/dev/nvme3n1", "/dev/nvme4n1", "/dev/md1"} <= set(looked_into)
    assert not {"/dev/nvme0n1", "/dev/nvme1n1", "/dev/md0"} & set(looked_into)
    assert [array.name for array in machine.arrays] == ["md1"]


def test_of_what_was_not_asked_for_only_the_head_is_read(looked_into: list[str]) -> None:
    """Its filesystem's line in fstab is known by that; a fault of it is nobody's reason to stop."""
    machine = look.look(Wish(1, only=("S2",)))

    once = ["/dev/nvme3n1", "/dev/nvme4n1", "/dev/md1"]
    assert [looked_into.count(path) for path in once] == [1, 1, 1]
    assert looked_into.count("/dev/nvme2n1") == 2
    assert "md1" not in looked_into
    assert len(machine.drives) == 5


def test_what_was_written_while_a_program_was_waited_for_is_seen(
    looked_into: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """mkfs.ext4 of somebody's script had the drive open after its content was read, and let go of
    it: it is not the free drive that it was."""
    writing = iter([True])
    monkeypatch.setattr(look.openers, "lasting", lambda _numbers: ({}, next(writing, False)))
    kinds = iter([(), ("ext4",)])
    monkeypatch.setattr(
        look, "_signatures", lambda path, _: next(kinds) if path == "/dev/nvme2n1" else ()
    )
    machine = look.look(Wish(1, only=("S2",)))
    assert machine.drives[2].signatures == ("ext4",)


@pytest.mark.parametrize("times", [1, 9])
def test_what_was_written_while_others_were_looked_at_is_seen(
    looked_into: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int
) -> None:
    """mkfs.ext4 began after this drive's content was read, and had ended when it was asked who has
    it open: the kernel's count of its writes tells."""
    wrote: list[int] = []

    def signatures(path: str, _known: set[str]) -> tuple[str, ...]:
        found = ("ext4",) if wrote and times == 1 else ()
        if path == "/dev/nvme2n1" and len(wrote) < times:
            wrote.append(len(wrote))
            put(tmp_path, "sys/devices/pci2/nvme2/nvme2n1/stat", f"9 0 9 0 1 0 {len(wrote)} 0")
        return found if path == "/dev/nvme2n1" else ()

    monkeypatch.setattr(look, "_signatures", signatures)
    if times == 1:
        assert look.look(Wish(1, only=("S2",))).drives[2].signatures == ("ext4",)
        return
    with pytest.raises(RaidError, match="found that somebody did at each look"):
        look.look(Wish(1, only=("S2",)))


def test_who_comes_and_goes_for_ever_is_one_who_stays(
    looked_into: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(look.openers, "lasting", lambda _numbers: ({}, True))
    monkeypatch.setattr(
        look.openers, "openers", lambda _numbers: {"nvme2n1": ("poll (process 7)",)}
    )
    assert look.look(Wish(1, only=("S2",))).drives[2].openers == ("poll (process 7)",)


def test_a_filesystem_over_several_devices_is_found_by_its_source(tmp_path: Path) -> None:
    put(tmp_path, "dev/nvme0n1")
    put(tmp_path, "proc/self/mountinfo", "1 0 0:31 / / rw - btrfs /dev/nvme0n1 rw\n")
    put(tmp_path, "proc/swaps", "Filename Type Size\n/dev/nvme0n1 partition 1 0 -2\n")

    assert Sysfs(tmp_path).mounts()[0].device == "nvme0n1"
    assert Sysfs(tmp_path).swaps() == {"nvme0n1"}


def test_arrays_and_their_names(tmp_path: Path) -> None:
    disk(tmp_path, "md127", "virtual")
    put(tmp_path, "sys/devices/virtual/md127/md/array_state", "inactive\n")
    (tmp_path / "dev/md").mkdir(parents=True)
    put(tmp_path, "dev/md127")
    (tmp_path / "dev/md/nvme").symlink_to("../md127")
    put(tmp_path, "dev/md/no-link")
    sysfs = Sysfs(tmp_path)

    assert sysfs.arrays() == ("md127",)
    assert not sysfs.active("md127")
    put(tmp_path, "sys/devices/virtual/md127/md/array_state", "clean\n")
    assert sysfs.active("md127")
    assert sysfs.links() == {"nvme": "md127"}


@pytest.mark.parametrize("size", [0, 4096, 1 << 20, 3 << 20, 1 << 40])
def test_both_ends_and_the_middle_are_looked_at_and_never_beyond(size: int) -> None:
    places = reading.places(size, seed=1)

    assert all(offset % 4096 == 0 and offset + length <= size for offset, length in places)
    assert sum(length for _, length in places) <= 2 * reading.EDGE + 64 * 4096
    if size > 2 * reading.EDGE:
        assert (0, reading.EDGE) in places
        assert (size - reading.EDGE, reading.EDGE) in places
        assert len(places) == 66
        assert places != reading.places(size, seed=2)


@pytest.mark.parametrize(
    ("release", "programs", "platform"),
    [
        (
            'ID=debian\nVERSION_ID="12"\n',
            {"update-initramfs", "systemctl"},
            Platform("/etc/mdadm/mdadm.conf", ("update-initramfs", "-u"), systemd=True),
        ),
        (
            "ID=ubuntu\nID_LIKE=debian\n",
            {"update-initramfs", "systemctl"},
            Platform("/etc/mdadm/mdadm.conf", ("update-initramfs", "-u"), systemd=True),
        ),
        (
            'ID="rocky"\nID_LIKE="rhel centos fedora"\n',
            {"dracut", "systemctl"},
            Platform("/etc/mdadm.conf", ("dracut", "--force"), dracut=True, systemd=True),
        ),
        (
            'ID="rhel"\nID_LIKE="fedora"\n',
            {"dracut"},
            Platform("/etc/mdadm.conf", ("dracut", "--force"), dracut=True),
        ),
        # A Debian with dracut in place of initramfs-tools.
        (
            "ID=debian\n",
            {"dracut"},
            Platform("/etc/mdadm/mdadm.conf", ("dracut", "--force"), dracut=True),
        ),
        ("", {"update-initramfs"}, Platform("/etc/mdadm/mdadm.conf", ("update-initramfs", "-u"))),
        ("", set(), Platform("/etc/mdadm.conf")),
    ],
)
def test_each_distribution_has_its_places(
    release: str, programs: set[str], platform: Platform
) -> None:
    assert platforms.of(release, lambda name: name in programs) == platform


def test_a_file_is_replaced_in_one_stroke_and_keeps_mode_and_link(tmp_path: Path) -> None:
    target = put(tmp_path, "real/conf", "old")
    target.chmod(0o640)
    link = tmp_path / "conf"
    link.symlink_to(target)
    inode = target.stat().st_ino

    act.write_file(str(link), "new \udcff\n")

    assert link.is_symlink()
    assert target.read_bytes() == b"new \xff\n"
    assert target.stat().st_mode & 0o777 == 0o640
    assert target.stat().st_ino != inode
    assert os.listdir(target.parent) == ["conf"]
    act.write_file(str(tmp_path / "new/dir/file"), "x")
    assert (tmp_path / "new/dir/file").stat().st_mode & 0o777 == 0o644
    put(tmp_path, "file")
    with pytest.raises(RaidError, match="expected to write"):
        act.write_file(str(tmp_path / "file/below"), "x")


def test_mkfs_is_forced_only_over_what_it_did_not_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    ran: list[list[str]] = []
    monkeypatch.setattr(command, "must", lambda argv, **_: ran.append(list(argv)))
    monkeypatch.setattr(command, "settle", lambda: None)

    act.act(MakeXfs("/dev/nvme0n1", "nvme"))
    act.act(MakeXfs("/dev/nvme0n1", "nvme", unfinished=True))

    assert [("-f" in argv, argv[-1]) for argv in ran] == [
        (False, "/dev/nvme0n1"),
        (True, "/dev/nvme0n1"),
    ]


@pytest.mark.parametrize("systemd", [True, False])
def test_systemd_knows_the_line_before_the_mount(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, systemd: bool
) -> None:
    """A run that was killed after it wrote fstab left systemd with the unit of earlier drives."""
    ran: list[str] = []
    monkeypatch.setattr(command, "must", lambda argv, **_: ran.append(" ".join(argv)))
    monkeypatch.setattr(act, "_RUNNING_SYSTEMD", str(tmp_path if systemd else tmp_path / "none"))

    act.act(Mount("/mnt/nvme"))

    assert ran == [*(["systemctl daemon-reload"] if systemd else []), "mount /mnt/nvme"]


def test_what_a_file_voids_is_gone_before_it_is_written(tmp_path: Path) -> None:
    stamp, conf = put(tmp_path, "stamp"), tmp_path / "conf"

    for _ in range(2):
        act.act(WriteFile(str(conf), None, "x", voids=str(stamp)))
        assert (conf.read_text(), stamp.exists()) == ("x", False)
    put(tmp_path, "file")
    with pytest.raises(RaidError, match="expected to remove"):
        act.act(WriteFile(str(conf), "x", "y", voids=str(tmp_path / "file/below")))
    assert conf.read_text() == "x"


def test_a_diff_shows_files_line_by_line_and_steps_in_words() -> None:
    steps = (
        CreateArray("/dev/md/nvme", "nvme", 1 << 19, ("/dev/nvme0n1", "/dev/nvme1n1")),
        WriteFile("/etc/fstab", "a\nb\udcff\n", "a\nc\n"),
    )

    assert diffs.of(steps)[1]["before"] == "a\nb\\xff\n"
    text = diffs.text(steps)
    assert text.startswith("+ create /dev/md/nvme: RAID 0 of /dev/nvme0n1, /dev/nvme1n1\n")
    assert "-b\\xff\n+c\n" in text


def test_the_program_is_one_file_that_is_the_same_each_time(tmp_path: Path) -> None:
    tool = REPOSITORY / "tools/nvme-raid-script"
    for name in ("first", "second"):
        subprocess.run([sys.executable, tool, tmp_path / name], check=True)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()

    # Away from this checkout, and by an isolated interpreter.
    line = [sys.executable, "-I", tmp_path / "first", "--drives", "2", "--name", "md0"]
    done = subprocess.run(line, capture_output=True, text=True, cwd=tmp_path, check=False)

    assert (done.returncode, done.stdout) == (3, "")
    assert done.stderr.startswith("nvme-raid: refused: name: expected a letter")


def test_user_data_is_yaml_that_nova_takes(tmp_path: Path) -> None:
    tool = [sys.executable, REPOSITORY / "tools/nvme-raid-script"]
    done = subprocess.run(
        [*tool, "--cloud-init", "--drives", "4", "--only", "A Model*"],
        capture_output=True,
        text=True,
        check=True,
    )
    subprocess.run([*tool, tmp_path / "program"], check=True)

    program, script = yaml.safe_load(done.stdout)["write_files"]
    assert script["content"].endswith("--drives 4 --only 'A Model*'\n")
    # As cloud-init's write_files unpacks it.
    assert program["encoding"] == "gz+b64"
    unpacked = gzip.decompress(base64.b64decode(program["content"]))
    assert unpacked == (tmp_path / "program").read_bytes()
    # Nova refuses more than 65535 bytes in base64; arguments and more releases need some of them.
    assert len(done.stdout) * 4 / 3 < 58_000

    more = [*tool, "--cloud-init", "--drives", "4", *["--only", "x" * 999] * 18]
    long = subprocess.run(more, capture_output=True, text=True, check=False)
    found = re.search(r"found (\d+)", long.stderr)
    assert long.returncode == 1
    assert found is not None
    assert int(found[1]) > 65535, "the size that was refused, not the one before base64"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["--drvies", "4"], 2, "--drives"),
        (["--mount", "/srv/db"], 2, "--drives"),
        (["--drives", "4", "--mount", "/etc"], 1, "refused: mount: expected a directory for data"),
        (["--drives", "4", "--only", "a\nruncmd: [b]"], 1, "one line of YAML"),
        (
            ["--drives", "4", *["--only", "x" * 999] * 18],
            1,
            "bytes of user data in base64, found 7",
        ),
    ],
)
def test_user_data_is_made_of_what_the_program_takes_alone(
    arguments: list[str], code: int, words: str
) -> None:
    """An instance would say it at each boot, where nobody reads it."""
    tool = [sys.executable, REPOSITORY / "tools/nvme-raid-script", "--cloud-init", *arguments]
    done = subprocess.run(tool, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in done.stderr


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*.py")), ids=lambda path: path.name)
def test_what_runs_at_the_tenants_is_old_python_and_its_standard_library(path: Path) -> None:
    tree = ast.parse(path.read_text(), feature_version=(3, 9))

    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            assert {name.name.split(".")[0] for name in node.names} <= sys.stdlib_module_names
        elif isinstance(node, ast.ImportFrom) and node.level == 0:
            assert (node.module or "").split(".")[0] in sys.stdlib_module_names
