"""What a hostile review of the API did, and what comes of it now."""

from __future__ import annotations

import contextlib
import json
import logging
import sqlite3
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import bcrypt
import pytest
import sqlalchemy as sa
from alembic.script import ScriptDirectory
from sqlalchemy.engine.default import DefaultDialect

from eraser.protocol.identity import Slot
from eraser.protocol.policy import Policy
from eraser.protocol.transport.signing import PrivateKey
from quarantine import logs
from quarantine.api import auth
from quarantine.api.application import Envelope
from quarantine.api.resources.slots import UNACTED
from quarantine.errors import BadInputError, UnavailableError
from quarantine.operations import slots as operations
from quarantine.operations.overview import capacity, health
from quarantine.operations.papers import servers
from quarantine.operations.plane import ServingPlane
from quarantine.record import pages
from quarantine.record.database import engine as door
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator
from tests.unit.quarantine.api.client import ADMIN, DRIVE, NAMES, SERVER, SLOTS, Site, code
from tests.unit.quarantine.api.test_reads import issue


def test_a_hosts_word_for_its_last_owner_puts_nothing_into_a_tenants_view(site: Site) -> None:
    """Of two certificates one has the server by our record, one by the host's word alone."""
    made = issue(site)
    found = servers.show(ServingPlane([site.file]), SERVER)
    assert found.certificates == (made[0].digest,)


def test_a_record_that_another_release_upgraded_meanwhile_is_not_written(site: Site) -> None:
    client = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    version = client.get(path).headers["ETag"]
    with door.writing(door.make_engine(f"sqlite:///{site.path}/record.db")) as db:
        db.execute(sa.text("UPDATE alembic_version SET version_num = '0099'"))
    found = client.ask("POST", f"{path}/hold", {"reason": "no"}, If_Match=version)
    assert (found.status_code, code(found)) == (503, "unavailable")
    assert client.get("/healthcheck").status_code == 503


