"""One seed in guests and without any. A module of its own: another process imports it."""

from __future__ import annotations

import logging
import tempfile
import time
from pathlib import Path

from benchmarks.composed import guests
from benchmarks.composed.rows import Row
from tests.lab.errors import LabError
from tests.lab.nvme.composed import trial
from tests.lab.nvme.composed.compose import compose


def one(seed: int, judged: str, end: float) -> Row | str | None:
    """In a process of its own; the trial without guests patches the eraser's modules there.

    A text says that the rack failed, nothing that there was no time left.
    """
    if time.time() > end:
        return None
    logging.disable(logging.WARNING)  # each lie that is met has one
    what = compose(seed)
    try:
        found = guests.attempt(seed)
        with tempfile.TemporaryDirectory() as directory:
            inside = trial.attempt(what, Path(directory), trial.shipped(), seed=seed)
    except LabError as error:
        return str(error)
    return Row(
        seed=seed,
        sentence=what.sentence,
        honest=what.honest,
        undetectable=what.undetectable,
        outcome=found.outcome,
        verdict=found.verdict,
        fit=found.fit,
        hung=found.hung,
        seconds=found.seconds,
        reasons=list(found.reasons),
        kept=found.kept,
        guest_got=found.guest_got,
        host_got=found.host_got,
        in_process=inside.outcome,
        in_process_got=sorted(inside.loot.sectors),
        in_process_reasons=[*inside.report.reasons],
        version=judged,
    )
