"""What the usual programs do that write over a drive: stand-ins for them, on composed drives.

``blkdiscard`` and zeros is a shell line that many operators have; a pass of noise, read back, and
one of zeros, read back, is nwipe's way (its own code drives a block device, which a drive in
process has none of). Neither asks the drive to erase, so lies about erasing do not concern them;
what no attached namespace addresses does.
"""

from __future__ import annotations

import enum
import random
from pathlib import Path

from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.host import Host, Namespace
from tests.lab.nvme.composed.secondtenant import SecondTenant
from tests.lab.nvme.composed.visitor import Loot

_PIECE = 64 << 10


class Peer(enum.StrEnum):
    """Whose way."""

    DISCARD = "blkdiscard and zeros"
    NWIPE = "noise and zeros, each read back"


def overwritten(
    what: Description, directory: Path, peer: Peer, *, seed: int = 1, size: int = 8 << 20
) -> Loot | None:
    """Fill, write over, and let the second tenant take; None where a write or look failed, and an
    operator would keep the drive."""
    with bench(what, directory, size=size) as (_drive, host, _clock):
        FirstTenant(host, seed).stay()
        for nsid in host.namespaces():
            if not _over(host, host.namespace(nsid), peer, seed):
                return None
        host.shut_down()
        return SecondTenant(host, seed).take()


def _over(host: Host, where: Namespace, peer: Peer, seed: int) -> bool:
    each = max(1, min(_PIECE, host.transfer) // where.block)
    rng = random.Random(f"noise {seed}")
    if peer is Peer.DISCARD:
        host.deallocate(where, 0, where.size)
        return _pass(host, where, each, None, look=False)
    return _pass(host, where, each, rng, look=True) and _pass(host, where, each, None, look=True)


def _pass(
    host: Host, where: Namespace, each: int, rng: random.Random | None, *, look: bool
) -> bool:
    """One from end to end, of noise or of zeros, as a disk is written and then read."""
    state = None if rng is None else rng.getstate()
    for reading in (False, True) if look else (False,):
        if rng is not None and state is not None:
            rng.setstate(state)
        for first in range(0, where.size, each):
            count = min(each, where.size - first)
            data = bytes(count * where.block) if rng is None else rng.randbytes(count * where.block)
            if reading:
                answer = host.read(where, first, count)
                if answer.code or answer.data != data:
                    return False
            elif host.write(where, first, data).code:
                return False
    return True