def test_a_record_that_hangs_costs_all_who_ask_what_can_be_sold_one_count(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other they would have had every thread of the process."""
    counts = []

    def hangs(_plane: object, **_words: object) -> None:
        counts.append(1)
        time.sleep(0.5)
        raise UnavailableError("no answer")

    monkeypatch.setattr(capacity, "show", hangs)
    client = site.client().as_user(ADMIN)
    gate = threading.Barrier(6)

    def ask(_number: int) -> int:
        gate.wait(30)
        return client.get("/v1/capacity").status_code

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(6))) == [503] * 6
    assert len(counts) == 1


def test_a_decision_whose_commit_is_not_answered_is_not_called_undecided(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    version = client.get(path).headers["ETag"]
    commit, hold = DefaultDialect.do_commit, Store.hold

    def lost(dialect: DefaultDialect, connection: object) -> None:
        commit(dialect, connection)  # type: ignore[arg-type]
        raise sqlite3.OperationalError("server closed the connection unexpectedly")

    def held(*words: object, **named: object) -> object:
        with monkeypatch.context() as patched:
            patched.setattr(DefaultDialect, "do_commit", lost)
            return hold(*words, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(Store, "hold", held)
    found = client.ask("POST", f"{path}/hold", {"reason": "look at it"}, If_Match=version)
    assert (found.status_code, code(found)) == (503, "unfinished")
    assert "may be done" in found.json["errors"][0]["detail"]
    with site.store() as store:
        record = store.slot(SLOTS[0])
    assert record is not None
    assert record.reason == "look at it"


def test_a_decision_whose_outcome_cannot_be_read_is_not_called_undecided(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    version = client.get(path).headers["ETag"]

    def away(*_arguments: object, **_options: object) -> None:
        raise UnavailableError("expected the record, found none")

    with monkeypatch.context() as patched:
        patched.setattr(operations, "_views", away)
        found = client.ask("POST", f"{path}/hold", {"reason": "look at it"}, If_Match=version)
    assert (found.status_code, code(found)) == (503, "outcome-unread")
    assert "on record" in found.json["errors"][0]["detail"]
    with site.store() as store:
        record = store.slot(SLOTS[0])
    assert record is not None
    assert record.reason == "look at it"


@pytest.mark.parametrize("moment", ["0001-01-01T00:00:00%2B14:00", "9999-12-31T23:00:00-14:00"])
def test_a_time_beyond_the_calendar_is_bad_input(site: Site, moment: str) -> None:
    client = site.client().as_user(ADMIN)
    found = client.get(f"/v1/exports/certificates?since={moment}")
    assert (found.status_code, code(found)) == (400, "schema")


def test_an_unknown_name_costs_what_a_known_one_does() -> None:
    for cost in (4, 9):
        users = {"ada": bcrypt.hashpw(b"x", bcrypt.gensalt(cost)), "bob": b"$2b$04$" + b"." * 53}
        nobody = auth._nobody(users)
        assert nobody.startswith(b"$2b$%02d$" % cost)
        assert not bcrypt.checkpw(b"x", nobody)


def test_nobody_waits_without_end_while_others_try_passwords(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has a thread of the API meanwhile, and these are few."""
    monkeypatch.setattr(auth, "_TURN", 0.01)
    busy, over = threading.Barrier(auth._CHECKS + 1), threading.Event()

    def slow(*_words: bytes) -> bool:
        busy.wait(10)
        return not over.wait(10)

    client = site.client()
    with monkeypatch.context() as patch, ThreadPoolExecutor(auth._CHECKS) as others:
        patch.setattr(bcrypt, "checkpw", slow)
        tried = [
            others.submit(client.as_user(("eve", "x")).get, "/v1/slots")
            for _ in range(auth._CHECKS)
        ]
        busy.wait(10)
        found = client.as_user(ADMIN).get("/v1/slots")
        over.set()
    assert (found.status_code, code(found)) == (503, "crowded")
    assert found.headers["Retry-After"] == "10"
    assert [one.result().status_code for one in tried] == [401] * auth._CHECKS
    assert client.as_user(ADMIN).get("/v1/slots").status_code == 200


def test_no_log_has_what_was_typed_in_place_of_a_name(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    for name in ("a-password", ADMIN[0]):
        assert site.client().as_user((name, "wrong")).get("/v1/slots").status_code == 401
    assert "a-password" not in caplog.text
    assert f"refused, of '{ADMIN[0]}'" in caplog.text


@pytest.mark.parametrize(("mode", "digest", "said"), [
    (0o666, "$2b$04$" + "." * 53, "mode 666"),
    (0o600, "$2b$14$" + "." * 53, "cost of bcrypt from 4 to 12"),
    (0o600, "$2b$xx$" + "." * 53, "cost of bcrypt"),
])  # fmt: skip
def test_files_of_names_that_are_refused(tmp_path: Path, mode: int, digest: str, said: str) -> None:
    file = tmp_path / "users"
    file.write_text(f"ada:{digest}\n")
    file.chmod(mode)
    with pytest.raises(BadInputError, match=said):
        auth.HttpBasic(file, ["ada"], lambda *_: [], lambda *_: [])


GIVEN = "req-01234567-89ab-cdef-0123-456789abcdef"


class Lines(logging.Handler):
    """What a process would write on standard error."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.setFormatter(logs.OneLine("%(levelname)s %(name)s: %(message)s"))

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(self.format(record))


def test_each_line_of_a_request_has_its_ids_also_while_an_export_is_sent() -> None:
    """The one of whoever asked too; and the line behind the request has neither."""
    log, lines = logging.getLogger("test.of.ids"), Lines()
    log.addHandler(lines)
    log.setLevel(logging.INFO)
    ids: list[str] = []

    def streamed(environ: auth.Environ, start: auth.StartResponse) -> Iterator[bytes]:
        log.warning("a pool's\nword")
        start("200 OK", [])

        def body() -> Iterator[bytes]:
            log.warning("cut off")
            yield b"x"

        return body()

    def started(_status: str, headers: list[tuple[str, str]], _info: object = None) -> None:
        ids.append(dict(headers)["X-Openstack-Request-Id"])

    environ = {"REQUEST_METHOD": "GET", "HTTP_X_OPENSTACK_REQUEST_ID": GIVEN}
    body = Envelope(streamed)(environ, started)
    log.warning("another one's")
    assert b"".join(body) == b"x"
    log.warning("another one's")
    ours = f"WARNING test.of.ids: [{ids[0]} {GIVEN}] "
    other = "WARNING test.of.ids: another one's"
    assert lines.lines == [f"{ours}a pool's\\x0aword", other, f"{ours}cut off", other]


def damage(site: Site, table: str, **values: str) -> None:
    """Columns of the first row, by expressions of SQL."""
    with door.writing(door.make_engine(f"sqlite:///{site.path}/record.db")) as db:
        said = ", ".join(f"{name} = {value}" for name, value in values.items())
        db.execute(sa.text(f"UPDATE {table} SET {said} WHERE rowid = 1"))  # noqa: S608


@pytest.mark.parametrize(("column", "value"), [
    ("entered_at", "'yesterday'"), ("fraction", "'half'"), ("fraction", "9e999"),
    ("reason", "x'ff'"), ("detail", "CAST(x'ff' AS TEXT)"),
])  # fmt: skip
@pytest.mark.parametrize("sort", ["slot", "-slot", "entered_at", "-entered_at"])
def test_a_damaged_slot_is_named_and_the_others_are_given(
    site: Site, column: str, value: str, sort: str
) -> None:
    damage(site, "slots", **{column: value})
    client = site.client().as_user(ADMIN)
    path, found = f"/v1/slots?limit=4&sort={sort}", []
    while path:
        page = client.get(path)
        assert page.status_code == 200
        found += page.json["slots"]
        path = next((link["href"] for link in page.json.get("slots_links", ())), "")
    said = {one["id"].lower(): one["damaged"] for one in found}
    assert sorted(said) == sorted(name.lower() for name in NAMES)
    assert column in said[NAMES[0].lower()]
    assert "backup" in said[NAMES[0].lower()]
    assert not any(words for name, words in said.items() if name != NAMES[0].lower())
    *lines, last = client.get("/v1/exports/slots").text.splitlines()
    assert len(lines) == json.loads(last)["slots"] == len(NAMES)


@pytest.mark.parametrize(("column", "value"), [("host", "x'ff'"), ("address", "x'ff'")])
def test_a_slot_whose_very_name_is_damaged_ends_no_list(
    site: Site, monkeypatch: pytest.MonkeyPatch, column: str, value: str
) -> None:
    damage(site, "slots", **{column: value})
    monkeypatch.setattr(pages, "CHUNK", 2)
    client = site.client().as_user(ADMIN)
    *lines, last = client.get("/v1/exports/slots").text.splitlines()
    assert len(lines) == json.loads(last)["slots"] == len(NAMES)
    path, seen = "/v1/slots?limit=2", set()
    while path:
        page = client.get(path).json
        seen |= {one["id"] for one in page["slots"]}
        path = next((link["href"] for link in page.get("slots_links", ())), "")
    assert len(seen) == len(NAMES)


def fill(site: Site, table: str) -> list[str]:
    """Four rows, by their names."""
    by = Initiator("ada", "", "")
    drives = [replace(DRIVE, serial=f"S{number}") for number in range(1, 5)]
    with site.store() as store:
        for number, one in enumerate(drives):
            name = f"name{number}"
            if table == "hosts":
                store.register_host(name, PrivateKey.generate().public, "incarnation-0123456789")
            elif table == "servers":
                store.note_server(name, "project", "user")
            elif table == "drives":
                store.note_drive(one, Slot("cmp9", f"0000:0{number}:00.0"), True, "seen")
            elif table == "campaigns":
                store.begin_campaign(name, query="{}", reason="", keep=0, by=by, slots=())
            else:
                store.put_policy(Policy(name=name), by)
    if table == "drives":
        return sorted(one.digest for one in drives)
    return [f"name{number}" for number in range(4)]


@pytest.mark.parametrize("value", ["x'ff'", "CAST(x'ff' AS TEXT)", "CAST(x'00ff' AS TEXT)"])
@pytest.mark.parametrize("limit", [1, 2, 3, 100])
@pytest.mark.parametrize(
    ("table", "column", "path", "member"),
    [
        ("hosts", "name", "hosts", "name"),
        ("servers", "uuid", "servers", "id"),
        ("drives", "digest", "drives", "digest"),
        ("campaigns", "id", "campaigns", "id"),
        ("documents", "name", "policies", "name"),
    ],
)
def test_a_row_whose_very_name_is_no_text_is_left_out_and_the_list_goes_on(
    site: Site, table: str, column: str, path: str, member: str, value: str, limit: int
) -> None:
    names = fill(site, table)
    # A hand on the file, which no foreign key stops.
    with contextlib.closing(sqlite3.connect(site.path / "record.db")) as db, db:
        said = f"UPDATE {table} SET {column} = {value} WHERE {column} = ?"  # noqa: S608
        assert db.execute(said, (names[1],)).rowcount
    client, found = site.client().as_user(ADMIN), []
    following = f"/v1/{path}?limit={limit}"
    while following and len(found) < 20:
        page = client.get(following)
        assert page.status_code == 200
        found += [one[member] for one in page.json[path]]
        following = next((one["href"] for one in page.json.get(f"{path}_links", ())), "")
    assert [one for one in found if one in names] == [names[0], *names[2:]]
    assert len(found) == len(set(found)), "none twice"


def test_a_damaged_certificate_is_named_and_the_others_are_given(site: Site) -> None:
    made = issue(site)
    damage(site, "certificates", created_at="'yesterday'")
    found = site.client().as_user(ADMIN).get("/v1/certificates")
    assert found.status_code == 200
    said = {one["digest"]: one["damaged"] for one in found.json["certificates"]}
    assert list(said) == [one.digest for one in made]
    assert "created_at" in said[made[0].digest]
    assert [bool(words) for words in said.values()] == [True] + [False] * (len(made) - 1)


def test_many_who_ask_for_health_at_once_make_one_look(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks: list[float] = []
    real = Store.passes

    def slow(store: Store) -> object:
        looks.append(time.monotonic())
        time.sleep(0.2)
        return real(store)

    monkeypatch.setattr(health, "SAME_SECONDS", 60.0)
    monkeypatch.setattr(Store, "passes", slow)
    client = site.client()
    with ThreadPoolExecutor(20) as many:
        found = list(many.map(lambda _: client.get("/healthcheck").json, range(20)))
    assert len(looks) == 1
    assert len({one["at"] for one in found}) == 1


def test_health_is_answered_in_time_where_the_record_hangs(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    goes_on, looks = threading.Event(), []

    def hangs(_store: Store) -> None:
        looks.append(1)
        goes_on.wait(60)

    monkeypatch.setattr(health, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(health, "SAME_SECONDS", 0.0)
    monkeypatch.setattr(Store, "require_schema", hangs)
    client, begun = site.client(), time.monotonic()
    try:
        for _ in range(3):
            found = client.get("/healthcheck")
            assert found.status_code == 503
            assert "within" in found.json["checks"][0]["problem"]
        assert looks == [1], "who asks again waits for the same look"
        assert time.monotonic() - begun < 30
    finally:
        goes_on.set()


def test_no_request_reads_the_releases_migrations_again(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each request compiled all of them, twice: 30 of the 36 ms of a processor that it cost."""
    client = site.client().as_user(ADMIN)
    client.get("/v1/slots")

    def never(*_words: object) -> None:
        raise AssertionError("expected nobody to read migrations")

    monkeypatch.setattr(ScriptDirectory, "from_config", never)
    assert client.get("/v1/slots").status_code == 200


def test_what_was_not_acted_on_is_said_in_our_words(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    """The error names a cloud, an address or a file: that is for the log."""
    client = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    version = client.get(path).headers["ETag"]
    done = client.ask("POST", f"{path}/hold", {"reason": "look at it"}, If_Match=version)
    assert done.status_code == 200
    assert done.json["unacted"] == UNACTED
    assert "no-such-cloud" in caplog.text
