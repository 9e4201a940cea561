"""A row of the record that is damaged costs itself: each other slot, report and case goes on, and
nothing is said as if the row had never been."""

from __future__ import annotations

import errno
import itertools
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.report import HELLO_TYPE, REPORT_TYPE, Hello, SeenDrive
from eraser.protocol.ticket import AllowanceUsed
from quarantine.errors import RefusedError, UnreadableError
from quarantine.evidence import certificate
from quarantine.record.database import damaged, engine
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules.holds import because
from quarantine.service.inbound import messages
from quarantine.service.inbound.intake import URGENT, Lane
from quarantine.service.issue import drive_inventory
from tests.unit.quarantine.evidence import test_lastuse as lastuse
from tests.unit.quarantine.evidence.test_lastuse import ANN, AWAY, BOB, OWNER
from tests.unit.quarantine.evidence.test_serverdrives import Life, life
from tests.unit.quarantine.service.inbound.plane import (
    ALL_WELL,
    INCARNATION,
    Plane,
    hello,
    plane,
    told,
)
from tests.unit.quarantine.service.inbound.test_intake import FakeLists
from tests.unit.quarantine.service.look.test_safety import safety, used_and_let_go
from tests.unit.quarantine.service.look.test_turns import loop_of
from tests.unit.quarantine.smallcloud import (
    LIFE,
    RC,
    Clock,
    Cloud,
    available,
    drive_in,
    enrolled,
    open_store,
    slot_at,
)
from tests.unit.quarantine.testimony import IDENTITY, PROFILE, SLOT

__all__ = ["life", "plane"]

DIRTY, DAMAGED, THIRD, FOURTH = (slot_at(number) for number in (1, 2, 3, 4))
NEXT: Final = Slot("cmp1", "0000:02:00.0")
OTHER_DRIVE: Final = replace(IDENTITY, serial="PHLJ0000002")
NO_TEXT, BYTES, WRONG = "CAST(x'ff' AS TEXT)", "x'6162'", "'garbage'"
"""As SQLite has it: text that is no UTF-8, bytes where text belongs, and a word that is none."""


@pytest.fixture
def cloud() -> Cloud:
    return Cloud(Clock())


@pytest.fixture
def store(tmp_path: Path, cloud: Cloud) -> Iterator[Store]:
    with open_store(tmp_path, cloud.clock) as store:
        yield store


def damage(store: Store, table: str, column: str, value: str, where: str = "1") -> None:
    with engine.writing(store._engine) as db:
        said = f"UPDATE {table} SET {column} = {value} WHERE {where}"  # noqa: S608
        assert db.execute(sa.text(said)).rowcount == 1


ROWS = [
    ("slots", "reason", NO_TEXT),
    ("slots", "provider", NO_TEXT),
    ("slots", "identity", NO_TEXT),
    ("slots", "resource_class", NO_TEXT),
    ("slots", "host", BYTES),
    ("slots", "entered_at", WRONG),
    ("slots", "read_at", BYTES),
    ("slots", "alarm", NO_TEXT),
    ("drives", "certificate", NO_TEXT),
    ("drives", "dirty", NO_TEXT),
]


@pytest.mark.parametrize(("table", "column", "value"), ROWS)
def test_a_dirty_drive_is_reserved_beside_a_damaged_row(
    store: Store, cloud: Cloud, table: str, column: str, value: str
) -> None:
    available(store, cloud, DAMAGED)
    enrolled(store, cloud, THIRD)
    used_and_let_go(store, cloud, DIRTY)
    damage(store, table, column, value, f"address = '{DAMAGED.address}'")
    assert cloud.on_offer(DIRTY)
    passes = safety(store, cloud)
    for _ in range(5):
        passes.run_once()
    assert not cloud.on_offer(DIRTY), "the next tenant gets the last one's data"


