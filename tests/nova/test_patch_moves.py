"""A claim gets the drive that Placement allocated, whatever else is free to Nova.

Nova makes the requests of a move anew from the flavor (``ResourceTracker._move_claim``), and loses
what the scheduler chose. Here one drive of two is on offer, each once: a claim that takes whichever
comes first is wrong in one of the two tests.
"""

from __future__ import annotations

import contextlib
import json
import logging
from collections.abc import Callable
from typing import Any
from unittest import mock

import fixtures
import pytest
from nova import context, exception, objects
from nova.compute import manager, rpcapi
from nova.pci import request as pci_request
from nova.scheduler.client import report
from nova.tests.fixtures import libvirt as fakelibvirt
from nova.tests.functional.api import client
from nova.tests.functional.libvirt import base

from nova_patch.said import LOG
from tests.nova.patchcase import ALIAS, HOST, MICROVERSION, RELEASE, VENDOR, VF_PRODUCT, PatchCase

OTHER = "compute2"
FIRST, SECOND = "0000:81:00.0", "0000:81:01.0"
SERVER = "0b8f4f3c-2b1c-4a7e-9d43-6c7f6d1f5e21"
BACKPORT = RELEASE.mechanism == "one_time_use"


class MovesCase(PatchCase):
    """Two drives where the server goes; one is on offer, the other is reserved and free to Nova."""

    def setUp(self) -> None:
        super().setUp()
        self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.migrate_disk_and_power_off",
                return_value="{}",
            )
        )
        self.api = self.admin_api

    def _claimed(self, server: dict[str, Any], host: str) -> list[str]:
        """The addresses that nova-compute's tracker gave to the server there."""
        admin = context.get_admin_context()
        node = objects.ComputeNode.get_by_host_and_nodename(admin, host, host)
        devices = objects.PciDeviceList.get_by_compute_node(admin, node.id)
        return [dev.address for dev in devices if dev.instance_uuid == server["id"]]

    def _is_given(self, server: dict[str, Any], offered: str, host: str) -> None:
        left = {FIRST: SECOND, SECOND: FIRST}[offered]
        assert self._claimed(server, host) == [offered]
        assert self.drive(offered, host=host) == (1, 1, 1)
        assert self.drive(left, host=host) == (1, 1, 0)

    def _two_hosts(self, offered: str) -> dict[str, Any]:
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self.start()
        self.start(drives=2, host=OTHER)
        self.certify()
        server = self.boot()
        self.set_reserved(0, OTHER, offered)
        return server


