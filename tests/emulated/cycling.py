"""What tests of the whole cycle share: one host, one drive that tenants come and go on."""

from __future__ import annotations

import secrets
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from eraser.state.case_files import CaseFiles
from quarantine.record.words.facts import HistoryRow
from quarantine.record.words.states import Event, State
from tests.lab.errors import LabError
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.nova_standin import Server
from tests.lab.services.process import ServiceProcess, wait_until
from tests.lab.site import STATE_DIR, Site

PATIENCE: Final = 600.0
"""Seconds; only a broken cycle takes that long, also on a machine that others use."""

CRYPTO: Final = 4
BLOCK: Final = 2
SLOW: Final = Faults(sanitize_seconds=600)
"""Far longer than any test: the test ends it when it has seen what it waited for."""
FAST: Final = Faults(sanitize_seconds=0.5)

LOOKING: Final = frozenset({"identify", "get_log_page", "get_features", "async_event", "read"})
"""Commands that leave a drive as it is."""
HANDLING: Final = LOOKING | {
    "create_cq",
    "create_sq",
    "delete_cq",
    "delete_sq",
    "set_features",
    "keep_alive",
}
"""And what the kernel sends of itself when it takes a drive."""
_SLOT: Final = 0
"""Where the drive of these tests belongs."""

LOGGING: Final = Faults(log_io=True)
"""The drive's log names each read and write as well."""

_WRITE: Final = """
dd if=/dev/urandom of={device} bs=1M count=8 oflag=direct
yes 'the tenant owns this' | dd of={device} bs=1M count=1 seek=40 oflag=direct iflag=fullblock
"""


@dataclass(frozen=True)
class Stay:
    """A tenant's time on the drive, and what was left there when it ended."""

    server: Server
    known: frozenset[bytes]
    """Fingerprints of what was written."""
    seq: int
    """The drive's last command up to then."""
    history: int
    """Rows of the slot's history up to then."""


