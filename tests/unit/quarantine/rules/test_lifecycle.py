"""The transition table: complete as agreed, nothing more, and the committed pictures are of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from quarantine.cli.app import COMMANDS
from quarantine.errors import IllegalTransitionError
from quarantine.record.words import diagram, lifecycle, states
from quarantine.record.words.states import Event, State

DOCS = Path(__file__).parents[4] / "docs"

# Written down a second time, by hand, so that a slip in the table is seen.
LEGAL: dict[State | None, dict[str, str]] = {
    None: {"enrolled_free": "released", "enrolled_in_use": "in_use"},
    State.IN_USE: {"release_seen": "released"},
    State.RELEASED: {
        "claim_seen": "in_use",
        "custody_taken": "quarantined",
        "held": "held",
        "retired": "retired",
    },
    State.QUARANTINED: {"ordered": "erasing", "held": "held", "retired": "retired"},
    State.ERASING: {
        "verifying_seen": "verifying",
        "certified": "certified",
        "postponed": "quarantined",
        "held": "held",
    },
    State.VERIFYING: {"certified": "certified", "postponed": "quarantined", "held": "held"},
    State.CERTIFIED: {"returned": "available", "recalled": "quarantined", "held": "held"},
    State.AVAILABLE: {
        "release_seen": "released",
        "claim_seen": "in_use",
        "held": "held",
        "retired": "retired",
    },
    State.HELD: {"claim_seen": "in_use", "released_by_operator": "released", "retired": "retired"},
    State.RETIRED: {"enrolled_free": "released", "enrolled_in_use": "in_use"},
}


@pytest.mark.parametrize("event", list(Event))
@pytest.mark.parametrize("state", [None, *State])
def test_every_step_is_legal_as_agreed_or_raises(state: State | None, event: Event) -> None:
    wanted = LEGAL[state].get(event.value)
    if wanted is not None:
        assert lifecycle.target(state, event) is State(wanted)
        assert event in lifecycle.events(state)
        return
    assert event not in lifecycle.events(state)
    with pytest.raises(IllegalTransitionError, match="expected one of") as raised:
        lifecycle.target(state, event)
    assert "\n" not in str(raised.value)


def test_no_step_stands_twice() -> None:
    pairs = [(step.source, step.event) for step in lifecycle.TRANSITIONS]
    assert len(pairs) == len(set(pairs))


def _reached(start: State, without: Event) -> set[State]:
    found, todo = set[State](), [start]
    while todo:
        state = todo.pop()
        for step in lifecycle.TRANSITIONS:
            if step.source is state and step.event is not without and step.target not in found:
                found.add(step.target)
                todo.append(step.target)
    return found


@pytest.mark.parametrize("start", sorted(set(State) - {State.CERTIFIED}))
def test_nothing_becomes_available_without_a_certificate(start: State) -> None:
    assert State.AVAILABLE not in _reached(start, without=Event.CERTIFIED)


def test_a_certificate_is_void_before_the_next_one_can_be_needed() -> None:
    # Whatever leads out of the pool, voids it on every road back into it.
    for step in lifecycle.TRANSITIONS:
        if step.target is State.RELEASED:
            assert step.event in lifecycle.VOIDS_CERTIFICATE
    assert Event.CUSTODY_TAKEN in lifecycle.NEW_CASE


def test_a_tenants_drive_is_dirty() -> None:
    for step in lifecycle.TRANSITIONS:
        if step.target in (State.IN_USE, State.RELEASED):
            assert step.event in lifecycle.DIRTIES_DRIVE
    assert Event.CERTIFIED not in lifecycle.DIRTIES_DRIVE


def test_every_state_can_be_left_and_every_event_happens() -> None:
    assert {step.source for step in lifecycle.TRANSITIONS} == {None, *State}
    assert {step.target for step in lifecycle.TRANSITIONS} == set(State)
    assert {step.event for step in lifecycle.TRANSITIONS} == set(Event)


def test_the_named_sets_say_what_they_name() -> None:
    assert {State.AVAILABLE} == states.FREE_TO_SCHEDULE
    assert {State.ERASING, State.VERIFYING} == states.WORKING
    assert not states.CASE_OPEN & (states.FREE_TO_SCHEDULE | states.WAITING_FOR_PEOPLE)


@pytest.mark.parametrize("kind", [State, Event])
def test_every_member_has_its_docstring(kind: type[State] | type[Event]) -> None:
    texts = diagram.docstrings(kind)
    assert list(texts) == [member.value for member in kind]
    assert all(text.endswith(".") for text in texts.values())


def test_the_committed_page_is_current() -> None:
    assert diagram.table() in (DOCS / "states.md").read_text(), "run: tools/samples"


def test_the_diagram_shows_every_transition() -> None:
    for step in lifecycle.TRANSITIONS:
        start = step.source.value if step.source else r"[*]"
        label = next(
            line
            for line in diagram.mermaid().splitlines()
            if f"{start} --> {step.target.value}:" in line
        )
        assert step.event.value in label


def test_each_state_says_what_to_do_and_by_which_command() -> None:
    _, _, said = (DOCS / "states.md").read_text().partition("## What to do, by state")
    rows = [[cell.strip() for cell in line.split("|")] for line in said.splitlines()[6:]]
    assert [row[1].strip("`") for row in rows] == [state.value for state in State]
    for row in rows:
        command = row[3].strip("`").partition(" --")[0]
        assert command in COMMANDS, row
