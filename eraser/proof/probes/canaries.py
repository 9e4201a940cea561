"""Blocks that we wrote, that nobody else can know, and that must be gone after an erase."""

from __future__ import annotations

import ctypes
import hashlib
import hmac
from array import array
from collections.abc import Iterable
from dataclasses import dataclass

from eraser.errors import DriveError
from eraser.media.blocks import block_length
from eraser.media.reader import BlockDevice, Tick
from eraser.proof.probes.probefile import check_key
from eraser.proof.sampling import places

_SECTOR = 512
_MARK = 16
SMALL = 8
"""One canary in so many is written sector by sector: a drive may keep what is less than its mapping
unit (mostly 4 KiB) elsewhere, and erase it otherwise."""
_GIVE_UP_AFTER = 16
"""Failed writes in a row: the namespace does not take writes at all."""


@dataclass(frozen=True)
class Planting:
    """How planting went: written and read back, or not, and the first reason why not."""

    planted: int
    failed: int
    reason: str = ""
    void: tuple[int, ...] = ()
    """The blocks that hold no canary; hand them to :class:`Canaries` when it is made again."""
    dropped: int = 0
    """Of these, writes that the drive called done, and that read back otherwise."""


class Canaries:
    """Blocks with content that nobody else can know, at places that nobody else can know.

    ``key`` is :data:`KEY_BYTES` secret bytes, ``blocks`` the namespace's blocks of 4 KiB. The
    first and last block are always among ``positions``; with a ``count`` of 0 there are none.
    ``void`` are places where planting failed: no probes.
    """

    def __init__(
        self, key: bytes, nsid: int, blocks: int, count: int, *, void: Iterable[int] = ()
    ) -> None:
        self._key = check_key(key)
        self.nsid = nsid
        self.blocks = blocks
        self.count = count
        """Places that were asked for; rounding, the first and the last block make it more."""
        self.positions = places(self._derive(b"places"), blocks, count)
        """The blocks with a canary, ascending."""
        # A place that both draws have stays a canary: these are counted, the others are not.
        others = places(self._derive(b"deallocated"), blocks, count // SMALL)
        self.deallocated = array("Q", sorted({*others} - {*self.positions}))
        """Blocks whose canary is deallocated again before the erase, ascending. They are looked at
        like the others and counted nowhere: that they are gone is not the erase's doing."""
        self._at: frozenset[int] = frozenset()
        self._drop(void)
        self._mark = self._derive(b"mark")[:_MARK]

    def _drop(self, void: Iterable[int]) -> None:
        gone = frozenset(void)
        self.positions = array("Q", [n for n in self.positions if n not in gone])
        self._at = frozenset(self.positions)

    def _derive(self, use: bytes) -> bytes:
        # The mark is one per key, so that a canary is known in whichever namespace it turns up.
        where = b"" if use == b"mark" else self.nsid.to_bytes(4, "big")
        return hmac.digest(self._key, b"nvme-quarantine canary 1\0" + use + where, "sha256")

    def content(self, index: int) -> bytes:
        """The 4096 bytes of block ``index``: each sector of 512 is the mark, then its own noise."""
        where = self.nsid.to_bytes(4, "big") + index.to_bytes(8, "big")
        noise = hashlib.shake_256(self._key + b"canary" + where).digest(8 * (_SECTOR - _MARK))
        step = _SECTOR - _MARK
        return b"".join(self._mark + noise[at : at + step] for at in range(0, 8 * step, step))

    def plant(self, device: BlockDevice, progress: Tick | None = None) -> Planting:
        """Write every canary, each on the medium when its write returns, then read them all back.

        One that cannot be written, or does not read back as written, is void and counted as
        failed. Never raises for a drive that refuses: a probe that is missing is a finding.
        """
        written: list[int] = []
        void: list[int] = []
        in_a_row, reason = 0, ""
        for done, index in enumerate(self.positions):
            # Each refused write may cost the whole of the kernel's timeout.
            if in_a_row >= _GIVE_UP_AFTER:
                void.append(index)
                continue
            try:
                # The last block of a device may be short.
                data = self.content(index)[: block_length(index, device.size)]
                device.write_block(index, data, by_sector=done % SMALL == 1)
            except DriveError as error:
                void.append(index)
                in_a_row, reason = in_a_row + 1, reason or str(error)
            else:
                in_a_row = 0
                written.append(index)
            if progress and done % 64 == 0:
                progress(0.9 * done / len(self.positions), f"canary {done}")
        dropped = 0
        # After all of them: a write that is read back at once is answered from the drive's cache.
        for index, block in device.read_blocks(written):
            # What never stood on the drive cannot be gone from it: as a canary it would prove an
            # erase.
            if block is None or bytes(block) != self.content(index)[: len(block)]:
                void.append(index)
                dropped += block is not None
                reason = reason or (
                    f"{device.path}: expected block {index} to read back as it was written, found"
                    f" {'other content' if block is not None else 'a read error'}"
                )
        self._drop(void)
        if progress:
            progress(1.0, f"{len(self.positions)} canaries")
        return Planting(len(self.positions), len(void), reason, tuple(sorted(void)), dropped)

    def plant_deallocated(self, device: BlockDevice) -> tuple[int, ...]:
        """Writes those that are to be deallocated, and returns which: the caller does it.

        A drive that refuses them has said so of the others before.
        """
        written: list[int] = []
        for index in self.deallocated:
            data = self.content(index)[: block_length(index, device.size)]
            try:
                device.write_block(index, data, by_sector=False)
            except DriveError:
                break
            written.append(index)
        return tuple(written)

    def is_planted_at(self, index: int) -> bool:
        """Is ``index`` one of the places of this key?"""
        return index in self._at

    def is_canary(self, index: int, block: memoryview | bytes) -> bool:
        """Does ``block``, read at ``index``, still hold any sector of the canary meant for it,
        or of another one?"""
        if self.is_any_canary(block):
            return True
        # Without the mark there is no telling whose sector it is, so only the place's own content
        # counts.
        if index not in self._at:
            return False
        data, whole = bytes(block), self.content(index)
        # Any sector: a drive that erases less than a block leaves a piece of a canary.
        return any(
            data[at + _MARK : at + _SECTOR] == whole[at + _MARK : at + _SECTOR]
            for at in range(0, len(data), _SECTOR)
        )

    def marked(self, window: memoryview) -> bool:
        """Is the mark of this key anywhere in ``window``? Writable memory (an mmap): no copy.

        Of what ``bytes`` has for it, all take three to four times as long."""
        base = ctypes.addressof(ctypes.c_char.from_buffer(window))
        return bool(_memmem(base, len(window), self._mark, len(self._mark)))

    def is_any_canary(self, block: memoryview | bytes) -> bool:
        """Is the mark of this key anywhere in ``block``, at whatever offset?"""
        return self._mark in bytes(block)


_memmem = ctypes.CDLL(None).memmem
_memmem.restype = ctypes.c_void_p
_memmem.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_char_p, ctypes.c_size_t)
