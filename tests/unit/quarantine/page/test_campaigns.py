"""Campaigns on the page: looked at before, begun with the number typed, stopped with the id."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

import pytest
import sqlalchemy as sa

from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.words.campaign_facts import CampaignStep
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import holds
from tests.unit.quarantine.api.client import ADMIN, NAMES, READER, SLOTS, Site
from tests.unit.quarantine.page.visitor import Page, Visitor, visitor

LOOK = "/page/campaign-preview?host=cmp1&keep_percent=50"
BEGIN = "/page/campaign-preview/begin"
ONE = "/page/campaigns/fw1"


def offer(site: Site) -> None:
    """The first host's slots, and a pace."""
    with site.store() as store, door.writing(store._engine) as db:
        on_host = models.slots.c.host == "cmp1"
        db.execute(sa.update(models.slots).where(on_host).values(state="available", model="m"))
        for number in range(5):
            db.execute(
                sa.insert(models.durations).values(
                    number=number + 1, model="m", erase_seconds=600.0, verify_seconds=120.0
                )
            )


def begin(visitor: Visitor, **typed: str) -> int:
    fields = visitor.page(LOOK).forms[BEGIN]
    said = {"id": "fw1", "reason": "<b>it lies</b>", "confirm": "3", **typed}
    return visitor.send(BEGIN, {**fields, **said}).status_code


@pytest.mark.parametrize("rule", ["get", "preview"])
def test_who_may_decide_and_not_look_is_shown_nothing(tmp_path: Path, rule: str) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text("")
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    offer(site)
    admin = visitor(site).as_user(ADMIN)
    fields = admin.page(LOOK).forms[BEGIN]
    assert begin(admin) == 303
    policy.write_text(f'"nvme_quarantine:campaigns:{rule}": "!"\n')
    blind = visitor(site).as_user(ADMIN)
    blind.cookie = admin.cookie
    where, sent = {
        "get": (f"{ONE}/pause", {"token": fields["token"], "version": "9", "reason": "x"}),
        "preview": (BEGIN, {**fields, "id": "fw2", "seen": "odd", "reason": "x", "confirm": "3"}),
    }[rule]
    assert blind.get({"get": ONE, "preview": LOOK}[rule]).status_code == 403
    found = blind.send(where, sent)
    assert found.status_code == 412
    text = Page(found.text).text
    assert "nothing was done" in text
    for secret in ("cmp1", "lies", "on offer", "form below"):
        assert secret not in text


def test_what_it_comes_to_is_said_before(site: Site, admin: Visitor) -> None:
    offer(site)
    text = admin.page(LOOK).text
    assert "3 slots: on host cmp1" in text
    assert "3 ● on offer: taken in turn" in text
    assert "1 drive at a time, each for 12 min" in text
    assert "in 36 min" in text
    assert "Type the number of slots 3" in text
    seen = admin.page(LOOK).forms[BEGIN]["seen"]
    assert f"campaign begin --host cmp1 --keep 0.5 --seen {seen} --by ada --reason" in text
    assert "stuck" in admin.page(LOOK.replace("50", "90")).text
    nothing = admin.page("/page/campaign-preview?host=cmp9")
    assert "No slot is like that." in nothing.text
    assert BEGIN not in nothing.forms
    assert BEGIN not in admin.page("/page/campaign-preview").forms
    assert admin.page("/page/campaign-preview?certified_before=soon", 400)
    dated = admin.page(f"{LOOK}&certified_before=2099-01-01T00:00").text
    assert "0 slots: on host cmp1, certified before 2099-01-01T00:00:00Z" in dated  # none has one


