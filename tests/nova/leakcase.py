"""What the tests of leaks share: the two sides of each, and the words for what was seen."""

from __future__ import annotations

import importlib

import fixtures

from eraser.protocol.identity import Slot
from nova_patch import born_reserved
from nova_patch.start import EVERYWHERE
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from tests.lab.services.placement import write_clouds_yaml
from tests.lab.services.process import free_port
from tests.nova.cleaners import BellCleaner, PollingCleaner
from tests.nova.harness import NovaCase, Server
from tests.nova.leaks import Saw, record
from tests.nova.novaapi import NovaApi
from tests.nova.plane import LIMITS, Plane


class LeakCase(NovaCase):
    """Each test says what it saw with :meth:`saw`; its name says of which leak, and which side."""

    def before_nova(self) -> None:
        self._api_port = free_port()
        clouds = write_clouds_yaml(
            self.directory / "clouds.yaml",
            self.placement_server.url,
            f"http://127.0.0.1:{self._api_port}/v2.1",
        )
        self.useFixture(fixtures.EnvironmentVariable("OS_CLIENT_CONFIG_FILE", str(clouds)))
        self._placement = Plane.connect()
        self._patched = False

    def saw(self, what: Saw, expected: Saw) -> None:
        """Records what happened, then asserts that it is what we say of this side."""
        record(self._testMethodName, what)
        assert expected == what, [self.shelf.leaks, self.shelf.losses]

    # Our parts

    def patch_nova(self) -> None:
        """Puts the patch into nova-compute's classes; before a host is started."""
        everywhere = [importlib.import_module(f"nova_patch.{name}") for name in EVERYWHERE]
        for part in (born_reserved, *everywhere):
            for made in part.replacements():
                self.useFixture(fixtures.MockPatchObject(made.owner, made.name, made.value))
        self._patched = True

    def take_care(self, *slots: Slot, limits: ServiceLimits = LIMITS) -> None:
        """The control plane beside Nova: hosts registered, slots enrolled, erased, available."""
        self.useFixture(NovaApi(self._api_port))
        self.plane = Plane(self._placement, self.directory, limits)
        self.addCleanup(self.plane.close)
        for host in sorted({slot.host for slot in slots}):
            self.plane.add_host(host, self.shelf, self.domains, patched=self._patched)
        self.plane.enrol(*slots)
        self.plane.turn()
        for slot in slots:
            assert self.plane.state(slot) == State.AVAILABLE, self.plane.record(slot)

    def cared_for(self, host: str = "compute1", drives: int = 1) -> tuple[Slot, ...]:
        """A patched host with drives under our care, all available."""
        self.patch_nova()
        slots = self.add_host(host, drives)
        self.take_care(*slots)
        return slots

    def tenant(self, **where: object) -> Server:
        """A tenant's server that runs."""
        server = self.boot(**where)
        assert server.active, server.fault
        return server

    # Others' parts

    def polling_cleaner(self) -> PollingCleaner:
        """What many would run instead of us."""
        return PollingCleaner(self.placement_server.url, self.shelf)

    def bell_cleaner(self) -> BellCleaner:
        """What some would run instead of us."""
        return BellCleaner(self.shelf)

    # What happened

    def second_tenant(self, **where: object) -> Saw:
        """Another tenant boots: ``leaked``, ``refused``, or ``closed`` on a clean drive."""
        before = len(self.shelf.leaks)
        server = self.boot(**where)
        if len(self.shelf.leaks) > before:
            return Saw.LEAKED
        if not server.active:
            # For want of a drive, not because something else is broken.
            assert "No valid host" in server.fault
            return Saw.REFUSED
        assert len(server.slots) == 1
        return Saw.CLOSED

    def closes(self, slot: Slot) -> Saw:
        """Whether the slot's drive is refused while dirty, then erased and handed out clean."""
        assert self.shelf.dirty(slot), "expected a tenant's data on the drive"
        drive, erased = self.shelf.drives[slot], self.shelf.drives[slot].erased
        certificates = self.plane.certificates(slot)
        early = self.second_tenant()
        if early is not Saw.REFUSED:
            return early
        self.plane.turn()
        if self.plane.state(slot) is not State.AVAILABLE:
            return Saw.HELD
        assert drive.erased > erased
        assert certificates + 1 == self.plane.certificates(slot)
        return self.second_tenant()

    def held(self, slot: Slot, *words: str) -> Saw:
        """Whether the slot is held for a reason with those words, and given to nobody."""
        record_ = self.plane.record(slot)
        assert record_.state == State.HELD, record_
        for word in words:
            assert word in record_.reason
        got = self.second_tenant()
        return Saw.HELD if got is Saw.REFUSED else got
