"""Leaks 1 to 4: Nova's only lock is ``reserved`` on a provider that is named after an address.

Whatever makes nova-compute create that provider (or its resource class) anew forgets the lock. In
the tests "with", the control plane has not seen the release yet when it happens, so that the new
provider is what born reserved (``nova_patch``) makes of it.
"""

from __future__ import annotations

from dataclasses import replace

from nova import context
from nova.objects import host_mapping

from eraser.protocol.identity import Slot
from eraser.protocol.ticket import Defence
from tests.nova.harness import Server
from tests.nova.leakcase import LeakCase
from tests.nova.leaks import Saw
from tests.nova.plane import LIMITS


class TestBirth(LeakCase):
    def _dirty(self, *, ours: bool) -> tuple[Slot, Server]:
        """A drive that a tenant had, released and burned; ours has not looked since."""
        if ours:
            (slot,) = self.cared_for()
        else:
            (slot,) = self.add_host()
        server = self.tenant()
        if ours:
            self.plane.turn()
        self.delete(server)
        assert self.stock(slot) == (1, 1, 0)
        return slot, server

    def _absent_and_back(self) -> None:
        self.restart(drives=0)
        self.restart(drives=1)

    def test_leak_01_host_reboot_drive_absent_without(self) -> None:
        slot, _ = self._dirty(ours=False)
        self._absent_and_back()
        assert self.stock(slot) == (1, 0, 0)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_01_host_reboot_drive_absent_with(self) -> None:
        slot, _ = self._dirty(ours=True)
        self._absent_and_back()
        assert self.stock(slot) == (1, 1, 0)
        self.saw(self.closes(slot), Saw.CLOSED)

    def test_custody_alone_keeps_the_provider(self) -> None:
        """Leak 1 again, after our look and without the patch, where nobody requires it."""
        (slot,) = self.add_host()
        self.take_care(slot, limits=replace(LIMITS, defences=frozenset({Defence.HOOK})))
        server = self.tenant()
        self.plane.turn()
        self.delete(server)
        self.plane.hosts[slot.host].down = True
        self.plane.turn()
        provider = self.provider(slot)
        self._absent_and_back()
        assert (provider, (1, 1, 1)) == (self.provider(slot), self.stock(slot))
        self.plane.hosts[slot.host].down = False
        assert self.closes(slot) == Saw.CLOSED

    def _retype(self) -> None:
        self.set_spec()
        self.restart()
        self.set_spec(self.spec())
        self.restart()

    def test_leak_02_device_spec_removed_and_readded_without(self) -> None:
        self._dirty(ours=False)
        self._retype()
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_02_device_spec_removed_and_readded_with(self) -> None:
        slot, _ = self._dirty(ours=True)
        self._retype()
        self.saw(self.closes(slot), Saw.CLOSED)

    def _rename(self) -> None:
        self.set_spec(self.spec(resource_class="CUSTOM_NVME_I2"))
        self.set_alias("CUSTOM_NVME_I2")
        self.restart()

    def test_leak_03_resource_class_renamed_without(self) -> None:
        self._dirty(ours=False)
        self._rename()
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_03_resource_class_renamed_with(self) -> None:
        slot, _ = self._dirty(ours=True)
        self._rename()
        self.saw(self.closes(slot), Saw.CLOSED)
        assert self.plane.record(slot).resource_class == "CUSTOM_NVME_I2"

    def _enrol_again(self, slot: Slot) -> None:
        service = self.service_down(slot.host)
        self.admin_api.api_delete(f"/os-services/{service}")
        connection = self.computes.pop(slot.host).manager.driver._get_connection()
        self.compute_rp_uuids.pop(slot.host)
        self.start_compute(hostname=slot.host, connection=connection)
        # nova-manage cell_v2 discover_hosts
        host_mapping.discover_hosts(context.get_admin_context())

    def test_leak_04_compute_service_deleted_without(self) -> None:
        slot, _ = self._dirty(ours=False)
        self._enrol_again(slot)
        self.saw(self.second_tenant(), Saw.LEAKED)

    def test_leak_04_compute_service_deleted_with(self) -> None:
        slot, _ = self._dirty(ours=True)
        self._enrol_again(slot)
        self.saw(self.closes(slot), Saw.CLOSED)