def test_a_life(site: Site, admin: Visitor) -> None:
    offer(site)
    assert begin(admin) == 303
    page = admin.page(f"{ONE}?done=1")
    assert "On record since" in page.text
    assert "running by ada: <b>it lies</b>" in page.text
    assert "0 of 3 slots have their result" in page.text
    assert "50 % of what would be on offer without it stays there" in page.text
    assert f"/page/slots/{NAMES[0]}" in page.links
    assert set(page.forms) == {f"{ONE}/pause", f"{ONE}/stop"}
    assert admin.act(ONE, "pause", reason="a rush").status_code == 303
    assert set(admin.page(ONE).forms) == {f"{ONE}/resume", f"{ONE}/stop"}
    assert admin.act(ONE, "resume", reason="calm again").status_code == 303
    assert "what was typed is not its id" in admin.act(ONE, "stop", reason="x", confirm="fw2").text
    assert admin.act(ONE, "stop", reason="another way", confirm="fw1").status_code == 303
    over = admin.page(ONE)
    assert over.forms == {}
    assert over.text.count("by ada") >= 4
    listed = admin.page("/page/campaigns").text
    assert "Ended, the newest first" in listed
    assert "None is under way." in listed


def test_a_form_that_is_sent_twice_leads_to_what_it_began(site: Site, admin: Visitor) -> None:
    """Also when the campaign is about other slots by then: it said that nothing was done."""
    with site.store() as store:
        for slot in SLOTS[:3]:
            record = store.slot(slot)
            assert record is not None
            held = store.hold(record, holds.because(HoldCode.HEALTH, "worn"))
    fields = admin.page("/page/campaign-preview?hold_code=health&keep_percent=50").forms[BEGIN]
    fields |= {"id": "fw1", "reason": "it lies", "confirm": "3"}
    first = admin.send(BEGIN, fields)
    with site.store() as store:
        store.transition(held, Event.RELEASED_BY_OPERATOR, reason="campaign fw1: it lies")
    second = admin.send(BEGIN, fields)
    assert (first.status_code, second.status_code) == (303, 303)
    assert first.headers["Location"] == second.headers["Location"]
    assert admin.send(BEGIN, {**fields, "id": "fw2"}).status_code == 412
    other = admin.send(BEGIN, {**fields, "reason": "for another"})
    assert other.status_code == 412
    assert "another campaign has this id" in other.text
    with site.store() as store:
        assert [one.id for one in store.campaign_list(limit=9)] == ["fw1"]


def test_after_a_refused_act_the_page_goes_on_living(site: Site, admin: Visitor) -> None:
    """The script asks the address that the page names; an act's leads to a page for people."""
    offer(site)
    assert begin(admin) == 303

    def asked(html: str) -> str:
        found = re.search(r'data-live="([^"]+)"', html)
        assert found is not None
        return unquote(found[1].replace("&amp;", "&"))

    refused = admin.act(ONE, "stop", reason="x", confirm="fw2")
    assert refused.status_code == 400
    assert asked(refused.text) == ONE
    later = f"{ONE}?marker={NAMES[0]}"
    assert asked(admin.get(f"{later}&done=1").text) == later, "the part that is looked at"
    for path in (ONE, later):
        sign = "&" if "?" in path else "?"
        live = admin.get(f"{path}{sign}part=live")
        assert (live.status_code, live.headers["Content-Type"]) == (200, "application/json")


def test_each_slot_has_its_result_and_the_pool_its_price(site: Site, admin: Visitor) -> None:
    offer(site)
    assert begin(admin) == 303
    with site.store() as store, door.writing(store._engine) as db:
        table = models.campaign_slots
        first = table.c.address == "0000:01:00.0"
        done = {"step": CampaignStep.SKIPPED.value, "result": "a person <i>held</i> it"}
        db.execute(sa.update(table).where(first).values(**done))
        second = table.c.address == "0000:02:00.0"
        taken = {"step": CampaignStep.ERASING.value, "was_free": True}
        db.execute(sa.update(table).where(second).values(**taken))
        slot = models.slots.c.address == "0000:02:00.0"
        db.execute(sa.update(models.slots).where(slot).values(state="erasing"))
    text = admin.page(ONE).text
    assert "a person <i>held</i> it" in text
    assert "1 of 3 slots have their result" in text
    assert "1 drive is missing" in text
    listed = admin.page("/page/campaigns").text
    assert "1 waiting, 1 being erased again, 1 left alone" in listed
    assert "1 drive is missing" in listed
    live = admin.get(f"{ONE}?part=live").json
    assert live["lists"] == {"rows": ["c0", "c1", "c2"]}
    assert live["version"] == "1"


