"""Maintenance through the API: begun, looked at, changed and ended, each time of what was seen."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import sqlalchemy as sa
from falcon import testing

from eraser.protocol.transport.signing import PrivateKey
from quarantine.api.resources import certificates
from quarantine.record.database import models
from quarantine.record.database.engine import writing
from tests.unit.quarantine.api.client import NAMES, READER, SLOTS, Client, Site, code

HOST, SLOT = "/v1/hosts/cmp1/maintenance", f"/v1/slots/{NAMES[0]}/maintenance"
PATHS = pytest.mark.parametrize("path", [HOST, SLOT])


def ends(**ahead: float) -> str:
    return (datetime.now(UTC) + timedelta(**ahead)).isoformat(timespec="seconds")


def put(client: Client, path: str, tag: str | None = None, **words: Any) -> testing.Result:
    body = {"reason": "fans", "until": ends(hours=1), **words}
    said = {"If_None_Match": "*"} if tag is None else {"If_Match": tag}
    return client.ask("PUT", path, body, **said)


@PATHS
def test_a_life(admin: Client, path: str) -> None:
    before = admin.get(path)
    assert (before.status_code, code(before)) == (404, "unknown")
    until = ends(hours=1)
    first = put(admin, path, until=until)
    assert first.status_code == 200
    assert first.json["slot"] == (NAMES[0] if path == SLOT else None)
    assert datetime.fromisoformat(first.json["until"]) == datetime.fromisoformat(until)
    assert first.json["by"] == {
        "user": "ada",
        "project": "",
        "request_id": first.headers["X-Openstack-Request-Id"],
    }
    shown = admin.get(path)
    assert (shown.json, shown.headers["ETag"]) == (first.json, first.headers["ETag"])
    again = put(admin, path, first.headers["ETag"], reason="parts")
    assert (again.status_code, again.json["version"]) == (200, 2)
    words = {"reason": "in"}
    stale = admin.ask("POST", f"{path}/end", words, If_Match=first.headers["ETag"])
    assert (stale.status_code, code(stale)) == (412, "stale")
    ended = admin.ask("POST", f"{path}/end", words, If_Match=again.headers["ETag"])
    assert (ended.status_code, ended.json["until"], ended.json["reason"]) == (200, None, "in")
    assert admin.get(path).status_code == 404
    gone = admin.ask("POST", f"{path}/end", words, If_Match='"3"')
    assert (gone.status_code, code(gone)) == (404, "unknown")
    page = admin.get(f"{path}/history?limit=2").json
    rest = admin.get(page["maintenances_links"][0]["href"]).json
    said = [one["reason"] for one in page["maintenances"] + rest["maintenances"]]
    assert said == ["fans", "parts", "in"]


@PATHS
def test_two_people_begin_one_maintenance(admin: Client, path: str) -> None:
    assert put(admin, path).status_code == 200
    for tag in (None, '"2"', '"0"', '"x"', 'W/"1"'):
        found = put(admin, path, tag)
        assert (found.status_code, code(found)) == (412, "stale"), tag
    missing = admin.ask("PUT", path, {"reason": "x", "until": ends(hours=1)})
    assert (missing.status_code, code(missing)) == (428, "version-required")
    none = admin.ask("POST", f"{path}/end", {"reason": "x"}, If_None_Match="*")
    assert (none.status_code, code(none)) == (428, "version-required")


@PATHS
@pytest.mark.parametrize(
    "words",
    [
        {"until": "soon"},
        {"until": "2026-11-24T12:00:00"},
        {"until": "0001-01-01T00:00:00+14:00"},
        {"until": "2001-01-01T00:00:00Z"},
        {"until": "9999-12-31T23:59:59Z"},
        {"until": 7},
        {"until": None},
        {"reason": " "},
        {"reason": "x" * 1001},
        {"hours": 1},
    ],
)
def test_bad_words(admin: Client, path: str, words: dict[str, Any]) -> None:
    assert put(admin, path, **words).status_code == 400
    assert admin.get(path).status_code == 404


@pytest.mark.parametrize(
    "path", ["/v1/hosts/nowhere/maintenance", "/v1/slots/cmp9_0000:01:00.0/maintenance"]
)
def test_nobody_knows_it(admin: Client, path: str) -> None:
    assert put(admin, path).status_code == 404
    assert admin.get(path).status_code == 404


def test_a_reader_reads(site: Site) -> None:
    reader = site.client().as_user(READER)
    assert put(reader, HOST).status_code == 403
    assert reader.ask("POST", f"{HOST}/end", {"reason": "x"}, If_Match='"1"').status_code == 403
    assert reader.get("/v1/maintenances").json == {"maintenances": []}


def test_all_in_pages_and_a_hosts(admin: Client) -> None:
    paths = ["/v1/hosts/cmp1/maintenance", "/v1/hosts/cmp2/maintenance"]
    paths += [f"/v1/slots/{name}/maintenance" for name in NAMES]
    for path in paths:
        assert put(admin, path).status_code == 200
    found: list[tuple[str, str | None]] = []
    path = "/v1/maintenances?limit=3"
    while path:
        page = admin.get(path).json
        found += [(one["host"], one["slot"]) for one in page["maintenances"]]
        links = page.get("maintenances_links", [])
        path = links[0]["href"] if links else ""
    expected = [("cmp1", None), *(("cmp1", name) for name in NAMES[:3])]
    expected += [("cmp2", None), *(("cmp2", name) for name in NAMES[3:])]
    assert found == expected
    of_one = admin.get("/v1/maintenances?host=cmp2").json["maintenances"]
    assert {one["host"] for one in of_one} == {"cmp2"}
    assert admin.get("/v1/maintenances?marker=cmp2").status_code == 400


def test_an_export_says_it_as_the_list_does(admin: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    """It asks for the hosts of some slots at a time."""
    monkeypatch.setattr(certificates, "SOME", 2)
    for path in (SLOT, "/v1/hosts/cmp2/maintenance"):
        assert put(admin, path).status_code == 200
    listed = admin.get("/v1/slots").json["slots"]
    *exported, _last = map(json.loads, admin.get("/v1/exports/slots").text.splitlines())
    assert exported == listed
    assert [bool(one["maintenance"]) for one in exported] == [True, False, False, True, True, True]


@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize("kind", ["TEXT", "BLOB"])
@pytest.mark.parametrize("column", ["by_user", "reason", "host"])
def test_a_damaged_row_ends_no_list(
    site: Site, admin: Client, limit: int, column: str, kind: str
) -> None:
    """Wherever it stands, first and last on a page too."""
    paths = [f"/v1/slots/{name}/maintenance" for name in NAMES]
    assert {put(admin, path).status_code for path in paths} == {200}
    damaged = (1, 2, 4)
    with site.store() as store, writing(store._engine) as db:
        unread = sa.literal_column(f"CAST(CAST(x'ff' AS TEXT) || id AS {kind})")
        of_them = models.maintenances.c.id.in_(damaged)
        db.execute(sa.update(models.maintenances).where(of_them).values({column: unread}))
    found, path = [], f"/v1/maintenances?limit={limit}"
    while path:
        page = admin.get(path).json
        found += [one["slot"] for one in page["maintenances"]]
        path = next((one["href"] for one in page.get("maintenances_links", ())), "")
    assert found == [NAMES[2], NAMES[4], NAMES[5]]


def test_a_list_of_hosts_says_it(site: Site, admin: Client) -> None:
    with site.store() as store:
        for host in ("cmp1", "cmp2"):
            store.register_host(host, PrivateKey.generate().public, "incarnation-0123456789")
    assert put(admin, HOST, reason="rack").status_code == 200
    said = {one["name"]: one["maintenance"] for one in admin.get("/v1/hosts").json["hosts"]}
    assert said == {"cmp1": admin.get("/v1/hosts/cmp1").json["maintenance"], "cmp2": ""}
    assert "rack" in said["cmp1"]


def test_it_is_shown_and_no_decision_is_stale_by_it(site: Site, admin: Client) -> None:
    one = f"/v1/slots/{NAMES[0]}"
    before = admin.get(one)
    assert before.json["maintenance"] == ""
    assert put(admin, SLOT, reason="<b>cage</b>").status_code == 200
    after = admin.get(one)
    assert "<b>cage</b>" in after.json["maintenance"]
    assert after.headers["ETag"] == before.headers["ETag"]
    in_list = {each["id"]: each["maintenance"] for each in admin.get("/v1/slots").json["slots"]}
    assert in_list == {
        name: after.json["maintenance"] if name == NAMES[0] else "" for name in NAMES
    }
    assert put(admin, HOST, reason="rack").status_code == 200
    in_list = {each["id"]: each["maintenance"] for each in admin.get("/v1/slots").json["slots"]}
    assert all(("rack" in text) is name.startswith("cmp1_") for name, text in in_list.items())
    with site.store() as store:
        line = store.history(SLOTS[0])[-1]
    assert line.by is not None
    assert line.by.user == "ada"
    assert line.reason.endswith("UTC: <b>cage</b>")
