"""Host metadata: parsed from bytes as libnvme's structures have them, changed by elements."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.drive import hostmetadata
from eraser.drive.hostmetadata import Element
from eraser.errors import DriveError
from tests.lab.nvme import hostmetadata as lab
from tests.lab.nvme.spec import Fid

EMPTY = bytes(4096)
OS_NAME = b"\x01\x00\x0a\x00\x0b\x00Linux 6.1.0"
"""ndesc, reserved; type, rev, len (``struct nvme_metadata_element_desc`` of libnvme 1.x), val."""


def test_a_structure_as_libnvme_has_it() -> None:
    raw = OS_NAME.ljust(4096, b"\0")
    assert hostmetadata.parse(raw) == (Element(10, 0, b"Linux 6.1.0"),)
    assert hostmetadata.build((Element(10, 0, b"Linux 6.1.0"),)) == raw
    assert hostmetadata.types(raw) == "types 0x0a"
    assert hostmetadata.types(EMPTY) == "nothing"


@pytest.mark.parametrize(
    "raw",
    [
        OS_NAME,
        b"\x00\x00hidden behind nothing".ljust(4096, b"\0"),
        (OS_NAME + bytes(9) + b"x").ljust(4096, b"\0"),
        b"\x01\x01\x0a\x00\x00\x00".ljust(4096, b"\0"),
        b"\x02\x00\x0a\x00\xff\x0f".ljust(4096, b"\0"),
        b"\xff".ljust(4096, b"\0")[:-1] + b"\x01",
    ],
)
def test_what_is_none_of_the_kind_is_shown_as_it_is(raw: bytes) -> None:
    with pytest.raises(DriveError, match="host metadata: expected"):
        hostmetadata.parse(raw)
    assert hostmetadata.in_order(raw) == raw, "no text goes unseen"


ELEMENTS = st.lists(
    st.tuples(st.integers(1, 31), st.integers(0, 3), st.binary(min_size=1, max_size=9)), max_size=9
)


@given(ELEMENTS, ELEMENTS, st.sampled_from([0x7D, 0x7E, 0x7F]))
def test_the_commands_make_the_one_of_the_other(
    wanted: list[lab.Element], found: list[lab.Element], fid: int
) -> None:
    """By the rules of the lab's drive, which refuses an action that is not the feature's."""
    if fid != 0x7D:
        wanted, found = ([*{e[0]: e for e in each}.values()] for each in (wanted, found))
    now, goal = lab.pack(found), lab.pack(wanted)
    changes = hostmetadata.changes(fid, goal, now)
    for change in changes:
        assert change.data[0] == 1, "one element in each"
        now = lab.act(Fid(fid), change.cdw11, change.data, now)
    assert hostmetadata.in_order(now) == hostmetadata.in_order(goal)
    assert bool(changes) == (sorted(wanted) != sorted(found))


def test_a_type_is_replaced_at_once_where_that_can_be() -> None:
    """A kill between deleting and adding leaves neither; the next case would begin with none."""
    old, new = lab.pack([(1, 0, b"old")]), lab.pack([(1, 0, b"new")])
    assert [change.cdw11 >> 13 for change in hostmetadata.changes(0x7E, new, old)] == [0]
    assert [change.cdw11 >> 13 for change in hostmetadata.changes(0x7D, new, old)] == [1, 2]


def test_only_a_count_is_not_an_element() -> None:
    raw = struct.pack("<BB", 3, 0).ljust(4096, b"\0")
    assert [e.kind for e in hostmetadata.parse(raw)] == [0, 0, 0]
