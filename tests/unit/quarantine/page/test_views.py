"""What each view says, to whom, and where its links lead."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.report import Hello, SeenDrive, Step
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding, Exemption, GateTestimony
from eraser.protocol.transport.signing import PrivateKey
from quarantine.operations import maintenance
from quarantine.operations.maintenance import Subject
from quarantine.operations.plane import Plane
from quarantine.operations.slots import Initiator
from quarantine.page.routes import VIEWS
from quarantine.page.texts import marked
from quarantine.page.views.triage import HOSTS
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from tests.unit.quarantine.api.client import ADMIN, DRIVE, NAMES, READER, SERVER, SLOTS, Site
from tests.unit.quarantine.api.test_reads import issue
from tests.unit.quarantine.page.visitor import Page, Visitor, visitor

ONE = f"/page/slots/{NAMES[0]}"


def change(site: Site, **values: Any) -> None:
    """What is in the first slot's row."""
    with site.store() as store, door.writing(store._engine) as db:
        first = sa.and_(models.slots.c.host == SLOTS[0].host)
        first = sa.and_(first, models.slots.c.address == SLOTS[0].address)
        db.execute(sa.update(models.slots).where(first).values(**values))


def hold(site: Site, number: int, code: HoldCode, reason: str) -> None:
    with site.store() as store:
        record = store.slot(SLOTS[number])
        assert record is not None
        store.hold(record, holds.because(code, reason))


def test_triage_says_what_needs_a_person_first(site: Site, admin: Visitor) -> None:
    hold(site, 1, HoldCode.HEALTH, "spare 4 %")
    text = admin.page("/page").text
    assert "The service does not do its work." in text
    assert "Held: 1 slot " in text
    assert "spare 4 %" in text
    assert "To return it: Reseat the drive, slot retire it" in text
    assert text.index("Held: 1 slot") < text.index("Late: 0 slots") < text.index("i1-180")


def test_what_a_release_without_codes_held_is_shown_behind_any_number_of_others(
    site: Site, admin: Visitor
) -> None:
    hold(site, 1, HoldCode.HEALTH, "spare 4 %")
    table = models.slots
    with site.store() as store, door.writing(store._engine) as db:
        row = dict(db.execute(sa.select(table).where(table.c.state == "held")).mappings().one())
        others = [
            {**row, "id": 100 + one, "host": f"w{one}", "provider": f"w-{one}"} for one in range(60)
        ]
        db.execute(sa.insert(table), others)
        words = {"hold_code": None, "reason": "of long ago", "entered_at": datetime.now(UTC)}
        db.execute(sa.update(table).where(table.c.id == row["id"]).values(**words))
    assert "of long ago" in admin.page("/page").text
    found = admin.page("/page/slots?state=held&hold_code=older").text
    assert "of long ago" in found
    assert "spare 4 %" not in found


@pytest.mark.parametrize(
    ("remedy", "shown"),
    [
        ("See [when a slot is held](#when).", "See when a slot is held."),
        ("Pull it ([replacing a drive](#x)); the text says more.", "Pull it; the text says more."),
        ("A [maintenance](#m) silences `it`.", "A maintenance silences <code>it</code>."),
        ("<b> [x](javascript:1)", "&lt;b&gt; x"),
    ],
)
def test_a_remedy_keeps_the_words_of_its_links(remedy: str, shown: str) -> None:
    assert marked(remedy) == shown


def test_a_late_slot_is_named(site: Site, admin: Visitor) -> None:
    change(site, entered_at=datetime.now(UTC) - timedelta(days=2))
    text = admin.page("/page").text
    assert "Late: 1 slot " in text
    assert "has gone on for 2 d 0 h, which is longer than usual" in text


def test_a_late_slot_is_named_behind_any_number_that_are_not(site: Site, admin: Visitor) -> None:
    """They wait for hours, as is usual there; it takes an hour too long for what takes minutes."""
    now, table = datetime.now(UTC), models.slots
    change(site, state="erasing", model="m", entered_at=now - timedelta(minutes=150))
    with site.store() as store, door.writing(store._engine) as db:
        for number in range(1, 7):
            took = {"erase_seconds": 300.0, "verify_seconds": 60.0}
            db.execute(sa.insert(models.durations).values(number=number, model="m", **took))
        row = dict(db.execute(sa.select(table).where(table.c.id == 2)).mappings().one())
        row |= {"state": "quarantined", "entered_at": now - timedelta(hours=5)}
        waiting = [
            {**row, "id": 100 + one, "host": f"w{one}", "provider": f"w-{one}"}
            for one in range(520)
        ]
        db.execute(sa.insert(table), waiting)
    text = admin.page("/page").text
    assert "Late: 1 slot " in text
    assert "cmp1 0000:01:00.0" in text
    assert "2 h 30 min" in text


