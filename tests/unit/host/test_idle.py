"""Every use that keeps us from a drive, one by one, on a made-up machine."""

from __future__ import annotations

import dataclasses
import errno
import os
import re
import time
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eraser.errors import InUseError
from eraser.host import domains, idle, openers, proc, sysfs, usage
from eraser.host.idle import prove_idle
from eraser.host.sysfs import AbsentError, Devices, Host, Node
from eraser.protocol import codec
from tests.unit.host.fakehost import ADDRESS, DISK, FUNCTION, FakeHost

ROOT = "22 1 8:1 / / rw - ext4 /dev/sda1 rw"
PARTITION = f"{DISK}/nvme5n1p1"
Change = Callable[[FakeHost], None]


@pytest.fixture
def fake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FakeHost:
    def opened(host: Host, node: Node, flags: int) -> int:
        assert flags & os.O_EXCL
        assert not flags & (os.O_WRONLY | os.O_RDWR), "udev would be told"
        if host.path(f"/claimed/{node.name}").exists():
            raise OSError(errno.EBUSY, "busy")
        return os.open("/dev/null", os.O_RDONLY)

    monkeypatch.setattr(idle, "open_node", opened)
    return FakeHost(tmp_path)


def prove(fake: FakeHost, **options: object) -> idle.IdleProof:
    own = frozenset({77})
    return prove_idle(fake.host, ADDRESS, own_pids=own, patience=0, **options)  # type: ignore[arg-type]


def test_a_free_drive_is_proved_idle(fake: FakeHost) -> None:
    fake.domain("/etc/libvirt/qemu/other.xml", bus="0x02")
    fake.domain("/etc/libvirt/qemu/networks/odd.xml")
    fake.put(
        "/etc/libvirt/qemu/paths.xml",
        "<domain><name>p</name><disk><source dev='/dev/nvme1n1'/></disk>"
        "<rng path='/dev/urandom'/></domain>",
    )
    proof = prove(fake)
    assert proof.driver == "nvme"
    assert proof.processes == 2
    assert proof.domain_files == ("/etc/libvirt/qemu/other.xml", "/etc/libvirt/qemu/paths.xml")
    assert {entry.split()[0] for entry in proof.nodes} == {"nvme5", "ng5n1", "nvme5n1", "nvme5n1p1"}


@pytest.mark.parametrize("driver", ["vfio-pci", None])
def test_a_driver_proves_nothing(fake: FakeHost, driver: str | None) -> None:
    fake.driver(driver)
    assert prove(fake).driver == (driver or "")


def test_what_is_no_drive_is_no_free_drive(fake: FakeHost) -> None:
    fake.put(f"{FUNCTION}/class", sysfs.NVME_CLASS)
    assert prove(fake)
    for code in ("0x010700", "0x020000", "0x030200"):
        fake.put(f"{FUNCTION}/class", code)
        with pytest.raises(AbsentError, match=f"found a function of PCI class {code}"):
            prove(fake)


def mountinfo(line: str) -> Change:
    return lambda fake: fake.process(50, "tenant", mountinfo=f"{ROOT}\n{line}")


def holds(*targets: str) -> Change:
    return lambda fake: fake.process(50, "holder", mountinfo=ROOT, fds=targets)


def puts(path: str, text: str = "") -> Change:
    return lambda fake: fake.put(path, text)


def links(path: str, target: str) -> Change:
    return lambda fake: fake.link(path, target)


def vfio_device(fake: FakeHost) -> None:
    """A process whose own /dev calls the group something else: its numbers tell."""
    fake.put("/sys/class/vfio/9/dev", "1:7")
    fake.process(50, "qemu", mountinfo=ROOT, fds=("/dev/full",))


def vfio_cdev(fake: FakeHost) -> None:
    fake.put(f"{FUNCTION}/vfio-dev/vfio3/dev", "511:3")
    fake.process(50, "qemu", mountinfo=ROOT, fds=("/dev/vfio/devices/vfio3",))


