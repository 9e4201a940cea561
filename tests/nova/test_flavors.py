"""Flavors on the real nova-api, and a server on a drive by what ``flavors`` made and printed."""

from __future__ import annotations

import fixtures
import pytest

from quarantine.cloud.compute import Compute
from quarantine.errors import BadInputError, ConflictError
from quarantine.operations.setup.flavors import SIZES, FlavorFate, FlavorSize, FlavorTerms, create
from tests.lab.services.placement import CLOUD, write_clouds_yaml
from tests.nova.harness import ALIAS, RESOURCE_CLASS, NovaCase

SMALL = (FlavorSize("i1-small", 1, 1, 64, 0), FlavorSize("i1-wide", 2, 1, 64, 0))


class TestFlavors(NovaCase):
    def setUp(self) -> None:
        super().setUp()
        clouds = write_clouds_yaml(
            self.directory / "clouds.yaml", self.placement_server.url, self.admin_api.base_url
        )
        self.useFixture(fixtures.EnvironmentVariable("OS_CLIENT_CONFIG_FILE", str(clouds)))
        self.door = Compute.connect(CLOUD, timeout=20.0)
        # The harness has a middleware of its own in keystone's place.
        self.door._connection.compute.additional_headers |= {
            "X-Auth-User": self.admin_api.auth_user,
            "X-Auth-Project-Id": self.admin_api.project_id,
            "X-Roles": ",".join(self.admin_api.roles),
        }

    def test_they_are_made_once_and_others_are_refused(self) -> None:
        assert set(create(self.door, FlavorTerms()).values()) == {FlavorFate.CREATED}
        assert set(create(self.door, FlavorTerms()).values()) == {FlavorFate.PRESENT}
        with pytest.raises(BadInputError, match="required"):
            create(self.door, FlavorTerms(numa_policy="required"))
        size = SIZES[0]
        with pytest.raises(ConflictError):
            self.door.create_flavor(size.name, vcpus=size.vcpus, ram=size.ram, disk=size.disk)
        found = {flavor.name: flavor for flavor in self.door.flavors()}
        assert found[size.name].extra_specs == FlavorTerms().specs(size)

    def test_a_server_gets_its_drives_by_them(self) -> None:
        self.add_host(drives=2)
        terms = FlavorTerms(alias=ALIAS, resource_class=RESOURCE_CLASS, sizes=SMALL)
        create(self.door, terms)
        ids = {flavor.name: flavor.id for flavor in self.door.flavors()}
        server = self.boot(flavor=ids["i1-wide"])
        assert server.active
        assert len(server.slots) == 2

    def test_nova_tells_its_newest_microversion(self) -> None:
        assert self.door.newest_microversion() == (2, 104)
