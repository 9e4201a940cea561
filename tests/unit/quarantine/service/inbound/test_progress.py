"""What a host says of a running case is shown, and moves the slot to verifying."""

from __future__ import annotations

import pytest

from eraser.protocol.report import PROGRESS_TYPE, Step
from quarantine.errors import RefusedError
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from tests.unit.quarantine.service.inbound.plane import Plane


def test_progress_is_shown_and_moves_to_verifying(plane: Plane) -> None:
    plane.ordered()

    def send(sequence: int, step: Step, fraction: float = 0.5) -> SlotRecord:
        progress = plane.progress(sequence, step, fraction)
        plane.inbox.progress(plane.signed(progress, PROGRESS_TYPE))
        return plane.record()

    assert (send(1, Step.ERASE).step, plane.record().fraction) == (Step.ERASE, 0.5)
    assert plane.record().state is State.ERASING
    assert send(2, Step.VERIFY).state is State.VERIFYING
    assert send(1, Step.ERASE).step is Step.VERIFY  # overtaken
    assert send(3, Step.VERIFY, 7.0).fraction == 1.0
    plane.inbox.report(plane.report())
    assert send(4, Step.VERIFY).state is State.CERTIFIED
    assert plane.store.refusals() == []


def test_progress_of_another_key_is_refused(plane: Plane) -> None:
    plane.ordered()
    token = plane.signed(plane.progress(1, Step.VERIFY), PROGRESS_TYPE, plane.other_host)
    with pytest.raises(RefusedError):
        plane.inbox.progress(token)
    assert plane.record().state is State.ERASING
    assert [refusal.kind for refusal in plane.store.refusals()] == ["progress"]
