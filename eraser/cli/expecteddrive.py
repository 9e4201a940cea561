"""Which drive is meant: whoever erases by hand says so, and any other one is refused."""

from __future__ import annotations

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

from eraser.cli.output import read_file
from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.protocol.identity import ControllerIdentity


@dataclass(frozen=True)
class ExpectedDrive:
    """The drive that is expected in the slot; both empty: whichever is there."""

    serial: str = ""
    identity: ControllerIdentity | None = None


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options, one of which a script must give."""
    which = parser.add_mutually_exclusive_group()
    which.add_argument(
        "--serial",
        metavar="SERIAL",
        help="refuse a drive with another serial number (inspect prints it); without this and the "
        "two below a terminal asks for it, and a script is refused",
    )
    which.add_argument(
        "--identity",
        type=Path,
        metavar="FILE",
        help="refuse any drive but this one, also one with the same serial number (inspect "
        "--save-identity); where drives of several makers are erased by one list",
    )
    which.add_argument(
        "--any-drive",
        action="store_true",
        help="erase whichever drive is in the slot; only where nothing but drives to be erased is "
        "ever put there",
    )


def chosen(arguments: argparse.Namespace, address: str) -> ExpectedDrive:
    """From the options, or from whoever sits at the terminal. Raises :class:`BadInputError`."""
    if arguments.any_drive:
        return ExpectedDrive()
    if arguments.identity is not None:
        text = read_file(arguments.identity, "identity")
        return ExpectedDrive(identity=codec.load(ControllerIdentity, text, "identity"))
    serial = arguments.serial
    # The question goes to stderr: stdout has the result alone.
    if serial is None and sys.stdin.isatty():
        print(f"serial number of the drive at {address}: ", end="", file=sys.stderr, flush=True)
        serial = sys.stdin.readline()
    if serial is None or not serial.strip():
        raise BadInputError(
            f"expected to be told which drive at {address} is meant, found nothing; give --serial "
            "or --identity ('nvme-eraser inspect' shows both), or --any-drive"
        )
    return ExpectedDrive(serial=serial.strip())
