"""The watcher beside a real kernel: functions that are removed and found again, and rebound."""

from __future__ import annotations

import json

import pytest

from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.process import wait_until

# Beside the gate in a real libvirt's host, so that the default run stays short.
pytestmark = pytest.mark.libvirt

A, B = "0000:01:00.0", "0000:02:00.0"
PATIENCE = 600.0
"""Seconds; only a broken watcher takes that long, also on a machine that others use."""

ENV = {"PYTHONPATH": "/opt/src:/opt/site"}

TICKETS = """
import sys
from pathlib import Path
from eraser.ownership import store as books
from eraser.ownership.model import Book, KeptTicket, SlotEntry
from eraser.agent.hoststate import keygen
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.ticket import Counters, Ticket, TicketState
state = Path("/var/lib/nvme-eraser")
card = keygen(state, "cmp1")
book = Book(card.incarnation)
drive = ControllerIdentity(1, 2, 3, 4, "S", "M", "nqn.x")
counts = Counters(1, 1, 1, True)
for address in sys.argv[1:]:
    ticket = Ticket("o" * 20, Slot("cmp1", address), drive, 1, card.incarnation, "c", counts, 0)
    kept = KeptTicket(ticket, TicketState.VALID, "", None, "")
    book = book.with_entry(SlotEntry(address, ticket=kept))
with books.opened(state) as opened:
    opened.write(book)
"""

LISTEN = """
import time
from pathlib import Path
from eraser.agent.bell import Listener
Listener(Path("/run/nvme-quarantine"), lambda address: print(address, flush=True))
open("/tmp/listening", "w").close()
time.sleep(3600)
"""


class Watched:
    """A host with two certified drives, its watcher, and an ear at the bell."""

    def __init__(self, compute: ComputeGuest) -> None:
        self.compute = compute
        compute.run(["python3", "-c", TICKETS, A, B], env=ENV)
        self.bell = compute.spawn(["python3", "-c", LISTEN], env=ENV)
        compute.wait_for("/tmp/listening")
        self.start()

    def start(self) -> None:
        self.watcher = self.compute.spawn(["nvme-eraser", "watcher"])
        wait_until(lambda: self.defence() == "present", "the watcher to run", PATIENCE, every=1)
        self.compute.wait_for("/var/lib/nvme-eraser/gate/watch.json")

    def defence(self) -> str:
        done = self.compute.run(["nvme-eraser", "gate", "status", "-f", "json"], check=False)
        found = {seen["defence"]: seen for seen in json.loads(done.stdout)["defences"]}
        return str(found["watcher"]["standing"])

    def ticket(self, address: str) -> tuple[str, str]:
        done = self.compute.run(["nvme-eraser", "gate", "show", "-f", "json"])
        entries = json.loads(done.stdout)["book"]["entries"]
        kept = next(entry["ticket"] for entry in entries if entry["address"] == address)
        return kept["state"], kept["reason"]

    def rung(self, address: str, times: int) -> None:
        """Waits for so many bells of a slot since the beginning."""
        wait_until(
            lambda: self.bell.stdout().split().count(address) >= times,
            f"{times} bells of {address}",
            PATIENCE,
            every=0.2,
        )

    def voided(self, address: str) -> str:
        wait_until(
            lambda: self.ticket(address)[0] == "void", "the ticket to be void", PATIENCE, every=1
        )
        return self.ticket(address)[1]


@pytest.fixture
def watched(rack: Rack) -> Watched:
    for slot in range(2):
        rack.drive(slot, preset="honest")
    return Watched(rack.compute())


def test_a_drive_that_leaves_its_slot_loses_its_ticket(watched: Watched) -> None:
    compute = watched.compute
    # What libvirt does with each guest is none of its business.
    compute.sh(f"echo {B} >/sys/bus/pci/drivers/nvme/unbind")
    watched.rung(B, 1)
    compute.sh(f"echo {B} >/sys/bus/pci/drivers/nvme/bind")
    watched.rung(B, 2)
    compute.wait_drive(B)

    compute.sh(f"echo 1 >/sys/bus/pci/devices/{A}/remove")
    watched.rung(A, 1)
    assert watched.voided(A).startswith("the drive vanished from its slot")
    compute.sh("echo 1 >/sys/bus/pci/rescan")
    watched.rung(A, 2)
    # udev has all those events to go through, each of them emulated.
    compute.run(["udevadm", "settle", "-t", "600"], timeout=660)
    compute.wait_drive(A)
    assert watched.ticket(B) == ("valid", "")

    # It goes and comes back while nobody watches.
    watched.watcher.signal()
    assert watched.watcher.wait() == 0
    # One that ended a moment ago may be starting again.
    assert watched.defence() == "unknown"
    compute.sh(f"echo 1 >/sys/bus/pci/devices/{B}/remove; echo 1 >/sys/bus/pci/rescan")
    compute.wait_drive(B)
    assert watched.ticket(B) == ("valid", "")
    watched.start()
    assert watched.voided(B) == "the drive vanished from its slot and came back"


def test_events_that_did_not_fit_cost_nothing(watched: Watched) -> None:
    """The watcher stands still while more happens than the kernel keeps for it."""
    compute = watched.compute
    watched.watcher.signal(19)  # SIGSTOP
    compute.sh(f"echo 1 >/sys/bus/pci/devices/{A}/remove; echo 1 >/sys/bus/pci/rescan")
    compute.sh(
        f"for n in $(seq 6000); do echo change >/sys/bus/pci/devices/{B}/uevent; done", timeout=120
    )
    watched.watcher.signal(18)  # SIGCONT
    assert watched.voided(A) == "the drive vanished from its slot and came back"
    # udev has all those events to go through, each of them emulated.
    compute.run(["udevadm", "settle", "-t", "600"], timeout=660)
    compute.wait_drive(A)
    assert watched.ticket(B) == ("valid", "")
    assert "more events than fit" in watched.watcher.stderr()
