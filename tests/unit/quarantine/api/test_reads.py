"""Hosts, certificates, their chain and their export, refusals, and approved documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.policy import Policy
from eraser.protocol.report import REPORT_TYPE, Hello
from eraser.protocol.ticket import (
    Defence,
    DefenceSeen,
    DefenceStanding,
    Exemption,
    GateTestimony,
)
from eraser.protocol.transport.signing import PrivateKey
from quarantine.api.resources import certificates as resource
from quarantine.errors import BadInputError, UnavailableError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import CertificateEvidence, Link, SignedCertificate
from quarantine.evidence.sections import HistoryLine
from quarantine.operations.papers import certificates, ledger
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.operations.papers.ledger import LedgerQuestion
from quarantine.operations.plane import Plane
from quarantine.record import pages
from quarantine.record.alarms import AlarmCall
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.pages import SlotLine, SlotQuery
from quarantine.record.store import Store
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event
from quarantine.rules import holds
from tests.unit.quarantine.api.client import ADMIN, NAMES, READER, SERVER, SLOTS, Client, Site, code
from tests.unit.quarantine.evidence.test_certificate import ISSUER
from tests.unit.quarantine.testimony import ORDER, REPORT

HOST = PrivateKey.generate()
FIRST = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
COUNT = 7


def issue(site: Site) -> list[SignedCertificate]:
    """A chain of seven, an hour apart, the first one of the server's drive; with testimony."""
    key = PrivateKey.from_pem((site.path / "controller.pem").read_bytes(), "key")
    order = key.sign(codec.canonical(ORDER), ORDER_TYPE)
    report = HOST.sign(codec.canonical(REPORT), REPORT_TYPE)
    made: list[SignedCertificate] = []
    with site.store() as store, door.writing(store._engine) as db:
        for number in range(1, COUNT + 1):
            evidence = CertificateEvidence(
                order=ORDER,
                order_token=order,
                report=REPORT,
                report_token=report,
                host_key=HOST.public.thumbprint,
                provider="11111111-1111-4111-8111-111111111111",
                last_user=SERVER,
                history=(HistoryLine("2026-11-20T10:59:00Z", "release_seen", "released", "gone"),),
                withheld=(),
            )
            link = Link(made[-1].digest, number - 1) if made else Link()
            body = certificate.build(evidence, ISSUER, link, "2026-11-20T12:00:00Z")
            signed = certificate.sign(body, key)
            made.append(signed)
            slot = SLOTS[0] if number < 6 else SLOTS[1]
            db.execute(
                sa.insert(models.certificates).values(
                    number=number,
                    digest=signed.digest,
                    previous=link.digest,
                    slot_id=sa.select(models.slots.c.id)
                    .where(models.slots.c.host == slot.host)
                    .where(models.slots.c.address == slot.address)
                    .scalar_subquery(),
                    host=slot.host,
                    address=slot.address,
                    generation=number,
                    drive=codec.digest(number % 2),
                    order_id=str(number),
                    server=SERVER if number == 1 else None,
                    owner=SERVER if number == 2 else None,
                    token=signed.token,
                    created_at=FIRST + timedelta(hours=number - 1),
                )
            )
            db.execute(
                sa.insert(models.testimonies).values(
                    certificate=signed.digest,
                    order_token=order,
                    report_token=report,
                    host_key=json.dumps(HOST.public.jwk()),
                )
            )
    return made


@pytest.fixture(scope="module")
def chain(tmp_path_factory: pytest.TempPathFactory) -> tuple[Site, Client, list[SignedCertificate]]:
    site = Site(tmp_path_factory.mktemp("chain"))
    return site, site.client().as_user(READER), issue(site)


def test_certificates_in_pages(chain: Any) -> None:
    _site, client, made = chain
    found: list[str] = []
    path = "/v1/certificates?limit=3"
    while path:
        page = client.get(path).json
        found += [one["digest"] for one in page["certificates"]]
        path = page["certificates_links"][0]["href"] if "certificates_links" in page else ""
    assert found == [one.digest for one in made]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (f"slot={NAMES[1]}", [6, 7]),
        (f"server={SERVER}", [1, 2]),
        (f"drive={codec.digest(0)}&limit=2", [2, 4]),
        (f"drive={codec.digest(0)}&limit=2&marker=4", [6]),
        (f"slot={NAMES[2]}", []),
    ],
)
def test_certificates_by(chain: Any, query: str, expected: list[int]) -> None:
    page = chain[1].get(f"/v1/certificates?{query}").json["certificates"]
    assert [one["position"] for one in page] == expected


