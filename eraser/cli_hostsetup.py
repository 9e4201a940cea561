"""``nvme-eraser host-setup``: keeps this host off the drives of tenants, and installs the gate."""

from __future__ import annotations

import argparse
import os
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import eraser
from eraser import hostsetup
from eraser.casefiles import DEFAULT_RUN_DIR, DEFAULT_STATE_DIR
from eraser.cli_output import add_format, show
from eraser.drive.sysfs import Host
from eraser.errors import BadInputError
from eraser.gate import defencefacts, defences, setup
from eraser.gate.hookfile import HookSettings
from eraser.wire.identity import pci_address
from eraser.wire.ticket import Standing

_LIBRARY = Path(eraser.__file__).parents[1]


@dataclass(frozen=True)
class SetupResult:
    """What was (or would be) written, and what makes it count."""

    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    warnings: tuple[str, ...]
    reload: tuple[str, ...]
    told: tuple[int, ...]
    """Processes of libvirt that were told to look for hooks."""
    applied: bool


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
        "--library",
        metavar="DIR",
        help="holds the package of the eraser that libvirt's hook loads (default: this one)",
    )
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
    parser.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the rules and the hook; doing it twice changes nothing. Raises ``EraserError``."""
    root: Path = arguments.root
    settings = _settings(arguments)
    changes = [*hostsetup.plan(arguments.pci, root), hostsetup.hook(settings, root)]
    needed = [change for change in changes if change.needed]
    if arguments.check:
        for change in needed:
            print(hostsetup.missing(change), file=sys.stderr)
    else:
        sys.stderr.writelines(change.diff() for change in needed)
    reload: tuple[str, ...] = ()
    told: tuple[setup.Told, ...] = ()
    if not arguments.dry_run and not arguments.check:
        reload = hostsetup.apply(changes)
        slots = tuple(sorted({pci_address(slot) for slot in arguments.pci}))
        told = _remember(arguments, setup.Setup(slots, settings))
    show(
        SetupResult(
            changed=tuple(change.path for change in needed),
            unchanged=tuple(change.path for change in changes if not change.needed),
            warnings=tuple(change.warning for change in changes if change.warning),
            reload=reload,
            told=tuple(each.pid for each in told),
            applied=not arguments.dry_run and not arguments.check,
        ),
        arguments.format,
    )
    return 1 if arguments.check and needed else 0


def _settings(arguments: argparse.Namespace) -> HookSettings | None:
    """What the hook is to say; None where none is wanted or libvirt is not installed."""
    if arguments.no_gate or not defencefacts.libvirt_installed(Host(arguments.root)):
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


def _remember(arguments: argparse.Namespace, made: setup.Setup) -> tuple[setup.Told, ...]:
    """Writes down what was done, and tells running daemons where they may not know of the hook."""
    root: Path = arguments.root
    state_dir = root / str(arguments.state_dir).lstrip("/")
    try:
        before = setup.load(state_dir)
    except BadInputError:
        before = None  # damaged: this run writes it anew
    made = replace(made, told=() if before is None else before.told)
    told: tuple[setup.Told, ...] = ()
    if made.hook is not None and root == Path("/"):
        seen = defencefacts.look_at_libvirt(Host(root), arguments.run_dir, made)
        if defences.loaded(seen).standing is not Standing.PRESENT:
            told = setup.tell(Host(root))
            # Those that are told now are all that run.
            made = replace(made, told=told)
    if made != before:
        setup.save(state_dir, made)
    return told
