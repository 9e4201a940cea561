"""``nvme-quarantine``: the control plane's commands, from one table of verbs."""

from __future__ import annotations

import argparse
import importlib
import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from eraser.protocol.errors import EraserError
from quarantine import VERSION
from quarantine.cli.command import Parser, Verb

_GROUPS = (
    "quarantine.cli.service",
    "quarantine.cli.slots",
    "quarantine.cli.enrol",
    "quarantine.cli.people",
    "quarantine.cli.certificates",
    "quarantine.cli.ledger",
    "quarantine.cli.upgrade",
    "quarantine.cli.flavors",
    "quarantine.cli.broker",
)

_GROUP_HELP = {
    "broker": "the accounts of Redis",
    "certificate": "list, show, print, export and verify certificates; those of a server's drives",
    "db": "the record's schema",
    "host": "register, list, show and remove compute hosts",
    "policy": "approve, list and show how drives are erased",
    "profile": "approve, list and show what drives must look like",
}

EXIT_CODES = """\
exit codes:
  0    done
  1    another error
  2    malformed option, file or configuration; nothing was changed
  3    somebody else changed the record first; look again
  4    not possible from the slot's present state
  5    a message was refused
  6    Placement, the broker or the database does not answer
  7    a certificate or the chain of certificates does not hold
  130  interrupted
"""


def verbs() -> Iterator[Verb]:
    """Every verb, in the order of the help."""
    for name in _GROUPS:
        yield from importlib.import_module(name).VERBS


def parser() -> argparse.ArgumentParser:
    """The whole command line."""
    top = Parser(
        prog="nvme-quarantine",
        description="Quarantine, erase, verify and certify NVMe drives between tenants.",
        epilog=EXIT_CODES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"%(prog)s {VERSION}")
    top.add_argument(
        "--config-file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help="repeatable, later ones win; default: /etc/nvme-quarantine/nvme-quarantine.conf",
    )
    level = top.add_subparsers(metavar="VERB", required=True)
    groups: dict[str, argparse._SubParsersAction[Parser]] = {}
    for verb in verbs():
        group, _, name = verb.words.rpartition(" ")
        if group and group not in groups:
            inner = level.add_parser(group, help=_GROUP_HELP[group])
            groups[group] = inner.add_subparsers(metavar="VERB", required=True)
        added = (groups[group] if group else level).add_parser(
            name,
            help=verb.help,
            description=verb.help,
            epilog=EXIT_CODES,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        verb.configure(added)
        if verb.formatted:
            added.add_argument(
                "-f", "--format", choices=("table", "json"), default="table", help="output"
            )
        added.set_defaults(run=verb.run)
    return top


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs one command; returns its exit code."""
    from quarantine.cli.output import warn
    from quarantine.errors import QuarantineError
    from quarantine.service.container import Assembly

    try:
        args = parser().parse_args(arguments)
        code: int = args.run(Assembly(args.config_file), args)
        sys.stdout.flush()
        return code
    except (QuarantineError, EraserError) as error:
        warn(str(error))
        return error.exit_code
    except KeyboardInterrupt:
        return 130
    except BrokenPipeError:
        # The reader went away (as head does): not worth a word, but stdout must not complain later.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


if __name__ == "__main__":
    raise SystemExit(main())