def test_a_damaged_row_is_told_once_however_often_it_is_read(
    store: Store, cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    available(store, cloud, DAMAGED)
    damage(store, "slots", "reason", NO_TEXT)
    damaged._tell.cache_clear()
    for _ in range(3):
        readable, unread = store.every_slot()
    assert readable == []
    assert [each.host for each in unread] == [DAMAGED.host]
    assert caplog.text.count("slots: row") == 1


@pytest.mark.parametrize(("table", "column", "value"), ROWS)
def test_another_slots_case_begins_beside_a_damaged_row(
    store: Store, cloud: Cloud, table: str, column: str, value: str
) -> None:
    enrolled(store, cloud, DAMAGED)
    enrolled(store, cloud, THIRD)
    used_and_let_go(store, cloud, DIRTY)
    damage(store, table, column, value, f"address = '{DAMAGED.address}'")
    loop = loop_of(store, cloud, broken=False)
    for _ in range(3):
        loop.round()
        cloud.clock.forward(60)
    record = store.slot(THIRD)
    assert record is not None
    assert record.state is State.ERASING


@pytest.mark.parametrize(
    ("column", "value"),
    [("state", "'in_limbo'"), ("step", "'weigh'"), ("identity", "'{'"), ("entered_at", "'x'")],
)
def test_who_had_the_drive_in_a_slot_that_cannot_be_read_counts(
    plane: Plane, column: str, value: str
) -> None:
    """The row is damaged, or a newer release's; its history says that Bob came after Ann."""
    lastuse.served_here(plane)
    lastuse.enrolled(plane, AWAY)
    claimed = SlotChanges(consumer=BOB)
    record = plane.store.transition(plane.record(AWAY), Event.CLAIM_SEEN, changes=claimed)
    plane.store.transition(record, Event.RELEASE_SEEN)
    damage(plane.store, "slots", column, value, "host = 'cmp2'")
    assert lastuse.erased(plane, SLOT, OWNER).last_user == "none on record"


UNREAD = [("step", "'weigh'"), ("identity", NO_TEXT), ("host", BYTES)]
"""Of a newer release, or damaged; of the last one not even the slot's name can be read."""


def names_it_here(store: Store) -> Hello:
    """Its host, after a boot with other addresses, names the drive of the damaged slot here."""
    seen = SeenDrive(address=THIRD.address, driver="nvme", identity=drive_in(DAMAGED))
    hello = Hello(
        host=THIRD.host, incarnation=LIFE, sequence=1, version="1", drives=(seen,), cases=()
    )
    store.host_seen(THIRD.host, 1, hello)
    return hello


@pytest.mark.parametrize(("column", "value"), UNREAD)
def test_a_drive_that_a_slot_expects_which_cannot_be_read_is_learned_nowhere_else(
    store: Store, cloud: Cloud, column: str, value: str
) -> None:
    """A server has it there, shut off."""
    enrolled(store, cloud, DAMAGED, server="server")
    uuid = cloud.add(THIRD)
    cloud.burn(THIRD)
    store.enrol(THIRD, provider=uuid, resource_class=RC, in_use=False, profile="p", policy="q")
    damage(store, "slots", column, value, f"address = '{DAMAGED.address}'")
    drive_inventory.take(store, names_it_here(store), cloud.clock)
    record = store.slot(THIRD)
    assert record is not None
    assert record.identity is None
    if column != "host":
        assert record.hold_code == HoldCode.TWO_PLACES


@pytest.mark.parametrize(("column", "value"), UNREAD[:2])
def test_a_drive_that_a_slot_expects_which_cannot_be_read_is_held_elsewhere(
    store: Store, cloud: Cloud, column: str, value: str
) -> None:
    enrolled(store, cloud, DAMAGED, server="server")
    moved = SlotChanges(identity=drive_in(DAMAGED))
    store.amend(enrolled(store, cloud, THIRD), moved)
    damage(store, "slots", column, value, f"address = '{DAMAGED.address}'")
    change = drive_inventory.take(store, names_it_here(store), cloud.clock)
    record = store.slot(THIRD)
    assert record is not None
    assert record.hold_code == HoldCode.TWO_PLACES
    assert change.changed == (THIRD,)


def next_report(plane: Plane, slot: Slot = NEXT, drive: ControllerIdentity = OTHER_DRIVE) -> str:
    """Of another drive of the same host, whose order is out too."""
    order = plane.ordered(slot, drive)
    report = replace(
        plane.answer(),
        slot=slot,
        identity=drive,
        order_id=order.order_id,
        nonce=order.nonce,
        generation=order.generation,
    )
    return plane.signed(report, REPORT_TYPE)


def taken(plane: Plane, *reports: str) -> list[str]:
    """What is left of a host's reports after some turns."""
    lists, name = FakeLists(), key(MessageKind.REPORT, SLOT.host)
    lists.push(MessageKind.REPORT, SLOT.host, *reports)
    ticks = itertools.count(0, 3)
    lane = Lane(URGENT, plane.inbox, lists, lambda: [SLOT.host], lambda: float(next(ticks)))
    for _ in range(10):
        lane.turn()
    return [str(entry) for entry in lists.lists[name]]


@pytest.mark.parametrize(
    ("table", "column", "value", "state"),
    [
        ("drives", "reason", NO_TEXT, State.HELD),
        ("drives", "changed_at", WRONG, State.HELD),
        ("drives", "identity", WRONG, State.HELD),
        ("drives", "address", BYTES, State.HELD),
        ("documents", "reason", NO_TEXT, State.CERTIFIED),
        ("documents", "approved_at", WRONG, State.CERTIFIED),
        ("documents", "version", WRONG, State.CERTIFIED),
        ("documents", "approved_by", BYTES, State.CERTIFIED),
    ],
)
def test_a_report_over_a_damaged_row_is_answered_and_the_next_is_heard(
    plane: Plane, table: str, column: str, value: str, state: State
) -> None:
    """Without its drive's row nothing can be certified. Who approved a profile is left out of a
    certificate where that cannot be read: to hold for it would hold each drive of the model."""
    plane.ordered()
    first, second = plane.report(), next_report(plane)
    where = f"serial = '{IDENTITY.serial}'" if table == "drives" else "1"
    damage(plane.store, table, column, value, where)
    assert taken(plane, first, second) == []
    assert plane.record(NEXT).state is State.CERTIFIED
    record = plane.record()
    assert record.state is state
    assert record.hold_code == (HoldCode.RECORD_DAMAGED if state is State.HELD else None)
    for stored in plane.store.certificates():
        certificate.verify(stored.token, [plane.controller.public], "one that was made")


def test_a_slot_whose_own_row_is_damaged_keeps_no_other_report(plane: Plane) -> None:
    plane.ordered()
    first, second = plane.report(), next_report(plane)
    damage(plane.store, "slots", "alarm", NO_TEXT, f"address = '{SLOT.address}'")
    taken(plane, first, second)
    assert plane.record(NEXT).state is State.CERTIFIED


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("created_at", WRONG),
        ("server", NO_TEXT),
        ("owner", NO_TEXT),
        ("order_id", NO_TEXT),
        ("host", "'-'"),
        ("address", "''"),
        ("generation", "'x'"),
    ],
)
def test_a_drive_is_not_held_for_what_is_damaged_of_anothers_certificate(
    plane: Plane, column: str, value: str
) -> None:
    """The next link needs the number, the digest and the token of the one before."""
    plane.ordered()
    plane.inbox.report(plane.report())
    report = next_report(plane)
    damage(plane.store, "certificates", column, value)
    plane.inbox.report(report)
    record = plane.record(NEXT)
    assert (record.state, record.reason) == (State.CERTIFIED, "")


