"""The whole fleet at one moment: what needs a person, what can be sold where; and slots in lists,
each with why it cannot be sold."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from eraser.protocol.identity import Slot
from quarantine.conf.capacity import SoldFlavor
from quarantine.errors import BadInputError
from quarantine.operations.overview import capacity
from quarantine.operations.overview.holds import HeldCount
from quarantine.operations.plane import Plane
from quarantine.record.pages import SlotLine
from quarantine.record.store import Store
from quarantine.record.totals import ComingSlot, StockTotal
from quarantine.record.words.states import CASE_OPEN, FREE_TO_SCHEDULE, WORKING, State
from quarantine.rules import holds, maintenance
from quarantine.rules.maintenance import Maintenances
from quarantine.rules.sale import capacity as rules
from quarantine.rules.sale import notforsale, pace
from quarantine.rules.sale.capacity import Capacity, HostStock
from quarantine.rules.sale.notforsale import SaleFacts
from quarantine.rules.sale.pace import Pace
from quarantine.service.parts import Parts

LATE: Final = 50
"""So many late slots are named."""

_COMES_BACK: Final = tuple(sorted(CASE_OPEN | {State.RELEASED}))
_STATES: Final = frozenset(State)


@dataclass(frozen=True)
class SlotOutlook:
    """A slot in a list, and what comes of it."""

    line: SlotLine
    why: str
    """Why it cannot be sold now, with words of hosts, drives and people; empty where it can."""
    due_at: datetime | None
    """When it can be expected back; None where nobody can say."""
    late: bool
    """It is in its state for longer than is usual."""
    maintenance: str = ""
    """Until when its delays, or its host's, call nobody, and why; empty where they do."""
    remedy: str = ""
    """What returns a held one, in our own words."""


@dataclass(frozen=True)
class Silent:
    """A registered host of which nothing is heard, and slots that wait for its word."""

    host: str
    heard_at: datetime
    waiting: int


@dataclass(frozen=True)
class HostRow:
    """A host's slots, and each flavor on it."""

    host: str
    drives: int
    """That it can sell at some time: without those that are retired."""
    held: int
    retired: int
    silent: float | None
    """As :class:`quarantine.rules.sale.capacity.HostStock` has it."""
    lacks_person: bool
    """Something of it comes back only when a person does something."""
    maintenance: str
    """Until when its silence calls nobody, and why; empty where it does."""
    flavors: tuple[Capacity, ...]


@dataclass(frozen=True)
class Fleet:
    """Counted by the database, at ``at``."""

    at: datetime
    slots: int
    states: Mapping[str, int]
    held: tuple[HeldCount, ...]
    """The most first."""
    late: int
    latest: tuple[tuple[str, str], ...]
    """Host and address of late slots, those that are in their states longest; :data:`LATE` at most.
    """
    silent: tuple[Silent, ...]
    """The longest first."""
    flavors: tuple[Capacity, ...]
    """Each on all hosts."""
    problem: str
    """Why flavors cannot be counted; empty where they are."""
    stocks: Sequence[tuple[HostStock, Sequence[SoldFlavor]]]
    """Each host, those that need a person first."""

    def rows(self, start: int, count: int) -> tuple[HostRow, ...]:
        """Some hosts, in that order."""
        return tuple(
            HostRow(
                host=stock.host,
                drives=stock.drives,
                held=sum(stock.held.values()),
                retired=stock.retired,
                silent=stock.silent,
                lacks_person=_needy(stock),
                maintenance=stock.maintenance,
                flavors=tuple(rules.of_host(flavor, stock, self.at) for flavor in flavors),
            )
            for stock, flavors in self.stocks[start : start + count]
        )


def look(plane: Plane) -> Fleet:
    """Everything at once. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        now = parts.doors.now()
        rows = parts.store.stock()
        states: Counter[str] = Counter()
        for row in rows:
            states[row.state] += row.slots
        held = {code: count for code, count in parts.store.held_by_code().items() if count}
        # A flavor that cannot be counted must not hide the held slots: its problem is a text.
        flavors, problem = _flavors(parts, rows)
        by_class = capacity.stocks(parts, rows, None, now)
        late = _late(parts, now)
        return Fleet(
            at=now,
            slots=states.total(),
            states=states,
            held=tuple(_kind(code, count) for code, count in holds.counted(held).items()),
            late=len(late),
            latest=tuple((one.host, one.address) for one in late[:LATE]),
            silent=_silent(parts, rows, now),
            flavors=tuple(
                rules.of_all(one, by_class.get(one.resource_class, ()), now) for one in flavors
            ),
            problem=problem,
            stocks=_ordered(by_class, flavors),
        )


def outlooks(plane: Plane, lines: Sequence[SlotLine]) -> tuple[SlotOutlook, ...]:
    """Slots of a list, each with why it cannot be sold. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return _outlooks(parts, lines)


def late(plane: Plane, which: Sequence[tuple[str, str]]) -> tuple[SlotOutlook, ...]:
    """Of the slots that :func:`look` found late, those that still are, in its order."""
    with plane.parts() as parts:
        lines = parts.store.slots_at(which)
        found = {(one.line.host, one.line.address): one for one in _outlooks(parts, lines)}
    return tuple(found[place] for place in which if place in found and _calls(found[place]))


def _calls(one: SlotOutlook) -> bool:
    return one.late and not one.maintenance


