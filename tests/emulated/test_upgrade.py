"""A host's package is replaced while a case is in flight, a ticket is on offer and a guest starts.

The former releases are whole (``tests/lab/releases``): their own code erases, takes the ticket and
runs as the package goes away below it. What they wrote to libvirt's directory and to the state
directory stays, as it does on a host.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from pathlib import Path
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
from tests.emulated.erasing import SIZE, STATE
from tests.emulated.test_erase_resume import BLOCK, CRYPTO, FAST, SLOW
from tests.lab import releases
from tests.lab.guest.running import Completed
from tests.lab.rack import Rack
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest
from tests.unit.gate.world import domain
from tests.unit.ownership.parts import MINE, THEIRS

# Long, and about a host that is in service: with the tests of libvirt's hosts.
pytestmark = pytest.mark.libvirt

INSTALLED = "/usr/local/lib/installed"
"""Where the package lies in this test: the guest's own copy cannot be replaced."""
RUN = "/run/nvme-quarantine"
TRIES = 3
"""Starts of a guest, where the gate says that the drive does not answer."""
HOOK = "/etc/libvirt/hooks/qemu.d/nvme-quarantine"
POLICY: dict[str, Any] = {
    "name": "quick",
    "verification": {"residual": 0.001, "canaries": 700},
    "limits": {"stuck": 4, "poll": 0.1, "command": 10, "format": 60, "ready": 60},
}
"""In the words of all releases."""
UNVISITED = POLICY | {"verification": POLICY["verification"] | {"visit": 0}}
"""Without the next tenant's first acts, which take minutes here; 0ea6932 has no such word, so what
it began is ended with them."""


