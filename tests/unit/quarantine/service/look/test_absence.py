"""Which absences are believed, and who hears of them."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, NoReturn

import pytest

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import View
from quarantine.cloud.placement import Placement
from quarantine.cloud.sdk import NotFoundError
from quarantine.errors import ConflictError
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.states import State
from quarantine.rules.absence import Absence, Absences, weigh
from quarantine.rules.action import ServiceLimits
from quarantine.service.reconciler import Reconciler
from quarantine.service.sweep.stray_offers import hold_unburnable
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    available,
    greet,
    open_store,
    slot_at,
)
from tests.unit.quarantine.testimony import NOW, RECORD

LATER = NOW + timedelta(seconds=900)


def cloud(slots: int, a_host: int = 8, **changes: object) -> list[SlotRecord]:
    """So many slots in use, each with a provider of its own."""
    return [
        replace(
            RECORD,
            slot=Slot(f"cmp{n // a_host}", f"0000:{n % a_host + 1:02x}:00.0"),
            provider=f"rp-{n}",
            **{"state": State.IN_USE, **changes},  # type: ignore[arg-type]
        )
        for n in range(slots)
    ]


@pytest.mark.parametrize(
    ("slots", "gone", "believed"),
    [
        (1, 1, False),  # nothing at all is listed
        (2, 1, True),
        (8, 3, True),
        (8, 4, False),
        (8, 8, False),
        (40, 4, True),
        (40, 5, False),
        (80, 8, True),  # one compute service was deleted
        (800, 80, True),
        (800, 81, False),
        (80, 80, False),
    ],
)
def test_many_at_once_are_not_believed(slots: int, gone: int, believed: bool) -> None:
    records = cloud(slots)
    missing = {record.slot for record in records[:gone]}
    found = weigh(records, {record.provider for record in records[gone:]})
    assert found == Absence(slots, frozenset() if believed else missing)


def test_a_host_that_is_down_does_not_hide_that_the_others_drives_are_there() -> None:
    lacking = weigh(cloud(24), ())
    assert [slot.host for slot in lacking.sample] == ["cmp0", "cmp1", "cmp2"]
    assert len(weigh(cloud(8), ()).sample) == 3


@pytest.mark.parametrize("changes", [{"state": State.RETIRED}, {"provider_generation": None}])
def test_what_is_parked_or_was_absent_before_does_not_count(changes: dict[str, object]) -> None:
    old = [replace(r, slot=Slot("old", r.slot.address)) for r in cloud(8, **changes)]
    assert weigh([*old, *cloud(8)], {f"rp-{n}" for n in range(1, 8)}) == Absence(8, frozenset())
    assert weigh(old, ()) == Absence(0)


def listing() -> Absences:
    """Who has listed what Placement shows since ``NOW``, without a break."""
    teller = Absences(900, within=1000)
    teller.tell(Absence(80), [], NOW)
    return teller


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_a_listing_that_is_not_believed_is_told_once_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records, teller = cloud(80), listing()
    for _ in range(60):
        teller.tell(weigh(records, ()), records, NOW)
    (alarm,) = said(caplog)
    assert alarm.startswith(
        "ALARM listing-doubted Placement: it shows 80 of 80 slots no more (cmp0 8, "
    )
    teller.tell(weigh(records, {r.provider for r in records}), records, NOW)
    (over,) = said(caplog)
    assert over.startswith("over: ")
    teller.tell(weigh(records, {r.provider for r in records}), records, NOW)
    assert said(caplog) == []


def test_a_host_whose_slots_stay_away_is_told_once_and_when_they_are_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, teller = cloud(8, provider_generation=None), listing()
    parked = [replace(each, state=State.HELD) for each in away]
    teller.tell(Absence(80), away, LATER - timedelta(seconds=1))
    teller.tell(Absence(80), parked, LATER)
    assert said(caplog) == [], "a drive that is away for one boot"
    for _ in range(3):
        teller.tell(Absence(80), away, LATER)
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM slots-absent host cmp0: Placement has shown 8 of its slots no m")
    teller.tell(Absence(80), cloud(8), LATER)
    (over,) = said(caplog)
    assert over == "over: slots-absent host cmp0: Placement shows its slots again"


def test_slots_that_were_retired_while_they_are_away_are_not_shown_again(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """As the alarm says what to do for good."""
    away, teller = cloud(8, provider_generation=None), listing()
    teller.tell(Absence(80), away, LATER)
    assert len(said(caplog)) == 1
    retired = [replace(each, state=State.RETIRED) for each in away]
    teller.tell(Absence(80), retired, LATER)
    (over,) = said(caplog)
    assert over == (
        "over: slots-absent host cmp0: those that Placement does not show are retired or held"
    )


class Vanishing(Placement):
    """Placement where nova-compute deletes the provider right after it was looked at."""

    def __init__(self, cloud: Cloud) -> None:
        super().__init__(None)
        self._cloud = cloud

    def view(self, uuid: str, resource_class: str) -> View | None:
        """As it was."""
        return self._cloud.view(uuid, resource_class)

    def _call(self, method: str, path: str, body: Mapping[str, Any] | None = None) -> NoReturn:
        raise NotFoundError(f"Placement knows no such thing: {method} {path}")


def test_a_provider_that_vanishes_during_the_look_lacks_no_trait(tmp_path: Path) -> None:
    """A compute service that is deleted takes its providers along one by one."""
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        cloud = Cloud(clock)
        record = available(store, cloud, slot_at(1))
        hold_unburnable(store, Vanishing(cloud), record)
        after = store.slot(record.slot)
    assert after is not None
    assert after.state is State.AVAILABLE


def test_a_provider_that_is_gone_is_no_answer_about_its_trait() -> None:
    with pytest.raises(ConflictError, match="look again"):
        Vanishing(Cloud()).burns("rp")


def test_a_host_that_was_enrolled_anew_does_not_wait_for_those_that_are_away(
    tmp_path: Path,
) -> None:
    """Three compute services were deleted for good; the one of a fourth host, and made again."""
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        cloud = Cloud(clock)
        for number in range(2, 5):
            greet(store, f"cmp{number}")
        for number in range(1, 4):
            slot = slot_at(1, f"cmp{number}")
            available(store, cloud, slot)
            del cloud.seats[f"rp-{slot}"]
        anew = slot_at(1, "cmp4")
        store.amend(available(store, cloud, anew), SlotChanges(provider="rp-before"))
        cloud.burn(anew)
        loop = Reconciler(
            store,
            cloud,
            NotingDispatcher(store, clock),
            ServiceLimits(),
            clock,
            tickets=NoTickets(),
            monotonic=clock.monotonic,
        )
        loop.sweep()
        after = store.slot(anew)
    assert after is not None
    assert after.state is State.ERASING
