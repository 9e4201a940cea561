"""The proving part of a case: probes before the erase, reading and judging after it."""

from __future__ import annotations

import dataclasses
import secrets
import time
from collections.abc import Callable

from eraser.casebook import Again, Fingerprinted, Planted, Seeded, Sent, Verified, WasReset
from eraser.casedesk import Desk, OutOfTimeError
from eraser.drive.passthru import CommandError
from eraser.drive.spec import SanitizeState
from eraser.errors import BadInputError, DriveError
from eraser.journal import replace_durably
from eraser.proof import verdict as judging
from eraser.proof.blocks import block_count
from eraser.proof.probes import KEY_BYTES, Canaries, Fingerprints
from eraser.proof.reader import Device
from eraser.proof.sampling import share
from eraser.proof.tally import VerificationResult
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan
from eraser.wire import codec
from eraser.wire.profile import NamespaceLayout
from eraser.wire.report import MethodRecord, Step, Verdict

FEATURE_ERROR_RECOVERY = 0x05
DULBE = 1 << 16
"""Deallocated or Unwritten Logical Block Error Enable (Base 2.0, 5.27.1.4): reads of erased
blocks would fail."""

CHECKPOINT_SECONDS = 2.0
SEED_BYTES = 32

_RANK = {Verdict.ERASED: 0, Verdict.UNKNOWN: 1, Verdict.NOT_ERASED: 2}


def fingerprint(desk: Desk) -> None:
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
        _readable(desk)
        if not state.seed:
            desk.note(Seeded(secrets.token_hex(SEED_BYTES)))
        plan = _plan(desk, probes=False)
        taken, missing = 0, list[str]()
        for namespace in plan.namespaces:
            count, why = _take(desk, plan, namespace)
            taken += count
            missing += [why] if why else []
        desk.note(Fingerprinted(taken, tuple(missing)))


def _sanitize_runs(desk: Desk) -> bool:
    if not desk.controller.identify().can_sanitize:
        return False
    _raw, log = desk.sanitize_log()
    return log.state is SanitizeState.RUNNING


def _take(desk: Desk, plan: VerifyPlan, namespace: NamespacePlan) -> tuple[int, str]:
    prints = Fingerprints(_key(desk), namespace.nsid)
    why = ""
    try:
        with Device(namespace.path) as device:
            prints.take(device, plan.places(namespace), desk.tell)
    except DriveError as error:
        why = f"fingerprints of namespace {namespace.nsid}: {error}"
    if prints.unreadable:
        why = (
            f"fingerprints of namespace {namespace.nsid}: {prints.unreadable} blocks could not "
            "be read before the erase"
        )
    prints.save(str(desk.files.fingerprints(namespace.nsid)))
    return len(prints), why


def plant(desk: Desk, place: int) -> None:
    """Canaries onto every namespace, before the command at ``place``; each once per place."""
    state = desk.state
    if not desk.policy.verification.canaries:
        return
    if place in state.planted and place not in state.uprooted:
        return
    with desk.step(Step.CANARIES):
        planted, missing = 0, list[str]()
        for layout in _layouts(desk):
            count, why = _plant_one(desk, layout)
            planted += count
            missing += [why] if why else []
        desk.note(Planted(place, planted, tuple(missing)))


def _plant_one(desk: Desk, layout: NamespaceLayout) -> tuple[int, str]:
    where = f"canaries of namespace {layout.nsid}"
    path = desk.hold.paths.get(layout.nsid)
    if path is None:
        return 0, f"{where}: no block device"
    try:
        with Device(path, writable=True) as device:
            found = _canaries(desk, layout).plant(device, desk.tell)
    except DriveError as error:
        return 0, f"{where}: {error}"
    if found.failed:
        return found.planted, f"{where}: {found.failed} could not be planted: {found.reason}"
    return found.planted, ""


def _layouts(desk: Desk) -> tuple[NamespaceLayout, ...]:
    """The namespaces as they were inspected: canaries stand at places of this layout."""
    inspected = desk.state.inspected
    if inspected is None or inspected.facts is None:
        raise DriveError(f"{desk.request.slot}: expected an inspected drive, found none")
    return inspected.facts.namespaces


def _canaries(desk: Desk, layout: NamespaceLayout) -> Canaries:
    total = sum(block_count(each.size) for each in _layouts(desk))
    blocks = block_count(layout.size)
    wanted = desk.policy.verification.canaries
    return Canaries(_key(desk), layout.nsid, blocks, share(wanted, blocks, total) if wanted else 0)


def _key(desk: Desk) -> bytes:
    """The case's secret, made once. A resumed case without it has lost its probes."""
    path = desk.files.probe_key
    if path.exists():
        return path.read_bytes()
    key = secrets.token_bytes(KEY_BYTES)
    replace_durably(path, key, 0o600)
    return key


def reset(desk: Desk) -> None:
    """A controller reset after the last command, so that no cache answers the reading."""
    if desk.state.reset is not None:
        return
    with desk.step(Step.RESET):
        desk.hold.drop()
        problem = ""
        try:
            desk.controller.reset(timeout=desk.limits.ready)
        except DriveError as error:
            problem = str(error)
        desk.reclaim()
        desk.note(WasReset(problem))


