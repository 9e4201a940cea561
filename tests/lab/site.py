"""A whole site: a rack with real Placement, Redis, control plane and workers, and Nova's stand-in.

Everything runs as its own process, as an operator would run it: the control plane as
``nvme-quarantine run`` on this machine, the worker as ``nvme-eraser worker`` in the compute guest.
Tests and the demo hold one :class:`Site`; what they look at is what an operator could look at.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.inbound import MessageKind
from eraser.protocol.policy import Limits, Policy, Verification
from eraser.protocol.transport.messaging import BrokerRedis, host_queue, make_app
from quarantine.errors import QuarantineError
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow, SlotRecord
from quarantine.record.words.states import State
from quarantine.service.issue import brokeracl
from tests.lab.errors import LabError
from tests.lab.guest.commands import GuestProcess
from tests.lab.guest.payload import REPOSITORY
from tests.lab.rack import Rack
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.broker import denials
from tests.lab.services.nova_api_standin import NovaApiStandIn
from tests.lab.services.nova_standin import NovaStandIn
from tests.lab.services.placement import CLOUD, PlacementServer, write_clouds_yaml
from tests.lab.services.process import ServiceProcess, wait_until
from tests.lab.services.redis import RedisServer

PROFILE: Final = "lab-drive"
DEFAULT_POLICY: Final = Policy(
    name="lab",
    limits=Limits(poll=0.2),
    verification=Verification(residual=0.001, canaries=256, reread=256, visit=4, settle=0),
)
"""An emulated processor takes a hundred times as long for a probe or a visit as a real one."""
STATE_DIR: Final = "/var/lib/nvme-eraser"
WORKER_CONF: Final = "/etc/nvme-eraser/worker.conf"
HOST_LOOPBACK: Final = "10.0.2.2"
"""How a guest reaches this machine's loopback (QEMU's user networking)."""

_CONTROL_CONF: Final = """\
[database]
url = sqlite:///{directory}/quarantine.sqlite
[broker]
url = {redis}
[placement]
cloud = {cloud}
[gate]
required = {tickets}
[detection]
sweep_interval = {sweep}
in_use_reread = {reread}
list_interval = {listing}
bells = {bells}
[erase]
policy = {policy}
policy_file = {directory}/policy.json
resend_after = {resend}
retry_in_use_after = {retry}
max_attempts = 100
[evidence]
signing_key = {directory}/controller.key
certificates_dir = {directory}/certificates
heads_dir = {directory}/heads
organisation = Example Cloud
location = Rack 1
"""

_WORKER_CONF: Final = """\
[worker]
broker = {redis}
hello_interval = {hello}
progress_interval = 0.2
"""


@dataclass(frozen=True)
class Timing:
    """The control plane's durations, in seconds: short enough for somebody who watches."""

    sweep: float = 2.0
    reread: float = 5.0
    listing: float = 5.0
    resend: int = 10
    retry: int = 3
    """Before a drive that was found in use is ordered again."""
    hello: float = 5.0
    """Between two hellos of a host; each looks at the drives that no case works on."""


DEFAULT_TIMING: Final = Timing()


class CommandError(LabError):
    """A command of the product ended with another exit code than 0."""

    def __init__(self, argv: Sequence[str], code: int, text: str) -> None:
        super().__init__(f"{' '.join(argv)} ended with {code}: {text.strip()}")
        self.code = code


