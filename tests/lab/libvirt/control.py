"""A stand-in for the control plane of one host: it signs orders and tickets, and asks nobody.

It has no store and no Placement. What it signs goes through a real Redis to the real worker in the
compute guest, and what the host answers is read from the control plane's queue, where nobody takes
it away.
"""

import contextlib
import itertools
import json
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, TypeVar

from eraser.ownership.revocation import START_GRACE_SECONDS
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.policy import Limits, Method, Policy, Verification
from eraser.protocol.profile import Profile
from eraser.protocol.report import HELLO_TYPE, REPORT_TYPE, EraseReport, Hello, Outcome, Verdict
from eraser.protocol.ticket import RECEIPT_TYPE, TICKET_TYPE, Ticket, TicketReceipt
from eraser.protocol.transport.messaging import CONTROL, host_queue, make_app, queue_of
from eraser.protocol.transport.signing import PrivateKey, PublicKey, verify
from eraser.state.case_files import DEFAULT_STATE_DIR
from quarantine.rules.reports import ticket as ticket_rules
from quarantine.service.issue import brokeracl
from tests.lab.errors import LabError
from tests.lab.guest.commands import GuestProcess
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.broker import Broker
from tests.lab.services.process import wait_until
from tests.lab.site import HOST_LOOPBACK, WORKER_CONF

_PROFILE: Final = "/run/lab/profile.json"
_PATIENCE_S: Final = 600.0
_IN_USE_S: Final = START_GRACE_SECONDS + 20
_AGAIN_S: Final = 5.0
_HELLO_S: Final = 60
_CONF: Final = """\
[worker]
broker = {broker}
hello_interval = {hello}
"""
_Told = TypeVar("_Told")

QUICK: Final = Policy(
    name="quick",
    purge_methods=(Method.SANITIZE_CRYPTO,),
    verification=Verification(residual=0.01, canaries=60, visit=0),
    limits=Limits(stuck=10, poll=0.1, command=20, format=60, ready=60),
)
"""One method and little reading: these tests are about what comes after an erase."""


@dataclass(frozen=True)
class Certified:
    """A case that ended well, and the ticket for it."""

    order: EraseOrder
    report: EraseReport
    ticket: Ticket


