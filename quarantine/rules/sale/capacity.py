"""What can be sold now, in whole flavors; what is missing; and what comes back when. Pure.

A flavor takes all of its drives from one host. Drives that are free on a host of which nothing is
heard are counted apart: Placement offers them, and nobody knows whether the host starts a guest.
NUMA is left out: by default a flavor prefers drives beside its processors and takes others.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime

from quarantine.conf.capacity import SoldFlavor
from quarantine.errors import BadInputError
from quarantine.rules import holds

_NAMED = 3
"""Hosts that a sentence names."""


@dataclass(frozen=True)
class HostStock:
    """The slots of one host that are of one flavor's class."""

    host: str
    free: int = 0
    silent: float | None = 0.0
    """For how many seconds nothing was heard, where that is too long; 0 where the host speaks, None
    where it is not registered."""
    in_use: int = 0
    coming: tuple[datetime | None, ...] = ()
    """When each drive comes back whose case is open; None where nobody can say."""
    longest: tuple[datetime, str] | None = None
    """Since when the drive waits that waits longest of those without a time, and its slot and why;
    None where all have one."""
    held: Mapping[str, int] = field(default_factory=dict)
    """By code."""
    retired: int = 0
    """Slots whose drives never come back: something comes of them when another drive is put in."""
    unknown: int = 0
    """In a state that this release does not know."""
    maintenance: str = ""
    """What is said of the host's; empty where it is in none."""
    maintained: int = 0
    """Slots that are in one by themselves."""

    @property
    def speaks(self) -> bool:
        """Its free drives can be sold."""
        return self.silent == 0.0

    @property
    def drives(self) -> int:
        """That can be sold, now or at some time."""
        gone = self.in_use + len(self.coming) + sum(self.held.values()) + self.unknown
        return self.free + gone


class Reach(enum.IntEnum):
    """Whether a host can ever have one more of a flavor."""

    OWN_DRIVES = 0
    """When drives that it has come back."""
    OTHER_DRIVES = 1
    """When drives are put in the place of retired ones."""
    NEVER = 2
    """It has too few slots."""


@dataclass(frozen=True)
class Return:
    """When so many more can be sold."""

    at: datetime
    more: int


@dataclass(frozen=True)
class Capacity:
    """One flavor on one host, or on all of them."""

    flavor: str
    host: str
    """Empty: all hosts."""
    drives: int
    """That the flavor takes."""
    sellable: int
    """Whole flavors that can be sold now. Flavors take from the same drives: each figure is for
    when only this one is sold."""
    free: int
    """Drives, of hosts that speak."""
    missing: int
    """Drives that would have to come back for one more, at the host where that is the fewest of
    those that have so many."""
    doubtful: int
    """Free drives of hosts of which nothing is heard."""
    in_use: int
    coming: int
    """Drives whose cases are open: they come back by themselves."""
    held: int
    """Drives that only people return."""
    retired: int
    """Drives that nobody returns."""
    reach: Reach
    """Of the host that is nearest to one more."""
    returns: tuple[Return, ...]
    """Of the drives whose time is known."""
    next_at: datetime | None
    """When the next one can be sold that cannot be now."""
    says: str
    """All of it that matters, for people."""


def of_classes(flavors: Iterable[SoldFlavor], classes: Collection[str]) -> list[SoldFlavor]:
    """Each with its class; ``classes`` are those of all enrolled slots.

    Raises ``BadInputError`` for a flavor that names none, where there are several.
    """
    return [replace(each, resource_class=each.resource_class or _only(classes)) for each in flavors]


def _only(classes: Collection[str]) -> str:
    """The one that all slots have; empty where there are none."""
    found = sorted(classes)
    if len(found) > 1:
        raise BadInputError(
            f"flavors: expected one resource class, found {', '.join(found)} enrolled; name each "
            "flavor's in [capacity]flavors"
        )
    return found[0] if found else ""