@pytest.mark.parametrize(("column", "value"), [("state", "'in_limbo'"), ("step", "'weigh'")])
def test_a_servers_slot_that_cannot_be_read_is_a_hole_in_its_account(
    life: Life, column: str, value: str
) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    assert life.account(ANN).complete
    life.plane.store.enrol(
        AWAY, provider="rp", resource_class="C", in_use=True, profile="p", policy="q", consumer=ANN
    )
    damage(life.plane.store, "slots", column, value, "host = 'cmp2'")
    assert not life.account(ANN).complete, "she has a drive there"


@pytest.mark.parametrize(("column", "value"), [("detail", "'['"), ("at", "'x'")])
def test_a_damaged_line_that_names_a_server_is_a_hole_in_its_account(
    life: Life, column: str, value: str
) -> None:
    life.used_by(ANN)
    life.released(ANN)
    life.erased()
    record = life.plane.store.enrol(
        AWAY, provider="rp", resource_class="C", in_use=True, profile="p", policy="q", consumer=ANN
    )
    gone = f"the allocation of {ANN} is gone"
    life.plane.store.transition(
        record, Event.RELEASE_SEEN, reason=gone, changes=SlotChanges(consumer=None)
    )
    where = f"reason LIKE '%{ANN}%' AND slot_id = {record.id}"
    damage(life.plane.store, "history", column, value, where)
    assert not life.account(ANN).complete, "she had a drive there"


