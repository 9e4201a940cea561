"""Slots through the API: lists, one of them, and what people decide about it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import sqlalchemy as sa
from falcon import testing

from eraser.protocol.identity import Slot
from eraser.protocol.report import Step
from quarantine.api.resources.slots import UNACTED
from quarantine.errors import ConflictError, UnavailableError
from quarantine.operations import decisions
from quarantine.operations.plane import Plane
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import holds
from quarantine.service.assembly import Assembly
from tests.unit.quarantine.api.client import (
    ADMIN,
    DRIVE,
    NAMES,
    SERVER,
    SLOTS,
    Client,
    Site,
    code,
    provider,
)
from tests.unit.quarantine.smallcloud import Cloud

ONE = f"/v1/slots/{NAMES[0]}"


def pages(client: Client, path: str) -> Iterator[dict[str, Any]]:
    while path:
        found = client.get(path).json
        yield from found["slots"]
        links = found.get("slots_links", [])
        path = links[0]["href"] if links else ""


@pytest.mark.parametrize("sort", ["slot", "-slot", "entered_at", "-entered_at"])
@pytest.mark.parametrize("limit", [1, 4, 6, 100])
def test_links_lead_through_all(reader: Client, sort: str, limit: int) -> None:
    found = [one["id"] for one in pages(reader, f"/v1/slots?sort={sort}&limit={limit}")]
    expected = sorted(NAMES) if sort != "-slot" else sorted(NAMES, reverse=True)
    assert (found == expected) or (sort.endswith("entered_at") and sorted(found) == expected)
    assert len(found) == len(NAMES)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("host=cmp2", NAMES[3:]),
        ("state=released", NAMES),
        ("state=held&state=retired", []),
        (f"server={SERVER}", NAMES[:1]),
        ("serial=S1", NAMES[:1]),
        ("model=%3Cscript%3Ealert(1)%3C/script%3E%1B[2J", NAMES[:1]),
        ("hold_code=data-left", []),
        ("host=cmp%25", []),
        ("host=cmp2&limit=2", NAMES[3:]),
    ],
)
def test_filters_hold_on_every_page(reader: Client, query: str, expected: list[str]) -> None:
    assert [one["id"] for one in pages(reader, f"/v1/slots?{query}")] == expected


def test_a_page_has_a_bound(site: Site) -> None:
    text = site.file.read_text().replace("[api]\n", "[api]\nmax_limit = 2\n")
    site.file.write_text(text)
    admin = site.client().as_user(ADMIN)
    for query in ("", "?limit=1000"):
        assert len(admin.get(f"/v1/slots{query}").json["slots"]) == 2


def test_one_by_name_and_by_uuid(reader: Client) -> None:
    """Markup and controls that a drive chose stay text."""
    one = reader.get(ONE)
    assert one.json["drive"]["model"] == DRIVE.model
    assert "\\u003cscript" in one.text
    assert "\x1b" not in one.text
    for other in (provider(0), NAMES[0].upper().replace("CMP", "cmp")):
        assert reader.get(f"/v1/slots/{other}").json == one.json


def test_a_case_and_a_history(reader: Client) -> None:
    case = reader.get(f"{ONE}/case").json
    assert (case["slot"], case["state"], case["order"]) == (NAMES[0], "released", None)
    (line,) = reader.get(f"{ONE}/history").json["history"]
    assert (line["event"], line["target"], line["by"]) == ("enrolled_free", "released", None)


def act(client: Client, what: str, tag: str | None = None, **words: Any) -> testing.Result:
    tag = client.get(ONE).headers["ETag"] if tag is None else tag
    return client.ask("POST", f"{ONE}/{what}", {"reason": "why", **words}, If_Match=tag)


def test_a_life_by_decisions(admin: Client) -> None:
    """Each is written with who, and through what, and the answer is the slot as it is after."""
    held = act(admin, "hold", reason="<b>odd</b>\n\x1b[31m noises")
    assert held.status_code == 200
    assert held.json["slot"]["hold_code"] == "by-person"
    assert held.headers["ETag"] == admin.get(ONE).headers["ETag"]
    assert act(admin, "release").json["slot"]["state"] == "released"
    assert act(admin, "hold").status_code == 200
    retired = act(admin, "retire", reason="worn")
    assert (retired.json["slot"]["state"], retired.json["slot"]["reason"]) == ("retired", "worn")
    lines: list[dict[str, Any]] = []
    path = f"{ONE}/history?limit=2"
    while path:
        page = admin.get(path).json
        lines += page["history"]
        path = page["history_links"][0]["href"] if "history_links" in page else ""
    assert [one["event"] for one in lines] == [
        "enrolled_free",
        "held",
        "released_by_operator",
        "held",
        "retired",
    ]
    assert lines[1]["reason"] == "<b>odd</b>\n\x1b[31m noises"
    assert lines[1]["by"] == {
        "user": "ada",
        "project": "",
        "request_id": held.headers["X-Openstack-Request-Id"],
    }


def test_what_is_not_possible_now(admin: Client) -> None:
    assert code(act(admin, "release", new_drive=True)) == "not-now"
    assert act(admin, "hold").status_code == 200
    found = act(admin, "hold")
    assert (found.status_code, code(found)) == (409, "not-now")
    assert "it is held already" in found.json["errors"][0]["detail"]


@pytest.mark.parametrize("what", ["hold", "release", "retire"])
def test_a_decision_says_about_what(admin: Client, what: str) -> None:
    before = admin.get(ONE).json
    body = {"reason": "x"}
    missing = admin.ask("POST", f"{ONE}/{what}", body)
    assert (missing.status_code, code(missing)) == (428, "version-required")
    none = admin.ask("POST", f"{ONE}/{what}", body, If_None_Match="*")
    assert (none.status_code, code(none)) == (428, "version-required")
    for tag in ("*", "abc", '"a', '"a" "b', ""):
        found = act(admin, what, tag)
        assert (found.status_code, code(found)) == (400, "bad-input")
    good = admin.get(ONE).headers["ETag"]
    for tag in ('"abc"', f"W/{good}", '"a", "b"'):
        found = act(admin, what, tag)
        assert (found.status_code, code(found)) == (412, "stale")
        assert ("found weak ones alone" in found.text) == tag.startswith("W/")
    assert admin.get(ONE).json == before
    assert act(admin, "hold", f'"other", {good}').status_code == 200


def test_of_two_people_one_decides(admin: Client) -> None:
    tag = admin.get(ONE).headers["ETag"]
    gate = threading.Barrier(2)

    def decide(name: str) -> int:
        gate.wait(30)
        return act(admin, "hold", tag, reason=name).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(decide, ("Ada", "Grace"))) == [200, 412]
    assert [one["event"] for one in admin.get(f"{ONE}/history").json["history"]].count("held") == 1


def test_what_happened_since_makes_a_decision_stale(site: Site, admin: Client) -> None:
    tag = admin.get(ONE).headers["ETag"]
    with site.store() as store:
        record = store.slot(SLOTS[0])
        assert record is not None
        store.hold(record, holds.because(HoldCode.DATA_LEFT, "canaries"))
    assert act(admin, "release", tag).status_code == 412


def test_progress_makes_none_stale(site: Site, admin: Client) -> None:
    """A host that reports each second would keep people from deciding at all."""
    before = admin.get(ONE)
    with site.store() as store:
        record = store.slot(SLOTS[0])
        assert record is not None
        store.amend(record, SlotChanges(step=Step.ERASE, fraction=0.5, detail="half"))
    after = admin.get(ONE)
    assert after.json == before.json
    assert after.headers["ETag"] == before.headers["ETag"]
    assert admin.get(f"{ONE}/case").json["fraction"] == 0.5
    assert act(admin, "hold", before.headers["ETag"]).status_code == 200


def test_a_decision_is_written_behind_progress(
    site: Site, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A write between its look and its own is met again, and not told to the person."""
    tag = admin.get(ONE).headers["ETag"]
    written, hold = [], Store.hold

    def raced(store: Store, record: Any, *words: Any, **named: Any) -> Any:
        if not written:
            written.append(store.amend(record, SlotChanges(fraction=0.7)))
        return hold(store, record, *words, **named)

    monkeypatch.setattr(Store, "hold", raced)
    with pytest.raises(ConflictError):
        decisions.hold(Plane([site.file]), SLOTS[0], reason="without a version")
    written.clear()
    assert act(admin, "hold", tag).status_code == 200


