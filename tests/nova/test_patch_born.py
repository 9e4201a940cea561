"""Born reserved, on every supported release: whatever Placement forgot comes back reserved.

Each test of a birth fails without the patch (``NVME_QUARANTINE_WITHOUT_PATCH=1``); those of what
must stay as it is are there for the patch, and fail where it reserves too much.
"""

from __future__ import annotations

from nova import exception
from nova.scheduler.client import report

from tests.nova.patchcase import ADDRESS, CLASS, MICROVERSION, TRAIT, PatchCase

RENAMED = "CUSTOM_NVME_I2"


class Born(PatchCase):
    """What is new to Placement is reserved."""

    def test_first_start_reserves_every_drive(self) -> None:
        self.start(drives=3)
        for number in range(3):
            assert self.drive(f"0000:81:{number:02x}.0") == (1, 1, 0)
        assert TRAIT in self.traits()
        self.boot_refused()

    def test_host_reboots_without_the_drive_and_finds_it_later(self) -> None:
        self.start()
        self.certify()
        self._delete_server(self.boot())
        self.restart(drives=0)
        assert self.drive() is None
        self.restart(drives=1)
        assert self.drive() == (1, 1, 0)
        self.boot_refused()

    def test_certified_drive_vanishes_and_returns(self) -> None:
        self.start()
        self.certify()
        self.restart(drives=0)
        self.restart(drives=1)
        assert self.drive() == (1, 1, 0)

    def test_line_in_device_spec_is_lost_and_restored(self) -> None:
        self.start()
        self.certify()
        self.set_spec()
        self.restart()
        assert self.drive() is None
        self.set_spec(self.spec())
        self.restart()
        assert self.drive() == (1, 1, 0)

    def test_resource_class_is_renamed(self) -> None:
        self.start()
        self.certify()
        uuid = self.provider()
        self.set_spec(self.spec(resource_class=RENAMED))
        self.restart()
        assert self.provider() == uuid
        assert self.drive(resource_class=RENAMED) == (1, 1, 0)

    def test_compute_service_is_deleted_and_enrolled_again(self) -> None:
        self.start()
        self.certify()
        self._delete_server(self.boot())
        self.delete_service()
        self.enrol_again()
        assert self.drive() == (1, 1, 0)
        self.boot_refused()

    def test_device_becomes_one_time_use_later(self) -> None:
        self.set_spec(self.spec(one_time_use=None))
        self.start()
        self._delete_server(self.boot())
        assert self.drive() == (1, 0, 0)
        self.set_spec(self.spec())
        self.restart()
        assert self.drive() == (1, 1, 0)
        self.boot_refused()

    def test_a_drive_is_added_beside_certified_ones(self) -> None:
        self.start()
        self.certify()
        self.restart(drives=2)
        assert self.drive() == (1, 0, 0)
        assert self.drive("0000:81:01.0") == (1, 1, 0)

    def test_inventory_is_deleted_in_placement(self) -> None:
        self.start()
        self.certify()
        path = f"/resource_providers/{self.provider()}/inventories"
        assert self.placement.delete(path, version="1.39").status == 204
        self.restart()
        assert self.drive() == (1, 1, 0)

    def test_a_birth_that_is_cut_short_is_a_birth_next_time(self) -> None:
        # nova-compute dies, or Placement fails, between the provider and its inventory.
        failure = exception.ResourceProviderUpdateFailed(url="/", error="cut short")
        target = f"{report.__name__}.SchedulerReportClient.set_inventory_for_provider"
        with self.failing(target, failure):
            self.start()
        assert self.provider() is not None
        assert self.get(f"/resource_providers/{self.provider()}/usages")["usages"] == {}
        self.restart()
        assert self.drive() == (1, 1, 0)


class Rewritten(PatchCase):
    """Nova corrects a record in Placement by writing all of it anew, without ``reserved``."""

    def test_it_stays_reserved(self) -> None:
        self.start()
        self.change_inventory({CLASS: {"total": 1, "reserved": 1, "max_unit": 4}})
        self.look_anew()
        assert self.inventory()["max_unit"] == 1
        assert self.drive() == (1, 1, 0)
        assert self.stdlog.logger.output.count("stays reserved, although Nova corrects") == 1
        self.boot_refused()

    def test_it_stays_reserved_beside_another_class(self) -> None:
        label = "CUSTOM_RACK_7"
        self.placement.put(f"/resource_classes/{label}", None, version=MICROVERSION)
        self.start()
        self.change_inventory({CLASS: self.inventory(), label: {"total": 1}})
        self.restart()
        assert self.drive() == (1, 1, 0)

    def test_a_later_release_counts(self) -> None:
        self.start()
        self.change_inventory({CLASS: {"total": 1, "reserved": 1}})
        self.look_anew()
        self.certify()
        self.change_inventory({CLASS: {"total": 1, "reserved": 0}})
        self.look_anew()
        assert self.drive() == (1, 0, 0)
        self.boot()
        assert self.drive() == (1, 1, 1)

    def test_a_release_that_nova_has_not_seen_counts(self) -> None:
        # Nova's picture still says reserved; Placement's generation makes it look again.
        self.start()
        self.change_inventory({CLASS: {"total": 1, "reserved": 0}})
        self._run_periodics()
        self.look_anew()
        assert self.drive() == (1, 0, 0)


class Kept(PatchCase):
    """What Placement knows is not touched."""

    def test_a_certified_drive_stays_on_offer(self) -> None:
        self.start(drives=2)
        self.certify()
        for _ in range(2):
            self._run_periodics()
            self.restart()
        assert self.drive() == (1, 0, 0)
        assert self.drive("0000:81:01.0") == (1, 1, 0)
        self.boot()

    def test_a_drive_in_use_stays_as_it_is(self) -> None:
        self.start()
        self.certify()
        server = self.boot()
        generation = self.get(f"/resource_providers/{self.provider()}")["generation"]
        self._run_periodics()
        self.restart()
        self._run_periodics()
        assert self.drive() == (1, 1, 1)
        found = self.get(f"/resource_providers/{self.provider()}")["generation"]
        assert found == generation
        self._delete_server(server)
        assert self.drive() == (1, 1, 0)

    def test_devices_without_one_time_use_are_not_touched(self) -> None:
        self.set_spec(self.spec(one_time_use="false"))
        self.start()
        assert self.drive() == (1, 0, 0)
        assert TRAIT not in self.traits()
        self._delete_server(self.boot())
        self.restart()
        assert self.drive() == (1, 0, 0)
        self.boot()

    def test_a_mixed_host(self) -> None:
        second = "0000:81:01.0"
        self.set_spec(
            self.spec(address=ADDRESS),
            self.spec(address=second, one_time_use=None),
        )
        self.start(drives=2)
        assert self.drive() == (1, 1, 0)
        assert self.drive(second) == (1, 0, 0)

    def test_reservations_of_the_operator_stay(self) -> None:
        self.start()
        self.certify()
        self.set_reserved(1)
        self.restart()
        self._run_periodics()
        assert self.drive() == (1, 1, 0)
