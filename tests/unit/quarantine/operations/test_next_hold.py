"""A slot that a server has is held when the server lets go of it, where a person wanted that."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

from quarantine.errors import IllegalTransitionError, StaleError
from quarantine.operations import decisions, slots
from quarantine.operations.decisions import Decision
from quarantine.operations.papers import keys
from quarantine.operations.plane import Plane
from quarantine.operations.slots import Initiator
from quarantine.record.words.facts import NextHold, SlotChanges, SlotRecord
from quarantine.record.words.states import Event, State
from quarantine.rules.action import ActionKind
from quarantine.rules.decide import decide
from quarantine.rules.sale.notforsale import SaleFacts, why
from tests.unit.quarantine.rules import test_decide as a
from tests.unit.quarantine.service.look.test_burn_grace import Site
from tests.unit.quarantine.smallcloud import Clock, Cloud, enrolled, open_store, slot_at

SLOT = slot_at(1)
ADA = Initiator("ada", "ops", "req-1")
WISH = NextHold("firmware FW1 lies", ADA)


# The decision.


@pytest.mark.parametrize(
    ("view", "act", "event"),
    [
        (a.LOCKED, ActionKind.TRANSITION, Event.HELD),
        (a.HELD_BY_US, ActionKind.TRANSITION, Event.HELD),
        (a.view(a.ORPHAN), ActionKind.TRANSITION, Event.HELD),
        # What keeps the drive from the wrong hands comes first.
        (a.FREE, ActionKind.RESERVE, None),
        (a.HALF, ActionKind.ENSURE, None),
        (a.USED, ActionKind.TRANSITION, Event.CLAIM_SEEN),
    ],
)
def test_a_released_slot_is_held_once_it_is_locked(
    view: a.View, act: ActionKind, event: Event | None
) -> None:
    record = replace(a.RECORD, state=State.RELEASED, next_hold=WISH)
    found = decide(record, view, a.NOW, a.LIMITS, a.CLEAN)
    assert (found.act, found.event) == (act, event)
    if event is Event.HELD:
        assert found.hold is not None
        assert (found.hold.code, found.hold.text, found.by) == ("by-person", WISH.reason, ADA)
        assert found.alarm is None


@pytest.mark.parametrize("state", [state for state in State if state is not State.RELEASED])
@pytest.mark.parametrize("view", [a.EMPTY, a.LOCKED, a.FREE, a.USED, a.LOWERED, a.STOLEN])
@pytest.mark.parametrize("age", [timedelta(), timedelta(hours=1)])
def test_nothing_else_is_decided_by_it(state: State, view: a.View, age: timedelta) -> None:
    record = replace(a.RECORD, state=state, entered_at=a.NOW - age)
    wished = replace(record, next_hold=WISH)
    without = decide(record, view, a.NOW, a.LIMITS, a.CLEAN)
    assert decide(wished, view, a.NOW, a.LIMITS, a.CLEAN) == without


def test_the_words_of_a_slot_in_use() -> None:
    facts = SaleFacts(State.IN_USE, a.NOW, consumer="s", next_hold=" odd\nnoises ")
    assert why(facts, a.NOW) == (
        "Server s has the drive: it is held when the server lets go of it (odd noises)."
    )


# The loop.


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        yield Site(store, Cloud(clock))


def now(site: Site) -> SlotRecord:
    record = site.store.slot(SLOT)
    assert record is not None
    return record


def wish(site: Site) -> None:
    site.store.amend(now(site), SlotChanges(next_hold=WISH), note="to be held", by=ADA)


def test_it_is_held_and_never_erased_when_its_server_goes(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    wish(site)
    site.go_on(600)
    assert (now(site).state, now(site).next_hold) == (State.IN_USE, WISH)
    site.restart()
    site.cloud.delete(SLOT)
    with caplog.at_level(logging.ERROR):
        site.go_on(600)
    held = now(site)
    assert (held.state, held.reason, held.hold_code) == (State.HELD, WISH.reason, "by-person")
    assert held.next_hold is None
    assert held.generation == 0, "no case was begun"
    assert not site.cloud.on_offer(SLOT)
    line = next(row for row in site.store.history(SLOT) if row.event is Event.HELD)
    assert line.by == ADA
    assert not caplog.records
    site.store.transition(held, Event.RELEASED_BY_OPERATOR, reason="looked at")
    site.go_on(60)
    assert now(site).state is not State.HELD, "once"


def test_a_drive_that_is_claimed_again_meanwhile_is_held_after_that(site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    wish(site)
    site.cloud.delete(SLOT)
    # Nobody looked in between; somebody lowered reserved, and another server has it.
    site.cloud.seat(SLOT).reserved = False
    site.cloud.claim(SLOT, "another")
    site.cloud.burn(SLOT)
    site.go_on(600)
    assert (now(site).state, now(site).next_hold) == (State.IN_USE, WISH)
    site.cloud.delete(SLOT)
    site.go_on(600)
    assert now(site).state is State.HELD


# The operation.


@pytest.fixture
def plane(tmp_path: Path, site: Site) -> Plane:
    file = tmp_path / "nvme-quarantine.conf"
    file.write_text(
        f"[database]\nurl = sqlite:///{tmp_path}/record.db\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[placement]\ncloud = no-such-cloud\n"
    )
    keys.create(Plane([file]))
    return Plane([file])


def test_it_is_written_shown_and_taken_back(plane: Plane, site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    seen = slots.versioned(plane, SLOT)
    decision = Decision(ADA, (seen.version,))
    done = decisions.hold(plane, SLOT, reason="odd", at_next_release=True, decision=decision)
    assert (done.slot.state, done.slot.next_hold) == (State.IN_USE, "odd")
    assert "to be held at its next release: odd" in done.slot.remarks
    assert now(site).next_hold == NextHold("odd", ADA)
    with pytest.raises(StaleError):
        decisions.release(plane, SLOT, reason="x", decision=decision)
    again = decisions.hold(plane, SLOT, reason="odder", at_next_release=True)
    assert again.slot.next_hold == "odder"
    back = decisions.release(
        plane, SLOT, reason="settled", decision=Decision(ADA, (again.version,))
    )
    assert (back.slot.state, back.slot.next_hold) == (State.IN_USE, "")
    assert [(row.event, row.reason, row.by) for row in site.store.history(SLOT)[1:]] == [
        (None, "to be held at its next release: odd", ADA),
        (None, "to be held at its next release: odder", None),
        (None, "not to be held at its next release any more: settled", ADA),
    ]
    with pytest.raises(IllegalTransitionError, match="there is no hold to end"):
        decisions.release(plane, SLOT, reason="x")


def test_what_is_not_possible(plane: Plane, site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    with pytest.raises(IllegalTransitionError, match="or have it held at its next release"):
        decisions.hold(plane, SLOT, reason="odd")
    for blank in ("", " \n"):
        with pytest.raises(IllegalTransitionError, match="expected a reason"):
            decisions.hold(plane, SLOT, reason=blank, at_next_release=True)
    decisions.hold(plane, SLOT, reason="\0" * 5000, at_next_release=True)
    with pytest.raises(IllegalTransitionError, match="expected a reason"):
        decisions.release(plane, SLOT, reason=" ")
    with pytest.raises(IllegalTransitionError, match="expected a held slot to accept a new drive"):
        decisions.release(plane, SLOT, reason="x", new_drive=True)
    assert now(site).next_hold is not None


def test_a_new_enrolment_forgets_it(site: Site) -> None:
    enrolled(site.store, site.cloud, SLOT, server="server")
    wish(site)
    released = site.store.transition(now(site), Event.RELEASE_SEEN)
    assert released.next_hold == WISH
    assert site.store.transition(released, Event.RETIRED, reason="x").next_hold is None
