"""``nvme-eraser host-setup``: rules that keep this host from looking into tenants' drives."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from eraser import hostsetup
from eraser.cli_output import add_format, show


@dataclass(frozen=True)
class SetupResult:
    """What was (or would be) written, and what makes it count."""

    changed: tuple[str, ...]
    unchanged: tuple[str, ...]
    warnings: tuple[str, ...]
    reload: tuple[str, ...]
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
    parser.add_argument("--dry-run", action="store_true", help="show the changes only")
    parser.add_argument("--root", type=Path, default=Path("/"), metavar="DIR")
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Writes the rules; doing it twice changes nothing. Raises ``EraserError``."""
    changes = hostsetup.plan(arguments.pci, arguments.root)
    for change in changes:
        sys.stderr.write(change.diff())
    reload: tuple[str, ...] = ()
    if not arguments.dry_run:
        reload = hostsetup.apply(changes)
    show(
        SetupResult(
            changed=tuple(change.path for change in changes if change.needed),
            unchanged=tuple(change.path for change in changes if not change.needed),
            warnings=tuple(change.warning for change in changes if change.warning),
            reload=reload,
            applied=not arguments.dry_run,
        ),
        arguments.format,
    )
    return 0
