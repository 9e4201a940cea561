"""Defects that were mended, put back one at a time: today's site still finds each of them.

What it is worth was shown once on the release that had them (docs/site.md), which today's site can
no longer be laid over.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import pytest

from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.rules import decide
from quarantine.rules.action import Action, ActionKind
from quarantine.rules.holds import because
from quarantine.service import look, reconciler
from quarantine.service.reconciler import Reconciler
from quarantine.service.turns import TimeBox
from tests.site import doors
from tests.site.plane import Plane
from tests.site.script import draw
from tests.site.site import run

pytestmark = pytest.mark.campaign


@dataclass(frozen=True)
class Defect:
    """A mend that is taken out, and what the site must say of it, within so many seeds."""

    name: str
    put_back: Callable[[pytest.MonkeyPatch], None]
    faults: tuple[str, ...]
    kind: str
    seeds: int = 3
    small: bool = True


def never_settled(patch: pytest.MonkeyPatch) -> None:
    """One look at a claim, and its generation is kept: whether Nova burns it nobody asks again."""
    patch.setattr(look, "_settled", lambda *_: True)


def traits_unasked(patch: pytest.MonkeyPatch) -> None:
    """Given back without a look at what Nova would do with it."""

    def give_back(_look: object) -> Action:
        changes = SlotChanges(offered_as=None)
        return Action(ActionKind.GIVE_BACK, "certified", changes=changes)

    patch.setattr(decide, "_give_back", give_back)


def safety_waits(patch: pytest.MonkeyPatch) -> None:
    """No thread of its own, and passes as long as they take."""

    def loop(plane: Plane) -> None:
        with plane._assembled() as assembly:
            assembly.reconciler.run_forever(doors.Event(plane.world))  # type: ignore[arg-type]

    def box(loop: Reconciler, share: float = 0.0) -> TimeBox:
        return TimeBox(1e9, loop._monotonic)

    patch.setattr(Plane, "_loop", loop)
    patch.setattr(Reconciler, "_box", box)


def listing_believed(patch: pytest.MonkeyPatch) -> None:
    """What one list leaves out is held, and asked for by nobody."""

    def hold(store: Store, _placement: object, record: SlotRecord) -> None:
        why = because(HoldCode.NO_ONE_TIME_USE, "it is not listed")
        store.hold(record, why, changes=SlotChanges(new_case=True))

    patch.setattr(reconciler, "hold_unburnable", hold)


DEFECTS = [
    Defect("H1", never_settled, ("never_burns", "broker_down"), "unlocked"),
    Defect("H2", traits_unasked, ("trait_dropped",), "unburnable"),
    Defect("H4", safety_waits, ("slow", "freed"), "offer", seeds=4, small=False),
    Defect("M2", listing_believed, ("placement_empty",), "held"),
]


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name)
def test_the_site_finds_it(defect: Defect, monkeypatch: pytest.MonkeyPatch) -> None:
    defect.put_back(monkeypatch)
    for seed in range(1, defect.seeds + 1):
        script = draw(seed, "swarm", faults=defect.faults, small=defect.small)
        if run(script, frozenset({defect.kind})).findings:
            return
    raise AssertionError(f"expected {defect.kind!r} within {defect.seeds} seeds, found nothing")


@pytest.mark.parametrize("defect", DEFECTS, ids=lambda each: each.name)
def test_and_nothing_without_it(defect: Defect) -> None:
    """The same seeds: what is found above is the defect's."""
    for seed in range(1, defect.seeds + 1):
        script = draw(seed, "swarm", faults=defect.faults, small=defect.small)
        result = run(script, frozenset({defect.kind}))
        assert not result.findings, f"seed {seed}: {result.findings[0]}"
