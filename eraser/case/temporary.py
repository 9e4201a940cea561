"""Media that no namespace shows: a temporary namespace over it, so that it is erased and read like
all the rest (docs/decisions/unallocated.md).

The next tenant can create one there, with its predecessor's data in it if the drive is careless:
Format erases namespaces, and nothing but a namespace can be read.
"""

from __future__ import annotations

from eraser.case import capacity, creation
from eraser.case.entries import Allocated, Freed
from eraser.case.session import CaseSession
from eraser.case.unlock import attach, look_anew
from eraser.controller.passthru import CommandError
from eraser.drive.inspect import described, layouts
from eraser.protocol.policy import Unallocated
from eraser.protocol.report import Step
from eraser.protocol.unallocated import SMALLEST

_TRIES, _PAUSE = 2, 1.0
"""Of deleting one, and the seconds in between."""

_NOT_THERE = frozenset({0x002, 0x00B})
"""Of a number that no namespace has: Invalid Field, or Invalid Namespace or Format (Base 2.0,
figure 126)."""


def allocate(desk: CaseSession) -> None:
    """Puts what belongs to no namespace into temporary ones, once for each layout of the case.

    What the drive refuses is in the journal, and no error. Raises :class:`DriveError` for a drive
    that does not answer.
    """
    state = desk.state
    if state.allocated is not None and state.freed is None and _there(desk):
        return
    skipped = desk.policy.verification.unallocated is Unallocated.SKIP
    if skipped or not capacity.manages(desk):
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
        active = tuple(sorted(capacity.ours(desk) & desk.hold.paths.keys()))
        made = described(desk.controller, active)
        told, taken = capacity.told(desk), capacity.most(made)
        lost = max(0, capacity.accounted(desk) - told - taken)
        if lost >= SMALLEST + capacity.permitted(desk):
            # Not by the drive's last word alone: what was there belongs to somebody.
            problem = problem or f"that the drive tells of {lost} bytes of it no more"
        # What they take beyond what they show, nobody has read either.
        beside = taken - sum(each.whole for _nsid, each in made)
        left = told + sum(each for each in (lost, beside) if each >= SMALLEST)
        desk.note(Allocated(layouts(active, made), left, problem))


def _there(desk: CaseSession) -> bool:
    """Whether they all are: a run may have died while it deleted them."""
    wanted = {each.nsid for each in desk.state.temporary}
    return not wanted or wanted <= capacity.listed(desk)


def _make(desk: CaseSession) -> str:
    """Creates and attaches them; why it went no further, where somebody else might."""
    problem = creation.create_all(desk)
    if not (ours := capacity.ours(desk)):
        return problem
    for nsid in sorted(ours - set(desk.controller.active_namespaces())):
        problem = problem or "; ".join(attach(desk, nsid))
    look_anew(desk)
    # What the kernel shows no disk of cannot be read, so it proves nothing.
    for nsid in sorted(capacity.ours(desk) - desk.hold.paths.keys()):
        problem = problem or f"namespace {nsid} came without a disk"
        creation.delete(desk, nsid)
    return problem


def free(desk: CaseSession) -> None:
    """Deletes them; the layout is as it was. What is gone is not asked for again."""
    state = desk.state
    if state.allocating is None or (state.freed is not None and not state.made):
        return
    # What is listed besides is of a run that died as it made them.
    numbers = state.made if state.freed or state.allocated else capacity.ours(desk)
    problems: list[str] = []
    if numbers:
        with desk.step(Step.RESTORE, "deleting temporary namespaces"):
            desk.hold.drop()
            problems = [text for nsid in sorted(numbers) for text in _remove(desk, nsid)]
            look_anew(desk)
            if not problems:
                # The layout may need it, and the last look is to find it.
                capacity.late(desk, capacity.accounted(desk) - SMALLEST + 1)
    desk.note(Freed("; ".join(problems)))


def _remove(desk: CaseSession, nsid: int) -> list[str]:
    """Deletes one, by two tries; what is wrong where it stays."""
    for tried in range(_TRIES):
        if tried:
            desk.clock.sleep(_PAUSE)
        desk.recheck()
        deleted = creation.delete(desk, nsid)
        if deleted.status == 0 or (
            deleted.status in _NOT_THERE and nsid not in capacity.listed(desk)
        ):
            return []
    return [f"temporary namespace {nsid} stays: {creation.refusal(deleted)}"]
