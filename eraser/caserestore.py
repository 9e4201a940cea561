"""Bringing a drive back to its profile: locks off before the erase, the layout before its last
command, features at the end (docs/decisions/restore.md).

Everything is decided from what is there now and from the profile, and is sent only where the two
differ: a run that was killed half way is followed by one that does the rest.
"""

from __future__ import annotations

import itertools

from eraser.casedesk import Desk
from eraser.caseentries import CommandEntry, Restored, Sent
from eraser.caseformat import plain_format
from eraser.casesanitize import wait_for_another
from eraser.drive import manage
from eraser.drive.features import FEATURES, differing
from eraser.drive.inquiry import sensible
from eraser.drive.inspect import DETACHED, detached, layout_of
from eraser.drive.nvme import Controller
from eraser.drive.profile import is_of
from eraser.erase.layout import (
    Act,
    LayoutStep,
    controller_list,
    create_data,
    layout_steps,
    reformat_cdw10,
)
from eraser.erase.plan import Capabilities, FormatTarget, make_plan
from eraser.errors import DriveError
from eraser.wire.profile import FeatureRule, NamespaceLayout, layout_differences
from eraser.wire.report import CommandRecord, ControllerFacts, Step, Verdict

_PROTECTED = 1
"""Feature 84h, state 1: the only one that a command takes back."""
_NOT_SAVEABLE = 0x10D
_NO_CAPACITY = 0x115
"""Command specific status (Base 2.0, figure 128)."""

_FIRST_LOOK = 10.0
"""Seconds for the kernel's first look at changed namespaces."""

_KNOWN = {known.fid: known for known in FEATURES}


def unlock(desk: Desk, found: ControllerFacts) -> None:
    """Takes off what keeps the drive from being written and erased, as far as commands can.

    What is left is named by the last look. Raises ``DriveError`` where the drive is gone.
    """
    condition = found.condition
    if condition is None:
        return
    locked = [entry.nsid for entry in condition.protected if entry.state == _PROTECTED]
    loose = [each.nsid for each in found.detached if _protected(desk.controller, each.nsid)]
    if not locked and not loose and not condition.reservations:
        return
    with desk.step(Step.UNLOCK):
        desk.recheck()
        for nsid in loose:
            # It keeps the drive from every sanitize, and its feature is an attached one's alone.
            _attach(desk, nsid)
        for held in condition.reservations:
            path = desk.hold.paths.get(held.nsid)
            for record in manage.clear_reservation(desk.controller, held, path) if path else ():
                desk.note(Sent(record))
        for nsid in (*locked, *loose):
            desk.note(Sent(manage.unprotect(desk.controller, nsid)))
        if locked or loose:
            # The kernel has made the disks read only, and looks again only when it is told to.
            _look_anew(desk)


def _protected(controller: Controller, nsid: int) -> bool:
    """Of a detached namespace, by NSATTR; not of one that the drive does not describe."""
    try:
        return controller.identify_namespace(nsid, attached=False).write_protected
    except DriveError:
        return False


def attach_all(desk: Desk, found: ControllerFacts) -> None:
    """Attaches every namespace that is not: Format reaches no other."""
    if not found.detached:
        return
    with desk.step(Step.UNLOCK, "attaching namespaces"):
        desk.recheck()
        for layout in found.detached:
            _attach(desk, layout.nsid)
        _look_anew(desk)


def restore(desk: Desk) -> None:
    """The profile's layout, once in a case. Never an error for what the drive refuses."""
    active, loose = _layout(desk)
    steps = _steps(desk, active, loose)
    if steps and (left := _unerased(desk)):
        desk.note(Restored(False, active, (), (left,)))
        return
    if not steps:
        # A run that died on the way may have done it all. What the inspection of an older version
        # did not tell is no change.
        changed = bool(layout_differences(_inspected(desk).namespaces, active))
        desk.note(Restored(changed, active, _added(desk) if changed else (), ()))
        return
    with desk.step(Step.RESTORE):
        if desk.controller.identify().can_sanitize:
            wait_for_another(desk, "before the layout is restored")
        problems = _carry_out(desk, steps)
        active, loose = _read_layout(desk)
        if _steps(desk, active, loose) and not problems:
            problems.append("restore: the drive took every command, and is not as it should be")
        desk.note(Restored(True, active, _added(desk), tuple(problems)))


