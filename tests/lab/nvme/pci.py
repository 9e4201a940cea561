"""PCI configuration space of an NVMe function: MSI-X and PCI Express with function level reset."""

from __future__ import annotations

import struct
from collections.abc import Callable

from tests.lab.nvme.profile import PciIds

CONFIG_BYTES = 4096
BAR0_BYTES = 0x4000
"""Registers and doorbells."""
BUFFER_BAR = 2
"""CMB or PMR, on drives that have one."""
MSIX_BAR = 4
MSIX_BAR_BYTES = 0x2000
_MSIX_PENDING = 0x1000

_MSIX_CAP, _EXPRESS_CAP = 0x40, 0x50
_CLASS_NVME = bytes([0x02, 0x08, 0x01])  # programming interface, NVM, mass storage
_FLR_CAPABLE = 1 << 28
_DEVICE_CONTROL = _EXPRESS_CAP + 8
_START_FLR = 1 << 15

_WRITABLE: dict[int, int] = {
    # offset of a byte: its writable bits
    0x04: 0x46,  # memory space, bus master, parity
    0x05: 0x05,  # SERR, INTx disable
    0x0C: 0xFF,  # cache line size
    0x3C: 0xFF,  # interrupt line
    _MSIX_CAP + 3: 0xC0,  # MSI-X enable, function mask
    _DEVICE_CONTROL: 0xFF,
    _DEVICE_CONTROL + 1: 0x7F,  # all but the FLR bit, which reads as 0
    _EXPRESS_CAP + 0x10: 0xC3,  # link control
}


class ConfigSpace:
    """4096 bytes with the write behaviour that the PCI specification gives them."""

    def __init__(
        self, ids: PciIds, vectors: int, flr: Callable[[], None], buffer_bytes: int = 0
    ) -> None:
        self._flr = flr
        self._bars = {0x10: BAR0_BYTES, 0x14: 0, 0x20: MSIX_BAR_BYTES}
        if buffer_bytes:
            self._bars[0x10 + 4 * BUFFER_BAR] = buffer_bytes
        self._data = data = bytearray(CONFIG_BYTES)
        put = struct.pack_into
        put("<HHHH", data, 0x00, ids.vendor, ids.device, 0, 0x0010)  # status: capability list
        data[0x09:0x0C] = _CLASS_NVME
        put("<I", data, 0x10, 0x4)  # BAR 0: 64-bit memory
        put("<HH", data, 0x2C, ids.subsystem_vendor, ids.subsystem)
        data[0x34] = _MSIX_CAP
        data[0x3D] = 1  # interrupt pin A
        put(
            "<BBHII",
            data,
            _MSIX_CAP,
            0x11,
            _EXPRESS_CAP,
            vectors - 1,
            MSIX_BAR,
            _MSIX_PENDING | MSIX_BAR,
        )
        # Version 2, endpoint; 128-byte payload, role based errors, FLR.
        put("<BBHI", data, _EXPRESS_CAP, 0x10, 0, 0x0002, _FLR_CAPABLE | 1 << 15)
        link = ids.link_speed | ids.link_width << 4
        put("<I", data, _EXPRESS_CAP + 0x0C, link)
        now = (ids.link_speed_now or ids.link_speed) | (ids.link_width_now or ids.link_width) << 4
        put("<H", data, _EXPRESS_CAP + 0x12, now)
        put("<I", data, _EXPRESS_CAP + 0x2C, (1 << ids.link_speed + 1) - 2)  # speeds up to this

    def read(self, offset: int, length: int) -> bytes:
        """Read; nothing beyond the end."""
        return bytes(self._data[offset : offset + length]).ljust(length, b"\0")

    def write(self, offset: int, value: bytes) -> None:
        """Write what is writable; the FLR bit resets the function."""
        for base, size in self._bars.items():
            if offset <= base < offset + len(value) and len(value) >= 4:
                word = int.from_bytes(value[base - offset : base - offset + 4], "little")
                kept = self._data[base] & 0xF
                mask = 0xFFFFFFFF if not size else ~(size - 1) & 0xFFFFFFFF
                struct.pack_into("<I", self._data, base, word & mask | kept)
        for index, byte in enumerate(value, offset):
            mask = _WRITABLE.get(index, 0)
            if mask:
                self._data[index] = self._data[index] & ~mask | byte & mask
        at = _DEVICE_CONTROL + 1 - offset
        if 0 <= at < len(value) and value[at] << 8 & _START_FLR:
            self._flr()