def vfio_descriptor(fake: FakeHost) -> None:
    """The device's own descriptor, handed over without the group's; as Linux 6.18 tells of it."""
    fake.process(50, "spdk", mountinfo=ROOT, fds=("pipe:[4]", "anon_inode:[vfio-device]"))
    fake.put(
        "/proc/50/fdinfo/1",
        "pos:\t0\nflags:\t02000002\nmnt_id:\t17\nino:\t1113\n"
        f"vfio-device-syspath: /sys/devices/pci0000:00/0000:00:02.0/{ADDRESS}\n",
    )


def system_on_drive(fake: FakeHost) -> None:
    fake.path("/proc/1/mountinfo").write_text(f"{ROOT}\n23 22 259:1 / /boot/efi rw - vfat x rw\n")


def system_on_stack(fake: FakeHost) -> None:
    """The root is on dm over md over a partition of ours: found through the slaves."""
    for name, numbers, slave in (("dm-0", "253:0", "md0"), ("md0", "9:0", "nvme5n1p1")):
        fake.put(f"/sys/devices/{name}/dev", numbers)
        fake.put(f"/sys/devices/{name}/slaves/{slave}", "")
        fake.link(f"/sys/class/block/{name}", f"/sys/devices/{name}")
        fake.link(f"/sys/dev/block/{numbers}", f"/sys/devices/{name}")
    fake.path("/proc/1/mountinfo").write_text("22 1 253:0 / / rw - ext4 x rw\n")


def kernel_root(fake: FakeHost) -> None:
    fake.put("/proc/cmdline", "quiet root=PARTUUID=abc ro")
    fake.path("/dev/disk/by-partuuid").mkdir(parents=True)
    fake.path("/dev/disk/by-partuuid/abc").symlink_to("../../nvme5n1p1")
    fake.put("/dev/nvme5n1p1", "")


def btrfs_system(fake: FakeHost) -> None:
    """A btrfs mount has numbers of no device; its source names one."""
    fake.put("/dev/nvme5n1p1", "")
    fake.path("/proc/1/mountinfo").write_text("22 1 0:30 / / rw - btrfs /dev/nvme5n1p1 rw\n")


def disk_of_a_domain(source: str) -> Change:
    """A guest that is shut off and has the drive as a plain disk."""

    def change(fake: FakeHost) -> None:
        fake.put("/dev/nvme5n1p1", "")
        fake.path("/dev/disk/by-id").mkdir(parents=True)
        fake.path("/dev/disk/by-id/nvme-x-part1").symlink_to("../../nvme5n1p1")
        fake.put(
            "/etc/libvirt/qemu/b.xml",
            f"<domain><name>b</name><devices>{source}</devices></domain>",
        )

    return change


def lvm(fake: FakeHost) -> None:
    fake.put(f"{PARTITION}/holders/dm-3", "")
    fake.put("/sys/class/block/dm-3/dm/uuid", "LVM-abc")
    fake.put("/sys/class/block/dm-3/dm/name", "vg-lv")


def multipath(fake: FakeHost) -> None:
    fake.put(f"{DISK}/holders/dm-4", "")
    fake.put("/sys/class/block/dm-4/dm/uuid", "mpath-abc")
    fake.put("/sys/class/block/dm-4/dm/name", "mpatha")


def nvmet(fake: FakeHost) -> None:
    fake.put("/dev/nvme5n1", "")
    fake.path("/dev/disk/by-id").mkdir(parents=True)
    fake.path("/dev/disk/by-id/nvme-x").symlink_to("../../nvme5n1")
    fake.put(
        "/sys/kernel/config/nvmet/subsystems/nqn.x/namespaces/1/device_path",
        "/dev/disk/by-id/nvme-x",
    )


def unreadable(path: str) -> Change:
    """In place of a file a directory: reading it fails whoever we are."""

    def change(fake: FakeHost) -> None:
        fake.path(path).unlink(missing_ok=True)
        fake.path(path).mkdir(parents=True)

    return change


def blocked(path: str) -> Change:
    """In place of a directory a file: listing it fails whoever we are."""

    def change(fake: FakeHost) -> None:
        fake.path(path).rmdir()
        fake.put(path, "")

    return change


