"""Why a slot cannot be sold: one sentence for each state, hold, and silence."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import State
from quarantine.rules import holds
from quarantine.rules.sale.notforsale import SaleFacts, remedy, together, why
from quarantine.rules.sale.pace import Pace

NOW = datetime(2026, 11, 24, 12, tzinfo=UTC)
PACE = Pace(cases=9, erase=600, verify=120, late_erase=1200, late_verify=420)


def said(state: State, seconds: float = 60, **more: object) -> str:
    entered = NOW - timedelta(seconds=seconds)
    return why(SaleFacts(state, entered, **more), NOW)  # type: ignore[arg-type]


@pytest.mark.parametrize("state", State)
@pytest.mark.parametrize("silent", [0.0, 430.0, None])
@pytest.mark.parametrize("seconds", [1, 60, 100_000])
def test_only_a_slot_on_offer_of_a_host_that_speaks_can_be_sold(
    state: State, silent: float | None, seconds: float
) -> None:
    words = said(state, seconds, silent=silent, pace=PACE)
    assert (words == "") == (state is State.AVAILABLE and silent == 0.0)
    if words and state is not State.HELD:
        assert words.endswith(".")
        assert "\n" not in words


@pytest.mark.parametrize("code", [*HoldCode, None, "of-tomorrow"])
def test_a_held_slot_says_what_returns_it(code: str | None) -> None:
    facts = SaleFacts(State.HELD, NOW, hold_code=code, reason="as\nit is")
    held, ours = f"Held ({code or holds.OLDER}): as it is.", holds.meaning(code or holds.OLDER)
    assert (why(facts, NOW), remedy(facts)) == (held, ours.remedy)
    assert together(held, ours.remedy) == f"{held} To return it: {ours.remedy}"
    assert together("", ours.remedy) == ""
    assert remedy(SaleFacts(State.RETIRED, NOW, hold_code=code)) == ""


@pytest.mark.parametrize(
    ("words", "state", "seconds", "more"),
    [
        (
            "Server 11-22 has the drive: it is erased when the server lets go of it.",
            State.IN_USE,
            60,
            {"consumer": "11-22"},
        ),
        (
            "On offer, but nothing was heard of its host for 7 min: nobody knows whether a guest "
            "would start there.",
            State.AVAILABLE,
            60,
            {"silent": 430.0},
        ),
        (
            "The drive is being erased; it can be sold in about 11 min.",
            State.ERASING,
            60,
            {"pace": PACE},
        ),
        ("The drive is being erased.", State.ERASING, 60, {}),
        (
            "The drive is being erased; nothing was heard of its host for 7 min.",
            State.ERASING,
            60,
            {"pace": PACE, "silent": 430.0},
        ),
        (
            "The drive is being erased; that has gone on for 22 min, which is longer than its "
            "model takes.",
            State.ERASING,
            1300,
            {"pace": PACE},
        ),
        (
            "The drive is dirty and waits for its erase order; that has gone on for 6 h 57 min, "
            "which is longer than usual.",
            State.QUARANTINED,
            25_000,
            {},
        ),
        (
            "The drive is erased and certified, and waits to be given back; host h: hook is "
            "absent.",
            State.CERTIFIED,
            60,
            {"unguarded": "host h: hook is absent", "pace": PACE},
        ),
        (
            "The drive was let go and waits to be taken into quarantine; Nova still names a guest.",
            State.RELEASED,
            60,
            {"detail": "Nova still names a guest", "pace": PACE},
        ),
        (
            "Retired: worn out. Its drive is never handed out again.",
            State.RETIRED,
            60,
            {"reason": "worn out"},
        ),
    ],
)
def test_the_words(words: str, state: State, seconds: float, more: dict[str, object]) -> None:
    assert said(state, seconds, **more) == words