def test_a_certificate_its_text_and_its_testimony(chain: Any) -> None:
    _site, client, made = chain
    path = f"/v1/certificates/{made[1].digest}"
    one = client.get(path).json
    assert (one["position"], one["slot"]) == (2, NAMES[0])
    assert one["certificate"]["previous"] == made[0].digest
    assert one["testimony"] == "agrees"
    text = client.get(f"{path}/signed")
    assert text.headers["Content-Type"] == "application/jose"
    assert text.text == made[1].token
    testimony = client.get(f"{path}/testimony").json
    assert testimony["host_key"] == HOST.public.jwk()
    assert client.get("/v1/ledger").json["digest"] == made[-1].digest


@pytest.mark.parametrize("end", ["", "/signed", "/testimony"])
@pytest.mark.parametrize("digest", ["0" * 64, "0" * 6, "%25", "..", "A" * 64, "0" * 65])
def test_a_certificate_that_is_not_there(chain: Any, digest: str, end: str) -> None:
    """No beginning of a digest is looked for: that would read every certificate."""
    found = chain[1].get(f"/v1/certificates/{digest}{end}")
    assert (found.status_code, code(found)) == (404, "unknown")


def test_a_certificate_that_does_not_hold(site: Site) -> None:
    (one, *_rest) = issue(site)
    with site.store() as store, door.writing(store._engine) as db:
        token = one.token[:-8] + "AAAAAAAA"
        db.execute(
            sa.update(models.certificates)
            .where(models.certificates.c.number == 1)
            .values(token=token)
        )
    found = site.client().as_user(READER).get(f"/v1/certificates/{one.digest}")
    assert (found.status_code, code(found)) == (409, "does-not-hold")
    assert str(site.path) not in found.text


@pytest.mark.parametrize("lacking", ["today", "former"])
def test_a_key_of_ours_that_is_missing_speaks_against_no_certificate(
    tmp_path: Path, lacking: str
) -> None:
    """Nobody knows whether it holds, and our files are nobody's."""
    site = Site(tmp_path)
    (one, *_rest) = issue(site)
    if lacking == "today":
        (site.path / "controller.pem").unlink()
    else:
        option = f"[evidence]\nformer_keys = {site.path}/former.jwk\n"
        site.file.write_text(site.file.read_text().replace("[evidence]\n", option))
    found = site.client().as_user(READER).get(f"/v1/certificates/{one.digest}")
    assert (found.status_code, code(found)) == (503, "unavailable")
    assert "hold" not in found.text
    assert str(site.path) not in found.text


def test_an_export_is_a_ledger(chain: Any, tmp_path: Path, monkeypatch: Any) -> None:
    """Some at a time, all of them, and 'ledger verify' reads it."""
    site, client, made = chain
    monkeypatch.setattr(pages, "CHUNK", 2)
    found = client.get("/v1/exports/certificates")
    assert found.headers["Content-Type"] == "application/x-ndjson"
    assert found.headers["X-Total-Count"] == str(COUNT)
    file = tmp_path / "chain.jsonl"
    file.write_bytes(found.content)
    plane = Plane([site.file])
    question = LedgerQuestion(end=made[-1].digest)
    verified, record = (ledger.verify(plane, files, question) for files in ([file], []))
    assert (verified.count, verified.last) == (record.count, record.last) == (COUNT, question.end)
    assert len(verified.findings) == len(record.findings)  # one order is in all of them
    written = tmp_path / "by-command.jsonl"
    ledger.export(plane, written)
    assert written.read_bytes() == found.content