@pytest.mark.parametrize(("what", "word"), [("hold", Event.HELD), ("retire", Event.RETIRED)])
def test_a_decision_about_a_slot_whose_host_is_gone_is_not_stale_by_itself(
    site: Site, admin: Client, monkeypatch: pytest.MonkeyPatch, what: str, word: Event
) -> None:
    """Its first half, that nobody has the drive, was a change since the look where the service
    wrote behind it: nothing was done, the answer said."""
    monkeypatch.setattr(Assembly, "placement", property(lambda _assembly: Cloud()))
    monkeypatch.setattr(Assembly, "compute", None)
    slot = Slot("cmp9", "0000:01:00.0")
    path = f"/v1/slots/{slot.host}_{slot.address}"
    with site.store() as store:
        of = {"resource_class": "CUSTOM_NVME", "profile": "x", "policy": "purge"}
        store.enrol(slot, provider=provider(9), in_use=True, consumer=SERVER, **of)
    real, errors = Store.transition, list[Exception]()

    def raced(store: Store, record: Any, event: Event, **named: Any) -> Any:
        if event is word and errors:
            store.amend(record, SlotChanges(detail=str(errors[0])))
            raise errors.pop()
        return real(store, record, event, **named)

    monkeypatch.setattr(Store, "transition", raced)

    def decide() -> testing.Result:
        tag = admin.get(path).headers["ETag"]
        return admin.ask("POST", f"{path}/{what}", {"reason": "it burned"}, If_Match=tag)

    errors.append(UnavailableError("10.0.0.7 is away"))
    found = decide()
    assert (found.status_code, code(found)) == (503, "unfinished")
    assert "in use no more by now, and nothing else is decided" in found.text
    assert "10.0.0.7" not in found.text
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.update(models.slots).values(state="in_use"))
    errors.append(ConflictError("the service was quicker"))
    assert decide().status_code == 200
    lines = [one["event"] for one in admin.get(f"{path}/history").json["history"]]
    assert lines[-2:] == ["release_seen", str(word)]


