"""The control plane as it runs: real processes, real Redis, real Placement; the host is the test.

Messages come twice, Redis dies with what it held, the worker is killed: nothing is lost or doubled.
One control plane serves all tests, as it serves all hosts; each test is a host of its own.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    PROGRESS_TYPE,
    REPORT_TYPE,
    EraseReport,
    Hello,
    Progress,
    SeenDrive,
    Step,
)
from eraser.protocol.ticket import (
    RECEIPT_TYPE,
    TICKET_TYPE,
    Defence,
    DefenceSeen,
    DefenceStanding,
    GateTestimony,
    Ticket,
    TicketReceipt,
    TicketState,
)
from eraser.protocol.transport import signing
from eraser.protocol.transport.messaging import BrokerRedis, host_queue
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.evidence.chain import ledger
from quarantine.operations.enrol import EnrolmentRequest, take
from quarantine.operations.plane import Plane
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import Event, State
from quarantine.service.issue import brokeracl
from quarantine.service.issue.celery_app import make_app
from tests.lab.services.broker import Broker
from tests.lab.services.nova_standin import NovaStandIn
from tests.lab.services.placement import CLOUD, PlacementServer, write_clouds_yaml
from tests.lab.services.process import free_port, wait_until
from tests.unit.quarantine.metrics.test_metrics import Samples, of, parsed
from tests.unit.quarantine.testimony import IDENTITY, PROFILE, REPORT

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
ADDRESS = "0000:81:00.0"
INCARNATION = "incarnation-00001"
FAST = {"sweep_interval": 0.5, "in_use_reread": 1.0, "list_interval": 1.0}


HOSTS = 12
"""More than there are tests."""


@dataclass
class Running:
    """A control plane in a directory, the broker that it hears its hosts by, and their keys."""

    directory: Path
    redis: Broker
    hosts: dict[str, PrivateKey]
    service: subprocess.Popen[bytes] | None = None

    def __post_init__(self) -> None:
        self.store = Store.open(f"sqlite:///{self.directory}/record.db")
        self.metrics = free_port()

    @property
    def log(self) -> str:
        return (self.directory / "service.log").read_text(errors="replace")

    def cli(self, *words: object) -> Any:
        """One command of the real program; its JSON."""
        argv = [sys.executable, "-m", "quarantine.cli", "--config-file", self.conf]
        done = subprocess.run(
            [*map(str, argv), *map(str, words)],
            env=self.env,
            cwd=self.directory,
            capture_output=True,
            text=True,
            check=False,
            timeout=120,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    @property
    def conf(self) -> Path:
        return self.directory / "nvme-quarantine.conf"

    @property
    def env(self) -> dict[str, str]:
        clouds = self.directory / "clouds.yaml"
        return {
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "OS_CLIENT_CONFIG_FILE": str(clouds),
        }

    def set_up(self, placement: str) -> None:
        """What an operator does on the first day, with the program's own commands."""
        write_clouds_yaml(self.directory / "clouds.yaml", placement)
        detection = "\n".join(f"{name} = {value}" for name, value in FAST.items())
        self.conf.write_text(
            f"[database]\nurl = sqlite:///{self.directory}/record.db\n"
            f"[evidence]\nsigning_key = {self.directory}/controller.pem\n"
            f"certificates_dir = {self.directory}/certificates\n"
            f"heads_dir = {self.directory}/heads\norganisation = Example Cloud\n"
            f"[broker]\nurl = {self.redis.url_for(brokeracl.CONTROL)}\ntimeout = 2\n"
            f"[placement]\ncloud = {CLOUD}\n"
            f"[detection]\n{detection}\n"
            f"[metrics]\nlisten = 127.0.0.1:{self.metrics}\n"
            "[compute]\nghost_checks = false\ndeleted_interval = 0\n"
            "[erase]\nresend_after = 2\nretry_in_use_after = 1\n"
        )
        self.cli("db", "upgrade", "-f", "json")
        self.controller = PublicKey.from_jwk(self.cli("key", "create"), "controller")
        (first, key_of_first), *others = self.hosts.items()
        card = {"host": first, "incarnation": INCARNATION, "key": key_of_first.public.jwk()}
        (self.directory / "host.json").write_bytes(codec.canonical(card))
        self.cli("host", "register", self.directory / "host.json", "-f", "json")
        for name, key_of_other in others:  # who is registered is read every five seconds
            self.store.register_host(name, key_of_other.public, INCARNATION)
        (self.directory / "profile.json").write_bytes(codec.canonical(PROFILE))
        profile = self.directory / "profile.json"
        self.cli("profile", "approve", profile, "--by", "Ada", "-f", "json")

    def start(self) -> None:
        """``nvme-quarantine run``, ready to take messages."""
        argv = [sys.executable, "-m", "quarantine.cli", "--config-file", str(self.conf), "run"]
        before = self.log.count("worker ready") if (self.directory / "service.log").exists() else 0
        with (self.directory / "service.log").open("ab") as log:
            self.service = subprocess.Popen(
                argv, env=self.env, cwd=self.directory, stdout=log, stderr=log
            )
        wait_until(lambda: self.log.count("worker ready") > before, "the worker to be ready")

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ends the service; its exit code."""
        assert self.service is not None
        self.service.send_signal(number)
        code = self.service.wait(60)
        self.service = None
        return code

    def worker_pid(self) -> int:
        """The newest worker's process."""
        lines = [line for line in self.log.splitlines() if "worker started, process" in line]
        return int(lines[-1].rpartition(" ")[2])

    def close(self) -> None:
        if self.service is not None:
            self.stop(signal.SIGTERM)
        self.store.close()