def test_a_place_where_no_export_can_be_is_told_in_one_line(site: Site, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    for place in (tmp_path / "file" / "x.jsonl", tmp_path / "none" / "x.jsonl"):
        with pytest.raises(BadInputError, match="ledger: expected to write"):
            ledger.export(Plane([site.file]), place)


@pytest.mark.parametrize(
    "broken",
    [
        {"token": sa.literal_column("CAST(X'ff' AS TEXT)")},
        {"token": sa.literal_column("X'41'")},
    ],
    ids=["no text", "bytes"],
)
def test_one_certificate_that_cannot_be_read_ends_no_export(
    site: Site, tmp_path: Path, broken: dict[str, Any]
) -> None:
    made = issue(site)
    with site.store() as store, door.writing(store._engine) as db:
        which = models.certificates.c.number
        db.execute(sa.update(models.certificates).where(which == 2).values(**broken))
        when = {"created_at": sa.literal_column("'garbage'")}
        db.execute(sa.update(models.certificates).where(which == 3).values(**when))
    found = site.client().as_user(READER).get("/v1/exports/certificates")
    lines = [json.loads(line) for line in found.content.splitlines()]
    assert found.headers["X-Total-Count"] == str(len(lines)) == str(len(made))
    assert "certificate 2 of the record: it cannot be read" in lines[1]["damaged"]
    good = [line["jws"] for number, line in enumerate(lines) if number != 1]
    assert good == [one.token for number, one in enumerate(made) if number != 1]
    plane, file = Plane([site.file]), tmp_path / "chain.jsonl"
    ledger.export(plane, file)
    assert file.read_bytes() == found.content
    for files in ([], [file]):
        checked = ledger.verify(plane, files, LedgerQuestion(end=made[-1].digest))
        assert not checked.intact
        assert checked.last == made[-1].digest
    written = certificates.export(plane, TrustedKeys(), tmp_path / "files")
    assert [problem for problem in written.problems if "certificate 2 of the record" in problem]
    assert (tmp_path / "files" / f"{made[2].digest}.json").exists()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("since=2026-11-20T14:00:00Z", 5),
        ("until=2026-11-20T14:00:00Z", 2),
        ("since=2026-11-20T13:30:00%2B00:00&until=2026-11-20T15:30:00Z", 2),
        ("since=2030-01-01T00:00:00Z", 0),
    ],
)
def test_an_export_of_a_time(chain: Any, query: str, expected: int) -> None:
    found = chain[1].get(f"/v1/exports/certificates?{query}")
    assert found.headers["X-Total-Count"] == str(expected)
    assert len(found.content.splitlines()) == expected


@pytest.mark.parametrize("since", ["yesterday", "2026-11-20", "2026-11-20T12:00:00", "9" * 41])
def test_times_that_are_none(chain: Any, since: str) -> None:
    found = chain[1].get(f"/v1/exports/certificates?since={since}")
    assert (found.status_code, code(found)) == (400, "schema")