SHORT = [MemoryError(), OSError(errno.EMFILE, "Too many open files")]


@pytest.mark.parametrize(
    ("error", "seconds", "state"),
    [
        *((error, 1.0, State.CERTIFIED) for error in SHORT),
        *((error, 1e9, State.HELD) for error in SHORT),
    ],
)
def test_what_the_machine_lacks_for_a_moment_holds_nothing(
    plane: Plane, monkeypatch: pytest.MonkeyPatch, error: Exception, seconds: float, state: State
) -> None:
    """What it lacks for good is for a person: one report must not keep the others for ever."""
    plane.ordered()
    right, now = messages.check, [0.0]

    def check(*given: Any) -> Any:
        if now[0] < seconds:
            raise error
        return right(*given)

    monkeypatch.setattr(messages, "check", check)
    lists = FakeLists()
    lists.push(MessageKind.REPORT, SLOT.host, plane.signed(plane.answer(), REPORT_TYPE))
    lane = Lane(URGENT, plane.inbox, lists, lambda: [SLOT.host], lambda: now[0])
    for now[0] in itertools.islice(itertools.count(0.0, 0.5), 6 * messages.PATIENCE):
        lane.turn()
    assert lists.lists[key(MessageKind.REPORT, SLOT.host)] == []
    assert plane.record().state is state


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("digest", f"'{'0' * 64}'"),
        ("number", "0"),
        ("number", "number + 7"),
        ("token", "'no.token.'"),
    ],
)
def test_no_certificate_follows_on_a_chains_end_that_is_damaged(
    plane: Plane, column: str, value: str
) -> None:
    for number, slot in enumerate((SLOT, THIRD)):
        reported(plane, slot, replace(IDENTITY, serial=f"PHLJ100000{number}"))
    with engine.writing(plane.store._engine) as db:
        # A row of theirs names the digest, and SQLite would not have it changed.
        db.execute(sa.text("DELETE FROM testimonies"))
    damage(plane.store, "certificates", column, value, "number = 2")
    record = reported(plane, NEXT, OTHER_DRIVE)
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.RECORD_DAMAGED)


@pytest.mark.parametrize("value", [WRONG, BYTES, "9e999"])
def test_an_old_certificate_without_a_number_is_no_end_of_the_chain(
    plane: Plane, value: str
) -> None:
    reported(plane, SLOT, replace(IDENTITY, serial="PHLJ1000000"))
    reported(plane, THIRD, replace(IDENTITY, serial="PHLJ1000001"))
    damage(plane.store, "certificates", "number", value, "number = 1")
    record = reported(plane, NEXT, OTHER_DRIVE)
    assert (record.state, record.hold_code) == (State.CERTIFIED, None)
    end = plane.store.chain_end()
    assert end is not None
    assert end.number == 3


def three(plane: Plane) -> None:
    for number, slot in enumerate((SLOT, THIRD, FOURTH)):
        reported(plane, slot, replace(IDENTITY, serial=f"PHLJ100000{number}"))


@pytest.mark.parametrize("old", [1, 2])
@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("number", "99"),
        ("number", "1<<61"),
        ("number", "-4"),
    ],
)
def test_an_old_certificate_with_a_wrong_number_is_no_end_of_the_chain(
    plane: Plane, column: str, value: str, old: int
) -> None:
    three(plane)
    damage(plane.store, "certificates", column, value, f"number = {old}")
    record = reported(plane, NEXT, OTHER_DRIVE)
    assert (record.state, record.hold_code) == (State.CERTIFIED, None)
    end = plane.store.chain_end()
    assert end is not None
    assert end.number == 4