def verify(desk: Desk) -> None:
    """Reads, judges, and says what follows. Raises :class:`DriveError`, OutOfTimeError."""
    state = desk.state
    if state.verified is not None:
        return
    with desk.step(Step.VERIFY):
        _readable(desk)
        if not state.seed:
            desk.note(Seeded(secrets.token_hex(SEED_BYTES)))
        plan = _plan(desk, probes=True)
        if not plan.namespaces:
            raise DriveError(
                "expected a namespace to verify, found none; create it and erase again"
            )
        evidence = _evidence(desk, _read(desk, plan))
        methods = _worst_last(state.methods)
        word, reasons = judging.judge(methods, evidence)
        again = _again(desk, word)
        if again:
            desk.files.verify_state.unlink(missing_ok=True)
            desk.note(Again(again))
            return
        desk.note(Verified(judging.record(methods, evidence), word, reasons))


def _again(desk: Desk, word: Verdict) -> str:
    """Why a second round is due: an honest drive is not held for a journal that we lost."""
    state = desk.state
    adopted = any(method.adopted for method in state.methods)
    lost = not state.canaries_planted and desk.policy.verification.canaries
    if word is Verdict.UNKNOWN and adopted and lost and state.rounds == 1:
        return "the probes were lost with the journal, and content alone does not decide"
    return ""


def _worst_last(methods: tuple[MethodRecord, ...]) -> tuple[MethodRecord, ...]:
    """Formats are one each per namespace: the worst of them speaks for the drive."""
    if any(method.method.is_sanitize for method in methods):
        return methods
    return tuple(sorted(methods, key=lambda method: _RANK[method.verdict]))


def _readable(desk: Desk) -> None:
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
            controller.set_feature(FEATURE_ERROR_RECOVERY, value & ~DULBE, nsid)
            desk.note(Sent(controller.records[-1]))


def _plan(desk: Desk, *, probes: bool) -> VerifyPlan:
    wanted = desk.policy.verification
    layouts = {layout.nsid: layout for layout in _layouts(desk)}
    namespaces = []
    for nsid, path in sorted(desk.hold.paths.items()):
        with Device(path) as device:
            size = device.size
        known = layouts.get(nsid)
        namespaces.append(
            NamespacePlan(
                nsid,
                path,
                size,
                _canaries(desk, known) if probes and known and _planted(desk) else None,
                _prints(desk, nsid) if probes else None,
            )
        )
    return VerifyPlan(
        mode=wanted.mode,
        seed=bytes.fromhex(desk.state.seed),
        confidence=wanted.confidence,
        residual=wanted.residual,
        namespaces=tuple(namespaces),
    )


def _planted(desk: Desk) -> bool:
    return desk.state.canaries_planted > 0


def _prints(desk: Desk, nsid: int) -> Fingerprints | None:
    path = desk.files.fingerprints(nsid)
    if not path.exists():
        return None
    return Fingerprints.load(str(path), _key(desk))


def _read(desk: Desk, plan: VerifyPlan) -> VerificationResult:
    verifier = Verifier(plan)
    _restore(desk, verifier)
    result = verifier.run(_checkpoints(desk, verifier), desk.out_of_time)
    if result is None:
        desk.check_time()
        raise OutOfTimeError("expected to read to the end, found the reading stopped")
    return result


def _restore(desk: Desk, verifier: Verifier) -> None:
    try:
        raw = desk.files.verify_state.read_bytes()
        verifier.restore(codec.parse(raw, desk.files.verify_state.name))
    except FileNotFoundError:
        return
    except BadInputError as error:
        # Reading again from the start costs time and nothing else.
        desk.tell(0.0, f"reading from the start: {error}")


def _checkpoints(desk: Desk, verifier: Verifier) -> Callable[[float, str], None]:
    due = time.monotonic() + CHECKPOINT_SECONDS

    def tick(fraction: float, detail: str) -> None:
        nonlocal due
        desk.tell(fraction, detail)
        if time.monotonic() >= due:
            replace_durably(desk.files.verify_state, codec.canonical(verifier.state()))
            due = time.monotonic() + CHECKPOINT_SECONDS

    return tick


def _evidence(desk: Desk, result: VerificationResult) -> judging.Evidence:
    """The counts, with the canaries that really stood on the drive, not those that should have."""
    asked = sum(len(_canaries(desk, layout).positions) for layout in _layouts(desk))
    planted = desk.state.canaries_planted
    void = max(0, result.canaries_planted - planted)
    fills = [
        desk.controller.identify_namespace(namespace.nsid).expected_byte
        for namespace in result.namespaces
    ]
    return judging.Evidence(
        result=dataclasses.replace(
            result,
            canaries_planted=min(planted, result.canaries_planted),
            canaries_checked=max(0, result.canaries_checked - void),
        ),
        expected=judging.Expected.of(fills),
        canaries_asked=asked,
        missing_probes=_missing(desk, asked),
    )


def _missing(desk: Desk, asked: int) -> tuple[str, ...]:
    found = desk.state.missing_probes
    if asked and not desk.state.planted:
        found += ("canaries: the erase was running before any could be planted",)
    return found
