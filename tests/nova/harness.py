"""Nova's own functional harness (libvirt fake, real api, conductor, scheduler and nova-compute)
on a real Placement: every request of Nova goes over HTTP to a process of its own.

It is the base of ``nova.tests.functional.libvirt.test_pci_in_placement`` with three changes: the
in-process Placement is replaced, the PCI devices are "drives" with one-time-use, and what guests
see is read from the fake libvirt's domains.
"""

from __future__ import annotations

import contextlib
import json
import time
import types
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from unittest import mock
from xml.etree import ElementTree

import fixtures
from nova import context, objects
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional import fixtures as nova_functional
from nova.tests.functional import integrated_helpers
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import test_pci_in_placement

from eraser.protocol.identity import Slot
from tests.lab.services.placement import PlacementServer
from tests.lab.services.placement_http import PlacementHttp
from tests.nova.placementhands import PlacementHands
from tests.nova.shelf import Drive, Shelf

RESOURCE_CLASS = "CUSTOM_NVME_I1"
ALIAS = "i1-nvme"
VENDOR, PRODUCT = fakelibvirt.PCI_VEND_ID, fakelibvirt.PCI_PROD_ID
SETTLED = ("ACTIVE", "ERROR")
PATIENCE = 30.0


@dataclass(frozen=True)
class Server:
    """A server after its boot: whether it runs, and the slots whose drives its guest has."""

    id: str
    active: bool
    fault: str
    slots: tuple[Slot, ...]


class RealPlacementFixture(nova_functional.PlacementFixture):
    """Nova's fixture with another process's Placement in place of the in-process one."""

    def __init__(self, url: str) -> None:
        super().__init__(db=False, use_intercept=False)
        self.endpoint = url

    def _configure_placement(self, conf_fixture: Any) -> None:
        # Nobody uses it; the option is required.
        conf_fixture.config(connection="sqlite://", group="placement_database")


