"""``nvme-eraser host-setup``: keeps this host off the drives of tenants, and installs the gate."""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import eraser
from eraser.cli.output import add_format, show
from eraser.defences import (
    assessment,
    diskscanners,
    facts,
    hostrules,
    reloads,
    removedslots,
    selinux,
    setup,
    sightings,
    views,
    withoutrules,
)
from eraser.errors import BadInputError, EraserError
from eraser.gate import rules
from eraser.gate.hookfile import HOOK, HookSettings
from eraser.host import iommu, proc
from eraser.host.sysfs import Host
from eraser.ownership.model import SteadyTime
from eraser.protocol.identity import pci_address
from eraser.protocol.ticket import DefenceStanding
from eraser.state.case_files import DEFAULT_RUN_DIR, DEFAULT_STATE_DIR

_LIBRARY = Path(eraser.__file__).parents[1]


@dataclass(frozen=True)
class SetupResult:
    """What was (or would be) written, and what makes it count."""

    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    warnings: tuple[str, ...]
    reloaded: tuple[str, ...]
    """Commands that made the files count."""
    not_done: tuple[str, ...]
    """Commands that did not run or failed, and files that were not written, each with why: the
    others do not count until the commands ran."""
    told: tuple[int, ...]
    """Processes of libvirt that were told to look for hooks."""
    applied: bool


