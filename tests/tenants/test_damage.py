"""Each item that the role manages is damaged, reported as changed, and mended; the data stays."""

from __future__ import annotations

from typing import Final

from tests.tenants.instance import Instance

_REBUILD: Final = "rebuild the initramfs (update-initramfs -u)"
_DAMAGE: Final = (
    # What is done, and the steps that mend it.
    ("umount /mnt/nvme", ["mount /mnt/nvme"]),
    ("mount -o remount,relatime /dev/md/nvme /mnt/nvme", ["remount /mnt/nvme with noatime"]),
    ("sed -i '/nvme/d' /etc/fstab", ["write /etc/fstab"]),
    ("sed -i 's/noatime,nofail/defaults/' /etc/fstab", ["write /etc/fstab"]),
    ("grep nvme /etc/fstab >>/etc/fstab.2; cat /etc/fstab.2 >>/etc/fstab", ["write /etc/fstab"]),
    (
        "sed -i '/^ARRAY/d' /etc/mdadm/mdadm.conf",
        ["write /etc/mdadm/mdadm.conf", _REBUILD],
    ),
    (
        # As many guides say; the array gets a second line, by another name.
        "mdadm --detail --scan | sed s,/dev/md/nvme,/dev/md127, >>/etc/mdadm/mdadm.conf",
        ["write /etc/mdadm/mdadm.conf", _REBUILD],
    ),
    ("xfs_io -c 'label -s wrong' /mnt/nvme", ["label the XFS on /dev/md/nvme nvme"]),
    (
        "umount /mnt/nvme; xfs_admin -L wrong /dev/md/nvme",
        ["label the XFS on /dev/md/nvme nvme", "mount /mnt/nvme"],
    ),
    (
        "umount /mnt/nvme; rmdir /mnt/nvme",
        ["make the directory /mnt/nvme", "mount /mnt/nvme"],
    ),
    ("rm /dev/md/nvme", ["make the link /dev/md/nvme to /dev/md127 again"]),
    (
        "rm /var/lib/nvme-raid/initramfs",
        [_REBUILD],
    ),
    ("systemctl disable fstrim.timer", ["enable fstrim.timer"]),
    (
        "umount /mnt/nvme; mdadm --stop /dev/md/nvme",
        [
            "assemble /dev/md/nvme of /dev/nvme0n1, /dev/nvme1n1",
            "mount /mnt/nvme",
        ],
    ),
    (
        "umount /mnt/nvme; mdadm --stop /dev/md/nvme; "
        "mdadm --assemble /dev/md/other /dev/nvme0n1 /dev/nvme1n1; udevadm settle",
        [
            "stop /dev/md127, which is not /dev/md/nvme, and assemble /dev/md/nvme of "
            "/dev/nvme0n1, /dev/nvme1n1",
            "mount /mnt/nvme",
        ],
    ),
)


def test_each_managed_item_is_mended_and_the_data_stays(instance: Instance) -> None:
    instance.start(2)
    instance.built()
    # One entry of somebody else in either file, which has to stay.
    instance.sh(
        "echo kept >/mnt/nvme/file; "
        "for file in /etc/fstab /etc/mdadm/mdadm.conf; do echo '# mine' >>$file; done"
    )
    instance.built(initramfs=True)
    for script, steps in _DAMAGE:
        instance.sh(script)

        play = instance.built(initramfs=True)

        assert (play.changed, play.steps) == (1, steps), (script, play.output)
        assert instance.sh("cat /mnt/nvme/file").strip() == "kept"
    last = instance.built(initramfs=True)
    assert (last.changed, last.steps) == (0, [])
    assert instance.sh("grep -c '# mine' /etc/fstab /etc/mdadm/mdadm.conf").count(":1") == 2
