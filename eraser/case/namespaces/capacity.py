"""How much of a drive's capacity belongs to no namespace (docs/decisions/unallocated.md).

A case keeps one account of it, by the most that the drive told. The drive's last word is not
believed alone: capacity that it told of before, or that was in a namespace which the case deleted,
still holds somebody's data. Figures are bytes.
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
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import ControllerFacts

RETRIES = 10
"""How often a drive is asked again that does not yet tell, or give, the capacity of a deleted
namespace."""
RETRY_PAUSE = 1.0
"""Seconds before each of these retries."""


def unallocated_bytes(session: CaseSession) -> int:
    """UNVMCAP, bytes, asked now; 0 where the drive gives an impossible figure.

    Raises :class:`DriveError`.
    """
    now, facts = session.controller.identify(), _inspected(session.state)
    return unallocated.figure(now.unallocated_bytes, now.total_bytes, facts)


def listed_nsids(session: CaseSession) -> set[int]:
    """The NSIDs that the drive lists, of attached and of detached namespaces.

    Both lists are asked: some firmware lists a namespace in one of them alone. Raises
    :class:`DriveError`.
    """
    controller = session.controller
    return {*controller.allocated_namespaces(), *controller.active_namespaces()}


def account_unallocated(session: CaseSession) -> Allocating:
    """The account at this moment: which namespaces exist, and how many bytes belong to none.

    Unallocated is what the drive tells now, and what it told of, or had in a namespace, before and
    has in none now. Waits for a drive that is late to tell it. Raises :class:`DriveError`.
    """
    state = session.state
    # The namespaces that exist before the case creates temporary ones. A namespace that is listed
    # later and is not among them is temporary.
    before = listed_nsids(session) - state.made
    standing = described_all(session, before)
    if not has_managed_namespaces(state) and (facts := _inspected(state)) is not None:
        # The lists may omit a namespace for a moment: it is not temporary when they show it again.
        before |= {each.nsid for each in (*facts.namespaces, *facts.detached)}
    # The existing namespaces take at least, and at most, so many bytes of the drive.
    least_taken = sum(taken_bytes(namespace)[0] for _nsid, namespace in standing)
    most_taken = sum(_most_taken_by(state, *each) for each in standing)
    # The drive may be late to tell of capacity that it told of before and that is in no namespace.
    told_before = _told_before(state)
    wait_for_unallocated(session, told_before - most_taken - SMALLEST + 1)
    now = unallocated_bytes(session)
    # The drive's present figure is believed where it is larger, and not where it is smaller.
    total = max(now + least_taken, told_before)
    return Allocating(tuple(sorted(before)), max(now, total - most_taken), total)


def _most_taken_by(state: CaseState, nsid: int, namespace: IdentifyNamespace) -> int:
    """Bytes that a namespace takes at most.

    A namespace that is unchanged since the inspection takes what it took then: its smallest figure.
    """
    facts = _inspected(state)
    found = () if facts is None else (*facts.namespaces, *facts.detached)
    stands = any(each.nsid == nsid and _as_before(each, namespace) for each in found)
    return taken_bytes(namespace)[0 if stands else 1]


def _as_before(before: NamespaceLayout, namespace: IdentifyNamespace) -> bool:
    """Its command set is not asked for again: it says nothing of how much a namespace takes."""
    return not before.differences(layout_of(before.nsid, namespace, before.command_set))


def accounted_bytes(session: CaseSession) -> int:
    """Bytes that belonged to no namespace when the case made its account; 0 before it has one."""
    allocating = session.state.allocating
    return 0 if allocating is None else allocating.capacity


def tolerated_bytes(session: CaseSession) -> int:
    """Bytes that drives of this model may keep back, by their profile (``size_tolerance``)."""
    profile = session.request.profile
    return profile.size_tolerance * len(profile.namespaces)


def manages(session: CaseSession) -> bool:
    """Whether the drive manages namespaces, by what it says now or said at the inspection.

    So a drive that withdraws the capability during the case hides nothing. Raises
    :class:`DriveError`.
    """
    facts = _inspected(session.state)
    before = facts is not None and unallocated.manages(facts)
    return before or session.controller.identify().can_manage_namespaces


def temporary_nsids(session: CaseSession) -> set[int]:
    """NSIDs of the temporary namespaces that exist, also of those that a run made which died.

    They are the listed NSIDs that are not in the account's ``before``, and those that the drive
    answered as created: some firmware lists a namespace only once it is attached. Raises
    :class:`DriveError`.
    """
    allocating = session.state.allocating
    if allocating is None:
        return set()
    return (listed_nsids(session) | session.state.made) - set(allocating.before)


Described = tuple[tuple[int, IdentifyNamespace], ...]


def described_all(session: CaseSession, nsids: set[int]) -> Described:
    """Each of ``nsids`` with its Identify Namespace, where the drive answers that.

    Raises :class:`DriveError`.
    """
    # A detached namespace answers another Identify (CNS) than an active one.
    active = nsids & set(session.controller.active_namespaces())
    return described(session.controller, tuple(sorted(active))) + described(
        session.controller, tuple(sorted(nsids - active)), attached=False
    )


def most_taken_bytes(found: Described) -> int:
    """Bytes of the drive's capacity that these namespaces take at most."""
    return sum(taken_bytes(namespace)[1] for _nsid, namespace in found)