@dataclass(frozen=True)
class _Plan:
    """What this run has to do, and what people should know of it."""

    settings: HookSettings | None
    """What the hook is to say; None where none is wanted or libvirt is not installed."""
    changes: tuple[hostrules.FileChange, ...]
    """All files of ours, also those that are as they should be."""
    left_out: str
    """Slots that the gate knows and that are not named; empty where there are none."""
    drops: removedslots.Drops
    """What persons took from host-setup, this run's too."""
    left: tuple[str, ...]
    """Commands that an earlier run left undone: they are due again, though their files are
    unchanged."""
    warnings: tuple[str, ...]

    @property
    def needed(self) -> tuple[hostrules.FileChange, ...]:
        """The files that are not as they should be."""
        return tuple(change for change in self.changes if change.needed)

    @property
    def held(self) -> tuple[hostrules.FileChange, ...]:
        """Those of them that are not written."""
        return tuple(change for change in self.needed if change.held)


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument(
        "--pci",
        required=True,
        nargs="+",
        action="extend",
        metavar="ADDRESS",
        help="every slot of this host that tenants' drives are in",
    )
    parser.add_argument(
        "--fewer",
        action="store_true",
        help="drop the rules of slots that an earlier run was given and this one is not; these, "
        "and those that the gate alone knows, are no slots any more",
    )
    doing = parser.add_mutually_exclusive_group()
    doing.add_argument("--dry-run", action="store_true", help="show the changes only")
    doing.add_argument(
        "--check", action="store_true", help="say what is not as it should be; exit code 1 then"
    )
    parser.add_argument(
        "--no-gate",
        action="store_true",
        help="without the hook that lets guests start on certified drives only; removes it",
    )
    parser.add_argument(
        "--disable-cloud-init",
        action="store_true",
        help="write /etc/cloud/cloud-init.disabled: cloud-init would run what a tenant left on a "
        "drive; not where it configures this host at each boot",
    )
    parser.add_argument(
        "--library",
        metavar="DIR",
        help="holds the package of the eraser that libvirt's hook loads (default: this one)",
    )
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
    parser.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the rules and the hook, and has them count; doing it twice changes nothing.

    Raises ``EraserError``.
    """
    before = _before(arguments)
    _all_slots(arguments, before)
    plan = _plan(arguments, before)
    _tell_plan(arguments, plan)
    applied = not arguments.dry_run and not arguments.check
    reloaded, told = _apply(arguments, plan, before) if applied else (reloads.Reloads(), ())
    held = tuple((change.path, change.held) for change in plan.held)
    not_done = tuple(f"{what} ({why})" for what, why in (*held, *reloaded.failed))
    show(
        SetupResult(
            changed=tuple(change.path for change in plan.needed if change.due),
            unchanged=tuple(change.path for change in plan.changes if not change.needed),
            warnings=plan.warnings,
            reloaded=reloaded.done,
            not_done=not_done,
            told=tuple(each.pid for each in told),
            applied=applied,
        ),
        arguments.format,
    )
    sys.stderr.writelines(f"NOT DONE: {line}\n" for line in not_done)
    # On another root the commands are not run by design, which is no failure.
    failed = held or (reloaded.failed and _running(arguments.root))
    amiss = plan.needed or plan.left or plan.left_out
    return 1 if failed or (arguments.check and amiss) else 0


def _plan(arguments: argparse.Namespace, before: setup.Setup | None) -> _Plan:
    """Compares what is there with what should be; writes nothing."""
    root: Path = arguments.root
    settings = _settings(arguments)
    host = Host(root)
    changes = hostrules.plan(arguments.pci, root)
    if not _running(root):
        # Arrays that run are those of whoever builds it.
        changes = [replace(change, warning="", held="") for change in changes]
    warnings = [change.warning for change in changes if change.warning]
    warnings += _slot_warnings(host, arguments.pci)
    off: tuple[str, ...] = ()
    if arguments.disable_cloud_init:
        changes.append(hostrules.cloud_init_off(root))
        off = ("cloud-init",)
    found = diskscanners.found(host)
    warnings += [each.line for each in found.programs if each.name not in off]
    warnings += found.unclear
    drops, missed, asked = _left_out(arguments, before)
    warnings += asked
    hook = hostrules.hook(settings, root)
    # In the files of another system nothing runs: what /proc shows there is of whoever builds it.
    if settings is not None and _running(root):
        warnings += views.containers(host, settings)
        hook, asked = _barred(host, hook)
        warnings += asked
    # Without settings it is needed only to remove a file of ours.
    if settings is not None or hook.needed:
        changes.append(hook)
    elif not arguments.no_gate:
        warnings.append(
            "no libvirt on this host, so no hook is installed; run host-setup again if one comes"
        )
    if not arguments.no_gate and _running(root) and (why := proc.blind(host)):
        warnings.append(f"libvirt's daemons cannot be seen from here: {why}")
    left = hostrules.still_due(() if before is None else before.pending, root)
    return _Plan(settings, tuple(changes), missed, drops, left, tuple(warnings))


def _left_out(
    arguments: argparse.Namespace, before: setup.Setup | None
) -> tuple[removedslots.Drops, str, list[str]]:
    """What persons dropped; of NVMe drives that are not named which are slots, in words; and all
    that is to be told of those."""
    host, state_dir = Host(arguments.root), _state_dir(arguments)
    given = {pci_address(slot) for slot in arguments.pci}
    drops = _drops(arguments)
    fewer = set(before.slots if before and arguments.fewer else ()) - given
    try:
        drops = drops.renewed(state_dir, given, fewer)
        found = withoutrules.find(host, state_dir, given, drops)
        if arguments.fewer:
            # Also what the gate alone knows: an earlier release wrote down nobody's word.
            fewer.update(found.slots)
            drops = drops.renewed(state_dir, given, fewer)
            found = withoutrules.find(host, state_dir, given, drops)
            # A guest's drive is there: nobody's word makes that none.
            fewer.difference_update(found.slots)
            drops = drops.renewed(state_dir, {*given, *found.slots}, ())
    except (EraserError, OSError) as error:
        # Whatever is wrong with the gate's files, the rules have to be written.
        return drops, "", [f"whether a slot is left out cannot be told: {error}"]
    taken = f"{', '.join(sorted(fewer))}: no slots from now on (--fewer)" if fewer else ""
    return drops, found.line, [each for each in (taken, found.line, found.question) if each]


def _drops(arguments: argparse.Namespace) -> removedslots.Drops:
    """Those of the runs before; none where they are damaged."""
    try:
        return removedslots.load(_state_dir(arguments))
    except BadInputError:
        return removedslots.Drops()  # this run writes them anew


def _keep_drops(arguments: argparse.Namespace, drops: removedslots.Drops) -> None:
    try:
        same = removedslots.load(_state_dir(arguments)) == drops
    except BadInputError:
        same = False
    if not same:
        removedslots.save(_state_dir(arguments), drops)


def _tell_plan(arguments: argparse.Namespace, plan: _Plan) -> None:
    """Writes to stderr what ``--check`` finds missing, or else what changes."""
    if not arguments.check:
        sys.stderr.writelines(change.diff() for change in plan.needed if change.due)
        return
    # What is held is told as not done, whatever is asked.
    for change in plan.needed:
        if change.due:
            print(hostrules.missing(change), file=sys.stderr)
    if plan.left_out:
        print(plan.left_out, file=sys.stderr)
    for line in plan.left:
        print(f"NOT DONE: {line}; run 'nvme-eraser host-setup'", file=sys.stderr)


def _apply(
    arguments: argparse.Namespace, plan: _Plan, before: setup.Setup | None
) -> tuple[reloads.Reloads, tuple[setup.HookReload, ...]]:
    """Files first, then the commands that make them count, then the daemons of libvirt.

    Returns what became of the commands, and the daemons that were told.
    """
    root: Path = arguments.root
    slots = tuple(sorted({pci_address(slot) for slot in arguments.pci}))
    lines = tuple(dict.fromkeys((*hostrules.reloads(plan.changes), *plan.left)))
    # Before the record without them: a run that is cut off in between leaves no slot unexplained.
    _keep_drops(arguments, plan.drops)
    if _running(root):
        # Written down first: a host that stops in between has files that do not count yet.
        made = setup.Setup(slots, plan.settings, before.told if before else (), lines)
        _save(arguments, made, before)
        hostrules.apply(plan.changes)
        reloaded = reloads.run(lines, root)
    else:
        hostrules.apply(plan.changes)
        why = f"{root} is not the running system; run it there"
        # The daemons of this system would read this system's files.
        reloaded = reloads.Reloads(failed=tuple((line, why) for line in lines))
    # What is left undone is written down for the next run.
    return reloaded, _remember(arguments, slots, plan, reloaded)


def _running(root: Path) -> bool:
    """It is this system's own root, whose daemons can be told."""
    return root == Path("/")