class Moves(MovesCase):
    """Each claim of a move gets what was allocated to it."""

    def _resized_in_place(self, offered: str) -> None:
        self.flags(allow_resize_to_same_host=True)
        self.start(drives=2)
        self.set_reserved(0, address=offered)
        server = self._create_server(flavor_id=self._create_flavor(), networks=[])
        server = self._resize_server(server, self.flavor)
        self._is_given(server, offered, HOST)
        self._confirm_resize(server)
        self._run_periodics()
        self._is_given(server, offered, HOST)

    def test_resized_on_its_host_to_the_first(self) -> None:
        self._resized_in_place(FIRST)

    def test_resized_on_its_host_to_the_second(self) -> None:
        self._resized_in_place(SECOND)

    def test_a_drive_is_given_and_no_other_device(self) -> None:
        """The tracker does not know classes: our alias fits every device without functions."""
        self.flags(allow_resize_to_same_host=True)
        other = {"address": FIRST, "resource_class": "CUSTOM_GPU"}
        self.set_spec(other, self.spec())
        self.start(drives=2)
        self.set_reserved(0, address=SECOND)
        server = self._create_server(flavor_id=self._create_flavor(), networks=[])
        server = self._resize_server(server, self.flavor)
        assert self._claimed(server, HOST) == [SECOND]

    def test_a_drive_that_its_migration_holds_is_not_called_lost(self) -> None:
        """Both drives are the server's in Nova's database; in Placement one is its migration's."""
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self.flags(allow_resize_to_same_host=True)
        self.start(drives=2)
        self.set_reserved(0, address=FIRST)
        server = self.boot()
        self.set_reserved(0, address=SECOND)
        same = {"pci_passthrough:alias": f"{ALIAS}:1"}
        server = self._resize_server(server, self._create_flavor(extra_spec=same))
        assert sorted(self._claimed(server, HOST)) == [FIRST, SECOND]
        self._run_periodics()
        assert "was lost" not in self.stdlog.logger.output
        self._revert_resize(server)
        self._run_periodics()
        assert self._claimed(server, HOST) == [FIRST]
        assert "was lost" not in self.stdlog.logger.output

    def _migrated(self, offered: str) -> None:
        server = self._two_hosts(offered)
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        self._is_given(server, offered, OTHER)
        self._confirm_resize(server)
        self._run_periodics()
        self._is_given(server, offered, OTHER)

    def test_migrated_to_the_first(self) -> None:
        self._migrated(FIRST)

    def test_migrated_to_the_second(self) -> None:
        self._migrated(SECOND)

    def _evacuated(self, offered: str) -> None:
        server = self._two_hosts(offered)
        self.computes[HOST].stop()
        service = self.admin_api.get_services(binary="nova-compute", host=HOST)[0]
        self.admin_api.put_service_force_down(service["id"], True)
        self._evacuate_server(server, expected_host=OTHER)
        self._is_given(server, offered, OTHER)

    def test_evacuated_to_the_first(self) -> None:
        self._evacuated(FIRST)

    def test_evacuated_to_the_second(self) -> None:
        self._evacuated(SECOND)

    def test_several_at_once(self) -> None:
        self.flags(allow_resize_to_same_host=True)
        self.start(drives=4)
        third, fourth = "0000:81:02.0", "0000:81:03.0"
        for offered in (SECOND, fourth):
            self.set_reserved(0, address=offered)
        server = self._create_server(flavor_id=self._create_flavor(), networks=[])
        two = self._create_flavor(extra_spec={"pci_passthrough:alias": f"{ALIAS}:2"})
        server = self._resize_server(server, two)
        assert sorted(self._claimed(server, HOST)) == [SECOND, fourth]
        assert self.drive(third) == (1, 1, 0)

    def _unshelved(self, offered: str) -> None:
        """After a move: the new ids of the server's requests are in no mapping of the scheduler."""
        self.flags(allow_resize_to_same_host=True, shelved_offload_time=0)
        self.start(drives=2)
        self.set_reserved(0, address=FIRST)
        server = self._create_server(flavor_id=self._create_flavor(), networks=[])
        server = self._resize_server(server, self.flavor)
        server = self._confirm_resize(server)
        server = self._shelve_server(server, expected_state="SHELVED_OFFLOADED")
        self._run_periodics()
        self.set_reserved(0, address=offered)
        self._unshelve_server(server)
        self._is_given(server, offered, HOST)

    def test_unshelved_after_a_move_to_the_first(self) -> None:
        self._unshelved(FIRST)

    def test_unshelved_after_a_move_to_the_second(self) -> None:
        self._unshelved(SECOND)