def test_an_act_is_the_operation_of_the_commands(
    site: Site, admin: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And so has its custody, its locks and its look; nothing here writes for itself."""
    seen: list[str] = []
    for name in ("hold", "release", "retire"):
        real = getattr(decisions, name)

        def spy(*words: Any, _name: str = name, _real: Any = real, **named: Any) -> Any:
            seen.append(_name)
            return _real(*words, **named)

        monkeypatch.setattr(decisions, name, spy)
    found = act(admin, "hold")
    assert found.json["unacted"] == UNACTED
    act(admin, "release")
    act(admin, "retire")
    assert seen == ["hold", "release", "retire"]


def test_the_version_is_of_all_that_is_shown(site: Site, admin: Client) -> None:
    """Whatever of a slot's document changes, a decision that was made before is stale."""
    with site.store() as store:
        changes = (
            SlotChanges(alarm="odd"),
            SlotChanges(consumer="somebody else"),
            SlotChanges(identity=None),
            SlotChanges(profile="p2"),
            SlotChanges(policy="p3"),
            SlotChanges(provider=provider(77)),
            SlotChanges(resource_class="CUSTOM_X"),
            SlotChanges(ticket_ready=True),
            SlotChanges(order_id="o"),
            SlotChanges(new_case=True),
        )
        for one in changes:
            before = admin.get(ONE)
            record = store.slot(SLOTS[0])
            assert record is not None
            store.amend(record, one)
            after = admin.get(ONE)
            assert after.json != before.json, one
            assert after.headers["ETag"] != before.headers["ETag"], one


def test_a_slot_in_use_is_held_at_its_next_release(site: Site, admin: Client) -> None:
    with site.store() as store:
        record = store.slot(SLOTS[0])
        assert record is not None
        store.transition(record, Event.CLAIM_SEEN)
    now = act(admin, "hold")
    assert (now.status_code, code(now)) == (409, "not-now")
    before = admin.get(ONE).headers["ETag"]
    later = act(admin, "hold", at_next_release=True)
    assert (later.json["slot"]["state"], later.json["slot"]["next_hold"]) == ("in_use", "why")
    assert later.headers["ETag"] != before
    assert code(act(admin, "hold", before, at_next_release=True)) == "stale"
    (line,) = (x for x in admin.get("/v1/slots?state=in_use").json["slots"])
    assert line["next_hold"] == "why"
    for odd in ("yes", 1, None):
        assert act(admin, "hold", at_next_release=odd).status_code == 400
    back = act(admin, "release")
    assert back.json["slot"]["next_hold"] is None
    assert admin.get(f"{ONE}/history").json["history"][-1]["by"]["user"] == "ada"
