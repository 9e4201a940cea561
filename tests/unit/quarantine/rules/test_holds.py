"""Reasons to hold a slot: each has a code with a meaning and a remedy; the code decides nothing."""

from __future__ import annotations

import ast
import contextlib
import re
import sqlite3
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy as sa
from alembic import command as alembic

import quarantine
from eraser.protocol.condition import (
    Buffer,
    Condition,
    FirmwareSlots,
    Reservation,
    SecurityState,
)
from eraser.protocol.policy import Label
from eraser.protocol.report import ActRecord, Outcome, Verdict, VisitRecord
from quarantine.operations.overview import holds as operation
from quarantine.operations.plane import Plane
from quarantine.record.database import migrate, models
from quarantine.record.database.engine import make_engine, make_file_private
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.reasons import CODE_LENGTH, HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from quarantine.rules.reports.check import ReasonedRuling, Ruling, check
from tests.unit.quarantine.testimony import (
    CRYPTO,
    FACTS,
    FORMAT,
    HEALTH,
    IDENTITY,
    ORDER,
    RECORD,
    REPORT,
    VERIFICATION,
    command,
)

SOURCES = sorted(Path(quarantine.__file__).parent.rglob("*.py"))
READ = VERIFICATION.namespaces[0]
NOT_CERTAIN = replace(REPORT, verdict=Verdict.UNKNOWN, fit=False, reasons=("because",))
GONE_WRONG = replace(REPORT, verdict=Verdict.NOT_ERASED, fit=False, reasons=("because",))
UNFIT = replace(REPORT, fit=False, reasons=("because",))
NOTHING = replace(NOT_CERTAIN, methods=())


def seen(**changes: Any) -> dict[str, Any]:
    """The report's verification with other counts."""
    return {"verification": replace(VERIFICATION, namespaces=(replace(READ, **changes),))}


def showed(wrote: bool, **counts: int) -> dict[str, Any]:
    none = ActRecord("read", 1, 0, 0, 0, 0)
    return {"visits": (VisitRecord(1, wrote, (replace(none, **counts),), ()),)}


def found(**changes: Any) -> dict[str, Any]:
    return {"facts_after": replace(FACTS, condition=Condition(**changes))}


def refused(method: Any, after: Any = None) -> dict[str, Any]:
    before = () if after is None else (after,)
    return {"methods": (*before, replace(method, verdict=Verdict.NOT_ERASED))}


CASES = [
    (NOT_CERTAIN, seen(canaries=1, unreadable=3), HoldCode.DATA_LEFT),
    (GONE_WRONG, showed(True, unchanged=2), HoldCode.DATA_LEFT),
    # A drive that says itself that it erased nothing is no liar for what is left on it.
    (GONE_WRONG, seen(canaries=1, unchanged=1) | refused(CRYPTO), HoldCode.COMMAND_FAILED),
    (GONE_WRONG, showed(True, canaries=1, unchanged=1) | refused(CRYPTO), HoldCode.COMMAND_FAILED),
    # The second command refused: its canaries stand, and the first one took what the owner left.
    (GONE_WRONG, seen(canaries=1) | refused(FORMAT, after=CRYPTO), HoldCode.COMMAND_FAILED),
    (GONE_WRONG, seen(unchanged=1) | refused(FORMAT, after=CRYPTO), HoldCode.DATA_LEFT),
    (GONE_WRONG, {}, HoldCode.NOT_ERASED),
    (NOT_CERTAIN, seen(unreadable=3), HoldCode.UNREADABLE),
    (NOT_CERTAIN, seen(changed=3), HoldCode.READS_DIFFER),
    (NOT_CERTAIN, showed(False, structured=1), HoldCode.READS_DIFFER),
    (NOT_CERTAIN, showed(False, otherwise=1), HoldCode.READS_DIFFER),
    (NOT_CERTAIN, showed(True, structured=1, otherwise=1), HoldCode.UNPROVED),
    (NOT_CERTAIN, found(security=SecurityState(locked=True)), HoldCode.LOCKED),
    (UNFIT, found(security=SecurityState(password_set=True)), HoldCode.LOCKED),
    (NOT_CERTAIN, found(security=SecurityState(password_locked=True)), HoldCode.LOCKED),
    (NOT_CERTAIN, found(reservations=(Reservation(1, 1, 1, True),)), HoldCode.LOCKED),
    # One that nobody could read: its namespace is not attached.
    (
        GONE_WRONG,
        {"commands": (replace(GONE_WRONG.commands[0], status=0x083),)} | refused(CRYPTO),
        HoldCode.LOCKED,
    ),
    (NOT_CERTAIN, found(controllers=2), HoldCode.NOT_AS_PROFILE),
    (
        NOT_CERTAIN,
        {"methods": (replace(CRYPTO, verdict=Verdict.UNKNOWN),)},
        HoldCode.COMMAND_FAILED,
    ),
    (NOT_CERTAIN, {"facts_after": None, "verification": None}, HoldCode.UNPROVED),
    (UNFIT, {"achieved": Label.CLEAR, "methods": (FORMAT,)}, HoldCode.DOWNGRADED),
    (UNFIT, {"methods": (replace(CRYPTO, verdict=Verdict.UNKNOWN),)}, HoldCode.COMMAND_FAILED),
    (UNFIT, {"health": replace(HEALTH, percentage_used=250)}, HoldCode.HEALTH),
    (UNFIT, {"profile_differences": ("profile: expected",)}, HoldCode.NOT_AS_PROFILE),
    (UNFIT, {"facts_after": replace(FACTS, firmware="other")}, HoldCode.NOT_AS_PROFILE),
    (UNFIT, {}, HoldCode.UNFIT),
    # The last look was not answered: its host says so itself, and is no liar for it.
    (UNFIT, {"facts_after": None}, HoldCode.UNFIT),
    (REPORT, {"facts_after": None}, HoldCode.REPORT_CONTRADICTS),
    (UNFIT, {"commands": ()}, HoldCode.REPORT_CONTRADICTS),
    (REPORT, {"commands": ()}, HoldCode.REPORT_CONTRADICTS),
    (REPORT, {"identity": replace(IDENTITY, serial="X")}, HoldCode.REPORT_CONTRADICTS),
    (REPORT, {"health": replace(HEALTH, critical_warning=4)}, HoldCode.HEALTH),
    (REPORT, {"health": None}, HoldCode.HEALTH),
    (REPORT, {"retire": ("protected for ever",)}, HoldCode.UNFIT),
    (NOTHING, {"outcome": Outcome.WRONG_DRIVE}, HoldCode.ANOTHER_DRIVE),
    (NOTHING, {"outcome": Outcome.ABSENT}, HoldCode.NO_CONTROLLER),
    (NOTHING, {"outcome": Outcome.NO_METHOD}, HoldCode.NO_METHOD),
    (NOT_CERTAIN, {"outcome": Outcome.ABSENT}, HoldCode.NO_CONTROLLER),
    (NOT_CERTAIN, {"outcome": Outcome.IN_USE}, HoldCode.REPORT_CONTRADICTS),
]


