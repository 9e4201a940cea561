"""The next tenant's first acts, done by us: between two methods all, after the last what reads.

Nothing is written after the last method, so that the drive's own seal (Global Data Erased) and its
counters stay what they are. What only a write brings to light shows after the method before it.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType

from eraser.case import guestcommands, resets
from eraser.case.entries import Visited
from eraser.case.namespaces import rearranging
from eraser.case.probes import make_readable, namespaces_to_read
from eraser.case.session import CaseSession
from eraser.errors import DriveError
from eraser.media.blocks import BLOCK
from eraser.media.iocommand import Namespace
from eraser.media.passread import PassthroughReader, Patience
from eraser.proof.aftererase import UNTOLD, AfterErase
from eraser.proof.plan import NamespacePlan, VerifyPlan
from eraser.proof.sampling import share
from eraser.proof.visit import LARGE, CutOffError, Visitor
from eraser.protocol.report import ActRecord, Step, Verdict, VisitRecord

CHEAP = 60.0
"""Seconds of a method that is run twice where it is the only one: a key is changed, and the blocks
of most drives are erased, in less."""
PAUSE = 1.0
"""Seconds without a command, as between a guest's boot and its first work."""
_SLICE = 1.0
"""Seconds of a longer wait, after which the order's time is looked at."""
NEVER = (
    "power cycle",
    "formats with metadata or protection information",
    "controller memory buffer and persistent memory region",
    "writes of more than 4 KiB",
    "Verify and Reservation Report",
    "logs that keep what a host wrote (telemetry it asked for, persistent events)",
    "Abort of a command that is running, vendor commands, and commands that the drive does not "
    "report",
)
"""What a next tenant may do and this does not, for the report."""
FUNCTION, BUS = "reset of the function", "reset of the bus"
SUBSYSTEM, CONTROLLER = "reset of the subsystem", "reset of the controller"
_ROUNDS: tuple[tuple[tuple[str, Callable[[CaseSession], str]], ...], ...] = (
    ((FUNCTION, resets.by_function), (BUS, resets.by_bus)),
    ((SUBSYSTEM, resets.by_subsystem), (CONTROLLER, resets.by_controller)),
)
"""What a host does to a drive before a guest gets it, and what the guest itself can."""
_NAMESPACES: tuple[tuple[tuple[str, Callable[[CaseSession], str]], ...], ...] = (
    ((rearranging.DETACHED, rearranging.detach),),
    # Once: canaries in a temporary one are gone after it.
    (
        (rearranging.DETACHED, rearranging.detach),
        (rearranging.MADE, rearranging.make_again),
    ),
)
"""What a guest does with namespaces, before each of these rounds."""
ACTS = "every act between two erases, with its resets and writes"
"""For the journal, and for the report where it was left out."""
SHUTDOWN = "shutdown of the controller"
"""Where the kernel's driver could not be made to let go of the drive."""
RESETS = 3
"""Of each kind: vfio-pci resets the function when a guest ends and when the next one starts, and a
guest's firmware and kernel each take the controller for themselves."""
_Seen = dict[int, dict[str, set[int]]]
"""Of each namespace, the blocks that each act was done with: of its rounds, each counts once."""


def is_due(session: CaseSession, place: int) -> bool:
    """Whether the method before the command at ``place`` is to be tried before it is followed."""
    state = session.state
    if not place or not session.policy.verification.visit or place in state.attempts:
        return False
    if not state.opens_pass(place) or state.visited(place, wrote=True):
        return False
    # Of a method that failed nobody expects that the canaries are gone.
    before = state.done.get(place - 1)
    return before is not None and before.record.verdict is Verdict.ERASED and _can_tell(session)


def wants_another(session: CaseSession) -> bool:
    """Whether the only method of the plan is to be run once more, with a visit in between: it has
    ended well, within :data:`CHEAP` seconds that one run saw all of, and something stands on the
    drive to tell by."""
    state = session.state
    if not session.policy.verification.visit or state.rounds > 1 or not _can_tell(session):
        return False
    # With two methods there was a visit between them. Formats of several namespaces are one method.
    if len({command.method for command in state.steps}) != 1 or not state.methods:
        return False
    if state.untimed:
        return False  # hours may have gone before this run
    ended_well = all(method.verdict is Verdict.ERASED for method in state.methods)
    return ended_well and sum(method.seconds for method in state.methods) <= CHEAP


def _can_tell(session: CaseSession) -> bool:
    return session.state.canaries_planted > 0


