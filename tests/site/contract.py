"""What Placement promises to Nova and to us, as cases for a real one and for the simulated one.

``tests/site/test_contract.py`` runs them on the simulated Placement, ``tests/services`` on the real
one. ``walk`` asks both the same seeded requests in step: statuses and bodies must agree, a
generation may grow by more than one where it grows.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from random import Random
from typing import Any, Final

from tests.lab.services.nova_standin import (
    OTU_TRAIT,
    BootFailedError,
    NoValidHostError,
    NovaStandIn,
)
from tests.lab.services.placement_http import Answer

Ask = Callable[..., Answer]
VERSION: Final = "1.39"


class PlacementContract:
    """Subclass it with fixtures ``ask`` and ``name`` (a prefix that nobody else has there)."""

    def nova(self, ask: Ask, name: str) -> NovaStandIn:
        nova = NovaStandIn("", f"CUSTOM_{name.upper()}")
        nova._http = ask  # type: ignore[assignment]
        return nova

    def started(self, ask: Ask, name: str, drives: int = 1) -> tuple[NovaStandIn, list[str]]:
        nova = self.nova(ask, name)
        addresses = [f"0000:{0x81 + n:02x}:00.0" for n in range(drives)]
        nova.start_compute(name, addresses)
        return nova, [str(nova.provider(name, address)) for address in addresses]

    def row(self, ask: Ask, provider: str) -> Any:
        return ask("GET", f"/resource_providers?uuid={provider}", VERSION).body[
            "resource_providers"
        ][0]

    def generation(self, ask: Ask, provider: str) -> int:
        return int(self.row(ask, provider)["generation"])

    def offered(self, ask: Ask, nova: NovaStandIn) -> set[str]:
        path = f"/resource_providers?resources={nova.resource_class}:1"
        return {p["uuid"] for p in ask("GET", path, VERSION).body["resource_providers"]}

    def test_a_claim_moves_the_generation_and_a_bare_delete_does_not(
        self, ask: Ask, name: str
    ) -> None:
        nova, (provider,) = self.started(ask, name)
        before = self.generation(ask, provider)
        server = nova.claim()
        claimed = self.generation(ask, provider)
        nova.delete(server)
        assert claimed > before
        assert self.generation(ask, provider) == claimed
        assert self.offered(ask, nova) == {provider}

    def test_a_delete_by_put_moves_nothing_it_does_not_name(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        server = nova.boot()
        nova.delete(server, reclaim=True)
        assert ask("GET", f"/allocations/{server.uuid}", VERSION).body["allocations"] == {}
        assert ask("DELETE", f"/allocations/{server.uuid}", VERSION).status == 404
        assert self.offered(ask, nova) == set()
        assert self.row(ask, provider)["parent_provider_uuid"] is not None

    def test_a_burned_device_is_offered_to_nobody(self, ask: Ask, name: str) -> None:
        nova, _ = self.started(ask, name)
        server = nova.boot()
        nova.delete(server)
        assert self.offered(ask, nova) == set()
        try:
            nova.claim()
        except NoValidHostError:
            return
        raise AssertionError("expected no candidate")

    def test_an_old_generation_is_a_conflict(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        record = {nova.resource_class: {"total": 1, "reserved": 1}}
        body = {"resource_provider_generation": 0, "inventories": record}
        path = f"/resource_providers/{provider}/inventories"
        before = self.generation(ask, provider)
        assert ask("PUT", path, VERSION, body).status == 409
        assert self.generation(ask, provider) == before

    def test_reserved_above_total_is_refused(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        body = {
            "resource_provider_generation": self.generation(ask, provider),
            "inventories": {nova.resource_class: {"total": 1, "reserved": 2}},
        }
        assert (
            ask("PUT", f"/resource_providers/{provider}/inventories", VERSION, body).status == 400
        )

    def test_two_claims_of_one_candidate(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        first, second = nova._candidates(1), nova._candidates(1)
        nova._claim(first, str(uuid.uuid4()), None, None)
        try:
            nova._claim(second, str(uuid.uuid4()), None, None)
        except BootFailedError:
            assert len(self.held(ask, provider)) == 1
            return
        raise AssertionError("expected the second claim to be refused")

    def held(self, ask: Ask, provider: str) -> dict[str, Any]:
        path = f"/resource_providers/{provider}/allocations"
        return dict(ask("GET", path, VERSION).body["allocations"])

    def test_candidates_of_two_devices_are_two_devices_of_one_host(
        self, ask: Ask, name: str
    ) -> None:
        nova, providers = self.started(ask, name, drives=3)
        found = {frozenset(c["allocations"]) & set(providers) for c in nova._candidates(2)}
        assert found == {
            frozenset(pair) for pair in (providers[:2], providers[1:], [providers[0], providers[2]])
        }

    def test_the_trait_is_found_by_its_name(self, ask: Ask, name: str) -> None:
        _nova, (provider,) = self.started(ask, name)
        path = f"/resource_providers?required=in:{OTU_TRAIT}"
        rows = ask("GET", path, VERSION).body["resource_providers"]
        assert provider in {row["uuid"] for row in rows}
        stamp = {"resource_provider_generation": self.generation(ask, provider)}
        traits = f"/resource_providers/{provider}/traits"
        assert ask("PUT", traits, VERSION, stamp | {"traits": []}).status == 200
        rows = ask("GET", path, VERSION).body["resource_providers"]
        assert provider not in {row["uuid"] for row in rows}

    def test_equal_traits_move_nothing(self, ask: Ask, name: str) -> None:
        _nova, (provider,) = self.started(ask, name)
        now = ask("GET", f"/resource_providers/{provider}/traits", VERSION).body
        assert ask("PUT", f"/resource_providers/{provider}/traits", VERSION, now).status == 200
        assert self.generation(ask, provider) == now["resource_provider_generation"]

    def test_a_provider_is_renamed_without_a_move_and_to_no_name_of_another(
        self, ask: Ask, name: str
    ) -> None:
        _nova, (first, second) = self.started(ask, name, drives=2)
        names, stood = [self.row(ask, p)["name"] for p in (first, second)], self.row(ask, first)

        def rename(to: str) -> int:
            path = f"/resource_providers/{first}"
            return int(ask("PUT", path, VERSION, {"name": to}).status)

        assert rename(names[1]) == 409
        assert self.row(ask, first) == stood
        assert rename(f"{names[0]}-was") == 200
        assert self.row(ask, first) == stood | {"name": f"{names[0]}-was"}

    def test_a_provider_with_allocations_or_children_stays(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        root = self.row(ask, provider)["parent_provider_uuid"]
        server = nova.boot()
        assert ask("DELETE", f"/resource_providers/{provider}", VERSION).status == 409
        assert ask("DELETE", f"/resource_providers/{root}", VERSION).status == 409
        nova.delete(server)
        assert ask("DELETE", f"/resource_providers/{provider}", VERSION).status == 204
        assert ask("GET", f"/resource_providers/{provider}/inventories", VERSION).status == 404

    def test_the_reshaper_swaps_reserved_for_an_allocation(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        nova.delete(nova.boot())
        consumer = str(uuid.uuid4())
        body = self.reshaping(ask, nova, provider, consumer, None)
        assert ask("POST", "/reshaper", VERSION, body).status == 204
        assert ask("POST", "/reshaper", VERSION, body).status == 409
        assert set(self.held(ask, provider)) == {consumer}
        owner = ask("GET", f"/allocations/{consumer}", VERSION).body
        assert owner["consumer_type"] == "NVME_QUARANTINE"
        assert self.offered(ask, nova) == set()
        body = self.reshaping(ask, nova, provider, consumer, owner["consumer_generation"])
        body["allocations"][consumer]["allocations"] = {}
        before = self.generation(ask, provider)
        assert ask("POST", "/reshaper", VERSION, body).status == 204
        assert self.generation(ask, provider) == before + 3, (
            "what quarantine.rules.offermark reckons with"
        )
        assert self.offered(ask, nova) == {provider}

    def reshaping(
        self, ask: Ask, nova: NovaStandIn, provider: str, consumer: str, generation: int | None
    ) -> dict[str, Any]:
        return {
            "inventories": {
                provider: {
                    "resource_provider_generation": self.generation(ask, provider),
                    "inventories": {nova.resource_class: {"total": 1, "reserved": 0}},
                }
            },
            "allocations": {
                consumer: {
                    "allocations": {provider: {"resources": {nova.resource_class: 1}}},
                    "project_id": "us",
                    "user_id": "us",
                    "consumer_generation": generation,
                    "consumer_type": "NVME_QUARANTINE",
                }
            },
        }

    def test_a_migration_takes_the_allocation_along(self, ask: Ask, name: str) -> None:
        nova, (provider,) = self.started(ask, name)
        server = nova.boot()
        migration = str(uuid.uuid4())
        nova._move(server.uuid, migration)
        assert set(self.held(ask, provider)) == {migration}
        nova._move(migration, server.uuid)
        assert set(self.held(ask, provider)) == {server.uuid}

    def test_what_is_on_offer_of_a_class_is_listed_by_trait(self, ask: Ask, name: str) -> None:
        nova, _ = self.started(ask, name)
        path = f"/resource_providers?resources={nova.resource_class}:1&required=in:"
        for trait, count in (("HW_PCI_ONE_TIME_USE", 1), ("COMPUTE_STATUS_DISABLED", 0)):
            assert len(ask("GET", path + trait, VERSION).body["resource_providers"]) == count
        nova.boot()
        burned = ask("GET", path + "HW_PCI_ONE_TIME_USE", VERSION)
        assert burned.body["resource_providers"] == []
        made = ask("GET", "/resource_classes", VERSION).body["resource_classes"]
        assert {nova.resource_class, "VCPU"} <= {row["name"] for row in made}

    def test_a_class_that_nobody_made_is_a_bad_request(self, ask: Ask, name: str) -> None:
        path = f"/resource_providers?resources=CUSTOM_{name.upper()}_NEVER:1"
        assert ask("GET", path, VERSION).status == 400
        never = f"/resource_classes/CUSTOM_{name.upper()}_NEVER"
        assert ask("GET", never, VERSION).status == 404


def walk(asks: tuple[Ask, Ask], name: str, seed: int, steps: int) -> Iterator[str]:
    """The same random requests to both; each difference in words."""
    chance = Random(seed)
    resource_class = f"CUSTOM_{name.upper()}"
    root, *children = (str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(4))
    consumers = [str(uuid.UUID(int=chance.getrandbits(128), version=4)) for _ in range(4)]
    for ask in asks:
        ask("PUT", f"/resource_classes/{resource_class}", VERSION)
        ask("POST", "/resource_providers", VERSION, {"uuid": root, "name": name})
        for number, child in enumerate(children):
            body = {"uuid": child, "name": f"{name}_{number}", "parent_provider_uuid": root}
            ask("POST", "/resource_providers", VERSION, body)
    # What was seen after a request is what stands before the next one: nobody else asks there.
    stood = [_seen(ask, children, consumers, resource_class) for ask in asks]
    for step in range(steps):
        request = _request(chance, children, consumers, resource_class)
        answers = [
            ask(*request[:2], VERSION, _body(before, request))
            for ask, before in zip(asks, stood, strict=True)
        ]
        now = [_seen(ask, children, consumers, resource_class) for ask in asks]
        moved = [
            [after.generations[child] > before.generations[child] for child in children]
            for after, before in zip(now, stood, strict=True)
        ]
        if moved[0] != moved[1]:
            yield f"{step}: {request}: generations moved {moved}"
        if answers[0].status != answers[1].status:
            yield f"{step}: {request}: {answers[0]} and {answers[1]}"
        if now[0].comparable != now[1].comparable:
            yield f"{step}: after {request}: {now[0].comparable} and {now[1].comparable}"
            return
        stood = now


Request = tuple[str, str, dict[str, Any]]


def _request(chance: Random, children: list[str], consumers: list[str], name: str) -> Request:
    child, consumer = chance.choice(children), chance.choice(consumers)
    stale = chance.random() < 0.15
    kind = chance.choice(["inventory", "claim", "claim", "drop", "delete", "reshape", "traits"])
    if kind == "inventory":
        record = {"total": 1, "reserved": chance.choice([0, 0, 1, 2])}
        held: dict[str, Any] = {"inventories": {name: record}, "provider": child, "stale": stale}
        return "PUT", f"/resource_providers/{child}/inventories", held
    if kind == "traits":
        traits = chance.choice([[], [OTU_TRAIT]])
        held = {"traits": traits, "provider": child, "stale": stale}
        return "PUT", f"/resource_providers/{child}/traits", held
    if kind == "delete":
        return "DELETE", f"/allocations/{consumer}", {}
    allocations = {} if kind == "drop" else {child: {"resources": {name: 1}}}
    claim = {
        "allocations": allocations,
        "project_id": "p",
        "user_id": "u",
        "consumer_type": "INSTANCE",
        "consumer": consumer,
        "stale": stale,
    }
    if kind == "reshape":
        return "POST", "/reshaper", {"claim": claim, "provider": child, "name": name}
    return "PUT", f"/allocations/{consumer}", claim


@dataclass(frozen=True)
class _Seen:
    """What one Placement says of the walk's providers and consumers."""

    generations: dict[str, int]
    """Of the providers: they need not be equal in both."""
    consumers: dict[str, int | None]
    stock: list[Any]
    offered: list[str]

    @property
    def comparable(self) -> Any:
        """What both must say."""
        known = [generation is not None for generation in self.consumers.values()]
        return self.stock, self.offered, known


