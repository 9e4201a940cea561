"""Which absences are believed, and who hears of them."""

from __future__ import annotations

import logging
from dataclasses import replace
from datetime import timedelta

import pytest

from eraser.wire.identity import Slot
from quarantine.absence import Absence, Absences, weigh
from quarantine.record.facts import SlotRecord
from quarantine.record.states import State
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


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    found = [r.getMessage() for r in caplog.records if r.levelno >= logging.WARNING]
    caplog.clear()
    return found


def test_a_listing_that_is_not_believed_is_told_once_and_when_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    records, teller = cloud(80), Absences(900)
    for _ in range(60):
        teller.tell(weigh(records, ()), records, NOW)
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM Placement shows 80 of 80 slots no more (cmp0 8, ")
    teller.tell(weigh(records, {r.provider for r in records}), records, NOW)
    (over,) = said(caplog)
    assert over.startswith("over: ")
    teller.tell(weigh(records, {r.provider for r in records}), records, NOW)
    assert said(caplog) == []


def test_a_host_whose_slots_stay_away_is_told_once_and_when_they_are_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    away, teller = cloud(8, provider_generation=None), Absences(900)
    parked = [replace(each, state=State.HELD) for each in away]
    teller.tell(Absence(80), away, LATER - timedelta(seconds=1))
    teller.tell(Absence(80), parked, LATER)
    assert said(caplog) == [], "a drive that is away for one boot"
    for _ in range(3):
        teller.tell(Absence(80), away, LATER)
    (alarm,) = said(caplog)
    assert alarm.startswith("ALARM host cmp0: Placement has shown 8 of its slots no more for 15 m")
    teller.tell(Absence(80), cloud(8), LATER)
    (over,) = said(caplog)
    assert over == "over: host cmp0: Placement shows its slots again"