def test_a_host_that_was_registered_just_now_is_not_silent(site: Site, admin: Visitor) -> None:
    """As triage, capacity and alarms have it: from its registration on it has its time."""
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-0123456789")
    for path in ("/page/hosts", "/page/hosts/cmp1"):
        text = admin.page(path).text
        assert "not heard yet" in text
        assert "silent" not in text
    with site.store() as store, door.writing(store._engine) as db:
        old = datetime.now(UTC) - timedelta(days=2)
        db.execute(sa.update(models.hosts).values(registered_at=old))
    for path in ("/page/hosts", "/page/hosts/cmp1"):
        text = admin.page(path).text
        assert "◌ silent" in text
        assert "not heard yet" in text


def test_what_is_in_maintenance_calls_nobody(site: Site, admin: Visitor) -> None:
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-0123456789")
    old = datetime.now(UTC) - timedelta(days=2)
    change(site, state="erasing", entered_at=old)
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.update(models.hosts).values(registered_at=old))
    assert "Silent hosts: 1 " in admin.page("/page").text
    until = datetime.now(UTC) + timedelta(hours=1)
    by = Initiator("ada", "", "")
    maintenance.begin(Plane([site.file]), Subject("cmp1"), until=until, reason="fan", by=by)
    text = visitor(site).as_user(ADMIN).page("/page").text
    assert "Silent hosts: 0 " in text
    assert "Late: 0 slots " in text


def test_the_fleet_by_host_and_flavor(site: Site, admin: Visitor) -> None:
    """As the issue has it: some of so many can be sold, and when the next one."""
    key = PrivateKey.generate().public
    with site.store() as store, door.writing(store._engine) as db:
        table = models.slots
        db.execute(
            sa.update(table).where(table.c.host == "cmp2").values(state="available", model="m")
        )
        first = sa.and_(table.c.host == "cmp2", table.c.address == SLOTS[3].address)
        db.execute(sa.update(table).where(first).values(state="erasing"))
        for number in range(5):
            db.execute(
                sa.insert(models.durations).values(
                    number=number + 1, model="m", erase_seconds=600.0, verify_seconds=120.0
                )
            )
    with site.store() as store:
        store.register_host("cmp2", key, "incarnation-0123456789")
    text = admin.page("/page/fleet").text
    assert "2 of 3" in text
    assert "one more in 12 min" in text
    assert "not registered" in text  # cmp1, whose word nobody believes


def test_slots_and_filters(reader: Visitor) -> None:
    page = reader.page("/page/slots")
    assert "6 slots" in page.text
    assert "let go" in page.text
    assert "3 slots" in reader.page("/page/slots?host=cmp2&serial=&state=released").text
    assert "No slot is like that." in reader.page("/page/slots?state=held").text


def test_a_slot_says_why_and_what_returns_it(site: Site, admin: Visitor) -> None:
    hold(site, 0, HoldCode.BY_PERSON, "ticket 4711")
    text = admin.page(ONE).text
    assert "Held (by-person): ticket 4711. To return it: Ask them" in text
    assert DRIVE.serial in text
    assert SERVER in text
    assert "2 lines, the newest first" in text
    assert "nvme-quarantine slot release cmp1/0000:01:00.0 --reason" in text


def test_a_case_has_its_place_its_progress_and_its_time(site: Site, admin: Visitor) -> None:
    now = datetime.now(UTC)
    with site.store() as store, door.writing(store._engine) as db:
        table = models.slots
        db.execute(
            sa.update(table)
            .where(table.c.host == "cmp1")
            .values(state="erasing", model="m", entered_at=now - timedelta(seconds=60))
        )
        for number in range(5):
            db.execute(
                sa.insert(models.durations).values(
                    number=number + 1, model="m", erase_seconds=600.0, verify_seconds=120.0
                )
            )
    change(site, entered_at=now, fraction=0.4, step="erase")
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-0123456789")
        record = store.slot(SLOTS[0])
        assert record is not None
        store.amend(record, SlotChanges(step=Step.ERASE, fraction=0.41))
    text = admin.page(ONE).text
    assert "41 %" in text
    assert "2 of 3 open cases of its host began before it" in text
    assert "in 12 min" in text