class LeftBehind(MovesCase):
    """A migration failed and its row stays, in ``error``; the server is on another host."""

    def setUp(self) -> None:
        super().setUp()
        self.failed = self.useFixture(
            fixtures.MockPatch(
                "nova.virt.libvirt.driver.LibvirtDriver.finish_migration",
                side_effect=exception.NovaException("the guest does not start"),
            )
        )

    def _fails_to_migrate(self, server: dict[str, Any]) -> None:
        """Nova's harness gives the error to whoever asked."""
        with pytest.raises(client.OpenStackApiException):
            self.api.post_server_action(server["id"], {"migrate": None})
        self._wait_for_migration_status(server, ["error"])

    def _failed_on_the_new_host(self) -> dict[str, Any]:
        """Nova lets go of the former drive in Placement (``ComputeManager.finish_resize``)."""
        server = self._two_hosts(FIRST)
        self._fails_to_migrate(server)
        server = self._wait_for_state_change(server, "ERROR")
        assert server["OS-EXT-SRV-ATTR:host"] == OTHER
        self._run_periodics()
        return server

    def test_its_former_drive_is_free_once_it_was_let_go(self) -> None:
        server = self._failed_on_the_new_host()
        assert self.drive() == (1, 1, 0)
        assert self._claimed(server, HOST) == []
        assert f"{FIRST} was left behind by {server['id']}" in self.stdlog.logger.output
        self.certify()
        self.look_anew()
        assert self.drive() == (1, 0, 0), "a drive on offer was reserved, and nobody had it"
        self.boot()
        assert self.drive() == (1, 1, 1)

    def _found_no_host(self) -> dict[str, Any]:
        """A server whose migration failed for want of another host; then there is one."""
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self.start()
        self.certify()
        server = self.boot()
        self._fails_to_migrate(server)
        server = self._wait_for_state_change(server, "ACTIVE")
        self.start(drives=2, host=OTHER)
        self.set_reserved(0, OTHER, FIRST)
        return server

    def test_after_an_evacuation_too(self) -> None:
        """The migration found no host, so its row names the server's own alone."""
        server = self._found_no_host()
        self.computes[HOST].stop()
        service = self.admin_api.get_services(binary="nova-compute", host=HOST)[0]
        self.admin_api.put_service_force_down(service["id"], True)
        self._evacuate_server(server, expected_host=OTHER)
        self.restart()
        self.admin_api.put_service_force_down(service["id"], False)
        self._run_periodics()
        assert self.drive() == (1, 1, 0)
        self.certify()
        self.look_anew()
        assert self.drive() == (1, 0, 0)

    def _answering(self, answer: Callable[[dict[str, Any]], None]) -> Any:
        """While it lasts, each look's first answer about the drive is worked on by that: only the
        tracker's question, Nova asks for its whole tree later."""
        ask = report.SchedulerReportClient.get_allocations_for_resource_provider
        provider, asked = self.provider(), []

        def first(client: Any, admin: Any, uuid: str) -> Any:
            found = ask(client, admin, uuid)
            if uuid == provider:
                if not asked:
                    answer(found.allocations)
                asked.append(uuid)
            return found

        name = "get_allocations_for_resource_provider"
        return mock.patch.object(report.SchedulerReportClient, name, first)

    def test_a_drive_that_placement_calls_its_servers_is_kept(self) -> None:
        """A guest may run here though Nova's row says otherwise."""
        server = self._two_hosts(FIRST)
        self._fails_to_migrate(server)
        with self._answering(lambda found: found.update({server["id"]: {}})):
            self._run_periodics()
        assert self._claimed(server, HOST) == [FIRST]
        self._run_periodics()
        assert self._claimed(server, HOST) == []

    def test_a_drive_that_its_migration_holds_is_kept(self) -> None:
        """Nova forgot that allocation, or is about to give it back to the server."""
        server = self._two_hosts(FIRST)
        self._fails_to_migrate(server)
        admin = context.get_admin_context()
        failed = objects.MigrationList.get_by_filters(admin, {"instance_uuid": server["id"]})[0]
        with self._answering(lambda found: found.update({failed.uuid: {}})):
            self._run_periodics()
        assert self._claimed(server, HOST) == [FIRST]

    def test_a_drive_that_somebody_else_holds_is_let_go(self) -> None:
        """Whoever has it erased, or the server that was given it next."""
        server = self._two_hosts(FIRST)
        self._fails_to_migrate(server)
        with self._answering(lambda found: found.update({SERVER: {}})):
            self._run_periodics()
        assert self._claimed(server, HOST) == []

    def test_nothing_is_let_go_while_placement_does_not_answer(self) -> None:
        def fail(_found: Any) -> None:
            raise exception.ResourceProviderAllocationRetrievalFailed(
                rp_uuid=self.provider(), error="it is away"
            )

        server = self._two_hosts(FIRST)
        self._fails_to_migrate(server)
        with self._answering(fail):
            self._run_periodics()
        assert self._claimed(server, HOST) == [FIRST]
        self._run_periodics()
        assert self._claimed(server, HOST) == []

    def _reverted(self, server: dict[str, Any]) -> None:
        """A look of nova-compute comes while the server is between both hosts: its row names the
        one that it leaves, and the migration's is ``reverted`` already."""
        self.failed.mock.side_effect = None
        self._migrate_server(server)
        server = self._wait_for_state_change(server, "VERIFY_RESIZE")
        back = manager.ComputeManager._revert_instance_flavor_host_node

        def looked_at(*args: Any) -> None:
            self._run_periodics()
            back(*args)

        with mock.patch.object(
            manager.ComputeManager, "_revert_instance_flavor_host_node", looked_at
        ):
            self._revert_resize(server)
        assert self._claimed(server, HOST) == [FIRST]
        self._run_periodics()
        assert self._claimed(server, HOST) == [FIRST]
        assert self.drive() == (1, 1, 1)

    def test_a_server_that_comes_back_keeps_its_drive(self) -> None:
        """An older migration of it failed; the one that is reverted is in no list of Nova's."""
        self._reverted(self._found_no_host())

    def test_a_server_that_comes_back_keeps_its_drive_also_without(self) -> None:
        self._reverted(self._two_hosts(FIRST))

    def _fails_to_resize_in_place(self) -> dict[str, Any]:
        """Nova casts where its harness calls: the claim is not given up, the caller hears nothing.

        The server had the first drive, and was given the second one.
        """
        if BACKPORT:
            self.skipTest("placement < 14 refuses to move reserved devices")
        self.flags(allow_resize_to_same_host=True)
        self.start(drives=2)
        self.set_reserved(0, address=FIRST)
        server = self.boot()
        self.set_reserved(0, address=SECOND)
        finish = rpcapi.ComputeAPI.finish_resize

        def cast(*args: Any, **kwargs: Any) -> None:
            with contextlib.suppress(exception.NovaException):
                finish(*args, **kwargs)

        same = self._create_flavor(extra_spec={"pci_passthrough:alias": f"{ALIAS}:1"})
        with mock.patch.object(rpcapi.ComputeAPI, "finish_resize", cast):
            self.api.post_server_action(server["id"], {"resize": {"flavorRef": same}})
            return self._wait_for_state_change(server, "ERROR")

    def test_on_one_host_the_former_drive_is_let_go(self) -> None:
        server = self._fails_to_resize_in_place()
        assert sorted(self._claimed(server, HOST)) == [FIRST, SECOND]
        self._run_periodics()
        self._is_given(server, SECOND, HOST)
        self.set_reserved(0, address=FIRST)
        self.look_anew()
        assert self.drive(FIRST) == (1, 0, 0)
        self._reboot_server(server, hard=True)
        assert self._claimed(server, HOST) == [SECOND]

    def test_on_one_host_the_guests_drive_is_kept_whatever_was_lost(self) -> None:
        server = self._fails_to_resize_in_place()
        answer = self.placement.delete(f"/allocations/{server['id']}", version=MICROVERSION)
        assert answer.status == 204
        self._run_periodics()
        assert self._claimed(server, HOST) == [SECOND]

    def test_other_devices_stay_as_nova_has_them(self) -> None:
        if BACKPORT:
            self.skipTest("as in Nova")
        self.set_spec(self.spec(one_time_use=None))
        self.start()
        self.start(drives=2, host=OTHER)
        server = self.boot()
        self._fails_to_migrate(server)
        self._run_periodics()
        assert self._claimed(server, HOST) == [FIRST]


