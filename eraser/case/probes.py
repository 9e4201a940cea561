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
from eraser.proof.probes import KEY_BYTES, Canaries, Fingerprints
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


def fingerprint(desk: CaseSession) -> None:
    """Samples what the last owner left, at the places that will be read again.

    Never an error for a drive that does not answer: a missing probe is a finding.
    """
    state = desk.state
    if state.fingerprinted is not None:
        return
    if state.attempts:
        reason = "fingerprints: the erase had begun before they were taken (no journal)"
        desk.note(Fingerprinted(0, (reason,)))
        return
    with desk.step(Step.FINGERPRINT):
        if _sanitize_runs(desk):
            reason = "fingerprints: a sanitize was running when the case began"
            desk.note(Fingerprinted(0, (reason,)))
            return
        desk.note(_take_all(desk))


def _sanitize_runs(desk: CaseSession) -> bool:
    if not desk.controller.identify().can_sanitize:
        return False
    _raw, log = desk.sanitize_log()
    return log.state is SanitizeState.RUNNING


def _take_all(desk: CaseSession) -> Fingerprinted:
    if not desk.state.probe_seed:
        desk.note(Seeded(_seed(desk)))
    taken, missing = 0, list[str]()
    try:
        make_readable(desk)
        plan = reading_plan(desk, probes=False)
    except DriveError as error:
        return Fingerprinted(0, (f"fingerprints: {error}",))
    for namespace in plan.namespaces:
        count, why = _take(desk, plan, namespace)
        taken += count
        missing += [why] if why else []
    return Fingerprinted(taken, tuple(missing), _media_errors(desk))


def _media_errors(desk: CaseSession) -> int | None:
    """After the tenant's blocks were read: what these cost is not held against the erased drive."""
    try:
        return SmartLog.parse(desk.controller.smart_log()).media_errors
    except DriveError:
        return None  # the inspection has its own look, and the last one says what is wrong


def _take(desk: CaseSession, plan: VerifyPlan, namespace: NamespacePlan) -> tuple[int, str]:
    prints = Fingerprints(_key(desk), namespace.nsid)
    why = ""

    def look(fraction: float, detail: str) -> None:
        desk.tell(fraction, detail)
        if prints.unreadable >= MAX_UNREADABLE:
            raise DriveError(f"given up after {prints.unreadable} blocks that cannot be read")

    try:
        with desk.disk(namespace.path, rescue=namespace.rescue) as device:
            prints.take(device, plan.places(namespace), look)
    except DriveError as error:
        why = f"fingerprints of namespace {namespace.nsid}: {error}"
    if prints.unreadable and not why:
        why = (
            f"fingerprints of namespace {namespace.nsid}: {prints.unreadable} blocks could not "
            "be read before the erase"
        )
    prints.save(str(desk.files.fingerprints(namespace.nsid)))
    return len(prints), why


def plant(desk: CaseSession, place: int) -> None:
    """Canaries onto every namespace, before the command at ``place``; each once per place."""
    state = desk.state
    if not desk.policy.verification.canaries:
        return
    if place in state.planted and place not in state.uprooted:
        return
    with desk.step(Step.CANARIES):
        # They are the first thing that is written: hours may have passed since the last look.
        desk.recheck()
        planted, dropped, missing = 0, 0, list[str]()
        for layout in layouts(desk):
            count, why, lost = _plant_one(desk, layout)
            planted, dropped = planted + count, dropped + lost
            missing += [why] if why else []
        desk.note(Planted(place, planted, tuple(missing), dropped))


def _plant_one(desk: CaseSession, layout: NamespaceLayout) -> tuple[int, str, int]:
    """Canaries that stand, why not all do, and writes that the drive dropped."""
    where = f"canaries of namespace {layout.nsid}"
    path = desk.hold.paths.get(layout.nsid)
    if path is None:
        return 0, f"{where}: no block device", 0
    try:
        with desk.disk(path, writable=True) as device:
            canaries = canaries_of(desk, layout)
            found = canaries.plant(device, desk.tell)
            if found.planted:
                _deallocate(desk, device, layout.nsid, canaries.plant_deallocated(device))
    except DriveError as error:
        return 0, f"{where}: {error}", 0
    why = f"{where}: {found.failed} could not be planted: {found.reason}" if found.failed else ""
    return found.planted, why, found.dropped


def _deallocate(desk: CaseSession, device: BlockDevice, nsid: int, blocks: tuple[int, ...]) -> None:
    """As a file system that a tenant deletes from, before the erase: what a drive drops like this
    is still in its flash, and an erase has to reach it there (docs/decisions/visit.md). One that
    takes no such hint keeps them as canaries like the others."""
    try:
        found = desk.controller.identify_namespace(nsid)
    except DriveError as error:
        desk.tell(0.0, str(error))  # they stay as they are
        return
    # By passthrough: discard of the block layer may be split, and rounded to a granularity.
    travels = Namespace.of(nsid, found, desk.limits.command, desk.host)
    each = BLOCK // travels.block_bytes
    ranges = [(block * each, each) for block in blocks if (block + 1) * BLOCK <= device.size]
    for at in range(0, len(ranges), RANGES):
        travels.deallocate(device.descriptor, ranges[at : at + RANGES])