def test_what_changes_is_sent_alone(site: Site, admin: Visitor) -> None:
    found = admin.get(f"{ONE}?part=live")
    assert [piece[0] for piece in found.json["pieces"]] == ["now", "facts", "life"]
    tag = found.headers["ETag"]
    assert admin.get(f"{ONE}?part=live", If_None_Match=tag).status_code == 304
    change(site, detail="waits for its turn")
    again = admin.get(f"{ONE}?part=live", If_None_Match=tag).json
    assert [
        old[1] != new[1] for old, new in zip(found.json["pieces"], again["pieces"], strict=True)
    ] == [
        True,
        False,
        False,
    ]
    rows = admin.get("/page/slots?part=live").json
    assert len(rows["lists"]["rows"]) == 6
    assert {piece[0] for piece in admin.get("/page?part=live").json["pieces"]} >= {
        "held",
        "hosts",
    }


def seen(*standings: tuple[Defence, DefenceStanding, str]) -> Hello:
    gate = GateTestimony(tuple(DefenceSeen(*one) for one in standings), (), (), ())
    return Hello(
        host="cmp1",
        incarnation="incarnation-0123456789",
        sequence=1,
        version="0.9",
        drives=(SeenDrive("0000:01:00.0", "vfio-pci", DRIVE),),
        cases=(),
        gate=gate,
    )


def test_hosts_and_what_their_defences_miss(site: Site, admin: Visitor) -> None:
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-0123456789")
        hello = seen(
            (Defence.HOOK, DefenceStanding.ABSENT, "run nvme-eraser host-setup"),
            (Defence.LOADED, DefenceStanding.PRESENT, ""),
            (Defence.PATCH, DefenceStanding.PRESENT, ""),
        )
        exempt = Exemption("0000:09:00.0", "a <b>scratch</b> disk", "ada", "2026-11-20")
        assert hello.gate is not None
        gate = replace(hello.gate, exemptions=(exempt,))
        store.host_seen("cmp1", 1, replace(hello, gate=gate))
    listed = admin.page("/page/hosts").text
    assert "host cmp1: hook is absent" in listed
    one = admin.page("/page/hosts/cmp1").text
    assert "No drive is given back to it: host cmp1: hook is absent" in one
    assert "run nvme-eraser host-setup" in one
    assert "vfio-pci" in one
    assert "0000:09:00.0 ada 2026-11-20 a <b>scratch</b> disk" in one
    assert "/page/history?host=cmp1" in admin.page("/page/hosts/cmp1").links
    assert "expected a registered host" in admin.page("/page/hosts/cmp9", 404).text


def test_the_history_of_the_fleet(site: Site, admin: Visitor) -> None:
    with site.store() as store:
        record = store.slot(SLOTS[3])
        assert record is not None
        store.hold(record, holds.because(HoldCode.BY_PERSON, "a <b>fan</b>"))
    page = admin.page("/page/history")
    assert "a <b>fan</b>" in page.text
    assert page.text.index("a <b>fan</b>") < page.text.index("let go")
    assert f"/page/slots/{NAMES[3]}" in page.links
    assert "/page/history" in admin.page("/page").links
    chosen = admin.page("/page/history?host=cmp2&event=held").text
    assert "1 line" in chosen
    assert "nvme-quarantine history list --host cmp2 --event held" in chosen
    assert "Nothing is like that." in admin.page("/page/history?host=nobody").text
    behind = admin.page("/page/history?marker=3")
    assert "2 lines on this page" in behind.text
    assert "/page/history" in behind.links, "the first page"
    admin.page("/page/history?event=x", 400)


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Visitor, Any]:
    site = Site(tmp_path_factory.mktemp("chain"))
    return visitor(site).as_user(READER), issue(site)


def test_certificates_to_read_and_to_print(chain: Any) -> None:
    reader, made = chain
    assert "7 certificates" in reader.page("/page/certificates").text
    assert "2 certificates" in reader.page(f"/page/certificates?server={SERVER}").text
    path = f"/page/certificates/{made[1].digest}"
    page = reader.page(path)
    assert "Testimony agrees" in page.text
    assert f"{SERVER} by the host" in page.text
    placements = reader.page(f"/page/certificates/{made[0].digest}").text
    assert f"{SERVER} Issued" in placements
    sheet = reader.get(f"{path}/sheet")
    assert "Certificate of sanitization" in sheet.text
    policy = sheet.headers["Content-Security-Policy"]
    assert "style-src 'sha256-" in policy
    assert "style=" not in sheet.text.replace("font-style", "")
    assert reader.page(f"/page/certificates/{'0' * 64}", 404)
    assert reader.page("/page/certificates/x", 404)