@dataclass
class Deployment:
    """The control plane, and the one host of it that the test plays."""

    control: Running
    nova: NovaStandIn
    slot: Slot
    sequence: int = 0
    orders: list[EraseOrder] = field(default_factory=list)
    tickets: list[Ticket] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.host = self.control.hosts[self.slot.host]
        self.identity = replace(IDENTITY, serial=self.slot.host.upper())
        self.redis, self.store = self.control.redis, self.control.store
        self.app = make_app(self.redis.url_for(self.slot.host), timeout=2.0)
        """The host's way to the broker, with its own account."""
        self.door = BrokerRedis(self.app)

    @property
    def record(self) -> SlotRecord:
        found = self.store.slot(self.slot)
        assert found is not None
        return found

    def until(self, state: State) -> SlotRecord:
        """Waits for a state of the slot; its host takes tickets meanwhile."""

        def there() -> bool:
            self._serve()
            return self.record.state is state

        wait_until(there, f"{self.slot} to be {state}")
        return self.record

    def enrol(self) -> None:
        """What ``slot enrol`` does, without the seconds that its process needs to start."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("OS_CLIENT_CONFIG_FILE", self.control.env["OS_CLIENT_CONFIG_FILE"])
            take(
                Plane([self.control.conf]),
                EnrolmentRequest(PROFILE.name, host=self.slot.host, address=ADDRESS),
            )

    def send(self, kind: MessageKind, message: object, typ: str) -> None:
        """A signed message onto the host's list."""
        self.door.push(kind, self.slot.host, self.host.sign(codec.canonical(message), typ))

    def hello(self) -> None:
        self.sequence += 1
        drives = (SeenDrive(ADDRESS, "nvme", self.identity),)
        defences = tuple(DefenceSeen(name, DefenceStanding.PRESENT, "") for name in Defence)
        gate = GateTestimony(defences, (), (), ())
        message = Hello(self.slot.host, INCARNATION, self.sequence, "0.1.0", drives, (), (), gate)
        self.send(MessageKind.HELLO, message, HELLO_TYPE)

    def heard(self) -> bool:
        """Whether the last hello was."""
        host = self.store.host(self.slot.host)
        return host is not None and host.sequence == self.sequence

    def order(self) -> EraseOrder:
        """Takes the next order off the host's queue, as its worker would, and verifies it."""

        def arrived() -> bool:
            self._serve()
            return bool(self.orders)

        wait_until(arrived, "an order on the host's queue")
        return self.orders.pop(0)

    def _serve(self) -> None:
        """What is on the host's queue: orders are kept, tickets are answered as a gate would."""
        while True:
            with contextlib.closing(self.redis.as_()) as client:
                raw = client.rpop(host_queue(self.slot.host))
            if not isinstance(raw, bytes):
                return
            message = json.loads(raw)
            (token,), _kwargs, _embed = json.loads(base64.b64decode(message["body"]))
            if message["headers"]["task"] == "eraser.ticket":
                payload = signing.verify(token, self.control.controller, TICKET_TYPE, "ticket")
                self.tickets.append(codec.load(Ticket, payload, "ticket"))
                self.receipt(self.tickets[-1])
            else:
                assert message["headers"]["task"] == "eraser.order"
                payload = signing.verify(token, self.control.controller, ORDER_TYPE, "order")
                self.orders.append(codec.load(EraseOrder, payload, "order"))

    def receipt(self, ticket: Ticket) -> None:
        message = TicketReceipt(
            order_id=ticket.order_id,
            slot=ticket.slot,
            generation=ticket.generation,
            incarnation=ticket.incarnation,
            state=TicketState.VALID,
            reason="",
            counters=ticket.counters,
        )
        self.send(MessageKind.RECEIPT, message, RECEIPT_TYPE)

    def answer(self, order: EraseOrder) -> EraseReport:
        return replace(
            REPORT,
            slot=order.slot,
            identity=self.identity,
            order_id=order.order_id,
            nonce=order.nonce,
            generation=order.generation,
            incarnation=order.incarnation,
        )

    def progress(self, order: EraseOrder, step: Step) -> None:
        self.sequence += 1
        message = Progress(
            order.order_id, order.slot, order.generation, INCARNATION, self.sequence, step, 0.5, ""
        )
        self.send(MessageKind.PROGRESS, message, PROGRESS_TYPE)

    def report(self, order: EraseOrder) -> None:
        self.send(MessageKind.REPORT, self.answer(order), REPORT_TYPE)

    def certified_times(self) -> int:
        return [row.event for row in self.store.history(self.slot)].count(Event.CERTIFIED)