class ControlStandIn:
    """Signs for one compute guest. Making one registers the host and starts its worker."""

    def __init__(self, compute: ComputeGuest, broker: Broker) -> None:
        self.compute = compute
        self.broker = broker
        self.key = PrivateKey.generate()
        argv = ["nvme-eraser", "keygen", "--host", compute.name]
        made = compute.run(argv, timeout=_PATIENCE_S)
        self.card = codec.load(HostCard, made.stdout, "host card")
        self.host_key = PublicKey.from_jwk(self.card.key, "host card")
        compute.put(f"{DEFAULT_STATE_DIR}/controller.jwk", json.dumps(self.key.public.jwk()))
        url = broker.url_for(compute.name).replace("127.0.0.1", HOST_LOOPBACK)
        compute.put(WORKER_CONF, _CONF.format(broker=url, hello=_HELLO_S))
        self.worker = self.start_worker()
        self._app = make_app(broker.url_for(brokeracl.CONTROL), CONTROL)
        self._generation: dict[str, int] = {}
        self._known: dict[str, tuple[ControllerIdentity, Profile]] = {}

    def start_worker(self) -> GuestProcess:
        """The host's worker, as its unit starts it."""
        return self.compute.spawn(["nvme-eraser", "worker", "--config-file", WORKER_CONF])

    def close(self) -> None:
        """Hang up."""
        self._app.close()

    # Cases

    def order(self, drive: RackDrive) -> EraseOrder:
        """A new order for the slot that a drive is in, and for the drive that is known there."""
        if drive.address not in self._known:
            self._known[drive.address] = self._inspect(drive)
        identity, profile = self._known[drive.address]
        generation = self._generation.get(drive.address, 0) + 1
        self._generation[drive.address] = generation
        return EraseOrder(
            order_id=secrets.token_hex(16),
            slot=Slot(self.compute.name, drive.address),
            identity=identity,
            profile=profile,
            policy=QUICK,
            generation=generation,
            nonce=secrets.token_hex(16),
            incarnation=self.card.incarnation,
            seconds_allowed=3600,
        )

    def send(self, order: EraseOrder) -> None:
        """Send an order to the host."""
        self._post("eraser.order", self.key.sign(codec.canonical(order), ORDER_TYPE))

    def report(self, order: EraseOrder, answer: int = 0) -> EraseReport:
        """Wait for an order's report; ``answer`` counts from 0, as an order may come again."""
        return self._wait(
            lambda: [r for r in self.reports() if r.order_id == order.order_id][answer:],
            f"a report of {order.slot}",
        )

    def reports(self) -> list[EraseReport]:
        """Every report of the host, oldest first."""
        return self._told(MessageKind.REPORT, REPORT_TYPE, EraseReport)

    def erase(self, *drives: RackDrive) -> list[Certified]:
        """Erase drives, and make the ticket for each. Raises ``LabError``."""
        orders = [self.order(drive) for drive in drives]
        for order in orders:
            self.send(order)
        return [self.certified(order) for order in orders]

    def certified(self, order: EraseOrder) -> Certified:
        """Wait for a case that has to end well; its ticket. Raises ``LabError``.

        "In use" is an answer for now, and the order comes again: the host leaves a drive alone for
        a minute after a guest was let in on it, since that guest may be about to start.
        """
        deadline = time.monotonic() + _IN_USE_S
        for answer in itertools.count():
            report = self.report(order, answer)
            if report.outcome is not Outcome.IN_USE or time.monotonic() > deadline:
                break
            time.sleep(_AGAIN_S)
            self.send(order)
        if report.verdict is not Verdict.ERASED or not report.fit:
            raise LabError(f"expected {order.slot} to be erased: {report.outcome} {report.reasons}")
        return Certified(order, report, ticket_rules.build(order, report, codec.digest(report)))

    # Tickets

    def hand(self, ticket: Ticket) -> TicketReceipt:
        """Hand a ticket to the host and wait for what it says of it."""
        before = len(self._receipts(ticket))
        self._post("eraser.ticket", self.key.sign(codec.canonical(ticket), TICKET_TYPE))
        return self._wait(lambda: self._receipts(ticket)[before:], f"a receipt of {ticket.slot}")

    def _receipts(self, ticket: Ticket) -> list[TicketReceipt]:
        every = self._told(MessageKind.RECEIPT, RECEIPT_TYPE, TicketReceipt)
        return [receipt for receipt in every if receipt.order_id == ticket.order_id]

    # What the host says of itself

    def hello(self) -> Hello:
        """What the host says of itself now: its worker starts again, and says hello at once."""
        before = max((hello.sequence for hello in self._hellos()), default=0)
        self.worker.kill()
        self.worker.wait()
        self.worker = self.start_worker()
        return self._wait(
            lambda: [hello for hello in self._hellos() if hello.sequence > before], "a hello"
        )

    def _hellos(self) -> list[Hello]:
        return self._told(MessageKind.HELLO, HELLO_TYPE, Hello)

    # The broker

    def _post(self, task: str, token: str) -> None:
        queue = queue_of(host_queue(self.compute.name))
        self._app.send_task(task, args=[token], queue=queue, retry=False)

    def _told(self, kind: MessageKind, typ: str, message: type[_Told]) -> list[_Told]:
        with contextlib.closing(self.broker.as_()) as client:
            entries = client.lrange(key(kind, self.compute.name), 0, -1)
        return [
            codec.load(message, verify(str(entry, "ascii"), self.host_key, typ, kind), kind)
            for entry in entries
            if isinstance(entry, bytes)
        ]

    def _wait(self, look: Callable[[], list[_Told]], what: str) -> _Told:
        wait_until(lambda: bool(look()), what, _PATIENCE_S, every=0.1)
        return look()[0]

    def _inspect(self, drive: RackDrive) -> tuple[ControllerIdentity, Profile]:
        argv = ["nvme-eraser", "inspect", "--pci", drive.address, "--save", _PROFILE, "-f", "json"]
        seen = json.loads(self.compute.run(argv, timeout=_PATIENCE_S).stdout)
        identity = codec.decode(ControllerIdentity, seen["identity"], "identity")
        return identity, codec.load(Profile, self.compute.get(_PROFILE), "profile")
