"""Placement as this project and Nova use it: one request after the other, in memory.

It answers the requests of :mod:`quarantine.cloud.placement` and of
:mod:`tests.lab.services.nova_standin`, with the statuses, generations and refusals of the real one:
``contract.py`` holds both against the same cases. What it leaves out is in docs/site.md.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import parse_qsl, unquote, urlsplit

from tests.lab.services.placement_http import Answer

_STANDARD_CLASSES: Final = frozenset({"VCPU", "MEMORY_MB", "DISK_GB", "PCI_DEVICE"})
_STANDARD_TRAITS: Final = frozenset(
    {"HW_PCI_ONE_TIME_USE", "COMPUTE_MANAGED_PCI_DEVICE", "OWNER_NOVA", "COMPUTE_STATUS_DISABLED"}
)
_DEFAULTS: Final = {
    "reserved": 0,
    "min_unit": 1,
    "max_unit": 2147483647,
    "step_size": 1,
    "allocation_ratio": 1.0,
}
_NOTHING: Final = Answer(204, {})
Inventories = dict[str, dict[str, Any]]


class Refused(Exception):
    """A request that changes nothing, with its status."""

    def __init__(self, status: int, detail: str) -> None:
        super().__init__(detail)
        self.answer = Answer(status, {"errors": [{"status": status, "detail": detail}]})


@dataclass
class Provider:
    """A resource provider."""

    uuid: str
    name: str
    parent: str | None
    generation: int = 0
    inventories: Inventories = field(default_factory=dict)
    traits: set[str] = field(default_factory=set)


@dataclass
class Consumer:
    """Whoever holds something."""

    project: str
    user: str
    type: str
    generation: int = 0
    allocations: dict[str, dict[str, int]] = field(default_factory=dict)


class Placement:
    """Call it with a request. ``changed`` is told of each provider that a request changed."""

    def __init__(self) -> None:
        self.providers: dict[str, Provider] = {}
        self.consumers: dict[str, Consumer] = {}
        self.classes = set(_STANDARD_CLASSES)
        self.changed: Callable[[str], None] = lambda uuid: None
        self._touched: set[str] = set()
        self._empty: set[str] = set()
        """Consumers that were made by a write without allocations: their generation is 0."""

    def __call__(self, method: str, path: str, version: str, body: Any = None) -> Answer:
        """One request, whole or not at all."""
        parts = urlsplit(path)
        words = [unquote(word) for word in parts.path.strip("/").split("/")]
        query = parse_qsl(parts.query)
        handler = getattr(self, f"_{method.lower()}_{words[0]}", None)
        if handler is None:
            raise NotImplementedError(f"{method} {path}: the simulated Placement does not know it")
        try:
            answer: Answer = handler(words[1:], query, body)
        except Refused as refused:
            self._touched.clear()
            return refused.answer
        touched, self._touched = self._touched, set()
        for uuid in sorted(touched):
            self.changed(uuid)
        return answer

    # What a truth-knowing observer asks.

    def named(self, name: str) -> Provider | None:
        """By name."""
        return next((p for p in self.providers.values() if p.name == name), None)

    def held(self, provider: str) -> dict[str, Consumer]:
        """Consumers of a provider."""
        return {n: c for n, c in self.consumers.items() if provider in c.allocations}

    # Reads.

    def _get_traits(self, words: list[str], query: Any, body: Any) -> Answer:
        names = dict(query)["name"].removeprefix("in:").split(",")
        known = _STANDARD_TRAITS | {t for p in self.providers.values() for t in p.traits}
        return Answer(200, {"traits": sorted(known.intersection(names))})

    def _get_resource_classes(self, words: list[str], query: Any, body: Any) -> Answer:
        if not words:
            return Answer(200, {"resource_classes": [{"name": n} for n in sorted(self.classes)]})
        if words[0] not in self.classes:
            raise Refused(404, f"No such resource class {words[0]}.")
        return Answer(200, {"name": words[0]})

    def _put_resource_classes(self, words: list[str], query: Any, body: Any) -> Answer:
        status = 204 if words[0] in self.classes else 201
        self.classes.add(words[0])
        return Answer(status, {})

    def _get_resource_providers(self, words: list[str], query: Any, body: Any) -> Answer:
        if not words:
            return Answer(200, {"resource_providers": [self._row(p) for p in self._found(query)]})
        provider = self._provider(words[0])
        what = words[1] if len(words) > 1 else ""
        stamp = {"resource_provider_generation": provider.generation}
        if what == "":
            return Answer(200, self._row(provider))
        if what == "traits":
            return Answer(200, stamp | {"traits": sorted(provider.traits)})
        if what == "inventories":
            return Answer(200, stamp | {"inventories": copy.deepcopy(provider.inventories)})
        held = {
            name: {
                "resources": dict(consumer.allocations[provider.uuid]),
                "consumer_generation": consumer.generation,
            }
            for name, consumer in self.held(provider.uuid).items()
        }
        return Answer(200, stamp | {"allocations": held})

    def _row(self, provider: Provider) -> dict[str, Any]:
        return {
            "uuid": provider.uuid,
            "name": provider.name,
            "generation": provider.generation,
            "parent_provider_uuid": provider.parent,
            "root_provider_uuid": self._root(provider).uuid,
        }

    def _found(self, query: list[tuple[str, str]]) -> Iterator[Provider]:
        asked = dict(query)
        root: Provider | None = None
        if "in_tree" in asked:
            near = self.providers.get(asked["in_tree"])
            if near is None:
                return
            root = self._root(near)
        wanted = frozenset(asked.get("required", "").removeprefix("in:").split(",")) - {""}
        name, _, amount = asked.get("resources", "").partition(":")
        if name and name not in self.classes:
            raise Refused(400, f"Invalid resource class in resources parameter: {name}")
        for provider in self.providers.values():
            if "name" in asked and provider.name != asked["name"]:
                continue
            if "uuid" in asked and provider.uuid != asked["uuid"]:
                continue
            if root is not None and self._root(provider) is not root:
                continue
            if wanted and not wanted & provider.traits:
                continue
            if name and not self._fits(provider, name, int(amount)):
                continue
            yield provider

    def _get_allocations(self, words: list[str], query: Any, body: Any) -> Answer:
        consumer = self.consumers.get(words[0])
        if consumer is None:
            return Answer(200, {"allocations": {}})
        held = {
            uuid: {"resources": dict(resources), "generation": self.providers[uuid].generation}
            for uuid, resources in consumer.allocations.items()
        }
        return Answer(
            200,
            {
                "allocations": held,
                "project_id": consumer.project,
                "user_id": consumer.user,
                "consumer_generation": consumer.generation,
                "consumer_type": consumer.type,
            },
        )

    def _get_allocation_candidates(self, words: list[str], query: Any, body: Any) -> Answer:
        """Granular groups of one device each below a root that has the ungrouped resources."""
        groups: dict[str, tuple[str, int]] = {}
        required: dict[str, set[str]] = {}
        common: dict[str, int] = {}
        for key, value in query:
            if key == "resources":
                common = {n: int(a) for n, _, a in (r.partition(":") for r in value.split(","))}
            elif key.startswith("resources"):
                name, _, amount = value.partition(":")
                groups[key.removeprefix("resources")] = (name, int(amount))
            elif key.startswith("required"):
                required[key.removeprefix("required")] = set(value.split(","))
        if unknown := {name for name, _ in groups.values()} - self.classes:
            raise Refused(400, f"Invalid resource class in resources parameter: {unknown}")
        found: list[dict[str, Any]] = []
        for root in [p for p in self.providers.values() if p.parent is None]:
            if not all(self._fits(root, name, amount) for name, amount in common.items()):
                continue
            pools = [
                [
                    p
                    for p in self.providers.values()
                    if p.parent == root.uuid
                    and self._fits(p, name, amount)
                    and required.get(group, set()) <= p.traits
                ]
                for group, (name, amount) in sorted(groups.items())
            ]
            seen: set[frozenset[str]] = set()
            for chosen in itertools.islice(itertools.product(*pools), 2000):
                uuids = frozenset(p.uuid for p in chosen)
                if len(uuids) < len(chosen) or uuids in seen:
                    continue
                seen.add(uuids)
                held = {root.uuid: {"resources": common}} if common else {}
                for provider, (_, (name, amount)) in zip(
                    chosen, sorted(groups.items()), strict=True
                ):
                    held[provider.uuid] = {"resources": {name: amount}}
                found.append({"allocations": held})
        return Answer(200, {"allocation_requests": found})

    # Writes.

    def _post_resource_providers(self, words: list[str], query: Any, body: Any) -> Answer:
        parent = body.get("parent_provider_uuid")
        if self.named(body["name"]) is not None or body["uuid"] in self.providers:
            raise Refused(409, "Conflicting resource provider already exists.")
        if parent is not None and parent not in self.providers:
            raise Refused(400, "parent provider UUID does not exist")
        provider = Provider(body["uuid"], body["name"], parent)
        self.providers[provider.uuid] = provider
        self._touched.add(provider.uuid)
        return Answer(200, self._row(provider))

    def _delete_resource_providers(self, words: list[str], query: Any, body: Any) -> Answer:
        provider = self._provider(words[0])
        if any(p.parent == provider.uuid for p in self.providers.values()):
            raise Refused(409, "Unable to delete parent resource provider: it has child providers.")
        if self.held(provider.uuid):
            raise Refused(409, "Unable to delete resource provider: it has allocations.")
        del self.providers[provider.uuid]
        self._touched.add(provider.uuid)
        return _NOTHING

    def _put_resource_providers(self, words: list[str], query: Any, body: Any) -> Answer:
        provider = self._provider(words[0])
        if len(words) == 1:
            return self._rename(provider, body["name"])
        if provider.generation != body["resource_provider_generation"]:
            raise Refused(409, "resource provider generation conflict")
        if words[1] == "traits":
            traits = set(body["traits"])
            if traits != provider.traits:
                provider.traits = traits
                self._moved(provider)
            return Answer(
                200,
                {
                    "resource_provider_generation": provider.generation,
                    "traits": sorted(provider.traits),
                },
            )
        if len(words) > 2:
            row = {k: v for k, v in body.items() if k != "resource_provider_generation"}
            if words[2] not in provider.inventories:
                raise Refused(404, "no inventory of that class")
            self._check_inventories(provider, provider.inventories | {words[2]: row})
            provider.inventories[words[2]] = _DEFAULTS | row
        else:
            self._check_inventories(provider, body["inventories"])
            provider.inventories = {n: _DEFAULTS | r for n, r in body["inventories"].items()}
        self._moved(provider)
        stamp = {"resource_provider_generation": provider.generation}
        return Answer(200, stamp | {"inventories": copy.deepcopy(provider.inventories)})

    def _rename(self, provider: Provider, name: str) -> Answer:
        if self.named(name) not in (None, provider):
            raise Refused(409, f"Conflicting resource provider {name} already exists.")
        provider.name = name
        self._touched.add(provider.uuid)
        return Answer(200, self._row(provider))

    def _put_allocations(self, words: list[str], query: Any, body: Any) -> Answer:
        self._replace({words[0]: body})
        return _NOTHING

    def _post_allocations(self, words: list[str], query: Any, body: Any) -> Answer:
        self._replace(body)
        return _NOTHING

    def _delete_allocations(self, words: list[str], query: Any, body: Any) -> Answer:
        consumer = self.consumers.pop(words[0], None)
        if consumer is None:
            raise Refused(404, f"No allocations for consumer '{words[0]}'")
        self._touched.update(consumer.allocations)
        return _NOTHING

    def _post_reshaper(self, words: list[str], query: Any, body: Any) -> Answer:
        before = copy.deepcopy((self.providers, self.consumers))
        try:
            for uuid, given in body["inventories"].items():
                provider = self.providers.get(uuid)
                if provider is None:
                    raise Refused(400, f"Resource provider {uuid} in inventories does not exist")
                if provider.generation != given["resource_provider_generation"]:
                    raise Refused(409, "resource provider generation conflict")
                self._check_inventories(provider, given["inventories"], body["allocations"])
                provider.inventories = {n: _DEFAULTS | r for n, r in given["inventories"].items()}
                self._moved(provider)
            self._replace(body["allocations"])
            for uuid in body["inventories"]:
                # The inventories are set twice (placement/objects/reshaper.py).
                self._moved(self.providers[uuid])
        except Refused:
            self.providers, self.consumers = before
            raise
        return _NOTHING

    def _replace(self, wanted: Mapping[str, Any]) -> None:
        """All consumers' allocations, or none."""
        for name, given in wanted.items():
            if given.get("consumer_generation") != self._consumer_generation(name):
                raise Refused(409, "consumer generation conflict")
            for uuid in given["allocations"]:
                if uuid not in self.providers:
                    raise Refused(400, f"Allocation for resource provider '{uuid}' does not exist.")
        before, after = self._used(), self._used(without=frozenset(wanted))
        for given in wanted.values():
            for uuid, held in given["allocations"].items():
                self._take(before, after, self.providers[uuid], held["resources"])
        moved: set[str] = set()
        for name, given in wanted.items():
            old = self.consumers.pop(name, None)
            for uuid in old.allocations if old else ():
                self._touched.add(uuid)
            if not given["allocations"]:
                # Unlike DELETE: what is wiped out goes through replace_all as an amount of 0
                # (placement/handlers/allocation.py, _set_allocations_for_consumer).
                moved.update(old.allocations if old else ())
                if old is None:
                    self._empty.add(name)
                continue
            self._empty.discard(name)
            self.consumers[name] = Consumer(
                project=given["project_id"],
                user=given["user_id"],
                type=given.get("consumer_type") or (old.type if old else "unknown"),
                generation=(old.generation if old else 0) + 1,
                allocations={u: dict(a["resources"]) for u, a in given["allocations"].items()},
            )
        for uuid in moved | {u for given in wanted.values() for u in given["allocations"]}:
            self._moved(self.providers[uuid])

    # Rules.

    def _consumer_generation(self, name: str) -> int | None:
        if name in self._empty:
            return 0
        known = self.consumers.get(name)
        return known.generation if known else None

    def _take(
        self,
        before: dict[tuple[str, str], int],
        used: dict[tuple[str, str], int],
        provider: Provider,
        resources: Mapping[str, int],
    ) -> None:
        """Over the capacity only where it was before, and not more so (``replace_all``)."""
        for name, amount in resources.items():
            row = provider.inventories.get(name)
            if row is None:
                raise Refused(409, f"Inventory for '{name}' on {provider.uuid} invalid.")
            now = used.get((provider.uuid, name), 0)
            capacity = (row["total"] - row["reserved"]) * row["allocation_ratio"]
            if amount < row["min_unit"] or amount > row["max_unit"] or amount % row["step_size"]:
                raise Refused(409, "violates the units of the inventory")
            if now + amount > max(capacity, before.get((provider.uuid, name), 0)):
                raise Refused(409, "The requested amount would exceed the capacity.")
            used[(provider.uuid, name)] = now + amount

    def _used(self, without: frozenset[str] = frozenset()) -> dict[tuple[str, str], int]:
        used: dict[tuple[str, str], int] = {}
        for name, consumer in self.consumers.items():
            if name in without:
                continue
            for uuid, resources in consumer.allocations.items():
                for resource, amount in resources.items():
                    used[(uuid, resource)] = used.get((uuid, resource), 0) + amount
        return used

    def _fits(self, provider: Provider, name: str, amount: int) -> bool:
        row = provider.inventories.get(name)
        if row is None or not row["min_unit"] <= amount <= row["max_unit"]:
            return False
        used = sum(
            c.allocations[provider.uuid].get(name, 0) for c in self.held(provider.uuid).values()
        )
        return bool(used + amount <= (row["total"] - row["reserved"]) * row["allocation_ratio"])

    def _check_inventories(
        self, provider: Provider, records: Mapping[str, Any], going: Mapping[str, Any] = {}
    ) -> None:
        for name, row in records.items():
            if name not in self.classes:
                raise Refused(400, f"Unknown resource class in inventory: {name}")
            if row.get("reserved", 0) > row["total"]:
                raise Refused(400, "reserved exceeds total")
        for name, consumer in self.held(provider.uuid).items():
            if name not in going and set(consumer.allocations[provider.uuid]) - set(records):
                raise Refused(409, "Inventory in use.")

    def _provider(self, uuid: str) -> Provider:
        if uuid not in self.providers:
            raise Refused(404, f"No resource provider with uuid {uuid} found")
        return self.providers[uuid]

    def _root(self, provider: Provider) -> Provider:
        return provider if provider.parent is None else self._root(self.providers[provider.parent])

    def _moved(self, provider: Provider) -> None:
        provider.generation += 1
        self._touched.add(provider.uuid)
