"""What can be sold now, what is missing, and what comes back when."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Final

from quarantine.conf.capacity import SoldFlavor, sold
from quarantine.errors import BadInputError
from quarantine.operations.plane import Plane
from quarantine.record.store import Store
from quarantine.record.totals import ComingSlot, StockTotal
from quarantine.record.words.clock import is_to_come
from quarantine.record.words.states import WORKING, State
from quarantine.rules import holds, maintenance
from quarantine.rules.maintenance import Maintenances
from quarantine.rules.sale import capacity, notforsale, pace
from quarantine.rules.sale.capacity import Capacity as Capacity
from quarantine.rules.sale.capacity import HostStock
from quarantine.rules.sale.capacity import minutes as minutes
from quarantine.rules.sale.notforsale import SaleFacts
from quarantine.rules.sale.pace import Pace
from quarantine.service.parts import Parts

MODELS: Final = 200
"""So many models at most are looked up for what their cases take: more than any cloud has."""


def show(
    plane: Plane, *, flavor: str | None = None, host: str | None = None
) -> tuple[Capacity, ...]:
    """Each flavor on all hosts, or on one; with ``flavor`` that one on all hosts, then on each of
    them, the nearest to be sold first.

    Raises ``BadInputError`` for a flavor that is not configured, and for a host without slots.
    """
    with plane.parts() as parts:
        now = parts.doors.now()
        stock = parts.store.stock(host)
        if host is not None and not stock:
            raise BadInputError(f"host {host}: expected a host with enrolled slots, found none")
        flavors = asked(parts, flavor, {row.resource_class for row in stock})
        # One moment for all: every age and every due time is measured from the same now.
        by_class = stocks(parts, stock, host, now)
    found: list[Capacity] = []
    for one in flavors:
        its = by_class.get(one.resource_class, ())
        if host is None:
            found.append(capacity.of_all(one, its, now))
        if host is not None or flavor is not None:
            found.extend(sorted((capacity.of_host(one, s, now) for s in its), key=nearest))
    return tuple(found)


def pace_of(store: Store, model: str) -> Pace | None:
    """What cases of a model take; None where none was certified yet."""
    newest = store.last_durations(model, pace.SAMPLES)
    return pace.pace([(case.erase, case.verify) for case in newest])


def asked(parts: Parts, name: str | None, classes: set[str]) -> list[SoldFlavor]:
    """The flavor of this name, or all, each with its class. Raises ``BadInputError``."""
    flavors = sold(parts.conf.capacity.flavors)
    chosen = [each for each in flavors if name in (None, each.name)]
    if not chosen:
        names = ", ".join(each.name for each in flavors)
        raise BadInputError(f"flavor: expected one of {names} ([capacity]flavors), found {name!r}")
    return capacity.of_classes(chosen, classes)


def stocks(
    parts: Parts, rows: Sequence[StockTotal], host: str | None, now: datetime
) -> dict[str, list[HostStock]]:
    """The hosts' stocks by resource class."""
    store, after = parts.store, parts.conf.detection.silent_after
    # Each question to the record is asked once, for all hosts.
    heard = store.last_heard(None if host is None else {host})
    coming = _coming(store, host)
    quiet = Maintenances.of(store.maintenances(host))
    # Slots in maintenance by themselves, by host; the host's own has no address.
    single = Counter(one.host for one in quiet.by_subject if one.address)
    gathered: dict[tuple[str, str], list[StockTotal]] = defaultdict(list)
    for row in rows:
        gathered[row.resource_class, row.host].append(row)
    found: dict[str, list[HostStock]] = defaultdict(list)
    for (resource_class, name), its in sorted(gathered.items()):
        silent = silence(heard.get(name), now, after)
        slots = coming.get((resource_class, name), ())
        stock = _stock(name, its, tuple(_due(slot, known, now) for slot, known in slots), silent)
        longest = _longest(slots, silent, parts.conf.erase.overdue_after, now)
        said = maintenance.words(quiet.of_host(name))
        found[resource_class].append(
            replace(stock, longest=longest, maintenance=said, maintained=single[name])
        )
    return found


def silence(heard: datetime | None, now: datetime, after: float) -> float | None:
    """For how many seconds nothing was heard of a host, where that is more than ``after``; else 0;
    None for one that is not registered."""
    if heard is None:
        return None
    seconds = (now - heard).total_seconds()
    # Noted before our clock was set back: since when it is silent nobody knows, and one that speaks
    # is heard anew within a minute.
    if is_to_come(heard, now):
        return after
    return seconds if seconds > after else 0.0


def _coming(
    store: Store, host: str | None
) -> Mapping[tuple[str, str], Sequence[tuple[ComingSlot, Pace | None]]]:
    slots = store.coming(host)
    models = sorted({slot.model for slot in slots if slot.model is not None})[:MODELS]
    paces = {model: pace_of(store, model) for model in models}
    found: dict[tuple[str, str], list[tuple[ComingSlot, Pace | None]]] = defaultdict(list)
    for slot in slots:
        found[slot.resource_class, slot.host].append((slot, paces.get(slot.model or "")))
    return found


def _longest(
    slots: Sequence[tuple[ComingSlot, Pace | None]],
    silent: float | None,
    overdue: float,
    now: datetime,
) -> tuple[datetime, str] | None:
    """As :class:`HostStock` has it."""
    # 0.0 means that the host speaks. Of a silent or unregistered one no slot has a time: nothing
    # comes back before it is heard.
    untimed = [each for each in slots if silent != 0.0 or _due(*each, now) is None]
    if not untimed:
        return None
    # Only the slot that waits longest is explained, for all of them.
    slot, known = min(untimed, key=lambda each: each[0].entered_at)
    facts = SaleFacts(
        state=State(slot.state),
        entered_at=slot.entered_at,
        detail=slot.detail,
        silent=silent,
        pace=known,
        overdue=overdue,
    )
    return (
        slot.entered_at,
        f"{slot.host}/{slot.address} waits longest: {notforsale.why(facts, now)}",
    )


def _due(slot: ComingSlot, known: Pace | None, now: datetime) -> datetime | None:
    if slot.detail and slot.state not in WORKING:
        return None  # something stands in its way, and no figure of its model tells how long
    return pace.due(slot.state, slot.entered_at, now, known)


def _stock(
    host: str,
    rows: Sequence[StockTotal],
    coming: Sequence[datetime | None],
    silent: float | None,
) -> HostStock:
    counts: dict[str, int] = defaultdict(int)
    held: dict[str, int] = {}
    for row in rows:
        counts[row.state] += row.slots
        if row.state == State.HELD:
            # There is one row for each code: the database groups by it.
            held[row.hold_code or holds.OLDER] = row.slots
    return HostStock(
        host=host,
        free=counts[State.AVAILABLE],
        silent=silent,
        in_use=counts[State.IN_USE],
        coming=tuple(coming),
        held=held,
        retired=counts[State.RETIRED],
        # States of another release are counted, so that no drive disappears from the sums.
        unknown=sum(count for state, count in counts.items() if state not in set(State)),
    )


def nearest(one: Capacity) -> tuple[bool, float, int, str]:
    """The place of a flavor on a host among all hosts: the lowest is sold first.

    What is missing is at most one flavor: hosts to which that many do not come back stand behind
    all others, and last those that never have one.
    """
    at = one.next_at.timestamp() if one.next_at else float("inf")
    # Sellable first, then the soonest, then the one that lacks the fewest drives. Each step of
    # reach counts as one more flavor of drives; the name makes the order total.
    return not one.sellable, at, one.missing + one.reach * one.drives, one.host
