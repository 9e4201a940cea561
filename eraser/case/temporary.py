"""Media that no namespace shows: a temporary namespace over it, so that it is erased and read like
all the rest (docs/decisions/unallocated.md).

The next tenant can create one there, with its predecessor's data in it if the drive is careless:
Format erases namespaces, and nothing but a namespace can be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from eraser.case.entries import Allocated, Allocating, Freed
from eraser.case.layout import change
from eraser.case.session import CaseSession
from eraser.case.unlock import attach, look_anew
from eraser.controller.passthru import NAMESPACE_MANAGEMENT, CommandError
from eraser.controller.spec import IdentifyController
from eraser.drive import manage
from eraser.drive.inspect import described, layouts
from eraser.erase.layout import create_data
from eraser.protocol.policy import Unallocated
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import CommandRecord, Step

MOST = 8
"""Temporary namespaces of one drive: its room may be in pieces, and each takes several commands."""
SMALLEST = 1 << 20
"""Bytes: where the drive has no room for so much in one piece, there is nothing to be had."""
_ROUND = 1 << 30
"""Bytes: many drives give whole units of it."""

_NO_CAPACITY = 0x115
_NO_NUMBER = 0x116
"""Namespace Insufficient Capacity, Namespace Identifier Unavailable (Base 2.0, figure 128)."""


def allocate(desk: CaseSession) -> None:
    """Puts what belongs to no namespace into temporary ones, once for each layout of the case.

    What the drive refuses is in the journal, and no error. Raises :class:`DriveError` for a drive
    that does not answer.
    """
    state = desk.state
    if state.allocated is not None and state.freed is None and _there(desk):
        return
    identify = desk.controller.identify()
    begun = state.allocating is not None and state.freed is None
    if not begun:
        skipped = desk.policy.verification.unallocated is Unallocated.SKIP
        if skipped or not identify.can_manage_namespaces or not _sensible(identify):
            return
    with desk.step(Step.UNLOCK, "a temporary namespace over unallocated capacity"):
        desk.recheck()
        try:
            if not begun:
                # What is there before, in the journal first: what comes on top is ours to delete,
                # also after a crash between a create and its answer.
                desk.note(Allocating(desk.controller.allocated_namespaces()))
            problem = _make(desk)
        except CommandError as error:
            if error.status is None:
                raise
            problem = str(error)
        active = tuple(sorted(_ours(desk) & desk.hold.paths.keys()))
        left = desk.controller.identify().unallocated_bytes
        desk.note(Allocated(layouts(active, described(desk.controller, active)), left, problem))


def _there(desk: CaseSession) -> bool:
    """Whether they all are: a run may have died while it deleted them."""
    wanted = {each.nsid for each in desk.state.temporary}
    return not wanted or wanted <= set(desk.controller.allocated_namespaces())


def _sensible(identify: IdentifyController) -> bool:
    return 0 < identify.unallocated_bytes <= identify.total_bytes


def _make(desk: CaseSession) -> str:
    """Creates and attaches them; why it went no further, where somebody else might."""
    problem = _create_all(desk)
    for nsid in sorted(_ours(desk) - set(desk.controller.active_namespaces())):
        problem = problem or "; ".join(attach(desk, nsid))
    look_anew(desk)
    # What the kernel shows no disk of cannot be read, so it proves nothing.
    for nsid in sorted(_ours(desk) - desk.hold.paths.keys()):
        problem = problem or f"namespace {nsid} came without a disk"
        _delete(desk, nsid)
    return problem


def _ours(desk: CaseSession) -> set[int]:
    """What was not there before: of a run that died in between too."""
    allocating = desk.state.allocating
    if allocating is None:
        return set()
    return set(desk.controller.allocated_namespaces()) - set(allocating.before)


def _create_all(desk: CaseSession) -> str:
    """One after the other, each as large as it gets; why it went no further, where that matters."""
    pattern = _pattern(desk)
    if pattern is None:
        return "the drive describes no namespace to take the LBA format of"
    while (before := len(_ours(desk))) < MOST:
        free = desk.controller.identify().unallocated_bytes
        if free < SMALLEST:
            return ""
        last: CommandRecord | None = None
        for size in _sizes(free):
            last = _create(desk, pattern, size)
            if last.status in (0, None, _NO_NUMBER):
                break
        if last is None or last.status == _NO_CAPACITY:
            return ""  # nor does the drive have it for anybody else
        if last.status != 0:
            return _refusal(last)
        if len(_ours(desk)) <= before:
            # It would call as many created as it is asked for.
            return "the drive called one created, and lists none"
    return f"it is in more than {MOST} pieces"


def _sizes(free: int) -> Iterator[int]:
    """Bytes to ask for: all, a round number, then less and less."""
    yield free
    if free > _ROUND and free % _ROUND:
        yield free // _ROUND * _ROUND
    # UNVMCAP is a sum, and says nothing of the largest piece.
    while (free := free * 3 // 4) >= SMALLEST:
        yield free


def _pattern(desk: CaseSession) -> NamespaceLayout | None:
    """The namespace whose LBA format the new ones get: best one without metadata."""
    inspected = desk.state.inspected
    found = () if inspected is None or inspected.facts is None else inspected.facts.namespaces
    known = [each for each in (*desk.request.profile.namespaces, *found) if each.blocks]
    plain = [each for each in known if not each.metadata_bytes]
    return next(iter(plain or known), None)


def _create(desk: CaseSession, pattern: NamespaceLayout, size: int) -> CommandRecord:
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
        desk,
        NAMESPACE_MANAGEMENT,
        cdw10=manage.CREATE,
        send=create_data(layout),
        timeout=desk.limits.format,
        note=f"create a temporary namespace of {blocks} blocks",
    )


def _refusal(record: CommandRecord) -> str:
    status = "no completion" if record.status is None else f"status {record.status:#05x}"
    return f"{status} ({record.message[:200]})"


def free(desk: CaseSession) -> None:
    """Deletes them; the layout is as it was. Nothing is done twice."""
    state = desk.state
    if state.allocated is None or state.freed is not None:
        return
    problems: list[str] = []
    there = set(desk.controller.allocated_namespaces())
    numbers = [each.nsid for each in state.allocated.namespaces if each.nsid in there]
    if numbers:
        with desk.step(Step.RESTORE, "deleting temporary namespaces"):
            desk.hold.drop()
            for nsid in numbers:
                desk.recheck()
                deleted = _delete(desk, nsid)
                if deleted.status != 0:
                    problems.append(f"temporary namespace {nsid} stays: {_refusal(deleted)}")
            look_anew(desk)
    desk.note(Freed("; ".join(problems)))


def _delete(desk: CaseSession, nsid: int) -> CommandRecord:
    return change(
        desk,
        NAMESPACE_MANAGEMENT,
        nsid=nsid,
        cdw10=manage.DELETE,
        timeout=desk.limits.format,
        note=f"delete temporary namespace {nsid}",
    )
