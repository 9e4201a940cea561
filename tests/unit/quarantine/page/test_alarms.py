"""Alarms on the page: the last call first, what each is about, and what to do."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quarantine.record.alarms import AlarmCall
from quarantine.rules.alarmbook import ALARMS, AlarmCode
from tests.unit.quarantine.api.client import NAMES, SLOTS, Site
from tests.unit.quarantine.page.visitor import Visitor

AT = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LATER = AT + timedelta(hours=1)
PATH = "/page/alarms"


def call(site: Site, *calls: AlarmCall) -> None:
    with site.store() as store:
        store.note_alarms({}, calls)


def test_what_is_called_for(site: Site, admin: Visitor) -> None:
    assert "Nobody was called." in admin.page(PATH).text
    call(
        site,
        AlarmCall("on-offer", str(SLOTS[0]), "<b>free</b>\x1b[2J", AT, AT, 2000),
        AlarmCall("host-silent", "host cmp/1", "silent", AT, LATER, 1, LATER),
        AlarmCall("of-a-newer-release", "the worker", "?", AT, AT, 1),
    )
    page = admin.page(PATH)
    assert page.text.index("host cmp 1") < page.text.index(SLOTS[0].address)
    assert f"/page/slots/{NAMES[0]}" in page.links
    assert "/page/hosts/cmp%2F1" in page.links
    assert "<b>free</b>" in page.text
    assert "\x1b" not in page.text
    assert "critical on-offer" in page.text
    assert "2,000 calls since 2026-11-20 12:00" in page.text
    assert ALARMS[AlarmCode.ON_OFFER].remedy.split()[0] in page.text
    assert "Of another release, which knows." in page.text
    assert "3 alarms" in page.text
    assert PATH in admin.page("/page").links


@pytest.mark.parametrize(
    ("words", "seen"),
    [
        ("host=cmp1", "a"),
        ("severity=critical", "a"),
        ("code=host-silent", "bc"),
        ("over=true", "b"),
        ("over=false&severity=&host=", "ac"),
        ("over=false&severity=warning", "c"),
    ],
)
def test_each_filter(site: Site, admin: Visitor, words: str, seen: str) -> None:
    call(
        site,
        AlarmCall("on-offer", str(SLOTS[0]), "text-a", AT, AT, 1),
        AlarmCall("host-silent", "host cmp2", "text-b", AT, AT, 1, LATER),
        AlarmCall("host-silent", "host cmp3", "text-c", AT, AT, 1),
    )
    text = admin.page(f"{PATH}?{words}").text
    assert [one for one in "abc" if f"text-{one}" in text] == list(seen)


def test_pages_keep_their_filter_and_have_no_gap(site: Site, admin: Visitor) -> None:
    calls = (
        AlarmCall("host-silent", f"host c{n}", "x", AT, AT + timedelta(seconds=n // 2), 1)
        for n in range(230)
    )
    call(site, *calls, AlarmCall("on-offer", str(SLOTS[0]), "x", AT, LATER, 1))
    path, hosts = f"{PATH}?code=host-silent", list[str]()
    while path:
        page = admin.page(path)
        hosts += [link for link in page.links if link.startswith("/page/hosts/")]
        path = next((link for link in page.links if "marker=" in link), "")
        assert SLOTS[0].address not in page.text
    assert len(hosts) == len(set(hosts)) == 230


def test_the_same_in_a_shell(site: Site, admin: Visitor) -> None:
    text = admin.page(f"{PATH}?host=cmp1&over=false&severity=critical").text
    assert "alarm list --newest --severity critical --host cmp1 --open" in text
    text = admin.page(f"{PATH}?over=true").text
    assert "alarm list --newest --over" in text


def test_who_may_not_ask_for_them_sees_none(reader: Visitor, site: Site) -> None:
    for words in ("code=x", "severity=x", "marker=x", "over=1", "unknown=1"):
        assert reader.get(f"{PATH}?{words}").status_code == 400, words