class Untold(PatchCase):
    """Claims that are told of no allocations: live migrations, and ports that are attached."""

    def _claim(self, request: Any) -> list[str]:
        requests = objects.InstancePCIRequests(requests=[request], instance_uuid=SERVER)
        tracker = self.computes[HOST].manager.rt
        taken = tracker.claim_pci_devices(context.get_admin_context(), requests, None)
        return [device.address for device in taken]

    def _of_the_flavor(self) -> Any:
        """As ``_move_claim`` leaves it to the server; a live migration claims it as it is."""
        flavor = objects.Flavor(extra_specs={"pci_passthrough:alias": f"{ALIAS}:1"})
        (request,) = pci_request.get_pci_requests_from_flavor(flavor).requests
        return request

    def test_a_request_that_names_no_provider_gets_no_drive(self) -> None:
        self.start(drives=2)
        told = self.useFixture(fixtures.FakeLogger(LOG.name, level=logging.DEBUG))
        with pytest.raises(exception.PciDeviceRequestFailed):
            self._claim(self._of_the_flavor())
        for address in (FIRST, SECOND):
            assert f"{address} is one-time-use and not allocated to this claim" in told.output
        refused = f"of a claim: {FIRST}, {SECOND} free here, but not allocated to it"
        assert refused in self.stdlog.logger.output

    def test_a_request_that_names_its_provider_gets_that_drive(self) -> None:
        self.start(drives=2)
        for address in (FIRST, SECOND):
            request = self._of_the_flavor()
            request.spec[0]["rp_uuids"] = self.provider(address)
            assert self._claim(request) == [address]

    def test_other_devices_are_claimed_as_ever(self) -> None:
        self.set_spec(self.spec(one_time_use="false"))
        self.start()
        assert self._claim(self._of_the_flavor()) == [FIRST]

    def test_a_port_gets_no_drive(self) -> None:
        """``direct-physical`` on a tunnelled network, as Nova asks for it: any physical function
        that has no network will do."""
        self.set_spec(self.spec(product_id=fakelibvirt.PF_PROD_ID))
        self.start_with_virtual_functions()
        assert self.drive() == (1, 1, 0)
        port = {"physical_network": None, "remote_managed": "False", "dev_type": "type-PF"}
        request = objects.InstancePCIRequest(count=1, spec=[port], request_id=SERVER)
        with pytest.raises(exception.PciDeviceRequestFailed):
            self._claim(request)

    def test_a_claim_that_failed_tells_the_next_one_nothing(self) -> None:
        self.start()
        server = objects.Instance(uuid=SERVER)
        told = {self.provider(): {"resources": {}}}
        with pytest.raises(exception.ComputeResourcesUnavailable):
            self.computes[HOST].manager.rt.instance_claim(None, server, "nowhere", told)
        with pytest.raises(exception.PciDeviceRequestFailed):
            self._claim(self._of_the_flavor())


