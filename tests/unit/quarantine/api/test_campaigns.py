"""Campaigns through the API: looked at before, begun once, paused, and read line by line."""

from __future__ import annotations

from typing import Any

import pytest
from falcon import testing

from quarantine.operations import campaigns
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from tests.unit.quarantine.api.client import NAMES, READER, SLOTS, Client, Site, code

ONE = "/v1/campaigns/fw1"
WHY = {"reason": "why"}
BODY = {"query": {"host": "cmp1"}, "reason": "<b>it lies</b>", "keep": 0.5}


def put(client: Client, path: str = ONE, **words: Any) -> testing.Result:
    return client.ask("PUT", path, {**BODY, **words}, If_None_Match="*")


def test_a_preview_that_waits_too_long_for_others_is_told_so(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    reader = site.client().as_user(READER)
    monkeypatch.setattr(campaigns, "WAIT_SECONDS", 0.0)
    with campaigns._turn():
        found = reader.get("/v1/campaign-previews?host=cmp1")
    assert found.status_code == 503
    assert "found others previewed; ask again later" in found.text, "nothing is away"
    assert found.headers["Retry-After"] == "10"
    assert reader.get("/v1/campaign-previews?host=cmp1").status_code == 200


def test_a_preview_changes_nothing(site: Site) -> None:
    reader = site.client().as_user(READER)
    found = reader.get("/v1/campaign-previews?host=cmp1&keep_percent=50&limit=2")
    for bad in ("", "?keep_percent=101", "?host=cmp1&keep_percent=x", "?certified_before=soon"):
        assert reader.get(f"/v1/campaign-previews{bad}").status_code == 400
    assert (found.json["slots"], found.json["in_quarantine"]) == (3, 3)
    assert [one["id"] for one in found.json["which"]] == NAMES[:2]
    assert reader.get("/v1/campaigns").json == {"campaigns": []}
    assert put(reader).status_code == 403


def test_it_is_begun_about_the_slots_that_were_looked_at(site: Site, admin: Client) -> None:
    look = "/v1/campaign-previews?host=cmp1"
    seen = admin.get(look).json["version"]
    assert admin.get(f"{look}&keep_percent=50&limit=1").json["version"] == seen
    with site.store() as store:
        record = store.slot(SLOTS[0])
        assert record is not None
        record = store.hold(record, holds.because(HoldCode.BY_PERSON, "odd"))
        assert admin.get(look).json["version"] == seen, "what becomes of a slot is no other slot"
        store.amend(record, SlotChanges(identity=None))
    now = admin.get(look).json["version"]
    assert now != seen, "another drive is"
    for old in (seen, "0" * 64):
        found = put(admin, seen=old)
        assert (found.status_code, code(found)) == (412, "stale")
        assert "look at the preview again" in found.text
    assert admin.get("/v1/campaigns").json == {"campaigns": []}
    for bad in ("", "x" * 65, 1, None):
        assert put(admin, seen=bad).status_code == 400
    begun = put(admin, seen=now)
    assert (begun.status_code, begun.json["slots"]) == (200, {"waiting": 3})
    assert put(admin, seen=seen).json == begun.json, "the same again: it was begun"
    assert put(admin).json == begun.json


def test_a_life(admin: Client) -> None:
    assert code(admin.get(ONE)) == "unknown"
    begun = put(admin)
    assert (begun.status_code, begun.json["slots"]) == (200, {"waiting": 3})
    assert begun.json["by"]["user"] == "ada"
    assert put(admin).json == begun.json, "the same again does nothing"
    assert put(admin, keep=0.6).status_code == 412
    assert admin.ask("PUT", ONE, BODY, If_Match='"1"').status_code == 412
    assert admin.ask("PUT", ONE, BODY).status_code == 428
    page = admin.get(f"{ONE}/slots?limit=2").json
    rest = admin.get(page["slots_links"][0]["href"]).json["slots"]
    assert [one["slot"] for one in page["slots"] + rest] == NAMES[:3]
    (listed,) = admin.get("/v1/campaigns").json["campaigns"]
    assert (listed["id"], listed["state"]) == ("fw1", "running")
    tag = begun.headers["ETag"]
    paused = admin.ask("POST", f"{ONE}/pause", WHY, If_Match=tag)
    assert paused.json["state"] == "paused"
    assert admin.ask("POST", f"{ONE}/resume", WHY, If_Match=tag).status_code == 412
    assert admin.ask("POST", f"{ONE}/resume", WHY).status_code == 428
    again = admin.ask("POST", f"{ONE}/resume", WHY, If_Match=paused.headers["ETag"])
    assert again.json["state"] == "running"
    stopped = admin.ask("POST", f"{ONE}/stop", WHY, If_Match=again.headers["ETag"])
    assert stopped.json["state"] == "stopped"
    late = admin.ask("POST", f"{ONE}/resume", WHY, If_Match=stopped.headers["ETag"])
    assert (late.status_code, code(late)) == (409, "not-now"), "it has not changed since"
    acts = [(one["state"], one["reason"], one["by"]["user"]) for one in stopped.json["acts"]]
    assert acts == [
        ("running", "<b>it lies</b>", "ada"),
        ("paused", "why", "ada"),
        ("running", "why", "ada"),
        ("stopped", "why", "ada"),
    ]


@pytest.mark.parametrize(
    "words",
    [
        {"query": {}},
        {"query": {"serial": "x"}},
        {"query": {"certified_before": "2026-11-24"}},
        {"query": {"host": 7}},
        {"keep": 1.1},
        {"keep": "all"},
        {"reason": " "},
        {"more": 1},
    ],
)
def test_bad_words(admin: Client, words: dict[str, Any]) -> None:
    assert put(admin, **words).status_code == 400


@pytest.mark.parametrize("name", ["-x", "a%20b", "x" * 65, "%00"])
def test_bad_ids(admin: Client, name: str) -> None:
    # A NUL is in no name of a path, also of one that is new.
    assert put(admin, f"/v1/campaigns/{name}").status_code == (404 if name == "%00" else 400)
    assert admin.get(f"/v1/campaigns/{name}").status_code == 404
    found = admin.ask("POST", f"/v1/campaigns/{name}/stop", WHY, If_Match='"1"')
    assert found.status_code == 404
    assert admin.get(f"{ONE}/slots").status_code == 404