def test_an_export_holds_some_in_memory(chain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is read before somebody takes it, and no more than that."""
    site, _client, _made = chain
    monkeypatch.setattr(pages, "CHUNK", 2)
    read: list[int] = []
    real = Store.each_certificate

    def counted(store: Store, *words: Any) -> Any:
        for row in real(store, *words):
            read.append(row.number)
            yield row

    monkeypatch.setattr(Store, "each_certificate", counted)
    found = certificates.lines(Plane([site.file]))
    assert read == []
    next(found.lines)
    assert read == [1]


def test_an_export_that_breaks_off_is_no_whole_answer(
    chain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(store: Store, *words: Any) -> Any:
        raise RuntimeError("gone")
        yield

    monkeypatch.setattr(Store, "each_certificate", broken)
    with pytest.raises(RuntimeError, match="gone"):
        chain[1].get("/v1/exports/certificates")


def test_slots_as_lines(chain: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "CHUNK", 2)
    found = chain[1].get("/v1/exports/slots?host=cmp2")
    *lines, last = map(json.loads, found.content.splitlines())
    assert [line["id"] for line in lines] == NAMES[3:]
    assert last == {"slots": 3}
    none = chain[1].get("/v1/exports/slots?host=nowhere")
    assert none.json == {"slots": 0}


def test_slots_that_break_off_do_not_say_how_many(
    chain: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever sits behind a proxy sees by that alone that there were more."""
    real = Store.each_slot

    def broken(store: Store, query: SlotQuery) -> Iterator[SlotLine]:
        yield next(real(store, query))
        raise UnavailableError("gone")

    monkeypatch.setattr(Store, "each_slot", broken)
    monkeypatch.setattr(resource, "SOME", 1)
    plane = Plane([chain[0].file])
    lines = resource._slot_lines(plane, SlotQuery())
    assert json.loads(next(lines))["id"] == NAMES[0]
    with pytest.raises(UnavailableError, match="gone"):
        next(lines)


def test_hosts(site: Site, admin: Client) -> None:
    with site.store() as store:
        for name in ("cmp3", "cmp1", "cmp2"):
            store.register_host(name, PrivateKey.generate().public, "incarnation-00001")
    page = admin.get("/v1/hosts?limit=2").json
    assert [one["name"] for one in page["hosts"]] == ["cmp1", "cmp2"]
    rest = admin.get(page["hosts_links"][0]["href"]).json
    assert [one["name"] for one in rest["hosts"]] == ["cmp3"]
    assert admin.get("/v1/hosts/cmp1").json["heard_at"] is None
    with store._engine.begin() as db:
        long_ago = datetime(2020, 1, 1, tzinfo=UTC)
        db.execute(
            sa.update(models.hosts).where(models.hosts.c.name == "cmp2").values(heard_at=long_ago)
        )
    for silent, names in (("true", ["cmp2"]), ("false", ["cmp1", "cmp3"])):
        listed = admin.get(f"/v1/hosts?silent={silent}").json["hosts"]
        assert [one["name"] for one in listed] == names
    for name in ("cmp9", "..", "<b>", "cmp1%00", "%ff"):
        assert code(admin.get(f"/v1/hosts/{name}")) == "unknown"


def test_a_hosts_defences_and_what_is_exempt_there(site: Site, admin: Client) -> None:
    """By its own word; nothing is made up for one that was not heard."""
    life = "incarnation-00001"
    exempt = Exemption("0000:09:00.0", "a scratch disk", "ada", "2026-11-20T03:00:00Z")
    defences = (
        DefenceSeen(Defence.HOOK, DefenceStanding.ABSENT, "run host-setup"),
        DefenceSeen(Defence.WATCHER, DefenceStanding.ABSENT, "is not required"),
    )
    gate = GateTestimony(defences, (), (), (), (exempt,))
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, life)
        said = admin.get("/v1/hosts/cmp1").json
        assert (said["defences"], said["lacks"], said["exemptions"]) == ([], "", [])
        store.host_seen("cmp1", 1, Hello("cmp1", life, 1, "0.9", (), (), (), gate))
    said = admin.get("/v1/hosts/cmp1").json
    assert [(one["defence"], one["standing"]) for one in said["defences"]] == [
        ("hook", "absent"),
        ("loaded", "unknown"),
        ("patch", "unknown"),
    ]
    assert "hook is absent" in said["lacks"]
    assert said["exemptions"] == [codec.plain(exempt)]
    with site.store() as store:
        store.register_host("cmp2", PrivateKey.generate().public, life)
    listed = admin.get("/v1/hosts").json["hosts"]
    assert {one["name"]: one["lacks"] for one in listed} == {"cmp1": said["lacks"], "cmp2": ""}
    with site.store() as store, store._writing() as db:
        db.execute(sa.update(models.hosts).where(models.hosts.c.name == "cmp1").values(hello="{"))
    (damaged, _other) = admin.get("/v1/hosts").json["hosts"]
    assert damaged["lacks"], "that it cannot be read is not to lack nothing"


def test_capacity(site: Site, admin: Client) -> None:
    """Drives that wait for their erase can not be sold, and come back by themselves."""
    found = admin.get("/v1/capacity").json["capacity"]
    assert {one["host"] for one in found} == {None}
    assert {one["sellable"] for one in found} == {0}
    flavor = found[0]["flavor"]
    hosts = [one["host"] for one in admin.get(f"/v1/capacity?flavor={flavor}").json["capacity"]]
    assert hosts[0] is None
    assert set(hosts[1:]) == {"cmp1", "cmp2"}
    assert len(admin.get(f"/v1/capacity?flavor={flavor}&limit=1").json["capacity"]) == 2
    for words in ("flavor=none", "host=cmp9"):
        assert admin.get(f"/v1/capacity?{words}").status_code in (400, 404)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 100])
