"""Names as Nova makes them: resource classes, traits, and what counts as true.

``nova/compute/pci_placement_translator.py`` (Nova 34) and the libraries that it calls.
"""

from __future__ import annotations

import re
from typing import Any, Final

STANDARD_CLASSES: Final = frozenset(
    {
        "VCPU",
        "MEMORY_MB",
        "DISK_GB",
        "PCI_DEVICE",
        "SRIOV_NET_VF",
        "NUMA_SOCKET",
        "NUMA_CORE",
        "NUMA_THREAD",
        "NUMA_MEMORY_MB",
        "IPV4_ADDRESS",
        "VGPU",
        "VGPU_DISPLAY_HEAD",
        "NET_BW_EGR_KILOBIT_PER_SEC",
        "NET_BW_IGR_KILOBIT_PER_SEC",
        "PCPU",
        "MEM_ENCRYPTION_CONTEXT",
        "FPGA",
        "PGPU",
        "NET_PACKET_RATE_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_EGR_KILOPACKET_PER_SEC",
        "NET_PACKET_RATE_IGR_KILOPACKET_PER_SEC",
    }
)
"""os-resource-classes 1.1.0."""

_CUSTOM: Final = "CUSTOM_"
_TRUE: Final = frozenset({"1", "t", "true", "on", "y", "yes"})
_FALSE: Final = frozenset({"0", "f", "false", "off", "n", "no"})


def boolean(value: Any) -> bool | None:
    """oslo.utils ``bool_from_string(strict=True)``; ``None`` for what it refuses."""
    if isinstance(value, bool):
        return value
    text = str(value).strip().lower()
    return True if text in _TRUE else False if text in _FALSE else None


def class_name(requested: str | None, vendor: str, product: str) -> str:
    """``get_resource_class``: the tag, normalized, or a name from the ids (four digits each)."""
    if not requested:
        return f"CUSTOM_PCI_{vendor}_{product}".upper()
    name = requested.upper()
    return name if name in STANDARD_CLASSES or name.startswith(_CUSTOM) else _custom(name)


def trait_names(text: str) -> frozenset[str]:
    """``get_traits``: the comma-separated names, normalized.

    Without a list of the standard traits: one of those is left as it is where it looks like one.
    """
    return frozenset(_trait(name) for name in text.split(",")) if text else frozenset()


def _trait(name: str) -> str:
    if re.fullmatch(r"(HW|COMPUTE|STORAGE|MISC|OWNER)_[A-Z0-9_]+", name):
        return name
    upper = name.upper()
    return upper if upper.startswith(_CUSTOM) else _custom(upper)


def _custom(name: str) -> str:
    # As normalize_name does in os_resource_classes and in os_traits.
    return _CUSTOM + re.sub("[^0-9A-Za-z]+", "_", name).upper()