class NovaCase(PlacementHands, test_pci_in_placement.PlacementPCIReportingTests):
    """One small cloud per test; ``placement_server`` and ``directory`` come from conftest.py."""

    WANTS_PLACEMENT = True
    CAST_AS_CALL = True
    microversion = "latest"

    placement_server: PlacementServer
    directory: Path

    # pytest deletes attributes that testtools has reset already.
    def __delattr__(self, name: str) -> None:
        with contextlib.suppress(AttributeError):
            super().__delattr__(name)

    def setUp(self) -> None:
        self.raw = PlacementHttp(self.placement_server.url)
        self.wipe_placement()
        self.before_nova()
        stand_in = types.SimpleNamespace(
            PlacementFixture=lambda: RealPlacementFixture(self.nova_placement_url)
        )
        with mock.patch.object(integrated_helpers, "func_fixtures", stand_in):
            super().setUp()
        self.flags(group="filter_scheduler", pci_in_placement=True)
        self.set_spec(self.spec())
        self.set_alias()
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        self.shelf = Shelf(self.guests_on)
        self.flavor = self.new_flavor()

    def before_nova(self) -> None:
        """What must be done before Nova's fixtures are up."""

    @property
    def nova_placement_url(self) -> str:
        """Where Nova finds Placement."""
        return self.placement_server.url

    # Configuration

    def spec(self, **changes: str | None) -> dict[str, str]:
        """One line of ``[pci]device_spec`` that matches every drive."""
        line: dict[str, str | None] = {
            "vendor_id": VENDOR,
            "product_id": PRODUCT,
            "resource_class": RESOURCE_CLASS,
            "one_time_use": "true",
        }
        return {k: v for k, v in (line | changes).items() if v is not None}

    def set_spec(self, *lines: dict[str, str]) -> None:
        """``[pci]device_spec`` as nova-compute reads it at its next start."""
        self.flags(group="pci", device_spec=[json.dumps(line) for line in lines])

    def set_alias(self, resource_class: str = RESOURCE_CLASS) -> None:
        """``[pci]alias`` of api, scheduler and compute."""
        alias = {"name": ALIAS, "resource_class": resource_class, "device_type": "type-PCI"}
        self.flags(group="pci", alias=[json.dumps(alias)])
        # Nova caches the parsed option.
        from nova.pci import request

        request.get_alias_from_config.cache_clear()

    def new_flavor(self, drives: int = 1) -> str:
        """A flavor with so many drives."""
        specs = {"pci_passthrough:alias": f"{ALIAS}:{drives}"} if drives else None
        return str(self._create_flavor(extra_spec=specs))

    # Hosts

    def add_host(self, host: str = "compute1", drives: int = 1) -> tuple[Slot, ...]:
        """A compute host with new drives; nova-compute starts and finds them."""
        self.start_compute(hostname=host, pci_info=_devices(drives))
        slots = tuple(Slot(host, f"0000:81:{number:02x}.0") for number in range(drives))
        for slot in slots:
            self.shelf.put(slot, Drive(f"{host}N{slot.address[8:10]}"))
        return slots

    def restart(self, host: str = "compute1", drives: int | None = None) -> None:
        """nova-compute starts again; ``drives``: the whole host did, and enumerated so many."""
        if drives is None:
            self.restart_compute_service(host)
        else:
            self.restart_compute_service(
                host, keep_hypervisor_state=False, pci_info=_devices(drives)
            )

    def service_down(self, host: str = "compute1") -> str:
        """nova-compute dies, and Nova knows it; its guests run on. Returns the service's id."""
        self.computes[host].stop()
        service = self.service_of(host)
        self.admin_api.put_service_force_down(service, True)
        return service

    def service_up(self, host: str = "compute1") -> None:
        """It is back, on the same hypervisor with the same guests."""
        self.restart(host)
        self.admin_api.put_service_force_down(self.service_of(host), False)

    def service_of(self, host: str) -> str:
        """The id of the host's nova-compute service."""
        found = self.admin_api.get_services(binary="nova-compute")
        return str(next(row["id"] for row in found if row["host"] == host))

    def periodic(self, host: str = "compute1") -> None:
        """``ComputeManager.update_available_resource`` of one host."""
        self.computes[host].manager.rt.update_available_resource(context.get_admin_context(), host)

    def refresh(self, host: str = "compute1") -> None:
        """A periodic after ``[compute]resource_provider_association_refresh``: nova-compute reads
        Placement anew and corrects what it finds."""
        self.computes[host].manager.rt.reportclient._association_refresh_time.clear()
        self.periodic(host)

    def reap_ghosts(self, host: str = "compute1") -> None:
        """``ComputeManager._cleanup_running_deleted_instances``, a periodic task."""
        manager = self.computes[host].manager
        manager._cleanup_running_deleted_instances(context.get_admin_context())

    def notifications(self) -> list[dict[str, Any]]:
        """Every versioned notification so far."""
        return list(self.notifier.versioned_notifications)

    # Servers

    def boot(self, *, flavor: str | None = None, **where: Any) -> Server:
        """Asks the API for a server and waits until it runs or failed; the guest runs at once."""
        body = self._build_server(flavor_id=flavor or self.flavor, networks="none", **where)
        server = self.admin_api.post_server({"server": body})
        found = self.wait_status(server["id"], *SETTLED)
        self.observe()
        fault = str(found.get("fault", {}).get("message", ""))
        slots = tuple(self.slots_of(server["id"]))
        return Server(server["id"], found["status"] == "ACTIVE", fault, slots)

    def wait_status(self, server: str, *statuses: str) -> dict[str, Any]:
        """The server when it is in one of the states."""
        end = time.monotonic() + PATIENCE
        while True:
            found: dict[str, Any] = self.admin_api.get_server(server)
            if found["status"] in statuses:
                return found
            assert time.monotonic() < end, f"expected {statuses}, found {found['status']}"
            time.sleep(0.05)

    def delete(self, server: Server) -> None:
        """The tenant deletes its server, and it is gone."""
        self.admin_api.delete_server(server.id)
        self.wait_gone(server.id)

    def wait_gone(self, server: str) -> None:
        """Until the API knows it no more."""
        end = time.monotonic() + PATIENCE
        while True:
            try:
                status = self.admin_api.get_server(server)["status"]
            except client.OpenStackApiNotFoundException:
                return
            assert time.monotonic() < end, f"expected no server {server}, found it {status}"
            time.sleep(0.05)

    def confirm(self, server: Server, source: str) -> None:
        """The tenant confirms a migration away from that host."""
        # All services of the harness share one CONF.host: the source ends its domain only where
        # that is its own.
        self.flags(host=source)
        self._confirm_resize({"id": server.id})

    def act(self, server: Server, action: str, body: Any = None, *then: str) -> None:
        """``POST /servers/{id}/action``, then wait for one of the states."""
        self.admin_api.post_server_action(server.id, {action: body})
        if then:
            self.wait_status(server.id, *then)
        self.observe()

    # What guests see

    def domains(self, host: str) -> list[tuple[str, bool, tuple[str, ...]]]:
        """Every domain that libvirt has on the host: server, running, PCI addresses in its XML."""
        connection = self.computes[host].driver._host.get_connection()
        return [
            (domain.UUIDString(), bool(domain.isActive()), _addresses(domain.XMLDesc(0)))
            for domain in list(connection._vms.values())
        ]

    def guests_on(self, slot: Slot) -> list[str]:
        """The servers with a domain on the slot's host."""
        if slot.host not in self.computes:
            return []
        return [server for server, _, _ in self.domains(slot.host)]

    def slots_of(self, server: str) -> list[Slot]:
        """The slots whose drives the server's guests have."""
        return [
            Slot(host, address)
            for host in self.computes
            for owner, _, addresses in self.domains(host)
            if owner == server
            for address in addresses
        ]

    def observe(self) -> None:
        """Every guest that runs reads and writes the drives that it has."""
        for host in list(self.computes):
            for server, running, addresses in self.domains(host):
                for address in addresses if running else ():
                    self.shelf.run(Slot(host, address), server)

    def devices(self, host: str) -> list[tuple[str, str, str | None]]:
        """Nova's own ``pci_devices`` rows: address, status, instance."""
        admin = context.get_admin_context()
        node = objects.ComputeNode.get_by_nodename(admin, host)
        found = objects.PciDeviceList.get_by_compute_node(admin, node.id)
        return [(row.address, row.status, row.instance_uuid) for row in found]

    def free_devices(self, host: str) -> list[str]:
        """The addresses that nova-compute's tracker calls free, in the order it takes them."""
        pools = self.computes[host].manager.rt.pci_tracker.stats.pools
        return [device.address for pool in pools for device in pool["devices"]]


def _devices(drives: int) -> fakelibvirt.HostPCIDevicesInfo:
    return fakelibvirt.HostPCIDevicesInfo(num_pci=drives, num_pfs=0, num_vfs=0)


def _addresses(xml: str) -> tuple[str, ...]:
    """The PCI addresses of a domain's hostdevs."""
    found = []
    for source in _tree(xml).findall("./devices/hostdev/source/address"):
        parts = [int(source.get(key, "0"), 16) for key in ("domain", "bus", "slot", "function")]
        found.append("{:04x}:{:02x}:{:02x}.{:x}".format(*parts))
    return tuple(found)


def _tree(xml: str) -> ElementTree.Element:
    return ElementTree.fromstring(xml)  # noqa: S314  (written by Nova and its fake libvirt)
