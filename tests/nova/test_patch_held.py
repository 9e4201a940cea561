"""A drive that somebody holds in Placement goes missing: its host works on, on every release.

What the control plane does while a drive is erased is done here by hand: an allocation of its own
consumer, and ``reserved`` on top.
"""

from __future__ import annotations

import json

import pytest
from nova import exception
from nova.tests.fixtures import libvirt as fakelibvirt

from tests.nova.patchcase import (
    ALIAS,
    CLASS,
    MICROVERSION,
    PRODUCT,
    RELEASE,
    VENDOR,
    VF_PRODUCT,
    PatchCase,
)

BACKPORT = RELEASE.mechanism == "one_time_use"
CUSTODY = "b0a4f3c1-6f1e-4a39-8f52-0c6a6f7d3e10"
OTHER = "0000:81:01.0"
RENAMED = "CUSTOM_NVME_I2"


class Held(PatchCase):
    """nova-compute cannot delete the provider, and does everything else."""

    def _hold(self) -> None:
        body = {
            "allocations": {self.provider(): {"resources": {CLASS: 1}}},
            "project_id": "ours",
            "user_id": "ours",
            "consumer_generation": None,
            "consumer_type": "NVME_QUARANTINE",
        }
        answer = self.placement.put(f"/allocations/{CUSTODY}", body, version=MICROVERSION)
        assert answer.status == 204, answer.body

    def _let_go(self) -> None:
        answer = self.placement.delete(f"/allocations/{CUSTODY}", version=MICROVERSION)
        assert answer.status == 204, answer.body

    def _gone(self, *, one_time_use: str) -> None:
        self.set_spec(self.spec(one_time_use=one_time_use))
        self.start()
        self.set_reserved(0)
        self._hold()
        self.set_reserved(1)
        self.restart(drives=0)
        self._run_periodics()
        assert self.drive() == (1, 1, 1)

    def test_servers_come_and_go_beside_a_held_drive_that_is_absent(self) -> None:
        self._gone(one_time_use="true")
        plain = self._create_flavor()
        self._delete_server(self._create_server(flavor_id=plain, networks=[]))
        self.restart(drives=1)
        self._run_periodics()
        assert self.drive() == (1, 1, 1)
        self.boot_refused()

    def test_a_held_drive_that_is_absent_is_told_once(self) -> None:
        if BACKPORT:
            self.skipTest("Nova 29 logs Placement's refusal in each round")
        self._gone(one_time_use="true")
        for _ in range(3):
            self.look_anew()
        said = self.stdlog.logger.output
        assert "Failed to delete resource provider" not in said
        assert said.count("is absent and held in Placement: its provider stays") == 1

    def test_a_class_that_is_renamed_under_a_held_drive_waits(self) -> None:
        if BACKPORT:
            self.skipTest("Nova 29 refuses to start")
        self.start(drives=2)
        self.set_reserved(0)
        self._hold()
        self.set_reserved(1)
        self.set_spec(self.spec(resource_class=RENAMED))
        self.restart()
        self._run_periodics()
        assert self.drive() == (1, 1, 1)
        assert self.drive(OTHER, RENAMED) == (1, 1, 0)
        plain = self._create_flavor()
        self._delete_server(self._create_server(flavor_id=plain, networks=[]))
        self._let_go()
        self._run_periodics()
        assert self.drive(resource_class=RENAMED) == (1, 1, 0)

    def test_of_other_devices_a_renamed_class_stops_the_start(self) -> None:
        self.set_spec(self.spec(one_time_use="false"))
        self.start()
        self._hold()
        self.set_spec(self.spec(one_time_use="false", resource_class=RENAMED))
        with pytest.raises(exception.PlacementPciException):
            self.restart()

    def test_a_held_drive_that_gives_way_to_its_functions_stops_the_start(self) -> None:
        """Nova's own refusal stands: functions of a dirty drive, counted in the drive's class,
        would be on offer."""
        self.set_spec(self.spec(product_id=fakelibvirt.PF_PROD_ID))
        self.start_with_virtual_functions()
        self.set_reserved(0)
        self._hold()
        self.set_reserved(1)
        function = {"vendor_id": VENDOR, "product_id": VF_PRODUCT, "resource_class": RENAMED}
        self.set_spec(function)
        with pytest.raises(exception.PlacementPciException):
            self.restart()
        assert self.drive() == (1, 1, 1)

    def test_of_other_devices_nova_s_own_refusal_stands(self) -> None:
        self._gone(one_time_use="false")
        plain = self._create_flavor()
        self._create_server(flavor_id=plain, networks=[], expected_state="ERROR")


class Lost(PatchCase):
    """A server's allocation was deleted by hand, and healed without its drive."""

    def _lose(self, server: str) -> None:
        body = self.get(f"/allocations/{server}")
        assert self.provider() in body["allocations"]
        kept = {uuid: rest for uuid, rest in body["allocations"].items() if uuid != self.provider()}
        # A release that sends no type has "unknown", which Placement does not take back.
        changes = {"allocations": kept, "consumer_type": "INSTANCE"}
        answer = self.placement.put(
            f"/allocations/{server}", dict(body, **changes), version=MICROVERSION
        )
        assert answer.status == 204, answer.body

    def test_the_host_goes_on_and_the_drive_stays_reserved(self) -> None:
        self.start()
        self.certify()
        server = self.boot()
        self._lose(server["id"])
        assert self.drive() == (1, 1, 0)
        self.look_anew()
        plain = self._create_flavor()
        self._delete_server(self._create_server(flavor_id=plain, networks=[]))
        self.restart()
        assert self.drive() == (1, 1, 0)
        self.boot_refused()
        self._delete_server(server)
        self._run_periodics()
        assert self.drive() == (1, 1, 0)

    def test_of_other_devices_the_allocation_is_healed(self) -> None:
        self.set_spec(self.spec(one_time_use="false"))
        self.start()
        server = self.boot()
        self._lose(server["id"])
        self.look_anew()
        assert self.drive() == (1, 0, 1)


class BothAtOnce(PatchCase):
    """Reported in Placement and one-time-use with one restart, while a server has the drive."""

    def test_the_drive_is_reserved_without_its_servers_allocation(self) -> None:
        """So docs/nova-patch.md says it; without the patch nova-compute does not start."""
        self.flags(group="filter_scheduler", pci_in_placement=False)
        self.flags(group="pci", report_in_placement=False)
        self.set_spec(self.spec(one_time_use=None, resource_class=None))
        alias = {"name": ALIAS, "vendor_id": VENDOR, "product_id": PRODUCT}
        self.flags(group="pci", alias=[json.dumps(alias)])
        self.start()
        server = self.boot()
        assert self.drive() is None
        self.flags(group="pci", report_in_placement=True)
        self.set_spec(self.spec())
        self.restart()
        assert self.drive() == (1, 1, 0)
        self._run_periodics()
        assert f"is used by {server['id']}, whose allocation of it was lost" in (
            self.stdlog.logger.output
        )
