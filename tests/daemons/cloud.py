"""A whole cloud of real daemons, and the control plane beside it.

Nothing of ours is a thread of the test: ``nvme-quarantine run`` is a process, and so is each host's
stand-in for the eraser. The hypervisor, Glance and Neutron are stand-ins too.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from eraser.agent.bell import SOCKET
from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow, SlotRecord
from quarantine.record.words.states import Event, State
from quarantine.service.issue import brokeracl
from tests.lab.errors import LabError
from tests.lab.guest.payload import REPOSITORY
from tests.lab.guest.processes import tail
from tests.lab.services.broker import Broker
from tests.lab.services.eraser_standin import EraserStandIn
from tests.lab.services.nova_daemons import NovaDaemons
from tests.lab.services.nova_standin import Server
from tests.lab.services.placement import CLOUD, PlacementServer, write_clouds_yaml
from tests.lab.services.process import ServiceProcess, wait_until
from tests.unit.quarantine.testimony import PROFILE

HOSTS: Final = ("cmp1", "cmp2")
ADDRESSES: Final = ("0000:81:00.0", "0000:82:00.0")
NEVER: Final = 3600
"""Seconds for the turn at which a slot in use is read anyway: what is seen earlier was rung for."""
SWEEP: Final = 0.5
LISTING: Final = 2.0

_CONF: Final = """\
[database]
url = sqlite:///{directory}/record.sqlite
[broker]
url = {redis}
timeout = 2
[placement]
cloud = {cloud}
[detection]
sweep_interval = {sweep}
in_use_reread = {reread}
list_interval = {listing}
[compute]
deleted_interval = 0
[erase]
resend_after = 15
retry_in_use_after = 2
max_attempts = 1000
[evidence]
signing_key = {directory}/controller.key
certificates_dir = {directory}/certificates
heads_dir = {directory}/heads
organisation = Example Cloud
"""


class Cloud:
    """Two compute hosts with two drives each. Use it as a context manager."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.placement = PlacementServer(directory / "placement")
        self.redis = Broker(directory / "redis", HOSTS)
        self.nova = NovaDaemons(directory / "nova", self.placement.url)
        clouds = write_clouds_yaml(directory / "clouds.yaml", self.placement.url, self.nova.url)
        self._env = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "OS_CLIENT_CONFIG_FILE": str(clouds),
        }
        self.config = directory / "nvme-quarantine.conf"
        self.configure(NEVER)
        self.control = self._process("run", "worker ready")
        self.erasers = {
            host: EraserStandIn(
                directory / f"eraser-{host}",
                host,
                list(ADDRESSES),
                self.redis.url_for(host),
                self.nova.run_dir(host),
            )
            for host in HOSTS
        }
        self._store: Store | None = None
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self._stack.close()
            raise
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # An account that lacks what its owner asks for is as wrong as any other failure.
            assert error is not None or self.redis.denials() == []
        finally:
            self._stack.close()

    def _start(self) -> None:
        for service in (self.placement, self.redis, self.nova):
            self._stack.enter_context(service)
        self.nova.start_computes(dict.fromkeys(HOSTS, ADDRESSES))
        controller = self.cli("key", "create")
        self.cli("db", "upgrade")
        profile = self.directory / "profile.json"
        profile.write_bytes(codec.canonical(PROFILE))
        self.cli("profile", "approve", str(profile), "--by", "Ada")
        for eraser in self.erasers.values():
            self.cli("host", "register", str(eraser.card))
            eraser.trust(controller)
            self._stack.enter_context(eraser)
        self.cli("slot", "enrol", "--all", "--profile", PROFILE.name)
        self._store = Store.open(f"sqlite:///{self.directory}/record.sqlite")
        self._stack.callback(self._store.close)
        self._stack.enter_context(self.control)

    def _process(self, verb: str, ready: str) -> ServiceProcess:
        log = self.directory / f"{verb}.log"
        before = 0

        def said() -> bool:
            nonlocal before
            text = log.read_text(errors="replace")
            if text.count(ready) <= before:
                return False
            before = text.count(ready)
            return True

        return ServiceProcess(
            f"nvme-quarantine {verb}", [*self._command(), verb], log, said, env=self._env
        )

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "quarantine.cli", "--config-file", str(self.config)]

    def cli(self, *arguments: str) -> str:
        """Run ``nvme-quarantine``; its standard output. Raises ``LabError``."""
        done = subprocess.run(
            [*self._command(), *arguments],
            env=self._env,
            cwd=REPOSITORY,
            capture_output=True,
            text=True,
            timeout=120,
        )
        if done.returncode:
            said = f"{done.stdout}{done.stderr}".strip()
            raise LabError(f"nvme-quarantine {' '.join(arguments)}: {said}")
        return done.stdout

    def json(self, *arguments: str) -> Any:
        """As :meth:`cli` with ``-f json``, parsed."""
        return json.loads(self.cli(*arguments, "-f", "json"))

    def configure(self, reread: float, sweep: float = SWEEP, listing: float = LISTING) -> None:
        """The control plane's configuration; it is read when a process starts. In seconds."""
        text = _CONF.format(
            directory=self.directory,
            redis=self.redis.url_for(brokeracl.CONTROL),
            cloud=CLOUD,
            sweep=sweep,
            reread=reread,
            listing=listing,
        )
        self.config.write_text(text)

    @contextlib.contextmanager
    def rereading(self, seconds: float) -> Iterator[None]:
        """While it lasts slots in use are read that often, as they are in the field."""
        self._restart_control(seconds)
        try:
            yield
        finally:
            self._restart_control(NEVER)

    def _restart_control(self, reread: float) -> None:
        self.kill_control()
        self.configure(reread)
        self.control.start()

    @contextlib.contextmanager
    def without_bells(self) -> Iterator[None]:
        """While it lasts whoever rings finds no bell on any host."""
        bells = [self.nova.run_dir(host) / SOCKET for host in HOSTS]
        for bell in bells:
            bell.rename(bell.with_suffix(".away"))
        try:
            yield
        finally:
            for bell in bells:
                bell.with_suffix(".away").rename(bell)

    def kill_control(self) -> None:
        """SIGKILL to every process of the control plane."""
        os.killpg(self.control.pid, signal.SIGKILL)
        self.control.kill()

    # Looking

    @property
    def store(self) -> Store:
        """The control plane's database, for looking only."""
        assert self._store is not None
        return self._store

    @property
    def slots(self) -> tuple[Slot, ...]:
        """All four."""
        return tuple(Slot(host, address) for host in HOSTS for address in ADDRESSES)

    def slots_of(self, server: Server) -> tuple[Slot, ...]:
        """The slots that a server was given."""
        return tuple(Slot(server.host, address) for address in server.addresses)

    def record(self, slot: Slot) -> SlotRecord:
        """A slot's record."""
        found = self.store.slot(slot)
        assert found is not None
        return found

    def history(self, slot: Slot) -> Sequence[HistoryRow]:
        """Everything that happened to a slot."""
        return self.store.history(slot)

    def wait(self, slots: Collection[Slot], *states: State, seconds: float = 180.0) -> None:
        """Until all the slots are in one of the states."""
        wait_until(
            lambda: all(self.record(slot).state in states for slot in slots),
            f"{', '.join(map(str, slots))} to be {' or '.join(states)}",
            seconds,
            every=0.05,
        )

    def wait_all_available(self, seconds: float = 180.0) -> None:
        """Until every slot is in the pool again, and nova-compute knows that it is."""
        self.wait(self.slots, State.AVAILABLE, seconds=seconds)
        self.nova.wait_unclaimed()

    def events(self, slot: Slot, since: int = 0) -> list[Event]:
        """The events of a slot after its first ``since`` lines of history."""
        return [row.event for row in self.history(slot)[since:] if row.event is not None]

    def audit(self) -> None:
        """Whatever happened: no hand-out without its own certificate, and the chain holds."""
        for slot in self.slots:
            certified = False
            for row in self.history(slot):
                if row.event is Event.CERTIFIED:
                    certified = True
                elif row.event is Event.RETURNED:
                    assert certified, f"{slot} was returned without a certificate of this case"
                elif row.event is Event.CLAIM_SEEN:
                    assert certified, f"{slot} was handed out without a certificate of this case"
                    certified = False
                elif row.target in (State.RELEASED, State.QUARANTINED):
                    certified = False
        self.cli("ledger", "verify")

    def diagnostics(self) -> list[tuple[str, str]]:
        """What to read after a failure."""
        logs = [self.directory / "run.log"]
        logs += sorted((self.directory / "nova").glob("*.log"))
        logs += sorted(self.directory.glob("eraser-*/standin.log"))
        found = [(log.name, tail(log)) for log in logs]
        for slot in self.slots:
            rows = self.history(slot) if self._store else ()
            text = "\n".join(f"{r.at:%T.%f} {r.event} -> {r.target} {r.reason}" for r in rows)
            found.append((f"history of {slot}", text))
        return found
