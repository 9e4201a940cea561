"""Creates temporary namespaces over the capacity that belongs to none.

It decides which sizes it asks for, how often, and how long it waits. All loops are bounded,
whatever a drive answers.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eraser.case.namespaces import capacity
from eraser.case.namespaces.changing import change
from eraser.case.session import CaseSession
from eraser.controller.passthru import NAMESPACE_MANAGEMENT
from eraser.drive import manage
from eraser.erase.layout import create_data
from eraser.protocol.conclusions.unallocated import PIECE, SMALLEST
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import CommandRecord

MOST = 8
"""Temporary namespaces of one drive: its room may be in pieces, and each takes several commands."""
NO_CAPACITY = 0x115
_NO_NUMBER = 0x116
"""Namespace Insufficient Capacity, Namespace Identifier Unavailable (Base 2.0, figure 128)."""


@dataclass(frozen=True)
class _Widening:
    """What came of making namespaces as large as what they take of the drive."""

    problem: str
    """Why the first one that stayed smaller did; empty where none did."""
    is_lost: bool
    """A namespace was deleted for this, and the drive created none in its place."""


def create_all(session: CaseSession) -> str:
    """Creates namespaces, each as large as the drive allows, until none of the capacity is left.

    Returns why some is left, empty where nobody else can get it. Raises ``DriveError``, and
    ``OutOfTimeError``.
    """
    pattern = _pattern(session)
    if pattern is None:
        return "the drive describes no namespace to take the LBA format of"
    # An earlier run may have died between a create and its widening.
    widening = _widen_all(session, pattern, capacity.temporary_nsids(session))
    problem = widening.problem
    if widening.is_lost:
        return problem
    # A drive may be late to give the capacity of namespaces that this case deleted. The case waits
    # for that once, at its first create.
    retries = capacity.RETRIES if capacity.has_managed_namespaces(session.state) else 0
    for _ in range(MOST - len(capacity.temporary_nsids(session))):
        session.check_time()
        # Both are asked before the command: they show a new namespace, whatever NSID is answered.
        unallocated, listed = capacity.unallocated_bytes(session), capacity.listed_nsids(session)
        free = _free_bytes(session)
        if free < SMALLEST:
            return problem
        last = _ask(session, pattern, free, retries)
        retries = 0
        # The drive gave none of the sizes: the rest is in smaller pieces, or it is withheld.
        if last.status == NO_CAPACITY:
            return problem or _withheld(session)
        if last.status != 0:
            return problem or refusal(last)
        new = manage.created(last)
        if not _is_shown(session, new, unallocated, listed):
            # Such a drive would answer every further create with success as well.
            return problem or "the drive called one created, and lists none"
        # Some versions of nvme-cli do not print the new NSID: the lists have it.
        nsids = ({new} | capacity.listed_nsids(session)) - listed
        widening = _widen_all(session, pattern, nsids)
        problem = problem or widening.problem
        if widening.is_lost:
            return problem
    several = "" if _free_bytes(session) < SMALLEST else f"it is in more than {MOST} pieces"
    return problem or several


def _free_bytes(session: CaseSession) -> int:
    """Bytes of the account that are in no temporary namespace, or what the drive tells if more.

    A drive may give capacity that it does not tell of. What its model may keep back is left out.
    """
    made = capacity.most_taken_bytes(
        capacity.described_all(session, capacity.temporary_nsids(session))
    )
    return max(
        capacity.unallocated_bytes(session),
        capacity.accounted_bytes(session) - capacity.tolerated_bytes(session) - made,
    )


def _ask(session: CaseSession, pattern: NamespaceLayout, free: int, retries: int) -> CommandRecord:
    """Asks for smaller and smaller sizes, up to ``free`` bytes, until the drive creates one.

    A drive that has no capacity for any of them is asked ``retries`` times more. The record is of
    the last create. Raises :class:`DriveError`.
    """
    wanted = sorted({*sizes(free), *capacity.sizes_before(session, free)}, reverse=True)
    for tried in range(retries + 1):
        if tried:
            session.clock.sleep(capacity.RETRY_PAUSE)
        # All sizes at the first and the last try; in between only whether it is there by now.
        for size in wanted if tried in (0, retries) else wanted[:1]:
            last = _create(session, pattern, size)
            # A smaller size would change none of these answers.
            if last.status in (0, None, _NO_NUMBER):
                return last
        if last.status != NO_CAPACITY:
            # Waiting helps against no other refusal.
            return last
    return last


def _withheld(session: CaseSession) -> str:
    """The problem of capacity that the drive gave its last owner and does not give now.

    Empty where there is none: then what is left is in pieces too small for anybody.
    """
    given = sum(capacity.sizes_before(session, capacity.accounted_bytes(session)))
    had = sum(
        each.size
        for _nsid, each in capacity.described_all(session, capacity.temporary_nsids(session))
    )
    if given - had < SMALLEST:
        return ""
    return f"that the drive gives nobody {given - had} bytes that its last owner had of it"


def _is_shown(session: CaseSession, new: int, unallocated: int, listed: set[int]) -> bool:
    """Whether a create that succeeded changed the drive's lists or its unallocated capacity.

    ``new`` is the NSID that the drive answered, 0 for none; ``unallocated`` (bytes) and ``listed``
    (NSIDs) are from before the command.
    """
    if (
        capacity.listed_nsids(session) != listed
        or capacity.unallocated_bytes(session) < unallocated
    ):
        return True
    # Some drives list it only once it is attached, and tell no capacity: then its NSID has to do.
    return not unallocated and new != 0 and new not in listed


def _widen_all(session: CaseSession, pattern: NamespaceLayout, nsids: set[int]) -> _Widening:
    """Makes each namespace as large as what it takes of the drive.

    Some drives allocate whole pieces, and would show the rest of a piece to whoever asks for a
    larger namespace. Ends at the first one that is lost.
    """
    problem = ""
    for nsid in sorted(nsids):
        why = _widen(session, pattern, nsid)
        problem = problem or why
        if why and nsid not in capacity.temporary_nsids(session):
            return _Widening(problem, is_lost=True)
    return _Widening(problem, is_lost=False)


def _widen(session: CaseSession, pattern: NamespaceLayout, nsid: int) -> str:
    """Replaces a namespace that takes more than it shows by one that shows all of it.

    Returns why that was not done; empty where it was, or where there was nothing to do.
    """
    for _nsid, found in capacity.described_all(session, {nsid} & capacity.temporary_nsids(session)):
        block = found.block_bytes + found.metadata_bytes
        # All that it takes, in whole blocks with their metadata, counted in bytes of data.
        whole = capacity.taken_bytes(found)[1] // block * found.block_bytes
        if whole <= found.size:
            return ""
        deleted = delete(session, nsid)
        if deleted.status != 0:
            session.clock.sleep(capacity.RETRY_PAUSE)
            deleted = delete(session, nsid)
        if deleted.status != 0:
            # The case erases and reads it as it is. Once the drive deletes it, somebody may be
            # given all that it takes.
            return f"one of {found.size} bytes that takes {whole}, and stays: {refusal(deleted)}"
        return _create_in_place(session, pattern, whole, found.size)
    return ""


def _create_in_place(session: CaseSession, pattern: NamespaceLayout, whole: int, shown: int) -> str:
    """Creates a namespace of ``whole`` bytes in place of a deleted one that showed ``shown``.

    Returns why there is none; empty where there is one.
    """
    for tried in range(capacity.RETRIES + 1):
        if tried:
            session.clock.sleep(capacity.RETRY_PAUSE)
        # Some drives count more capacity than they give: then the old size has to do.
        for size in (whole, shown):
            made = _create(session, pattern, size)
            if made.status == 0:
                return ""
            if made.status is None:
                return refusal(made)
    return f"none in place of one of {shown} bytes, which was to be made larger"


def sizes(free: int) -> Iterator[int]:
    """Bytes to ask for: all, whole GiB and MiB of it, then less and less.

    Each of the smaller ones is a few pieces of a power of two: some drives give nothing else.
    """
    last = free
    yield free
    for unit in (PIECE, SMALLEST):
        if SMALLEST <= (whole := free // unit * unit) < last:
            yield (last := whole)
    # UNVMCAP is a sum, and says nothing of the largest piece.
    while (free := free * 3 // 4) >= SMALLEST:
        # The power of two that goes four to seven times into it.
        piece = max(1 << free.bit_length() - 3, SMALLEST)
        if (whole := free // piece * piece) < last:
            yield (last := whole)


def _pattern(session: CaseSession) -> NamespaceLayout | None:
    """The namespace whose LBA format the new ones get: best one without metadata."""
    inspected = session.state.inspected
    found = () if inspected is None or inspected.facts is None else inspected.facts.namespaces
    known = [each for each in (*session.request.profile.namespaces, *found) if each.blocks]
    plain = [each for each in known if not each.metadata_bytes]
    return next(iter(plain or known), None)


def _create(session: CaseSession, pattern: NamespaceLayout, size: int) -> CommandRecord:
    blocks = size // pattern.block_bytes
    layout = NamespaceLayout(
        0,
        blocks,
        pattern.block_bytes,
        pattern.lba_format,
        metadata_bytes=pattern.metadata_bytes,
        extended_metadata=pattern.extended_metadata,
    )
    return change(
        session,
        NAMESPACE_MANAGEMENT,
        cdw10=manage.CREATE,
        send=create_data(layout),
        timeout=session.limits.format,
        note=f"create a temporary namespace of {blocks} blocks",
    )


def refusal(record: CommandRecord) -> str:
    """What a drive answered, in words."""
    status = "no completion" if record.status is None else f"status {record.status:#05x}"
    return f"{status} ({record.message[:200]})"


def delete(session: CaseSession, nsid: int) -> CommandRecord:
    """Sends the deletion of a temporary one."""
    return change(
        session,
        NAMESPACE_MANAGEMENT,
        nsid=nsid,
        cdw10=manage.DELETE,
        timeout=session.limits.format,
        note=f"delete temporary namespace {nsid}",
    )