class Floor:
    """A site with one compute host. ``drive`` is the only one that may be handed out."""

    def __init__(self, site: Site, compute: ComputeGuest, drive: RackDrive) -> None:
        self.site = site
        self.compute = compute
        self.drive = drive
        self._server: Server | None = None

    # Tenants come and go

    def stay(self) -> Stay:
        """A tenant gets the drive, fills some of it, and its guest ends: Nova still counts it.

        The data is written by the host's hand, which is the same to the drive and much quicker.
        """
        self.begin()
        self.compute.sh(_WRITE.format(device=self.compute.block_device(self.drive.address)))
        return self.ended()

    def begin(self) -> Server:
        """Nova boots a server on the drive, and we have seen it."""
        self._server = self.site.nova.boot()
        if self._server.addresses != (self.drive.address,):
            raise LabError(f"expected Nova to give {self.drive.address}: {self._server}")
        self.site.bell(self.compute.name)
        self.site.wait([self.drive], [State.IN_USE], seconds=PATIENCE)
        return self._server

    def ended(self) -> Stay:
        """The guest has ended, the allocation is still there."""
        if self._server is None:
            raise LabError("expected a server on the drive, begin() one")
        commands = self.drive.commands()
        return Stay(
            self._server,
            self.drive.fingerprints(),
            commands[-1].seq if commands else 0,
            len(self.site.history(self.drive)),
        )

    def delete(self, stay: Stay, *, bell: bool = True) -> None:
        """Nova deletes the server; the bell rings, or not."""
        self.site.nova.delete(stay.server)
        self._server = None
        if bell:
            self.site.bell(self.compute.name)

    # What happened since then

    def commands(self, stay: Stay) -> frozenset[str]:
        """Names of the commands that the drive got after the stay."""
        return names_since(self.drive, stay.seq)

    def sanitizes(self, stay: Stay) -> list[int]:
        """SANACT of each sanitize that the drive began after the stay, in order."""
        return [
            c.cdws[0] & 7
            for c in self.drive.commands("sanitize")
            if c.seq > stay.seq and c.succeeded
        ]

    def rows(self, stay: Stay, event: Event) -> list[HistoryRow]:
        """The slot's rows of one event after the stay."""
        found = self.site.history(self.drive)[stay.history :]
        return [row for row in found if row.event is event]

    def wait_sanitizing(self, stay: Stay, count: int = 1) -> None:
        """Until the drive has begun its ``count``-th sanitize since the stay."""
        wait_until(
            lambda: len(self.sanitizes(stay)) >= count, f"{count} sanitize(s)", PATIENCE, every=0.1
        )

    def wait_row(self, stay: Stay, event: Event) -> HistoryRow:
        """Until the event happened after the stay; its row."""
        wait_until(lambda: bool(self.rows(stay, event)), f"{event}", PATIENCE, every=0.1)
        return self.rows(stay, event)[0]

    @property
    def journal(self) -> str:
        """The journal of the slot's case, in the guest."""
        order = self.site.slot(self.drive).order_id
        if order is None:
            raise LabError("expected an order for the slot, there is none yet")
        return str(CaseFiles.of_order(Path(STATE_DIR), order).journal)

    def wait_journal(self, pattern: str) -> None:
        """Until a line of the case's journal matches; polls in the guest."""
        self.compute.sh(
            f"until grep -q -e {pattern} {self.journal}; do sleep 0.05; done", timeout=PATIENCE
        )

    def begin_erase(self, stay: Stay) -> None:
        """The server is deleted; when this returns its drive is in a sanitize without end."""
        self.drive.set_faults(SLOW)
        self.delete(stay)
        self.wait_sanitizing(stay)
        self.wait_journal("SeenRunning")

    def end(self, stay: Stay) -> dict[str, Any]:
        """The case ends well, with each method once, and nothing left. Returns the certificate."""
        self.drive.set_faults(FAST)
        self.site.wait([self.drive], [State.AVAILABLE, State.HELD, State.RETIRED], seconds=PATIENCE)
        record = self.site.slot(self.drive)
        assert record.state is State.AVAILABLE, record.reason
        assert self.sanitizes(stay) == [CRYPTO, BLOCK]
        assert self.drive.count_leaked(stay.known) == 0
        assert len(self.rows(stay, Event.CUSTODY_TAKEN)) == 1
        assert len(self.rows(stay, Event.CERTIFIED)) == 1
        assert record.certificate is not None
        shown = self.site.json("certificate", "show", record.certificate)["certificate"]
        assert isinstance(shown, dict)
        return shown

    # Mending after a test that failed half way

    def mend(self) -> None:
        """Everything runs, nobody has the drive, and it is available. Does nothing when it is."""
        self.drive.set_faults(HEALTHY)
        self._put_back()
        for service in (self.site.redis, self.site.placement, self.site.control):
            _run(service)
        if not self._worker_runs():
            self.site.start_worker(self.compute)
        if self._server is not None:
            self.site.nova.delete(self._server)
            self._server = None
            self.site.bell(self.compute.name)
            self.site.wait([self.drive], frozenset(State) - {State.IN_USE}, seconds=PATIENCE)
        self.site.wait([self.drive], [State.AVAILABLE, State.HELD, State.RETIRED], seconds=PATIENCE)
        if self.site.slot(self.drive).state is State.HELD:
            slot = f"{self.drive.host}/{self.drive.address}"
            self.site.cli(
                "slot", "release", slot, "--reason", f"another test {secrets.token_hex(2)}"
            )
            self.site.wait([self.drive], [State.AVAILABLE], seconds=PATIENCE)

    def _put_back(self) -> None:
        """The drive into its slot, and whatever is there into a free one."""
        rack, home = self.site.rack, self.compute.name
        if self.drive.host == home:
            return
        rack.power_cut(self.compute)
        # Its process was of the guest's life that ended.
        self.site.workers.pop(home, None)
        taken = {each.slot: each for each in rack.drives if each.host == home}
        if _SLOT in taken:
            free = next(slot for slot in range(len(taken) + 1) if slot not in taken)
            rack.move(taken[_SLOT], free)
        rack.move(self.drive, _SLOT, host=home)
        rack.power_on(self.compute)

    def _worker_runs(self) -> bool:
        worker = self.site.workers.get(self.compute.name)
        return worker is not None and worker.poll() is None


def names_since(drive: RackDrive, seq: int) -> frozenset[str]:
    """Names of the commands that a drive got after command ``seq``."""
    return frozenset(command.name for command in drive.commands() if command.seq > seq)


def _run(service: ServiceProcess) -> None:
    try:
        service.resume()
    except LabError:
        service.start()
