"""One drive in process: a tenant fills it, it is erased, the next tenant takes what it can."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.lab.nvme.composed import build
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.host import Clock, Host
from tests.lab.nvme.composed.secondtenant import SecondTenant
from tests.lab.nvme.composed.spaces import attach
from tests.lab.nvme.composed.visitor import Loot
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.nature import Method, Truth

_ACTIONS = {Method.SANITIZE_BLOCK: 2, Method.SANITIZE_OVERWRITE: 3, Method.SANITIZE_CRYPTO: 4}
_SES = {Method.FORMAT_USER: 1, Method.FORMAT_CRYPTO: 2}
_REAL_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Finding:
    """What came of it. ``erased`` is whether the drive reported success."""

    drive: Description
    method: Method
    erased: bool
    marked: int
    truth: Truth
    loot: Loot

    @property
    def kept(self) -> int:
        """Bytes of former data that the drive keeps in whatever store, by its own account."""
        return sum(end - start for found in self.truth.kept.values() for start, end in found)

    @property
    def taken(self) -> int:
        """Sectors, of whatever store, that the second tenant got."""
        return sum(len(found) for found in self.loot.sectors.values())


@contextmanager
def bench(
    what: Description, directory: Path, *, size: int = 8 << 20
) -> Iterator[tuple[Drive, Host, Clock]]:
    """The drive, a host and their clock; the files stay in ``directory``."""
    clock = Clock()
    drive = build.drive_of(what, directory / "drive.raw", size=size, clock=clock)
    try:
        with Host(drive, clock.wait) as host:
            yield drive, host, clock
    finally:
        drive.close()


def worst(what: Description) -> Method:
    """The method to erase by if its lies are to show: the first that one survives."""
    for lie in what.lies:
        return lie.survives[0]
    return what.abilities.methods[0]


def audit(
    what: Description,
    directory: Path,
    *,
    seed: int = 1,
    size: int = 8 << 20,
    method: Method | None = None,
    rounds: int = 2,
    looks: int = 24,
) -> Finding:
    """Fill, erase by ``method`` (the worst), take. Raises DriveError on a drive that hangs."""
    method = method or worst(what)
    with bench(what, directory, size=size) as (drive, host, _clock):
        marked = FirstTenant(host, seed).stay()
        done = erase(host, method)
        with drive.lock:
            truth = drive.nature.truth()
        loot = SecondTenant(host, seed, rounds=rounds, looks=looks).take() if done else Loot()
        return Finding(what, method, done, marked, truth, loot)


def erase(host: Host, method: Method) -> bool:
    """Erase all that the method reaches, and wait; whether the drive reported success."""
    if method in _ACTIONS:
        if host.admin(0x84, cdw10=_ACTIONS[method] | 1 << 4).code:
            return False
        deadline = time.monotonic() + _REAL_SECONDS
        before, stalled = -1.0, 0
        while (sstat := struct.unpack_from("<H", host.log(0x81), 2)[0] & 7) == 2:
            if time.monotonic() > deadline:
                raise DriveError("a sanitize should end or stand still")
            now = host.drive.state.sanitize.progress
            stalled = stalled + 1 if now == before and now else 0
            before = now
            if stalled > 20:
                return False
            time.sleep(0.0005)
        return sstat in (1, 4)
    # No Format reaches what is detached, nor a CMB or PMR (Base 5.14): whoever erases by it has to.
    detached = set(host.namespaces(0x10)) - set(host.namespaces())
    for nsid in detached:
        attach(host, nsid)
    for offset in range(0, host.open_buffer(), 4096):
        host.write_buffer(offset, bytes(4096))
    host.close_buffer()
    done = True
    for nsid in host.namespaces():
        words = host.namespace(nsid).lba_format | _SES[method] << 9
        done &= host.admin(0x80, nsid=nsid, cdw10=words).code == 0
    for nsid in detached:
        attach(host, nsid, attached=False)
    return done
