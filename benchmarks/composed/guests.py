"""A composed drive between two tenants, with guests: the eraser runs in a real compute host.

The drive is a PCI function of the compute guest, served by this process: so the lab's own tenants,
which are hosts by registers and queues, can have it too, and its truth is at hand. The second
tenant is a real guest first, and then such a host, whose ways are many more.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.composed import tenant
from eraser.protocol import codec
from eraser.protocol.policy import Limits, Policy
from tests.lab.errors import GuestError
from tests.lab.guest.argv import SHORT_TIMEOUTS, slot_address
from tests.lab.guest.machine import short_directory
from tests.lab.nvme.composed import build, marks
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.host import Host
from tests.lab.nvme.composed.secondtenant import SecondTenant
from tests.lab.nvme.composed.spaces import attach, create
from tests.lab.nvme.composed.trial import Outcome, former, must_be_held, outcome_of, shipped
from tests.lab.nvme.composed.visitor import Loot
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.vfio_user import VfioUserServer
from tests.lab.rack import ComputeGuest, Rack, RackDrive, world
from tests.lab.rack.rack import DEFAULT_HOST

SIZE: Final = 16 << 20
"""Bytes, as in process."""
HANG_S: Final = 600.0
"""Some of these drives make a host wait after each reset."""
_TENANT_S: Final = 240.0
_STATE: Final = "/var/lib/nvme-eraser"
_PROFILE: Final = f"{_STATE}/profile.json"
_POLICY: Final = f"{_STATE}/policy.json"
_SECOND: Final = "/run/second"
_LIMITS: Final = Limits(command=10, format=60, sanitize=120, stuck=20, poll=0.1)
"""Those that ship are for drives that erase for hours; these take seconds."""


class _Seconds:
    """The drive's clock: real seconds, and those that a tenant of ours says it has waited."""

    def __init__(self) -> None:
        self._waited = 0.0

    def __call__(self) -> float:
        return time.monotonic() + self._waited

    def wait(self, seconds: float) -> None:
        """Let them pass."""
        self._waited += seconds


class ServedHere(RackDrive):
    """A composed drive of the rack that this process serves."""

    def __init__(self, what: Description, directory: Path, short: Path) -> None:
        super().__init__(
            slot=0,
            address=slot_address(0),
            host=DEFAULT_HOST,
            serial="COMPOSED",
            preset=what.name,
            size=SIZE,
            directory=directory,
            short=short,
        )
        self._seconds = _Seconds()
        self.served: Drive = build.drive_of(
            what, self.backing, size=SIZE, clock=self._seconds, at_once=False
        )
        self._functions = [
            VfioUserServer(self.served, path) for path in (self.host_socket, self.tenant_socket)
        ]

    def wait_ready(self) -> None:
        """It is, from the beginning."""

    def kill(self) -> None:
        """Stop serving; safe to call twice."""
        for function in self._functions:
            function.close()
        if self._functions:
            self.served.close()
        self._functions = []

    @contextmanager
    def plain_host(self) -> Iterator[Host]:
        """A host of ours that has it."""
        with Host(self.served, self._seconds.wait) as host:
            host.bring_up()
            yield host


@dataclass(frozen=True)
class Finding:
    """What came of it. ``by``: for each store or act that got data, how, and how many sectors."""

    outcome: Outcome
    verdict: str
    fit: bool
    hung: bool
    reasons: tuple[str, ...]
    seconds: float
    kept: dict[str, int]
    """Bytes that the drive keeps by its own account when the eraser is done, by store."""
    guest_got: dict[str, int] = field(default_factory=dict)
    """Sectors that the second tenant's guest got, by act."""
    host_got: dict[str, int] = field(default_factory=dict)
    """And those of the host that came after it, by store and first act."""


