"""The two superblocks, on bytes that mkfs.xfs and mdadm of Debian 12 wrote."""

from __future__ import annotations

import base64
import gzip
import struct
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from nvme_raid.model import Filesystem, Member
from nvme_raid.superblocks import MD_LENGTH, md_member, xfs

# mkfs.xfs 6.1.0 -K -L nvme -d su=512k,sw=2 -l su=32k, on 2 GiB.
_XFS = gzip.decompress(
    base64.b64decode(
        "H4sIAI0+AmsC/4twC3ZiYBBgAAP2Pwzo4M8WtyVmPxxvz1E/3u4+/6U4WJCFgYMByoDSjFCaCUgA2f8bgDRUjQPD1q"
        "VMDEAJjryy3FSYuTycnMxAWyUZYIogwBbijt0nGPADkNkNYKvAAGQdYxcEgwEvEHODGBfbUkOQHDoK0AAAiGthKQAC"
        "AAA="
    )
)

# The same program -K -L nvme on 2 GiB, killed at the last of its 65 writes.
_UNFINISHED = gzip.decompress(
    base64.b64decode(
        "H4sIAAAAAAACA4twC3ZiYBBgAAMOBgzw1eCQxBVTh44V5jyv/BIeqIMFWRjYoNINULoRSjcBMSMDE1QVGDgwbFnKBBLi"
        "yCvLTYWZy8PJySzIwCjJAFMEAbZgkn3/Awb8AN2ljEDUBcFgwAvE3CDGyV9tzgi3jAJ0AABBD9JbAAIAAA=="
    )
)

# mdadm 4.2 --create --level=0 --raid-devices=2 --chunk=512 --name=nvme --homehost=any: the second.
_MD = gzip.decompress(
    base64.b64decode(
        "H4sIAAAAAAACA/vjp72SkQEBVtSw7lf512UbfLhBV3bpl7uJeZVWeWW5qQw4gJUjUzaMjWwOAwsDAxMDEUAASn+Q"
        "B1McaNIwM2fyH517fx6LzKlknd1svVVnQCo50OwHgf9QEGe7LaOBGPuBNvwfwYBhFIyCUTAKRsEoGAWjYBSMglEw"
        "CkbBiAAAyJ6YhAAQAAA="
    )
)


def test_a_member_is_what_mdadm_made() -> None:
    assert md_member(_MD) == Member(
        # As mdadm --examine prints it.
        uuid="a87c05bf:24fe8a3d:53c3802d:1da5f4dd",
        name="any:nvme",
        level=0,
        devices=2,
        chunk=512 << 10,
        role=1,
    )
    assert md_member(_MD + bytes(4096)) == md_member(_MD)


@pytest.mark.parametrize("at", [0, 4, 16, 33, 72, 88, 92, 160, 216, 220, 258])
def test_a_member_with_one_changed_byte_is_none(at: int) -> None:
    damaged = bytearray(_MD)
    damaged[at] ^= 0x55

    assert md_member(bytes(damaged)) is None


def test_a_filesystem_is_what_mkfs_made() -> None:
    assert xfs(_XFS) == Filesystem(
        uuid="fcb446a4-36f8-41db-9c27-c787479fe917",
        label="nvme",
        stripe_unit=512 << 10,
        stripe_width=1 << 20,
        log_stripe_unit=32 << 10,
    )


def test_a_filesystem_that_mkfs_did_not_finish_says_so() -> None:
    found = xfs(_UNFINISHED)

    assert found is not None
    assert (found.label, found.unfinished) == ("nvme", True)
    whole = xfs(_XFS)
    assert whole is not None
    assert not whole.unfinished
    # As xfs_db's "write -d inprogress 0" has it.
    byte = bytearray(_UNFINISHED)
    byte[126] = 0
    assert xfs(bytes(byte)) == replace(found, unfinished=False)


def test_a_label_of_control_signs_is_made_harmless() -> None:
    hostile = bytearray(_XFS)
    hostile[108:120] = b"\x1b[2J\n\xff'; ls "

    found = xfs(bytes(hostile))

    assert found is not None
    assert found.label == "\\x1b[2J\\x0a\\xff'; ls "


@given(st.binary(max_size=2 * MD_LENGTH))
def test_bytes_of_anybody_are_never_an_error(data: bytes) -> None:
    assert md_member(data) is None or len(data) >= MD_LENGTH
    assert xfs(data) is None or data.startswith(b"XFSB")


@given(st.data())
def test_a_superblock_of_any_numbers_is_never_an_error(data: st.DataObject) -> None:
    changed = bytearray(_MD)
    for _ in range(data.draw(st.integers(1, 4))):
        struct.pack_into("<I", changed, data.draw(st.integers(4, 1020)), data.draw(_WORD))
    md_member(bytes(changed))
    sector = bytearray(_XFS)
    struct.pack_into(">I", sector, data.draw(st.integers(4, 500)), data.draw(_WORD))
    assert xfs(bytes(sector)) is not None


_WORD = st.one_of(st.integers(0, 300), st.integers(0, 0xFFFFFFFF))
