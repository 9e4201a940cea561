"""One verb of the command line: its words, its arguments, what it does."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass
from typing import NoReturn

from eraser.protocol.identity import Slot
from quarantine.errors import BadInputError
from quarantine.record.facts import SlotRecord
from quarantine.service.container import Assembly

Run = Callable[[Assembly, argparse.Namespace], int]


class Parser(argparse.ArgumentParser):
    """An argparse parser whose errors are one line, like all others of this program."""

    def error(self, message: str) -> NoReturn:
        raise BadInputError(f"{message}; see {self.prog} --help")


def nothing(parser: argparse.ArgumentParser) -> None:
    """For verbs without arguments."""


@dataclass(frozen=True)
class Verb:
    """``words`` is ``slots`` or ``host register``."""

    words: str
    help: str
    run: Run
    configure: Callable[[argparse.ArgumentParser], None] = nothing
    formatted: bool = True
    """Takes ``-f json|table``."""


def slot(text: str) -> Slot:
    """HOST/PCI-ADDRESS from the command line. Raises :class:`BadInputError`."""
    try:
        return Slot.parse(text)
    except ValueError as error:
        raise BadInputError(f"slot: {error}; write HOST/0000:01:00.0") from error


def known(assembly: Assembly, text: str) -> SlotRecord:
    """The record of an enrolled slot. Raises :class:`BadInputError`."""
    record = assembly.store.slot(slot(text))
    if record is None:
        raise BadInputError(
            f"{text}: expected an enrolled slot; 'nvme-quarantine slots' lists them"
        )
    return record


def slot_argument(parser: argparse.ArgumentParser) -> None:
    """The positional SLOT."""
    parser.add_argument("slot", metavar="SLOT", help="HOST/PCI-ADDRESS, as in cmp1/0000:01:00.0")
