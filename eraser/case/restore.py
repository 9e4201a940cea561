"""Bringing a drive back to its profile: the layout before its last command
(docs/decisions/restore.md); locks before the erase are :mod:`eraser.case.unlock`'s, features at the
end :mod:`eraser.case.features`'.

Everything is decided from what is there now and from the profile, and is sent only where the two
differ: a run that was killed half way is followed by one that does the rest.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection

from eraser.case.entries import CommandEntry, Restored
from eraser.case.namespaces import capacity, creation, temporary
from eraser.case.namespaces.attaching import attach, look_anew, wrong
from eraser.case.namespaces.changing import change
from eraser.case.sanitize import wait_for_another
from eraser.case.session import CaseSession
from eraser.case.unlock import unlock_attached, unlock_late
from eraser.controller.passthru import FORMAT_NVM, NAMESPACE_MANAGEMENT
from eraser.drive import manage
from eraser.drive.inquiry import sensible
from eraser.drive.inspect import DETACHED, command_sets, described, detached, layouts
from eraser.drive.profile import is_of
from eraser.erase.layout import (
    LayoutCommand,
    LayoutStep,
    create_cdw11,
    create_data,
    layout_steps,
    reformat_cdw10,
    smaller,
)
from eraser.erase.plan import Capabilities, FormatTarget, make_plan
from eraser.errors import DriveError
from eraser.protocol.profile import NVM_COMMAND_SET, NamespaceLayout, layout_differences
from eraser.protocol.report import CommandRecord, ControllerFacts, Step, Verdict


def restore(session: CaseSession) -> None:
    """The profile's layout, once in a case. Never an error for what the drive refuses."""
    unlock_late(session)
    active, loose = _layout(session)
    steps = _steps(session, active, loose)
    if not steps and not session.state.erased:
        # A sanitize was running when the drive was inspected.
        temporary.allocate(session)
    if steps and (left := _unerased(session, active)):
        session.note(Restored(False, active, (), (left,)))
        return
    # Of this run, or of one that died on the way.
    loosened = {each.nsid for each in (*loose, *_inspected(session).detached)}
    if not steps:
        unlock_attached(session, loosened)
        # A run that died on the way may have done it all. What the inspection of an older version
        # did not tell is no change.
        changed = bool(layout_differences(_inspected(session).namespaces, active))
        session.note(Restored(changed, active, _added(session) if changed else (), ()))
        return
    with session.step(Step.RESTORE):
        if session.controller.identify().can_sanitize:
            wait_for_another(session, "before the layout is restored")
        # The layout needs the room that they take.
        temporary.free(session)
        problems = _carry_out(session, steps)
        active, loose = _read_layout(session)
        if not _lost(session):
            rest = _rest(session, {step.act for step in steps}, active, loose, problems)
            problems += _carry_out(session, rest)
            active, loose = _read_layout(session) if rest else (active, loose)
        # Without this the only trace would be a difference that nothing explains.
        if _steps(session, active, loose) and not problems:
            problems.append("restore: the drive took every command, and is not as it should be")
        unlock_attached(session, loosened)
        temporary.allocate(session)
        # Last: a run that dies before this entry decides anew from what is there.
        session.note(Restored(True, active, _added(session), tuple(problems)))


def _rest(
    session: CaseSession,
    done: Collection[LayoutCommand],
    active: tuple[NamespaceLayout, ...],
    loose: tuple[NamespaceLayout, ...],
    problems: Collection[str],
) -> tuple[LayoutStep, ...]:
    """What is due only once the steps are ``done``."""
    steps = _steps(session, active, loose)
    # A detached one tells its command set when it is attached, so it may have to be made anew.
    if LayoutCommand.ATTACH in done and not problems:
        return steps
    # Placeholders kept the numbers between busy. Now that the profile's stand they go.
    if LayoutCommand.PLACE in done:
        return tuple(step for step in steps if step.act is LayoutCommand.DELETE)
    return ()


