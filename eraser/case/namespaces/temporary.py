"""Media that no namespace shows: a temporary namespace over it, so that it is erased and read like
all the rest (docs/decisions/unallocated.md).

The next tenant can create one there, with its predecessor's data in it if the drive is careless:
Format erases namespaces, and nothing but a namespace can be read.
"""

from __future__ import annotations

from eraser.case.entries import Allocated, Freed
from eraser.case.namespaces import capacity, creation
from eraser.case.namespaces.attaching import attach, look_anew
from eraser.case.session import CaseSession
from eraser.controller.passthru import CommandError
from eraser.drive.inspect import described, layouts
from eraser.protocol.conclusions.unallocated import SMALLEST
from eraser.protocol.policy import Unallocated
from eraser.protocol.report import Step

_TRIES, _PAUSE = 2, 1.0
"""Of deleting one, and the seconds in between."""

_NOT_THERE = frozenset({0x002, 0x00B})
"""Of a number that no namespace has: Invalid Field, or Invalid Namespace or Format (Base 2.0,
figure 126)."""


def allocate(session: CaseSession) -> None:
    """Puts what belongs to no namespace into temporary ones, once for each layout of the case.

    What the drive refuses is in the journal, and no error. Raises :class:`DriveError` for a drive
    that does not answer.
    """
    state = session.state
    # They stand already, of this run or of one before.
    if state.allocated is not None and state.freed is None and _there(session):
        return
    skipped = session.policy.verification.unallocated is Unallocated.SKIP
    if skipped or not capacity.manages(session):
        return
    # A run died before it was done: its account of what was there before stays the one that counts.
    begun = state.allocating is not None and state.freed is None
    # Nothing is unallocated, and nothing was deleted that the drive could hide.
    if (
        state.allocating is None
        and not capacity.has_managed_namespaces(state)
        and not capacity.unallocated_bytes(session)
    ):
        return
    with session.step(Step.UNLOCK, "a temporary namespace over unallocated capacity"):
        session.recheck()
        problem = ""
        try:
            if not begun:
                # What is there before, in the journal first: what comes on top is ours to delete,
                # also after a crash between a create and its answer.
                session.note(capacity.account_unallocated(session))
            problem = _make(session)
        except CommandError as error:
            if error.status is None:
                raise
            problem = str(error)
        # Only what has a disk can be read, and only that counts as made.
        active = tuple(sorted(capacity.temporary_nsids(session) & session.hold.paths.keys()))
        made = described(session.controller, active)
        unallocated = capacity.unallocated_bytes(session)
        taken = capacity.most_taken_bytes(made)
        lost = max(0, capacity.accounted_bytes(session) - unallocated - taken)
        if lost >= SMALLEST + capacity.tolerated_bytes(session):
            # Not by the drive's last word alone: what was there belongs to somebody.
            problem = problem or f"that the drive tells of {lost} bytes of it no more"
        # What they take beyond what they show, nobody has read either.
        beside = taken - sum(each.whole for _nsid, each in made)
        # Less than the smallest piece is nothing that anybody is given.
        left = unallocated + sum(each for each in (lost, beside) if each >= SMALLEST)
        session.note(Allocated(layouts(active, made), left, problem))


def _there(session: CaseSession) -> bool:
    """Whether they all are: a run may have died while it deleted them."""
    wanted = {each.nsid for each in session.state.temporary}
    return not wanted or wanted <= capacity.listed_nsids(session)


def _make(session: CaseSession) -> str:
    """Creates and attaches them; why it went no further, where somebody else might."""
    problem = creation.create_all(session)
    if not (nsids := capacity.temporary_nsids(session)):
        return problem
    for nsid in sorted(nsids - set(session.controller.active_namespaces())):
        # Each, whatever became of the others: only what is attached is read.
        refused = "; ".join(attach(session, nsid))
        problem = problem or refused
    look_anew(session)
    # What the kernel shows no disk of cannot be read, so it proves nothing.
    for nsid in sorted(capacity.temporary_nsids(session) - session.hold.paths.keys()):
        problem = problem or f"namespace {nsid} came without a disk"
        creation.delete(session, nsid)
    return problem


def free(session: CaseSession) -> None:
    """Deletes them; the layout is as it was. What is gone is not asked for again."""
    state = session.state
    if state.allocating is None or (state.freed is not None and not state.made):
        return
    # What is listed besides is of a run that died as it made them.
    numbers = state.made if state.freed or state.allocated else capacity.temporary_nsids(session)
    problems: list[str] = []
    if numbers:
        with session.step(Step.RESTORE, "deleting temporary namespaces"):
            session.hold.drop()
            problems = [text for nsid in sorted(numbers) for text in _remove(session, nsid)]
            look_anew(session)
            if not problems:
                # The layout may need it, and the last look is to find it.
                capacity.wait_for_unallocated(
                    session, capacity.accounted_bytes(session) - SMALLEST + 1
                )
    session.note(Freed("; ".join(problems)))


def _remove(session: CaseSession, nsid: int) -> list[str]:
    """Deletes one, by two tries; what is wrong where it stays."""
    for tried in range(_TRIES):
        if tried:
            session.clock.sleep(_PAUSE)
        session.recheck()
        # A number that is not there and not listed either is as good as deleted.
        deleted = creation.delete(session, nsid)
        if deleted.status == 0 or (
            deleted.status in _NOT_THERE and nsid not in capacity.listed_nsids(session)
        ):
            return []
    return [f"temporary namespace {nsid} stays: {creation.refusal(deleted)}"]
