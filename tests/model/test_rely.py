"""Two hosts, searched to the end; and that the search of one beside another leaves nothing out."""

from __future__ import annotations

import dataclasses
import functools
import logging
import math
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from quarantine.record.words.states import Event, State
from quarantine.service.issue import drive_inventory
from tests.model import glimpse as glimpses
from tests.model.beside import Beside, Deed
from tests.model.common import ME, OTHER, as_seen, face, like
from tests.model.glimpse import UnseenError, glimpse, hidden
from tests.model.hellos import hello
from tests.model.papers import LIMITS, NOW, RECORDS, identity, slot
from tests.model.parts import Parts, WiredParts
from tests.model.protocol import Config, Protocol
from tests.model.rely import QUESTIONS, Ways, search
from tests.model.search import Found
from tests.model.slices import Slice, changes, sight, slices, views
from tests.model.tables import Store, Writes, fresh_record
from tests.model.world import Place, World

PATIENT = dataclasses.replace(LIMITS, overdue_after=math.inf)
"""That something takes long is said in the searches of one host; it doubles the states of two."""

ORDINARY = Config("nothing goes wrong beside another host", hosts=2)

MOVED = Config("a drive that comes to another host", frozenset({"absence"}), 1, hosts=2)

LONG = (
    MOVED,
    Config("a drive that comes to another host and back", frozenset({"move"}), 2, hosts=2),
    Config("a host installed anew beside another", frozenset({"reinstall"}), 1, hosts=2),
    Config("the database of two hosts lost", frozenset({"amnesia"}), 1, hosts=2),
)
"""Up to some million states each: for ``tools/test -e model``."""


pytestmark = pytest.mark.timeout(3600)
"""The search computes for minutes, and its seconds are those of the machine."""


@pytest.fixture(autouse=True, scope="module")
def _quiet() -> Iterator[None]:
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@functools.lru_cache(maxsize=1)
def searched(config: Config) -> tuple[Beside, Found[int] | Ways]:
    """What the search finds; of one configuration at a time, they are large."""
    beside = Beside(Protocol(config, Parts(PATIENT)))
    return beside, search(beside, config.limit)


@pytest.mark.parametrize(
    "config",
    [ORDINARY, *(pytest.param(config, marks=pytest.mark.campaign) for config in LONG)],
    ids=lambda config: config.name,
)
def test_no_history_of_two_hosts_breaks_a_promise(config: Config) -> None:
    _beside, ways = searched(config)
    assert not isinstance(ways, Found), f"\n{ways}"
    assert len(ways) > 5_000, "expected a search, found next to nothing to search"
    for question in QUESTIONS:
        stuck = next(ways.unanswered(question), None)
        assert stuck is None, "\n".join([f"not so: {question.text}, after:", *ways.trace(stuck)])


@pytest.mark.parametrize(
    ("config", "first"),
    [
        pytest.param(ORDINARY, ME, id="ordinary"),
        pytest.param(MOVED, ME, id="with the drive", marks=pytest.mark.campaign),
        pytest.param(MOVED, OTHER, id="without the drive", marks=pytest.mark.campaign),
    ],
)
def test_what_both_hosts_do_step_by_step_was_found(config: Config, first: int) -> None:
    beside, ways = searched(config)
    assert isinstance(ways, Ways)
    protocol = Protocol(config, Parts(PATIENT))
    begin = protocol.start(first)
    dice = random.Random(first)
    seen = set()
    for _ in range(60):
        state = begin
        for _step in range(80):
            following = protocol.steps(state)
            spent = [s for s in following if not protocol.world(s[1]).budget]
            _name, state = dice.choice(spent if spent and dice.random() < 0.1 else following)
            view = beside.view(protocol.world(state))
            assert view in ways, protocol.world(state)
            seen.add(view)
    assert len(seen) > 400, "expected walks that lead somewhere"