def test_capacity_has_every_host_and_says_where_it_goes_on(
    site: Site, admin: Client, limit: int
) -> None:
    names = sorted(f"h{number}" for number in range(7))
    with site.store() as store:
        for number, name in enumerate(names):
            slot = Slot(name, "0000:01:00.0")
            words = {"resource_class": "CUSTOM_NVME", "profile": "x", "policy": "purge"}
            store.enrol(slot, provider=f"p{number}", in_use=number % 3 == 0, **words)
    flavor = admin.get("/v1/capacity").json["capacity"][0]["flavor"]
    path, pages = f"/v1/capacity?flavor={flavor}&limit={limit}", []
    while path:
        page = admin.get(path).json
        pages.append([one["host"] for one in page["capacity"]])
        path = next((one["href"] for one in page.get("capacity_links", ())), "")
    assert pages[0][0] is None, "of all hosts, once"
    hosts = [host for page in pages for host in page][1:]
    whole = [one["host"] for one in admin.get(f"/v1/capacity?flavor={flavor}").json["capacity"]]
    assert hosts == whole[1:], "the nearest first"
    assert sorted(hosts) == sorted([*names, "cmp1", "cmp2"])
    assert all(len(page) <= limit + (not number) for number, page in enumerate(pages))
    for bad in ("x", "1~x~1~h", "1~1.0~x~h"):
        assert admin.get(f"/v1/capacity?flavor={flavor}&marker={bad}").status_code == 400


def test_hosts_that_never_have_a_flavor_stand_last(tmp_path: Path) -> None:
    """Whatever is free on them: behind those whose drives only come back later."""
    site = Site(tmp_path, options="[capacity]\nflavors = three:3\n")
    words = {"resource_class": "CUSTOM_NVME", "profile": "x", "policy": "purge", "in_use": True}
    with site.store() as store:
        for number in (1, 2):
            slot = Slot("a-small", f"0000:0{number}:00.0")
            store.enrol(slot, provider=f"small-{number}", **words)
        for number in (1, 2, 3):
            slot = Slot("b-worn", f"0000:0{number}:00.0")
            record = store.enrol(slot, provider=f"worn-{number}", **{**words, "in_use": False})
            if number == 3:
                store.transition(record, Event.RETIRED, reason="worn")
    with site.store() as store, door.writing(store._engine) as db:
        free = models.slots.c.host.in_(("a-small", "b-worn")) & (models.slots.c.state != "retired")
        db.execute(sa.update(models.slots).where(free).values(state="available"))
    admin = site.client().as_user(ADMIN)
    found = admin.get("/v1/capacity?flavor=three").json["capacity"]
    assert [one["host"] for one in found] == [None, "cmp1", "cmp2", "b-worn", "a-small"]
    path, hosts = "/v1/capacity?flavor=three&limit=1", []
    while path:
        page = admin.get(path).json
        hosts += [one["host"] for one in page["capacity"]]
        path = next((one["href"] for one in page.get("capacity_links", ())), "")
    assert hosts == [one["host"] for one in found]


def test_capacity_of_each_flavor_has_pages_too(tmp_path: Path) -> None:
    flavors = [f"f{number}" for number in range(5)]
    said = ", ".join(f"{name}:{number + 1}" for number, name in enumerate(flavors))
    site = Site(tmp_path, options=f"[capacity]\nflavors = {said}\n")
    admin = site.client().as_user(ADMIN)
    for host in ("", "&host=cmp1"):
        path, found = f"/v1/capacity?limit=2{host}", []
        while path:
            page = admin.get(path).json
            found += [one["flavor"] for one in page["capacity"]]
            path = next((one["href"] for one in page.get("capacity_links", ())), "")
        assert found == flavors
    assert admin.get("/v1/capacity?marker=none").status_code == 400


def test_refusals(site: Site, admin: Client) -> None:
    """What strangers sent stays text."""
    with site.store() as store:
        for number in range(3):
            store.record_refusal("report", "cmp1", f"bad {number}", "d", "<script>\x1b[2J\0\ud800")
        store.record_refusal("report", "cmp2", "bad", "d", "x")
    page = admin.get("/v1/refusals?host=cmp1&limit=2").json
    assert [one["reason"] for one in page["refusals"]] == ["bad 0", "bad 1"]
    rest = admin.get(page["refusals_links"][0]["href"]).json
    assert [one["reason"] for one in rest["refusals"]] == ["bad 2"]
    assert len(admin.get("/v1/refusals").json["refusals"]) == 4


