"""The last gate on a real kernel: what drives answer by ioctl, tickets, refusals, and in time."""

from __future__ import annotations

import dataclasses
import json
import re
import time
from typing import Any

import pytest

from eraser.agent.hoststate import CARD_FILE, CONTROLLER_FILE, KEY_FILE
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.identity import Slot
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport
from eraser.protocol.ticket import TICKET_TYPE, Counters, Ticket
from eraser.protocol.transport.signing import PrivateKey
from eraser.state.case_files import CaseFiles
from eraser.state.hostcard import order_file
from tests.emulated.erasing import PROFILE, QUICK, STATE, Bench, Erased, bench
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.rack import Rack
from tests.lab.rack.guests import ComputeGuest
from tests.unit.gate.world import domain
from tests.unit.ownership.parts import MINE, THEIRS

# With the tests of a real libvirt's host, so that the default run stays short.
pytestmark = pytest.mark.libvirt

REFUSED = 11
PATIENT = 30
"""Seconds for all drives: the guest and its drives share the machine with other tests."""
IDENTIFY, GET_LOG_PAGE = 0x06, 0x02

SAME_BYTES = """
import sys
from eraser.controller.adminioctl import AdminReader
from eraser.controller.nvme import open_controller
from eraser.host.sysfs import Host
with open_controller(Host(), sys.argv[1], timeout=20) as controller:
    reader = AdminReader(Host(), controller.descriptor, sys.argv[1], 5)
    assert reader.identify_raw() == controller.read(6, 4096, "identify", cdw10=1)
    assert reader.sanitize_log() == controller.sanitize_log()
    assert reader.smart_log()[:32] == controller.smart_log()[:32]
    assert reader.smart_log()[48:96] == controller.smart_log()[48:96]
"""


class Gate:
    """A host with keys, and what its gate says."""

    def __init__(self, compute: ComputeGuest) -> None:
        self.compute = compute
        self.controller = PrivateKey.generate()
        key = PrivateKey.generate()
        self.card = HostCard("compute-1", "a" * 32, key.public.jwk())
        compute.sh(f"mkdir -p -m 700 {STATE}/orders {STATE}/cases")
        for name, content in (
            (KEY_FILE, key.pem()),
            (CARD_FILE, codec.canonical(self.card)),
            (CONTROLLER_FILE, codec.canonical(self.controller.public.jwk())),
        ):
            compute.put(f"{STATE}/{name}", content)

    def start(self, *addresses: str, uuid: str = MINE, code: int = 0) -> str:
        """What libvirt's hook would hear."""
        self.compute.put("/tmp/domain.xml", domain(*addresses, uuid=uuid))
        done = self.compute.sh(
            f"nvme-eraser gate check --deadline {PATIENT} -- instance-1 < /tmp/domain.xml",
            check=False,
        )
        assert done.returncode == code, (done.returncode, done.stderr)
        return done.stderr

    def shown(self) -> dict[str, Any]:
        found = json.loads(self.compute.sh("nvme-eraser gate show -f json").stdout)
        assert isinstance(found, dict)
        return found

    def certify(self, made: Bench, erased: Erased) -> Ticket:
        """Makes a stand-alone erase an ordered one, as far as the gate can tell."""
        report = codec.decode(EraseReport, made.report(erased), "report")
        slot = Slot(self.card.host, report.slot.address)
        assert report.identity is not None
        order = EraseOrder(
            order_id="order-0000-0000-0001",
            slot=slot,
            identity=report.identity,
            profile=codec.load(Profile, made.compute.get(PROFILE), "profile"),
            policy=codec.load(Policy, codec.canonical(QUICK), "policy"),
            generation=1,
            nonce="n" * 32,
            incarnation=self.card.incarnation,
            seconds_allowed=3600,
        )
        report = dataclasses.replace(
            report, slot=slot, order_id=order.order_id, generation=1, incarnation=order.incarnation
        )
        files = CaseFiles.of_order(made.rack.directory, order.order_id)
        self.compute.put(
            f"{STATE}/orders/{order_file(made.rack.directory, slot.address).name}",
            codec.canonical(order),
        )
        self.compute.sh(f"mkdir -p {STATE}/cases/{files.key}")
        self.compute.put(f"{STATE}/cases/{files.key}/report.json", codec.canonical(report))
        health, proof = report.health, report.verification
        assert health is not None
        assert proof is not None
        counters = Counters(
            health.host_write_commands, health.data_units_written, health.power_cycles, True
        )
        return Ticket(
            order.order_id,
            slot,
            report.identity,
            1,
            order.incarnation,
            "c" * 64,
            counters,
            proof.canaries_planted,
        )

    def ticket(self, ticket: Ticket, code: int = 0) -> dict[str, Any]:
        """A ticket comes."""
        token = self.controller.sign(codec.canonical(ticket), TICKET_TYPE)
        self.compute.put("/tmp/ticket", token.encode())
        done = self.compute.sh("nvme-eraser gate ticket -f json /tmp/ticket", check=False)
        assert done.returncode == code, (done.returncode, done.stderr)
        found = json.loads(done.stdout)
        assert isinstance(found, dict)
        return found


