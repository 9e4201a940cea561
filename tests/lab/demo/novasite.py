"""The demo's site with the real Nova's daemons in the place of the stand-in."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from pathlib import Path
from typing import Any, Final, Protocol

from eraser.agent.bell import Listener
from eraser.protocol.policy import Policy
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.api import ApiServer
from tests.lab.services.keystone import Keystone, project
from tests.lab.services.nova_daemons import NovaDaemons
from tests.lab.services.nova_env import RELEASE
from tests.lab.services.nova_standin import Server
from tests.lab.services.placement import write_clouds_yaml
from tests.lab.services.process import wait_until
from tests.lab.site import Site

WHAT_IS_REAL: Final = (
    f"services: redis-server, Placement, Nova {RELEASE} (API, scheduler, conductor, nova-compute "
    "with our patch), RabbitMQ, PostgreSQL, Keystone, nvme-quarantine with its API",
    "stand-ins: nova-compute's hypervisor driver (the rack starts the guests), Glance, Neutron; "
    "Keystone stands before our API alone",
)


BELLS: Final = "bells.log"
"""In the site's directory: host and address of each bell that nova-compute rang."""


@dataclass(frozen=True)
class Told:
    """What the API says of one server to two projects' readers."""

    drives: tuple[str, ...]
    """The states of its drives, to the project that it is of."""
    neighbour: int
    """The HTTP status that another project's reader gets."""


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
    control plane here, as the guest's worker would. Its servers are of one project of Keystone's,
    whose reader may ask our API for them.
    """

    def __init__(self, directory: Path, rack: Rack, *, policy: Policy) -> None:
        super().__init__(directory, rack, policy=policy)
        self.cloud = NovaDaemons(directory / "nova", self.placement.url)
        write_clouds_yaml(directory / "clouds.yaml", self.placement.url, self.cloud.url)
        self.keystone = Keystone(directory / "keystone")
        self.api = ApiServer(directory / "api", self.config, self.env, self.keystone)
        self._bells: list[Listener] = []

    def start(self) -> None:
        """As a site, and Nova's daemons; its compute hosts come with the rack's."""
        super().start()
        self.keystone.start()
        self.cloud.client.token = f"admin:{self._reader('tenant')}"
        self._reader("neighbour")
        self.cloud.start()
        self.api.start()

    def add_host(self, compute: ComputeGuest) -> None:
        """As a site, and listen to the host's bell."""
        super().add_host(compute)
        self._bells.append(Listener(self.cloud.run_dir(compute.name), partial(self._rung, compute)))

    def close(self) -> None:
        """End every process of the site."""
        for bell in self._bells:
            bell.close()
        self.api.stop()
        super().close()
        self.cloud.close()
        self.keystone.stop()

    def bell(self, host: str) -> None:
        """Nobody has to ring: nova-compute does."""

    def told(self, server: Server) -> Told:
        """What its tenant and a neighbour hear of a server whose drives are seen in use.

        Raises ``LabError`` where its own tenant is not told in a minute.
        """
        answers: list[tuple[int, Any]] = []

        def known() -> bool:
            answers.append(self._asked("tenant", server))
            return answers[-1][0] == HTTPStatus.OK

        wait_until(known, "the API to tell a tenant of his server", 60, 0.5)
        drives = tuple(str(drive["state"]) for drive in answers[-1][1]["drives"])
        return Told(drives, self._asked("neighbour", server)[0])

    def _reader(self, name: str) -> str:
        """A project of that name, and a user of that name who reads in it; the project's id."""
        where = self.keystone.add_project(name)
        user = self.keystone.add_user(name, name)
        self.keystone.grant(f"projects/{where}", user, self.keystone.roles()["reader"])
        return where

    def _asked(self, name: str, server: Server) -> tuple[int, Any]:
        token = self.keystone.token(name, name, project(name))
        url = f"{self.api.url}/v1/servers/{server.uuid}"
        request = urllib.request.Request(url, headers={"X-Auth-Token": token})  # noqa: S310
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:  # noqa: S310
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            return error.code, None

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
