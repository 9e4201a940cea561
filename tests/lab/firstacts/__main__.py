"""What a next tenant really does first with a drive: ``python -m tests.lab.firstacts``.

A compute host hands three drives of the lab over to a guest, which does what tenants do with real
programs. The drives' own logs say what they were told. Writes docs/first-acts.json, from which
docs/first-acts.md is made; tests/unit/case/test_first_acts.py holds both against the visit.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.lab.firstacts import kinds, ours, page
from tests.lab.guest import build
from tests.lab.nvme.faults import Faults
from tests.lab.rack import Rack, RackDrive, TenantGuest

_SIZE: Final = 1 << 30
_SECTOR: Final = 512
_DRIVES: Final = ("full-featured", "full-featured", "unallocated")
_PACKAGES: Final = (
    *("util-linux", "udev", "xfsprogs", "e2fsprogs", "mdadm", "lvm2", "fdisk", "fio", "nvme-cli"),
)
_SCRIPTS: Final = (
    ("blkid, wipefs, lsblk", "blkid -p $A; wipefs $A; lsblk -f $A"),
    ("a partition table", "printf 'label: gpt\\n,,L\\n' | sfdisk $A; udevadm settle; wipefs -a $A"),
    ("blkdiscard", "blkdiscard $A"),
    ("blkdiscard -z", "blkdiscard -z $A"),
    ("mkfs.xfs", "mkfs.xfs -f $A"),
    (
        "a mounted XFS, and fstrim",
        "mount $A /mnt; dd if=/dev/urandom of=/mnt/f bs=1M count=8 conv=fsync; "
        "echo 3 >/proc/sys/vm/drop_caches; cat /mnt/f >/dev/null; rm /mnt/f; fstrim /mnt; "
        "umount /mnt",
    ),
    ("mkfs.ext4", "mkfs.ext4 -F -q $A"),
    ("pvcreate", "pvcreate -ff -y $A; pvremove -ff -y $A"),
    (
        "mdadm, RAID 0, XFS on it",
        "mdadm --create /dev/md0 --run --level=0 --raid-devices=2 $A $B; udevadm settle; "
        "mkfs.xfs -f /dev/md0; mdadm --stop /dev/md0; mdadm --examine $A; "
        "mdadm --zero-superblock $A $B",
    ),
    (
        "fio: random, backward, direct",
        "fio --name=r --filename=$A --direct=1 --ioengine=libaio --iodepth=16 --rw=randread "
        "--bs=512 --size=4M --output=/dev/null; "
        "fio --name=b --filename=$A --direct=1 --rw=read:-8k --bs=4k --size=1M --output=/dev/null; "
        "fio --name=l --filename=$A --direct=1 --rw=read --bs=1M --size=16M --output=/dev/null",
    ),
    (
        "nvme-cli looks",
        "nvme list -v; nvme id-ctrl $CA; nvme id-ns $A; nvme list-ns $CA --all; "
        "nvme ns-descs $A; nvme smart-log $CA; nvme error-log $CA; nvme fw-log $CA; "
        "nvme effects-log $CA; nvme self-test-log $CA; nvme sanitize-log $CA; "
        "nvme telemetry-log $CA --host-generate=1 --output-file=/tmp/telemetry; "
        "nvme persistent-event-log $CA --action=1; nvme get-feature $CA -f 2; "
        "nvme resv-report $A; nvme boot-part-log $CA --output-file=/tmp/boot",
    ),
    (
        "nvme-cli's own reads and writes",
        "nvme read $A --start-block=8 --block-count=7 --data-size=4096 --data=/tmp/d; "
        "nvme compare $A --start-block=8 --block-count=7 --data-size=4096 --data=/tmp/d; "
        "nvme write $A --start-block=16 --block-count=7 --data-size=4096 --data=/tmp/d; "
        "nvme write-zeroes $A --start-block=8 --block-count=7; "
        "nvme dsm $A --ad --slbs=8 --blocks=8; nvme flush $A; "
        "nvme verify $A --start-block=8 --block-count=7; nvme reset $CA",
    ),
    (
        "nvme-cli's namespaces",
        "nvme create-ns $CC --nsze=65536 --ncap=65536 --flbas=0; "
        "nvme attach-ns $CC --namespace-id=2 --controllers=1; nvme ns-rescan $CC; "
        "nvme detach-ns $CC --namespace-id=2 --controllers=1; nvme delete-ns $CC --namespace-id=2",
    ),
    ("nvme format", "nvme format $C --ses=1 --force"),
)
"""What is done in the guest. $A, $B and $C are namespaces, $CA and $CC controllers. A command that
the drive refuses is one that it was asked."""


@dataclass
class _Trace:
    drives: list[RackDrive]
    activities: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._kinds = {drive.serial: kinds.Kinds(_SECTOR, _SIZE) for drive in self.drives}

    @contextmanager
    def during(self, what: str, how: str) -> Iterator[None]:
        """What the drives are told until the end is this activity's."""
        print(what, file=sys.stderr, flush=True)
        before = [(len(drive.commands()), len(drive.events())) for drive in self.drives]
        yield
        counts = Counter[str]()
        for drive, (commands, events) in zip(self.drives, before, strict=True):
            met = drive.commands()[commands:], drive.events()[events:]
            counts.update(self._kinds[drive.serial].of(*met))
        self.activities.append({"what": what, "how": how, "acts": dict(sorted(counts.items()))})