class Site:
    """One site in ``directory``, whose control plane is configured with ``timing``.

    ``more``: sections that its configuration file ends with.
    """

    def __init__(
        self,
        directory: Path,
        rack: Rack,
        *,
        policy: Policy = DEFAULT_POLICY,
        timing: Timing = DEFAULT_TIMING,
        bells: bool = True,
        tickets: bool = True,
        more: str = "",
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self.rack = rack
        self.timing = timing
        self.redis = RedisServer(directory / "redis", accounts=True)
        self._passwords = directory / "passwords.json"
        self.placement = PlacementServer(directory / "placement")
        self.nova = NovaStandIn(self.placement.url)
        (directory / "policy.json").write_bytes(codec.canonical(policy))
        self.config = directory / "nvme-quarantine.conf"
        self.config.write_text(
            _CONTROL_CONF.format(
                directory=directory,
                redis=self._broker(brokeracl.CONTROL),
                cloud=CLOUD,
                sweep=timing.sweep,
                reread=timing.reread,
                listing=timing.listing,
                resend=timing.resend,
                retry=timing.retry,
                bells=bells,
                tickets=tickets,
                policy=policy.name,
            )
            + more
        )
        self.nova_api = NovaApiStandIn()
        clouds = write_clouds_yaml(directory / "clouds.yaml", self.placement.url, self.nova_api.url)
        self.env = {
            **os.environ,
            "PYTHONPATH": str(REPOSITORY),
            "OS_CLIENT_CONFIG_FILE": str(clouds),
        }
        self.control = ServiceProcess(
            "control plane",
            [*self._command(), "run"],
            directory / "control.log",
            lambda: True,
            env=self.env,
        )
        self.workers: dict[str, GuestProcess] = {}
        self._store: Store | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            # An account that lacks what its owner asks for fails whoever used the site.
            assert error is not None or self.denials() == []
        finally:
            self.close()

    def start(self) -> None:
        """Start the services and the control plane, with its own fresh key."""
        self.placement.start()
        self.nova_api.start()
        self.cli("key", "create")
        self.cli("db", "upgrade")
        self._write_accounts()
        self.redis.start()
        self.control.start()

    def close(self) -> None:
        """End every process of the site; the rack is its owner's."""
        if self._store is not None:
            self._store.close()
        self.control.stop()
        self.placement.stop()
        self.nova_api.stop()
        self.redis.stop()

    # Misfortunes

    def kill_control(self) -> None:
        """SIGKILL to every process of the control plane, as when its machine loses power."""
        os.killpg(self.control.pid, signal.SIGKILL)
        self.control.kill()

    def kill_worker(self, compute: ComputeGuest) -> None:
        """SIGKILL to a host's worker and to every runner that it started."""
        self.workers.pop(compute.name).kill()
        compute.sh("pkill -9 -f 'eraser[.]cli case' || true")

    # The operator's hands

    def _command(self) -> list[str]:
        return [sys.executable, "-m", "quarantine.cli", "--config-file", str(self.config)]

    def cli(self, *arguments: str, check: bool = True) -> str:
        """Run ``nvme-quarantine`` and return its standard output. Raises ``CommandError``."""
        return self._call([*self._command(), *arguments], arguments, self.env, check)

    @staticmethod
    def _call(
        argv: Sequence[str], arguments: Sequence[str], env: Mapping[str, str], check: bool
    ) -> str:
        done = subprocess.run(
            argv, env=env, cwd=REPOSITORY, capture_output=True, text=True, timeout=120
        )
        if check and done.returncode:
            raise CommandError(["nvme-quarantine", *arguments], done.returncode, done.stderr)
        return done.stdout

    def bare_cli(self, *arguments: str, check: bool = True) -> str:
        """As :meth:`cli`, for somebody who has neither our configuration nor our network."""
        argv = ["unshare", "--net", sys.executable, "-m", "quarantine.cli", *arguments]
        return self._call(argv, arguments, {"PATH": os.environ["PATH"]}, check)

    def json(self, *arguments: str) -> Any:
        """As :meth:`cli` with ``-f json``, parsed."""
        return json.loads(self.cli(*arguments, "-f", "json"))

    def _broker(self, account: str) -> str:
        """The broker's URL for one of its accounts, whose password is made if need be."""
        return self.redis.url_of(account, brokeracl.passwords(self._passwords, [account])[account])

    def denials(self) -> list[str]:
        """What the broker refused, with who asked."""
        admin = brokeracl.passwords(self._passwords, [])[brokeracl.ADMIN]
        with self.redis.client(brokeracl.ADMIN, admin) as client:
            return denials(client)

    def _write_accounts(self) -> None:
        text = self.cli("broker", "acl", "--passwords", str(self._passwords))
        self.redis.acl_file.write_text(text)

    def add_host(self, compute: ComputeGuest) -> None:
        """Install the eraser on a compute guest and register it, as the operator guide says."""
        slots = [drive.address for drive in compute.drives]
        compute.run(["nvme-eraser", "host-setup", *(f"--pci={slot}" for slot in slots)])
        compute.run(["udevadm", "control", "--reload"])
        compute.run(["nvme-eraser", "keygen", "--host", compute.name, "--state-dir", STATE_DIR])
        compute.put(f"{STATE_DIR}/controller.jwk", self.cli("key", "show").encode())
        self.nova_api.add_host(compute.name)
        card = self.directory / f"{compute.name}.json"
        card.write_bytes(compute.get(f"{STATE_DIR}/host.json"))
        self.cli("host", "register", str(card))
        self._write_accounts()
        admin = brokeracl.passwords(self._passwords, [])[brokeracl.ADMIN]
        with self.redis.client(brokeracl.ADMIN, admin) as client:
            client.acl_load()
        redis = self._broker(compute.name).replace("127.0.0.1", HOST_LOOPBACK)
        compute.put(WORKER_CONF, _WORKER_CONF.format(redis=redis, hello=self.timing.hello).encode())

    def start_worker(self, compute: ComputeGuest, prefix: Sequence[str] = ()) -> None:
        """Start the Celery worker of a compute guest; ``prefix`` stands before its command."""
        self.workers[compute.name] = compute.spawn(
            [*prefix, "nvme-eraser", "worker", "--config-file", WORKER_CONF]
        )

    def approve(self, compute: ComputeGuest, drive: RackDrive, name: str = PROFILE) -> None:
        """Have the host propose a profile from one drive, and approve it as a person would."""
        seen = "/tmp/profile.json"
        compute.run(
            ["nvme-eraser", "inspect", "--pci", drive.address, "--save", seen, "--name", name]
        )
        path = self.directory / f"{name}.json"
        path.write_bytes(compute.get(seen))
        self.cli("profile", "approve", str(path), "--by", "the demo's operator")

    def enrol(self, drive: RackDrive, profile: str = PROFILE) -> None:
        """Enrol the slot that a drive sits in."""
        self.cli(
            "slot", "enrol", "--host", drive.host, "--pci", drive.address, "--profile", profile
        )

    def bell(self, host: str) -> None:
        """Ring for all slots of a host."""
        self.pass_on(host, "")

    def pass_on(self, host: str, address: str) -> None:
        """A bell of a host, as its worker passes it on; without an address it is for all slots."""
        with make_app(self._broker(host), host_queue(host)) as app:
            BrokerRedis(app).push(MessageKind.BELL, host, address)

    # Looking

    @property
    def store(self) -> Store:
        """The control plane's database, for looking only."""
        if self._store is None:
            self._store = Store.open(f"sqlite:///{self.directory}/quarantine.sqlite")
        return self._store

    def slot(self, drive: RackDrive) -> SlotRecord:
        """The record of the slot a drive sits in. Raises ``LabError`` before enrolment."""
        found = self.store.slot(Slot(drive.host, drive.address))
        if found is None:
            raise LabError(f"expected {drive.host}/{drive.address} to be enrolled, it is not")
        return found

    def history(self, drive: RackDrive) -> list[HistoryRow]:
        """All that happened to the slot."""
        return list(self.store.history(Slot(drive.host, drive.address)))

    def wait(
        self,
        drives: Collection[RackDrive],
        states: Collection[State],
        *,
        seconds: float = 180.0,
        watch: Callable[[], None] = lambda: None,
    ) -> None:
        """Wait until every drive's slot is in one of the states. Raises ``LabError``."""

        def there() -> bool:
            watch()
            if self.control_died():
                raise LabError(f"the control plane ended: {self.log_tail()}")
            return all(self.slot(drive).state in states for drive in drives)

        names = ", ".join(sorted(states))
        wait_until(there, f"all slots to be {names}", seconds, every=0.1)

    def control_died(self) -> bool:
        """Whether the control plane's process has ended by itself."""
        try:
            return self.control.pid == 0
        except LabError:
            return True

    def log_tail(self, lines: int = 20) -> str:
        """The end of the control plane's log, if it was ever started."""
        log = self.directory / "control.log"
        if not log.exists():
            return "no log: the site was not started"
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:])

    def diagnostics(self) -> list[tuple[str, str]]:
        """What to read after a failure, beside the rack's own."""
        report = [("control plane", self.log_tail(60))]
        for name, worker in self.workers.items():
            try:
                text = worker.stdout() + worker.stderr()
            except LabError as error:
                text = f"not to be had: {error}"
            report.append((f"worker of {name}", text[-20000:]))
        for drive in self.rack.drives:
            if drive.host not in self.workers:
                continue  # it lies on a shelf
            slot = Slot(drive.host, drive.address)
            try:
                rows = "\n".join(
                    f"{row.at:%H:%M:%S.%f} {row.event} -> {row.target} {row.reason}"
                    for row in self.store.history(slot)
                )
            except QuarantineError as error:
                rows = f"not to be had: {error}"
            report.append((f"history of {slot}", rows))
        return report
