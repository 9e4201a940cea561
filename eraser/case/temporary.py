"""Media that no namespace shows: a temporary namespace over it, so that it is erased and read like
all the rest (docs/decisions/unallocated.md).

The next tenant can create one there, with its predecessor's data in it if the drive is careless:
Format erases namespaces, and nothing but a namespace can be read.
"""

from __future__ import annotations

from collections.abc import Iterator

from eraser.case import capacity
from eraser.case.entries import Allocated, Freed
from eraser.case.layout import change
from eraser.case.session import CaseSession
from eraser.case.unlock import attach, look_anew
from eraser.controller.passthru import NAMESPACE_MANAGEMENT, CommandError
from eraser.controller.spec import IdentifyNamespace
from eraser.drive import manage
from eraser.drive.inspect import described, layouts
from eraser.erase.layout import create_data
from eraser.protocol.policy import Unallocated
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import CommandRecord, Step
from eraser.protocol.unallocated import PIECE, SMALLEST

MOST = 8
"""Temporary namespaces of one drive: its room may be in pieces, and each takes several commands."""

_TRIES, _PAUSE = 2, 1.0
"""Of deleting one, and the seconds in between."""

_NOT_THERE = frozenset({0x002, 0x00B})
_NO_CAPACITY = 0x115
_NO_NUMBER = 0x116
"""Of a number that no namespace has: Invalid Field, or Invalid Namespace or Format; Namespace
Insufficient Capacity, Namespace Identifier Unavailable (Base 2.0, figures 126 and 128)."""


def allocate(desk: CaseSession) -> None:
    """Puts what belongs to no namespace into temporary ones, once for each layout of the case.

    What the drive refuses is in the journal, and no error. Raises :class:`DriveError` for a drive
    that does not answer.
    """
    state = desk.state
    if state.allocated is not None and state.freed is None and _there(desk):
        return
    skipped = desk.policy.verification.unallocated is Unallocated.SKIP
    if skipped or not desk.controller.identify().can_manage_namespaces:
        return
    begun = state.allocating is not None and state.freed is None
    if state.allocating is None and not capacity.moved(state) and not capacity.told(desk):
        return
    with desk.step(Step.UNLOCK, "a temporary namespace over unallocated capacity"):
        desk.recheck()
        problem = ""
        try:
            if not begun:
                # What is there before, in the journal first: what comes on top is ours to delete,
                # also after a crash between a create and its answer.
                desk.note(capacity.account(desk))
            problem = _make(desk)
        except CommandError as error:
            if error.status is None:
                raise
            problem = str(error)
        active = tuple(sorted(_ours(desk) & desk.hold.paths.keys()))
        made = described(desk.controller, active)
        told = capacity.told(desk)
        lost = max(0, _account(desk) - told - _most(made))
        if lost >= SMALLEST + _permitted(desk):
            # Not by the drive's last word alone: what was there belongs to somebody.
            problem = problem or f"that the drive tells of {lost} bytes of it no more"
        left = told + (lost if lost >= SMALLEST else 0)
        desk.note(Allocated(layouts(active, made), left, problem))


def _account(desk: CaseSession) -> int:
    """Bytes that are to be had in all, by the case's account."""
    allocating = desk.state.allocating
    return 0 if allocating is None else allocating.capacity


def _permitted(desk: CaseSession) -> int:
    """Bytes that the model need not give back, by its profile."""
    profile = desk.request.profile
    return profile.size_tolerance * len(profile.namespaces)


Described = tuple[tuple[int, IdentifyNamespace], ...]


def _most(found: Described) -> int:
    """What namespaces take of the drive's capacity, bytes, at most."""
    return sum(capacity.taken(namespace)[1] for _nsid, namespace in found)


def _there(desk: CaseSession) -> bool:
    """Whether they all are: a run may have died while it deleted them."""
    wanted = {each.nsid for each in desk.state.temporary}
    return not wanted or wanted <= capacity.listed(desk)


def _make(desk: CaseSession) -> str:
    """Creates and attaches them; why it went no further, where somebody else might."""
    problem = _create_all(desk)
    if not (ours := _ours(desk)):
        return problem
    for nsid in sorted(ours - set(desk.controller.active_namespaces())):
        problem = problem or "; ".join(attach(desk, nsid))
    look_anew(desk)
    # What the kernel shows no disk of cannot be read, so it proves nothing.
    for nsid in sorted(_ours(desk) - desk.hold.paths.keys()):
        problem = problem or f"namespace {nsid} came without a disk"
        _delete(desk, nsid)
    return problem


