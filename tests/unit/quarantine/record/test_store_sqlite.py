"""The store on its embedded default: one file, several processes, power cuts."""

from __future__ import annotations

import os
import re
import signal
import socket
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path
from unittest.mock import MagicMock

import pytest
import sqlalchemy as sa

from quarantine.doors import utc_now
from quarantine.errors import BadInputError, UnavailableError, UnfinishedError
from quarantine.record.database import engine as door
from quarantine.record.database import migrate
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import State
from tests.lab.record import migrated_file
from tests.unit.quarantine.store_suite import SLOT, StoreSuite, current, enrol


@pytest.fixture
def bare_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/record.db"


@pytest.fixture
def url(tmp_path: Path) -> str:
    return migrated_file(tmp_path / "record.db")


class TestSqlite(StoreSuite):
    """All that every database must do."""


def test_the_connection_keeps_what_it_commits(url: str) -> None:
    engine = door.make_engine(url)
    with door.reading(engine) as connection:
        pragmas = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    engine.dispose()
    assert pragmas == {
        "journal_mode": "wal",
        "synchronous": 2,  # FULL
        "foreign_keys": 1,
        "busy_timeout": 30_000,
    }


def test_the_files_are_for_their_owner_alone(bare_url: str, tmp_path: Path) -> None:
    store = Store.open(bare_url)
    store.migrate()
    modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in tmp_path.iterdir()}
    store.close()
    assert modes["record.db"] == 0o600
    assert set(modes.values()) == {0o600}


def test_a_database_machine_that_lost_its_power_is_given_up_in_time() -> None:
    """Else the safety pass stands for as long as the kernel repeats: TCP has no end by itself."""
    server = MagicMock(spec=["pgconn", "fileno", "cursor", "commit", "add_notice_handler"])
    with (
        socket.create_server(("127.0.0.1", 0)) as door_of_it,
        socket.create_connection(door_of_it.getsockname()) as line,
    ):
        server.fileno.return_value = line.fileno()
        door._prepare_server(server, unhurried=False)
        tcp = {
            name: line.getsockopt(socket.IPPROTO_TCP, getattr(socket, f"TCP_{name}"))
            for name in ("USER_TIMEOUT", "KEEPIDLE", "KEEPINTVL", "KEEPCNT")
        }
        assert line.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
    assert tcp["USER_TIMEOUT"] == 30_000
    assert tcp["KEEPIDLE"] + tcp["KEEPINTVL"] * tcp["KEEPCNT"] == 30


@pytest.mark.parametrize("url", ["mariadb://u@h/n", "mysql://u@h/n?charset=utf8&ssl_ca=x"])
def test_a_connection_to_mariadb_takes_any_text(url: str) -> None:
    """utf8 is that server's name for what has no character above U+FFFF: a host that says one was
    refused each time."""
    found = door.parse_url(url)
    assert found.query["charset"] == "utf8mb4"
    assert found.query.get("ssl_ca") == ("x" if "ssl_ca" in url else None)


@pytest.mark.parametrize(
    ("row", "waits"),
    [(("wsrep_on", "ON"), True), (("wsrep_on", "OFF"), False), (None, False)],
    ids=["galera", "mariadb", "mysql"],
)
def test_a_node_of_galera_shows_what_another_committed(
    row: tuple[str, str] | None, waits: bool
) -> None:
    """Else the safety pass, which asks Placement first, may not find that a slot is given back."""
    server = MagicMock(spec=["_sock", "cursor", "commit"])
    cursor = server.cursor.return_value.__enter__.return_value
    cursor.fetchone.return_value = row
    with socket.socketpair()[0] as line:
        server._sock.fileno.return_value = line.fileno()
        door._prepare_server(server, unhurried=False)
    said = [call.args[0] for call in cursor.execute.call_args_list]
    assert ("SET SESSION wsrep_sync_wait = 1" in said) is waits


def test_an_upgrade_asks_galera_for_no_lock_that_it_may_refuse() -> None:
    db = MagicMock()
    db.dialect.name = "mariadb"
    db.exec_driver_sql.return_value.first.return_value = ("wsrep_on", "ON")
    with migrate._alone(db):
        db.scalar.assert_not_called()
    assert db.exec_driver_sql.call_args.args == ("COMMIT",)
    db.execute.assert_not_called()


