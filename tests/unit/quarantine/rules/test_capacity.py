"""What can be sold: against a count that takes drives one by one, and in sentences."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quarantine.conf.capacity import SoldFlavor, sold
from quarantine.rules.sale import capacity
from quarantine.rules.sale.capacity import Capacity, HostStock, Reach, Return, minutes

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
FOUR = SoldFlavor("i1-180", 4)
ONE = SoldFlavor("i1-45", 1)


def at(seconds: int) -> datetime:
    return NOW + timedelta(seconds=seconds)


TIMES = st.none() | st.integers(1, 9).map(lambda n: at(n * 60))
STOCKS = st.builds(
    HostStock,
    host=st.just(""),
    free=st.integers(0, 9),
    silent=st.sampled_from([0.0, 0.0, 0.0, 500.0, None]),
    in_use=st.integers(0, 3),
    coming=st.lists(TIMES, max_size=7).map(tuple),
    held=st.dictionaries(st.sampled_from(["health", "older", "dreamt"]), st.integers(1, 2)),
    retired=st.integers(0, 2),
)
SITES = st.lists(STOCKS, max_size=5).map(
    lambda stocks: [replace(one, host=f"cmp{n}") for n, one in enumerate(stocks)]
)
FLAVORS = st.builds(SoldFlavor, name=st.just("f"), drives=st.integers(1, 5))


def taken_one_by_one(stocks: list[HostStock], drives: int, when: datetime) -> int:
    """How many servers start until no host has drives for another one."""
    free = {
        one.host: one.free + sum(1 for back in one.coming if back is not None and back <= when)
        for one in stocks
        if one.silent == 0.0
    }
    started = 0
    while host := next((name for name, left in free.items() if left >= drives), None):
        free[host] -= drives
        started += 1
    return started


@given(SITES, FLAVORS)
def test_as_many_are_sold_as_start_one_by_one_now_and_at_each_time(
    stocks: list[HostStock], flavor: SoldFlavor
) -> None:
    found = capacity.of_all(flavor, stocks, NOW)
    assert found.sellable == taken_one_by_one(stocks, flavor.drives, NOW)
    for minute in range(11):
        more = sum(back.more for back in found.returns if back.at <= at(minute * 60))
        assert found.sellable + more == taken_one_by_one(stocks, flavor.drives, at(minute * 60))
    assert found.next_at == min((back.at for back in found.returns), default=None)
    assert list(found.returns) == sorted(found.returns, key=lambda back: back.at)
    assert all(back.more > 0 for back in found.returns)


@given(SITES, FLAVORS)
def test_every_drive_is_counted_once(stocks: list[HostStock], flavor: SoldFlavor) -> None:
    found = capacity.of_all(flavor, stocks, NOW)
    counted = (found.free, found.doubtful, found.in_use, found.coming, found.held, found.retired)
    assert sum(counted) == sum(
        one.free + one.in_use + len(one.coming) + sum(one.held.values()) + one.retired
        for one in stocks
    )
    each = [capacity.of_host(flavor, one, NOW) for one in stocks]
    for name in ("sellable", "free", "doubtful", "in_use", "coming", "held", "retired"):
        assert getattr(found, name) == sum(getattr(one, name) for one in each)


@given(SITES, FLAVORS)
def test_what_is_missing_is_the_fewest_drives_that_make_one_more(
    stocks: list[HostStock], flavor: SoldFlavor
) -> None:
    found = capacity.of_all(flavor, stocks, NOW)
    assert 1 <= found.missing <= flavor.drives
    heard = [one for one in stocks if one.silent == 0.0]
    can = [one for one in heard if one.drives >= (one.free // flavor.drives + 1) * flavor.drives]
    if not can:
        assert found.missing == flavor.drives
        return
    mended = []
    for host in can:
        more = [replace(one, free=one.free + found.missing * (one is host)) for one in stocks]
        less = [replace(one, free=one.free + (found.missing - 1) * (one is host)) for one in stocks]
        mended.append(taken_one_by_one(more, flavor.drives, NOW) > found.sellable)
        assert taken_one_by_one(less, flavor.drives, NOW) == found.sellable
    assert any(mended)


@given(SITES, FLAVORS)
def test_the_count_of_a_scrape_is_the_same(stocks: list[HostStock], flavor: SoldFlavor) -> None:
    """It knows only how many hosts have how many free drives."""
    found = capacity.of_all(flavor, stocks, NOW)
    pairs = Counter(one.free for one in stocks if one.silent == 0.0).items()
    left = found.free - found.sellable * flavor.drives
    assert capacity.whole(pairs, flavor.drives) == (found.sellable, left)


@given(SITES, FLAVORS)
def test_every_state_of_a_site_has_words(stocks: list[HostStock], flavor: SoldFlavor) -> None:
    for found in (
        capacity.of_all(flavor, stocks, NOW),
        *(capacity.of_host(flavor, one, NOW) for one in stocks),
    ):
        assert found.says.endswith((".", ")"))
        assert "  " not in found.says
        assert ("can be sold now" in found.says) == (found.sellable > 0)
        assert ("never back by itself" in found.says) == (found.held > 0)
        assert ("One more in" in found.says) == (found.next_at is not None)
        assert ("nobody knows whether" in found.says) == (found.doubtful > 0)


def all_of(*stocks: HostStock, flavor: SoldFlavor = FOUR) -> Capacity:
    return capacity.of_all(flavor, stocks, NOW)


def test_the_sunday_page() -> None:
    """Sold out although drives are free: the sentence says that no host has enough of them."""
    found = all_of(HostStock("cmp1", free=2, in_use=2), HostStock("cmp2", free=2, in_use=2))
    assert (found.sellable, found.free, found.missing) == (0, 4, 2)
    assert found.says == (
        "4 free, but at most 2 on one host, so no i1-180 (it takes 4). 4 drives in use."
    )


def test_a_silent_host_sells_nothing_and_is_named() -> None:
    found = all_of(HostStock("cmp7", free=4, silent=430.0))
    assert (found.sellable, found.free, found.doubtful) == (0, 0, 4)
    assert found.says == (
        "No drive is free. 4 drives more on offer on cmp7, of which nothing is heard: nobody knows "
        "whether a guest would start there."
    )
    (host,) = [capacity.of_host(FOUR, HostStock("cmp7", free=4, silent=430.0), NOW)]
    assert host.says == (
        "Nothing was heard of the host for 7 min: nobody knows whether a guest would start on its "
        "4 drives on offer."
    )
    gone = capacity.of_host(FOUR, HostStock("cmp7", free=1, silent=None), NOW)
    assert gone.says.startswith("The host is not registered: nobody knows")


def test_what_comes_back_is_said_with_its_host_and_its_time() -> None:
    found = all_of(
        HostStock("cmp1", free=3, coming=(at(720), None)),
        HostStock("cmp2", free=2, coming=(at(60), at(3600))),
        HostStock("cmp3", free=4),
    )
    assert found.returns == (Return(at(720), 1), Return(at(3600), 1))
    assert found.says == (
        "1 can be sold now, on cmp3. 5 drives left over on hosts that have too few for another "
        "one. One more in about 12 min, on cmp1. 1 drive in quarantine for which there is no "
        "time: 'slot show' says what it waits for."
    )


def test_held_drives_never_come_back_by_themselves_and_the_remedy_is_named() -> None:
    held = {"no-one-time-use": 2, "health": 1}
    found = capacity.of_host(FOUR, HostStock("cmp1", held=held, in_use=1), NOW)
    assert (found.returns, found.held) == ((), 3)
    assert found.says == (
        "No drive is free. 3 drives held, and never back by itself (2 no-one-time-use, 1 health). "
        "no-one-time-use: Restore `one_time_use` in device_spec, restart nova-compute, then `slot "
        "release`. 1 drive in use."
    )


def test_retired_drives_are_said_with_what_fills_their_place() -> None:
    worn = HostStock("worn", free=3, retired=1)
    host = capacity.of_host(FOUR, worn, NOW)
    assert (host.missing, host.reach) == (1, Reach.OTHER_DRIVES)
    assert host.says == (
        "3 of 4 drives are free, so no i1-180. "
        "1 drive is retired: put another one in and enrol its slot again."
    )
    two = capacity.of_host(FOUR, HostStock("worn", in_use=4, retired=2), NOW)
    assert "2 drives are retired: put others in and enrol their slots again." in two.says


def test_a_host_with_too_few_slots_never_has_the_flavor() -> None:
    host = capacity.of_host(FOUR, HostStock("two-bay", free=2), NOW)
    assert host.reach is Reach.NEVER
    assert host.says == (
        "2 of 4 drives are free, so no i1-180. "
        "The host has 2 slots of that class and never has i1-180 (it takes 4)."
    )
    five = capacity.of_host(FOUR, HostStock("five", free=5), NOW)
    assert five.says == (
        "1 can be sold now. 1 drive left over: the host has no slots for another one."
    )


def test_what_is_missing_is_counted_where_so_many_drives_can_come() -> None:
    """Neither where retired drives would have to come back, nor where there are no slots."""
    small, worn = HostStock("two-bay", free=2), HostStock("worn", free=3, retired=1)
    found = all_of(small, worn, HostStock("full", in_use=4))
    assert (found.missing, found.reach) == (4, Reach.OWN_DRIVES)
    assert found.says.endswith("Never on two-bay: too few slots.")
    assert "1 drive is retired: put another one in and enrol its slot again." in found.says
    assert all_of(small, worn).missing == 4


def test_a_silent_hosts_cases_have_no_time() -> None:
    found = all_of(HostStock("cmp1", free=3, coming=(at(60),), silent=999.0))
    assert (found.returns, found.coming) == ((), 1)
    assert "1 drive in quarantine for which there is no time" in found.says
    assert "Nothing is heard of cmp1." in all_of(HostStock("cmp1", silent=999.0)).says


def test_flavors_of_one_drive_have_nothing_left_over() -> None:
    found = all_of(HostStock("cmp1", free=3), HostStock("cmp2", free=2), flavor=ONE)
    assert found.says == "5 can be sold now, on cmp1, cmp2."
    none = all_of(flavor=ONE)
    assert (none.sellable, none.missing, none.says) == (0, 1, "No drive is free.")


def test_many_hosts_are_counted_and_some_named() -> None:
    found = all_of(*(HostStock(f"cmp{n}", free=4) for n in range(9)))
    assert found.says == "9 can be sold now, on 9 hosts (cmp0, cmp1, cmp2, ...)."


def test_a_state_of_another_release_is_said() -> None:
    found = all_of(HostStock("cmp1", unknown=2))
    assert "2 drives in a state that this release does not know." in found.says


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(1, "1 min"), (89, "1 min"), (420, "7 min"), (7800, "2 h 10 min"), (273600, "3 d 4 h")],
)
def test_lengths_of_time(seconds: float, words: str) -> None:
    assert minutes(seconds) == words


def test_flavors_as_they_are_configured() -> None:
    assert sold(["a:1", "b:4:CUSTOM_X"]) == (SoldFlavor("a", 1), SoldFlavor("b", 4, "CUSTOM_X"))
    # A blank would make a class that no slot has, and nothing of it could ever be sold.
    assert sold(["b: 4: CUSTOM_X", "c :1 "]) == (SoldFlavor("b", 4, "CUSTOM_X"), SoldFlavor("c", 1))
    for wrong in (["a"], ["a:0"], [":1"], ["a:x"], ["a:-1"], ["a:1", "a:2"], ["a:99999"], ["\n:1"]):
        with pytest.raises(ValueError, match=r"\[capacity\]flavors"):
            sold(wrong)
