"""What a project's reader sees: its own servers' drives, and nothing else."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from oslo_context.context import RequestContext

from quarantine.api import auth
from quarantine.api.routes import OPERATIONS
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import holds
from tests.unit.quarantine.api.client import NAMES, SERVER, SLOTS, Client, Site, code

OTHERS = "99999999-2222-3333-4444-555555555555"
UNSEEN = "88888888-2222-3333-4444-555555555555"
FIRST = "a" * 64


def caller(monkeypatch: pytest.MonkeyPatch, site: Site, **words: Any) -> Client:
    """Who has passed Keystone with these."""

    def passed(_conf: Any, application: Any, _answer: Any) -> Any:
        def known(environ: Any, start: Any) -> Iterable[bytes]:
            environ[auth.CONTEXT] = RequestContext(user_id="u", overwrite=False, **words)
            found: Iterable[bytes] = application(environ, start)
            return found

        return known

    monkeypatch.setattr(auth, "guarded", passed)
    return site.client()


@pytest.fixture
def owned(site: Site) -> Site:
    """The first slot's server is project p1's, another one p2's."""
    with site.store() as store:
        store.note_server(SERVER, "p1", "somebody")
        store.note_server(OTHERS, "p2", "somebody else")
    return site


def test_its_own_servers(owned: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    client = caller(monkeypatch, owned, roles=["reader"], project_id="p1")
    (one,) = client.get("/v1/servers").json["servers"]
    assert one["id"] == SERVER
    assert client.get("/v1/servers?project=p1").json["servers"] == [one]
    found = client.get(f"/v1/servers/{SERVER}").json
    assert found == {
        "id": SERVER,
        "drives": [{"state": "released", "certificate": None}],
        "certificates": [],
    }


def test_the_certificate_is_the_one_it_got_the_drive_under(
    owned: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = caller(monkeypatch, owned, roles=["reader"], project_id="p1")
    with owned.store() as store:
        certified(store)
        claimed(store, SERVER)
    assert drives(client, SERVER) == [{"state": "in_use", "certificate": FIRST}]
    with owned.store() as store:
        store.transition(slot(store), Event.RELEASE_SEEN)
    assert drives(client, SERVER) == [{"state": "released", "certificate": None}]


def test_a_drive_is_listed_until_it_is_erased_after_its_server(
    owned: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever had it before does not see when another tenant takes it."""
    client = caller(monkeypatch, owned, roles=["reader"], project_id="p1")
    with owned.store() as store:
        store.hold(slot(store), holds.because(HoldCode.BY_PERSON, "odd"))
        held = drives(client, SERVER)
        store.transition(slot(store), Event.RELEASED_BY_OPERATOR, reason="seen to")
        certified(store)
        after = [drives(client, SERVER)]
        store.transition(slot(store), Event.RETURNED)
        after.append(drives(client, SERVER))
        store.hold(slot(store), holds.because(HoldCode.BY_PERSON, "fans"))
        after.append(drives(client, SERVER))
        claimed(store, OTHERS, returned=False)
        after.append(drives(client, SERVER))
    assert held == [{"state": "held", "certificate": None}]
    assert after == [[], [], [], []]


def drives(client: Client, server: str) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = client.get(f"/v1/servers/{server}").json["drives"]
    return found


def slot(store: Store) -> SlotRecord:
    found = store.slot(SLOTS[0])
    assert found is not None
    return found


def certified(store: Store) -> None:
    """The first slot, which its server let go of."""
    store.transition(slot(store), Event.CUSTODY_TAKEN)
    order = SlotChanges(order_id="order-1", order_token="jws")
    store.transition(slot(store), Event.ORDERED, changes=order)
    store.transition(slot(store), Event.CERTIFIED, certificate=NewCertificate("token", FIRST, ""))


def claimed(store: Store, server: str, *, returned: bool = True) -> None:
    if returned:
        store.transition(slot(store), Event.RETURNED)
    store.transition(slot(store), Event.CLAIM_SEEN, changes=SlotChanges(consumer=server))


def test_nothing_of_another_project(owned: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is another's is answered as what is not there."""
    client = caller(monkeypatch, owned, roles=["reader"], project_id="p1")
    said = [client.get(f"/v1/servers/{one}") for one in (OTHERS, UNSEEN, "..", "%00", "x" * 400)]
    assert {(one.status_code, code(one)) for one in said} == {(404, "unknown")}
    assert len({one.json["errors"][0]["detail"] for one in said}) == 1
    assert client.get("/v1/servers?project=p2").status_code == 403


@pytest.mark.parametrize(
    "words",
    [
        {"roles": ["reader"], "project_id": None},
        {"roles": ["reader"], "project_id": ""},
        {"roles": ["reader"], "domain_id": "d"},
        {"roles": ["reader"], "project_id": "(none)"},
        {"roles": ["member"], "project_id": "p1"},
        {"roles": [], "project_id": "p1"},
    ],
)
def test_who_is_no_reader_of_the_project(
    owned: Site, monkeypatch: pytest.MonkeyPatch, words: dict[str, Any]
) -> None:
    """A caller without a project is not the owner of what nobody owns."""
    with owned.store() as store:
        store.note_server(UNSEEN, "", "nobody")
    client = caller(monkeypatch, owned, **words)
    listed = client.get("/v1/servers")
    assert listed.status_code == 403 or listed.json["servers"] == []
    if words.get("project_id") != "(none)":
        for server in (SERVER, UNSEEN):
            assert client.get(f"/v1/servers/{server}").status_code == 404


def test_whoever_has_no_project_owns_nothing_by_any_rule(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The list has the caller's own servers alone, so an operator may let everybody ask: also with
    a token that Keystone gave for no project."""
    policy = tmp_path / "policy.yaml"
    policy.write_text('"nvme_quarantine:servers:list": "@"\n')
    (tmp_path / "site").mkdir()
    site = Site(tmp_path / "site", options=f"[oslo_policy]\npolicy_file = {policy}\n")
    with site.store() as store:
        store.note_server(UNSEEN, "", "nobody")
        store.note_server(SERVER, "p1", "somebody")
    for project in (None, "", "p2"):
        client = caller(monkeypatch, site, roles=[], project_id=project)
        assert client.get("/v1/servers").json["servers"] == []
    (one,) = (
        caller(monkeypatch, site, roles=["reader"], project_id="p1")
        .get("/v1/servers")
        .json["servers"]
    )
    assert one["id"] == SERVER


@pytest.mark.parametrize(
    "operation",
    [one for one in OPERATIONS if one.rule and not one.rule.startswith("servers:")],
    ids=lambda one: f"{one.method} {one.path}",
)
def test_a_projects_reader_asks_for_nothing_else(
    owned: Site, monkeypatch: pytest.MonkeyPatch, operation: Any
) -> None:
    client = caller(monkeypatch, owned, roles=["reader", "member"], project_id="p1")
    path = operation.path
    for name in ("slot", "host", "digest", "name"):
        path = path.replace(f"{{{name}}}", NAMES[0])
    found = client.ask(operation.method, path)
    assert (found.status_code, code(found)) == (403, "forbidden")


@pytest.mark.parametrize(
    "words",
    [
        {"roles": ["admin"], "project_id": "p9"},
        {"roles": ["nvme_reader"], "project_id": "p9"},
        {"roles": ["reader"], "system_scope": "all"},
    ],
)
def test_operators_see_every_server(
    owned: Site, monkeypatch: pytest.MonkeyPatch, words: dict[str, Any]
) -> None:
    client = caller(monkeypatch, owned, **words)
    assert {one["id"] for one in client.get("/v1/servers").json["servers"]} == {SERVER, OTHERS}
    (one,) = client.get("/v1/servers?project=p2").json["servers"]
    assert one["id"] == OTHERS
    page = client.get("/v1/servers?limit=1").json
    assert client.get(page["servers_links"][0]["href"]).json["servers"][0]["id"] == OTHERS
    assert client.get(f"/v1/servers/{UNSEEN}").json["drives"] == []