@pytest.mark.parametrize("mine", State)
@pytest.mark.parametrize("state", State)
def test_states_that_are_alike_are_alike_to_another_hosts_word(state: State, mine: State) -> None:
    def held(theirs: State) -> tuple[State, State, int]:
        """What becomes of both slots when the drive that one record names is seen in the other."""
        record = dataclasses.replace(fresh_record(ME, in_use=False), state=mine)
        here = Place(drive=0, provider="known", record=RECORDS.number(record))
        there = Place(record=glimpse(OTHER, theirs, 0))
        store = Store(World((), (here, there), (None,), 0), Writes(None))
        drive_inventory.take(store, hello(World((), (here, there), (None,), 0), ME), lambda: NOW)  # type: ignore[arg-type]
        after = store.records[slot(OTHER)]
        moved = State.HELD if after.state is not theirs else theirs
        return store.records[slot(ME)].state, like(moved), len(store.known)

    assert held(state) == held(like(state))


def test_a_step_that_sees_more_than_it_is_shown_is_an_error() -> None:
    protocol = Protocol(MOVED, Parts(PATIENT))
    beside = Beside(protocol)
    state = next(beside.starts())
    _host, look, *_others = slices(protocol)
    blind = dataclasses.replace(look, place=("record", "provider"))
    (view,) = views(blind, beside.place(state))
    with pytest.raises(UnseenError):
        list(changes(blind, protocol, view, sight(frozenset(), beside.common(state))))


@pytest.mark.parametrize("used", [bool, str, iter, len, repr, lambda x: x == 1, lambda x: x.y])
def test_what_is_hidden_cannot_be_used(used: Callable[[Any], object]) -> None:
    with pytest.raises(UnseenError):
        used(glimpses.UNSEEN)


def test_a_write_is_a_deed_although_nothing_else_comes_of_it() -> None:
    beside = Beside(Protocol(MOVED, Parts(PATIENT)))
    seen = Place._fields, (frozenset[str](),)
    again = Slice(lambda _protocol, now: iter([("writes", now.stale(0))]), *seen)
    beside._slices = (again,)
    state = next(beside.starts())
    deed = Deed(beside.mirrored(beside.shared(state)), (0,))
    assert list(beside.steps(state)) == [("writes", state, deed)]


def test_a_drive_of_the_other_host_that_is_held_for_nothing_is_missed() -> None:
    beside = Beside(Protocol(MOVED, Parts(PATIENT)))
    start = beside.protocol.world(beside.protocol.start(ME))
    before = beside.view(start)
    record = dataclasses.replace(fresh_record(OTHER, in_use=False), state=State.HELD)
    after = beside.view(start.at(OTHER, record=RECORDS.number(record)))
    assert beside.broken(before, "host 0 says hello", before) == ""
    assert "held" in beside.broken(before, "host 0 says hello", after)


def test_what_is_hidden_of_another_host_is_not_passed_over() -> None:
    """A decision that would leave it out, or take it for nothing, is an error as well."""
    held = dataclasses.replace(fresh_record(ME, in_use=False), state=State.HELD)
    mine = dataclasses.replace(held, identity=identity(0))
    places = (Place(record=RECORDS.number(mine)), Place(record=hidden(OTHER)))
    store = Store(World((), places, (glimpses.UNSEEN,), 0), Writes(None))
    with pytest.raises(UnseenError):
        store.slots(states=[State.HELD])
    with pytest.raises(UnseenError):
        store._drive_after(mine, Event.HELD, None)
    other = as_seen(face(Place(drive=0, instance="on")))
    for name in set(Place._fields) - {"drive", "record", "accepted", "heard"}:
        if not name.startswith(("ticket_", "rest_")):
            with pytest.raises(UnseenError):
                bool(getattr(other, name))


def test_a_guard_that_is_turned_around_is_missed() -> None:
    parts = WiredParts(PATIENT)
    bits = {str(each): bit for each, bit in parts.guards.items()}
    parts.switch.turned = bits["rules._by_ticket: kept.counters is None"]
    found = search(Beside(Protocol(MOVED, parts)), MOVED.limit)
    assert isinstance(found, Found)
    assert found.broken == "an honest guest is refused although nothing went wrong"


@pytest.mark.campaign
def test_a_host_whose_word_about_another_is_not_heard_is_missed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(drive_inventory, "_elsewhere", lambda _store, _hello, _seen: ([], True))
    ways = search(Beside(Protocol(MOVED, Parts(PATIENT))), MOVED.limit)
    assert isinstance(ways, Found) or any(next(ways.unanswered(each), 0) for each in QUESTIONS)