@pytest.mark.parametrize(("report", "changes", "code"), CASES, ids=lambda x: str(x)[:20])
def test_a_report_that_holds_is_named_by_what_its_members_show(
    report: Any, changes: dict[str, Any], code: HoldCode
) -> None:
    decision = check(ORDER, replace(report, **changes), RECORD)
    assert decision.ruling is Ruling.HOLD
    assert (decision.code, decision.hold.text) == (code, decision.reason)
    assert decision.hold.remedy == code.remedy


def test_memory_that_nobody_read_is_named() -> None:
    facts = replace(FACTS, sanicap=0, condition=Condition(buffers=(Buffer.PMR,)))
    report = replace(
        REPORT,
        facts_before=facts,
        facts_after=facts,
        achieved=Label.CLEAR,
        downgraded=True,
        methods=(FORMAT,),
        commands=(command(0x80, 0x200),),
    )
    allowed = replace(ORDER, policy=replace(ORDER.policy, allow_clear=True))
    assert check(allowed, report, RECORD).code is HoldCode.MEMORY_UNREAD


def test_an_image_that_nobody_approved_is_named() -> None:
    slots = FirmwareSlots(1, 0, (FACTS.firmware, "EVIL"))
    report = replace(REPORT, facts_after=replace(FACTS, condition=Condition(firmware=slots)))
    decision = check(ORDER, report, RECORD, (FACTS.firmware, "GOOD"))
    assert decision.code is HoldCode.FIRMWARE_LOADED, decision.reason


def test_every_code_has_a_meaning_and_a_remedy_and_a_short_name() -> None:
    for code in HoldCode:
        assert re.fullmatch("[a-z][a-z-]*[a-z]", code)
        assert len(code) <= CODE_LENGTH
        assert code.why.endswith(".")
        assert re.search("retire|release|pull", code.remedy.lower()), code


FROZEN = """
data-left not-erased unreadable reads-differ locked command-failed namespace-unread unproved
downgraded capacity-unread memory-unread health firmware-loaded not-as-profile unfit
report-contradicts no-method no-controller another-drive no-serial serial-twice two-places
retired-drive unsafe-slot ticket-refused ticket-contradicts provider-replaced claimed
not-given-back not-clean strange-custody no-one-time-use order-came-back record-damaged by-person
other unjudged
"""


def test_no_code_is_ever_renamed() -> None:
    """They are in databases. Add new ones at the end of the list; take none away."""
    assert set(FROZEN.split()) <= set(HoldCode)


def calls() -> Iterator[tuple[str, ast.Call]]:
    for path in SOURCES:
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call):
                yield path.name, node


def _name(node: ast.expr) -> str:
    return ast.unparse(node).rpartition(".")[2]


