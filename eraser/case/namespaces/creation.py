"""Creating temporary namespaces over capacity that belongs to none: of which sizes, how often, and
with how much patience. Whatever a drive answers, it comes to an end."""

from __future__ import annotations

from collections.abc import Iterator

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


def create_all(session: CaseSession) -> str:
    """One after the other, each as large as it gets; why it went no further, where that matters.

    Raises :class:`DriveError`, and ``OutOfTimeError``.
    """
    pattern = _pattern(session)
    if pattern is None:
        return "the drive describes no namespace to take the LBA format of"
    # Of a run that died before it could.
    problem, is_gone = _widen_all(session, pattern, capacity.ours(session))
    if is_gone:
        return problem
    # Only a drive that got something back from us may be late to give it, and it is waited for
    # once.
    late = capacity.LATE if capacity.moved(session.state) else 0
    for _ in range(MOST - len(capacity.ours(session))):
        session.check_time()
        # Both before the command: by them the new one shows, whatever number the drive answers.
        told, listed = capacity.told(session), capacity.listed(session)
        free = _to_be_had(session)
        if free < SMALLEST:
            return problem
        last = _ask(session, pattern, free, late)
        late = 0
        # No size was given: what is left is in smaller pieces, or was somebody's.
        if last.status == NO_CAPACITY:
            return problem or _withheld(session)
        if last.status != 0:
            return problem or refusal(last)
        new = manage.created(last)
        if not _is_shown(session, new, told, listed):
            # It would call as many created as it is asked for.
            return problem or "the drive called one created, and lists none"
        # Some nvme-cli do not tell the number, and then the lists do.
        numbers = ({new} | capacity.listed(session)) - listed
        kept, is_gone = _widen_all(session, pattern, numbers)
        problem = problem or kept
        if is_gone:
            return problem
    several = "" if _to_be_had(session) < SMALLEST else f"it is in more than {MOST} pieces"
    return problem or several


def _to_be_had(session: CaseSession) -> int:
    """Bytes that no namespace has yet: what the drive does not tell of it may give all the same,
    but for what its model need not give back."""
    made = capacity.most(capacity.described_all(session, capacity.ours(session)))
    return max(
        capacity.told(session), capacity.accounted(session) - capacity.permitted(session) - made
    )


def _ask(session: CaseSession, pattern: NamespaceLayout, free: int, late: int) -> CommandRecord:
    """Size after size until the drive gives one; ``late`` times more where it has none to give."""
    wanted = sorted({*sizes(free), *capacity.sizes_before(session, free)}, reverse=True)
    for tried in range(late + 1):
        if tried:
            session.clock.sleep(capacity.PAUSE)
        # All sizes at the first and the last try; in between only whether it is there by now.
        for size in wanted if tried in (0, late) else wanted[:1]:
            last = _create(session, pattern, size)
            # A smaller size would change nothing about these.
            if last.status in (0, None, _NO_NUMBER):
                return last
        if last.status != NO_CAPACITY:
            # Another refusal is none that waiting mends.
            return last
    return last


def _withheld(session: CaseSession) -> str:
    """Whether what nobody is given now was somebody's: then it is no piece that nobody gets."""
    given = sum(capacity.sizes_before(session, capacity.accounted(session)))
    had = sum(each.size for _nsid, each in capacity.described_all(session, capacity.ours(session)))
    if given - had < SMALLEST:
        return ""
    return f"that the drive gives nobody {given - had} bytes that its last owner had of it"


def _is_shown(session: CaseSession, new: int, told: int, listed: set[int]) -> bool:
    """Whether one that the drive called created shows: in its lists, or in what it tells."""
    if capacity.listed(session) != listed or capacity.told(session) < told:
        return True
    # Some list it once it is attached, and tell of nothing: its number is all that there is.
    return not told and new != 0 and new not in listed


def _widen_all(
    session: CaseSession, pattern: NamespaceLayout, numbers: set[int]
) -> tuple[str, bool]:
    """Makes each as large as what it takes of the drive: some give whole pieces, and the rest of
    one would be shown to whoever asks for more. Why one is not, and whether it is there no more."""
    problem = ""
    for nsid in sorted(numbers):
        why = _widen(session, pattern, nsid)
        problem = problem or why
        if why and nsid not in capacity.ours(session):
            return problem, True
    return problem, False


def _widen(session: CaseSession, pattern: NamespaceLayout, nsid: int) -> str:
    for _nsid, found in capacity.described_all(session, {nsid} & capacity.ours(session)):
        block = found.block_bytes + found.metadata_bytes
        # All that it takes, in whole blocks with their metadata, counted in bytes of data.
        whole = capacity.taken(found)[1] // block * found.block_bytes
        if whole <= found.size:
            return ""
        if (kept := delete(session, nsid)).status != 0:
            session.clock.sleep(capacity.PAUSE)
            kept = delete(session, nsid)
        if kept.status != 0:
            # Erased and read as it is; once the drive deletes it, somebody may be given all.
            return f"one of {found.size} bytes that takes {whole}, and stays: {refusal(kept)}"
        for tried in range(capacity.LATE + 1):
            if tried:
                session.clock.sleep(capacity.PAUSE)
            for size in (whole, found.size):  # some count more than they give
                made = _create(session, pattern, size)
                if made.status == 0:
                    return ""
                if made.status is None:
                    return refusal(made)
        return f"none in place of one of {found.size} bytes, which was to be made larger"
    return ""


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
