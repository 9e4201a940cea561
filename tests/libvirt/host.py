"""What the tests with a real libvirtd share: one compute host, its libvirt, and who signs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Final

from eraser.protocol import codec
from eraser.protocol.ticket import Defence, DefenceStanding, DomainSeen, GateTestimony
from eraser.state.case_files import DEFAULT_RUN_DIR
from tests.lab.errors import LabError
from tests.lab.guest.commands import Completed
from tests.lab.libvirt.control import ControlStandIn
from tests.lab.libvirt.domains import Domain
from tests.lab.libvirt.flavour import LIBVIRT
from tests.lab.libvirt.libvirt import HOOKS, Libvirt
from tests.lab.nvme.faults import Faults
from tests.lab.rack import Rack
from tests.lab.rack.drive import RackDrive
from tests.lab.rack.guests import ComputeGuest
from tests.lab.services.broker import Broker
from tests.lab.services.process import wait_until

SIZE: Final = 64 << 20
"""Bytes of a drive: nothing is read for long."""
FAST: Final = Faults(sanitize_seconds=0.2)
SLOW: Final = Faults(sanitize_seconds=600)
"""Until a test has seen what it waited for."""
PATIENCE: Final = 600.0
SAMPLES: Final = Path(__file__).parents[2] / "docs" / "samples"
OUR_HOOK: Final = f"{HOOKS}/50-nvme-quarantine"


@dataclass
class Host:
    """A compute host with libvirtd, its drives on the nvme driver."""

    rack: Rack
    compute: ComputeGuest
    libvirt: Libvirt
    control: ControlStandIn

    @classmethod
    def make(cls, rack: Rack, drives: int) -> Host:
        """Start it, registered as a host, without the gate."""
        for slot in range(drives):
            rack.drive(slot, size=SIZE).set_faults(FAST)
        compute = rack.compute(flavour=LIBVIRT)
        broker = rack.hold(Broker(rack.directory / "redis", [compute.name]))
        control = rack.hold(closing(ControlStandIn(compute, broker)))
        return cls(rack, compute, Libvirt(compute), control)

    _turn: Iterator[int] = field(default_factory=count)

    def drive(self) -> RackDrive:
        """A drive that no test has used for a while: none is erased right after a start."""
        return self.drives[next(self._turn) % len(self.drives)]

    @property
    def drives(self) -> list[RackDrive]:
        """All drives, by slot."""
        return self.rack.drives

    # Domains

    def domain(self, name: str, *drives: RackDrive) -> Domain:
        """A domain that has drives, not defined yet: what names a drive keeps it from an erase."""
        return Domain(name, tuple(drive.address for drive in drives))

    def tenant(self, name: str, *drives: RackDrive) -> Domain:
        """A domain that runs on its drives; a person has let it in, which saves an erase."""
        domain = self.domain(name, *drives)
        for drive in drives:
            self.gate("allow", "--once", "--pci", drive.address, "--reason", "a tenant of a test")
        self.libvirt.started(domain)
        return domain

    def refused(self, domain: Domain) -> str:
        """Start a domain that a hook has to refuse; which file said what. Nova removes it then."""
        done = self.libvirt.start(domain)
        assert done.returncode != 0, f"{domain.name} started"
        assert self.libvirt.state(domain) == "shut off"
        self.libvirt.undefine(domain)
        libvirts, found, said = done.stderr.partition("unexpected exit status ")
        assert found, done.stderr
        file = libvirts.partition(f"{HOOKS}/")[2].partition(" ")[0]
        return f"{file}: {said.partition(' ')[2].strip()}"

    def bound(self, *drives: RackDrive) -> list[str | None]:
        """Which driver has each drive."""
        return [self.compute.driver(drive.address) for drive in drives]

    def mend(self) -> None:
        """No domains, and drives that do what they are told."""
        self.mend_drives()
        self.libvirt.clear()

    # Drives

    def used(self, drive: RackDrive) -> None:
        """Write to a drive, as whoever had it would have."""
        device = self.compute.block_device(drive.address)
        self.compute.sh(f"dd if=/dev/urandom of={device} bs=64k count=1 oflag=direct conv=fsync")

    def mend_drives(self) -> None:
        """Every sanitize ends at once."""
        for drive in self.drives:
            drive.set_faults(FAST)

    def slow(self, drive: RackDrive) -> None:
        """The drive's next sanitize lasts until ``mend_drives``."""
        drive.set_faults(SLOW)

    def wait_sanitizing(self, drive: RackDrive, after: int) -> None:
        """Until the drive has begun a sanitize after command ``after``."""
        wait_until(
            lambda: any(c.seq > after and c.succeeded for c in drive.commands("sanitize")),
            "a sanitize",
            PATIENCE,
            every=0.1,
        )

    # The gate

    def install_gate(self) -> None:
        """As the operator guide says; again, it mends what is wrong."""
        slots = [f"--pci={drive.address}" for drive in self.drives]
        self.compute.run(["nvme-eraser", "host-setup", *slots], timeout=PATIENCE)

    def start_watcher(self) -> None:
        """What tells of drives that vanish; libvirt's binding and unbinding must not look so."""
        self.compute.spawn(["nvme-eraser", "watcher"])
        self.compute.wait_for(str(DEFAULT_RUN_DIR / "watcher.lock"), PATIENCE)

    def patient_hook(self) -> None:
        """The installed hook gives the gate more time: an emulated host is
        some ten times slower than a real one, on a busy machine slower still. The file is not ours
        as it was made then, so this is for tests that do not ask for its state."""
        self.compute.sh(
            f"sed -i -E 's/^BUDGET = .*/BUDGET = {PATIENCE}/' {OUR_HOOK};"
            f"test $(grep -cE '^BUDGET = {PATIENCE}$' {OUR_HOOK}) = 1"
        )

    def gate(self, *words: str, check: bool = True) -> Completed:
        """Run ``nvme-eraser gate``."""
        return self.compute.run(["nvme-eraser", "gate", *words], check=check, timeout=PATIENCE)

    def testimony(self) -> GateTestimony:
        """What the next hello will say, asked at once."""
        shown = self.gate("status", "-f", "json", check=False).stdout
        return codec.load(GateTestimony, shown, "gate status")

    def standing(self, defence: Defence) -> DefenceStanding:
        """How one defence stands. A look that ran out of its time, as on a busy machine, is made
        again."""
        found = DefenceStanding.UNKNOWN

        def is_known() -> bool:
            nonlocal found
            (seen,) = [seen for seen in self.testimony().defences if seen.defence is defence]
            found = seen.standing
            return found is not DefenceStanding.UNKNOWN

        wait_until(is_known, f"a word on {defence}", PATIENCE)
        return found

    def seen(self, name: str) -> DomainSeen:
        """A domain that names drives, as the host tells of it."""
        (found,) = [seen for seen in self.testimony().domains if seen.name == name]
        return found

    def recorded(self, name: str) -> bool:
        """Whether the gate knows that the domain has its drives."""
        return self.seen(name).recorded

    @contextmanager
    def hook_file(self, name: str, text: str) -> Iterator[None]:
        """Somebody else's file beside our hook."""
        path = f"{HOOKS}/{name}"
        self.compute.put(path, text, mode=0o755)
        try:
            yield
        finally:
            self.compute.sh(f"rm {path}")

    @contextmanager
    def without_eraser(self) -> Iterator[None]:
        """What the hook loads is not there."""
        library = f"$(sed -n 's/^LIBRARY = \"\\(.*\\)\"$/\\1/p' {OUR_HOOK})"
        self.compute.sh(f"mount --bind /dev/null {library}/eraser/gate/door.py")
        try:
            yield
        finally:
            self.compute.sh(f"umount {library}/eraser/gate/door.py")

    def boot(self) -> None:
        """Start the host after a power cut, with what its units would start."""
        self.rack.power_on(self.compute)
        self.libvirt.restart(boot=True)
        self.control.worker = self.control.start_worker()

    def diagnostics(self) -> list[tuple[str, str]]:
        """What to read after a failure: title and text."""
        found = self.rack.diagnostics()
        if self.compute.is_on:
            try:
                found.append(("worker", self.control.worker.stderr()[-6000:]))
                found.append(("libvirtd", self.libvirt.log_tail()))
                found.append(("hook calls", "\n".join(map(str, self.libvirt.hook_calls()[-20:]))))
            except LabError as error:
                found.append(("libvirtd", f"cannot be asked: {error}"))
        return found
