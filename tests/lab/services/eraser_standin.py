"""A stand-in for the eraser of one compute host, on the real queue: it signs and erases nothing.

It is not the eraser: there are no drives, an erase is a pause, and every ticket is called valid. It
takes orders and tickets from the host's own queue with Celery, as a worker does, verifies them and
answers with a registered key, and passes the host's bells on. That the real one finds out the truth
is tested on the rack.

Usage: ``python -m tests.lab.services.eraser_standin DIRECTORY``, with ``standin.json`` in it.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

from celery import Celery

from eraser.agent import bell
from eraser.clock import utc_text
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.inbound import MessageKind
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import (
    HELLO_TYPE,
    PROGRESS_TYPE,
    REPORT_TYPE,
    AcceptedOrder,
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
    TicketSeen,
    TicketState,
)
from eraser.protocol.transport import messaging, signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from tests.lab.guest.payload import REPOSITORY
from tests.lab.services.process import ServiceProcess
from tests.unit.quarantine.testimony import IDENTITY, REPORT

HELLO_SECONDS: Final = 1.0
ERASE_SECONDS: Final = 0.3
_CONF: Final = "standin.json"
_READY: Final = "ready"


class EraserStandIn(ServiceProcess):
    """The process of one host. Register ``card`` and approve ``PROFILE`` before it starts.

    ``broker`` is the URL of the host's account, ``run_dir`` is where the host's bell hangs.
    """

    def __init__(
        self,
        directory: Path,
        host: str,
        addresses: list[str],
        broker: str,
        run_dir: Path,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        key = PrivateKey.generate()
        (directory / "key.pem").write_bytes(key.pem())
        incarnation = f"incarnation-{host}"
        conf = {
            "host": host,
            "addresses": addresses,
            "broker": broker,
            "incarnation": incarnation,
            "run_dir": str(run_dir),
        }
        (directory / _CONF).write_text(json.dumps(conf))
        self.card = directory / "host.json"
        card = {"host": host, "incarnation": incarnation, "key": key.public.jwk()}
        self.card.write_bytes(codec.canonical(card))
        super().__init__(
            f"eraser stand-in of {host}",
            [sys.executable, "-m", "tests.lab.services.eraser_standin", str(directory)],
            directory / "standin.log",
            lambda: _READY in self.log.read_text(errors="replace"),
            env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        )

    def trust(self, controller: str) -> None:
        """The control plane's public key, as ``nvme-quarantine key show`` prints it."""
        (self.directory / "controller.jwk").write_text(controller)


def identity(slot: Slot) -> ControllerIdentity:
    """The drive that never was: one for each slot."""
    return replace(IDENTITY, serial=f"{slot.host}-{slot.address[5:]}")


class _Host:
    def __init__(self, directory: Path) -> None:
        conf = json.loads((directory / _CONF).read_text())
        self.name, self.incarnation = conf["host"], conf["incarnation"]
        self.run_dir = Path(conf["run_dir"])
        self.slots = [Slot(self.name, address) for address in conf["addresses"]]
        self.key = PrivateKey.from_pem((directory / "key.pem").read_bytes(), "key")
        jwk = json.loads((directory / "controller.jwk").read_text())
        self.controller = PublicKey.from_jwk(jwk, "controller")
        self.app: Celery = messaging.make_app(conf["broker"], messaging.host_queue(self.name))
        self.door = messaging.BrokerRedis(self.app)
        self.accepted: dict[str, EraseOrder] = {}
        self.tickets: dict[str, TicketSeen] = {}

    def order(self, token: str) -> None:
        """Task: "erase" and report."""
        payload = signing.verify(token, self.controller, ORDER_TYPE, "order")
        order = codec.load(EraseOrder, payload, "order")
        self.accepted[order.slot.address] = order
        started = utc_text()
        self._send(MessageKind.PROGRESS, self._progress(order), PROGRESS_TYPE)
        time.sleep(ERASE_SECONDS)
        report = replace(
            REPORT,
            order_id=order.order_id,
            slot=order.slot,
            identity=order.identity,
            generation=order.generation,
            nonce=order.nonce,
            incarnation=order.incarnation,
            policy=order.policy.name,
            profile=order.profile.name,
            started_at=started,
            finished_at=utc_text(),
        )
        self._send(MessageKind.REPORT, report, REPORT_TYPE)

    def ticket(self, token: str) -> None:
        """Task: the gate would let a guest start on it."""
        payload = signing.verify(token, self.controller, TICKET_TYPE, "ticket")
        ticket = codec.load(Ticket, payload, "ticket")
        self.tickets[ticket.slot.address] = TicketSeen(
            ticket.slot.address, ticket.order_id, ticket.generation, TicketState.VALID, ""
        )
        receipt = TicketReceipt(
            order_id=ticket.order_id,
            slot=ticket.slot,
            generation=ticket.generation,
            incarnation=ticket.incarnation,
            state=TicketState.VALID,
            reason="",
            counters=ticket.counters,
        )
        self._send(MessageKind.RECEIPT, receipt, RECEIPT_TYPE)

    def greet(self) -> None:
        """Hellos for ever."""
        while True:
            try:
                self._send(MessageKind.HELLO, self._hello(), HELLO_TYPE)
            except Exception as error:
                print(f"no hello: {error}", flush=True)
            time.sleep(HELLO_SECONDS)

    def bell(self, address: str) -> None:
        """Somebody on this host rang for a slot."""
        self.door.push(MessageKind.BELL, self.name, address)

    def _hello(self) -> Hello:
        drives = tuple(SeenDrive(slot.address, "nvme", identity(slot)) for slot in self.slots)
        accepted = tuple(
            AcceptedOrder(address, order.order_id, order.generation)
            for address, order in sorted(self.accepted.items())
        )
        # There is no libvirt here, and no drive that anything on the host could look into.
        defences = tuple(
            DefenceSeen(defence, DefenceStanding.NOT_APPLICABLE, "a stand-in")
            for defence in Defence
        )
        # Grows over restarts, as the real one's does.
        sequence = time.time_ns() // 1_000_000
        gate = GateTestimony(defences, (), tuple(self.tickets.values()), ())
        return Hello(self.name, self.incarnation, sequence, "0", drives, (), accepted, gate)

    def _progress(self, order: EraseOrder) -> Progress:
        return Progress(
            order.order_id,
            order.slot,
            order.generation,
            order.incarnation,
            time.time_ns() // 1_000_000,
            Step.ERASE,
            0.5,
            "a stand-in",
        )

    def _send(self, kind: MessageKind, message: object, typ: str) -> None:
        self.door.push(kind, self.name, self.key.sign(codec.canonical(message), typ))


def main(directory: Path) -> None:
    """Serve until killed."""
    host = _Host(directory)
    host.app.task(name="eraser.order", autoretry_for=(OSError,), max_retries=None)(host.order)
    host.app.task(name="eraser.ticket", autoretry_for=(OSError,), max_retries=None)(host.ticket)
    threading.Thread(target=host.greet, daemon=True).start()
    bell.Listener(host.run_dir, host.bell)
    print(_READY, flush=True)
    queue: Any = messaging.host_queue(host.name)
    quiet = ["--without-gossip", "--without-mingle", "--without-heartbeat"]
    host.app.worker_main(["worker", "--pool=solo", *quiet, f"--queues={queue}", "--loglevel=INFO"])


if __name__ == "__main__":
    main(Path(sys.argv[1]))
