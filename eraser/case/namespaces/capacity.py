"""How much of a drive belongs to no namespace: one account for the whole case, by the most that the
drive told (docs/decisions/unallocated.md).

Its last word is not believed alone: what it told of, or had in a namespace that the case deleted,
belongs to somebody.
"""

from __future__ import annotations

from eraser.case.entries import Allocating
from eraser.case.session import CaseSession
from eraser.case.state import CaseState
from eraser.controller.passthru import NAMESPACE_MANAGEMENT
from eraser.controller.spec import IdentifyNamespace
from eraser.drive.inspect import described, layout_of
from eraser.protocol.conclusions import unallocated
from eraser.protocol.conclusions.unallocated import PIECE, SMALLEST
from eraser.protocol.report import ControllerFacts

LATE, PAUSE = 10, 1.0
"""Tries, and the seconds in between, of a drive that does not tell yet of what it got back, or does
not give it."""


def told(session: CaseSession) -> int:
    """UNVMCAP, bytes, as far as it is a figure. Raises :class:`DriveError`."""
    now, facts = session.controller.identify(), _inspected(session.state)
    return unallocated.figure(now.unallocated_bytes, now.total_bytes, facts)


def listed(session: CaseSession) -> set[int]:
    """Some firmware lists those alone that are attached, in the list of all too."""
    controller = session.controller
    return {*controller.allocated_namespaces(), *controller.active_namespaces()}


def account(session: CaseSession) -> Allocating:
    """What there is to be had now: what the drive tells, and what it told of before, or had in a
    namespace of then, and has in none now.

    Waits for a drive that is late to tell of what it got back. Raises :class:`DriveError`.
    """
    state = session.state
    # What stood here before us. Everything that is listed later and is not among it is ours.
    before = listed(session) - state.made
    standing = described_all(session, before)
    if not moved(state) and (facts := _inspected(state)) is not None:
        # One that is hidden from the lists for a moment is not ours when it shows again.
        before |= {each.nsid for each in (*facts.namespaces, *facts.detached)}
    # What those that stand take of the drive, by the smallest and by the largest reckoning.
    least = sum(taken(namespace)[0] for _nsid, namespace in standing)
    most = sum(_at_most(state, *each) for each in standing)
    # The drive told of so much once. What is neither in a namespace nor told of now may come late.
    known = _known(state)
    late(session, known - most - SMALLEST + 1)
    now = told(session)
    # The drive's word of now is believed where it is more, and not where it is less.
    total = max(now + least, known)
    return Allocating(tuple(sorted(before)), max(now, total - most), total)


def _at_most(state: CaseState, nsid: int, namespace: IdentifyNamespace) -> int:
    """What one takes at most; of one that stands since the inspection no more than then."""
    facts = _inspected(state)
    found = () if facts is None else (*facts.namespaces, *facts.detached)
    now = layout_of(nsid, namespace)
    stands = any(each.nsid == nsid and not each.differences(now) for each in found)
    return taken(namespace)[0 if stands else 1]


def accounted(session: CaseSession) -> int:
    """Bytes that are to be had in all, by the case's account; 0 before there is one."""
    allocating = session.state.allocating
    return 0 if allocating is None else allocating.capacity


def permitted(session: CaseSession) -> int:
    """Bytes that drives of the model need not give back, by their profile."""
    profile = session.request.profile
    return profile.size_tolerance * len(profile.namespaces)


def manages(session: CaseSession) -> bool:
    """Whether the drive manages namespaces, by its word of now or of the inspection: one that calls
    itself another drive meanwhile has hidden nothing by that. Raises :class:`DriveError`."""
    facts = _inspected(session.state)
    before = facts is not None and unallocated.manages(facts)
    return before or session.controller.identify().can_manage_namespaces


def ours(session: CaseSession) -> set[int]:
    """What was not there before, of a run that died in between too, and what the drive called
    created, for it may list it when it is attached and not before."""
    allocating = session.state.allocating
    if allocating is None:
        return set()
    return (listed(session) | session.state.made) - set(allocating.before)


Described = tuple[tuple[int, IdentifyNamespace], ...]


def described_all(session: CaseSession, numbers: set[int]) -> Described:
    """Attached ones and others, as far as they describe themselves. Raises :class:`DriveError`."""
    # Identify of a detached namespace is another question to the drive.
    active = numbers & set(session.controller.active_namespaces())
    return described(session.controller, tuple(sorted(active))) + described(
        session.controller, tuple(sorted(numbers - active)), attached=False
    )


def most(found: Described) -> int:
    """What namespaces take of the drive's capacity, bytes, at most."""
    return sum(taken(namespace)[1] for _nsid, namespace in found)


def sizes_before(session: CaseSession, free: int) -> tuple[int, ...]:
    """Bytes of each namespace that the inspection found and that is gone, up to ``free``; none
    where others were made since: their room may be in those.

    What a drive gave once beside the namespaces that stand, it can give again.
    """
    facts = _inspected(session.state)
    if facts is None:
        return ()
    stood = {each.nsid: each for each in (*facts.namespaces, *facts.detached)}
    # Those that stand must be as they were: else their room may be what is gone.
    standing = described_all(session, listed(session) - ours(session))
    for nsid, namespace in standing:
        before = stood.pop(nsid, None)
        if before is None or before.differences(layout_of(nsid, namespace)):
            return ()
    return tuple(each.size for each in stood.values() if SMALLEST <= each.size <= free)


def moved(state: CaseState) -> bool:
    """Whether this case made or deleted namespaces, so that there may be more than it tells."""
    return any(sent.opcode == NAMESPACE_MANAGEMENT for sent in state.sent)


def _inspected(state: CaseState) -> ControllerFacts | None:
    return None if state.inspected is None else state.inspected.facts


def _known(state: CaseState) -> int:
    """Bytes in all, as the drive told before."""
    facts = _inspected(state)
    counted = 0 if state.allocating is None else state.allocating.total
    return max(counted, 0 if facts is None else unallocated.least(facts))


def late(session: CaseSession, wanted: int) -> None:
    """Waits until the drive tells of so many bytes, where it does not; no longer than it may take
    for that."""
    if told(session) >= wanted:
        return
    for _ in range(LATE):
        session.clock.sleep(PAUSE)
        if told(session) >= wanted:
            return


def taken(namespace: IdentifyNamespace) -> tuple[int, int]:
    """What one takes of the drive's capacity, bytes: at least, and at most.

    Some drives count its metadata and some do not, and some give whole pieces: they say so
    (NVMCAP), of which no more is believed than a piece of the largest kind.
    """
    whole = namespace.whole
    least = min(namespace.blocks, namespace.capacity) * namespace.block_bytes
    return least, max(whole, min(namespace.takes, whole + PIECE))
