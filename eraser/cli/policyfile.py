"""The policy of one who works by hand: a file, or the built-in one."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from eraser.cli.output import printable, read_file
from eraser.protocol import codec
from eraser.protocol.policy import NIST_IS_FULL, Policy, VerificationMode


def add_argument(parser: argparse.ArgumentParser, text: str) -> None:
    """The option."""
    parser.add_argument("--policy", type=Path, metavar="FILE", help=text)


def policy(arguments: argparse.Namespace) -> Policy:
    """The given one, else the built-in one. Raises :class:`eraser.errors.BadInputError`."""
    if arguments.policy is None:
        return Policy()
    return codec.load(Policy, read_file(arguments.policy, "policy"), "policy")


def tell(given: Policy) -> None:
    """Says on stderr what is done in place of what the policy asks for."""
    if given.verification.mode is VerificationMode.NIST:
        name = printable(given.name)
        print(f"nvme-eraser: policy '{name}' asks for {NIST_IS_FULL}", file=sys.stderr)
