"""Which NVMe functions this host has."""

from __future__ import annotations

from eraser.host.sysfs import GONE, NVME_CLASS, Host


def nvme_functions(host: Host) -> tuple[str, ...]:
    """PCI addresses of all NVMe functions, whatever driver they are on. Raises ``OSError``."""
    directory = "/sys/bus/pci/devices"
    found = []
    for address in host.children(directory):
        try:
            if host.text(f"{directory}/{address}/class") == NVME_CLASS:
                found.append(address)
        except OSError as error:
            if error.errno not in GONE:
                raise
            continue  # pulled while we looked
    return tuple(found)