def _unerased(session: CaseSession, active: tuple[NamespaceLayout, ...]) -> str:
    """Why nothing may be deleted: Format is all that there is, and it did not erase everything.

    It never reaches what a deleted namespace held, and the next case would know nothing of it.
    """
    plan = session.state.plan
    if plan is None or any(command.method.is_sanitize for command in plan.commands):
        return ""
    failed = [str(m.nsid) for m in session.state.methods if m.verdict is not Verdict.ERASED]
    # One that does not describe itself was in no plan.
    failed += [str(each.nsid) for each in active if not each.blocks]
    if not failed:
        return ""
    return f"restore: nothing was changed, because namespaces {', '.join(failed)} were not erased"


Layouts = tuple[tuple[NamespaceLayout, ...], tuple[NamespaceLayout, ...]]
"""Attached namespaces, and detached ones."""


def _layout(session: CaseSession) -> Layouts:
    """As this run inspected it, else as it is now: nobody but us had the drive within a run.

    A sanitize that ran meanwhile may have kept the drive from telling of all namespaces.
    """
    inspected, plan = _inspected(session), session.state.plan
    locked = plan is not None and plan.locked
    # In these cases the layout is, or may be, another than the one that was inspected.
    if session.state.resumed or session.state.changes or inspected.detached or locked:
        return _read_layout(session)
    return inspected.namespaces, inspected.detached


def _inspected(session: CaseSession) -> ControllerFacts:
    found = session.state.inspected
    if found is None or found.facts is None:
        raise DriveError(f"{session.request.slot}: expected an inspected drive, found none")
    return found.facts


def _read_layout(session: CaseSession) -> Layouts:
    controller = session.controller
    active = controller.active_namespaces()
    identify = controller.identify()
    loose: tuple[NamespaceLayout, ...] = ()
    loose = sensible(
        DETACHED,
        lambda: detached(controller, identify, frozenset(active)),
        loose,
        [],  # the last look names it
    )
    # Those that the drive would not delete yet are erased and read with the rest.
    temporary = session.state.made
    # The profile does not have them, and they would be deleted for that.
    kept = tuple(nsid for nsid in active if nsid not in temporary)
    namespaces = described(controller, kept)
    return (
        layouts(kept, namespaces, command_sets(controller, identify, namespaces)),
        tuple(each for each in loose if each.nsid not in temporary),
    )


def _steps(
    session: CaseSession, active: tuple[NamespaceLayout, ...], loose: tuple[NamespaceLayout, ...]
) -> tuple[LayoutStep, ...]:
    """Nothing for a drive that the profile is not of: its sizes are another model's."""
    inspected, identity = _inspected(session), session.state.identity
    if identity is None or not is_of(session.request.profile, identity, inspected):
        return ()
    capabilities = Capabilities(inspected.oacs, inspected.fna, inspected.sanicap)
    return layout_steps(
        session.request.profile.namespaces,
        active,
        loose,
        can_manage=capabilities.manages,
        can_format=capabilities.formats,
        tolerance=session.request.profile.size_tolerance,
    )


def _carry_out(session: CaseSession, steps: tuple[LayoutStep, ...]) -> list[str]:
    problems: list[str] = []
    for act, group in itertools.groupby(steps, key=lambda step: step.act):
        # The kernel looks after each kind: it must not take a namespace that comes back under its
        # number for the one that went, and it has to know one that is to change its format.
        session.hold.drop()
        for step in group:
            # Each: the disks are not claimed meanwhile, and what is deleted is gone.
            session.recheck()
            session.tell(0.0, f"{act.value} namespace {step.nsid}")
            problems += _one(session, step)
            if _lost(session):
                # The kernel has reset the controller, after hours perhaps: the erase is due, and
                # what is left of the layout is for a person.
                look_anew(session)
                return problems
        look_anew(session)
    return problems


def _lost(session: CaseSession) -> bool:
    """The last command had no completion: each more might cost as long."""
    return any(command.status is None for command in session.state.commands[-1:])