def _slot_warnings(host: Host, addresses: list[str]) -> Iterator[str]:
    """What is odd about the slots. Raises :class:`BadInputError` for one that has something else
    than an NVMe drive in it."""
    for slot in sorted({pci_address(address) for address in addresses}):
        try:
            code = host.text(f"/sys/bus/pci/devices/{slot}/class")
        except FileNotFoundError:
            yield f"{slot}: no PCI function is there now: a slot without drive, or a typing error?"
            continue
        if code != rules.NVME_CLASS:
            raise BadInputError(
                f"host-setup: expected NVMe drives, found a function of class {code} at {slot}"
            )
    yield from iommu.unprotected(host, sorted({pci_address(each) for each in addresses}))


def _barred(host: Host, hook: hostrules.FileChange) -> tuple[hostrules.FileChange, list[str]]:
    """The hook, held where SELinux is against it, and what else is to be told of that."""
    try:
        why = selinux.bars_hook(host)
    except (OSError, ValueError) as error:
        return hook, [f"whether SELinux lets libvirt execute the hook cannot be told: {error}"]
    if not why:
        return hook, []
    allow = "allow it (docs/operators.md, SELinux), or give --no-gate"
    if hook.needed:
        held = f"{why}; no guest would start, and running ones would be ended: {allow}"
        return replace(hook, held=held), []
    return hook, [f"{why}: no guest starts; {allow}"]


