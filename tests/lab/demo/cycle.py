"""The acts of the demo: enrol, first tenant, quarantine, second tenant."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from eraser.protocol import codec
from eraser.protocol.policy import Limits, Policy, Verification
from eraser.protocol.report import EraseReport
from quarantine.record.words.states import Event, State
from tests.lab.demo.board import Board
from tests.lab.demo.novasite import WHAT_IS_REAL, Nova, NovaSite, Told
from tests.lab.demo.result import DemoResult, SlotResult, command_rows, last
from tests.lab.demo.tenants import FILES, build_and_write, search
from tests.lab.nvme.presetkind import Event as DriveEvent
from tests.lab.nvme.presetkind import Preset
from tests.lab.rack import Rack, world
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest, TenantGuest
from tests.lab.services.nova_standin import Server
from tests.lab.site import STATE_DIR, Site

DRIVE_BYTES: Final = 512 << 20
POLICY: Final = Policy(
    name="demo",
    allow_clear=True,
    limits=Limits(poll=0.2, stuck=30, sanitize=180),
    verification=Verification(visit=4, settle=0),
)
PATIENCE: Final = 600.0
_SECOND: Final = "of-the-second-slot"
"""Its drive has a profile of its own, approved before anything happened to it."""
_SERVICES: Final = "services: redis-server, Placement, nvme-quarantine"
SETTLED: Final = (State.AVAILABLE, State.HELD, State.RETIRED)


class Demo:
    """One run in ``directory``. The second slot holds a drive of the preset.

    ``nova``: with the real Nova's daemons, not with their stand-in.
    """

    def __init__(
        self, directory: Path, board: Board, preset: Preset, *, nova: bool = False
    ) -> None:
        self.directory = directory
        self.board = board
        self.preset = preset
        self.nova = nova
        self._seconds: dict[str, float] = {}
        self._slot_of: world.Slot | None = None
        self._told: Told | None = None

    def run(self) -> DemoResult:
        """All acts. Raises ``LabError`` where the rack or the product does not do its part."""
        begun = time.monotonic()
        with contextlib.ExitStack() as stack:
            self.board.say("the rack: QEMU, guest image, saved state", title=True)
            rack = stack.enter_context(Rack(self.directory / "rack"))
            site, nova = self._site(rack)
            stack.enter_context(site)
            drives = [
                rack.drive(0, size=DRIVE_BYTES),
                world.make(rack, 1, self.preset, DRIVE_BYTES),
            ]
            try:
                compute = self._set_up(rack, site, nova, drives)
                self._seconds["setup"] = time.monotonic() - begun
                self._enrol(site, drives)
                return self._cycle(rack, site, nova, compute, drives)
            finally:
                self._keep_logs(rack, site)

    def _site(self, rack: Rack) -> tuple[Site, Nova]:
        directory = self.directory / "site"
        if self.nova:
            real = NovaSite(directory, rack, policy=POLICY)
            return real, real.cloud
        site = Site(directory, rack, policy=POLICY)
        return site, site.nova

    def _keep_logs(self, rack: Rack, site: Site) -> None:
        """What is only in the guests and in memory goes with them; logs stay."""
        logs = self.directory / "logs"
        logs.mkdir(exist_ok=True)
        for title, text in (*rack.diagnostics(), *site.diagnostics()):
            name = "".join(c if c.isalnum() else "-" for c in title)
            (logs / f"{name}.txt").write_text(text + "\n")

    def _set_up(
        self, rack: Rack, site: Site, nova: Nova, drives: Sequence[RackDrive]
    ) -> ComputeGuest:
        services, *more = WHAT_IS_REAL if self.nova else (_SERVICES,)
        self.board.say(services, title=True)
        for line in more:
            self.board.say(f"  {line}")
        site.start()
        self.board.say(f"a compute host with {len(drives)} NVMe drives", title=True)
        compute = rack.compute()
        site.add_host(compute)
        nova.start_compute(compute.name, [drive.address for drive in drives])
        site.approve(compute, drives[0])
        site.approve(compute, drives[1], _SECOND)
        world.begin(rack, compute, drives[1], self.preset)
        if self.preset.event is DriveEvent.RETURN:
            self._slot_of = world.Slot(compute, drives[1])
        site.start_worker(compute)
        return compute

    def _enrol(self, site: Site, drives: Sequence[RackDrive]) -> None:
        self.board.say("both slots are enrolled: unknown drives are erased first", title=True)
        first, second = drives
        site.enrol(first)
        site.enrol(second, _SECOND)
        self._watch(site, drives)

    def _watch(self, site: Site, drives: Sequence[RackDrive]) -> None:
        """Shows the slots until each is available or held."""
        site.wait(drives, SETTLED, seconds=PATIENCE, watch=lambda: self._draw(site, drives))
        self._draw(site, drives)

    def _draw(self, site: Site, drives: Sequence[RackDrive]) -> None:
        if self._slot_of is not None:
            self._slot_of.look()
        self.board.show([(drive.serial, site.slot(drive)) for drive in drives])

    def _cycle(
        self,
        rack: Rack,
        site: Site,
        nova: Nova,
        compute: ComputeGuest,
        drives: Sequence[RackDrive],
    ) -> DemoResult:
        usable = [drive for drive in drives if site.slot(drive).state is State.AVAILABLE]
        if not usable:
            self.board.say("no drive may be handed out: there is no tenant to show")
            return self._result(site, drives, 0, ())
        server, tenant = self._hand_out(rack, nova, usable, "the first tenant")
        mebibytes = build_and_write(tenant)
        self.board.say(
            f"  mdadm RAID 0 over {len(usable)} drive(s), XFS, {FILES} files, {mebibytes} MiB"
        )
        site.wait(usable, (State.IN_USE,), seconds=PATIENCE)
        if isinstance(site, NovaSite):
            self._told = site.told(server)
            self.board.say(
                f"  the API says to its tenant: drives {', '.join(self._told.drives)}; "
                f"to a neighbour: {self._told.neighbour}"
            )
        rack.delete(tenant)
        known = [drive.fingerprints() for drive in usable]
        blocks = sum(map(len, known))
        self.board.say(f"the instance is deleted; {blocks} blocks of its data remain", title=True)
        begun = time.monotonic()
        released = time.time()
        nova.delete(server)
        site.bell(compute.name)
        site.wait(usable, frozenset(State) - {State.IN_USE}, watch=lambda: self._draw(site, drives))
        self._watch(site, drives)
        self._seconds["cycle"] = time.monotonic() - begun
        self._measure(site, compute, usable, released)
        again = [drive for drive in usable if site.slot(drive).state is State.AVAILABLE]
        leaked = 0
        found: tuple[str, ...] = ()
        last_server: Server | None = None
        if again:
            leaked, found, last_server = self._second(rack, nova, again, known, usable)
        # Before the second tenant goes too: that begins the next case of each drive.
        result = self._result(site, drives, leaked, found)
        if last_server is not None:
            nova.delete(last_server)
        return result

    def _hand_out(
        self, rack: Rack, nova: Nova, usable: Sequence[RackDrive], who: str
    ) -> tuple[Server, TenantGuest]:
        server = nova.boot(len(usable))
        self.board.say(f"{who}: an instance with {len(usable)} passed-through drive(s)", title=True)
        return server, rack.tenant([d for d in usable if d.address in server.addresses])

    def _second(
        self,
        rack: Rack,
        nova: Nova,
        again: Sequence[RackDrive],
        known: Sequence[frozenset[bytes]],
        usable: Sequence[RackDrive],
    ) -> tuple[int, tuple[str, ...], Server]:
        leaked = sum(
            drive.count_leaked(seen)
            for drive, seen in zip(usable, known, strict=True)
            if drive in again
        )
        server, tenant = self._hand_out(rack, nova, again, "the second tenant")
        found = search(tenant)
        self.board.say(
            f"  searched the raw devices: {'; '.join(found) if found else 'nothing found'}; "
            f"audited from outside: {leaked} blocks of the first tenant's data"
        )
        rack.delete(tenant)
        return leaked, found, server

    def _measure(
        self, site: Site, compute: ComputeGuest, usable: Sequence[RackDrive], released: float
    ) -> None:
        """Time at the drives and time of the control plane, from the drives' own logs."""
        reports = [self._report(site, compute, drive) for drive in usable]
        erase = [report.seconds.get("erase", 0.0) for report in reports if report]
        verify = [report.seconds.get("verify", 0.0) for report in reports if report]
        self._seconds["erase"] = max(erase, default=0.0)
        self._seconds["verify"] = max(verify, default=0.0)
        to_command, to_pool = [], []
        for drive in usable:
            seen = [c.wall for c in drive.commands() if c.is_admin and c.wall >= released]
            case = [at for at in seen if at >= self._ordered_at(site, drive)]
            returned = last(site.history(drive), Event.RETURNED)
            if case:
                to_command.append(case[0] - released)
            if case and returned is not None:
                to_pool.append(returned.at.timestamp() - case[-1])
        if to_command:
            self._seconds["overhead_to_command"] = max(to_command)
        if to_pool:
            self._seconds["overhead_to_schedulable"] = max(to_pool)

    def _ordered_at(self, site: Site, drive: RackDrive) -> float:
        row = last(site.history(drive), Event.ORDERED)
        return row.at.timestamp() if row else 0.0

    def _report(self, site: Site, compute: ComputeGuest, drive: RackDrive) -> EraseReport | None:
        """The host's own copy of its report on the slot's present case."""
        order = site.slot(drive).order_id
        paths = compute.sh(f"ls {STATE_DIR}/reports/*.json", check=False).stdout.split()
        for path in paths:
            report = codec.load(EraseReport, compute.get(path), path)
            if report.order_id == order:
                return report
        return None

    def _result(
        self,
        site: Site,
        drives: Sequence[RackDrive],
        leaked: int,
        found: tuple[str, ...],
    ) -> DemoResult:
        slots = tuple(self._slot(site, drive) for drive in drives)
        held = [slot for slot in slots if slot.state is not State.AVAILABLE]
        for name in ("cycle", "erase", "verify", "overhead_to_command", "overhead_to_schedulable"):
            self._seconds.setdefault(name, 0.0)
        return DemoResult(
            outcome=State.HELD if held else State.AVAILABLE,
            leaked_blocks=leaked,
            found_by_tenant=found,
            slots=slots,
            commands={drive.serial: command_rows(drive.commands()) for drive in drives},
            seconds=self._seconds,
            directory=self.directory,
            told=self._told,
        )

    def _slot(self, site: Site, drive: RackDrive) -> SlotResult:
        record, rows = site.slot(drive), site.history(drive)
        settled = last(rows, Event.RETURNED) or last(rows, Event.HELD)
        end = rows.index(settled) if settled is not None else len(rows) - 1
        states: list[tuple[State, datetime]] = []
        for row in rows[: end + 1]:
            if not states or states[-1][0] is not row.target:
                states.append((row.target, row.at))
        certificate = page = None
        method: tuple[str, ...] = ()
        verification = ""
        if record.certificate is not None:
            shown = site.json("certificate", "show", record.certificate)["certificate"]
            method = tuple(step["command"] for step in shown["sanitization"]["techniques"])
            verification = shown["verification"]["sentence"]
            folder = site.directory / "certificates"
            certificate = str(folder / f"{record.certificate}.json")
            page = str(folder / f"{record.certificate}.html")
        held = states[-1][0] is State.HELD
        return SlotResult(
            slot=str(record.slot),
            serial=drive.serial,
            state=states[-1][0],
            states=tuple(states),
            method=method,
            verification=verification,
            certificate=certificate,
            page=page,
            reason=record.reason if held else "",
        )