def test_a_writer_that_is_locked_out_says_so_and_changes_nothing(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door, "BUSY_SECONDS", 0.05)
    store = Store.open(url)
    store.migrate()
    record = enrol(store)
    other = sqlite3.connect(tmp_path / "record.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(UnavailableError, match="locked"):
        store.amend(record, SlotChanges(attempts=1))
    assert store.slot(SLOT) == record
    other.execute("ROLLBACK")
    other.close()
    assert store.amend(record, SlotChanges(attempts=1)).attempts == 1
    store.close()


KILLED = """
import os, signal, sys
from quarantine.record import drives
from quarantine.record.words.states import Event
from quarantine.record.words.states import State
from quarantine.record.store import Store
from tests.lab.record import migrated_file
from tests.unit.quarantine.store_suite import SLOT
store = Store.open(sys.argv[1])
# The last thing before the commit.
drives.after_transition = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
store.transition(store.slot(SLOT), Event.CUSTODY_TAKEN)
"""


def test_a_process_killed_before_its_commit_has_done_nothing(url: str) -> None:
    store = Store.open(url)
    store.migrate()
    record = enrol(store)
    done = subprocess.run([sys.executable, "-c", KILLED, url], check=False, cwd=Path.cwd())
    assert done.returncode == -signal.SIGKILL
    assert current(store) == record
    assert len(store.history(SLOT)) == 1
    assert store.amend(record, SlotChanges(attempts=1)).attempts == 1
    store.close()


def test_a_commit_whose_answer_is_lost_may_have_been_made(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server made it and went away: nobody may say that nothing was changed."""
    store = Store.open(url)
    record = enrol(store)
    dialect = store._engine.dialect
    real = dialect.do_commit

    def lost(connection: object) -> None:
        real(connection)  # type: ignore[arg-type]
        raise sqlite3.OperationalError("server closed the connection unexpectedly")

    with monkeypatch.context() as patched:
        patched.setattr(dialect, "do_commit", lost)
        with pytest.raises(UnfinishedError, match="whether it was made is not known"):
            store.amend(record, SlotChanges(attempts=1))
        with pytest.raises(UnavailableError, match="changed nothing") as read:
            store.slots()
    assert not isinstance(read.value, UnfinishedError)
    assert current(store).attempts == 1
    store.close()


ATTEMPTS = """
import sys
from quarantine.record.words.states import State
from quarantine.record.store import Store
from tests.lab.record import migrated_file
from tests.unit.quarantine.store_suite import SLOT
store = Store.open(sys.argv[1])
print(store.slot(SLOT).attempts)
store.close()
"""


def test_a_second_store_of_a_process_costs_the_first_no_commit(url: str) -> None:
    """To close any descriptor of a file gives up all POSIX locks that the process has on it
    (fcntl(2)): the next process to leave would take itself for the last one, and delete the log of
    what is committed."""

    def seen_by_another() -> int:
        argv = [sys.executable, "-c", ATTEMPTS, url]
        done = subprocess.run(argv, check=True, cwd=Path.cwd(), capture_output=True, text=True)
        return int(done.stdout)

    store = Store.open(url)
    store.migrate()
    record = enrol(store)
    second = Store.open(url)
    assert seen_by_another() == 0
    store.amend(record, SlotChanges(attempts=1))
    assert seen_by_another() == 1
    second.close()
    store.close()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read and write everything")
def test_a_file_of_somebody_else_is_named(tmp_path: Path) -> None:
    path = tmp_path / "record.db"
    path.touch(0o000)
    with pytest.raises(UnavailableError, match=r"to read and write at .*record\.db"):
        Store.open(f"sqlite:///{path}")


def test_a_link_may_lead_to_a_file_that_is_made_now(tmp_path: Path) -> None:
    link = tmp_path / "record.db"
    link.symlink_to(tmp_path / "disk.db")
    store = Store.open(f"sqlite:///{link}")
    store.migrate()
    store.close()
    assert (tmp_path / "disk.db").stat().st_mode & 0o777 == 0o600


def test_a_file_that_is_no_database_is_named_as_such(tmp_path: Path) -> None:
    path = tmp_path / "record.db"
    path.write_bytes(b"this is not a database, but it is long enough to look" * 20)
    store = Store.open(f"sqlite:///{path}")
    with pytest.raises(UnavailableError, match="not a database"):
        store.migrate()
    store.close()


def test_a_missing_directory_is_named(tmp_path: Path) -> None:
    with pytest.raises(UnavailableError, match=r"nowhere.*directory"):
        Store.open(f"sqlite:///{tmp_path}/nowhere/record.db").migrate()


def test_whoever_only_looks_makes_no_record(tmp_path: Path) -> None:
    """It would be theirs: 'upgrade check' as root locked the service out of its own record."""
    store = Store.open(f"sqlite:///{tmp_path}/it's 100% new#.db")
    for look in (store.require_schema, store.answer, store.every_slot):
        with pytest.raises(UnavailableError, match=r"expected a record.*db upgrade"):
            look()
    assert list(tmp_path.iterdir()) == []
    store.migrate()
    store.require_schema()
    assert {path.name.partition("-")[0] for path in tmp_path.iterdir()} >= {"it's 100% new#.db"}
    store.close()


@pytest.mark.parametrize(
    ("url", "found"),
    [
        ("sqlite://", "in memory"),
        ("sqlite:///:memory:", "in memory"),
        ("no url at all", "something else"),
        ("oracle://u:secret@h/d", "'oracle'"),
        ("", "something else"),
    ],
)
def test_a_bad_url_is_one_line_without_the_password(url: str, found: str) -> None:
    with pytest.raises(BadInputError, match=found) as raised:
        Store.open(url)
    assert "\n" not in str(raised.value)
    assert "secret" not in str(raised.value)


def test_counts_read_no_row(url: str) -> None:
    """Rows are kilobytes long: what a scrape asks for is in an index, for every question."""
    store = Store.open(url)
    asked: list[tuple[str, object]] = []

    def note(_c: object, _cursor: object, words: str, values: object, *_more: object) -> None:
        if words.startswith("SELECT"):
            asked.append((words, values))

    sa.event.listen(store._engine, "before_cursor_execute", note)
    since = utc_now()
    store.slot_totals()
    store.late({(State.ERASING, "A"): since}, {State.ERASING: since, State.RELEASED: since})
    store.free_totals(since)
    store.ordered_hosts()
    store.hosts_within([since])
    store.silent_and_needed(since)
    store.last_heard()
    store.last_durations("A", 64)
    store.last_erases("A", 64)
    sa.event.remove(store._engine, "before_cursor_execute", note)
    plans = {}
    with door.reading(store._engine) as db:
        for words, values in asked:
            found = db.exec_driver_sql(f"EXPLAIN QUERY PLAN {words}", values)  # type: ignore[call-overload]
            plans[words] = [str(row[3]) for row in found]
    store.close()
    assert len(plans) == 9
    for words, plan in plans.items():
        reads = [line for line in plan if re.match(r"(SCAN|SEARCH) (slots|hosts|durations)", line)]
        assert reads, words
        wanted = "USING INDEX" if "durations" in words else "USING COVERING INDEX"
        # Rows are read of hosts that have free drives, by their names, and of slots that are late.
        few = ("hosts_1 (name=?)", "(state=? AND entered_at<?)")
        rest = [
            line for line in reads if wanted not in line and not any(each in line for each in few)
        ]
        assert rest == [], words


def test_a_record_that_says_two_schemas_is_no_error_of_ours(tmp_path: Path) -> None:
    """Two upgrades at once, or a restore over what stood: every request was answered with 500."""
    url = migrated_file(tmp_path / "record.db")
    engine = sa.create_engine(url)
    with engine.begin() as db:
        db.exec_driver_sql("INSERT INTO alembic_version VALUES ('0001')")
    store = Store.open(url)
    with pytest.raises(UnavailableError, match="found several"):
        store.require_schema()
    with pytest.raises(UnavailableError, match="found several"):
        store.migrate()
    store.close()
    engine.dispose()