def test_nothing_is_held_but_by_the_door_that_wants_a_code() -> None:
    """``Store.hold`` and ``check.held`` cannot be called without one, as mypy sees."""
    beside = {
        (where, _name(call.func))
        for where, call in calls()
        for argument in call.args
        if ast.unparse(argument) in ("Event.HELD", "Ruling.HOLD")
    }
    assert beside == {
        ("lifecycle.py", "_from"),  # the table of steps
        ("slots.py", "transition"),  # Store.hold itself
        ("decisions.py", "_require_step"),  # says why a person cannot hold a slot as it is
        ("check.py", "ReasonedRuling"),  # check.held itself
        ("observation.py", "move"),  # observation.hold itself
        ("messages.py", "ReasonedRuling"),  # of a report that came again
    }


# Stored


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(f"sqlite:///{tmp_path / 'record.db'}")
    store.migrate()
    yield store
    store.close()


def enrolled(store: Store, number: int = 1) -> Any:
    return store.enrol(
        replace(RECORD.slot, address=f"0000:0{number}:00.0"),
        provider=f"rp-{number}",
        resource_class="CUSTOM_NVME",
        in_use=False,
        profile="p",
        policy="q",
    )


def test_the_code_is_stored_with_the_state_and_goes_with_it(store: Store) -> None:
    record = store.hold(enrolled(store), holds.because(HoldCode.BY_PERSON, "it smells"))
    assert (record.state, record.hold_code, record.reason) == (
        State.HELD,
        "by-person",
        "it smells",
    )
    assert holds.said(record) == "by-person: it smells"
    assert holds.remedy(record) == HoldCode.BY_PERSON.remedy
    record = store.amend(record, SlotChanges(detail="a word"))
    assert record.hold_code == "by-person"
    record = store.transition(record, Event.RELEASED_BY_OPERATOR, reason="mended")
    assert (record.hold_code, holds.said(record), holds.remedy(record)) == (None, "mended", "")
    codes = [row.hold_code for row in store.history(record.slot)]
    assert codes == [None, "by-person", None]


def test_held_slots_are_counted_by_code(store: Store, tmp_path: Path) -> None:
    for number, code in enumerate((HoldCode.HEALTH, HoldCode.CLAIMED, HoldCode.HEALTH), start=1):
        store.hold(enrolled(store, number), holds.because(code, "why"))
    store.transition(enrolled(store, 4), Event.HELD, reason="as a former release does")
    enrolled(store, 5)
    conf = tmp_path / "nvme-quarantine.conf"
    conf.write_text(f"[database]\nurl = sqlite:///{tmp_path / 'record.db'}\n")
    found = operation.count(Plane([conf]))
    assert [(one.code, one.slots) for one in found] == [("health", 2), ("claimed", 1), ("older", 1)]
    assert found[0].remedy == HoldCode.HEALTH.remedy
    assert "release" in found[-1].remedy


def test_rows_of_other_releases_are_holds_all_the_same(store: Store, tmp_path: Path) -> None:
    record = store.hold(enrolled(store), holds.because(HoldCode.HEALTH, "worn"))
    engine = make_engine(f"sqlite:///{tmp_path / 'record.db'}")
    for stored, said in ((None, "older: worn"), ("of-tomorrow", "of-tomorrow: worn")):
        with engine.begin() as db:
            db.execute(sa.update(models.slots).values(hold_code=stored))
            db.execute(sa.update(models.history).values(hold_code=stored))
        (record,) = store.slots()
        assert (record.state, record.hold_code) == (State.HELD, stored)
        assert holds.said(record) == said
        assert "release" in holds.remedy(record)
        assert holds.said(store.history(record.slot)[-1]) == said
    engine.dispose()


def test_a_database_of_the_former_release_keeps_its_holds(store: Store, tmp_path: Path) -> None:
    record = store.hold(enrolled(store), holds.because(HoldCode.HEALTH, "worn"))
    store.close()
    before = f"sqlite:///{tmp_path / 'before.db'}"
    engine = make_engine(before)
    make_file_private(engine.url)
    with engine.begin() as db:
        config = migrate.configuration()
        config.attributes["connection"] = db
        alembic.upgrade(config, "0006")
    engine.dispose()
    with contextlib.closing(sqlite3.connect(tmp_path / "before.db")) as old:
        old.execute("ATTACH ? AS today", (str(tmp_path / "record.db"),))
        for table in ("slots", "history"):
            columns = ", ".join(row[1] for row in old.execute(f"PRAGMA main.table_info({table})"))
            old.execute(f"INSERT INTO main.{table} ({columns}) SELECT {columns} FROM today.{table}")  # noqa: S608
        old.commit()
    upgraded = Store.open(before)
    upgraded.migrate()
    (after,) = upgraded.slots()
    assert after == replace(record, hold_code=None)
    assert upgraded.held_by_code() == {None: 1}
    upgraded.close()


def test_a_decision_without_a_code_holds_too() -> None:
    assert ReasonedRuling(Ruling.HOLD, ("why",)).hold.code is HoldCode.OTHER