class Ports(PatchCase):
    """Virtual functions: some are the network's, some are in Placement; none is one-time-use."""

    def setUp(self) -> None:
        super().setUp()
        self.neutron = self.useFixture(base.LibvirtNeutronFixture(self))
        tunnelled = {"provider:network_type": "vxlan", "provider:physical_network": None}
        self.neutron.network_4.update(tunnelled)

    def test_a_port_gets_what_nova_would_give_it(self) -> None:
        function = {"vendor_id": VENDOR, "product_id": VF_PRODUCT}
        # Nova takes pools with fewer tags first.
        tags = {"resource_class": "CUSTOM_GPU", "traits": "CUSTOM_A", "managed": "yes"}
        self.set_spec(
            {"address": "0000:81:00.*", **function, "physical_network": None},
            {"address": "0000:81:01.*", **function, **tags},
        )
        alias = {"name": "gpu", "resource_class": "CUSTOM_GPU", "device_type": "type-VF"}
        self.flags(group="pci", alias=[json.dumps(alias)])
        devices = fakelibvirt.HostPCIDevicesInfo(num_pci=0, num_pfs=2, num_vfs=8)
        self.start_compute(hostname=HOST, pci_info=devices)
        port = self.neutron.network_4_port_1
        self.neutron.create_port({"port": port})
        flavor = self._create_flavor(extra_spec={"pci_passthrough:alias": "gpu:1"})
        self._create_server(flavor_id=flavor, networks=[{"port": port["id"]}])
        admin = context.get_admin_context()
        node = objects.ComputeNode.get_by_nodename(admin, HOST)
        devices = objects.PciDeviceList.get_by_compute_node(admin, node.id)
        taken = sorted(dev.address[:10] for dev in devices if dev.instance_uuid)
        assert taken == ["0000:81:00", "0000:81:01"]
