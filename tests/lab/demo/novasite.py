"""The demo's site with the real Nova's daemons in the place of the stand-in."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from eraser.agent.bell import Listener
from eraser.protocol.policy import Policy
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.nova_daemons import NovaDaemons
from tests.lab.services.nova_env import RELEASE
from tests.lab.services.nova_standin import Server
from tests.lab.services.placement import write_clouds_yaml
from tests.lab.site import Site

WHAT_IS_REAL: Final = (
    f"services: redis-server, Placement, Nova {RELEASE} (API, scheduler, conductor, nova-compute "
    "with our patch), RabbitMQ, PostgreSQL, nvme-quarantine",
    "stand-ins: nova-compute's hypervisor driver (the rack starts the guests), Glance, Neutron; "
    "no Keystone",
)


BELLS: Final = "bells.log"
"""In the site's directory: host and address of each bell that nova-compute rang."""


class Nova(Protocol):
    """What the demo asks of Nova, the real one or its stand-in."""

    def start_compute(self, host: str, addresses: Iterable[str]) -> None:
        """nova-compute starts and finds those PCI devices on the host."""

    def boot(self, drives: int = 1) -> Server:
        """A server with that many drives."""

    def delete(self, server: Server) -> None:
        """It goes, and Nova lets go of its drives."""


class NovaSite(Site):
    """A site whose drives are scheduled by the real Nova; its nova-compute rings the bell.

    That runs beside this process and not in the compute guest, so its bells are passed on to the
    control plane here, as the guest's worker would.
    """

    def __init__(self, directory: Path, rack: Rack, *, policy: Policy) -> None:
        super().__init__(directory, rack, policy=policy)
        self.cloud = NovaDaemons(directory / "nova", self.placement.url)
        write_clouds_yaml(directory / "clouds.yaml", self.placement.url, self.cloud.url)
        self._bells: list[Listener] = []

    def start(self) -> None:
        """As a site, and Nova's daemons; its compute hosts come with the rack's."""
        super().start()
        self.cloud.start()

    def add_host(self, compute: ComputeGuest) -> None:
        """As a site, and listen to the host's bell."""
        super().add_host(compute)
        self._bells.append(Listener(self.cloud.run_dir(compute.name), partial(self._rung, compute)))

    def close(self) -> None:
        """End every process of the site."""
        for bell in self._bells:
            bell.close()
        super().close()
        self.cloud.close()

    def bell(self, host: str) -> None:
        """Nobody has to ring: nova-compute does."""

    def _rung(self, compute: ComputeGuest, address: str) -> None:
        with (self.directory / BELLS).open("a") as log:
            log.write(f"{compute.name} {address}\n")
        self.pass_on(compute.name, address)

    def diagnostics(self) -> list[tuple[str, str]]:
        """Also the bells that rang, and the logs of Nova."""
        logs = [self.directory / BELLS, *sorted((self.directory / "nova").glob("*.log"))]
        found = [
            (log.stem, log.read_text(errors="replace")[-20000:]) for log in logs if log.exists()
        ]
        return [*super().diagnostics(), *found]
