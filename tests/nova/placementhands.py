"""What a test or an operator asks of Placement and does to it, past Nova and past our own code."""

from __future__ import annotations

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import provider_name
from tests.lab.services.placement_http import PlacementHttp


class PlacementHands:
    """``raw`` speaks to the Placement that Nova uses."""

    raw: PlacementHttp

    def wipe_placement(self) -> None:
        """No provider and no allocation is left of another test."""
        found = self.raw("GET", "/resource_providers", "1.39").body["resource_providers"]
        for row in found:
            held = self.raw("GET", f"/resource_providers/{row['uuid']}/allocations", "1.39").body
            for consumer in held["allocations"]:
                self.raw("DELETE", f"/allocations/{consumer}", "1.39")
        for row in sorted(found, key=lambda row: row["parent_provider_uuid"] is None):
            assert self.raw("DELETE", f"/resource_providers/{row['uuid']}", "1.39").status == 204

    def provider(self, slot: Slot) -> str | None:
        """The uuid of the slot's resource provider."""
        path = f"/resource_providers?name={provider_name(slot)}"
        found = self.raw("GET", path, "1.39").body["resource_providers"]
        return found[0]["uuid"] if found else None

    def stock(self, slot: Slot) -> tuple[int, int, int] | None:
        """(total, reserved, consumers) of the slot; ``None`` without a provider."""
        provider = self.provider(slot)
        if provider is None:
            return None
        path = f"/resource_providers/{provider}"
        records = self.raw("GET", f"{path}/inventories", "1.39").body["inventories"].values()
        held = self.raw("GET", f"{path}/allocations", "1.39").body["allocations"]
        total = sum(record["total"] for record in records)
        return total, sum(record["reserved"] for record in records), len(held)

    def set_reserved(self, slot: Slot, reserved: int) -> None:
        """``openstack resource provider inventory set --amend`` by an operator's hand."""
        path = f"/resource_providers/{self.provider(slot)}/inventories"
        body = self.raw("GET", path, "1.39").body
        for record in body["inventories"].values():
            record["reserved"] = reserved
        assert self.raw("PUT", path, "1.39", body).status == 200

    def write_anew(self, slot: Slot, **record: int) -> None:
        """``openstack resource provider inventory set`` without ``--amend``: what is not given
        gets Placement's defaults, ``max_unit`` among them."""
        path = f"/resource_providers/{self.provider(slot)}/inventories"
        body = self.raw("GET", path, "1.39").body
        (resource_class,) = body["inventories"]
        body["inventories"] = {resource_class: record}
        assert self.raw("PUT", path, "1.39", body).status == 200

    def add_label(self, slot: Slot, label: str) -> None:
        """A second resource class on the provider, as a label for people."""
        assert self.raw("PUT", f"/resource_classes/{label}", "1.39").status in (201, 204)
        path = f"/resource_providers/{self.provider(slot)}/inventories"
        body = self.raw("GET", path, "1.39").body
        body["inventories"][label] = {"total": 1, "reserved": 1}
        assert self.raw("PUT", path, "1.39", body).status == 200

    def tidy_allocations(self, host: str) -> None:
        """An operator takes a host out of every server's allocations: ``openstack resource
        provider allocation unset --provider`` for each provider of its tree."""
        found = self.raw("GET", "/resource_providers", "1.39").body["resource_providers"]
        tree = {row["uuid"] for row in found if row["name"].partition("_")[0] == host}
        for provider in tree:
            held = self.raw("GET", f"/resource_providers/{provider}/allocations", "1.39").body
            for consumer in held["allocations"]:
                path = f"/allocations/{consumer}"
                body = self.raw("GET", path, "1.39").body
                body["consumer_type"] = "INSTANCE"
                kept = {u: a for u, a in body["allocations"].items() if u not in tree}
                assert self.raw("PUT", path, "1.39", body | {"allocations": kept}).status == 204