def layouts(desk: CaseSession) -> tuple[NamespaceLayout, ...]:
    """The namespaces as inspected, or as restored since: canaries stand at places of these, as far
    as they have any."""
    layout = desk.state.layout
    if layout is None:
        raise DriveError(f"{desk.request.slot}: expected an inspected drive, found none")
    return tuple(namespace for namespace in layout if namespace.blocks)


def canaries_of(desk: CaseSession, layout: NamespaceLayout) -> Canaries:
    """The canaries of one namespace: its share of all, by size."""
    total = sum(block_count(each.size) for each in layouts(desk))
    blocks = block_count(layout.size)
    wanted = desk.policy.verification.canaries
    return Canaries(_key(desk), layout.nsid, blocks, share(wanted, blocks, total) if wanted else 0)


def _key(desk: CaseSession) -> bytes:
    """The case's secret. One that is not the journal's is never used: canaries of a key that was
    lost would be missed, and count as gone. A new one makes the older probes void."""
    path = desk.files.probe_key
    key = path.read_bytes() if path.exists() else b""
    if key and hashlib.sha256(key).hexdigest() == desk.state.key:
        return key
    key = desk.host.chance(KEY_BYTES)
    replace_durably(path, key, 0o600)
    desk.note(Keyed(hashlib.sha256(key).hexdigest()))
    return key


def make_readable(desk: CaseSession) -> None:
    """DULBE off where a tenant (or a reset) left it on. Raises :class:`DriveError`."""
    controller = desk.controller
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
                desk.tell(0.0, str(error))  # the reads will tell what that costs
            desk.note(Sent(controller.records[-1]))


def reading_plan(desk: CaseSession, *, probes: bool) -> VerifyPlan:
    """What is to be read: with the probes that must be gone at fresh places, without them where
    fingerprints are taken.

    Raises :class:`DriveError` for a namespace that cannot be opened.
    """
    wanted = desk.policy.verification
    return VerifyPlan(
        mode=wanted.mode,
        seed=bytes.fromhex(desk.state.seed if probes else desk.state.probe_seed),
        confidence=wanted.confidence,
        residual=wanted.residual,
        namespaces=namespaces_to_read(desk, probes=probes),
        reread=wanted.reread if probes else 0,
    )


def namespaces_to_read(desk: CaseSession, *, probes: bool) -> tuple[NamespacePlan, ...]:
    """Every namespace that has a block device, with the ``probes`` that must be gone.

    Raises :class:`DriveError` for one that cannot be opened.
    """
    _key(desk)  # before anything asks whether probes stand: a lost key makes them void
    inspected = {layout.nsid: layout for layout in layouts(desk)}
    temporary = {layout.nsid for layout in desk.state.temporary}
    namespaces, patience = [], Patience(desk.limits.ready, desk.clock)
    for nsid, path in sorted(desk.hold.paths.items()):
        with desk.disk(path) as device:
            size = device.size
        known = inspected.get(nsid)
        namespaces.append(
            NamespacePlan(
                nsid,
                path,
                size,
                canaries_of(desk, known)
                if probes and known and desk.state.canaries_planted
                else None,
                _prints(desk, nsid) if probes and desk.state.kept(nsid) else None,
                PassthroughReader(
                    Namespace.of(
                        nsid,
                        desk.controller.identify_namespace(nsid),
                        desk.limits.command,
                        desk.host,
                    ),
                    patience,
                ),
                nsid in temporary,
            )
        )
    return tuple(namespaces)


def _prints(desk: CaseSession, nsid: int) -> Fingerprints | None:
    """A namespace's fingerprints; None where they were never taken, or are damaged."""
    path = desk.files.fingerprints(nsid)
    try:
        return Fingerprints.load(str(path), _key(desk)) if path.exists() else None
    except BadInputError as error:
        desk.tell(0.0, str(error))
        return None


def lost_fingerprints(desk: CaseSession, plan: VerifyPlan) -> tuple[str, ...]:
    """What was taken and cannot be compared any more."""
    taken = desk.state.fingerprinted
    found = sum(len(each.fingerprints) for each in plan.namespaces if each.fingerprints)
    if taken is None or found >= taken.taken:
        return ()
    return (f"fingerprints: {taken.taken} were taken, {found} are left",)


def draw_seed(desk: CaseSession) -> None:
    """The seed of the places to read, once per round, when the last method is over.

    The fingerprints' own will not do: the drive was asked for their places before its erase, and
    one that erases what it has seen alone (a mapping that is loaded on demand is enough) would
    answer well at just these.
    """
    if not desk.state.seed:
        desk.note(Drawn(_seed(desk)))


def _seed(desk: CaseSession) -> str:
    return desk.host.chance(SEED_BYTES).hex()
