"""Capacity in no namespace that was made one for the case: what is believed of it, and said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.wire import codec
from eraser.wire.report import EraseReport
from quarantine.check import Ruling
from quarantine.evidence.certificate import Link
from tests.unit.quarantine.test_certificate import issue
from tests.unit.quarantine.test_check import ruled
from tests.unit.quarantine.testimony import COUNTS, FACTS, REPORT, VERIFICATION, command

ROOM = replace(COUNTS, nsid=2, blocks=1000, read=1000, zeros=1000, temporary=True)


def report(*, detached: tuple[int, ...] = (), nsid: int = 2) -> EraseReport:
    """The namespace was made, attached, read and deleted."""
    sent = (command(0x0D, 0), command(0x15, 0), *REPORT.commands, command(0x0D, 1))
    record = replace(VERIFICATION, namespaces=(COUNTS, replace(ROOM, nsid=nsid)))
    facts = replace(FACTS, detached=detached)
    return replace(REPORT, facts_after=facts, commands=sent, verification=record)


def test_it_is_said_and_is_no_change_of_the_layout() -> None:
    assert ruled(report()) == (Ruling.CERTIFY, "")
    said = issue(Link(), report()).certificate
    assert said.exceptions == (
        "1000 blocks of 4,096 bytes belonged to no namespace: they were made temporary ones (2), "
        "erased and read with the rest, and freed again.",
    )
    assert [each.temporary for each in said.verification.namespaces] == [False, True]


@pytest.mark.parametrize(
    ("found", "word"),
    [
        (report(detached=(2,)), "expected temporary namespaces to be deleted, found [2]"),
        (report(nsid=1), "each namespace once"),
    ],
)
def test_one_that_is_still_there_holds_the_drive(found: EraseReport, word: str) -> None:
    ruling, reason = ruled(found)
    assert ruling is Ruling.HOLD
    assert word in reason


def test_a_namespace_that_stays_is_written_as_before() -> None:
    assert b"temporary" not in codec.canonical(COUNTS)
