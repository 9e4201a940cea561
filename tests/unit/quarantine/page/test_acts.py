"""What people decide on the page: by whom, on what, and whose request it was."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from quarantine.errors import StaleError
from quarantine.operations import decisions, slots
from quarantine.page import forms
from tests.unit.quarantine.api.client import ADMIN, DRIVE, NAMES, READER, SERVER, SLOTS, Site
from tests.unit.quarantine.page.test_views import change
from tests.unit.quarantine.page.visitor import Page, Visitor, visitor

ONE = f"/page/slots/{NAMES[0]}"
NAMELESS = f"/page/slots/{NAMES[1]}"


def state(site: Site, number: int = 0) -> str:
    with site.store() as store:
        record = store.slot(SLOTS[number])
    assert record is not None
    return record.state.value


def test_a_life_by_decisions(site: Site, admin: Visitor) -> None:
    """Each leads back to the slot, which says what is on record since, and by whom."""
    held = admin.act(ONE, "hold", reason="odd <b>noises</b>")
    assert held.status_code == 303
    assert state(site) == "held"
    done = admin.page(held.headers["Location"])
    assert "held by ada: odd <b>noises</b>" in done.text
    assert "the running service does it" in done.text  # Placement is nowhere
    assert admin.act(ONE, "release", reason="fan replaced", confirm="S1").status_code == 303
    assert state(site) == "released"
    assert admin.act(ONE, "retire", reason="worn", confirm="S1").status_code == 303
    assert state(site) == "retired"
    assert admin.page(ONE).forms == {}
    with site.store() as store:
        record = store.slot(SLOTS[0])
        assert record is not None
        by = [line.by and line.by.user for line in store.history(record.slot)]
    assert by == [None, "ada", "ada", "ada"]


def test_who_may_act_and_not_look_is_shown_no_slot(tmp_path: Path) -> None:
    """A refusal has the words of what was wrong, and nothing of what it is about."""
    policy = tmp_path / "policy.yaml"
    policy.write_text('"nvme_quarantine:slots:get": "!"\n')
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    admin = visitor(site).as_user(ADMIN)
    assert admin.get(ONE).status_code == 403
    token = admin.page("/page/campaign-preview?host=cmp1").forms["/page/campaign-preview/begin"]
    sent = {"token": token["token"], "version": "odd", "reason": "it is hot"}
    told = {
        412: ("hold", sent, "It has changed since you looked, and nothing was done."),
        400: ("retire", {**sent, "reason": " "}, "Nothing was done: say why."),
    }
    with site.store() as store:
        record = store.slot(SLOTS[0])
    assert record is not None
    for status, (act, fields, words) in told.items():
        found = admin.send(f"{ONE}/{act}", fields)
        assert found.status_code == status
        assert words in Page(found.text).text
        for secret in (SERVER, "S1", DRIVE.digest, record.provider, "form below"):
            assert secret not in found.text
    assert state(site) == "released"


@pytest.mark.parametrize("typed", ["", "S", "s1", "S1 2", "S11"])
@pytest.mark.parametrize("act", ["retire"])
def test_what_cannot_be_undone_asks_for_the_serial(
    site: Site, admin: Visitor, act: str, typed: str
) -> None:
    found = admin.act(ONE, act, reason="worn out", confirm=typed)
    assert found.status_code == 400
    assert "what was typed is not the serial number" in found.text
    assert "worn out" in found.text  # nothing is typed twice
    assert state(site) == "released"


def test_a_drive_without_a_serial_is_named_by_its_address(site: Site, admin: Visitor) -> None:
    assert "Type the address 0000:02:00.0" in admin.page(NAMELESS).text
    assert admin.act(NAMELESS, "retire", reason="x", confirm=DRIVE.serial).status_code == 400
    assert admin.act(NAMELESS, "retire", reason="x", confirm=" 0000:02:00.0 ").status_code == 303
    assert state(site, 1) == "retired"


@pytest.mark.parametrize(
    ("reason", "said"), [("", "say why"), ("  ", "say why"), ("x" * 1001, "Nothing")]
)
def test_a_reason_is_what_the_api_takes(site: Site, admin: Visitor, reason: str, said: str) -> None:
    found = admin.act(ONE, "hold", reason=reason)
    assert found.status_code == 400
    assert said in found.text
    assert state(site) == "released"


def test_the_second_of_two_people_sees_what_changed(site: Site, admin: Visitor) -> None:
    fields = {**admin.page(ONE).forms[f"{ONE}/hold"], "reason": "mine"}
    other = visitor(site).as_user(ADMIN)
    assert other.act(ONE, "hold", reason="the other was quicker").status_code == 303
    found = admin.send(f"{ONE}/hold", fields)
    assert found.status_code == 412
    text = Page(found.text).text
    assert "It has changed since you looked, and nothing was done." in text
    assert "held, now held, by ada: the other was quicker" in text
    # The form that comes back is of what is now; the former one stays void.
    assert f"{ONE}/release" in Page(found.text).forms
    assert admin.send(f"{ONE}/hold", fields).status_code == 412


def test_of_two_at_the_same_time_one_decides(site: Site, admin: Visitor) -> None:
    fields = admin.page(ONE).forms[f"{ONE}/hold"]
    gate = threading.Barrier(2)

    def decide(name: str) -> int:
        gate.wait(30)
        return admin.send(f"{ONE}/hold", {**fields, "reason": name}).status_code

    with ThreadPoolExecutor(2) as pool:
        assert sorted(pool.map(decide, ("Ada", "Grace"))) == [303, 412]


def test_what_changes_between_look_and_write_is_told_too(
    site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    from quarantine.page.views import acts

    def late(*_words: object, **_named: object) -> None:
        raise StaleError("it moved")

    monkeypatch.setitem(acts._ACTS, "hold", late)
    assert admin.act(ONE, "hold", reason="x").status_code == 412


def test_a_reader_has_no_button_and_no_act(site: Site) -> None:
    reader = visitor(site).as_user(READER)
    assert reader.page(ONE).forms == {}
    assert "Set-Cookie" not in reader.get(ONE).headers
    assert reader.send(f"{ONE}/hold", {"reason": "x"}).status_code == 403
    assert state(site) == "released"


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": "http://falconframework.org.evil.example"},
        {"Origin": "http://falconframework.org:81"},
        {"Origin": "http://[x"},
        {"Origin": "", "Referer": "https://evil.example/page/slots"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "none"},
        {"Cookie": "other=1"},
        {"Cookie": f"{forms.COOKIE}={'0' * 64}"},
        {"Cookie": f"{forms.COOKIE}="},
    ],
)
def test_another_sites_request_does_nothing(
    site: Site, admin: Visitor, headers: dict[str, str]
) -> None:
    fields = {**admin.page(ONE).forms[f"{ONE}/hold"], "reason": "x"}
    found = admin.send(f"{ONE}/hold", fields, **headers)
    assert (found.status_code, "nothing was done" in found.text) == (403, True)
    assert state(site) == "released"


def test_a_form_is_of_one_caller_and_one_session(tmp_path: Path) -> None:
    site = Site(tmp_path)
    site.file.write_text(
        site.file.read_text().replace("http_basic_admins = ada", "http_basic_admins = ada, rita")
    )
    ada, rita = (visitor(site).as_user(user) for user in (ADMIN, READER))
    fields = {**ada.page(ONE).forms[f"{ONE}/hold"], "reason": "x"}
    # With her own session, and even with his.
    rita.page(ONE)
    assert rita.send(f"{ONE}/hold", fields).status_code == 403
    assert rita.send(f"{ONE}/hold", fields, Cookie=ada.cookie).status_code == 403
    for token in ("", "0" * 64, "ü"):
        assert ada.send(f"{ONE}/hold", {**fields, "token": token}).status_code == 403
    assert ada.send(f"{ONE}/hold", fields).status_code == 303


def test_the_browsers_own_word_counts_where_a_proxy_renames_the_host(
    site: Site, admin: Visitor
) -> None:
    fields = {**admin.page(ONE).forms[f"{ONE}/hold"], "reason": "x"}
    found = admin.send(
        f"{ONE}/hold", fields, Origin="https://cloud.example", Sec_Fetch_Site="same-origin"
    )
    assert found.status_code == 303


@pytest.mark.parametrize(
    ("host", "status"),
    [("127.0.0.1", 303), ("[::1]:8779", 303), ("localhost:8779", 303), ("evil.example", 403)],
)
def test_without_authentication_a_name_may_be_anybodys(
    tmp_path: Path, host: str, status: int
) -> None:
    """A site of another may have its name lead to us: then it is of our origin."""
    site = Site(tmp_path, strategy="noauth")
    everybody = visitor(site)
    fields = {**everybody.page(ONE).forms[f"{ONE}/hold"], "reason": "x"}
    found = everybody.send(f"{ONE}/hold", fields, Host=host, Origin=f"http://{host}")
    assert found.status_code == status


@pytest.mark.parametrize(
    ("body", "kind", "status"),
    [
        ("x" * 20000, forms.TYPE, 413),
        ("a=1&a=2", forms.TYPE, 400),
        ("&".join(f"f{n}=1" for n in range(30)), forms.TYPE, 400),
        ("reason=%ff", forms.TYPE, 400),
        ("{}", "application/json", 415),
        ("reason=x", "text/plain", 415),
        ("", forms.TYPE, 403),
    ],
)
def test_bodies_that_are_no_form_of_ours(
    site: Site, admin: Visitor, body: str, kind: str, status: int
) -> None:
    admin.page(ONE)
    found = admin.ask(
        "POST", f"{ONE}/hold", body, Content_Type=kind, Origin="http://falconframework.org"
    )
    assert found.status_code == status
    assert state(site) == "released"


def test_an_act_is_never_a_link(site: Site, admin: Visitor) -> None:
    found = admin.get(f"{ONE}/hold")
    assert (found.status_code, found.headers["Location"]) == (303, ONE)
    assert admin.ask("POST", ONE, Content_Type=forms.TYPE).status_code == 405
    assert state(site) == "released"


def test_what_the_address_says_was_done_is_only_what_is_on_record(
    site: Site, admin: Visitor
) -> None:
    assert "On record" not in admin.page(f"{ONE}?done=77&unacted=1").text


def test_a_decision_of_a_slot_that_cannot_be_decided(site: Site, admin: Visitor) -> None:
    fields = {**admin.page(ONE).forms[f"{ONE}/hold"], "reason": "x", "confirm": "S1"}
    found = admin.send(f"{ONE}/release", fields)
    assert found.status_code == 409
    assert "Nothing was done." in found.text
    assert decisions.possible(slots.State.IN_USE) == frozenset()


def lend(site: Site) -> None:
    """A server has the first slot's drive."""
    change(site, state="in_use")