def _settings(arguments: argparse.Namespace) -> HookSettings | None:
    """What the hook is to say; None where none is wanted or libvirt is not installed."""
    host = Host(arguments.root)
    libvirt = facts.libvirt_here if _running(arguments.root) else facts.libvirt_installed
    if arguments.no_gate or not libvirt(host):
        return None
    try:
        return HookSettings(
            python=os.path.abspath(sys.executable),
            library=os.path.abspath(arguments.library or _LIBRARY),
            state_dir=str(arguments.state_dir),
            run_dir=str(arguments.run_dir),
        )
    except ValueError as error:
        raise BadInputError(f"host-setup: {error}") from error


def _all_slots(arguments: argparse.Namespace, before: setup.Setup | None) -> None:
    """Raises :class:`BadInputError` where slots that have rules are left out: the host would look
    into what their tenants left, and nothing would say so."""
    try:
        given = {pci_address(slot) for slot in arguments.pci}
    except ValueError as error:
        raise BadInputError(f"host-setup: {error}") from error
    left_out = sorted(set(() if before is None else before.slots) - given)
    if left_out and not arguments.fewer:
        raise BadInputError(
            f"host-setup: expected all slots of this host, found {', '.join(left_out)} left out, "
            "which an earlier run was given; name them too, or give --fewer to drop their rules"
        )


def _state_dir(arguments: argparse.Namespace) -> Path:
    root: Path = arguments.root
    return root / str(arguments.state_dir).lstrip("/")


def _before(arguments: argparse.Namespace) -> setup.Setup | None:
    """What the run before wrote down; None where there was none, or it is damaged."""
    try:
        return setup.load(_state_dir(arguments))
    except BadInputError:
        return None  # this run writes it anew


def _save(arguments: argparse.Namespace, made: setup.Setup, before: setup.Setup | None) -> None:
    if made != before:
        setup.save(_state_dir(arguments), made)


def _remember(
    arguments: argparse.Namespace,
    slots: tuple[str, ...],
    plan: _Plan,
    reloaded: reloads.Reloads,
) -> tuple[setup.HookReload, ...]:
    """Writes down what was done, and tells running daemons where they may not know of the hook."""
    root: Path = arguments.root
    before = _before(arguments)
    here = _running(root)
    # Another root's files are read when that boots.
    pending = reloaded.pending if here else ()
    made = setup.Setup(slots, plan.settings, () if before is None else before.told, pending)
    told: tuple[setup.HookReload, ...] = ()
    # One that may not execute the hook would refuse every start from then on.
    barred = any(change.path == HOOK for change in plan.held)
    if plan.settings is not None and not barred and here:
        earlier = _sightings(arguments)
        seen = facts.look_at_libvirt(Host(root), arguments.run_dir, made, earlier)
        # Before anybody is told: a run that is cut off in between has seen it all the same.
        _keep_sightings(arguments, earlier, seen)
        # A daemon that is known to call the hook is left alone.
        if assessment.loaded(seen).standing is not DefenceStanding.PRESENT:
            told = setup.tell(Host(root))
            # Those that are told now are all that run.
            made = replace(made, told=told)
    _save(arguments, made, before)
    return told


def _sightings(arguments: argparse.Namespace) -> sightings.Sightings:
    """Those of the runs before; none where they are damaged."""
    try:
        return sightings.load(_state_dir(arguments))
    except BadInputError:
        return sightings.Sightings()  # this run writes them anew


def _keep_sightings(
    arguments: argparse.Namespace, earlier: sightings.Sightings, seen: assessment.LibvirtSeen
) -> None:
    """Writes down which hook files are there, as this host and each daemon sees them."""
    # The time after the look: whoever starts from then on finds what was there.
    now = SteadyTime.now(Host(arguments.root))
    files = [view.file for view in (seen.idle_view, *seen.views)]
    found = earlier.renewed(((each.inode, each.changed) for each in files if each), now)
    if found != earlier:
        sightings.save(_state_dir(arguments), found)