NVMET = "/sys/kernel/config/nvmet/subsystems/nqn.x"
REASONS: dict[str, tuple[Change, tuple[str, ...]]] = {
    "defined": (
        lambda fake: fake.domain("/etc/libvirt/qemu/guest.xml"),
        ("domain", "'guest'", "/etc/libvirt/qemu/guest.xml"),
    ),
    "running": (
        lambda fake: fake.put(
            "/run/libvirt/qemu/live.xml",
            "<domstatus><domain><name>live</name><devices><interface type='network'>"
            "<actual type='hostdev'><source><address type='pci' domain='0x0000' bus='0x01' "
            "slot='0x00' function='0x0'/></source></actual></interface></devices></domain>"
            "</domstatus>",
        ),
        ("domain", "'live'"),
    ),
    "decimal": (
        lambda fake: fake.domain("/etc/libvirt/qemu/guest.xml", bus="1"),
        ("domain",),
    ),
    "nvme disk": (
        puts(
            "/etc/libvirt/qemu/d.xml",
            "<domain><name>d</name><devices><disk type='nvme'><source type='pci' namespace='1'>"
            "<address domain='0' bus='1' slot='0' function='0'/></source></disk></devices>"
            "</domain>",
        ),
        ("domain", "'d'"),
    ),
    "qemu argument": (
        puts(
            "/etc/libvirt/qemu/a.xml",
            "<domain xmlns:q='http://libvirt.org/schemas/domain/qemu/1.0'><name>a</name>"
            "<q:commandline><q:arg value='vfio-pci,host=01:00.0'/></q:commandline></domain>",
        ),
        ("domain", "'a'"),
    ),
    "block disk": (
        disk_of_a_domain("<disk type='block'><source dev='/dev/nvme5n1'/></disk>"),
        ("domain", "'b'", "/etc/libvirt/qemu/b.xml"),
    ),
    "block disk by id": (
        disk_of_a_domain("<disk type='block'><source dev='/dev/disk/by-id/nvme-x-part1'/></disk>"),
        ("domain", "'b'"),
    ),
    "block disk by path": (
        disk_of_a_domain(f"<disk><source dev='/dev/disk/by-path/pci-{ADDRESS}-nvme-1'/></disk>"),
        ("domain", "'b'"),
    ),
    "qemu argument with a path": (
        disk_of_a_domain(
            "<a xmlns:q='x'><q:arg value='if=none,file=/dev/nvme5n1,format=raw'/></a>"
        ),
        ("domain", "'b'"),
    ),
    "broken domain": (puts("/etc/libvirt/qemu/x.xml", "<domain>"), ("cannot prove", "x.xml")),
    "not a domain": (puts("/run/libvirt/qemu/x.xml", "<network/>"), ("cannot prove", "x.xml")),
    "senseless address": (
        lambda fake: fake.domain("/etc/libvirt/qemu/x.xml", bus="zz"),
        ("cannot prove", "x.xml"),
    ),
    "unreadable domain": (unreadable("/etc/libvirt/qemu/x.xml"), ("cannot prove",)),
    "vfio group": (holds("/dev/vfio/vfio", "/dev/vfio/9"), ("vfio user", "50 (holder)")),
    "vfio group elsewhere": (vfio_device, ("vfio user", "/dev/full")),
    "vfio device": (vfio_cdev, ("vfio user", "vfio3")),
    "vfio device's own descriptor": (vfio_descriptor, ("vfio user", "50 (spdk)", "vfio-device")),
    "deleted node": (holds("/dev/vfio/9 (deleted)"), ("vfio user",)),
    "pci resource": (holds(f"/sys/devices/x/{ADDRESS}/resource0"), ("vfio user", "resource0")),
    "strange driver": (lambda fake: fake.driver("uio_pci_generic"), ("driver", "uio_pci_generic")),
    "virtual functions": (links(f"{FUNCTION}/virtfn0", "../x"), ("virtual functions",)),
    "controller open": (holds("/dev/null"), ("open", "/dev/null")),
    "generic device open": (holds("pipe:[1]", "/dev/zero"), ("open", "/dev/zero")),
    "boot partition": (system_on_drive, ("boot drive", "nvme5n1")),
    "boot stack": (system_on_stack, ("boot drive", "nvme5n1")),
    "boot argument": (kernel_root, ("boot drive",)),
    "boot btrfs": (btrfs_system, ("boot drive",)),
    "resume device": (puts("/sys/power/resume", "259:1"), ("boot drive",)),
    "crash store": (puts("/sys/module/pstore_blk/parameters/blkdev", "259:0"), ("boot drive",)),
    "mounted": (mountinfo(r"30 22 259:0 / /a\040b rw - xfs /dev/x rw"), ("mounted", "/a b")),
    "partition mounted": (
        mountinfo("30 22 259:1 / /x rw shared:1 - xfs /dev/x rw"),
        ("mounted", "nvme5n1p1"),
    ),
    "btrfs source": (mountinfo("30 22 0:44 / /x rw - btrfs /dev/nvme5n1 rw"), ("mounted",)),
    "odd mountinfo": (mountinfo("30 22"), ("cannot prove", "mountinfo")),
    "swap": (puts("/proc/swaps", "Filename\n/dev/nvme5n1p1 partition 1 0 -2"), ("swap",)),
    "md": (puts(f"{DISK}/holders/md127"), ("stacked", "md127 (md)")),
    "lvm": (lvm, ("stacked", "LVM vg-lv")),
    "multipath": (multipath, ("stacked", "mpath mpatha")),
    "bcache": (puts(f"{PARTITION}/bcache/state"), ("stacked", "bcache")),
    "loop": (puts("/sys/block/loop3/loop/backing_file", "/dev/nvme5n1"), ("stacked", "loop3")),
    "btrfs member": (puts("/sys/fs/btrfs/u/devices/nvme5n1/dev"), ("stacked", "btrfs")),
    "nvmet of a container's name": (
        lambda fake: (
            fake.put(f"{NVMET}/namespaces/2/device_path", "/xvda"),
            fake.put(f"{NVMET}/namespaces/2/enable", "1"),
        ),
        ("exported", "/xvda", "nothing is here"),
    ),
    "nvmet": (nvmet, ("exported", "nvmet", "nqn.x")),
    "nvmet passthrough": (
        puts(f"{NVMET}/passthru/device_path", "/dev/nvme5"),
        ("exported", "passthrough"),
    ),
    "LIO": (
        puts("/sys/kernel/config/target/core/iblock_0/x/udev_path", "/dev/nvme5n1p1"),
        ("exported", "LIO"),
    ),
    "exclusive": (puts("/claimed/nvme5n1"), ("claimed", "nvme5n1")),
    "unreadable descriptors": (blocked("/proc/40/fd"), ("cannot prove", "40 (sshd)")),
    "unreadable mounts": (unreadable("/proc/40/mountinfo"), ("cannot prove", "40 (sshd)")),
    "unreadable numbers": (puts(f"{DISK}/dev", "x"), ("cannot prove",)),
    "unreadable swaps": (unreadable("/proc/swaps"), ("cannot prove",)),
}


