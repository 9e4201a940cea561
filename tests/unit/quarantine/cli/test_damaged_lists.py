"""One row that cannot be read ends no list: it is named, and the others are given."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.policy import Policy
from eraser.protocol.transport.signing import PrivateKey
from quarantine import cli
from quarantine.errors import UnreadableError
from quarantine.operations import campaigns
from quarantine.operations.campaigns import CampaignQuery, Initiator
from quarantine.operations.plane import Plane
from quarantine.record.database import engine as door
from quarantine.record.store import Store
from quarantine.record.words.facts import NewCertificate, SlotChanges
from quarantine.record.words.states import Event
from tests.unit.quarantine.api.client import ADMIN, DRIVE, NAMES, SLOTS, Site
from tests.unit.quarantine.page.visitor import visitor

ADA = Initiator("ada", "", "")
SERVERS = ["0" * 8 + f"-0000-0000-0000-{number:012d}" for number in (1, 2)]


@pytest.fixture
def filled(site: Site) -> Site:
    """Two rows of everything."""
    other = ControllerIdentity(0x144D, 0xA80A, 0x144D, 0xA801, "S2", "m", "nqn.2014.test:2")
    with site.store() as store:
        for name in ("cmp1", "cmp2"):
            store.register_host(name, PrivateKey.generate().public, f"incarnation-of-{name}")
            store.record_refusal("report", name, "no", "0" * 64, "x")
        for identity, slot in ((DRIVE, SLOTS[0]), (other, SLOTS[1])):
            store.note_drive(identity, slot, dirty=True, reason="seen")
        for uuid in SERVERS:
            store.note_server(uuid, "p1", "u")
        for name in ("a", "b"):
            store.put_policy(Policy(name), Initiator("ada"))
    campaigns.begin(Plane([site.file]), "fw1", CampaignQuery(host="cmp1"), reason="x", by=ADA)
    return site


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path)


def damage(site: Site, table: str, column: str, value: str) -> None:
    """A column of the first row, by an expression of SQL."""
    with door.writing(door.make_engine(f"sqlite:///{site.path}/record.db")) as db:
        said = f"UPDATE {table} SET {column} = {value} WHERE rowid = 1"  # noqa: S608
        assert db.execute(sa.text(said)).rowcount == 1


LATER = "json_object('name', 'a', 'later', 1)"
CASES = [
    ("drives", "changed_at", "'yesterday'", "/v1/drives", "digest"),
    ("drives", "reason", "CAST(x'ff' AS TEXT)", "/v1/drives", "digest"),
    ("hosts", "heard_at", "'yesterday'", "/v1/hosts", "name"),
    ("hosts", "registered_at", "'yesterday'", "/v1/hosts", "name"),
    ("servers", "seen_at", "'yesterday'", "/v1/servers", "id"),
    ("refusals", "last_at", "'yesterday'", "/v1/refusals", "id"),
    ("refusals", "excerpt", "x'ff'", "/v1/refusals", "id"),
    ("campaign_slots", "changed_at", "'yesterday'", "/v1/campaigns/fw1/slots", "slot"),
    ("documents", "content", LATER, "/v1/policies", "name"),
    ("documents", "approved_at", "'yesterday'", "/v1/policies", "name"),
]


@pytest.mark.parametrize(("table", "column", "value", "path", "name"), CASES)
def test_the_api_names_it_and_gives_the_others(
    filled: Site, table: str, column: str, value: str, path: str, name: str
) -> None:
    admin = filled.client().as_user(ADMIN)
    member = path.rpartition("/")[2]
    before = [one[name] for one in admin.get(path).json[member]]
    assert len(before) >= 2
    damage(filled, table, column, value)
    admin = filled.client().as_user(ADMIN)
    found: list[Any] = []
    following = f"{path}?limit=1" if table != "documents" else path
    while following:
        page = admin.get(following).json
        found += page[member]
        following = next((one["href"] for one in page.get(f"{member}_links", ())), "")
    assert [one[name] for one in found] == before
    said = [one["damaged"] for one in found if one["damaged"]]
    assert len(said) == 1
    assert column in said[0]
    assert "backup" in said[0]


def test_a_step_of_a_later_release_is_given_as_it_is(filled: Site) -> None:
    damage(filled, "campaign_slots", "step", "'parked'")
    found = filled.client().as_user(ADMIN).get("/v1/campaigns/fw1/slots").json["slots"]
    assert [(one["slot"], one["step"], one["damaged"]) for one in found] == [
        (NAMES[0], "parked", ""),
        (NAMES[1], "waiting", ""),
        (NAMES[2], "waiting", ""),
    ]
    text = visitor(filled).as_user(ADMIN).page("/page/campaigns/fw1").text
    assert "parked" in text


@pytest.mark.parametrize(
    ("table", "column", "value", "path", "said"),
    [
        ("hosts", "jwk", "'{'", "/page/hosts", "cannot be read"),
        ("hosts", "heard_at", "'yesterday'", "/page/hosts", "damaged: heard_at"),
        ("hosts", "heard_at", "'yesterday'", "/page", "Triage"),
        ("drives", "changed_at", "'yesterday'", "/page/drives", "damaged: changed_at"),
        ("campaign_slots", "changed_at", "'x'", "/page/campaigns/fw1", "damaged: changed_at"),
    ],
)
def test_the_page_goes_on(
    filled: Site, table: str, column: str, value: str, path: str, said: str
) -> None:
    damage(filled, table, column, value)
    text = visitor(filled).as_user(ADMIN).page(path).text
    assert said in text
    if path == "/page/hosts":
        assert "cmp1" in text
        assert "cmp2" in text


@pytest.mark.parametrize(
    ("table", "column", "value", "words"),
    [
        ("drives", "changed_at", "'yesterday'", ["drive", "list"]),
        ("refusals", "last_at", "'yesterday'", ["refusal", "list"]),
        ("campaign_slots", "changed_at", "'x'", ["campaign", "slots", "fw1"]),
        ("documents", "content", LATER, ["policy", "list"]),
    ],
)
def test_the_shell_says_so_beside_the_list(
    filled: Site,
    capsys: pytest.CaptureFixture[str],
    table: str,
    column: str,
    value: str,
    words: list[str],
) -> None:
    damage(filled, table, column, value)
    assert cli.main(["--config-file", str(filled.file), *words, "-f", "json"]) == 0
    out, err = capsys.readouterr()
    rows = json.loads(out)
    assert len(rows) >= 2
    assert "damaged" not in rows[0]
    assert f"{column} of this row cannot be read" in err


@pytest.mark.parametrize("words", [[], ["--limit", "5"]])
def test_a_host_that_cannot_be_read_hides_no_other_from_the_shell_which_names_it(
    filled: Site,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    words: list[str],
) -> None:
    damage(filled, "hosts", "jwk" if words else "heard_at", "'yesterday'")
    command = ["--config-file", str(filled.file), "host", "list", "-f", "json", *words]
    assert cli.main(command) == 0
    assert [one["host"] for one in json.loads(capsys.readouterr().out)] == ["cmp2"]
    assert "cmp1" in caplog.text
    if not words:
        with filled.store() as store:
            assert list(store.last_heard()) == ["cmp2"]


@pytest.mark.parametrize(
    ("words", "last"), [([], len(SLOTS)), (["--limit", "2"], 2), (["--host", "cmp1"], 3)]
)
def test_a_slot_that_cannot_be_read_hides_no_other_from_the_shell_which_names_it(
    filled: Site,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    words: list[str],
    last: int,
) -> None:
    damage(filled, "slots", "identity", "'{'")
    command = ["--config-file", str(filled.file), "slot", "list", "-f", "json", *words]
    assert cli.main(command) == 0
    found = [one["slot"] for one in json.loads(capsys.readouterr().out)]
    assert found == [str(slot) for slot in SLOTS[1:last]]
    assert str(SLOTS[0]) in caplog.text


def test_one_host_alone_is_called_damaged(filled: Site) -> None:
    damage(filled, "hosts", "heard_at", "'yesterday'")
    found = filled.client().as_user(ADMIN).get("/v1/hosts/cmp1")
    assert found.status_code == 500
    assert found.json["errors"][0]["code"].endswith("record-damaged")


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", "'garbage'"),
        ("reason", "CAST(x'ff' AS TEXT)"),
        ("detail", "'[1]'"),
        ("detail", "'null'"),
        ("detail", "replace(hex(zeroblob(50000)), '0', '[')"),
        ("generation", "'x'"),
        ("revision", "'x'"),
        ("event", "'No word'"),
    ],
)
def test_a_line_of_history_that_cannot_be_read_is_left_out(
    filled: Site, column: str, value: str
) -> None:
    """Of the fleet's, of its slot's, and of the pages: nobody could name a marker behind it."""
    admin, person = filled.client().as_user(ADMIN), visitor(filled).as_user(ADMIN)
    every = admin.get("/v1/history").json["history"]
    damage(filled, "history", column, value)
    assert admin.get("/v1/history").json["history"] == every[:-1]
    assert admin.get("/v1/history?host=cmp1").status_code == 200
    of_slot = admin.get(f"/v1/slots/{every[-1]['slot']}/history").json["history"]
    assert all(one["revision"] != every[-1]["revision"] for one in of_slot)
    assert f"{len(every) - 1} lines" in person.page("/page/history").text
    assert person.page(f"/page/slots/{every[-1]['slot']}")
    page = admin.get(f"/v1/slots/{every[-1]['slot']}/history?limit=1").json
    for link in page.get("history_links", ()):
        assert admin.get(link["href"]).status_code == 200


def test_an_event_of_another_release_is_told_by_its_word(filled: Site) -> None:
    admin, person = filled.client().as_user(ADMIN), visitor(filled).as_user(ADMIN)
    every = admin.get("/v1/history").json["history"]
    damage(filled, "history", "event", "'sealed'")
    found = admin.get("/v1/history").json["history"]
    said = {
        **every[-1],
        "event": None,
        "reason": f"sealed (of another release): {every[-1]['reason']}",
    }
    assert found == [*every[:-1], said]
    assert "sealed (of another release)" in person.page("/page/history").text


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("at", "'garbage'"),
        ("reason", "CAST(x'ff' AS TEXT)"),
        ("detail", "'{'"),
        ("detail", "'null'"),
        ("detail", "'[1]'"),
        ("detail", """'{"a": 1e999}'"""),
        ("detail", """'{"a": NaN}'"""),
        ("event", "'Claim seen'"),
        ("event", "NULL"),
        ("target", "'in_us'"),
        ("generation", "'x'"),
        ("generation", "1.5"),
        ("revision", "'x'"),
        ("reason", "x'6162'"),
        ("hold_code", "x'6162'"),
        ("by_user", "x'61'"),
    ],
)
def test_evidence_is_not_made_as_if_a_damaged_line_had_not_been(
    filled: Site, column: str, value: str
) -> None:
    """Whose the drive was, and which certificate covers it, is read off these lines."""
    damage(filled, "history", column, value)
    with filled.store() as store, pytest.raises(UnreadableError, match="damaged row"):
        store.history(SLOTS[0])


def test_a_line_of_no_case_may_have_been_of_any(filled: Site) -> None:
    damage(filled, "history", "generation", "'x'")
    with filled.store() as store, pytest.raises(UnreadableError, match="damaged row"):
        store.history(SLOTS[0], 0)


@pytest.mark.parametrize(
    ("column", "value"),
    [("detail", "'{'"), ("at", "'garbage'"), ("reason", "CAST(x'ff' AS TEXT)")],
)
def test_the_command_shows_the_rest_of_a_damaged_history(
    filled: Site, column: str, value: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """It is what somebody looks at whose slot is held for it."""
    with filled.store() as store:
        whole = len(store.history(SLOTS[0]))
    damage(filled, "history", column, value)
    words = ["slot", "history", str(SLOTS[0]), "-f", "json"]
    assert cli.main(["--config-file", str(filled.file), *words]) == 0
    assert len(json.loads(capsys.readouterr().out)) < whole


@pytest.mark.parametrize(
    ("table", "column", "value", "there"),
    [
        ("campaigns", "keep", "'garbage'", False),
        ("campaigns", "version", "'garbage'", False),
        ("campaigns", "reason", "CAST(x'ff' AS TEXT)", False),
        ("campaign_slots", "step", "CAST(x'ff' AS TEXT)", True),
        ("campaign_acts", "at", "'yesterday'", True),
        ("campaign_acts", "reason", "CAST(x'ff' AS TEXT)", True),
        ("campaign_acts", "version", "'garbage'", True),
    ],
)
def test_what_is_damaged_of_one_campaign_hides_no_other(
    filled: Site, table: str, column: str, value: str, there: bool
) -> None:
    """The page had none of them; the API gave numbers that are none."""
    campaigns.begin(Plane([filled.file]), "fw2", CampaignQuery(host="cmp2"), reason="x", by=ADA)
    damage(filled, table, column, value)
    listed = filled.client().as_user(ADMIN).get("/v1/campaigns").json["campaigns"]
    assert [one["id"] for one in listed] == ["fw1", "fw2"][not there :]
    page = visitor(filled).as_user(ADMIN).page("/page/campaigns")
    assert ("/page/campaigns/fw1" in page.links, "/page/campaigns/fw2" in page.links) == (
        there,
        True,
    )
    assert ("cannot be read" in page.text) == (table == "campaign_slots")


def test_an_act_of_a_campaign_that_cannot_be_read_is_left_out(filled: Site) -> None:
    plane = Plane([filled.file])
    campaigns.put(plane, "fw1", campaigns.CampaignState.PAUSED, reason="y", by=ADA)
    damage(filled, "campaign_acts", "at", "'yesterday'")
    assert [one.version for one in campaigns.show(plane, "fw1").acts] == [2]


def lasted(store: Store, slot: Slot) -> None:
    """One case of a slot's drive, which the certificate says took three seconds and more."""
    record = store.slot(slot)
    assert record is not None
    record = store.transition(record, Event.CUSTODY_TAKEN)
    changes = SlotChanges(order_id="o", order_token="jws", identity=DRIVE)
    record = store.transition(record, Event.ORDERED, changes=changes)
    paper = NewCertificate("t", "a" * 64, "", verify_seconds=3.0)
    store.transition(record, Event.CERTIFIED, certificate=paper)


@pytest.mark.parametrize("value", ["'garbage'", "CAST(x'ff' AS TEXT)"])
@pytest.mark.parametrize("column", ["erase_seconds", "verify_seconds"])
def test_how_long_one_case_took_ends_no_count(site: Site, column: str, value: str) -> None:
    """What can be sold, the page of a whole site, and the next orders are not of one old case."""
    with site.store() as store:
        lasted(store, SLOTS[1])
        damage(site, "durations", column, value)
        assert store.last_durations(DRIVE.model, 9) == []
        assert all(isinstance(seconds, float) for _, seconds in store.last_erases(DRIVE.model, 9))
    assert site.client().as_user(ADMIN).get("/v1/capacity").status_code == 200
    assert visitor(site).as_user(ADMIN).get("/page").status_code == 200