def _unerased(desk: Desk) -> str:
    """Why nothing may be deleted: Format is all that there is, and it did not erase everything.

    It never reaches what a deleted namespace held, and the next case would know nothing of it.
    """
    plan = desk.state.plan
    if plan is None or any(command.method.is_sanitize for command in plan.commands):
        return ""
    failed = [str(m.nsid) for m in desk.state.methods if m.verdict is not Verdict.ERASED]
    if not failed:
        return ""
    return f"restore: nothing was changed, because namespaces {', '.join(failed)} were not erased"


def mend_features(desk: Desk, found: ControllerFacts, rules: tuple[FeatureRule, ...]) -> bool:
    """Sets features back to the profile's values, saved where the drive saves them.

    Whether anything was sent. Data that comes with a feature is compared and not set: the
    profile has its digest only.
    """
    controller, profile = desk.controller, desk.request.profile
    wanted = [
        (rule, other)
        for rule, other in differing(profile.features, rules)
        if other is not None and not rule.digest
    ]
    if not wanted or not is_of(profile, controller.identity(), found):
        return False
    saves = controller.identify().saves_features
    for rule, other in wanted:
        save = saves and (rule.fid not in _KNOWN or _KNOWN[rule.fid].saved)
        record = manage.set_feature(controller, rule.fid, rule.value, other.nsid, save=save)
        desk.note(Sent(record))
        if save and record.status == _NOT_SAVEABLE:
            desk.note(
                Sent(manage.set_feature(controller, rule.fid, rule.value, other.nsid, save=False))
            )
    return True


Layouts = tuple[tuple[NamespaceLayout, ...], tuple[NamespaceLayout, ...]]
"""Attached namespaces, and detached ones."""


def _layout(desk: Desk) -> Layouts:
    """As this run inspected it, else as it is now: nobody but us had the drive within a run."""
    inspected = _inspected(desk)
    if desk.state.resumed or inspected.detached:
        return _read_layout(desk)
    return inspected.namespaces, inspected.detached


def _inspected(desk: Desk) -> ControllerFacts:
    found = desk.state.inspected
    if found is None or found.facts is None:
        raise DriveError(f"{desk.request.slot}: expected an inspected drive, found none")
    return found.facts


def _read_layout(desk: Desk) -> Layouts:
    controller = desk.controller
    active = controller.active_namespaces()
    loose: tuple[NamespaceLayout, ...] = ()
    loose = sensible(
        DETACHED,
        lambda: detached(controller, controller.identify(), frozenset(active)),
        loose,
        [],  # the last look names it
    )
    return tuple(layout_of(n, controller.identify_namespace(n)) for n in active), loose


def _steps(
    desk: Desk, active: tuple[NamespaceLayout, ...], loose: tuple[NamespaceLayout, ...]
) -> tuple[LayoutStep, ...]:
    """Nothing for a drive that the profile is not of: its sizes are another model's."""
    inspected, identity = _inspected(desk), desk.state.identity
    if identity is None or not is_of(desk.request.profile, identity, inspected):
        return ()
    capabilities = Capabilities(inspected.oacs, inspected.fna, inspected.sanicap)
    return layout_steps(
        desk.request.profile.namespaces,
        active,
        loose,
        can_manage=capabilities.manages,
        can_format=capabilities.formats,
    )