def test_two_old_certificates_with_wrong_numbers_are_no_end_of_the_chain(plane: Plane) -> None:
    three(plane)
    for number in (1, 2):
        damage(plane.store, "certificates", "number", "number + 90", f"number = {number}")
    assert reported(plane, NEXT, OTHER_DRIVE).state is State.CERTIFIED


@pytest.mark.parametrize(
    "words",
    [
        # The next one's number is taken: it would be tried for ever.
        "number = 4 WHERE number = 1",
        # Who follows on the third has a lower number, and may be followed itself.
        "number = 0 WHERE number = 3",
        # Only one may name the end, and an old one does.
        "previous = (SELECT digest FROM certificates WHERE number = 3) WHERE number = 2",
    ],
)
def test_no_certificate_follows_where_the_end_cannot_be_told(plane: Plane, words: str) -> None:
    three(plane)
    with engine.writing(plane.store._engine) as db:
        assert db.execute(sa.text(f"UPDATE certificates SET {words}")).rowcount == 1  # noqa: S608
    record = reported(plane, NEXT, OTHER_DRIVE)
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.RECORD_DAMAGED)


@pytest.mark.parametrize("value", [WRONG, BYTES])
@pytest.mark.parametrize("newest", [1, 2])
def test_no_certificate_follows_where_the_newest_has_no_number(
    plane: Plane, newest: int, value: str
) -> None:
    for number, slot in enumerate((SLOT, THIRD)[:newest]):
        reported(plane, slot, replace(IDENTITY, serial=f"PHLJ100000{number}"))
    damage(plane.store, "certificates", "number", value, f"number = {newest}")
    record = reported(plane, NEXT, OTHER_DRIVE)
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.RECORD_DAMAGED)


def reported(plane: Plane, slot: Slot, drive: ControllerIdentity) -> SlotRecord:
    plane.inbox.report(next_report(plane, slot, drive))
    return plane.record(slot)


@pytest.mark.parametrize("value", [NO_TEXT, BYTES])
def test_a_host_whose_name_is_damaged_keeps_no_other_host(
    plane: Plane, caplog: pytest.LogCaptureFixture, value: str
) -> None:
    plane.ordered()
    report = plane.report()
    damage(plane.store, "hosts", "name", value, "name = 'cmp2'")
    lists, ticks = FakeLists(), itertools.count(0, 30)
    lists.push(MessageKind.REPORT, SLOT.host, report)
    damaged._tell.cache_clear()
    lane = Lane(URGENT, plane.inbox, lists, plane.store.host_names, lambda: float(next(ticks)))
    for _ in range(3):
        lane.turn()
    assert lists.lists[key(MessageKind.REPORT, SLOT.host)] == []
    assert plane.record().state is State.CERTIFIED
    assert plane.store.last_heard().keys() == {SLOT.host}
    assert [host.name for host in plane.store.hosts()] == [SLOT.host]
    assert caplog.text.count("hosts: row") == 1


@pytest.mark.parametrize(
    ("column", "value", "version", "named"),
    [
        ("approved_at", WRONG, 4, None),
        ("approved_by", NO_TEXT, 4, None),
        ("approved_by", BYTES, 4, None),
        ("content", "'{'", 4, None),
        ("content", NO_TEXT, 4, None),
        ("version", WRONG, 4, None),
        ("version", "-3", 4, None),
        ("name", NO_TEXT, 4, None),
        ("name", BYTES, 4, None),
        ("name", "'another'", 4, None),
        ("kind", NO_TEXT, 4, None),
        ("kind", WRONG, 4, None),
        ("name", WRONG, 3, "carol"),
        ("version", "-3", 2, "carol"),
        ("content", NO_TEXT, 3, "carol"),
        ("approved_at", WRONG, 3, "carol"),
        ("approved_at", WRONG, 2, "carol"),
    ],
)
def test_who_approved_a_document_before_is_not_named_for_one_that_cannot_be_read(
    plane: Plane, column: str, value: str, version: int, named: str | None
) -> None:
    """The same text was approved, changed, and approved again; what stands between is damaged, or
    is not it."""
    store, other = plane.store, replace(PROFILE, firmware=(*PROFILE.firmware, "OTHER"))
    for content, user in ((other, "ann"), (PROFILE, "bob"), (other, "ann"), (PROFILE, "carol")):
        store.put_profile(content, Initiator(user))
    (newest,) = (line.version for line in store.profiles() if line.name == PROFILE.name)
    damage(
        store,
        "documents",
        column,
        value,
        f"name = '{PROFILE.name}' AND version = {newest - 4 + version}",
    )
    found = store.approved(PROFILE)
    assert (None if found is None else found.approved_by) == named


