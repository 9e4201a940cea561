"""Base of the tests of the patch: Nova's functional harness with drives, on each release.

Placement is the harness's own, in process. The patch is put into the classes for one test, by the
mechanism that the table names for the installed release; how a real process gets it is
``test_patch_process.py``.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
from typing import Any
from unittest import mock

import fixtures
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.libvirt import test_pci_in_placement

import nova_patch.compat
from nova_patch.start import EVERYWHERE

CLASS = "CUSTOM_NVME_I1"
HOST = "compute1"
ALIAS = "i1-nvme"
ADDRESS = "0000:81:00.0"
VENDOR, PRODUCT = fakelibvirt.PCI_VEND_ID, fakelibvirt.PCI_PROD_ID
VF_PRODUCT = fakelibvirt.VF_PROD_ID
VERSION = nova_patch.compat.installed_version()
RELEASE = nova_patch.compat.release(VERSION)
TRAITS = {
    "born_reserved": "HW_PCI_ONE_TIME_USE",
    "one_time_use": "CUSTOM_HW_PCI_ONE_TIME_USE",
}
TRAIT = TRAITS[RELEASE.mechanism]
WITHOUT = bool(os.environ.get("NVME_QUARANTINE_WITHOUT_PATCH"))
"""Set to see that the tests see: without the patch each of them must fail."""

MICROVERSION = "1.39"


class PatchCase(test_pci_in_placement.PlacementPCIReportingTests):
    """One host; a drive is (total, reserved, used), or None where Placement has none."""

    microversion = "latest"

    # pytest deletes attributes that testtools has reset already.
    def __delattr__(self, name: str) -> None:
        with contextlib.suppress(AttributeError):
            super().__delattr__(name)

    def setUp(self) -> None:
        super().setUp()
        if not WITHOUT:
            for name in (RELEASE.mechanism, *EVERYWHERE):
                for made in importlib.import_module(f"nova_patch.{name}").replacements():
                    # The backport adds one attribute to a class.
                    self.useFixture(
                        fixtures.MockPatchObject(made.owner, made.name, made.value, create=True)
                    )
        self.flags(group="filter_scheduler", pci_in_placement=True)
        self.set_spec(self.spec())
        alias = {"name": ALIAS, "resource_class": CLASS, "device_type": "type-PCI"}
        self.flags(group="pci", alias=[json.dumps(alias)])
        self.flavor = self._create_flavor(extra_spec={"pci_passthrough:alias": f"{ALIAS}:1"})

    def spec(self, **changes: str | None) -> dict[str, str]:
        """One line of ``[pci]device_spec`` that matches every drive."""
        line: dict[str, str | None] = {
            "vendor_id": VENDOR,
            "product_id": PRODUCT,
            "resource_class": CLASS,
            "one_time_use": "true",
        }
        return {k: v for k, v in (line | changes).items() if v is not None}

    def set_spec(self, *lines: dict[str, str]) -> None:
        """``[pci]device_spec`` as nova-compute reads it at its next start."""
        self.flags(group="pci", device_spec=[json.dumps(line) for line in lines])

    def start(self, drives: int = 1, host: str = HOST) -> None:
        """nova-compute's first start on a host with so many drives."""
        self.start_compute(hostname=host, pci_info=_devices(drives))

    def start_with_virtual_functions(self) -> None:
        """As :meth:`start`, on a host with one physical function and one virtual one."""
        devices = fakelibvirt.HostPCIDevicesInfo(num_pci=0, num_pfs=1, num_vfs=1)
        self.start_compute(hostname=HOST, pci_info=devices)

    def restart(self, drives: int | None = None) -> None:
        """Another start; ``drives``: the whole host started, and enumerated so many."""
        if drives is None:
            self.restart_compute_service(HOST)
            return
        self.restart_compute_service(HOST, keep_hypervisor_state=False, pci_info=_devices(drives))

    # Placement

    def get(self, path: str) -> Any:
        """A read of Placement."""
        answer = self.placement.get(path, version=MICROVERSION)
        assert answer.status == 200, answer.body
        return answer.body

    def provider(self, address: str = ADDRESS, host: str = HOST) -> str | None:
        """The uuid of the drive's provider."""
        name = f"{host}_{address}"
        found = self.get(f"/resource_providers?name={name}")["resource_providers"]
        return found[0]["uuid"] if found else None

    def drive(
        self, address: str = ADDRESS, resource_class: str = CLASS, host: str = HOST
    ) -> tuple[int, int, int] | None:
        """(total, reserved, used) of a drive."""
        uuid = self.provider(address, host)
        if uuid is None:
            return None
        record = self.get(f"/resource_providers/{uuid}/inventories")["inventories"]
        assert list(record) == [resource_class]
        used = self.get(f"/resource_providers/{uuid}/usages")["usages"][resource_class]
        return record[resource_class]["total"], record[resource_class]["reserved"], used

    def traits(self) -> set[str]:
        """The drive's traits."""
        return set(self.get(f"/resource_providers/{self.provider()}/traits")["traits"])

    def set_reserved(self, reserved: int, host: str = HOST, address: str = ADDRESS) -> None:
        """What the control plane does with a certified drive (0), or an operator with any."""
        path = f"/resource_providers/{self.provider(address, host)}/inventories/{CLASS}"
        record = dict(self.get(path), reserved=reserved)
        answer = self.placement.put(path, record, version=MICROVERSION)
        assert answer.status == 200, answer.body

    def inventory(self) -> dict[str, Any]:
        """The drive's record."""
        path = f"/resource_providers/{self.provider()}/inventories/{CLASS}"
        record: dict[str, Any] = self.get(path)
        del record["resource_provider_generation"]
        return record

    def change_inventory(self, records: dict[str, Any]) -> None:
        """``inventory set`` without ``--amend``: what is not given gets Placement's defaults."""
        path = f"/resource_providers/{self.provider()}/inventories"
        body = dict(self.get(path), inventories=records)
        answer = self.placement.put(path, body, version=MICROVERSION)
        assert answer.status == 200, answer.body

    def look_anew(self) -> None:
        """A periodic after ``[compute]resource_provider_association_refresh``."""
        self.computes[HOST].manager.rt.reportclient._association_refresh_time.clear()
        self._run_periodics()

    def certify(self, host: str = HOST) -> None:
        """The drive was erased and is on offer."""
        self.set_reserved(0, host)
        assert self.drive(host=host) == (1, 0, 0)

    # Servers

    def boot(self) -> dict[str, Any]:
        """A server that runs, with the drive."""
        return self._create_server(flavor_id=self.flavor, networks=[])

    def boot_refused(self) -> None:
        """A server that finds no drive on offer."""
        server = self._create_server(flavor_id=self.flavor, networks=[], expected_state="ERROR")
        assert "No valid host" in server["fault"]["message"]
        self._delete_server(server)

    def delete_service(self) -> None:
        """The operator deletes the compute service; Nova deletes its providers with it."""
        self.computes[HOST].stop()
        service = self.admin_api.get_services(binary="nova-compute")[0]
        self.admin_api.put_service_force_down(service["id"], True)
        self.admin_api.api_delete(f"/os-services/{service['id']}")
        assert self.drive() is None

    def enrol_again(self) -> None:
        """The same host starts nova-compute again after its service was deleted."""
        del self.computes[HOST], self.compute_rp_uuids[HOST]
        self.start()

    def failing(self, target: str, error: Exception) -> Any:
        """While it lasts, that function of Nova raises."""
        return mock.patch(target, side_effect=error)


def _devices(drives: int) -> fakelibvirt.HostPCIDevicesInfo:
    return fakelibvirt.HostPCIDevicesInfo(num_pci=drives)