def _carry_out(desk: Desk, steps: tuple[LayoutStep, ...]) -> list[str]:
    problems: list[str] = []
    for act, group in itertools.groupby(steps, key=lambda step: step.act):
        # The kernel looks after each kind: it must not take a namespace that comes back under its
        # number for the one that went, and it has to know one that is to change its format.
        desk.hold.drop()
        for step in group:
            # Each: the disks are not claimed meanwhile, and what is deleted is gone.
            desk.recheck()
            desk.tell(0.0, f"{act.value} namespace {step.nsid}")
            problems += _one(desk, step)
            if any(command.status is None for command in desk.state.commands[-1:]):
                # The kernel has reset the controller, after hours perhaps: the erase is due, and
                # what is left of the layout is for a person.
                _look_anew(desk)
                return problems
        _look_anew(desk)
    return problems


def _one(desk: Desk, step: LayoutStep) -> list[str]:
    controller, timeout = desk.controller, desk.limits.format
    if step.act is Act.DELETE:
        return _noted(desk, manage.delete_namespace(controller, step.nsid, timeout))
    if step.act is Act.ATTACH or step.layout is None:
        return _attach(desk, step.nsid)
    if step.act is Act.REFORMAT:
        return _noted(desk, plain_format(desk, step.nsid, reformat_cdw10(step.layout)))
    record, nsid = manage.create_namespace(
        controller,
        create_data(step.layout),
        f"create namespace {step.nsid} of {step.layout.blocks} blocks",
        timeout,
    )
    problems = _noted(desk, record)
    if record.status == _NO_CAPACITY:
        free = controller.identify().unallocated_bytes
        problems[-1] += f"; {free} bytes are unallocated, {step.layout.size} are needed"
    if not nsid:
        return problems
    if nsid != step.nsid:
        problems.append(
            f"restore: expected the new namespace to be number {step.nsid}, found {nsid}"
        )
    return problems + _attach(desk, nsid)


def _attach(desk: Desk, nsid: int) -> list[str]:
    controller = desk.controller
    mine = controller_list(controller.identify().controller_id)
    return _noted(desk, manage.attach_namespace(controller, nsid, mine, desk.limits.command))


def _noted(desk: Desk, record: CommandRecord) -> list[str]:
    """Into the journal, and what is wrong with it."""
    desk.note(Sent(record))
    if record.status == 0:
        return []
    status = "no completion" if record.status is None else f"status {record.status:#05x}"
    return [f"restore: expected success, found {status} ({record.message[:200]})"]


def _look_anew(desk: Desk) -> None:
    """Makes the kernel see the namespaces that there are, and claims their disks."""
    desk.hold.drop()
    for seconds in (min(_FIRST_LOOK, desk.limits.ready), desk.limits.ready):
        # Twice: the first look drops a namespace whose identifiers changed, the next one finds it.
        try:
            desk.controller.wait_live(desk.limits.ready, namespaces=False)
            desk.controller.rescan(timeout=desk.limits.ready)
            desk.controller.wait_namespaces(seconds)
            break
        except DriveError as error:
            # A disk that the kernel cannot make is no reason not to erase; what cannot be read
            # is named by the verification.
            desk.tell(0.0, str(error))
    desk.hold.take()


def _added(desk: Desk) -> tuple[CommandEntry, ...]:
    """What erases the layout that there is now: Formats of it, on a drive that is erased by Format;
    the last sanitize once more, where none is left to follow (it was adopted, or the journal is of
    an older version). Namespaces that were made after it read as blank whatever it did."""
    plan = desk.state.plan
    if plan is None:
        return ()
    if any(command.method.is_sanitize for command in plan.commands):
        return plan.commands[-1:] if desk.state.erased else ()
    controller = desk.controller
    targets = tuple(
        FormatTarget.of(nsid, controller.identify_namespace(nsid))
        for nsid in controller.active_namespaces()
    )
    again = make_plan(desk.policy, Capabilities.of(controller.identify()), targets, desk.applied)
    return tuple(CommandEntry(c.method, c.opcode, c.nsid, c.cdw10) for c in again.commands)
