"""A stand-in for Nova: the Placement calls that Nova >= 32 makes for one-time-use devices.

It is not Nova: no scheduler filters, no database, no guests. It sends the requests that Nova 34.0.0
sends, in their order and with their microversions (held against a recording of the real one by
``tests/services/test_nova_standin.py``), and each function here names the one of Nova that it
repeats (``report.py`` is ``nova/scheduler/client/report.py``, ``translator`` is
``nova/compute/pci_placement_translator.py``).
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import urlencode

from tests.lab.errors import LabError
from tests.lab.services.placement_http import Answer, PlacementHttp

RESOURCE_CLASS: Final = "CUSTOM_NVME_I1"
OTU_TRAIT: Final = "HW_PCI_ONE_TIME_USE"
_PCI_TRAITS: Final = ("COMPUTE_MANAGED_PCI_DEVICE", OTU_TRAIT, "OWNER_NOVA")
_HOST_TRAITS: Final = ("OWNER_NOVA",)
_VCPU, _MEMORY_MB = 4, 4096
_BURN_ATTEMPTS: Final = 4
"""``stop_max_attempt_number`` of ``ResourceTracker._update_to_placement``."""


class NoValidHostError(LabError):
    """No allocation candidate: Nova would say "No valid host was found"."""


class BootFailedError(LabError):
    """The claim or the burn was refused: the server goes to ERROR, its guest never starts."""


@dataclass(frozen=True)
class Server:
    """An instance and the drives that Placement gave it."""

    uuid: str
    host: str
    providers: tuple[str, ...]
    addresses: tuple[str, ...]


@dataclass(frozen=True)
class Migration:
    """A cold migration after the guest was moved and before somebody confirms or reverts it."""

    uuid: str
    source: Server
    target: Server


class NovaStandIn:
    """One cloud's worth of Nova on a Placement at ``url``."""

    def __init__(
        self,
        url: str,
        resource_class: str = RESOURCE_CLASS,
        new_uuid: Callable[[], str] = lambda: str(uuid.uuid4()),
    ) -> None:
        self.new_uuid = new_uuid
        self._http = PlacementHttp(url)
        self.resource_class = resource_class
        self.project = self.new_uuid()
        self.user = self.new_uuid()

    def start_compute(
        self,
        host: str,
        addresses: Iterable[str],
        *,
        born_reserved: bool = False,
        one_time_use: bool = True,
    ) -> None:
        """nova-compute starts and finds those PCI devices on the host.

        ``ResourceTracker._update_to_placement`` -> ``report.py update_from_provider_tree``: new
        providers are created with ``reserved`` left out (0), or at total where our patch for
        nova-compute is installed; providers of absent devices are deleted, which Placement refuses
        while they have allocations.
        """
        root = self._ensure_root(host)
        wanted = {f"{host}_{address.upper()}" for address in addresses}
        tree = {p["name"]: p["uuid"] for p in self._tree(root)}
        for name in sorted(tree.keys() - wanted - {host}):
            self._http("DELETE", f"/resource_providers/{tree[name]}", "1.0")
        for name in sorted(wanted):
            child = tree.get(name)
            if child is None:
                child = self._create(name, parent=root)
                reserved = {"reserved": 1} if born_reserved else {}
                self._put_inventories(child, {self.resource_class: self._inventory() | reserved})
            elif self.resource_class not in self._inventories(child):
                self._put_inventories(child, {self.resource_class: self._inventory()})
            traits = (
                _PCI_TRAITS if one_time_use else tuple(t for t in _PCI_TRAITS if t != OTU_TRAIT)
            )
            self._put_traits(child, traits)

    def provider(self, host: str, address: str) -> str | None:
        """The uuid of a device's provider (a look from outside, not a call of Nova)."""
        query = urlencode({"name": f"{host}_{address.upper()}"})
        found = self._get(f"/resource_providers?{query}", "1.39")["resource_providers"]
        return found[0]["uuid"] if found else None

    def boot(self, drives: int = 1, *, server: str | None = None) -> Server:
        """Schedule, claim, burn. Raises ``NoValidHostError`` or ``BootFailedError``."""
        booted = self.claim(drives, server=server)
        self.burn(booted)
        return booted

    def claim(
        self, drives: int = 1, *, server: str | None = None, host: str | None = None
    ) -> Server:
        """What the scheduler does, up to the claimed allocation.

        ``report.py get_allocation_candidates`` (microversion 1.36; one granular group per device,
        ``RequestSpec.generate_request_groups_from_pci_requests``) and ``claim_resources``.
        """
        name = server or self.new_uuid()
        return self._claim(self._candidates(drives), name, self._generation_of(name), host)

    def burn(self, server: Server) -> None:
        """``PciResourceProvider._handle_one_time_use``: ``reserved = total``, before any guest.

        At the end of ``instance_claim``, in ``report.py set_inventory_for_provider``; a conflict is
        retried with fresh data four times, then the server goes to ERROR and its allocation is
        deleted (``ComputeManager._do_build_and_run_instance``).
        """
        for provider in server.providers:
            if not self._burn_one(provider):
                self.delete(server)
                raise BootFailedError(f"expected to reserve {provider}, Placement refused")

    def delete(self, server: Server, *, reclaim: bool = False) -> None:
        """``ComputeManager._complete_deletion`` -> ``report.py delete_allocation_for_instance``.

        ``force=True``: a bare DELETE, which does not raise the provider's generation. With
        ``reclaim_instance_interval > 0`` (``reclaim``): GET and PUT of an empty allocation.
        The same DELETE is sent by a local delete (``compute/api.py _local_delete``), after a
        failed build and by shelve-offload.
        """
        self._drop(server.uuid, force=not reclaim)

    def local_delete(self, server: Server) -> None:
        """``compute/api.py API._local_delete_cleanup``: the host is down, its guest may run."""
        self._drop(server.uuid, force=True)

    def fail_spawn(self, drives: int = 1) -> Server:
        """A boot whose guest does not start: burned and let go (``_do_build_and_run_instance``)."""
        server = self.boot(drives)
        self._drop(server.uuid, force=True)
        return server

    def migrate(self, server: Server) -> Migration:
        """A cold migration up to the wait for confirmation.

        ``conductor/tasks/migrate.py replace_allocation_with_migration`` ->
        ``report.py move_allocations``, then the scheduler claims for the server on another host,
        and the target burns.
        """
        migration = self.new_uuid()
        self._move(server.uuid, migration)
        candidates = self._candidates(len(server.providers))
        target = self._claim(candidates, server.uuid, None, host=None, avoid=server.host)
        self.burn(target)
        return Migration(migration, replace(server, uuid=migration), target)

    def confirm(self, migration: Migration) -> Server:
        """``ComputeManager._delete_allocation_after_move``: the source is let go, by PUT."""
        self._drop(migration.uuid, force=False)
        return migration.target

    def revert(self, migration: Migration) -> Server:
        """``conductor/tasks/migrate.py revert_allocation_for_migration``: the target is let go."""
        self._move(migration.uuid, migration.target.uuid)
        return replace(migration.source, uuid=migration.target.uuid)

    def _ensure_root(self, host: str) -> str:
        query = urlencode({"name": host})
        found = self._get(f"/resource_providers?{query}", "1.14")["resource_providers"]
        if found:
            return str(found[0]["uuid"])
        root = self._create(host)
        self._put_inventories(
            root,
            {
                "VCPU": {"total": 64, "max_unit": 64},
                "MEMORY_MB": {"total": 262144, "max_unit": 262144},
            },
        )
        self._put_traits(root, _HOST_TRAITS)
        return root

    def _tree(self, root: str) -> list[dict[str, Any]]:
        """``report.py get_providers_in_tree``."""
        answer = self._get(f"/resource_providers?in_tree={root}", "1.14")
        return list(answer["resource_providers"])

    def _create(self, name: str, parent: str | None = None) -> str:
        """``report.py _create_resource_provider``."""
        body = {"uuid": self.new_uuid(), "name": name}
        if parent is not None:
            body["parent_provider_uuid"] = parent
        _expect(self._http("POST", "/resource_providers", "1.20", body), 200)
        return body["uuid"]

    def _put_inventories(self, provider: str, records: dict[str, dict[str, int]]) -> None:
        """``report.py set_inventory_for_provider`` after ``_ensure_resource_classes``."""
        for name in records:
            if name.startswith("CUSTOM_"):
                _expect(self._http("PUT", f"/resource_classes/{name}", "1.7"), 201, 204)
        _expect(self._try_inventories(provider, records), 200)

    def _try_inventories(self, provider: str, records: dict[str, dict[str, int]]) -> Answer:
        body = {
            "resource_provider_generation": self._generation(provider),
            "inventories": records,
        }
        return self._http("PUT", f"/resource_providers/{provider}/inventories", "1.26", body)

    def _put_traits(self, provider: str, traits: Sequence[str]) -> None:
        """``report.py set_traits_for_provider``; short-circuits when nothing differs."""
        current = self._get(f"/resource_providers/{provider}/traits", "1.6")
        if set(current["traits"]) == set(traits):
            return
        body = {
            "resource_provider_generation": current["resource_provider_generation"],
            "traits": sorted(traits),
        }
        _expect(self._http("PUT", f"/resource_providers/{provider}/traits", "1.6", body), 200)

    def _inventory(self) -> dict[str, int]:
        """``PciResourceProvider._get_inventories``: the other fields are Placement's defaults."""
        return {"total": 1, "max_unit": 1}

    def _candidates(self, drives: int) -> list[dict[str, Any]]:
        """``report.py get_allocation_candidates`` with ``ResourceRequest.to_querystring``."""
        request = self.new_uuid()
        query = [
            ("limit", "1000"),
            ("resources", f"MEMORY_MB:{_MEMORY_MB},VCPU:{_VCPU}"),
            ("root_required", "OWNER_NOVA,!COMPUTE_STATUS_DISABLED"),
        ]
        groups = [f"{request}-{number}" for number in range(drives)]
        query += [(f"resources{group}", f"{self.resource_class}:1") for group in groups]
        query += [(f"required{group}", "OWNER_NOVA") for group in groups]
        if drives > 1:
            query.append(("group_policy", "none"))
        answer = self._get(f"/allocation_candidates?{urlencode(sorted(query))}", "1.36")
        return list(answer["allocation_requests"])

    def _claim(
        self,
        candidates: list[dict[str, Any]],
        server: str,
        generation: int | None,
        host: str | None,
        avoid: str | None = None,
    ) -> Server:
        for candidate in candidates:
            claimed = self._as_server(server, candidate)
            if host not in (None, claimed.host) or claimed.host == avoid:
                continue
            body = candidate | {
                "project_id": self.project,
                "user_id": self.user,
                "consumer_generation": generation,
            }
            answer = self._http("PUT", f"/allocations/{server}", "1.36", body)
            if answer.status != 204:
                raise BootFailedError(f"expected the claim of {server} to hold: {answer.body}")
            return claimed
        raise NoValidHostError(f"no valid host was found for {server}")

    def _as_server(self, server: str, candidate: dict[str, Any]) -> Server:
        drives: list[tuple[str, str]] = []
        host = ""
        for provider, held in candidate["allocations"].items():
            name = str(self._get(f"/resource_providers/{provider}", "1.14")["name"])
            if self.resource_class in held["resources"]:
                drives.append((name.rpartition("_")[2].lower(), provider))
            else:
                host = name
        drives.sort()
        return Server(server, host, tuple(p for _, p in drives), tuple(a for a, _ in drives))

    def _burn_one(self, provider: str) -> bool:
        # As with every inventory of a custom class: ``report.py _ensure_resource_classes``.
        _expect(self._http("PUT", f"/resource_classes/{self.resource_class}", "1.7"), 201, 204)
        records = {self.resource_class: self._inventory() | {"reserved": 1}}
        return any(
            self._try_inventories(provider, records).status == 200 for _ in range(_BURN_ATTEMPTS)
        )

    def _drop(self, consumer: str, *, force: bool) -> None:
        path = f"/allocations/{consumer}"
        if force:
            _expect(self._http("DELETE", path, "1.0"), 204, 404)
            return
        current = self._get(path, "1.28")
        if current["allocations"]:
            _expect(self._http("PUT", path, "1.28", current | {"allocations": {}}), 204)

    def _move(self, source: str, target: str) -> None:
        """``report.py move_allocations``: one POST /allocations, the target's old ones go."""
        old = self._get(f"/allocations/{source}", "1.28")
        new = self._get(f"/allocations/{target}", "1.28")
        common = {"project_id": old["project_id"], "user_id": old["user_id"]}
        body = {
            source: common | {"allocations": {}, "consumer_generation": old["consumer_generation"]},
            target: common
            | {
                "allocations": old["allocations"],
                "consumer_generation": new.get("consumer_generation"),
            },
        }
        _expect(self._http("POST", "/allocations", "1.28", body), 204)

    def _generation_of(self, consumer: str) -> int | None:
        """``report.py claim_resources`` reads the consumer first."""
        found: int | None = self._get(f"/allocations/{consumer}", "1.28").get("consumer_generation")
        return found

    def _generation(self, provider: str) -> int:
        return int(self._get(f"/resource_providers/{provider}", "1.14")["generation"])

    def _inventories(self, provider: str) -> dict[str, Any]:
        found: dict[str, Any] = self._get(f"/resource_providers/{provider}/inventories", "1.26")
        return dict(found["inventories"])

    def _get(self, path: str, version: str) -> Any:
        return _expect(self._http("GET", path, version), 200).body


def _expect(answer: Answer, *statuses: int) -> Answer:
    if answer.status not in statuses:
        raise LabError(f"expected {statuses} from Placement, found {answer.status}: {answer.body}")
    return answer