@pytest.fixture(scope="module")
def running(
    placement_server: PlacementServer, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Running]:
    """Set up by its own commands; its hosts are registered and have not said a word yet."""
    directory = tmp_path_factory.mktemp("control")
    # Names of their own: the Placement is shared.
    prefix = f"redis{free_port()}"
    hosts = {f"{prefix}n{number}": PrivateKey.generate() for number in range(HOSTS)}
    with Broker(directory / "redis", list(hosts)) as broker:
        made = Running(directory, broker, hosts)
        made.set_up(placement_server.url)
        try:
            yield made
        finally:
            made.close()


@pytest.fixture(scope="module")
def unused(running: Running) -> Iterator[str]:
    """Hosts that no test has been yet."""
    return iter(running.hosts)


@pytest.fixture
def deployment(
    running: Running, unused: Iterator[str], placement_server: PlacementServer
) -> Iterator[Deployment]:
    """The control plane runs; the host's slot is in Placement and not enrolled."""
    host = next(unused)
    nova = NovaStandIn(placement_server.url, f"CUSTOM_NVME_{host.upper()}")
    nova.start_compute(host, [ADDRESS])
    if running.service is None:
        running.start()
    made = Deployment(running, nova, Slot(host, ADDRESS))
    try:
        yield made
    finally:
        made.app.close()
        if running.service is not None:
            with contextlib.suppress(ProcessLookupError):  # a test that failed may have paused it
                os.kill(running.worker_pid(), signal.SIGCONT)
    assert running.redis.denials() == []


