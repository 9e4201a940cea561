"""Host metadata: text by type that a host leaves in a drive (features 7Dh, 7Eh, 7Fh; Base 2.0,
5.27.1.23). What it holds, and which commands make it hold something else. Without I/O.

The data structure is a count, a reserved byte, and elements: type, revision, length
of two bytes, value.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eraser.errors import DriveError
from eraser.protocol.profile import FEATURE_DATA_BYTES

ENHANCED = 0x7D
"""Enhanced Controller Metadata: the one that may hold several elements of a type."""
CONTROLLER = 0x7E
NAMESPACE = 0x7F

_HEADER, _ELEMENT = 2, 4
"""Bytes before the first element, and of an element before its value."""

_ADD_OR_REPLACE, _DELETE, _ADD = 0b00 << 13, 0b01 << 13, 0b10 << 13
"""Element Action, dword 11 bits 14:13. The first is invalid for 7Dh, the last for the others."""


@dataclass(frozen=True, order=True)
class Element:
    """One metadata element descriptor."""

    kind: int
    revision: int
    value: bytes


@dataclass(frozen=True)
class SetFeature:
    """Dword 11 and the data of one Set Features, with words for the report."""

    cdw11: int
    data: bytes
    note: str


def parse(raw: bytes) -> tuple[Element, ...]:
    """The elements. Raises :class:`DriveError` for what is none of the kind: also for bytes behind
    the last element, because text can hide there."""
    if len(raw) != FEATURE_DATA_BYTES:
        raise DriveError(f"host metadata: expected {FEATURE_DATA_BYTES} bytes, found {len(raw)}")
    found, at = list[Element](), _HEADER
    for _ in range(raw[0]):
        value = at + _ELEMENT
        end = value + int.from_bytes(raw[at + 2 : value], "little")
        if end > len(raw):
            raise DriveError(f"host metadata: expected {raw[0]} elements, found {len(found)}")
        found.append(Element(raw[at], raw[at + 1], raw[value:end]))
        at = end
    # The reserved byte can hide something, too.
    if raw[1] or any(raw[at:]):
        raise DriveError("host metadata: expected nothing behind the last element, found data")
    return tuple(found)


def build(elements: tuple[Element, ...]) -> bytes:
    """The data structure of these elements; of types that are to go, their values being empty."""
    body = b"".join(
        bytes((each.kind, each.revision)) + len(each.value).to_bytes(2, "little") + each.value
        for each in elements
    )
    return (bytes((len(elements), 0)) + body).ljust(FEATURE_DATA_BYTES, b"\0")


def in_order(raw: bytes) -> bytes:
    """The same elements in an order that does not depend on who wrote them when; anything else as
    it is, so that none of it goes unseen."""
    try:
        return build(tuple(sorted(parse(raw))))
    except DriveError:
        return raw


def changes(fid: int, wanted: bytes, found: bytes) -> tuple[SetFeature, ...]:
    """What makes ``wanted`` of ``found``, one element in each command: what a drive refuses is
    named, and keeps it from none of the others. Raises :class:`DriveError` as :func:`parse`."""
    return tuple(_changes(fid, parse(wanted), parse(found)))


def _changes(
    fid: int, wanted: tuple[Element, ...], found: tuple[Element, ...]
) -> Iterator[SetFeature]:
    add, verb = (_ADD, "add") if fid == ENHANCED else (_ADD_OR_REPLACE, "set")
    for kind in sorted({each.kind for each in (*wanted, *found)}):
        # Compared by type: what is as wanted is not touched, so a run that was killed has less to
        # do.
        here = sorted(each for each in found if each.kind == kind)
        there = sorted(each for each in wanted if each.kind == kind)
        if here == there:
            continue
        # Of 7Eh and 7Fh a type is replaced at once: a kill between leaves the one or the other.
        if here and (fid == ENHANCED or not there):
            gone = Element(kind, here[0].revision, b"")
            yield SetFeature(
                _DELETE, build((gone,)), f"feature {fid:#04x}: delete type {kind:#04x}"
            )
        for each in there:
            yield SetFeature(add, build((each,)), f"feature {fid:#04x}: {verb} type {kind:#04x}")


def types(raw: bytes) -> str:
    """The types that are there, for people."""
    try:
        kinds = sorted({each.kind for each in parse(raw)})
    except DriveError:
        return "in no form that can be read"
    return f"types {', '.join(f'{kind:#04x}' for kind in kinds)}" if kinds else "nothing"