def _body(seen: _Seen, request: Request) -> Any:
    """With the generations of that very Placement."""
    body = dict(request[2])
    stale = body.pop("stale", False)
    if request[0] == "DELETE":
        return None
    if "claim" in body:
        claim = dict(body["claim"])
        consumer = claim.pop("consumer")
        claim.pop("stale")
        claim["consumer_generation"] = seen.consumers[consumer]
        stock = {
            "resource_provider_generation": seen.generations[body["provider"]],
            "inventories": {body["name"]: {"total": 1, "reserved": 0}},
        }
        return {"inventories": {body["provider"]: stock}, "allocations": {consumer: claim}}
    if "consumer" in body:
        generation = seen.consumers[body.pop("consumer")]
        body["consumer_generation"] = (generation or 0) + 7 if stale else generation
        return body
    known = seen.generations[body.pop("provider")]
    body["resource_provider_generation"] = known + 7 if stale else known
    return body


def _seen(ask: Ask, children: list[str], consumers: list[str], name: str) -> _Seen:
    generations, stock = {}, []
    for child in children:
        base = f"/resource_providers/{child}"
        rows = ask("GET", f"{base}/inventories", VERSION).body["inventories"]
        held = ask("GET", f"{base}/allocations", VERSION).body["allocations"]
        traits = ask("GET", f"{base}/traits", VERSION).body
        generations[child] = int(traits["resource_provider_generation"])
        stock.append((rows, {c: a["resources"] for c, a in held.items()}, sorted(traits["traits"])))
    offered = ask("GET", f"/resource_providers?resources={name}:1", VERSION)
    return _Seen(
        generations,
        {consumer: _consumer(ask, consumer) for consumer in consumers},
        stock,
        sorted(provider["uuid"] for provider in offered.body["resource_providers"]),
    )


def _consumer(ask: Ask, consumer: str) -> int | None:
    found: int | None = ask("GET", f"/allocations/{consumer}", VERSION).body.get(
        "consumer_generation"
    )
    return found