@pytest.mark.parametrize(
    ("typed", "status", "said"),
    [
        ({"confirm": ""}, 400, "is not the number of slots"),
        ({"confirm": "4"}, 400, "is not the number of slots"),
        ({"reason": " "}, 400, "say why"),
        ({"reason": "x" * 1001}, 400, "Nothing was done"),
        ({"id": "-x"}, 400, "expected an id of 1 to 64 letters"),
        ({"seen": "2", "confirm": "2"}, 412, "other slots than when you looked"),
        ({"keep_percent": "101"}, 400, "expected 0 to 100"),
        ({"host": "", "model": ""}, 400, "Nothing was done"),
    ],
)
def test_what_is_not_as_it_was_looked_at_begins_nothing(
    taken_in: tuple[Site, Visitor], typed: dict[str, str], status: int, said: str
) -> None:
    site, admin = taken_in
    fields = admin.page(LOOK).forms[BEGIN]
    words = {"id": "fw1", "reason": "why", "confirm": "3", **typed}
    found = admin.send(BEGIN, {**fields, **words})
    assert found.status_code == status
    assert said in Page(found.text).text
    with site.store() as store:
        assert store.campaign_list(limit=1) == []


@pytest.fixture(scope="module")
def taken_in(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Visitor]:
    site = Site(tmp_path_factory.mktemp("begins"))
    return site, visitor(site).as_user(ADMIN)


def test_as_many_other_slots_are_not_those_that_were_looked_at(site: Site, admin: Visitor) -> None:
    offer(site)
    look = "/page/campaign-preview?model=m&keep_percent=0"
    fields = admin.page(look).forms[BEGIN]
    with site.store() as store, store._writing() as db:
        other = sa.case((models.slots.c.host == "cmp1", "other"), else_="m")
        db.execute(sa.update(models.slots).values(model=other))
    typed = {"id": "fw1", "reason": "why", "confirm": "3"}
    found = admin.send(BEGIN, {**fields, **typed})
    assert found.status_code == 412
    text = Page(found.text).text
    assert "It is about other slots than when you looked, and nothing was done" in text
    assert "cmp2 0000:01:00.0" in text, "the form below is of them as they are now"
    with site.store() as store:
        assert store.campaign_list(limit=1) == []
    again = Page(found.text).forms[BEGIN]
    assert admin.send(BEGIN, {**again, **typed}).status_code == 303


def test_who_comes_second_is_told(site: Site, admin: Visitor) -> None:
    assert begin(admin) == 303
    assert begin(admin, reason="another") == 412  # the id is that one's
    fields = admin.page(ONE).forms[f"{ONE}/pause"]
    assert admin.act(ONE, "pause", reason="quicker").status_code == 303
    late = admin.send(f"{ONE}/pause", {**fields, "reason": "mine"})
    assert late.status_code == 412
    assert "It has changed since you looked" in late.text
    assert admin.send(f"{ONE}/stop", {"reason": "x"}).status_code == 403
    assert admin.get(f"{ONE}/stop").headers["Location"] == ONE
    assert admin.page("/page/campaigns/none", 404)


def test_a_reader_looks_and_begins_nothing(site: Site, admin: Visitor) -> None:
    reader = visitor(site).as_user(READER)
    page = reader.page(LOOK)
    assert "3 slots" in page.text
    assert BEGIN not in page.forms
    assert reader.send(BEGIN, {"host": "cmp1"}).status_code == 403
    assert begin(admin) == 303
    assert reader.page(ONE).forms == {}
    assert reader.send(f"{ONE}/stop", {"reason": "x", "confirm": "fw1"}).status_code == 403


def test_counts_are_for_who_may_see_one(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"nvme_quarantine:campaigns:get": "!"\n')
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    admin = visitor(site).as_user(ADMIN)
    assert begin(admin) == 303
    text = admin.page("/page/campaigns").text
    assert "fw1" in text
    assert "3 waiting" not in text
    assert admin.page(ONE, 403)