def _outlooks(parts: Parts, lines: Sequence[SlotLine]) -> tuple[SlotOutlook, ...]:
    now, silent_after = parts.doors.now(), parts.conf.detection.silent_after
    overdue = parts.conf.erase.overdue_after
    hosts = {line.host for line in lines}
    heard = parts.store.last_heard(hosts)
    quiet = Maintenances.of(parts.store.maintenances_on(hosts))
    # Only of these it matters what a case takes: each model is a question to the record.
    models = (line.model for line in lines if line.state in _COMES_BACK)
    paces = _paces(parts.store, models)
    found = []
    for line in lines:
        maintained = maintenance.words(*quiet.of_place(line.host, line.address))
        # No rule can be asked about it, and it is listed all the same: what it guards is out of the
        # pool.
        if line.damaged or line.entered_at is None:
            words = f"Its row of the record is damaged ({', '.join(line.damaged) or 'entered_at'})."
            found.append(SlotOutlook(line, words, None, late=False, maintenance=maintained))
            continue
        # Another release wrote it.
        if line.state not in _STATES:
            words = f"In state {line.state}, which this release does not know."
            found.append(SlotOutlook(line, words, None, late=False, maintenance=maintained))
            continue
        state, known = State(line.state), paces.get(line.model or "")
        silent = capacity.silence(heard.get(line.host), now, silent_after)
        facts = SaleFacts(
            state=state,
            entered_at=line.entered_at,
            reason=line.reason,
            hold_code=line.hold_code,
            consumer=line.consumer,
            detail=line.detail,
            next_hold=line.next_hold or "",
            silent=silent,
            pace=known,
            overdue=overdue,
        )
        age = (now - line.entered_at).total_seconds()
        # In other states a slot may stay for as long as it likes: in use, on offer, held.
        is_late = state in _COMES_BACK and age > pace.late_after(state, known, overdue)
        # A late slot has passed the usual time, and a silent host reports nothing: no time is
        # promised.
        due = None if is_late or silent != 0.0 else pace.due(state, line.entered_at, now, known)
        why, remedy = notforsale.why(facts, now), notforsale.remedy(facts)
        found.append(SlotOutlook(line, why, due, is_late, maintained, remedy))
    return tuple(found)


def _paces(store: Store, models: Iterable[str | None]) -> Mapping[str, Pace | None]:
    names = sorted({model for model in models if model is not None})[: capacity.MODELS]
    return {name: capacity.pace_of(store, name) for name in names}


def _late(parts: Parts, now: datetime) -> list[ComingSlot]:
    """The longest first. Not sought among the oldest: what is usual is hours in one state, and
    minutes in another."""
    coming = parts.store.coming()
    # Only in these states a model's own figures make a slot late.
    paces = _paces(parts.store, (one.model for one in coming if one.state in WORKING))
    overdue = parts.conf.erase.overdue_after
    # Nobody is called for what is in maintenance, here neither.
    quiet = Maintenances.of(parts.store.maintenances())
    found = [
        one
        for one in coming
        if (now - one.entered_at).total_seconds()
        > pace.late_after(State(one.state), paces.get(one.model or ""), overdue)
        and not quiet.of_slot(Slot(one.host, one.address))
    ]
    return sorted(found, key=lambda one: (one.entered_at, one.host, one.address))


def _silent(parts: Parts, rows: Sequence[StockTotal], now: datetime) -> tuple[Silent, ...]:
    """Only those on whose word something waits, and that are not in maintenance: people are called
    for no other."""
    quiet = Maintenances.of(parts.store.maintenances()).hosts
    waiting: Counter[str] = Counter()
    for row in rows:
        # Open cases wait for its reports; of free drives nobody knows whether a guest would start.
        if row.state in CASE_OPEN | FREE_TO_SCHEDULE:
            waiting[row.host] += row.slots
    after = parts.conf.detection.silent_after
    found = [
        Silent(name, at, waiting[name])
        for name, at in parts.store.last_heard().items()
        if waiting[name] and name not in quiet and capacity.silence(at, now, after)
    ]
    return tuple(sorted(found, key=lambda one: (one.heard_at, one.host)))


def _flavors(parts: Parts, rows: Sequence[StockTotal]) -> tuple[list[SoldFlavor], str]:
    """Those that can be counted. A flavor whose class nobody knows hides no slot."""
    try:
        return capacity.asked(parts, None, {row.resource_class for row in rows}), ""
    except BadInputError as error:
        return [], str(error)


def _ordered(
    by_class: Mapping[str, Sequence[HostStock]], flavors: Sequence[SoldFlavor]
) -> list[tuple[HostStock, Sequence[SoldFlavor]]]:
    its: dict[str, list[SoldFlavor]] = defaultdict(list)
    for one in flavors:
        its[one.resource_class].append(one)
    found = [(stock, its[name]) for name, stocks in by_class.items() for stock in stocks]
    return sorted(found, key=lambda each: (*_calm(each[0]), each[0].host))


def _calm(stock: HostStock) -> tuple[bool, bool]:
    """The lower, the sooner it is looked at. A retired drive's place is filled when a spare one is
    there, which is no hurry."""
    return not _urgent(stock), not stock.retired


def _needy(stock: HostStock) -> bool:
    return _urgent(stock) or bool(stock.retired)


def _urgent(stock: HostStock) -> bool:
    """A host in maintenance may be silent. What is held waits for a person there too."""
    # Silence matters where a drive is on offer or comes back: of drives that are all in use nothing
    # is waited for.
    missed = not stock.speaks and bool(stock.free or stock.coming)
    return bool(stock.held) or (missed and not stock.maintenance)


def _kind(code: str, slots: int) -> HeldCount:
    kind = holds.meaning(code)
    return HeldCount(code, slots, kind.why, kind.remedy)