@pytest.mark.parametrize(
    ("column", "value"), [("created_at", "'noon'"), ("generation", "'x'"), ("host", "x'ff00'")]
)
def test_a_damaged_certificate_is_told_by_the_beginning_of_its_digest_too(
    plane: Plane, column: str, value: str
) -> None:
    plane.ordered()
    plane.inbox.report(plane.report())
    digest = plane.record().certificate or ""
    assert [one.digest for one in plane.store.certificates_beginning(digest[:8])] == [digest]
    damage(plane.store, "certificates", column, value)
    for ask in (plane.store.certificate, plane.store.certificates_beginning):
        with pytest.raises(UnreadableError, match="damaged row"):
            ask(digest)


@pytest.mark.parametrize(("column", "value"), [*UNREAD[:2], ("entered_at", WRONG)])
def test_a_host_is_heard_that_says_something_of_a_slot_that_cannot_be_read(
    plane: Plane, caplog: pytest.LogCaptureFixture, column: str, value: str
) -> None:
    """Else each of its hellos ended there, before it was kept: the host would count as silent, and
    its other slots would get no ticket back."""
    plane.enrol()
    plane.enrol(NEXT, OTHER_DRIVE)
    damage(plane.store, "slots", column, value, f"address = '{SLOT.address}'")
    used = tuple(
        AllowanceUsed(slot.address, "domain", "ada", "a test", "2026-11-20T03:00:00Z")
        for slot in (SLOT, NEXT)
    )
    gate = replace(ALL_WELL, allowances=used)
    for _ in range(2):
        told(plane, 1, gate)
    host = plane.store.host(SLOT.host)
    assert host is not None
    assert (host.sequence, host.hello and host.hello.gate) == (1, gate)
    assert caplog.text.count("ALARM gate-news") == 1
    assert "let domain" in plane.store.history(NEXT)[-1].reason


@pytest.mark.parametrize("value", [NO_TEXT, "'{'"])
def test_a_drive_whose_row_cannot_be_read_keeps_no_other_from_being_compared(
    plane: Plane, value: str
) -> None:
    """Of the same host: its word about all of its slots was lost with that of the one."""
    plane.enrol()
    plane.enrol(NEXT, OTHER_DRIVE)
    damage(plane.store, "drives", "identity", value, f"address = '{SLOT.address}'")
    exchanged = replace(IDENTITY, serial="PHLJ0000009")
    hello(plane, 1, {SLOT.address: IDENTITY, NEXT.address: exchanged})
    record = plane.record(NEXT)
    assert (record.state, record.hold_code) == (State.HELD, HoldCode.ANOTHER_DRIVE)
    seen = plane.store.drive(exchanged.digest)
    assert seen is not None
    assert seen.slot == NEXT


@pytest.mark.parametrize(
    ("column", "value"), [("jwk", "'{'"), ("incarnation", NO_TEXT), ("heard_at", WRONG)]
)
def test_a_host_whose_row_is_damaged_is_registered_anew_on_purpose(
    plane: Plane, column: str, value: str
) -> None:
    """To remove it first would take all of its slots back that are on offer."""
    damage(plane.store, "hosts", column, value, f"name = '{SLOT.host}'")
    again = (SLOT.host, plane.host.public, INCARNATION)
    with pytest.raises(UnreadableError, match=r"^host cmp1: .*--replace$"):
        plane.store.register_host(*again)
    made = plane.store.register_host(*again, replace=True)
    assert (made, made.key) == (plane.store.host(SLOT.host), plane.host.public)
    hello(plane, 1, {})
    known = plane.store.host(SLOT.host)
    assert known is not None
    assert known.sequence == 1


