"""The demo's site with the real Nova's daemons in the place of the stand-in."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Final, Protocol

from eraser.wire.policy import Policy
from tests.lab.rack import Rack
from tests.lab.services.nova_daemons import NovaDaemons
from tests.lab.services.nova_env import RELEASE
from tests.lab.services.nova_standin import Server
from tests.lab.services.placement import write_clouds_yaml
from tests.lab.services.process import ServiceProcess
from tests.lab.site import Site

WHAT_IS_REAL: Final = (
    f"services: redis-server, Placement, Nova {RELEASE} (API, scheduler, conductor, nova-compute "
    "with our patch), RabbitMQ, PostgreSQL, nvme-quarantine and its listener",
    "stand-ins: nova-compute's hypervisor driver (the rack starts the guests), Glance, Neutron; "
    "no Keystone",
)


class Nova(Protocol):
    """What the demo asks of Nova, the real one or its stand-in."""

    def start_compute(self, host: str, addresses: Iterable[str]) -> None:
        """nova-compute starts and finds those PCI devices on the host."""

    def boot(self, drives: int = 1) -> Server:
        """A server with that many drives."""

    def delete(self, server: Server) -> None:
        """It goes, and Nova lets go of its drives."""


class NovaSite(Site):
    """A site whose drives are scheduled by the real Nova; the listener rings the bell."""

    def __init__(self, directory: Path, rack: Rack, *, policy: Policy) -> None:
        self._more = directory / "nova-side.conf"
        super().__init__(directory, rack, policy=policy)
        self.cloud = NovaDaemons(directory / "nova", self.placement.url)
        write_clouds_yaml(directory / "clouds.yaml", self.placement.url, self.cloud.url)
        self._more.write_text(f"[notifications]\ntransport_url = {self.cloud.rabbit.url}\n")
        log = directory / "listener.log"
        self.listener = ServiceProcess(
            "listener",
            [*self._command(), "listener"],
            log,
            lambda: "listening to" in log.read_text(errors="replace"),
            env=self._env,
        )

    def start(self) -> None:
        """As a site, and Nova's daemons; its compute hosts come with the rack's."""
        super().start()
        self.cloud.start()
        self.listener.start()

    def close(self) -> None:
        """End every process of the site."""
        self.listener.stop()
        super().close()
        self.cloud.close()

    def bell(self, host: str) -> None:
        """Nobody has to ring: the listener heard Nova itself."""

    def diagnostics(self) -> list[tuple[str, str]]:
        """Also the logs of Nova and of the listener."""
        logs = [self.directory / "listener.log", *sorted((self.directory / "nova").glob("*.log"))]
        found = [
            (log.stem, log.read_text(errors="replace")[-20000:]) for log in logs if log.exists()
        ]
        return [*super().diagnostics(), *found]

    def _command(self) -> list[str]:
        return [*super()._command(), "--config-file", str(self._more)]
