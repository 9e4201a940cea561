"""The probes of a case: what is noted about a drive, and put on it, before it is erased."""

from __future__ import annotations

import hashlib

from eraser.case.entries import Drawn, Fingerprinted, Keyed, Planted, Seeded, Sent
from eraser.case.session import CaseSession
from eraser.controller.passthru import CommandError
from eraser.controller.spec import SanitizeState, SmartLog
from eraser.errors import BadInputError, DriveError
from eraser.media.blocks import BLOCK, block_count
from eraser.media.iocommand import RANGES, Namespace
from eraser.media.passread import PassthroughReader, Patience
from eraser.media.reader import BlockDevice
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.probes.probefile import KEY_BYTES
from eraser.proof.sampling import share
from eraser.proof.verify import NamespacePlan, VerifyPlan
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import Step
from eraser.state.journal import replace_durably

FEATURE_ERROR_RECOVERY = 0x05
DULBE = 1 << 16
"""Deallocated or Unwritten Logical Block Error Enable (Base 2.0, 5.27.1.4): reads of erased
blocks would fail."""

SEED_BYTES = 32

MAX_UNREADABLE = 64
"""Blocks. Each may cost the kernel half a minute, and a drive that answers no reads is erased all
the same: the rest of its fingerprints are not worth days."""


def fingerprint(session: CaseSession) -> None:
    """Samples what the last owner left, at the places that will be read again.

    Never an error for a drive that does not answer: a missing probe is a finding.
    """
    state = session.state
    if state.fingerprinted is not None:
        return
    # The blocks may be erased by now, and would pass for what the last owner left.
    if state.attempts:
        reason = "fingerprints: the erase had begun before they were taken (no journal)"
        session.note(Fingerprinted(0, (reason,)))
        return
    with session.step(Step.FINGERPRINT):
        # The same: it may have erased some of the blocks already.
        if _sanitize_runs(session):
            reason = "fingerprints: a sanitize was running when the case began"
            session.note(Fingerprinted(0, (reason,)))
            return
        session.note(_take_all(session))


def _sanitize_runs(session: CaseSession) -> bool:
    if not session.controller.identify().can_sanitize:
        return False
    _raw, log = session.sanitize_log()
    return log.state is SanitizeState.RUNNING


def _take_all(session: CaseSession) -> Fingerprinted:
    # A run that died while it took them goes on with the same places.
    if not session.state.probe_seed:
        session.note(Seeded(_seed(session)))
    taken, unopened = 0, list[str]()
    try:
        make_readable(session)
        # A tenant can leave a namespace that the kernel makes no usable disk of.
        plan = reading_plan(session, probes=False, missing=unopened)
    except DriveError as error:
        return Fingerprinted(0, (f"fingerprints: {error}",))
    missing = [f"fingerprints: {why}" for why in unopened]
    for namespace in plan.namespaces:
        count, why = _take(session, plan, namespace)
        taken += count
        missing += [why] if why else []
    return Fingerprinted(taken, tuple(missing), _media_errors(session))


def _media_errors(session: CaseSession) -> int | None:
    """After the tenant's blocks were read: what these cost is not held against the erased drive."""
    try:
        return SmartLog.parse(session.controller.smart_log()).media_errors
    except DriveError:
        return None  # the inspection has its own look, and the last one says what is wrong


def _take(session: CaseSession, plan: VerifyPlan, namespace: NamespacePlan) -> tuple[int, str]:
    prints = Fingerprints(_key(session), namespace.nsid)
    why = ""

    def look(fraction: float, detail: str) -> None:
        session.tell(fraction, detail)
        if prints.unreadable >= MAX_UNREADABLE:
            raise DriveError(f"given up after {prints.unreadable} blocks that cannot be read")

    try:
        with session.disk(namespace.path, rescue=namespace.rescue) as device:
            prints.take(device, plan.places(namespace), look)
    except DriveError as error:
        why = f"fingerprints of namespace {namespace.nsid}: {error}"
    if prints.unreadable and not why:
        why = (
            f"fingerprints of namespace {namespace.nsid}: {prints.unreadable} blocks could not "
            "be read before the erase"
        )
    # Also after an error: what was taken until then counts.
    prints.save(str(session.files.fingerprints(namespace.nsid)))
    return len(prints), why