def _ours(desk: CaseSession) -> set[int]:
    """What was not there before, of a run that died in between too, and what the drive called
    created, for it may list it when it is attached and not before."""
    allocating = desk.state.allocating
    if allocating is None:
        return set()
    return (capacity.listed(desk) | desk.state.made) - set(allocating.before)


def _create_all(desk: CaseSession) -> str:
    """One after the other, each as large as it gets; why it went no further, where that matters."""
    pattern = _pattern(desk)
    if pattern is None:
        return "the drive describes no namespace to take the LBA format of"
    while len(ours := _ours(desk)) < MOST:
        told, listed = capacity.told(desk), capacity.listed(desk)
        # What the drive does not tell of it may give all the same.
        free = max(told, _account(desk) - _most(_described(desk, ours)))
        if free < SMALLEST:
            return ""
        last: CommandRecord | None = None
        for size in sizes(free):
            last = _create(desk, pattern, size)
            if last.status in (0, None, _NO_NUMBER):
                break
        if last is None or last.status == _NO_CAPACITY:
            return ""  # nor does the drive have it for anybody else
        if last.status != 0:
            return _refusal(last)
        same = capacity.listed(desk) == listed and capacity.told(desk) >= told > 0
        if same or _ours(desk) == ours:
            # It would call as many created as it is asked for.
            return "the drive called one created, and lists none"
        _widen(desk, pattern, manage.created(last))
    return f"it is in more than {MOST} pieces"


def _described(desk: CaseSession, numbers: set[int]) -> Described:
    active = numbers & set(desk.controller.active_namespaces())
    return described(desk.controller, tuple(sorted(active))) + described(
        desk.controller, tuple(sorted(numbers - active)), attached=False
    )


def _widen(desk: CaseSession, pattern: NamespaceLayout, nsid: int) -> None:
    """Makes one as large as what it takes of the drive: some give whole pieces, and the rest of
    one would be shown to whoever asks for more."""
    for _nsid, found in _described(desk, {nsid} & _ours(desk)):
        block = found.block_bytes + found.metadata_bytes
        _least, most = capacity.taken(found)
        told, whole = capacity.told(desk), most // block * found.block_bytes
        if whole <= found.size or _delete(desk, nsid).status != 0:
            return
        capacity.late(desk, told + most)
        if _create(desk, pattern, whole).status != 0:
            _create(desk, pattern, found.size)  # it counts more than it gives


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
        piece = max(1 << free.bit_length() - 3, SMALLEST)
        if (whole := free // piece * piece) < last:
            yield (last := whole)


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
    """Deletes them; the layout is as it was. What is gone is not asked for again."""
    state = desk.state
    if state.allocating is None or (state.freed is not None and not state.made):
        return
    # What is listed besides is of a run that died as it made them.
    numbers = state.made if state.freed or state.allocated else _ours(desk)
    problems: list[str] = []
    if numbers:
        with desk.step(Step.RESTORE, "deleting temporary namespaces"):
            desk.hold.drop()
            problems = [text for nsid in sorted(numbers) for text in _remove(desk, nsid)]
            look_anew(desk)
            if not problems:
                # The layout may need it, and the last look is to find it.
                capacity.late(desk, _account(desk) - SMALLEST + 1)
    desk.note(Freed("; ".join(problems)))


def _remove(desk: CaseSession, nsid: int) -> list[str]:
    """Deletes one, by two tries; what is wrong where it stays."""
    for tried in range(_TRIES):
        if tried:
            desk.clock.sleep(_PAUSE)
        desk.recheck()
        deleted = _delete(desk, nsid)
        if deleted.status == 0 or (
            deleted.status in _NOT_THERE and nsid not in capacity.listed(desk)
        ):
            return []
    return [f"temporary namespace {nsid} stays: {_refusal(deleted)}"]


def _delete(desk: CaseSession, nsid: int) -> CommandRecord:
    return change(
        desk,
        NAMESPACE_MANAGEMENT,
        nsid=nsid,
        cdw10=manage.DELETE,
        timeout=desk.limits.format,
        note=f"delete temporary namespace {nsid}",
    )
