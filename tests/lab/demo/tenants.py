"""What the two tenants do with their drives, as the source text's customers do it by hand."""

from __future__ import annotations

from typing import Final

from tests.lab.rack.guests import TenantGuest

SECRET: Final = "TENANT-ONE-SECRET"
FILES: Final = 12
FILE_MIB: Final = 2

_BUILD: Final = """
mdadm --create /dev/md1 --run --level 0 --raid-devices {count} --force {devices} >/dev/null 2>&1
mkfs.xfs -q -f /dev/md1
mount /dev/md1 /mnt
"""

_WRITE: Final = """
for n in $(seq {files}); do
    yes "{secret} customer $n" | head -c 65536 >/mnt/customers-$n.db
    head -c {rest} /dev/urandom >>/mnt/customers-$n.db
done
sync
"""


def build_and_write(tenant: TenantGuest) -> int:
    """RAID 0, XFS, files. Returns how many MiB of files were written."""
    devices = [tenant.block_device(f"0000:{n + 1:02x}:00.0") for n in range(len(tenant.drives))]
    tenant.sh(_BUILD.format(count=len(devices), devices=" ".join(devices)))
    tenant.sh(_WRITE.format(files=FILES, secret=SECRET, rest=FILE_MIB * (1 << 20) - 65536))
    return FILES * FILE_MIB


# Reads past the page cache and counts the marker, also where it crosses two reads.
_SEARCH: Final = """
import mmap, os, sys
path, marker = sys.argv[1], sys.argv[2].encode()
fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
window, blank, tail, hits = mmap.mmap(-1, 1 << 20), bytes(1 << 20), b"", 0
while size := os.readv(fd, [window]):
    seen = window[:size]
    if seen != blank[:size] or tail.strip(b"\\0"):
        hits += (tail + seen).count(marker)
    tail = seen[1 - len(marker):]
print(hits)
"""


def search(tenant: TenantGuest) -> tuple[str, ...]:
    """Everything that a curious tenant could find on the raw devices, one line each."""
    found: list[str] = []
    for n in range(len(tenant.drives)):
        device = tenant.block_device(f"0000:{n + 1:02x}:00.0")
        hits = tenant.run(["python3", "-", device, SECRET], stdin=_SEARCH).stdout.strip()
        if hits != "0":
            found.append(f"{device}: {hits} times the first tenant's marker")
        signature = tenant.run(["blkid", "-p", device], check=False).stdout.strip()
        if signature:
            found.append(f"{device}: {signature}")
        member = tenant.run(["mdadm", "--examine", device], check=False)
        if member.returncode == 0 and "Magic" in member.stdout:
            found.append(f"{device}: the first tenant's md member")
    return tuple(found)