def plant(session: CaseSession, place: int) -> None:
    """Canaries onto every namespace, before the command at ``place``; each once per place."""
    state = session.state
    if not session.policy.verification.canaries:
        return
    if place in state.planted and place not in state.uprooted:
        return
    with session.step(Step.CANARIES):
        # They are the first thing that is written: hours may have passed since the last look.
        session.recheck()
        planted, dropped, missing = 0, 0, list[str]()
        for layout in layouts(session):
            count, why, lost = _plant_one(session, layout)
            planted, dropped = planted + count, dropped + lost
            missing += [why] if why else []
        if state.attempts.get(place) and not state.steps[place].method.is_sanitize:
            # A Format that was interrupted may run on, and takes along what is written meanwhile.
            # What was found before the first attempt stands.
            before = state.planted.get(place)
            dropped = 0 if before is None else before.dropped
        session.note(Planted(place, planted, tuple(missing), dropped))


def _plant_one(session: CaseSession, layout: NamespaceLayout) -> tuple[int, str, int]:
    """Canaries that stand, why not all do, and writes that the drive dropped."""
    where = f"canaries of namespace {layout.nsid}"
    path = session.hold.paths.get(layout.nsid)
    # Whatever keeps canaries from a namespace is named, and the verdict weighs what is missing.
    if path is None:
        return 0, f"{where}: no block device", 0
    try:
        with session.disk(path, writable=True) as device:
            # Places are drawn for the size that was inspected: on a smaller disk some would be
            # outside.
            if device.size < layout.size:
                return 0, f"{where}: {_short(layout.size, device.size)}", 0
            canaries = canaries_of(session, layout)
            found = canaries.plant(device, session.tell)
            if found.planted:
                _deallocate(session, device, layout.nsid, canaries.plant_deallocated(device))
    except DriveError as error:
        return 0, f"{where}: {error}", 0
    why = f"{where}: {found.failed} could not be planted: {found.reason}" if found.failed else ""
    return found.planted, why, found.dropped


def _deallocate(
    session: CaseSession, device: BlockDevice, nsid: int, blocks: tuple[int, ...]
) -> None:
    """As a file system that a tenant deletes from, before the erase: what a drive drops like this
    is still in its flash, and an erase has to reach it there (docs/decisions/visit.md). One that
    takes no such hint keeps them as canaries like the others."""
    try:
        found = session.controller.identify_namespace(nsid)
    except DriveError as error:
        session.tell(0.0, str(error))  # they stay as they are
        return
    # By passthrough: discard of the block layer may be split, and rounded to a granularity.
    travels = Namespace.of(nsid, found, session.limits.command, session.host)
    # Blocks of ours have 4 KiB; the command counts in those of the namespace.
    each = BLOCK // travels.block_bytes
    ranges = [(block * each, each) for block in blocks if (block + 1) * BLOCK <= device.size]
    for at in range(0, len(ranges), RANGES):
        travels.deallocate(device.descriptor, ranges[at : at + RANGES])


def layouts(session: CaseSession) -> tuple[NamespaceLayout, ...]:
    """The namespaces as inspected, or as restored since: canaries stand at places of these, as far
    as they have any."""
    layout = session.state.layout
    if layout is None:
        raise DriveError(f"{session.request.slot}: expected an inspected drive, found none")
    return tuple(namespace for namespace in layout if namespace.blocks)


def canaries_of(session: CaseSession, layout: NamespaceLayout) -> Canaries:
    """The canaries of one namespace: its share of all, by size."""
    total = sum(block_count(each.size) for each in layouts(session))
    blocks = block_count(layout.size)
    wanted = session.policy.verification.canaries
    return Canaries(
        _key(session), layout.nsid, blocks, share(wanted, blocks, total) if wanted else 0
    )


def _key(session: CaseSession) -> bytes:
    """The case's secret. One that is not the journal's is never used: canaries of a key that was
    lost would be missed, and count as gone. A new one makes the older probes void."""
    path = session.files.probe_key
    key = path.read_bytes() if path.exists() else b""
    if key and hashlib.sha256(key).hexdigest() == session.state.key:
        return key
    key = session.host.chance(KEY_BYTES)
    # The key before its digest: a digest without its key has the older probes count as lost.
    replace_durably(path, key, 0o600)
    session.note(Keyed(hashlib.sha256(key).hexdigest()))
    return key