def test_the_history_of_the_fleet(site: Site, admin: Client) -> None:
    """The last first, by pages; each line as the slot's own history has it."""
    with site.store() as store:
        record = store.slot(SLOTS[3])
        assert record is not None
        store.hold(record, holds.because(HoldCode.BY_PERSON, "a fan\x1b[2J"))
    first = admin.get("/v1/history?limit=1").json
    (held,) = first["history"]
    assert (held.pop("slot"), held["event"], held["target"]) == (NAMES[3], "held", "held")
    assert held == admin.get(f"/v1/slots/{NAMES[3]}/history").json["history"][-1]
    walked, href = list[str](), first["history_links"][0]["href"]
    while href:
        page = admin.get(href).json
        walked += [one["slot"] for one in page["history"]]
        href = next((one["href"] for one in page.get("history_links", ())), "")
    assert len(walked) == 6, "each slot was enrolled"
    assert set(walked) == set(NAMES)
    of_one = admin.get("/v1/history?host=cmp2").json["history"]
    assert {one["slot"] for one in of_one} == set(NAMES[3:])
    assert [one["slot"] for one in admin.get("/v1/history?event=held").json["history"]] == [
        NAMES[3]
    ]
    assert admin.get("/v1/history?host=cmp2&event=retired").json == {"history": []}
    for bad in ("event=x", "marker=-1", "marker=x", "host=", "limit=0", "since=1"):
        assert admin.get(f"/v1/history?{bad}").status_code == 400, bad


def test_alarms(site: Site, admin: Client) -> None:
    at = FIRST + timedelta(hours=1)
    with site.store() as store:
        store.note_alarms(
            {},
            [
                AlarmCall("on-offer", "cmp1/0000:01:00.0", "free\x1b[2J", FIRST, FIRST, 2),
                AlarmCall("host-silent", "host cmp2", "silent", FIRST, at, 1, at),
                AlarmCall("of-a-newer-release", "cmp1/0000:02:00.0", "?", FIRST, at, 1),
            ],
        )
    page = admin.get("/v1/alarms?limit=2").json
    rest = admin.get(page["alarms_links"][0]["href"]).json["alarms"]
    found = {one["code"]: one for one in [*page["alarms"], *rest]}
    assert found["on-offer"]["severity"] == "critical"
    assert (found["on-offer"]["count"], found["on-offer"]["over_at"]) == (2, None)
    assert found["on-offer"]["remedy"]
    assert found["host-silent"]["over_at"] == "2026-11-20T13:00:00.000000Z"
    assert found["of-a-newer-release"]["severity"] is None

    def codes(words: str) -> set[str]:
        return {one["code"] for one in admin.get(f"/v1/alarms?{words}").json["alarms"]}

    assert codes("host=cmp1") == {"on-offer", "of-a-newer-release"}
    assert codes("host=cmp") == codes("host=cmp%25") == codes("host=cmp_") == set()
    assert codes("over=true") == {"host-silent"}
    assert codes("over=false&code=on-offer") == {"on-offer"}
    assert codes("since=2026-11-20T12:30:00Z") == {"host-silent", "of-a-newer-release"}
    assert codes("severity=critical") == {"on-offer"}
    assert codes("severity=critical&code=host-silent") == set()
    assert codes(f"slot={NAMES[0]}") == {"on-offer"}
    assert admin.get("/v1/alarms?slot=cmp9_0000:01:00.0").status_code == 404
    assert admin.get("/v1/alarms?slot=x").status_code == 404
    walked = list[str]()
    href = "/v1/alarms?limit=1&sort=-last_at"
    while href:
        page = admin.get(href).json
        walked += [one["code"] for one in page["alarms"]]
        href = next((one["href"] for one in page.get("alarms_links", ())), "")
    assert walked == ["host-silent", "of-a-newer-release", "on-offer"]
    for bad in (
        "code=x",
        "over=1",
        "since=noon",
        "since=2026-11-20T12:30:00",
        "marker=x",
        "marker=3",
        "marker=2026-11-20T12:30:00Z~",
        "marker=2026-11-20T12:30:00Z~-1",
        "severity=worst",
        "sort=a",
    ):
        assert admin.get(f"/v1/alarms?{bad}").status_code == 400, bad