def sizes_before(session: CaseSession, free: int) -> tuple[int, ...]:
    """Bytes of each namespace that the inspection found and that is gone, up to ``free`` bytes.

    A drive that had these beside the namespaces that still stand can give them again. Empty where
    a namespace was made or changed since: it may take their place. Raises :class:`DriveError`.
    """
    facts = _inspected(session.state)
    if facts is None:
        return ()
    stood = {each.nsid: each for each in (*facts.namespaces, *facts.detached)}
    # A namespace that was made or changed since may take the place of those that are gone.
    standing = described_all(session, listed_nsids(session) - temporary_nsids(session))
    for nsid, namespace in standing:
        before = stood.pop(nsid, None)
        if before is None or not _as_before(before, namespace):
            return ()
    return tuple(each.size for each in stood.values() if SMALLEST <= each.size <= free)


def has_managed_namespaces(state: CaseState) -> bool:
    """Whether this case created or deleted namespaces.

    A drive may then have more unallocated capacity than it tells yet.
    """
    return any(sent.opcode == NAMESPACE_MANAGEMENT for sent in state.sent)


def _inspected(state: CaseState) -> ControllerFacts | None:
    return None if state.inspected is None else state.inspected.facts


def _told_before(state: CaseState) -> int:
    """Bytes of the drive, in namespaces and in none: the most that it told at an earlier look."""
    facts = _inspected(state)
    counted = 0 if state.allocating is None else state.allocating.total
    return max(counted, 0 if facts is None else unallocated.least(facts))


def wait_for_unallocated(session: CaseSession, wanted: int) -> None:
    """Waits until the drive tells of ``wanted`` unallocated bytes, at most :data:`RETRIES` times
    :data:`RETRY_PAUSE`. Raises :class:`DriveError`."""
    if unallocated_bytes(session) >= wanted:
        return
    for _ in range(RETRIES):
        session.clock.sleep(RETRY_PAUSE)
        if unallocated_bytes(session) >= wanted:
            return


def taken_bytes(namespace: IdentifyNamespace) -> tuple[int, int]:
    """Bytes of the drive's capacity that a namespace takes: at least, and at most.

    Some drives count its metadata and some do not. Some allocate whole pieces and say so in NVMCAP;
    no more of that is believed than one :data:`PIECE` beyond what the namespace shows.
    """
    whole = namespace.whole
    least = min(namespace.blocks, namespace.capacity) * namespace.block_bytes
    return least, max(whole, min(namespace.takes, whole + PIECE))