def test_a_drives_life(chain: Any) -> None:
    """Server by server, certificate by certificate."""
    reader, made = chain
    page = reader.page("/page/certificates")
    drive = next(link for link in page.links if link.startswith("/page/drives/"))
    text = reader.page(drive).text
    assert text.index("Certificate 1 ") < text.index("Certificate 3 ")
    assert f"Server {SERVER} had it" in text
    assert made[0].certificate.drive.identity.model in text
    assert "No certificate names this drive" in reader.page(f"/page/drives/{'0' * 64}").text


def test_every_link_leads_somewhere(chain: Any) -> None:
    reader, _made = chain
    waiting, been = ["/page"], set[str]()
    while waiting:
        path = waiting.pop().partition("#")[0]
        # Pages of the same list by other words are the same view.
        kind = path.partition("?")[0]
        if not path or path in been or len(been) > 150:
            continue
        been.add(path)
        found = reader.get(path)
        # A slot's own drive has no certificate yet, and hosts here are not registered.
        expected = (200, 404) if kind.startswith("/page/hosts/") else (200,)
        assert found.status_code in expected, path
        if found.headers["Content-Type"].startswith("text/html"):
            waiting += [link for link in Page(found.text).links if link.startswith("/")]
    assert any("/sheet" in path for path in been)
    assert len(been) >= 40


@pytest.mark.parametrize(
    "path", [view.path for view in VIEWS if view.method == "GET" and "{" not in view.path]
)
def test_nobody_sees_anything(still: Visitor, path: str) -> None:
    found = still.get(f"/page{path}")
    assert found.status_code == 401
    assert found.headers["WWW-Authenticate"].startswith("Basic")
    assert "Who are you?" in found.text
    assert "cmp1" not in found.text


@pytest.mark.parametrize(
    ("refused", "path", "status"),
    [
        ("slots:list", "/page", 403),
        ("slots:list", "/page/slots", 403),
        ("slots:get", ONE, 403),
        ("capacity:get", "/page/fleet", 403),
        ("capacity:get", "/page", 200),
        ("hosts:list", "/page/hosts", 403),
        ("hosts:list", "/page", 200),
        ("slots:history", ONE, 200),
        ("history:list", "/page/history", 403),
        ("certificates:list", "/page/certificates", 403),
        ("drives:get", f"/page/drives/{'0' * 64}", 403),
        ("certificates:get", f"/page/certificates/{'0' * 64}", 403),
    ],
)
def test_the_rules_of_the_api_are_the_pages(
    tmp_path: Path, refused: str, path: str, status: int
) -> None:
    """What somebody may not ask the API for is on no page of his, not as a part of one either."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(f'"nvme_quarantine:{refused}": "!"\n')
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    page = visitor(site).as_user(ADMIN).page(path, status)
    marks = {
        "capacity:get": "i1-180",
        "hosts:list": "Silent hosts",
        "slots:history": "lines, the newest",
        "slots:list": "cmp1",
        "slots:get": "cmp1",
    }
    if mark := marks.get(refused):
        assert mark not in page.text


def test_hostile_texts_stay_texts(site: Site, admin: Visitor) -> None:
    """The drive's model is markup with an escape sequence; so are reasons, and names of hosts."""
    evil = "</script><img src=x onerror=alert(1)>\u202e\x1b[31m`<b>`[x](javascript:alert(1))"
    hold(site, 0, HoldCode.OTHER, evil)
    change(site, alarm=evil, detail=evil, serial=evil[:60], profile=evil, model=evil[:60])
    for path in ("/page", "/page/slots", ONE, f"{ONE}?part=live", "/page/slots?part=live"):
        found = admin.get(path)
        text = found.text if "part" not in path else "".join(p[2] for p in found.json["pieces"])
        assert "<img" not in text
        assert "<script>alert" not in text
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert "\\u001b" in text
    assert "javascript:" not in "".join(Page(admin.get(ONE).text).links)


def test_a_key_of_ours_that_is_missing_speaks_against_no_certificate(
    site: Site, admin: Visitor
) -> None:
    (one, *_rest) = issue(site)
    links = admin.page("/page/certificates").links
    drive = next(link for link in links if link.startswith("/page/drives/"))
    (site.path / "controller.pem").unlink()
    papers = f"/page/certificates/{one.digest}"
    for path, status in ((papers, 503), (f"{papers}/sheet", 503), (drive, 200)):
        found = admin.get(path)
        assert found.status_code == status
        assert "lacks something of its own, such as a key" in found.text
        assert "not hold" not in found.text
        assert str(site.path) not in found.text