class Host:
    """One compute host with a package that can be replaced, and two drives."""

    def __init__(self, rack: Rack) -> None:
        self.rack = rack
        self.offered, self.flight = (rack.drive(number, size=SIZE) for number in range(2))
        self.compute = rack.compute()
        self.controller = PrivateKey.generate()
        key = PrivateKey.generate()
        self.card = HostCard("compute-1", "a" * 32, key.public.jwk())
        self.compute.sh(f"mkdir -p -m 700 {STATE}/orders {STATE}/cases; mkdir -p {RUN}")
        for name, content in (
            (KEY_FILE, key.pem()),
            (CARD_FILE, codec.canonical(self.card)),
            (CONTROLLER_FILE, codec.canonical(self.controller.public.jwk())),
        ):
            self.compute.put(f"{STATE}/{name}", content)
        for drive in (self.offered, self.flight):
            disk = self.compute.block_device(drive.address)
            self.compute.sh(f"dd if=/dev/urandom of={disk} bs=1M count=8 oflag=direct", timeout=120)
        self.known = {d: d.fingerprints() for d in (self.offered, self.flight)}

    def install(self, release: str) -> None:
        """As a package manager does with the release's files."""
        self.compute.put("/tmp/release.tar", releases.archive(release))
        self.compute.sh(f"mkdir -p {INSTALLED}; tar -xf /tmp/release.tar -C {INSTALLED}")

    def policy(self, policy: dict[str, Any]) -> None:
        """What erases by hand ask for from now on."""
        self.compute.put(f"{STATE}/policy.json", json.dumps(policy).encode())

    def hook(self, text: str) -> None:
        """What that release's ``host-setup`` wrote for libvirt."""
        for placeholder, value in (
            ("/PYTHON", "/usr/bin/python3"),
            ("/LIBRARY", INSTALLED),
            ("/STATE", STATE),
            ("/RUN", RUN),
        ):
            text = text.replace(f'"{placeholder}', f'"{value}')
        self.compute.put(HOOK, text, mode=0o755)

    def argv(self, *words: str) -> list[str]:
        """A command of the installed package."""
        path = f"PYTHONPATH={INSTALLED}:/opt/site"
        return ["env", path, "python3", "-m", "eraser.cli", *words, "--state-dir", STATE]

    def erase_argv(self, drive: RackDrive, *more: str) -> list[str]:
        """An erase by hand; ``more`` are words that not every release knows."""
        files = ["--profile", self.profile(drive), "--policy", f"{STATE}/policy.json"]
        return self.argv("erase", "--pci", drive.address, *files, "-f", "json", *more)

    @staticmethod
    def profile(drive: RackDrive) -> str:
        return f"{STATE}/profile-{drive.address}.json"

    def inspect(self, drive: RackDrive) -> None:
        """Its profile, as that release proposes it."""
        words = ("inspect", "--pci", drive.address, "--save", self.profile(drive))
        self.compute.run(["env", f"PYTHONPATH={INSTALLED}:/opt/site", "python3", "-m",
                          "eraser.cli", *words])  # fmt: skip

    def certify(self, done: Completed) -> Ticket:
        """Makes a stand-alone erase an ordered one, as far as the gate can tell."""
        said = json.loads(done.stdout)
        assert (said["verdict"], said["fit"]) == ("erased", True), said["reasons"]
        raw = json.loads(self.compute.get(said["report"]))
        report = codec.decode(EraseReport, raw, "report")
        identity, health, proof = report.identity, report.health, report.verification
        assert identity is not None
        assert health is not None
        assert proof is not None
        slot = Slot(self.card.host, self.offered.address)
        order = EraseOrder(
            order_id="order-0000-0000-0001",
            slot=slot,
            identity=identity,
            profile=codec.load(Profile, self.compute.get(self.profile(self.offered)), "profile"),
            policy=codec.load(Policy, codec.canonical(POLICY), "policy"),
            generation=1,
            nonce="n" * 32,
            incarnation=self.card.incarnation,
            seconds_allowed=3600,
        )
        report = dataclasses.replace(
            report, slot=slot, order_id=order.order_id, generation=1, incarnation=order.incarnation
        )
        files = CaseFiles.of_order(Path("/"), order.order_id)
        path = f"{STATE}/orders/{order_file(Path('/'), slot.address).name}"
        self.compute.put(path, codec.canonical(order))
        self.compute.sh(f"mkdir -p {STATE}/cases/{files.key}")
        self.compute.put(f"{STATE}/cases/{files.key}/report.json", codec.canonical(report))
        counters = Counters(
            health.host_write_commands, health.data_units_written, health.power_cycles, True
        )
        return Ticket(
            order.order_id, slot, identity, 1, order.incarnation, "c" * 64, counters,
            proof.canaries_planted,
        )  # fmt: skip

    def ticket(self, ticket: Ticket) -> str:
        """A ticket comes to the installed package; its state."""
        token = self.controller.sign(codec.canonical(ticket), TICKET_TYPE)
        self.compute.put("/tmp/ticket", token.encode())
        done = self.compute.run(self.argv("gate", "ticket", "-f", "json", "/tmp/ticket"),
                                check=False)  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return str(json.loads(done.stdout)["state"])

    def start(self, drive: RackDrive, uuid: str = MINE) -> Completed:
        """libvirt prepares a guest. Again, where the gate found no answer of the drive in its time:
        an emulated host on a busy machine may take longer, and the gate says to try again."""
        self.compute.put("/tmp/domain.xml", domain(drive.address, uuid=uuid))
        for left in reversed(range(TRIES)):
            done = self.compute.sh(
                "env -i LC_ALL=C PATH=/usr/sbin:/usr/bin:/sbin:/bin"
                f" {HOOK} instance-1 prepare begin - < /tmp/domain.xml",
                check=False,
                timeout=120,
            )
            if not left or "the drive does not answer" not in done.stderr:
                break
        return done

    def refused(self, drive: RackDrive, uuid: str = MINE) -> str:
        """libvirt hears no, and people why."""
        done = self.start(drive, uuid)
        assert done.returncode == 1, (done.returncode, done.stderr)
        assert "does not start" in done.stderr or "refused the start" in done.stderr
        return done.stderr

    def seen_running(self) -> int:
        """How often the journals say that log 81h showed a sanitize running."""
        counted = self.compute.sh(
            f"cat {STATE}/cases/*/journal.jsonl | grep -c SeenRunning || true"
        )
        return int(counted.stdout)

    def await_running(self, count: int) -> None:
        """Until they say so ``count`` times."""
        self.compute.sh(
            f"until [ $(cat {STATE}/cases/*/journal.jsonl | grep -c SeenRunning) -ge {count} ];"
            " do sleep 0.1; done",
            timeout=240,
        )

    def destructive(self, drive: RackDrive) -> list[int]:
        """SANACT of every sanitize that the drive accepted."""
        return [c.cdws[0] & 7 for c in drive.commands("sanitize") if c.succeeded]


