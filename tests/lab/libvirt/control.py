"""A stand-in for the control plane: it signs orders and tickets for one host, and asks nobody.

It has no store, no Placement and no broker. What it signs, the host takes in as its worker would;
what the host answers with is returned to the test.
"""

import json
import secrets
from dataclasses import dataclass
from typing import Final

from eraser.casefiles import DEFAULT_RUN_DIR, DEFAULT_STATE_DIR, CaseFiles
from eraser.hostcard import HostCard
from eraser.wire import codec
from eraser.wire.identity import ControllerIdentity, Slot
from eraser.wire.order import ORDER_TYPE, EraseOrder
from eraser.wire.policy import Limits, Method, Policy, Verification
from eraser.wire.profile import Profile
from eraser.wire.report import EraseReport, Verdict
from eraser.wire.signing import PrivateKey, PublicKey, verify
from eraser.wire.ticket import RECEIPT_TYPE, TICKET_TYPE, Ticket, TicketReceipt
from quarantine import tickets
from tests.lab.errors import LabError
from tests.lab.guest.commands import GuestProcess
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest

_PROFILE: Final = "/var/lib/nvme-eraser/profile-{slot}.json"
_ERASE_S: Final = 240.0

# The worker's own hands: the order is accepted as the Celery task does, its runner started as the
# pump does.
_CASE: Final = f"""
import sys, time
from eraser.hoststate import HostState
from eraser.runners import DiskCases
state = HostState(Path({str(DEFAULT_STATE_DIR)!r}))
cases = DiskCases(Path({str(DEFAULT_STATE_DIR)!r}), Path({str(DEFAULT_RUN_DIR)!r}))
order = state.accept(sys.argv[1])
cases.start(order)
while cases.running(order):
    time.sleep(0.05)
"""

QUICK: Final = Policy(
    name="quick",
    purge_methods=(Method.SANITIZE_CRYPTO,),
    verification=Verification(residual=0.01, canaries=60),
    limits=Limits(stuck=10, poll=0.1, command=20, format=60, ready=60),
)
"""One method and little reading: these tests are about what comes after an erase."""


@dataclass(frozen=True)
class Certified:
    """A case that ended well, and the ticket for it."""

    order: EraseOrder
    report: EraseReport
    ticket: Ticket
    token: str
    """The ticket as the host gets it."""


class ControlStandIn:
    """Signs for one compute guest. Making one is ``keygen`` and ``host register``."""

    def __init__(self, compute: ComputeGuest) -> None:
        self.compute = compute
        self.key = PrivateKey.generate()
        made = compute.run(["nvme-eraser", "keygen", "--host", compute.name])
        self.card = codec.load(HostCard, made.stdout, "host card")
        self.host_key = PublicKey.from_jwk(self.card.key, "host card")
        compute.put(f"{DEFAULT_STATE_DIR}/controller.jwk", json.dumps(self.key.public.jwk()))
        self._generation: dict[str, int] = {}
        self._known: dict[str, tuple[ControllerIdentity, Profile]] = {}

    def order(self, drive: RackDrive) -> EraseOrder:
        """A new order for the slot that a drive is in."""
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

    def send(self, order: EraseOrder) -> GuestProcess:
        """The host accepts an order and works on it; returns what ends with the case."""
        token = self.key.sign(codec.canonical(order), ORDER_TYPE)
        return self.compute.spawn(["python3", "-c", _CASE, token])

    def report(self, order: EraseOrder) -> EraseReport | None:
        """The report of an order's case, nothing while it has not ended."""
        path = CaseFiles.of_order(DEFAULT_STATE_DIR, order.order_id).directory / "report.json"
        if self.compute.run(["test", "-e", str(path)], check=False).returncode != 0:
            return None
        return codec.load(EraseReport, self.compute.get(str(path)), "report.json")

    def erase(self, *drives: RackDrive) -> list[Certified]:
        """Erase drives, all at a time, and sign a ticket for each. Raises ``LabError``."""
        orders = [self.order(drive) for drive in drives]
        cases = [self.send(order) for order in orders]
        done = []
        for order, case in zip(orders, cases, strict=True):
            code = case.wait(_ERASE_S)
            report = self.report(order)
            if report is None or report.verdict is not Verdict.ERASED or not report.fit:
                said = report.reasons if report is not None else case.stderr()[-600:]
                raise LabError(f"expected {order.slot} to be erased ({code}): {said}")
            ticket = tickets.build(order, report, codec.digest(report))
            done.append(Certified(order, report, ticket, self.sign(ticket)))
        return done

    def sign(self, ticket: Ticket) -> str:
        """A ticket as the host gets it."""
        return self.key.sign(codec.canonical(ticket), TICKET_TYPE)

    def hand(self, token: str) -> TicketReceipt:
        """Hand a ticket to the host; its receipt, with the signature checked."""
        path = "/run/lab/ticket"
        self.compute.put(path, token)
        done = self.compute.run(["nvme-eraser", "gate", "ticket", path])
        payload = verify(done.stdout.strip(), self.host_key, RECEIPT_TYPE, "receipt")
        return codec.load(TicketReceipt, payload, "receipt")

    def _inspect(self, drive: RackDrive) -> tuple[ControllerIdentity, Profile]:
        path = _PROFILE.format(slot=drive.slot)
        argv = ["nvme-eraser", "inspect", "--pci", drive.address, "--save", path, "-f", "json"]
        seen = json.loads(self.compute.run(argv).stdout)
        identity = codec.decode(ControllerIdentity, seen["identity"], "identity")
        return identity, codec.load(Profile, self.compute.get(path), "profile")