def test_a_whole_cycle_with_every_message_twice(deployment: Deployment) -> None:
    """The first on this control plane: its chain begins here, and nobody was refused before."""
    plane = deployment
    plane.control.cli(
        *("slot", "enrol", "--host", plane.slot.host, "--pci", ADDRESS),
        *("--profile", PROFILE.name, "-f", "json"),
    )
    plane.until(State.QUARANTINED)
    plane.hello()
    order = plane.order()
    assert (order.slot, order.identity) == (plane.slot, plane.identity)
    plane.until(State.ERASING)
    plane.progress(order, Step.VERIFY)
    plane.until(State.VERIFYING)
    for _ in range(3):
        plane.report(order)
    record = plane.until(State.AVAILABLE)
    # A message behind the copies has been handled: so have they.
    plane.hello()
    wait_until(plane.heard, "the last hello to be heard")
    assert plane.certified_times() == 1
    assert plane.store.refusals() == []
    ticket = plane.tickets[0]
    assert (ticket.order_id, ticket.certificate) == (order.order_id, record.certificate)
    assert record.certificate is not None
    raw = (plane.control.directory / "certificates" / f"{record.certificate}.json").read_bytes()
    assert ledger.audit([("file", raw)], [plane.control.controller]).intact

    # The next tenant gets the drive, lets go of it, and it is erased again under a new generation.
    server = plane.nova.boot()
    plane.until(State.IN_USE)
    plane.nova.delete(server)
    plane.door.push(MessageKind.BELL, plane.slot.host, ADDRESS)
    again = plane.order()
    while again == order:
        again = plane.order()  # the loop and the worker may both have sent the first one
    assert again.generation == order.generation + 1
    plane.report(order)  # an old report, replayed
    plane.report(again)
    plane.until(State.AVAILABLE)
    assert plane.certified_times() == 2
    assert plane.control.stop() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(plane.control.worker_pid(), 0)


def test_the_service_serves_its_numbers(deployment: Deployment) -> None:
    """With the control plane's own account, which may ask Redis for nothing that they need not."""
    plane, host = deployment, deployment.slot.host
    plane.hello()
    plane.enrol()
    plane.order()

    def numbers() -> Samples:
        with urllib.request.urlopen(f"http://127.0.0.1:{plane.control.metrics}/metrics") as answer:
            return parsed(answer.read())

    def counted() -> bool:
        asked = {"state": "erasing", "model": IDENTITY.model, "reason": ""}
        return of(numbers(), "slots", **asked) == 1

    wait_until(counted, "the slot that is being erased to be counted")
    found = numbers()
    down = {
        dict(labels)["part"]
        for (name, labels), up in found.items()
        if name == "part_up" and up != 1
    }
    # The slots of these tests are of many classes, and the flavors name none.
    assert down <= {"capacity"}
    assert of(found, "part_up", part="queues") == 1
    assert of(found, "hosts") == HOSTS
    for duty in ("sweep", "safety pass"):
        age = of(found, "duty_age_seconds", duty=duty)
        bound = of(found, "duty_bound_seconds", duty=duty)
        assert age is not None
        assert bound is not None
        assert age < bound
    assert host not in str(found)


def test_the_worker_outlives_what_is_no_message(deployment: Deployment) -> None:
    """Whatever a host pushes, or makes of its keys, is its own trouble."""
    plane, host = deployment, deployment.slot.host
    worker = plane.control.worker_pid()
    with contextlib.closing(plane.redis.as_()) as client:
        for odd in (b"not json", b"\xff\xfe", b"{}", b"x" * 9_000_000):
            client.rpush(key(MessageKind.REPORT, host), odd)
            client.lpush("quarantine", odd)
        client.set(key(MessageKind.BELL, host), "no list")
    plane.hello()
    wait_until(plane.heard, "the hello behind it all to be heard")
    plane.enrol()
    plane.report(plane.order())
    plane.until(State.AVAILABLE)
    assert plane.control.worker_pid() == worker
    # The worker's alarms are among the numbers that the service shows.
    totals = plane.store.alarm_totals
    wait_until(lambda: totals().get(AlarmCode.QUEUE_ODD, 0) >= 1, "its alarms to be counted")


