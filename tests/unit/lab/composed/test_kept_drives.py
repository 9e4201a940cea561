"""Every drive of the corpus in the eraser's hands, by the policy as it ships, ends as it did.

One that is let through no more leaves the list; none may join it.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from tests.lab.nvme.composed import corpus
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.trial import Outcome, attempt, shipped

LET_THROUGH: Final = {
    "bus reset": "a policy may ask for it",
    "subsystem reset": "a policy may ask for it",
    "power cycle": "not done; printed",
    "metadata": "Sanitize reaches it by the standard; not examined, printed",
    "CMB": "Sanitize reaches it by the standard; not examined, printed",
    "PMR": "Sanitize reaches it by the standard; not examined, printed",
    "deallocated blocks come back": "after a power cycle",
    "a minute of rest": "the last look waits for 30 s",
    "an hour later": "undetectable",
    "a secret knock": "undetectable",
    "let through, seed 109": "a detached namespace is not looked at after two resets",
    "let through, seed 158": "after a Security command of a drive that says it has none",
    "let through, seed 167": "metadata",
    "let through, seed 175": "a PMR, by Sanitize",
}
"""Names, and why (docs/composed.md)."""
KEPT_NOTHING: Final = {
    "capacity in no namespace": "it is formatted with a temporary one",
    "one die of seven, after a reset and a write": "only crypto erase, and a block erase follows",
    "last writes, by a cache": "a reset of the controller empties it",
}

LARGER: Final = {
    # The visit's reads of 500 KiB have all of the usual 16 MiB before the last method, so it keeps
    # what nobody ever sees.
    "pleases whoever probes it": 64 << 20,
}
"""Bytes of a drive that is tried as a larger one, and why."""

BY_CHANCE: Final = {
    "FUA, of places that nobody probed": "the visit reads few of them with FUA",
}


@pytest.mark.campaign
@pytest.mark.parametrize("what", corpus.read(), ids=lambda one: one.name)
def test_each_kept_drive_ends_as_it_did(what: Description, tmp_path: Path) -> None:
    expected = Outcome.HELD
    if what.name in LET_THROUGH:
        expected = Outcome.LET_THROUGH
    elif what.name in KEPT_NOTHING:
        expected = Outcome.NOTHING_KEPT
    size = LARGER.get(what.name, 16 << 20)
    found = attempt(what, tmp_path, shipped(), size=size).outcome
    if what.name in BY_CHANCE:
        assert found in (Outcome.HELD, Outcome.LET_THROUGH)
    else:
        assert found is expected


def test_each_name_is_one_of_the_corpus() -> None:
    assert {*LET_THROUGH, *KEPT_NOTHING, *BY_CHANCE} <= {what.name for what in corpus.read()}