def _names(guest: TenantGuest) -> str:
    given = []
    for letter, drive in zip("ABC", guest.drives, strict=True):
        address = f"0000:{drive.slot + 1:02x}:00.0"
        given.append(f"{letter}={guest.block_device(address)}")
        given.append(f"C{letter}=/dev/{guest.controller(address)}")
    return "; ".join(given) + "; "


def _traced(rack: Rack) -> dict[str, Any]:
    for slot, preset in enumerate(_DRIVES):
        rack.drive(slot, preset=preset, size=_SIZE)
    for drive in rack.drives:
        drive.set_faults(Faults(log_io=True))  # which is no fault: all commands are written down
    trace = _Trace(rack.drives)
    compute = rack.compute()
    with trace.during("the host lets go of it", "vfio-pci, as libvirt binds it"):
        for drive in rack.drives:
            compute.hand_over(drive.address)
    with trace.during("the guest's kernel and udev", "a boot with the drives in it"):
        guest = rack.tenant(rack.drives)
        guest.run(["udevadm", "settle"])
    for what, script in _SCRIPTS:
        with trace.during(what, script):
            guest.run(["/bin/sh", "-c", _names(guest) + script], timeout=600, check=False)
            guest.run(["udevadm", "settle"])
    with trace.during("the guest boots again", "an orderly end, then a boot"):
        guest.reboot()
        guest.plug_all(rack.drives)
    versions = guest.run(
        ["dpkg-query", "-W", "-f", "${Package} ${Version}\\n", *_PACKAGES]
    ).stdout.split("\n")
    kernel = guest.run(["uname", "-r"]).stdout.strip()
    with trace.during("the instance is deleted", "its guest ends, the host takes the drives back"):
        rack.delete(guest)
    return {
        "kernel": kernel,
        "programs": sorted(filter(None, versions)),
        "activities": trace.activities,
    }


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.firstacts", description=__doc__)
    parser.add_argument("--page", action="store_true", help="make the page alone, run nothing")
    options = parser.parse_args()
    if not options.page:
        images = build.ensure(progress=lambda line: print(line, file=sys.stderr))
        with (
            tempfile.TemporaryDirectory(prefix="nvq-rack-") as directory,
            Rack(Path(directory), images) as rack,
        ):
            page.TRACE.write_text(json.dumps(_traced(rack), indent=1) + "\n")
    page.PAGE.write_text(page.render(page.load(), ours.kinds()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
