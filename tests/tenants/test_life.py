"""The role on fresh drives, twice, over a reboot, and when the drives are others afterwards."""

from __future__ import annotations

import pytest

from tests.tenants.instance import Instance

MOUNT = "/mnt/nvme"


def source(instance: Instance) -> str:
    """What is mounted, by its lasting name."""
    return instance.sh(f"findmnt -n -o SOURCE {MOUNT}").strip()


def geometry(instance: Instance) -> dict[str, str]:
    """``sunit=128`` and the like, as xfs_info prints them; the log's under ``log``."""
    text = instance.sh(f"xfs_info {MOUNT}").replace(" blks", "").replace(",", " ")
    data, _, log = text.partition("naming")
    found = dict(word.partition("=")[::2] for word in data.split() if "=" in word)
    logs = dict(word.partition("=")[::2] for word in log.split() if "=" in word)
    return {**found, "log": logs["sunit"]}


@pytest.mark.parametrize("count", [1, 2, 4, 8])
def test_fresh_drives_are_built_once_and_outlive_a_reboot(instance: Instance, count: int) -> None:
    instance.start(count)
    mark = instance.mark()

    # The whole role once, with all that takes long.
    whole = {"packages": ["mdadm", "xfsprogs"], "initramfs": True} if count == 2 else {}

    told = instance.play("--check", "--diff", **whole)

    assert (told.code, told.changed) == (0, 1), told.output
    assert "x-nvme-raid=nvme" in told.output
    assert instance.written(mark) == []
    assert MOUNT not in instance.sh("cat /etc/fstab")

    first = instance.built(**whole)

    assert first.changed == 1
    assert first.steps == told.steps
    assert first.result["drives"] == [instance.device(slot) for slot in range(count)]
    line = next(row for row in instance.sh("cat /etc/fstab").splitlines() if MOUNT in row)
    assert line.split()[0] == f"UUID={first.result['uuid']}"
    assert {"noatime", "nofail", "x-systemd.device-timeout=30s"} <= set(line.split()[3].split(","))
    assert instance.sh("systemctl is-enabled fstrim.timer").strip() == "enabled"
    assert instance.sh(f"findmnt -n -o LABEL {MOUNT}").strip() == "nvme"
    assert "noatime" in instance.sh(f"findmnt -n -o OPTIONS {MOUNT}")
    shape = geometry(instance)
    if count > 1:
        # In blocks of 4 KiB: 512 KiB on each drive, the log in stripes of 32 KiB.
        assert (shape["sunit"], shape["swidth"], shape["log"]) == ("128", str(128 * count), "8")
        detail = instance.sh("mdadm --detail /dev/md/nvme")
        for said in ("raid0", "Version : 1.2", "Chunk Size : 512K", f"Raid Devices : {count}"):
            assert said in detail
        order = [row.split()[-1] for row in detail.splitlines() if "active sync" in row]
        assert order == first.result["drives"]
        conf = instance.sh("cat /etc/mdadm/mdadm.conf")
        assert conf.count("\nARRAY") == 1
    if whole:
        in_initramfs = instance.sh(
            "unmkinitramfs /boot/initrd.img-* /tmp/u; cat /tmp/u/etc/mdadm/mdadm.conf"
        )
        assert next(row for row in conf.splitlines() if row.startswith("ARRAY")) in in_initramfs

    instance.sh(f"echo kept >{MOUNT}/file")
    second = instance.built(**whole)
    assert (second.changed, second.steps) == (0, []), second.output
    again = instance.play("--check")
    assert (again.code, again.changed) == (0, 0)

    instance.restart()

    if count > 1:
        # Assembled by udev, by the name in mdadm.conf.
        assert instance.sh("mdadm --detail --scan").split()[1] == "/dev/md/nvme"
    assert instance.sh(f"mount -a; cat {MOUNT}/file").strip() == "kept"
    third = instance.built()
    assert (third.changed, third.steps) == (0, []), third.output


def test_systemd_makes_of_the_line_what_was_meant(instance: Instance) -> None:
    instance.start(1)
    instance.built(before=["postgresql.service"])

    units = instance.sh(
        "mkdir /tmp/a /tmp/b /tmp/c; "
        "/lib/systemd/system-generators/systemd-fstab-generator /tmp/a /tmp/b /tmp/c; "
        "cat /tmp/a/mnt-nvme.mount; find /tmp/a -name '*.mount' -o -name '*.conf'"
    )

    assert "Before=postgresql.service" in units
    assert "postgresql.service.requires/mnt-nvme.mount" in units
    # nofail: wanted by local-fs.target, not required, and not waited for.
    assert "local-fs.target.wants/mnt-nvme.mount" in units
    assert "local-fs.target.requires/mnt-nvme.mount" not in units


def test_stop_and_start_on_other_drives_makes_the_array_anew(instance: Instance) -> None:
    instance.start(2)
    first = instance.built()
    instance.restart(instance.fresh(2))
    told = instance.play("--check", "--diff")
    assert first.result["uuid"] in told.output

    second = instance.built()

    assert second.steps[0].startswith("create /dev/md/nvme")
    assert second.result["uuid"] != first.result["uuid"]
    fstab, conf = instance.sh("cat /etc/fstab"), instance.sh("cat /etc/mdadm/mdadm.conf")
    assert fstab.count(MOUNT) == 1
    assert conf.count("\nARRAY") == 1
    assert first.result["uuid"] not in fstab
    assert instance.built().changed == 0
    instance.restart()
    instance.sh("mount -a")
    assert instance.built().changed == 0


def test_crypto_erased_drives_are_free_unless_blank_ones_are_asked_for(
    instance: Instance,
) -> None:
    instance.start(2, preset="crypto-random")
    for slot in range(2):
        controller = instance.guest.controller(f"0000:{slot + 1:02x}:00.0")
        instance.sh(f"nvme sanitize /dev/{controller} --sanact=4")
        instance.sh(
            f"until nvme sanitize-log /dev/{controller} -o json | grep -q '\"sprog\":65535'; "
            "do sleep 0.2; done"
        )
    noise = instance.guest.run(["head", "-c", "64", instance.device(0)]).raw
    assert len(set(noise)) > 20

    refused = instance.play(require_blank=True)

    assert refused.code != 0
    assert "it holds random bytes" in refused.output
    assert instance.built().changed == 1
    assert instance.built().changed == 0
