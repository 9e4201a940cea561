"""Namespaces as a host makes and attaches them."""

from __future__ import annotations

import struct

from tests.lab.nvme.composed.host import Host
from tests.lab.nvme.composed.marks import SECTOR

PAGE = 4096


def attach(host: Host, nsid: int, *, attached: bool = True) -> bool:
    """Attach or detach a namespace; whether the drive did it."""
    controllers = struct.pack("<HH", 1, struct.unpack_from("<H", host.identify(0x01), 78)[0])
    listed = controllers.ljust(PAGE, b"\0")
    return host.admin(0x15, nsid=nsid, send=listed, cdw10=int(not attached)).code == 0


def create(host: Host, lba_format: int = 0) -> int:
    """A namespace over what is in none, attached; its id, 0 where that cannot be."""
    raw = host.identify(0x01)
    (free,) = struct.unpack_from("<Q", raw, 296)
    if not raw[256] & 1 << 3 or free < PAGE:
        return 0
    blocks = free // SECTOR
    asked = struct.pack("<QQ10xB", blocks, blocks, lba_format).ljust(PAGE, b"\0")
    answer = host.admin(0x0D, send=asked, cdw10=0)
    if answer.code or not attach(host, answer.dw0):
        return 0
    return answer.dw0