def _one(session: CaseSession, step: LayoutStep) -> list[str]:
    layout = step.layout
    if step.act is LayoutCommand.DELETE:
        return wrong(
            _manage(session, manage.DELETE, f"delete namespace {step.nsid}", nsid=step.nsid)
        )
    if step.act is LayoutCommand.ATTACH or layout is None:
        return attach(session, step.nsid)
    if step.act is LayoutCommand.REFORMAT:
        return wrong(
            change(
                session,
                FORMAT_NVM,
                nsid=step.nsid,
                cdw10=reformat_cdw10(layout),
                timeout=session.limits.format,
                note=f"LBA format of namespace {step.nsid}",
            )
        )
    # What there is before: the new one may have to be known by its being there.
    listed = capacity.listed_nsids(session)
    record = _create_one(session, step, layout)
    problems = wrong(record)
    if record.status == creation.NO_CAPACITY:
        free = session.controller.identify().unallocated_bytes
        problems[-1] += (
            f"; {free} bytes are unallocated, {layout.size} are needed; where drives of this model "
            "take less than they were delivered with, name how much less in the profile "
            "(size_tolerance), approve it and release the slot"
        )
    nsid = manage.created(record)
    if record.status == 0 and not nsid:
        # nvme-cli 2.5 and 3.0-rc1 print no result of a success where others do.
        new = capacity.listed_nsids(session) - listed
        nsid = new.pop() if len(new) == 1 else 0
    if not nsid:
        return problems
    # It stays: the last look holds the drive, for its layout is not the profile's.
    if nsid != step.nsid:
        problems.append(
            f"restore: expected the new namespace to be number {step.nsid}, found {nsid}"
        )
    # A placeholder only keeps its number busy and is never attached.
    return problems if step.act is LayoutCommand.PLACE else problems + attach(session, nsid)


def _create_one(session: CaseSession, step: LayoutStep, layout: NamespaceLayout) -> CommandRecord:
    """With patience: a drive may be late to give what it got back, whatever it tells of it."""
    # Some drives do not give all that they were delivered with (docs/portraits.md).
    less = smaller(layout, session.request.profile.size_tolerance)
    # A placeholder has to keep its number, not its size.
    may_be_less = less is not None and step.act is LayoutCommand.CREATE
    for tried in range(capacity.RETRIES + 1):
        if tried:
            session.clock.sleep(capacity.RETRY_PAUSE)
        record = _create(session, step, layout)
        if record.status == creation.NO_CAPACITY and less is not None and may_be_less:
            record = _create(session, step, less)
        if record.status != creation.NO_CAPACITY:
            break
    return record


def _create(session: CaseSession, step: LayoutStep, layout: NamespaceLayout) -> CommandRecord:
    note = f"{step.act.value} namespace {step.nsid} of {layout.blocks} blocks"
    if layout.command_set != NVM_COMMAND_SET:
        note += f" of CSI {layout.command_set}"
    cdw11, data = create_cdw11(layout), create_data(layout)
    return _manage(session, manage.CREATE, note, cdw11=cdw11, send=data)


def _manage(
    session: CaseSession,
    select: int,
    note: str,
    *,
    nsid: int = 0,
    cdw11: int = 0,
    send: bytes = b"",
) -> CommandRecord:
    return change(
        session,
        NAMESPACE_MANAGEMENT,
        nsid=nsid,
        cdw10=select,
        cdw11=cdw11,
        send=send,
        timeout=session.limits.format,
        note=note,
    )


def _added(session: CaseSession) -> tuple[CommandEntry, ...]:
    """What erases the layout that there is now: Formats of it, on a drive that is erased by Format;
    the last sanitize once more, where none is left to follow (it was adopted, or the journal is of
    an older version). Namespaces that were made after it read as blank whatever it did."""
    plan = session.state.plan
    if plan is None:
        return ()
    if any(command.method.is_sanitize for command in plan.commands):
        # With a sanitize still to come the plan itself erases the new layout.
        return plan.commands[-1:] if session.state.erased else ()
    controller = session.controller
    targets = tuple(
        FormatTarget.of(nsid, namespace)
        for nsid, namespace in described(controller, controller.active_namespaces())
    )
    again = make_plan(
        session.policy, Capabilities.of(controller.identify()), targets, session.applied
    )
    return tuple(CommandEntry(c.method, c.opcode, c.nsid, c.cdw10) for c in again.commands)
