"""Whether the IOMMU keeps a slot's drive to the memory that its driver gives it.

While a tenant's drive is on the host's own nvme driver, a firmware that the tenant changed may
write wherever the IOMMU lets it; in the kernel's "identity" domains (``iommu=pt``) that is
everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from eraser.host.sysfs import Host

TRANSLATED = ("DMA", "DMA-FQ")
"""Types of an IOMMU group's default domain that translate
(Documentation/ABI/testing/sysfs-kernel-iommu_groups)."""


def unprotected(host: Host, slots: Iterable[str]) -> tuple[str, ...]:
    """What is wrong, a line for each slot; empty for slots without a function, and where the kernel
    (before 5.11) does not tell. Raises ``OSError``."""
    return tuple(line for slot in slots for line in _lines(host, slot))


def _lines(host: Host, slot: str) -> Iterator[str]:
    function = f"/sys/bus/pci/devices/{slot}"
    if not host.path(function).exists():
        return
    group = host.link(f"{function}/iommu_group")
    if group is None:
        yield (
            f"{slot}: expected an IOMMU group, found none: the drive can write to all of this "
            "host's memory; turn the IOMMU on in the firmware and on the kernel's command line"
        )
        return
    place = f"/sys/kernel/iommu_groups/{group}/type"
    try:
        kind = host.text(place)
    # Kernels before 5.11 have no such file.
    except FileNotFoundError:
        return
    if kind not in TRANSLATED:
        yield (
            f"{slot}: expected an IOMMU domain that translates ({' or '.join(TRANSLATED)}), found "
            f"{kind} in {place}: on the nvme driver the drive can write to all of this host's "
            "memory; boot with iommu.passthrough=0 in place of iommu=pt, or write DMA there while "
            "no driver has a device of the group"
        )