def test_an_hour_of_one_hosts_progress_ends_no_worker_and_delays_no_report(
    deployment: Deployment,
) -> None:
    """It called itself deaf, and ended, again and again, until the last one was worked off."""
    plane = deployment
    plane.hello()
    plane.enrol()
    order = plane.order()
    worker = plane.control.worker_pid()
    os.kill(worker, signal.SIGSTOP)
    plane.progress(order, Step.ERASE)
    name = key(MessageKind.PROGRESS, plane.slot.host)
    with contextlib.closing(plane.redis.as_()) as client:
        (token,) = client.lrange(name, 0, -1)
        for _ in range(60):
            client.rpush(name, *[token] * 1000)
        plane.report(order)
        os.kill(worker, signal.SIGCONT)
        plane.until(State.AVAILABLE)
        wait_until(lambda: not client.exists(name), "the backlog to be gone")
    assert plane.control.worker_pid() == worker
    assert plane.certified_times() == 1


def test_a_host_that_was_not_upgraded_yet_is_heard(deployment: Deployment) -> None:
    plane = deployment
    plane.hello()
    plane.enrol()
    order = plane.order()
    token = plane.host.sign(codec.canonical(plane.answer(order)), REPORT_TYPE)
    with make_app(plane.redis.url_for(brokeracl.ADMIN)) as app:  # with the account that it had
        app.send_task("quarantine.report", args=[token], queue="quarantine")
    plane.until(State.AVAILABLE)


def test_redis_dies_with_what_it_held_and_comes_back(deployment: Deployment) -> None:
    plane = deployment
    plane.hello()
    plane.enrol()
    first = plane.order()
    plane.redis.kill()
    with pytest.raises(OSError, match="broker"):
        plane.report(first)
    plane.redis.start()
    # The order was lost as far as the service knows; it comes again, the very same.
    assert plane.order() == first
    plane.report(first)
    plane.until(State.AVAILABLE)
    assert plane.certified_times() == 1
    assert plane.record.attempts <= 1


def test_a_report_that_redis_lost_is_asked_for_again(deployment: Deployment) -> None:
    plane = deployment
    plane.hello()
    plane.enrol()
    order = plane.order()
    os.kill(plane.control.worker_pid(), signal.SIGSTOP)
    try:
        plane.report(order)
        plane.redis.kill()
    finally:
        os.kill(plane.control.worker_pid(), signal.SIGCONT)
    plane.redis.start()
    assert plane.order() == order
    plane.report(order)
    plane.until(State.AVAILABLE)


def test_a_killed_worker_is_replaced_and_the_message_counts_once(deployment: Deployment) -> None:
    plane = deployment
    plane.hello()
    plane.enrol()
    order = plane.order()
    old = plane.control.worker_pid()
    os.kill(old, signal.SIGSTOP)
    plane.report(order)
    os.kill(old, signal.SIGKILL)
    plane.until(State.AVAILABLE)
    assert plane.control.worker_pid() != old
    assert plane.certified_times() == 1


def test_a_killed_service_takes_its_worker_along_and_goes_on(deployment: Deployment) -> None:
    plane = deployment
    plane.hello()
    plane.enrol()
    order = plane.order()
    worker = plane.control.worker_pid()
    plane.control.stop(signal.SIGKILL)
    wait_until(lambda: not _alive(worker), "the orphaned worker to end")
    plane.report(order)
    plane.control.start()
    plane.until(State.AVAILABLE)
    assert plane.certified_times() == 1


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False
