"""What the role never touches: it stops, names the drive, and not one write reaches any drive."""

from __future__ import annotations

from typing import Final

import pytest

from tests.tenants.instance import Instance

_ZFS_LABEL: Final = r"""
import struct, sys
# An uberblock of ZFS (uberblock_phys of OpenZFS) in each slot of the first label, by hand: this
# guest has no ZFS. blkid wants several.
device = open(sys.argv[1], "r+b", buffering=0)
for slot in range(128):
    device.seek((128 << 10) + slot * 1024)
    block = struct.pack("<QQQQQ", 0x00bab10c, 5000, slot + 1, 1, 1700000000)
    device.write(block.ljust(1024, b"\0"))
"""
_CASES: Final = (
    ("echo ',,' | sfdisk -q {device}; udevadm settle", "nvme1n1p1"),
    ("echo 'label: gpt' | sfdisk -q {device}; udevadm settle", "a gpt partition table"),
    ("mke2fs -q -t ext4 {device}", "it holds ext4"),
    ("mkfs.xfs -q -f -L mine {device}", "it holds an XFS labelled mine"),
    ("pvcreate -q {device}", "it holds LVM2_member"),
    (
        "pvcreate -q {device}; vgcreate -q vg {device}; lvcreate -q -y -l 5 -n lv vg; "
        "udevadm settle",
        "dm-0 is built on it",
    ),
    (
        "echo secret | cryptsetup -q luksFormat --type luks2 --pbkdf pbkdf2 "
        "--pbkdf-force-iterations 1000 {device} -",
        "it holds crypto_LUKS",
    ),
    ("python3 /tmp/zfs.py {device}; udevadm settle", "it holds zfs_member"),
    ("mkswap {device}; swapon {device}", "it is swap space"),
    ("mke2fs -q -t ext4 {device}; mount {device} /mnt", "it is mounted on /mnt"),
    (
        "mdadm -q --create /dev/md/db --run --force --level=0 --raid-devices=1 {device}; "
        "udevadm settle",
        "it is a member of the array",
    ),
    (
        "mdadm -q --create /dev/md/db --run --force --metadata=1.0 --level=1 --raid-devices=1 "
        "{device}; udevadm settle; mdadm -q --stop /dev/md/db",
        "it holds an md superblock, linux_raid_member",
    ),
    (
        "yes 'a table without a signature' | dd of={device} bs=4k count=4 oflag=direct "
        "iflag=fullblock status=none",
        "it holds data without a signature",
    ),
)
_CLEAR: Final = """
umount /mnt 2>/dev/null || true
swapoff -a
vgchange -q -an >/dev/null 2>&1 || true
for array in /dev/md/*; do [ ! -e "$array" ] || mdadm -q --stop "$array"; done
wipefs -q -a {device}
blkdiscard -f {device}
udevadm settle
"""


def test_a_drive_that_holds_anything_is_named_and_nothing_is_written(instance: Instance) -> None:
    instance.start(2)
    instance.guest.put("/tmp/zfs.py", _ZFS_LABEL)
    for script, said in _CASES:
        device = instance.device(1)
        instance.sh(script.format(device=device))
        files = instance.sh("cat /etc/fstab /etc/mdadm/mdadm.conf")
        mark = instance.mark()

        play = instance.play()

        assert play.code != 0, (script, play.output)
        assert "refused, nothing was changed" in play.output, (script, play.output)
        assert device in play.output, (script, play.output)
        assert said in play.output, (script, play.output)
        assert "changed=0" in play.output
        assert instance.written(mark) == []
        assert instance.sh("cat /etc/fstab /etc/mdadm/mdadm.conf") == files
        instance.sh(_CLEAR.format(device=device))
    # Emptied by its owner's own hand it is a free drive.
    assert instance.built().changed == 1


def test_too_many_or_too_few_drives_are_refused(instance: Instance) -> None:
    instance.start(2)
    mark = instance.mark()

    for expected in (1, 4):
        play = instance.play(drives=expected)

        assert play.code != 0
        assert f"expected {expected} NVMe drives, found 2" in play.output
        assert "serial LAB0000002" in play.output
    assert instance.written(mark) == []
    assert instance.built(drives=1, only=["LAB0000002"]).result["drives"] == [instance.device(1)]


def test_an_array_of_which_a_drive_is_another_is_refused(instance: Instance) -> None:
    instance.start(2)
    instance.built()
    kept, lost = instance.guest.drives
    (other,) = instance.fresh(1)
    instance.restart([kept, other])
    mark = instance.mark()

    play = instance.play()

    assert play.code != 0
    assert "without the missing members it cannot be read" in play.output
    assert kept.serial in play.output
    assert other.serial in play.output
    assert instance.written(mark) == []

    # Nothing was harmed: with the right drive it is the same array.
    instance.restart([kept, lost])
    instance.sh("mount -a")
    assert instance.built().changed == 0


@pytest.mark.parametrize("wrong", [{"name": "md0"}, {"mount": "/etc/x"}, {"chunk": 3}])
def test_a_wish_that_cannot_be_had_is_refused(instance: Instance, wrong: dict[str, object]) -> None:
    instance.start(1)

    play = instance.play(**wrong)

    assert play.code != 0
    assert "expected" in play.output