@pytest.mark.parametrize("name", REASONS)
def test_each_use_is_seen_and_named(fake: FakeHost, name: str) -> None:
    change, words = REASONS[name]
    change(fake)
    with pytest.raises(InUseError) as caught:
        prove(fake)
    for word in (ADDRESS, *words) if "cannot prove" not in words else words:
        assert word in str(caught.value)
    assert "\n" not in str(caught.value)


CONTAINERS = "pid:[4026532281]"


def test_who_does_not_see_every_process_proves_nothing(fake: FakeHost) -> None:
    """In a container without the host's PID namespace /proc lists the container's own."""
    own = fake.path("/proc/self/ns/pid")
    own.unlink()
    fake.link("/proc/self/ns/pid", CONTAINERS)
    fake.path("/proc/1/mountinfo").write_text("22 1 0:40 / / rw - overlay overlay rw\n")
    said = re.escape(f"found {CONTAINERS}: a container needs the host's PID namespace")
    with pytest.raises(InUseError, match=said):
        prove(fake)
    with pytest.raises(InUseError, match=said):
        domains.listed(fake.host)
    with pytest.raises(InUseError, match=said):
        openers.pids(fake.host)
    own.unlink()
    with pytest.raises(InUseError, match="found none: a container needs"):
        prove(fake)