def whole(free: Iterable[tuple[int, int]], drives: int) -> tuple[int, int]:
    """Whole flavors, and the drives that are left over, where ``free`` says how many drives are
    free on how many hosts."""
    pairs = list(free)
    return (
        sum(hosts * (count // drives) for count, hosts in pairs),
        sum(hosts * (count % drives) for count, hosts in pairs),
    )


def of_host(flavor: SoldFlavor, stock: HostStock, now: datetime) -> Capacity:
    """One flavor on one host."""
    found = _counted(flavor, stock)
    return replace(found, says=_said(_host_says(found, stock, now)))


def _counted(flavor: SoldFlavor, stock: HostStock) -> Capacity:
    """Without its words: whoever adds ten thousand hosts up reads none of them."""
    free = stock.free if stock.speaks else 0
    sellable = free // flavor.drives
    returns = _returns(flavor.drives, free, stock) if stock.speaks else ()
    return Capacity(
        flavor=flavor.name,
        host=stock.host,
        drives=flavor.drives,
        sellable=sellable,
        free=free,
        missing=flavor.drives - free % flavor.drives,
        doubtful=stock.free - free,
        in_use=stock.in_use,
        coming=len(stock.coming),
        held=sum(stock.held.values()),
        retired=stock.retired,
        reach=_reach(stock, (sellable + 1) * flavor.drives),
        returns=returns,
        next_at=returns[0].at if returns else None,
        says="",
    )


def of_all(flavor: SoldFlavor, stocks: Sequence[HostStock], now: datetime) -> Capacity:
    """One flavor on all hosts."""
    each = [_counted(flavor, stock) for stock in stocks]
    more: Counter[datetime] = Counter()
    for one in each:
        for back in one.returns:
            more[back.at] += back.more
    returns = tuple(Return(at, more[at]) for at in sorted(more))
    found = Capacity(
        flavor=flavor.name,
        host="",
        drives=flavor.drives,
        sellable=sum(one.sellable for one in each),
        free=sum(one.free for one in each),
        missing=min((one.missing for one in each if not one.reach), default=flavor.drives),
        doubtful=sum(one.doubtful for one in each),
        in_use=sum(one.in_use for one in each),
        coming=sum(one.coming for one in each),
        held=sum(one.held for one in each),
        retired=sum(one.retired for one in each),
        reach=min((one.reach for one in each), default=Reach.NEVER),
        returns=returns,
        next_at=returns[0].at if returns else None,
        says="",
    )
    return replace(found, says=_said(_all_say(found, each, stocks, now)))


def _reach(stock: HostStock, drives: int) -> Reach:
    if stock.drives >= drives:
        return Reach.OWN_DRIVES
    return Reach.OTHER_DRIVES if stock.drives + stock.retired >= drives else Reach.NEVER


def _returns(drives: int, free: int, stock: HostStock) -> tuple[Return, ...]:
    more: Counter[datetime] = Counter()
    known = sorted(at for at in stock.coming if at is not None)
    for count, at in enumerate(known, start=free + 1):
        if count % drives == 0:
            more[at] += 1
    return tuple(Return(at, more[at]) for at in sorted(more))


def _said(sentences: Iterable[str]) -> str:
    return " ".join(filter(None, sentences))


def _host_says(found: Capacity, stock: HostStock, now: datetime) -> list[str]:
    left = found.free - found.sellable * found.drives
    if not stock.speaks:
        now_there = _doubt(stock)
    elif found.sellable:
        now_there = f"{found.sellable} can be sold now."
        if left and found.reach is Reach.NEVER:
            now_there += f" {_drives(left)} left over: the host has no slots for another one."
        elif left:
            now_there += f" {_drives(left)} left over, {found.missing} short of another one."
    elif left:
        now_there = f"{left} of {found.drives} drives are free, so no {found.flavor}."
    else:
        now_there = "No drive is free."
    back = ""
    if found.next_at is not None:
        back = f"One more {_when(found.next_at, now)}."
    few = ""
    if found.reach is Reach.NEVER and not found.sellable:
        slots = stock.drives + stock.retired
        few = (
            f"The host has {slots} {'slot' if slots == 1 else 'slots'} of that class and never has "
            f"{found.flavor} (it takes {found.drives})."
        )
    return [now_there, back, few, *_rest([stock])]


def _all_say(
    found: Capacity, each: Sequence[Capacity], stocks: Sequence[HostStock], now: datetime
) -> list[str]:
    can = [one.host for one in each if one.sellable]
    best = max((one.free for one in each), default=0)
    left = found.free - found.sellable * found.drives
    if can:
        now_there = f"{found.sellable} can be sold now, on {_hosts(can)}."
        if left and found.drives > 1:
            now_there += f" {_drives(left)} left over on hosts that have too few for another one."
    elif best:
        now_there = (
            f"{found.free} free, but at most {best} on one host, so no {found.flavor} "
            f"(it takes {found.drives})."
        )
    else:
        now_there = "No drive is free."
    back = ""
    if found.next_at is not None:
        where = [one.host for one in each if one.next_at == found.next_at]
        back = f"One more {_when(found.next_at, now)}, on {_hosts(where)}."
    silent = [stock for stock in stocks if not stock.speaks]
    doubt = ""
    if found.doubtful:
        some = [stock.host for stock in silent if stock.free]
        doubt = (
            f"{_drives(found.doubtful)} more on offer on {_hosts(some)}, of which nothing is "
            "heard: nobody knows whether a guest would start there."
        )
    elif silent:
        doubt = f"Nothing is heard of {_hosts([stock.host for stock in silent])}."
    small = [one.host for one in each if one.reach is Reach.NEVER and not one.sellable]
    never = f"Never on {_hosts(small)}: too few slots." if small else ""
    return [now_there, back, doubt, *_rest(stocks), never]


def _rest(stocks: Sequence[HostStock]) -> list[str]:
    """What comes back at no time that is known, and what returns it."""
    untimed = sum(
        len(stock.coming) if not stock.speaks else stock.coming.count(None) for stock in stocks
    )
    held: Counter[str] = Counter()
    for stock in stocks:
        held.update(stock.held)
    used, unknown = sum(s.in_use for s in stocks), sum(s.unknown for s in stocks)
    retired = sum(stock.retired for stock in stocks)
    found = []
    if untimed:
        known = [stock.longest for stock in stocks if stock.longest is not None]
        why = f". {min(known)[1]}" if known else ": 'slot show' says what it waits for."
        found.append(f"{_drives(untimed)} in quarantine for which there is no time{why}")
    if held:
        # The most first; the sentence has room for one remedy.
        codes = sorted(held, key=lambda code: (-held[code], code))
        named = ", ".join(f"{held[code]} {code}" for code in codes)
        found.append(
            f"{_drives(held.total())} held, and never back by itself ({named}). "
            f"{codes[0]}: {holds.meaning(codes[0]).remedy}"
        )
    if retired == 1:
        found.append("1 drive is retired: put another one in and enrol its slot again.")
    elif retired:
        found.append(f"{_drives(retired)} are retired: put others in and enrol their slots again.")
    if used:
        found.append(f"{_drives(used)} in use.")
    if unknown:
        found.append(f"{_drives(unknown)} in a state that this release does not know.")
    return [*found, *_maintenance(stocks)]


def _maintenance(stocks: Sequence[HostStock]) -> list[str]:
    hosts = [stock for stock in stocks if stock.maintenance]
    found = []
    if len(stocks) == 1 and hosts:
        words = " ".join(hosts[0].maintenance.split())
        found.append(f"{words[:1].upper()}{words[1:]}{'' if words.endswith('.') else '.'}")
    elif hosts:
        found.append(f"In maintenance: {_hosts([stock.host for stock in hosts])}.")
    if slots := sum(stock.maintained for stock in stocks):
        verb = "is" if slots == 1 else "are"
        found.append(f"{slots} of the slots {verb} in maintenance ('slot show').")
    return found


def _doubt(stock: HostStock) -> str:
    if stock.silent is None:
        why = "The host is not registered"
    else:
        why = f"Nothing was heard of the host for {minutes(stock.silent)}"
    if not stock.free:
        return f"{why}."
    return f"{why}: nobody knows whether a guest would start on its {_drives(stock.free)} on offer."


def _drives(count: int) -> str:
    return f"{count} drive" if count == 1 else f"{count} drives"


def _hosts(names: Sequence[str]) -> str:
    if len(names) <= _NAMED:
        return ", ".join(names)
    return f"{len(names)} hosts ({', '.join(names[:_NAMED])}, ...)"


def _when(at: datetime, now: datetime) -> str:
    seconds = (at - now).total_seconds()
    return f"in about {minutes(seconds)}" if seconds >= 60 else "in a minute"


def minutes(seconds: float) -> str:
    """For people: ``7 min``, ``2 h 10 min``, ``3 d 4 h``."""
    whole_minutes = max(round(seconds / 60), 1)
    if whole_minutes < 100:
        return f"{whole_minutes} min"
    if whole_minutes < 2880:
        return f"{whole_minutes // 60} h {whole_minutes % 60} min"
    return f"{whole_minutes // 1440} d {whole_minutes % 1440 // 60} h"
