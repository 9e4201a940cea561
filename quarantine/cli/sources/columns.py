"""Dataclasses as the columns and members that a source gives, and the words that name a slot."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import fields
from typing import Any, Final

from eraser.protocol.identity import Slot
from quarantine.cli.output import warn
from quarantine.cli.sources.source import Columns, Members
from quarantine.errors import BadInputError

DAMAGED: Final = "damaged"
"""The member of a line that names what of its row cannot be read."""


def rows_of(kind: type[Any], found: Iterable[Any]) -> Columns:
    """The fields of dataclasses as columns; what of a row is damaged is said on stderr."""
    names = [field.name for field in fields(kind) if field.name != DAMAGED]
    return names, list(_rows(names, found))


def read_as_shown(kind: type[Any], found: Iterable[Any]) -> Columns:
    """The same, each row when it is wanted: of what grows with the years."""
    names = [field.name for field in fields(kind) if field.name != DAMAGED]
    return names, _rows(names, found)


def _rows(names: Sequence[str], found: Iterable[Any]) -> Iterator[Sequence[Any]]:
    for one in found:
        row = [getattr(one, name) for name in names]
        # The row first: what is wrong with it stands below it.
        yield row
        if columns := getattr(one, DAMAGED, ()):
            which = " ".join(str(value) for value in row[:3])
            warn(f"{', '.join(columns)} of this row cannot be read: {which}")


def place(host: Any, address: Any) -> Slot | str:
    """As our own; one that another release may have, or that is damaged, as it is."""
    try:
        return Slot(host, address)
    except (TypeError, ValueError):
        return f"{host}/{address}"


def members_of(one: Any) -> Members:
    """The fields of a dataclass."""
    names, (row,) = rows_of(type(one), [one])
    return names, row


def slot(words: str) -> Slot:
    """HOST/PCI-ADDRESS from the command line. Raises :class:`BadInputError`."""
    try:
        return Slot.parse(words)
    except ValueError as error:
        raise BadInputError(f"slot: {error}; write HOST/0000:01:00.0") from error