def test_the_number_of_the_first_pid_namespace_is_the_kernels() -> None:
    """include/linux/proc_ns.h and include/uapi/linux/nsfs.h: 0xEFFFFFFC."""
    assert proc.ALL_PIDS == "pid:[4026531836]"


def test_a_kernel_without_pid_namespaces_shows_every_process(fake: FakeHost) -> None:
    fake.path("/proc/self/ns/pid").unlink()
    fake.link("/proc/self/ns/mnt", "mnt:[1]")
    prove(fake)


def contained_libvirt(fake: FakeHost) -> str:
    """A daemon in a container that has /etc and /run to itself; its root as seen from here."""
    fake.link("/proc/self/ns/mnt", "mnt:[1]")
    place = "/proc/90"
    fake.put(f"{place}/stat", "90 (libvirtd) S " + "0 " * 19)
    fake.put(f"{place}/status", "Uid:\t0\t0\t0\t0")
    fake.put(f"{place}/mountinfo", ROOT)
    fake.link(f"{place}/ns/mnt", "mnt:[90]")
    fake.path(f"{place}/fd").mkdir()
    return f"{place}/root"


@pytest.mark.parametrize("directory", ["/etc/libvirt/qemu", "/run/libvirt/qemu"])
def test_a_domain_of_a_libvirt_in_a_container_is_seen(fake: FakeHost, directory: str) -> None:
    """Shut off, its drive is on the nvme driver and open by nobody."""
    root = contained_libvirt(fake)
    fake.domain(f"{root}{directory}/other.xml", bus="0x02")
    prove(fake)
    fake.domain(f"{root}{directory}/guest.xml")
    with pytest.raises(InUseError, match=f"'guest' names it in {root}{directory}/guest.xml"):
        prove(fake)


@pytest.mark.parametrize("same", [False, True])
def test_a_domain_of_the_host_is_seen_from_a_container_while_its_libvirt_is_down(
    fake: FakeHost, same: bool
) -> None:
    """The container has the host's PID namespace, and an /etc of its own; a unit that systemd
    confines has a mount namespace too, and the host's files."""
    fake.link("/proc/self/ns/mnt", "mnt:[9]")
    fake.path("/proc/1/root").unlink()
    fake.domain("/host/etc/libvirt/qemu/guest.xml")
    fake.path("/proc/1/root").symlink_to(fake.path("/host"))
    if same:
        fake.path("/etc").symlink_to(fake.path("/host/etc"))
    place = "/etc/libvirt/qemu" if same else "/proc/1/root/etc/libvirt/qemu"
    assert [each.file for each in domains.listed(fake.host)] == [f"{place}/guest.xml"]
    with pytest.raises(InUseError, match=f"'guest' names it in {place}/guest.xml"):
        prove(fake)