def test_a_slot_is_held_at_its_next_release_and_that_is_taken_back(
    site: Site, admin: Visitor
) -> None:
    lend(site)
    page = admin.page(ONE)
    assert set(page.forms) == {f"{ONE}/hold-at-next-release"}
    assert "slot hold cmp1/0000:01:00.0 --at-next-release --reason" in page.text
    done = admin.act(ONE, "hold-at-next-release", reason="odd <b>noises</b>")
    assert done.status_code == 303
    shown = admin.page(done.headers["Location"])
    assert "it is held when the server lets go of it (odd <b>noises</b>)" in shown.text
    assert "to be held at its next release: odd <b>noises</b>" in shown.text
    assert "it is held when the server lets go of it" in admin.page("/page/slots").text
    assert set(shown.forms) == {f"{ONE}/take-back"}
    assert "confirm" not in shown.forms[f"{ONE}/take-back"]  # nothing is lost by it
    stale = shown.forms[f"{ONE}/take-back"]
    assert admin.act(ONE, "take-back", reason="it was the rack").status_code == 303
    assert "it is erased when the server lets go of it" in admin.page(ONE).text
    assert admin.send(f"{ONE}/take-back", {**stale, "reason": "again"}).status_code == 412
    assert state(site) == "in_use"


def test_taking_back_is_no_way_around_what_a_release_asks_for(site: Site, admin: Visitor) -> None:
    assert admin.act(ONE, "hold", reason="odd").status_code == 303
    fields = admin.page(ONE).forms[f"{ONE}/release"]
    found = admin.send(f"{ONE}/take-back", {**fields, "reason": "x"})
    assert found.status_code == 409
    assert state(site) == "held"


def test_a_slot_that_was_let_go_of_still_says_it(site: Site, admin: Visitor) -> None:
    change(site, next_hold="firmware lies")
    page = admin.page(ONE)
    assert "To be held at its next release: firmware lies" in page.text
    assert f"{ONE}/take-back" in page.forms
