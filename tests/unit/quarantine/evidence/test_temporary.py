"""Capacity in no namespace that was made one for the case: what is believed of it, and said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.protocol import codec
from eraser.protocol.conclusions import unallocated
from eraser.protocol.policy import Unallocated
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import EraseReport
from quarantine.evidence.certificate import Link
from quarantine.record.words.reasons import HoldCode
from quarantine.rules.reports.check import Ruling, check
from tests.unit.quarantine.evidence.test_certificate import issue
from tests.unit.quarantine.evidence.test_check import ruled
from tests.unit.quarantine.testimony import (
    COUNTS,
    FACTS,
    NAMESPACE,
    ORDER,
    RECORD,
    REPORT,
    VERIFICATION,
    command,
)

ROOM = replace(COUNTS, nsid=2, blocks=1000, read=1000, zeros=1000, reread=1000, temporary=True)


def report(*, detached: tuple[int, ...] = (), nsid: int = 2) -> EraseReport:
    """The namespace was made, attached, read and deleted."""
    sent = (command(0x0D, 0), command(0x15, 0), *REPORT.commands, command(0x0D, 1))
    record = replace(VERIFICATION, namespaces=(COUNTS, replace(ROOM, nsid=nsid)))
    facts = replace(FACTS, detached=tuple(replace(NAMESPACE, nsid=found) for found in detached))
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


@pytest.mark.parametrize(
    ("unallocated", "made", "said"),
    [(0, 0, False), (1 << 28, 0, True), (1 << 28, 1 << 16, False), (1 << 28, 1000, True),
     (FACTS.total_bytes + 1, 0, False)],
)  # fmt: skip
def test_what_belongs_to_no_namespace_and_was_not_read_is_said(
    unallocated: int, made: int, said: bool
) -> None:
    """Whatever its host says of it. More than the drive has is no figure."""
    room = (replace(ROOM, blocks=made, read=made, zeros=made),) if made else ()
    facts = replace(FACTS, unallocated_bytes=unallocated)
    seen = replace(VERIFICATION, namespaces=(COUNTS, *room))
    body = issue(Link(), replace(REPORT, facts_after=facts, verification=seen)).certificate
    left = f"{unallocated - made * 4096:,} bytes"
    assert any(left in line for line in body.not_done) is said


def looks(before: int, after: int, made: int = 0, oacs: int = FACTS.oacs) -> EraseReport:
    """What the drive told of capacity in no namespace, and how much of it was read."""
    room = (replace(ROOM, blocks=made, read=made, zeros=made),) if made else ()
    facts = replace(FACTS, oacs=oacs, total_bytes=FACTS.total_bytes + max(before, after))
    return replace(
        report() if made else REPORT,
        facts_before=replace(facts, unallocated_bytes=before),
        facts_after=replace(facts, unallocated_bytes=after),
        verification=replace(VERIFICATION, namespaces=(COUNTS, *room)),
    )


@pytest.mark.parametrize(
    ("found", "lost"),
    [
        # There before, and nobody was shown it; there afterwards alone; a part of it read.
        (looks(1 << 28, 0), 1 << 28),
        (looks(0, 1 << 28), 1 << 28),
        (looks(1 << 28, 0, made=1 << 15), 1 << 27),
        # Told of both times: whether it is in pieces that nobody is given, its host alone knows.
        (looks(1 << 28, 1 << 28), 0),
        (looks(1 << 28, 0, made=1 << 16), 0),
        (looks(1 << 19, 0), 0),
        # Nobody can make a namespace on such a drive.
        (looks(1 << 28, 0, oacs=0x16), 0),
    ],
)
def test_capacity_that_the_drive_told_of_once_holds_it_where_the_policy_says_so(
    found: EraseReport, lost: int
) -> None:
    profile = replace(ORDER.profile, total_bytes=0)
    order = replace(ORDER, policy=replace(ORDER.policy, verification=HOLDING), profile=profile)
    decision = check(order, found, RECORD)
    assert (f"{lost} bytes belonged to no namespace" in decision.reason) is bool(lost)
    printing = check(replace(order, policy=ORDER.policy), found, RECORD)
    assert "belonged to no namespace" not in printing.reason
    if lost:
        assert decision.ruling is Ruling.HOLD
        assert decision.code is HoldCode.CAPACITY_UNREAD
        certificate = issue(Link(), found).certificate
        assert f"Not read: {lost:,} bytes that belong to no namespace." in certificate.not_done
    headline = issue(Link(), found).certificate.headline
    left = unallocated.unread(found)
    without = f" except for {left:,} bytes that belong to no namespace, and"
    assert (without in headline) is bool(left)


FIFTH = replace(NAMESPACE, nsid=2, blocks=1 << 19)
"""A namespace that a tenant laid over all that was free."""
HALF = replace(NAMESPACE, blocks=NAMESPACE.blocks // 2)
REST = replace(HALF, nsid=2, blocks=HALF.blocks + (1 << 20))
THIN = replace(NAMESPACE, capacity=NAMESPACE.blocks // 2)
HOLDING = replace(ORDER.policy.verification, unallocated=Unallocated.HOLD)


def rearranged(
    was: tuple[NamespaceLayout, ...], free: int, now: int, *, room: int = FIFTH.size, read: int = 0
) -> EraseReport:
    """The layout was put right: what there was to be had before and after, and was read of it."""
    blocks = read // 4096
    made = (replace(ROOM, blocks=blocks, read=blocks, zeros=blocks),) if blocks else ()
    facts = replace(FACTS, total_bytes=FACTS.total_bytes + room)
    return replace(
        report(),
        facts_before=replace(facts, namespaces=was, unallocated_bytes=free),
        facts_after=replace(facts, unallocated_bytes=now),
        verification=replace(VERIFICATION, namespaces=(COUNTS, *made)),
    )


@pytest.mark.parametrize(
    ("found", "lost", "unread"),
    [
        # Deleted, and told of no more; told of, and not read; read; read, and told of no more.
        (rearranged((NAMESPACE, FIFTH), 0, 0), FIFTH.size, FIFTH.size),
        (rearranged((NAMESPACE, FIFTH), 0, FIFTH.size), 0, FIFTH.size),
        (rearranged((NAMESPACE, FIFTH), 0, FIFTH.size, read=FIFTH.size), 0, 0),
        (rearranged((NAMESPACE, FIFTH), 0, 0, read=FIFTH.size), 0, 0),
        # A new namespace may take a piece more than it shows; what that is, nobody has read.
        (rearranged((HALF,), HALF.size + (1 << 29), 0, room=1 << 29), 0, 1 << 29),
        (rearranged((HALF,), HALF.size + (3 << 30), 0, room=3 << 30), 2 << 30, 3 << 30),
        # A thin one was put back; a drive that manages some tells of no total.
        (rearranged((THIN,), THIN.size // 2 + FIFTH.size, FIFTH.size, read=FIFTH.size), 0, 0),
        (rearranged((HALF, REST), 0, 0, room=-NAMESPACE.size), 0, REST.size - HALF.size),
        # It never told of it at all.
        (rearranged((NAMESPACE,), 0, 0), 0, FIFTH.size),
    ],
)
def test_capacity_that_was_in_a_namespace_and_is_told_of_no_more(
    found: EraseReport, lost: int, unread: int
) -> None:
    profile = replace(ORDER.profile, total_bytes=0)
    order = replace(ORDER, policy=replace(ORDER.policy, verification=HOLDING), profile=profile)
    decision = check(order, found, RECORD)
    assert (f"{lost} bytes belonged to no namespace" in decision.reason) is bool(lost)
    if lost:
        assert (decision.ruling, decision.code) == (Ruling.HOLD, HoldCode.CAPACITY_UNREAD)
    said = issue(Link(), found).certificate
    text = f"{unread:,} bytes that belong to no namespace"
    assert (text in said.headline) is bool(unread)
    assert any(text in line for line in said.not_done) is bool(unread)


def test_a_host_that_holds_for_it_gives_the_code_whatever_the_sizes_allow() -> None:
    """It knows what each namespace takes, and no report has that."""
    found = rearranged((HALF,), HALF.size + (1 << 29), 0, room=1 << 29)
    found = replace(found, fit=False, reasons=("bytes belong to no namespace",))
    profile = replace(ORDER.profile, total_bytes=0)
    order = replace(ORDER, policy=replace(ORDER.policy, verification=HOLDING), profile=profile)
    assert check(order, found, RECORD).code is HoldCode.CAPACITY_UNREAD


def test_capacity_of_a_drive_that_manages_no_namespaces_is_nobodys() -> None:
    found = rearranged((NAMESPACE,), 0, 0)
    assert found.facts_before is not None
    assert found.facts_after is not None
    after = replace(found.facts_after, oacs=0x16)
    # One that managed some before has hidden nothing by saying so.
    assert unallocated.unread(replace(found, facts_after=after)) == FIFTH.size
    found = replace(found, facts_before=replace(found.facts_before, oacs=0x16), facts_after=after)
    assert "belong to no namespace" not in issue(Link(), found).certificate.headline


def test_a_namespace_that_stays_is_written_as_before() -> None:
    assert b"temporary" not in codec.canonical(COUNTS)


def test_one_that_was_made_twice_is_no_change_of_the_layout() -> None:
    """Between the methods they are deleted and created again, as a next tenant does."""
    again = (command(0x0D, 1), command(0x0D, 0), command(0x15, 0))
    found = replace(report(), commands=(*report().commands[:2], *again, *report().commands[2:]))
    said = issue(Link(), replace(found, facts_before=FACTS)).certificate
    assert not [line for line in said.exceptions if line.startswith("The layout")]
    other = replace(FACTS, namespaces=(replace(NAMESPACE, blocks=NAMESPACE.blocks - 1),))
    (line, *_) = issue(Link(), replace(found, facts_before=other)).certificate.exceptions
    assert line.endswith("by the erase: 2 namespace(s) deleted, 2 namespace(s) created.")


def test_a_format_to_the_format_that_there_is_is_no_change_of_the_layout() -> None:
    same, other = command(0x80, 0x0), command(0x80, 0x1)
    erased = command(0x80, 0x201)
    for nsid, sent, said in (
        # It has the format that its erase gave it.
        (1, (erased, other), ""),
        (1, (erased, same), "1 namespace(s) given another LBA format"),
        (1, (same,), ""),
        (2, (same,), "1 namespace(s) given another LBA format"),
        (1, (other, other), "1 namespace(s) given another LBA format"),
        (1, (other, same), "2 namespace(s) given another LBA format"),
    ):
        formats = tuple(replace(each, nsid=nsid) for each in sent)
        found = replace(REPORT, facts_before=FACTS, commands=(*REPORT.commands, *formats))
        lines = issue(Link(), found).certificate.exceptions
        assert [line.rpartition(": ")[2] for line in lines] == ([f"{said}."] if said else [])


def test_a_format_of_all_gives_each_its_format() -> None:
    sent = (replace(command(0x80, 0x201), nsid=0xFFFFFFFF), replace(command(0x80, 0x1), nsid=1))
    found = replace(REPORT, facts_before=FACTS, commands=(*REPORT.commands, *sent))
    assert not issue(Link(), found).certificate.exceptions


def test_a_format_of_a_temporary_one_is_none_either() -> None:
    sent = (*report().commands, replace(command(0x80, 0x0), nsid=2))
    found = replace(report(), facts_before=FACTS, commands=sent)
    lines = issue(Link(), found).certificate.exceptions
    assert not [line for line in lines if line.startswith("The layout")]