def test_a_libvirt_that_ends_while_its_domains_are_read_proves_nothing(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    contained_libvirt(fake)
    read = domains._listed

    def listed(host: Host, view: str) -> Iterator[domains.ListedDomain]:
        if view:
            fake.path("/proc/90").rename(fake.path("/proc/gone"))
        return read(host, view)

    monkeypatch.setattr(domains, "_listed", listed)
    with pytest.raises(InUseError, match="it ended meanwhile"):
        domains.listed(fake.host)


def test_a_libvirt_that_ended_and_is_not_reaped_proves_nothing(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its place in /proc stays until then, without a root: as if it had no domains."""
    contained_libvirt(fake)
    read = domains._listed

    def listed(host: Host, view: str) -> Iterator[domains.ListedDomain]:
        if view:
            fake.put("/proc/90/stat", "90 (libvirtd) Z " + "0 " * 19)
        return read(host, view)

    monkeypatch.setattr(domains, "_listed", listed)
    with pytest.raises(InUseError, match="it ended meanwhile"):
        domains.listed(fake.host)


def test_a_libvirt_that_ends_before_anybody_knows_what_it_sees_proves_nothing(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without its namespace it would pass for one that sees what we see."""
    contained_libvirt(fake)
    look = proc.view

    def view(host: Host, process: proc.Process) -> str:
        if process == proc.FIRST:
            return look(host, process)
        fake.path("/proc/90").rename(fake.path("/proc/gone"))
        return look(host, process)

    monkeypatch.setattr(proc, "view", view)
    with pytest.raises(InUseError, match="it ended meanwhile"):
        domains.listed(fake.host)


@pytest.mark.parametrize("number", [errno.ENOMEM, errno.EACCES, errno.EIO])
@pytest.mark.parametrize("file", ["ns/mnt", "stat", "status"])
def test_a_libvirt_that_cannot_be_looked_at_proves_nothing(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch, file: str, number: int
) -> None:
    """It would pass for one that is not there, or that sees what we see: a guest that is off and
    stands in its files alone would have no drive."""
    contained_libvirt(fake)
    monkeypatch.setattr(domains, "PATIENCE", 0.0)
    read = "link" if file == "ns/mnt" else "text"
    real = getattr(Host, read)

    def fails(host: Host, absolute: str) -> Any:
        if absolute == f"/proc/90/{file}":
            raise OSError(number, os.strerror(number))
        return real(host, absolute)

    monkeypatch.setattr(Host, read, fails)
    with pytest.raises(InUseError, match="who runs on this host, found"):
        domains.listed(fake.host)


def test_who_may_not_ask_of_the_first_process_sees_what_it_sees(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has all capabilities, and a service of the host need not."""
    fake.domain("/etc/libvirt/qemu/guest.xml")
    real = Host.link

    def fails(host: Host, absolute: str) -> str | None:
        if absolute == "/proc/1/ns/mnt":
            raise PermissionError(errno.EACCES, "Permission denied")
        return real(host, absolute)

    monkeypatch.setattr(Host, "link", fails)
    assert [each.file for each in domains.listed(fake.host)] == ["/etc/libvirt/qemu/guest.xml"]


def test_a_libvirt_that_could_not_be_looked_at_once_is_looked_at_again(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = contained_libvirt(fake)
    fake.domain(f"{root}/etc/libvirt/qemu/guest.xml")
    real, lacks = Host.text, [True]

    def fails(host: Host, absolute: str) -> str:
        if absolute == "/proc/90/stat" and lacks:
            lacks.pop()
            raise OSError(errno.ENOMEM, "Cannot allocate memory")
        return real(host, absolute)

    monkeypatch.setattr(Host, "text", fails)
    assert [each.file for each in domains.listed(fake.host)] == [
        f"{root}/etc/libvirt/qemu/guest.xml"
    ]


def test_a_name_that_is_cut_in_the_midst_of_a_letter_can_be_told_of(fake: FakeHost) -> None:
    """The kernel keeps 15 bytes of it; what is said of it goes into reports, which are UTF-8."""
    holds("/dev/null")(fake)
    fake.path("/proc/50/comm").write_bytes("überwachung-für".encode()[:15] + b"\xc3\n")
    with pytest.raises(InUseError, match="berwachung") as caught:
        prove(fake)
    assert b"berwachung" in codec.canonical([str(caught.value)])


@pytest.mark.parametrize(
    ("said", "address"),
    [
        ("vfio-pci,host=01:00.0", "0000:01:00.0"),
        ("vfio-pci,host=0:1:0.0", "0000:01:00.0"),
        ("vfio-pci,host=1:01:00.0", "0001:01:00.0"),
        ("vfio-pci,host=00A:01:00.0,id=x", "000a:01:00.0"),
        ("vfio-pci,host=10000:E1:1f.7", "10000:e1:1f.7"),
        ('{"driver":"vfio-pci","host":"0000:01:00.0"}', "0000:01:00.0"),
        ("vfio-pci,sysfsdev=/sys/devices/pci0000:00/0000:00:1c.0", "0000:00:1c.0"),
    ],
)
def test_an_address_counts_however_qemu_takes_it(said: str, address: str) -> None:
    argument = ElementTree.Element("{http://libvirt.org/schemas/domain/qemu/1.0}arg", value=said)
    top = ElementTree.Element("domain")
    top.append(argument)
    assert domains.named(ElementTree.tostring(top)).addresses == {address}


def test_a_process_cannot_speak_to_people_by_its_name(fake: FakeHost) -> None:
    holds("/dev/null")(fake)
    fake.put("/proc/50/comm", "x\n0\x1b[2J")
    with pytest.raises(InUseError, match=re.escape("process 50 (x?0?[2J) has")):
        prove(fake)


@pytest.mark.parametrize(
    "told",
    ["pos:\t0\nino:\t1113\n", "vfio-device-syspath: /sys/devices/pci0000:00/0000:02:00.0\n", None],
    ids=["older kernel", "another drive", "ended"],
)
def test_a_vfio_descriptor_that_is_not_the_drives_counts_for_nothing(
    fake: FakeHost, told: str | None
) -> None:
    fake.process(50, "qemu", mountinfo=ROOT, fds=("anon_inode:[vfio-device]",))
    if told is not None:
        fake.put("/proc/50/fdinfo/0", told)
    assert prove(fake).processes == 3


def test_vfio_without_an_iommu_group_cannot_be_proved(fake: FakeHost) -> None:
    fake.driver("vfio-pci")
    fake.path(f"{FUNCTION}/iommu_group").unlink()
    with pytest.raises(InUseError, match="without an IOMMU group"):
        prove(fake)


def test_what_is_not_this_drives_is_no_use(fake: FakeHost) -> None:
    """Neighbours with alike names and numbers, and the guest's side of an address."""
    holds("/dev/vfio/19", "/dev/vfio/vfio", "socket:[9]", "/tmp/gone (deleted)", "/dev/full")(fake)
    fake.put("/sys/block/loop3/loop/backing_file", "/images/nvme5n1")
    fake.put("/proc/swaps", "Filename\n/swapfile file 1 0 -2\n/dev/nvme55n1 partition 1 0 -2")
    fake.put("/sys/kernel/config/nvmet/subsystems/n/namespaces/1/device_path", "/dev/nvme6n1")
    fake.put("/etc/libvirt/qemu/notes.txt", "0000:01:00.0")
    fake.domain("/etc/libvirt/qemu/other.xml", bus="0x11")
    assert prove(fake)


@pytest.mark.parametrize("kind", ["tmpfs", "overlay", "fuse.mine"])
def test_a_source_that_any_user_may_choose_is_no_mount_of_the_drive(
    fake: FakeHost, kind: str
) -> None:
    fake.put("/proc/filesystems", "nodev\ttmpfs\nnodev\toverlay\nnodev\tfuse\n\tbtrfs")
    mountinfo(f"30 22 0:44 / /x rw - {kind} /dev/nvme5n1 rw")(fake)
    assert prove(fake)


@pytest.mark.parametrize("kind", ["btrfs", "odd"])
def test_any_other_kind_of_mount_is_of_the_drive_that_is_its_source(
    fake: FakeHost, kind: str
) -> None:
    fake.put("/proc/filesystems", "nodev\ttmpfs\n\tbtrfs")
    mountinfo(f"30 22 0:44 / /x rw - {kind} /dev/nvme5n1 rw")(fake)
    with pytest.raises(InUseError, match="nvme5n1 is mounted at /x"):
        prove(fake)


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028"])
def test_a_mount_point_with_an_odd_name_keeps_nobody_from_the_proof(
    fake: FakeHost, odd: str
) -> None:
    """The kernel writes it as it is; whoever may mount anything anywhere may choose it."""
    fake.process(50, "fuse", mountinfo=f"{ROOT}\n40 22 0:50 / /home/a{odd}b rw - fuse x rw")
    assert prove(fake)


def test_swap_space_with_an_odd_blank_in_its_path_is_seen(fake: FakeHost) -> None:
    path = "/dev/disk/by-partlabel/our\xa0swap"
    fake.link(path, str(fake.path("/dev/nvme5n1p1")))
    fake.put("/proc/swaps", f"Filename\n{path} partition\t1\t0\t-2")
    with pytest.raises(InUseError, match="is swap space"):
        prove(fake)


class LoopDevices(Devices):
    """A loop device whose backing device has these numbers, whatever it was called."""

    def __init__(self, behind: int, error: int = 0) -> None:
        self.behind, self.error = behind, error

    def open(self, path: Path, node: Node, flags: int) -> int:
        assert (node.name, node.numbers) == ("loop3", "7:3")
        return os.open(path, flags)

    def ioctl(self, descriptor: int, request: int, argument: bytearray) -> int:
        assert (request, len(argument)) == (0x4C05, 232)
        if self.error:
            raise OSError(self.error, os.strerror(self.error))
        argument[16:24] = self.behind.to_bytes(8, "little")
        return 0


@pytest.mark.parametrize("name", ["/xvda", "/tmp/n (deleted)", "/dev/nvme7n1"])
def test_a_loop_device_is_known_by_what_the_kernel_has_behind_it(fake: FakeHost, name: str) -> None:
    """Its name is one in a container's file system, or of a node that was removed since."""
    fake.put("/sys/block/loop3/loop/backing_file", name)
    fake.put("/sys/block/loop3/dev", "7:3")
    fake.put("/dev/loop3", "")
    drive = Node("nvme5n1", *map(int, fake.host.text(f"{DISK}/dev").split(":")), True)

    def loop(behind: int, error: int = 0) -> Host:
        return dataclasses.replace(fake.host, devices=LoopDevices(behind, error))

    assert [*usage.stacked(loop(drive.rdev), (drive,))] == [
        f"{name} is behind the loop device loop3"
    ]
    assert not [*usage.stacked(loop(os.makedev(259, 77)), (drive,))]
    assert not [*usage.stacked(loop(0), (drive,))], "a file"
    assert not [*usage.stacked(loop(0, errno.ENXIO), (drive,))], "taken down meanwhile"
    with pytest.raises(OSError, match="Input/output"):
        [*usage.stacked(loop(0, errno.EIO), (drive,))]


def test_our_own_descriptors_and_claims_are_no_use(fake: FakeHost) -> None:
    fake.process(77, "eraser", mountinfo=ROOT, fds=("/dev/null", "/dev/zero"))
    fake.put("/claimed/nvme5n1", "")
    assert prove(fake, claimed={"nvme5n1"})
    with pytest.raises(InUseError, match="claimed"):
        prove(fake)


def test_an_absent_function_is_absent_but_a_claimed_one_is_in_use(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    with pytest.raises(AbsentError):
        prove_idle(fake.host, "0000:09:00.0", own_pids=frozenset())
    fake.domain("/etc/libvirt/qemu/guest.xml", bus="0x09")
    with pytest.raises(InUseError, match="'guest'"):
        prove_idle(fake.host, "0000:09:00.0", own_pids=frozenset())


def test_a_passing_look_is_waited_for(fake: FakeHost, monkeypatch: pytest.MonkeyPatch) -> None:
    holds("/dev/null")(fake)
    monkeypatch.setattr(time, "sleep", lambda _s: fake.path("/proc/50/fd/0").unlink())
    assert prove_idle(fake.host, ADDRESS, own_pids=frozenset(), patience=60)


def test_a_node_that_comes_late_is_waited_for(
    fake: FakeHost, monkeypatch: pytest.MonkeyPatch
) -> None:
    fake.path(f"{DISK}/dev").unlink()
    with pytest.raises(InUseError, match="cannot prove"):
        prove(fake)
    monkeypatch.setattr(time, "sleep", lambda _s: fake.put(f"{DISK}/dev", "259:0"))
    assert prove_idle(fake.host, ADDRESS, own_pids=frozenset(), patience=60)


def test_another_device_under_the_drives_name_is_refused(tmp_path: Path) -> None:
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev/nvme5n1").write_text("")
    with pytest.raises(sysfs.DriveError, match="found another"):
        sysfs.open_node(Host(tmp_path), Node("nvme5n1", 259, 0, True), os.O_RDONLY)
