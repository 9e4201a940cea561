"""``tools/demo --serve``: a site that stays, with tenants that come and go, to be watched."""

from __future__ import annotations

import contextlib
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from quarantine.record.words.states import State
from tests.lab.demo.board import Board
from tests.lab.demo.cycle import DRIVE_BYTES, POLICY
from tests.lab.demo.tenants import build_and_write
from tests.lab.guest.payload import REPOSITORY
from tests.lab.nvme import presets
from tests.lab.rack import Rack, world
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest, TenantGuest
from tests.lab.services.api import ApiServer
from tests.lab.services.nova_standin import NoValidHostError, Server
from tests.lab.services.process import free_port
from tests.lab.services.prometheus import Prometheus
from tests.lab.site import Site

SLOW: Final = "sanitize-slow"
STAYS: Final = (30.0, 90.0)
"""Seconds that a tenant stays, at least and at most."""
PAUSE: Final = (5.0, 25.0)
"""Seconds between one tenant's coming and the next one's."""
AT_ONCE: Final = 2
"""Tenants: each is a guest, and two processors carry no more beside the host."""
_ALERTS: Final = REPOSITORY / "docs" / "monitoring" / "alerts.yaml"


@dataclass
class _Tenant:
    server: Server
    guest: TenantGuest
    drives: tuple[RackDrive, ...]
    until: float
    """By the monotonic clock."""


class Served:
    """One site in ``directory``: two honest drives, a slow one, and one of the named preset.

    ``seed`` decides who comes when, for how long, and with how many drives.
    """

    def __init__(self, directory: Path, board: Board, preset: str, seed: int) -> None:
        self.directory = directory
        self.board = board
        self.preset = preset
        self.addresses: dict[str, str] = {}
        """What is listened on, by its name; filled once everything runs."""
        self._dice = random.Random(seed)
        self._tenants: list[_Tenant] = []
        self._next = 0.0

    def run(self) -> None:
        """Until Ctrl-C. Raises ``LabError`` where a part gives up."""
        metrics = f"127.0.0.1:{free_port()}"
        with contextlib.ExitStack() as stack:
            self.board.say("the rack: QEMU, guest image, saved state", title=True)
            rack = stack.enter_context(Rack(self.directory / "rack"))
            site = stack.enter_context(
                Site(
                    self.directory / "site",
                    rack,
                    policy=POLICY,
                    more=f"[metrics]\nlisten = {metrics}\n",
                )
            )
            api = ApiServer(self.directory / "api", site.config, site.env)
            watcher = Prometheus(self.directory / "prometheus", metrics, _ALERTS)
            names = ("honest", "honest", SLOW, self.preset)
            drives = [
                world.make(rack, slot, presets.preset(name), DRIVE_BYTES)
                for slot, name in enumerate(names)
            ]
            self.board.say("services: redis-server, Placement, nvme-quarantine, API, Prometheus")
            site.start()
            for each in (api, watcher):
                stack.callback(each.stop)
                each.start()
            self.addresses = {
                "the page": f"{api.url}/page",
                "API": f"{api.url}/v1/slots",
                "its description": f"{api.url}/v1/openapi.json",
                "metrics": f"http://{metrics}/metrics",
                "Prometheus": f"{watcher.url}/alerts",
            }
            self.board.say("look at it, on this machine:", title=True)
            for what, address in self.addresses.items():
                self.board.say(f"  {what:16} {address}")
            self.board.say("  Ctrl-C ends everything")
            compute = self._set_up(rack, site, drives, names)
            self._play(rack, site, compute, drives)

    def _set_up(
        self, rack: Rack, site: Site, drives: Sequence[RackDrive], names: Sequence[str]
    ) -> ComputeGuest:
        self.board.say(f"a compute host with {len(drives)} drives: {', '.join(names)}", title=True)
        compute = rack.compute()
        site.add_host(compute)
        site.nova.start_compute(compute.name, [drive.address for drive in drives])
        for number, (drive, name) in enumerate(zip(drives, names, strict=True)):
            # One profile for each: a drive is only ever compared with its own kind.
            site.approve(compute, drive, f"slot-{number}")
            world.begin(rack, compute, drive, presets.preset(name))
        site.start_worker(compute)
        for number, drive in enumerate(drives):
            site.enrol(drive, f"slot-{number}")
        return compute

    def _play(
        self,
        rack: Rack,
        site: Site,
        compute: ComputeGuest,
        drives: Sequence[RackDrive],
    ) -> None:
        while True:
            if site.control_died():
                self.board.say(f"the control plane ended: {site.log_tail()}", title=True)
                return
            for tenant in [each for each in self._tenants if each.until < time.monotonic()]:
                self._leave(rack, site, compute, tenant)
            if len(self._tenants) < AT_ONCE and self._next < time.monotonic():
                self._arrive(rack, site, drives)
            self.board.show([(drive.serial, site.slot(drive)) for drive in drives])
            time.sleep(0.5)

    def _arrive(self, rack: Rack, site: Site, drives: Sequence[RackDrive]) -> None:
        self._next = time.monotonic() + self._dice.uniform(*PAUSE)
        free = [drive for drive in drives if site.slot(drive).state is State.AVAILABLE]
        if not free:
            return
        try:
            server = site.nova.boot(self._dice.randint(1, min(2, len(free))))
        except NoValidHostError:
            return  # released between our look and Nova's
        drives = tuple(drive for drive in drives if drive.address in server.addresses)
        self.board.say(f"server {server.uuid[:8]} gets {', '.join(d.serial for d in drives)}")
        guest = rack.tenant(drives)
        mebibytes = build_and_write(guest)
        self.board.say(f"server {server.uuid[:8]} wrote {mebibytes} MiB")
        stays = self._dice.uniform(*STAYS)
        self._tenants.append(_Tenant(server, guest, drives, time.monotonic() + stays))

    def _leave(self, rack: Rack, site: Site, compute: ComputeGuest, tenant: _Tenant) -> None:
        self.board.say(f"server {tenant.server.uuid[:8]} is deleted")
        rack.delete(tenant.guest)
        site.nova.delete(tenant.server)
        site.bell(compute.name)
        self._tenants.remove(tenant)
