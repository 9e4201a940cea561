"""The real Nova as daemons on loopback: API, scheduler, conductor, a nova-compute for each host.

Real: Nova (PyPI) with our patch in nova-compute, RabbitMQ, and the Placement that it is given. Not
real: the compute driver has no hypervisor (``tests/lab/nova/lab_nvme.py``), Glance and Neutron are
stand-ins, and there is no Keystone.
"""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from eraser.agent.bell import SOCKET
from nova_patch.presence import PREFIX
from tests.lab.errors import LabError
from tests.lab.guest.payload import REPOSITORY
from tests.lab.services import nova_conf
from tests.lab.services.glance_standin import GlanceStandIn
from tests.lab.services.neutron_standin import NeutronStandIn
from tests.lab.services.nova_api import NovaApi
from tests.lab.services.nova_env import patched_python
from tests.lab.services.nova_standin import OTU_TRAIT, Server
from tests.lab.services.placement_http import PlacementHttp
from tests.lab.services.postgresql import Postgresql
from tests.lab.services.process import ServiceProcess, free_port, wait_until
from tests.lab.services.rabbitmq import RabbitServer

START_SECONDS: Final = 240.0


class Daemon(ServiceProcess):
    """One of Nova's services; it may have children, which die with it."""

    def kill(self) -> None:
        """SIGKILL to it and to what it started."""
        with contextlib.suppress(LabError, ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        super().kill()


class NovaDaemons:
    """One cloud in ``directory`` on the Placement at ``placement``; compute hosts come later."""

    def __init__(self, directory: Path, placement: str) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._placement = PlacementHttp(placement)
        self._placement_url = placement
        self.rabbit = RabbitServer(directory / "rabbitmq")
        self._python = patched_python()
        self._env = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "OS_NOVA_CONFIG_DIR": str(directory),
            "OS_NOVA_CONFIG_FILES": "api-paste.ini;nova.conf;databases.conf",
        }
        port = free_port()
        self.url = f"http://127.0.0.1:{port}/v2.1"
        self.client = NovaApi(self.url)
        self.api = self._daemon(
            "nova-api", ["-m", "tests.lab.nova.api_main", str(port)], self._answers
        )
        databases = self.directory / "databases.conf"
        self.conductor = self._service("nova-conductor", "nova-conductor", databases)
        self.scheduler = self._service("nova-scheduler", "nova-scheduler", databases)
        self.computes: dict[str, Daemon] = {}
        self._flavors: dict[int, str] = {}
        self._stack = contextlib.ExitStack()

    def start(self) -> None:
        """Everything but the compute hosts; returns when nova-api answers."""
        glance = self._stack.enter_context(GlanceStandIn())
        neutron = self._stack.enter_context(NeutronStandIn())
        database = self._stack.enter_context(Postgresql())
        self._ends = nova_conf.Endpoints(
            self.rabbit.url,
            database.new_database("api"),
            database.new_database("cell"),
            self._placement_url,
            glance.url,
            neutron.url,
        )
        nova_conf.write(self.directory, self._ends)
        nova_conf.create_databases(self.directory, self._python, self._ends)
        self._stack.callback(self._stop)
        self.rabbit.start()
        self.conductor.start()
        self.scheduler.start()
        self.api.start()

    def run_dir(self, host: str) -> Path:
        """Where nova-compute of that host finds the host's bell (:mod:`eraser.agent.bell`)."""
        return self.directory / f"{host}.run"

    def start_compute(self, host: str, addresses: Iterable[str]) -> None:
        """A compute host with drives at those addresses, up and with its providers in Placement."""
        self.start_computes({host: list(addresses)})

    def start_computes(self, hosts: Mapping[str, Sequence[str]]) -> None:
        """As :meth:`start_compute`, several at once."""
        for host, addresses in hosts.items():
            drives = self.directory / f"{host}.drives"
            drives.write_text("\n".join(addresses))
            conf = nova_conf.write_host(self.directory, host)
            bell = self.run_dir(host) / SOCKET
            env = {"NOVA_LAB_DRIVES": str(drives), "NOVA_LAB_BELL": str(bell)}
            self.computes[host] = self._service(f"nova-compute-{host}", "nova-compute", conf, env)
            self.computes[host].start()
        names = {f"{host}_{a.upper()}" for host, addresses in hosts.items() for a in addresses}
        wait_until(
            lambda: names <= self._provider_names(), "the drives' providers", START_SECONDS, 0.2
        )
        for host in hosts:
            self.wait_up(host)

    def restart_compute(self, host: str) -> None:
        """Start it (again) and wait until the others know that it is up."""
        self.computes[host].restart()
        self.wait_up(host)

    def wait_up(self, host: str) -> None:
        """Until nova-api says that the host is up."""
        wait_until(lambda: self._is_up(host), f"{host} to be up", START_SECONDS, 0.1)

    def delete_softly(self, *, softly: bool) -> None:
        """Whether servers that are deleted from now on wait to be reclaimed; nova-api restarts."""
        interval = nova_conf.RECLAIM_INTERVAL if softly else 0
        with (self.directory / "nova.conf").open("a") as conf:
            conf.write(f"[DEFAULT]\nreclaim_instance_interval = {interval}\n")
        self.api.restart()

    def boot(self, drives: int = 1, *, host: str | None = None, name: str = "vm") -> Server:
        """A server with that many drives, ACTIVE.

        Raises ``LabError`` with Nova's word where there is none; what Nova made of it is deleted.
        """
        uuid = self.client.boot(self.flavor(drives), host=host, name=name)
        try:
            self.client.wait(uuid, "ACTIVE")
        except LabError:
            self.client.delete(uuid)
            self.client.wait(uuid, "DELETED")
            raise
        return self.described(uuid)

    def delete(self, server: Server) -> None:
        """Delete a server and wait until it is gone."""
        self.client.delete(server.uuid)
        self.client.wait(server.uuid, "DELETED")

    def wait_unclaimed(self) -> None:
        """Until every nova-compute has let go of all drives. The next claim fails before that."""
        wait_until(
            lambda: not nova_conf.claimed_devices(self._ends), "Nova's own trackers to let go", 60
        )

    def described(self, uuid: str) -> Server:
        """Which drives Placement says that a consumer has, and where."""
        held = self._placement("GET", f"/allocations/{uuid}", "1.28").body["allocations"]
        found: dict[str, tuple[str, str]] = {}
        for provider in held:
            shown = self._placement("GET", f"/resource_providers/{provider}", "1.14").body
            host, _, address = shown["name"].rpartition("_")
            if host:
                found[address.lower()] = (provider, host)
        addresses = sorted(found)
        hosts = {host for _, host in found.values()}
        return Server(
            uuid,
            min(hosts, default=""),
            tuple(found[address][0] for address in addresses),
            tuple(addresses),
        )

    def flavor(self, drives: int) -> str:
        """The flavor with that many drives, made on first use: i1-45, i1-90, i1-180."""
        if drives not in self._flavors:
            self._flavors[drives] = self.client.flavor(f"i1-{drives * 45}", drives)
        return self._flavors[drives]

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End every process."""
        self._stack.close()

    def _stop(self) -> None:
        # Killed, not asked: nobody waits for their goodbyes, and the databases go with them.
        for daemon in (*self.computes.values(), self.api, self.scheduler, self.conductor):
            daemon.kill()
        self.rabbit.kill()

    def _service(
        self, title: str, program: str, conf: Path, env: Mapping[str, str] | None = None
    ) -> Daemon:
        # The script by its path: the first line of the copy still names the original's Python.
        argv = [
            str(self._python.parent / program),
            "--config-file",
            str(self.directory / "nova.conf"),
        ]
        return self._daemon(title, [*argv, "--config-file", str(conf)], lambda: True, env)

    def _daemon(
        self,
        title: str,
        arguments: Iterable[str],
        ready: Callable[[], bool],
        env: Mapping[str, str] | None = None,
    ) -> Daemon:
        return Daemon(
            title,
            [str(self._python), *arguments],
            self.directory / f"{title}.log",
            ready,
            env={**self._env, **(env or {})},
        )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError, LabError):
            return bool(self.client.ask("GET", "/os-services"))
        return False

    def _is_up(self, host: str) -> bool:
        # A dead one is called up for a while longer: look at the process too.
        return (
            self.computes[host].pid > 0
            and self.client.compute_states().get(host) == "up"
            and host in nova_conf.mapped_hosts(self._ends)
        )

    def _provider_names(self) -> set[str]:
        # The traits are what nova-compute writes last.
        path = f"/resource_providers?required={OTU_TRAIT}"
        found = self._placement("GET", path, "1.22").body
        return {provider["name"] for provider in found["resource_providers"]}


def compute_has_patch(pid: int) -> bool:
    """Whether a nova-compute carries the mark of our patch, as root sees it on any host."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(OSError):
            if os.readlink(link).startswith(f"/memfd:{PREFIX}"):
                return True
    return False
