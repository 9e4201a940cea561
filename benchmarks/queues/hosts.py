"""What the hosts of a cloud say, signed and pushed as they would; a process of its own."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final

from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.inbound import MessageKind
from eraser.protocol.report import (
    HELLO_TYPE,
    PROGRESS_TYPE,
    REPORT_TYPE,
    Hello,
    Progress,
    SeenDrive,
    Step,
)
from eraser.protocol.transport.messaging import BrokerRedis, host_queue, make_app
from eraser.protocol.transport.signing import PrivateKey
from tests.unit.quarantine.testimony import IDENTITY, REPORT

INCARNATION: Final = "incarnation-00001"
DRIVES: Final = 2
HELLO_SECONDS: Final = 60.0
PROGRESS_SECONDS: Final = 15.0
REPORT_SECONDS: Final = 0.5


def slots(host: str) -> list[Slot]:
    return [Slot(host, f"0000:{0x81 + n:02x}:00.0") for n in range(DRIVES)]


def drive(slot: Slot) -> ControllerIdentity:
    return replace(IDENTITY, serial=f"{slot.host}-{slot.address[5:7]}")


@dataclass
class Site:
    """The hosts, and which of them erase a drive."""

    urls: dict[str, str]
    """The broker's for each host's account."""
    hosts: list[str]
    erasing: list[str]
    pems: dict[str, bytes]
    """Each host's key."""

    def key(self, host: str) -> PrivateKey:
        return PrivateKey.from_pem(self.pems[host], "key")

    def messages(self) -> Messages:
        """Their mouth."""
        return Messages(self)


@dataclass
class Messages:
    site: Site
    sequence: int = 0

    def __post_init__(self) -> None:
        self.keys = {host: self.site.key(host) for host in self.site.hosts}
        self.doors: dict[str, BrokerRedis] = {}

    def _door(self, host: str) -> BrokerRedis:
        if host not in self.doors:
            app = make_app(self.site.urls[host], host_queue(host))
            self.doors[host] = BrokerRedis(app)
        return self.doors[host]

    def _push(self, kind: MessageKind, host: str, message: object, typ: str) -> None:
        self._door(host).push(kind, host, self.keys[host].sign(codec.canonical(message), typ))

    def hello(self, host: str) -> None:
        drives = tuple(SeenDrive(slot.address, "nvme", drive(slot)) for slot in slots(host))
        self.sequence += 1
        number = time.time_ns() // 1000 + self.sequence
        self._push(
            MessageKind.HELLO, host, Hello(host, INCARNATION, number, "0", drives, ()), HELLO_TYPE
        )

    def bell(self, host: str) -> None:
        self._door(host).push(MessageKind.BELL, host, "")

    def progress(self, host: str) -> None:
        self.sequence += 1
        number = time.time_ns() // 1000 + self.sequence
        message = Progress(
            f"order-{host}", slots(host)[0], 1, INCARNATION, number, Step.ERASE, 0.5, ""
        )
        self._push(MessageKind.PROGRESS, host, message, PROGRESS_TYPE)

    def report(self, host: str) -> None:
        message = replace(
            REPORT,
            slot=slots(host)[1],
            incarnation=INCARNATION,
            nonce=uuid.uuid4().hex,
            finished_at=repr(time.time()),
        )
        self._push(MessageKind.REPORT, host, message, REPORT_TYPE)


def produce(site: Site, seconds: float) -> None:
    """Everything that the hosts say in that time, evenly."""
    say = site.messages()
    start = time.monotonic()
    rates: list[tuple[float, Callable[[str], None], list[str]]] = [
        (len(site.hosts) / HELLO_SECONDS, say.hello, site.hosts),
        (len(site.erasing) / PROGRESS_SECONDS, say.progress, site.erasing),
        (1 / REPORT_SECONDS, say.report, site.hosts),
        (1.0, say.bell, site.hosts[-1:]),
    ]
    done = [0] * len(rates)
    while (now := time.monotonic() - start) < seconds:
        for at, (rate, speak, hosts) in enumerate(rates):
            while done[at] < now * rate:
                speak(hosts[done[at] % len(hosts)])
                done[at] += 1
        time.sleep(0.02)
