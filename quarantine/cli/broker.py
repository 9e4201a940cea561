"""The verb that makes the broker's accounts."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from quarantine.cli.command import Verb
from quarantine.service.container import Assembly
from quarantine.service.issue import brokeracl

DEFAULT_PASSWORDS = Path("/etc/nvme-quarantine/broker-passwords.json")


def _acl(assembly: Assembly, args: argparse.Namespace) -> int:
    hosts = sorted({*assembly.store.host_names(), *args.host})
    text = brokeracl.render(hosts, brokeracl.passwords(args.passwords, hosts))
    sys.stdout.write(text)
    return 0


def _arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--host",
        action="append",
        default=[],
        metavar="NAME",
        help="a host that is not registered yet, beside those that are; repeatable",
    )
    parser.add_argument(
        "--passwords",
        type=Path,
        default=DEFAULT_PASSWORDS,
        metavar="FILE",
        help="the accounts' passwords; those that are missing are made (default: %(default)s)",
    )


VERBS = (
    Verb(
        "broker acl",
        "print the accounts of Redis for its aclfile: one for each host, one for this program",
        _acl,
        _arguments,
        formatted=False,
    ),
)