def between(session: CaseSession, place: int) -> None:
    """All acts, after a method that another one follows; none of them where the host goes down
    each time. Raises ``InUseError``, OutOfTimeError, and :class:`DriveError` for a drive that is
    gone."""
    acts, undone, seen = list[ActRecord](), list(NEVER), _Seen()
    if why := session.given_up(ACTS):
        undone.append(f"{ACTS}: {why}")
        session.note(Visited(VisitRecord(place, wrote=True, acts=(), not_done=tuple(undone))))
        return
    with session.step(Step.ERASE, "as its next tenant"), session.risk(ACTS):
        # Each round: namespaces, the driver's shutdown, resets, a pause, questions, then blocks.
        for ways, changes in zip(_ROUNDS, _NAMESPACES, strict=True):
            for name, way in changes:
                problem = way(session)
                undone += [f"{name}: {problem}"] if problem else []
            # The driver takes the drive anew after these: no disk is one that it knew before.
            _leave(session, undone)
            for name, way in ways:
                _repeat(session, undone, name, way)
            session.clock.sleep(PAUSE)
            undone += guestcommands.send(session)
            # Writes follow, so who came since and which drive it is are asked first.
            session.recheck()
            pools = _probes(session, undone)
            acts += _visit(session, pools, _read_and_write, undone, seen, writable=True)
        # Many reads in no order, once, when both rounds are over.
        acts += _visit(session, _probes(session, undone), Visitor.sweep, undone, seen)
        # Last: a drive may drop what the other acts would have shown.
        problem = rearranging.format_again(session)
        make_readable(session)
        undone += [f"{rearranging.FORMATTED}: {problem}"] if problem else []
        if not problem and rearranging.formats(session):
            acts += _visit(session, _probes(session, undone), Visitor.read, undone, seen)
        session.note(
            Visited(VisitRecord(place, wrote=True, acts=_sum(acts), not_done=_once(undone)))
        )


def _probes(session: CaseSession, undone: list[str]) -> dict[NamespacePlan, Sequence[int]]:
    # A namespace that a tenant left so that no disk of it can be opened is deleted before the last
    # method: the reading after that one is what has to have all.
    found = namespaces_to_read(session, probes=True, missing=undone)
    return {namespace: namespace.looked_at for namespace in found}


def _read_and_write(visitor: Visitor) -> None:
    visitor.read()
    visitor.write()
    visitor.read(", after writes")


def _leave(session: CaseSession, undone: list[str]) -> None:
    problem = session.rebind()
    make_readable(session)
    undone += [f"{SHUTDOWN}: {problem}"] if problem else []


def _repeat(
    session: CaseSession, undone: list[str], name: str, way: Callable[[CaseSession], str]
) -> None:
    """Resets in this way as often as a tenant's start and end do, or until it cannot be done."""
    for _ in range(RESETS):
        problem = way(session)
        make_readable(session)
        if problem:
            undone.append(f"{name}: {problem}")
            return


def after(
    session: CaseSession, plan: VerifyPlan, left: Mapping[NamespacePlan, AfterErase], unreset: str
) -> None:
    """What reads alone, after the last method. ``left`` is what the first reading found. The
    function was reset just before; ``unreset`` is why it was not, where it was not. Raises
    ``OutOfTimeError``."""
    state = session.state
    if not session.policy.verification.visit or state.visited(len(state.steps), wrote=False):
        return
    # The certificate has these beside those of the visit before the last method.
    never = [BUS, SUBSYSTEM]
    # A drive that takes no such command leaves a tenant nothing to do, so nothing is said of it.
    if rearranging.manages(session):
        never += [rearranging.DETACHED, rearranging.MADE]
    never += [rearranging.FORMATTED] if rearranging.formats(session) else []
    undone = [*NEVER, *(f"{way}: none after the last method" for way in never)]
    undone.append("writes: nothing is written after the last method")
    undone += [f"{FUNCTION}: {unreset}"] if unreset else []
    # The shutdown after the last method came with the reset before the first reading.
    if state.reset is None or not state.reset.announced:
        undone.append(SHUTDOWN)
    undone += guestcommands.send(session)
    idle = _leave_idle(session)
    pools = {namespace: plan.again(namespace) for namespace in plan.namespaces}
    acts = _visit(session, pools, Visitor.read, undone, _Seen(), left)
    # Behind the last command: no place of the plan.
    place = len(state.steps)
    record = VisitRecord(place, wrote=False, acts=_sum(acts), not_done=_once(undone), idle=idle)
    session.note(Visited(record))