@pytest.mark.parametrize("path", [ONE, f"{ONE}?part=live", "/page/slots", "/page/slots?part=live"])
def test_no_words_of_a_host_are_shown_as_a_remedy_of_ours(
    site: Site, admin: Visitor, path: str
) -> None:
    """Nor do they hide a part of themselves, or push ours away: a list cuts the reason alone."""
    says = "x. To return it: `evil` (see [seen](#y))"
    for reason in (says, says + "x" * 3900):
        hold(site, 0, HoldCode.OTHER, reason)
        found = admin.get(path)
        text = found.text if "part" not in path else "".join(p[2] for p in found.json["pieces"])
        assert "<code>evil" not in text
        assert "`evil` (see [seen](#y))" in text
        assert text.count("<b>To return it:</b>") == 1
        assert "<code>slot release</code>" in text
        change(site, state="available")


def test_hostile_words_in_addresses(reader: Visitor) -> None:
    for path in (
        "/page/slots?host=%3Cscript%3Ealert(1)%3C/script%3E%1b",
        "/page/slots/%3Cscript%3E",
        "/page/slots?state=%22%3E%3Cscript%3E",
        "/page/hosts/%3Cscript%3E%0d%0aX:1",
        "/page/drives/%3Cscript%3E",
        "/page/static/..%2f..%2fapplication.py",
        "/page/nothing",
        "/page/slots?limit=5000",
        "/page/slots?marker=x",
    ):
        found = reader.get(path)
        assert found.status_code in (200, 400, 404), path
        assert "<script>alert" not in found.text


def test_a_record_that_is_away_is_said_in_words(site: Site, admin: Visitor) -> None:
    record = site.path / "record.db"
    record.rename(site.path / "elsewhere")
    record.mkdir()
    for path in ("/page", "/page/slots", ONE, "/page/hosts", "/page/certificates"):
        found = admin.get(path)
        assert found.status_code == 503
        assert "Something does not answer" in found.text
        assert "Try again" in found.text
        assert str(site.path) not in found.text
    record.rmdir()
    (site.path / "elsewhere").rename(record)
    assert admin.get("/page").status_code == 200


def test_a_browser_is_led_to_the_page_and_a_program_is_not(still: Visitor) -> None:
    found = still.get("/", Accept="text/html,application/xhtml+xml,*/*;q=0.8")
    assert (found.status_code, found.headers["Location"]) == (303, "/page")
    for kind in ("", "*/*", "application/json, text/html"):
        assert still.get("/", Accept=kind).headers["Content-Type"] == "application/json"


def test_what_is_the_same_for_everybody_is_kept(still: Visitor, reader: Visitor) -> None:
    link = next(one for one in reader.page("/page").links if "page.css" in one)
    found = still.get(link)
    assert "immutable" in found.headers["Cache-Control"]
    assert found.headers["Content-Type"].startswith("text/css")
    assert "no-cache" in still.get("/page/static/page.css").headers["Cache-Control"]


def test_a_retired_drive_is_none_that_the_fleet_can_sell(site: Site, admin: Visitor) -> None:
    """Its place is filled by a person, after what is held was looked at."""
    with site.store() as store:
        for host in ("cmp1", "cmp2"):
            store.register_host(host, PrivateKey.generate().public, "incarnation-0123456789")
    change(site, state="retired")
    text = admin.page("/page/fleet").text
    assert "cmp1 2 0 of 2 , 1 short" in text
    assert "✕ 1 retired" in text
    assert text.index("cmp1 2") < text.index("cmp2 3")
    hold(site, 5, HoldCode.HEALTH, "spare 4 %")
    text = visitor(site).as_user(ADMIN).page("/page/fleet").text
    assert text.index("cmp2 3") < text.index("cmp1 2")


def test_the_fleet_is_in_pages(site: Site, admin: Visitor) -> None:
    with site.store() as store:
        for number in range(HOSTS + 5):
            store.enrol(
                type(SLOTS[0])(f"more{number:03d}", "0000:01:00.0"),
                provider=f"10000000-0000-0000-0000-{number:012d}",
                resource_class="CUSTOM_NVME",
                in_use=False,
                profile="x",
                policy="purge",
            )
    page = admin.page("/page/fleet")
    assert f"Hosts 1 to {HOSTS} of 57" in page.text
    following = next(link for link in page.links if "from=" in link)
    assert "Hosts 51 to 57" in admin.page(following).text