def test_alarms_of_a_slot_that_is_not_enrolled_or_damaged(site: Site, admin: Client) -> None:
    """Of these people are called most of all, and the command lists them."""
    stranger = "cmp9/0000:01:00.0"
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.text("UPDATE slots SET identity = '{' WHERE id = 1"))
    with site.store() as store:
        calls = [
            AlarmCall("not-enrolled", stranger, "reserved, enrol it", FIRST, FIRST, 1),
            AlarmCall("record-unreadable", str(SLOTS[0]), "damaged", FIRST, FIRST, 1),
        ]
        store.note_alarms({}, calls)
    strange = stranger.replace("/", "_")
    for name, called in ((strange, "not-enrolled"), (NAMES[0], "record-unreadable")):
        found = admin.get(f"/v1/alarms?slot={name}&limit=1").json
        assert [one["code"] for one in found["alarms"]] == [called]
        assert admin.get(found["alarms_links"][0]["href"]).json == {"alarms": []}
    assert admin.get(f"/v1/slots/{NAMES[0]}").status_code == 500
    assert admin.get(f"/v1/certificates?slot={NAMES[0]}").json == {"certificates": []}
    assert admin.get(f"/v1/certificates?slot={strange}").status_code == 404


def approve(client: Client, content: Any, name: str = "purge", **headers: str) -> Any:
    return client.ask("PUT", f"/v1/policies/{name}", content, **headers)


def test_a_policy_is_approved_version_by_version(admin: Client) -> None:
    content = codec.plain(Policy())
    name = content["name"]
    path = f"/v1/policies/{name}"
    assert admin.get(path).status_code == 404
    assert code(approve(admin, content, name)) == "version-required"
    first = approve(admin, content, name, If_None_Match="*")
    assert (first.json["version"], first.json["approved_by"]) == (1, "ada")
    assert first.headers["ETag"] == '"1"'
    assert code(approve(admin, content, name, If_None_Match="*")) == "stale"
    changed = {**content, "allow_clear": not content["allow_clear"]}
    for tag in ('"2"', '"0"', '"x"', '"-1"', '"' + "9" * 40 + '"', 'W/"1"'):
        assert code(approve(admin, changed, name, If_Match=tag)) == "stale"
    why = f"{name}?reason=it%20was%20found%20lying"
    second = approve(admin, changed, why, If_Match='"1"')
    assert second.json["version"] == 2
    found = admin.get(path).json
    assert found["content"] == changed
    assert (first.json["reason"], found["reason"]) == ("", "it was found lying")
    assert found["request_id"] == second.headers["X-Openstack-Request-Id"]
    assert found["project"] == first.json["project"]
    assert code(approve(admin, changed, f"{name}?reason=", If_Match='"2"')) == "schema"
    (one,) = admin.get("/v1/policies").json["policies"]
    assert one["version"] == 2
    other = {**content, "name": "another"}
    assert approve(admin, other, "another", If_None_Match="*").status_code == 200
    page = admin.get("/v1/policies?limit=1").json
    assert [one["name"] for one in page["policies"]] == ["another"]
    rest = admin.get(page["policies_links"][0]["href"]).json
    assert [one["name"] for one in rest["policies"]] == [name]


@pytest.mark.parametrize(
    "change",
    [{"unknown": 1}, {"name": "another"}, {"name": 1}, {"allow_clear": "yes"}, {"name": ""}],
)
def test_policies_that_are_refused(admin: Client, change: dict[str, Any]) -> None:
    content = {**codec.plain(Policy()), **change}
    found = approve(admin, content, "purge", If_None_Match="*")
    assert found.status_code == 400
    assert admin.get("/v1/policies").json["policies"] == []


def test_a_reader_approves_nothing(site: Site) -> None:
    client = site.client().as_user(READER)
    content = codec.plain(Policy())
    assert approve(client, content, content["name"], If_None_Match="*").status_code == 403
    assert client.as_user(ADMIN).get("/v1/profiles").json["profiles"] == []