def _leave_idle(session: CaseSession) -> float:
    """Sends nothing for as long as the policy says, and returns the seconds."""
    wanted = max(PAUSE, session.policy.verification.settle)
    began = session.clock.monotonic()
    while (passed := session.clock.monotonic() - began) < wanted:
        session.check_time()
        if wanted > _SLICE:
            session.tell(passed / wanted, f"left alone for {wanted:g} s, before the last look")
        session.clock.sleep(min(wanted - passed, _SLICE))
    return wanted


def _visit(
    session: CaseSession,
    pools: Mapping[NamespacePlan, Sequence[int]],
    play: Callable[[Visitor], None],
    undone: list[str],
    seen: _Seen,
    left: Mapping[NamespacePlan, AfterErase] = MappingProxyType({}),
    *,
    writable: bool = False,
) -> list[ActRecord]:
    """Every namespace, each with its share of the places; what was cut off goes to ``undone``."""
    total, acts = sum(namespace.blocks for namespace in pools), list[ActRecord]()
    for namespace, pool in pools.items():
        session.check_time()
        try:
            found = session.controller.identify_namespace(namespace.nsid)
            travels = Namespace.of(namespace.nsid, found, session.limits.command, session.host)
            large = _largest(session, namespace.path, travels)
            if _carries_more(session, large):
                undone.append(f"reads of more than {large >> 10} KiB by one command")
            # Not the reading's: that is to have all of its own.
            patience = Patience(session.limits.ready, session.clock)
            rescue = PassthroughReader(travels, patience)
            with session.disk(namespace.path, writable=writable, rescue=rescue) as device:
                visitor = Visitor(
                    device,
                    travels,
                    patience,
                    namespace.canaries,
                    namespace.fingerprints,
                    pool,
                    share(session.policy.verification.visit, namespace.blocks, total),
                    session.host,
                    large=large,
                    seen=seen.setdefault(namespace.nsid, {}),
                    left=left.get(namespace, UNTOLD),
                )
                try:
                    play(visitor)
                except CutOffError as cut:
                    undone.append(f"namespace {namespace.nsid}: {cut}")
                finally:
                    visitor.close()
                # Also after it was cut off: what was seen until then counts.
                acts += visitor.acts
                undone += [f"namespace {namespace.nsid}: {why}" for why in visitor.undone]
            # Where the drive never ended one of them, the kernel has reset it.
            session.controller.wait_live(session.limits.ready, namespaces=False)
            make_readable(session)
        except DriveError as error:
            undone.append(f"namespace {namespace.nsid}: {error}")
    return acts


def _largest(session: CaseSession, path: str, travels: Namespace) -> int:
    """Bytes of blocks that one command may carry: MDTS (Base 2.0, figure 275), in pages of 4 KiB,
    and what the kernel takes.

    That is 128 KiB where an IOMMU translates (dma_opt_mapping_size in drivers/nvme/host/pci.c),
    as it does on a host that hands drives to guests, and a segment for each page and one more, for
    our memory begins anywhere in a page. More it refuses without asking the drive.
    """
    mdts = session.controller.identify().mdts
    # MDTS 0 is no limit.
    most = min(LARGE, 4096 << mdts) if mdts else LARGE
    queue = f"/sys/block/{os.path.basename(path)}/queue"
    with contextlib.suppress(OSError, ValueError):
        most = min(most, int(session.host.text(f"{queue}/max_hw_sectors_kb")) << 10)
    with contextlib.suppress(OSError, ValueError):
        most = min(most, (int(session.host.text(f"{queue}/max_segments")) - 1) * BLOCK)
    # Metadata travels with the blocks and takes its share of the bytes.
    if travels.extended:
        most = most * travels.block_bytes // (travels.block_bytes + travels.metadata_bytes)
    return max(BLOCK, most)


def _carries_more(session: CaseSession, large: int) -> bool:
    """A guest may ask the drive for more at once than this host's kernel does."""
    mdts = session.controller.identify().mdts
    return not mdts or 4096 << mdts > large


def _sum(acts: list[ActRecord]) -> tuple[ActRecord, ...]:
    """One record for each act, over all namespaces."""
    found: dict[str, ActRecord] = {}
    for each in acts:
        found[each.act] = found[each.act].plus(each) if each.act in found else each
    return tuple(found.values())


def _once(undone: list[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(undone))