def make_readable(session: CaseSession) -> None:
    """DULBE off where a tenant (or a reset) left it on. Raises :class:`DriveError`."""
    controller = session.controller
    for nsid in controller.active_namespaces():
        try:
            value = controller.get_feature(FEATURE_ERROR_RECOVERY, nsid)
        except CommandError as error:
            if error.status is None:
                raise
            continue  # not offered: nothing to switch off
        if value & DULBE:
            try:
                controller.set_feature(FEATURE_ERROR_RECOVERY, value & ~DULBE, nsid)
            except CommandError as error:
                if error.status is None:
                    raise
                session.tell(0.0, str(error))  # the reads will tell what that costs
            # The newest record is that Set Features, also where the drive refused it.
            session.note(Sent(controller.records[-1]))


def reading_plan(
    session: CaseSession, *, probes: bool, missing: list[str] | None = None
) -> VerifyPlan:
    """What is to be read: with the probes that must be gone at fresh places, without them where
    fingerprints are taken. ``missing`` as :func:`namespaces_to_read` has it, which raises.
    """
    wanted = session.policy.verification
    return VerifyPlan(
        mode=wanted.mode,
        seed=bytes.fromhex(session.state.seed if probes else session.state.probe_seed),
        confidence=wanted.confidence,
        residual=wanted.residual,
        namespaces=namespaces_to_read(session, probes=probes, missing=missing),
        reread=wanted.reread if probes else 0,
    )


def namespaces_to_read(
    session: CaseSession, *, probes: bool, missing: list[str] | None = None
) -> tuple[NamespacePlan, ...]:
    """Every namespace that has a block device, with the ``probes`` that must be gone.

    Raises :class:`DriveError` for one that cannot be opened, or whose disk shows less than it has:
    with ``missing`` that one is left out, and why is added there.
    """
    _key(session)  # before anything asks whether probes stand: a lost key makes them void
    namespaces, patience = [], Patience(session.limits.ready, session.clock)
    for nsid, path in sorted(session.hold.paths.items()):
        try:
            namespaces.append(_to_read(session, nsid, path, patience, probes=probes))
        except DriveError as error:
            silent = isinstance(error, CommandError) and error.status is None
            if missing is None or silent:
                raise
            missing.append(str(error))
    return tuple(namespaces)


def _to_read(
    session: CaseSession, nsid: int, path: str, patience: Patience, *, probes: bool
) -> NamespacePlan:
    # What the kernel shows can be read; what the drive says is there. Both must be the same.
    with session.disk(path) as device:
        size = device.size
    found = session.controller.identify_namespace(nsid)
    if size < found.size:
        raise DriveError(f"namespace {nsid}: {_short(found.size, size)}")
    # Only namespaces of the layout that was inspected, or restored, have canaries.
    known = next((layout for layout in layouts(session) if layout.nsid == nsid), None)
    return NamespacePlan(
        nsid,
        path,
        size,
        canaries_of(session, known)
        if probes and known and session.state.canaries_planted
        else None,
        _prints(session, nsid) if probes and session.state.kept(nsid) else None,
        PassthroughReader(
            Namespace.of(nsid, found, session.limits.command, session.host), patience
        ),
        any(layout.nsid == nsid for layout in session.state.temporary),
    )


def _short(wanted: int, found: int) -> str:
    """Where the kernel has not looked since a Format, say: the rest would be read by nobody."""
    return f"expected a disk of {wanted} bytes, as the drive has it, found one of {found}"


def _prints(session: CaseSession, nsid: int) -> Fingerprints | None:
    """A namespace's fingerprints; None where they were never taken, or are damaged."""
    path = session.files.fingerprints(nsid)
    try:
        return Fingerprints.load(str(path), _key(session)) if path.exists() else None
    except BadInputError as error:
        session.tell(0.0, str(error))
        return None


def lost_fingerprints(session: CaseSession, plan: VerifyPlan) -> tuple[str, ...]:
    """What was taken and cannot be compared any more."""
    taken = session.state.fingerprinted
    found = sum(len(each.fingerprints) for each in plan.namespaces if each.fingerprints)
    if taken is None or found >= taken.taken:
        return ()
    return (f"fingerprints: {taken.taken} were taken, {found} are left",)


def draw_seed(session: CaseSession) -> None:
    """The seed of the places to read, once per round, when the last method is over.

    The fingerprints' own will not do: the drive was asked for their places before its erase, and
    one that erases what it has seen alone (a mapping that is loaded on demand is enough) would
    answer well at just these.
    """
    if not session.state.seed:
        session.note(Drawn(_seed(session)))


def _seed(session: CaseSession) -> str:
    return session.host.chance(SEED_BYTES).hex()