@pytest.mark.parametrize("value", [NO_TEXT, BYTES])
@pytest.mark.parametrize("column", ["reason", "excerpt", "kind", "first_at", "count"])
def test_what_is_refused_again_is_counted_on_a_damaged_row(
    plane: Plane, column: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    """People hear of it, and who wrote it is told that it was refused."""
    for sequence in range(2):
        said = Hello("cmp1", "another-life-of-it", 1, "1", (), ())
        caplog.clear()
        with pytest.raises(RefusedError, match="lost its state"):
            plane.inbox.hello(plane.signed(said, HELLO_TYPE))
        assert "ALARM message-refused host cmp1: " in caplog.text
        if not sequence:
            damage(plane.store, "refusals", column, value)
    (line,) = plane.store.refusal_page(limit=2)
    assert line.count == (1 if column == "count" else 2)


@pytest.mark.parametrize("value", [NO_TEXT, WRONG])
@pytest.mark.parametrize("column", ["excerpt", "first_at"])
def test_an_odd_drive_whose_refusal_is_damaged_keeps_no_other_slot(
    plane: Plane, column: str, value: str
) -> None:
    """It is refused with each hello while a server has it."""
    used = plane.enrol()
    plane.store.transition(used, Event.HELD, reason="a test")
    plane.store.transition(plane.record(), Event.RELEASED_BY_OPERATOR, reason="a test")
    plane.store.transition(plane.record(), Event.CLAIM_SEEN, changes=SlotChanges(consumer=ANN))
    odd = replace(IDENTITY, serial="another")
    hello(plane, 1, {SLOT.address: odd})
    damage(plane.store, "refusals", column, value)
    plane.enrol(NEXT, identity=None)
    hello(plane, 2, {SLOT.address: odd, NEXT.address: OTHER_DRIVE})
    assert plane.record(NEXT).identity == OTHER_DRIVE


@pytest.mark.parametrize("value", [NO_TEXT, BYTES, WRONG])
@pytest.mark.parametrize("column", ["kind", "count"])
def test_a_damaged_refusal_hides_no_count_of_the_others(
    store: Store, column: str, value: str
) -> None:
    for host in ("a", "b"):
        store.record_refusal("report", host, "r", "d", "e")
    damage(store, "refusals", column, value, "host = 'a'")
    counted = store.refusal_totals()
    assert counted.pop("report") == 1
    assert counted in ({}, {"garbage": 1})


_EVER: Final = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("column", ["host", "resource_class", "state", "hold_code", "model"])
def test_a_slot_with_a_text_that_is_none_costs_no_number_of_the_others(
    store: Store, cloud: Cloud, column: str
) -> None:
    """The database counts, and would answer nothing at all."""
    held, free = [DIRTY, DAMAGED], [THIRD, FOURTH]
    for slot in held:
        store.hold(enrolled(store, cloud, slot), because(HoldCode.BY_PERSON, "a test"))
    for slot in free:
        available(store, cloud, slot)
    damage(store, "slots", column, NO_TEXT, f"address = '{held[0].address}'")
    damage(store, "slots", column, NO_TEXT, f"address = '{free[0].address}'")
    late = store.late({}, {State.HELD: _EVER, State.AVAILABLE: _EVER})
    assert sum(one.slots for one in store.slot_totals()) >= 2
    assert sum(late.values()) >= 2
    assert store.held_by_code()[HoldCode.BY_PERSON] >= 1
    assert sum(one.slots for one in store.stock()) >= 2
    assert sum(one.free for one in store.free_totals(_EVER)) >= 1
    assert sum(store.free_of_each_class().values()) >= 1
    assert store.ordered_hosts() == []
    assert store.taken_from_the_pool() == {}


def test_a_code_that_is_no_text_costs_no_count_of_the_other_alarms(store: Store) -> None:
    store.note_alarms({"late": 1, "held": 2})
    damage(store, "alarm_counts", "code", NO_TEXT, "code = 'late'")
    assert store.alarm_totals() == {"held": 2}
