"""Host metadata of the drive model: elements by type (Base 2.0, 5.27.1.23).

A set of elements is a list of (type, revision, text) as they came; no set is longer than 4 KiB.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable

from tests.lab.nvme.spec import Fid

SIZE = 4096
_ADD_OR_REPLACE, _DELETE, _ADD = range(3)
_TYPES = range(0x01, 0x20)

Element = tuple[int, int, bytes]


def pack(elements: Iterable[Element]) -> bytes:
    """The data structure. Raises ValueError where it is too long."""
    listed = list(elements)
    raw = bytes([len(listed), 0]) + b"".join(
        struct.pack("<BBH", kind, revision, len(text)) + text for kind, revision, text in listed
    )
    if len(raw) > SIZE:
        raise ValueError(f"host metadata of {len(raw)} bytes should fit into {SIZE}")
    return raw.ljust(SIZE, b"\0")


def unpack(raw: bytes) -> list[Element]:
    """The elements. Raises ValueError or struct.error for anything else."""
    elements, at = [], 2
    for _ in range(raw[0]):
        kind, revision, length = struct.unpack_from("<BBH", raw, at)
        if kind not in _TYPES or at + 4 + length > SIZE:
            raise ValueError(f"element type {kind:#x} of {length} bytes should be one")
        elements.append((kind, revision, raw[at + 4 : at + 4 + length]))
        at += 4 + length
    return elements


def act(fid: Fid, cdw11: int, asked: bytes, present: bytes) -> bytes:
    """What Set Features makes of what is there. Raises ValueError for an invalid field."""
    action, elements = cdw11 >> 13 & 3, unpack(asked)
    many = fid == Fid.ENHANCED_CONTROLLER_METADATA
    kinds = [kind for kind, _revision, _text in elements]
    if action not in (_DELETE, _ADD if many else _ADD_OR_REPLACE):
        raise ValueError(f"element action {action} is not one of feature {fid:#x}")
    if action == _DELETE and any(text for _kind, _revision, text in elements):
        raise ValueError("an element that is to go should have no value")
    if action == _ADD_OR_REPLACE and len(set(kinds)) < len(kinds):
        raise ValueError("one element of each type")
    kept = unpack(present or bytes(SIZE))
    if action != _ADD:
        kept = [element for element in kept if element[0] not in kinds]
    return pack(kept if action == _DELETE else [*kept, *elements])