def attempt(seed: int) -> Finding:
    """One seed. Raises ``LabError`` where the rack does not do its part."""
    what = compose(seed)
    short = short_directory()
    try:
        with (
            tempfile.TemporaryDirectory(prefix="nvq-composed-") as directory,
            Rack(Path(directory) / "rack") as rack,
        ):
            drive = ServedHere(what, Path(directory) / "drive", short)
            rack.drives.append(drive)
            return _between_tenants(rack, drive, what, seed)
    finally:
        shutil.rmtree(short, ignore_errors=True)


def _between_tenants(rack: Rack, drive: ServedHere, what: Description, seed: int) -> Finding:
    with _attached_only(drive):
        compute = rack.compute(flavour=SHORT_TIMEOUTS)
        compute.run(["nvme-eraser", "inspect", "--pci", drive.address, "--save", _PROFILE])
        compute.hand_over(drive.address)
    with drive.plain_host() as host:
        FirstTenant(host, seed).stay()
    world.rebind(compute, drive.address)
    begun = time.monotonic()
    said = _erase(compute, drive)
    seconds = time.monotonic() - begun
    with drive.served.lock:
        truth = drive.served.nature.truth()
    kept = former(drive.backing)
    released = said["verdict"] == "erased" and said["fit"]
    by_guest: dict[str, int] = {}
    loot = Loot()
    if released:
        by_guest = _visit(rack, drive)
        with drive.plain_host() as host:
            loot = SecondTenant(host, seed).take()
    got = bool(by_guest) or not loot.empty
    return Finding(
        outcome=outcome_of(
            what, must_be_held(what, _policy()), released=released, kept=kept, got=got
        ),
        verdict=said["verdict"],
        fit=said["fit"],
        hung=said.get("hung", False),
        reasons=tuple(said["reasons"]),
        seconds=round(seconds, 1),
        kept={store: sum(end - at for at, end in held) for store, held in truth.kept.items()},
        guest_got=by_guest,
        host_got={
            f"{store}: {loot.by[store]}": len(sectors) for store, sectors in loot.sectors.items()
        },
    )


@contextmanager
def _attached_only(drive: ServedHere) -> Iterator[None]:
    """While a profile is taken: no profile has detached namespaces, but these drives may."""
    with drive.plain_host() as host:
        aside = set(host.namespaces(0x10)) - set(host.namespaces())
        for nsid in aside:
            host.admin(0x0D, nsid=nsid, cdw10=1)
    yield
    with drive.plain_host() as host:
        for _ in aside:
            attach(host, create(host), attached=False)


def _policy() -> Policy:
    """As it ships, with limits for emulated guests."""
    return replace(shipped(), limits=_LIMITS)


def _erase(compute: ComputeGuest, drive: ServedHere) -> dict[str, Any]:
    """What ``nvme-eraser erase -f json`` said."""
    compute.put(_POLICY, codec.canonical(_policy()))
    argv = ["nvme-eraser", "erase", "--pci", drive.address, "--profile", _PROFILE, "--any-drive"]
    process = compute.spawn([*argv, "--policy", _POLICY, "--state-dir", _STATE, "-f", "json"])
    try:
        process.wait(HANG_S)
    except GuestError:
        process.kill()
        return {"verdict": "unknown", "fit": False, "reasons": ["it did not end"], "hung": True}
    try:
        found = json.loads(process.stdout())
    except ValueError:
        said = process.stderr().strip()[-300:]
        return {"verdict": "unknown", "fit": False, "reasons": [said]}
    assert isinstance(found, dict)
    return found


def _visit(rack: Rack, drive: ServedHere) -> dict[str, int]:
    """The second tenant's guest has the drive; what it got. It is deleted afterwards."""
    guest = rack.tenant([drive])
    for module in (marks, tenant):
        path = f"{_SECOND}/{module.__name__.replace('.', '/')}.py"
        guest.put(path, Path(str(module.__file__)).read_bytes())
    argv = ["python3", "-m", tenant.__name__]
    found = guest.run(argv, env={"PYTHONPATH": _SECOND}, timeout=_TENANT_S).stdout
    guest.power_cut()
    return {str(act): int(count) for act, count in json.loads(found).items()}