def test_a_certified_drive_starts_once_and_a_used_one_never(rack: Rack) -> None:
    made = bench(rack)
    gate = Gate(made.compute)
    address = made.drive.address
    made.compute.run(["python3", "-c", SAME_BYTES, address], env={"PYTHONPATH": "/opt/src"})
    assert "gate adopt" in gate.start(address, code=REFUSED)
    erased = made.erase()
    assert (erased.verdict, erased.fit) == ("erased", True), erased.reasons
    ticket = gate.certify(made, erased)
    receipt = gate.ticket(ticket)
    assert (receipt["state"], receipt["counters"]["global_data_erased"]) == ("valid", True)
    gate.start(address)
    gate.start(address)
    assert "has it since" in gate.start(address, uuid=THEIRS, code=REFUSED)
    assert gate.ticket(ticket, code=REFUSED)["state"] == "used"
    # A suspended server: its domain exists and does not name the drive.
    made.compute.sh("mkdir -p /etc/libvirt/qemu")
    made.compute.put("/etc/libvirt/qemu/instance-1.xml", domain())
    sent = len(made.destructive())
    again = made.erase()
    assert (again.code, again.outcome) == (3, "in_use")
    assert "owned by domain" in again.reasons[0]
    assert len(made.destructive()) == sent
    gate.start(address)


def test_a_drive_that_was_written_to_after_its_certificate_is_refused(rack: Rack) -> None:
    made = bench(rack)
    gate = Gate(made.compute)
    address = made.drive.address
    ticket = gate.certify(made, made.erase())
    assert gate.ticket(ticket)["state"] == "valid"
    disk = made.compute.block_device(address)
    made.compute.sh(f"dd if=/dev/urandom of={disk} bs=4k count=1 oflag=direct")
    assert "used since it was certified" in gate.start(address, code=REFUSED)
    (entry,) = gate.shown()["book"]["entries"]
    assert entry["ticket"]["state"] == "void"
    made.compute.sh(
        f"nvme-eraser gate allow --once --pci {address} --domain {MINE} --reason 'three at night'"
    )
    assert "void" in gate.start(address, uuid=THEIRS, code=REFUSED)
    gate.start(address)
    assert len(gate.shown()["book"]["used_allowances"]) == 1


TIMED = """
import json, sys, time
from pathlib import Path
from eraser.host.sysfs import Host
from eraser.gate import admit
document = sys.stdin.buffer.read()
took = []
for _ in range(3):
    began = time.monotonic()
    admit.check(Path(sys.argv[1]), Path("/run/nvme-quarantine"), Host(), document, 30)
    took.append(time.monotonic() - began)
print(json.dumps(took))
"""


def test_eight_drives_in_time_and_a_mute_one_holds_up_nobody(rack: Rack) -> None:
    drives = [rack.drive(number, size=64 << 20) for number in range(8)]
    compute = rack.compute()
    gate = Gate(compute)
    addresses = [drive.address for drive in drives]
    compute.sh("mkdir -p /etc/libvirt/qemu")
    compute.put("/etc/libvirt/qemu/instance-1.xml", domain(*addresses))
    adopted = json.loads(compute.sh("nvme-eraser gate adopt -f json").stdout)
    assert [each["address"] for each in adopted["owners"]] == addresses
    gate.start(*addresses)
    compute.put("/tmp/timed.py", TIMED.encode())
    took = json.loads(
        compute.sh(f"PYTHONPATH=/opt/src python3 /tmp/timed.py {STATE} < /tmp/domain.xml").stdout
    )
    print(f"8 drives, without Python's start, in an emulated guest: {took}")
    sent = len(drives[0].commands())
    gate.start(*addresses)
    names = {command.name for command in drives[0].commands()[sent:]}
    assert names <= {"identify", "get_log_page"}, names

    drives[3].set_faults(Faults(admin_hang=[IDENTIFY, GET_LOG_PAGE]))
    began = time.monotonic()
    said = gate.start(*addresses, code=REFUSED)
    print(f"with a mute drive: {time.monotonic() - began:.1f} s")
    assert set(re.findall(r"0000:0\d:00\.0", said)) == {addresses[3]}, said
    drives[3].set_faults(HEALTHY)
