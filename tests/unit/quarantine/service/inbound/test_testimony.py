"""What a host says of its gate: defences that are gone, guests let in by a person."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.protocol.ticket import MAX_ALLOWANCES, AllowanceUsed, OwnerRefused
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import holds
from quarantine.service.inbound.authenticate import QUIET_SECONDS
from quarantine.service.inbound.messages import CALLS, NOTES
from tests.unit.quarantine.service.inbound.plane import ALL_WELL, UNHOOKED, Plane, on_offer, told
from tests.unit.quarantine.testimony import SLOT


def test_a_hello_that_a_defence_is_gone_has_the_slots_on_offer_looked_at(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    on_offer(plane)
    told(plane, 1, ALL_WELL)
    assert plane.looks.slots == []
    assert "ALARM" not in caplog.text
    for sequence in (2, 3):
        told(plane, sequence, UNHOOKED)
    # Looked at until it is settled, told once.
    assert plane.looks.slots == [SLOT, SLOT]
    assert caplog.text.count("ALARM gate-news host cmp1: hook is absent: gone") == 1


def test_a_guest_let_in_by_a_persons_word_is_in_the_slots_history_once(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    on_offer(plane)
    used = AllowanceUsed(SLOT.address, "uuid-1", "ada", "3 a.m.", "2026-11-20T03:00:00Z")
    for sequence in (1, 2, 1):
        told(plane, sequence, replace(ALL_WELL, allowances=(used,)))
    notes = [row.reason for row in plane.store.history(SLOT) if "ada" in row.reason]
    assert len(notes) == 1
    assert "3 a.m." in notes[0]
    assert caplog.text.count("ALARM gate-news host cmp1: '0000:01:00.0': ada let") == 1


def test_a_host_that_says_another_allowance_with_each_hello_fills_no_history(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Each line is a write in the lane of all hosts' hellos, and a certificate reads them all."""
    on_offer(plane)

    def say(number: int) -> int:
        used = [
            AllowanceUsed(SLOT.address, "u", "ada", "again", f"{number}/{each}")
            for each in range(MAX_ALLOWANCES)
        ]
        told(plane, number, replace(ALL_WELL, allowances=tuple(used)))
        return len(plane.store.history(SLOT))

    before = len(plane.store.history(SLOT))
    lines = [say(number) - before for number in range(1, 6)]
    assert lines == [NOTES] * 5
    assert caplog.text.count("ALARM gate-news host cmp1: ") == 5
    plane.store.hold(plane.record(), holds.because(HoldCode.BY_PERSON, "tried"))
    assert say(6) - before == 2 * NOTES + 1, "another state has lines of its own"


def test_a_host_that_never_stops_having_news_does_not_hide_all_other_alarms(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Rooted, it says another one with each hello; after a quiet hour what comes is news again."""
    seconds = [0.0]
    plane.inbox.monotonic = lambda: seconds[0]

    def say(number: int) -> int:
        used = AllowanceUsed(SLOT.address, "u", "ada", "again", f"{number}")
        told(plane, number, replace(ALL_WELL, allowances=(used,)))
        return caplog.text.count("ALARM gate-news host cmp1: ")

    assert [say(number) for number in range(1, 2 * CALLS + 2)][CALLS - 1 :] == (
        [CALLS] * CALLS + [CALLS + 1] * 2
    )
    seconds[0] += QUIET_SECONDS
    assert say(2 * CALLS + 2) == CALLS + 2


def test_an_owner_that_was_refused_its_drive_is_told_once(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    on_offer(plane)
    said = OwnerRefused(SLOT.address, "uuid-1", "vm", "Power Cycles went back", "2026-11-20T03:00Z")
    later = replace(said, at="2026-11-20T04:00Z")
    for sequence, each in enumerate(((said,), (later,), ())):
        told(plane, sequence + 1, replace(ALL_WELL, refused=each))
    assert caplog.text.count("ALARM gate-news host cmp1: '0000:01:00.0': the gate refused ") == 1
    assert caplog.text.count("ALARM gate-news") == 1
    notes = [row.reason for row in plane.store.history(SLOT) if "went back" in row.reason]
    assert len(notes) == 1
    told(plane, 4, replace(ALL_WELL, refused=(later,)))
    assert caplog.text.count("ALARM gate-news") == 2, "it was let in meanwhile"


def test_more_allowances_than_a_host_remembers_are_no_hello() -> None:
    used = AllowanceUsed(SLOT.address, "u", "ada", "r", "2026-11-20T03:00:00Z")
    with pytest.raises(ValueError, match="at most 32 allowances"):
        replace(ALL_WELL, allowances=(used,) * (MAX_ALLOWANCES + 1))


def test_many_guests_let_in_at_once_are_one_alarm(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """A host whose guests were all let in past the gate calls people once."""
    on_offer(plane)
    used = [
        AllowanceUsed(
            f"0000:{bus:02x}:00.0", "uuid-1", "ada", f"reason {bus}", "2026-11-20T03:00:00Z"
        )
        for bus in range(1, 9)
    ]
    told(plane, 1, replace(ALL_WELL, allowances=tuple(used)))
    assert caplog.text.count("ALARM gate-news host cmp1: ") == 1
    assert "reason 3; and 5 more" in caplog.text
    assert "reason 4" not in caplog.text
    assert any("reason 1" in row.reason for row in plane.store.history(SLOT))
