"""The life of a one-time-use device on every release; on Nova 29 all of it is ours.

On the others these tests show that the patch leaves Nova's own one-time-use as it is.
"""

from __future__ import annotations

import fixtures
import pytest
from nova import exception

from tests.nova.patchcase import HOST, RELEASE, TRAIT, VENDOR, VF_PRODUCT, PatchCase

BACKPORT = RELEASE.mechanism == "one_time_use"


class Life(PatchCase):
    """Certified, used, burned, released again."""

    def test_used_once_then_refused_until_released(self) -> None:
        self.start()
        self.certify()
        server = self.boot()
        assert self.drive() == (1, 1, 1)
        self._delete_server(server)
        assert self.drive() == (1, 1, 0)
        self._run_periodics()
        self.restart()
        assert self.drive() == (1, 1, 0)
        self.boot_refused()
        self.set_reserved(0)
        self.boot()
        assert self.drive() == (1, 1, 1)

    def test_a_release_that_nova_has_not_seen_is_burned_all_the_same(self) -> None:
        # Nova caches what Placement says for five minutes: "reserved" of the first use.
        self.start()
        self.certify()
        self._delete_server(self.boot())
        self.set_reserved(0)
        self._delete_server(self.boot())
        assert self.drive() == (1, 1, 0)

    def test_a_failed_start_burns(self) -> None:
        self.start()
        self.certify()
        boom = exception.NovaException("boom")
        with self.failing("nova.virt.libvirt.driver.LibvirtDriver.spawn", boom):
            server = self._create_server(flavor_id=self.flavor, networks=[], expected_state="ERROR")
        assert self.drive() == (1, 1, 0)
        self._delete_server(server)
        self.boot_refused()

    def test_no_guest_starts_where_the_burn_fails(self) -> None:
        self.start()
        self.certify()
        failure = exception.ResourceProviderUpdateFailed(url="/", error="no Placement")
        put = "nova.scheduler.client.report.SchedulerReportClient.set_inventory_for_provider"
        spawn = self.useFixture(
            fixtures.MockPatch("nova.virt.libvirt.driver.LibvirtDriver.spawn")
        ).mock
        with self.failing(put, failure):
            self._create_server(flavor_id=self.flavor, networks=[], expected_state="ERROR")
        spawn.assert_not_called()

    def test_moves_burn_both_drives(self) -> None:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        for host in (HOST, "compute2"):
            self.start(host=host)
            self.certify(host)
        self.api = self.admin_api
        server = self.boot()
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        self._confirm_resize(server)
        drives = {self.drive(host=HOST), self.drive(host="compute2")}
        assert drives == {(1, 1, 0), (1, 1, 1)}

    def test_the_trait_goes_with_the_flag(self) -> None:
        self.start()
        self.certify()
        assert TRAIT in self.traits()
        self.set_spec(self.spec(one_time_use="no"))
        self.restart()
        assert TRAIT not in self.traits()
        assert self.drive() == (1, 0, 0)


class Settings(PatchCase):
    """What cannot be kept is refused at the start."""

    def test_without_report_in_placement(self) -> None:
        self.flags(group="pci", report_in_placement=False)
        with pytest.raises(exception.PciConfigInvalidSpec, match="report_in_placement"):
            self.start()

    def test_a_word_that_is_neither_true_nor_false(self) -> None:
        self.set_spec(self.spec(one_time_use="perhaps"))
        with pytest.raises(exception.PciConfigInvalidSpec, match="perhaps"):
            self.start()

    def test_words_for_true(self) -> None:
        self.set_spec(self.spec(one_time_use="Yes"))
        self.start()
        assert self.drive() == (1, 1, 0)

    def test_virtual_functions(self) -> None:
        line = {"vendor_id": VENDOR, "product_id": VF_PRODUCT, "one_time_use": "true"}
        self.set_spec(line)
        with pytest.raises(exception.PlacementPciException):
            self.start_with_virtual_functions()