def stages(compute: ComputeGuest) -> list[Callable[[], object]]:
    """The moments of a replacement: nothing there, half of it, everything but one room."""

    def copied(*rooms: str) -> Callable[[], object]:
        return lambda: compute.sh(
            f"mkdir -p {INSTALLED}/eraser; cd /opt/src/eraser;"
            f" cp -r {' '.join(rooms)} {INSTALLED}/eraser/"
        )

    return [
        lambda: compute.sh(f"rm -r {INSTALLED}/eraser"),
        copied("__init__.py", "errors.py", "gate"),
        copied("protocol", "state", "ownership", "host", "controller"),
    ]


@pytest.mark.parametrize(
    ("release", "runner"),
    [("0ea6932", "restarted"), ("before-rooms", "restarted"), ("before-rooms", "left alone")],
)
def test_a_host_is_upgraded_in_the_midst_of_its_work(rack: Rack, release: str, runner: str) -> None:
    host = Host(rack)
    host.install(release)
    host.hook(releases.hook(release))
    host.policy(POLICY if release == "0ea6932" else UNVISITED)
    for drive in (host.offered, host.flight):
        host.inspect(drive)
    more = () if release == "0ea6932" else ("--any-drive",)

    # One drive is certified and on offer, and nobody has it yet.
    done = host.compute.run(host.erase_argv(host.offered, *more), check=False, timeout=240)
    assert done.returncode == 0, done.stderr
    ticket = host.certify(done)
    host.compute.run(host.argv("gate", "adopt"))
    assert host.ticket(ticket) == "valid"
    # The other is being erased.
    host.flight.set_faults(SLOW)
    running = host.seen_running()
    case = host.compute.spawn(host.erase_argv(host.flight, *more))
    host.await_running(running + 1)

    for stage in stages(host.compute):
        stage()
        host.refused(host.flight)
    # The case's process lives through it, as long as it finds what it has not loaded yet; or the
    # worker's unit is restarted, and it dies.
    if runner == "restarted":
        case.signal(9)
        case.wait()
    host.flight.set_faults(FAST)
    ended = case.wait(240) if runner == "left alone" else -9
    host.compute.sh(f"rm -r {INSTALLED}/eraser; cp -r /opt/src/eraser {INSTALLED}/")

    host.refused(host.flight)
    assert host.start(host.offered).returncode == 0
    assert host.start(host.offered).returncode == 0, "its own guest starts again"
    host.refused(host.offered, THEIRS)

    if ended:
        # The same work, so the same case: with the policy in the words that it began with.
        argv = host.erase_argv(host.flight, "--any-drive")
        done = host.compute.run(argv, check=False, timeout=1200)
        said = json.loads(done.stdout)
        assert (done.returncode, said["verdict"], said["fit"]) == (0, "erased", True), said
    # Whoever ended the case, it is the same one.
    assert host.destructive(host.flight) == [CRYPTO, BLOCK]
    assert host.flight.count_leaked(host.known[host.flight]) == 0
