"""What is put on a drive, or noted about it, before an erase, and must be gone after it.

Reading back tells what a drive answers now. Only a probe tells that this is not what it would
have answered before: canaries are blocks that we wrote, fingerprints are keyed hashes of what the
last owner left. Keys are secret until the case ends, so nobody can forge or look for a probe.
"""

from __future__ import annotations

import bisect
import hashlib
import hmac
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from eraser.errors import BadInputError, DriveError
from eraser.proof import probefile
from eraser.proof.blocks import block_length
from eraser.proof.classify import classify
from eraser.proof.reader import Device
from eraser.proof.sampling import places

KEY_BYTES = 32
_SECTOR = 512
_MARK = 16
_GIVE_UP_AFTER = 16
"""Failed writes in a row: the namespace does not take writes at all."""

Tick = Callable[[float, str], None]
"""Called now and then with the fraction done (0 to 1) and a few words."""


def _check_key(key: bytes) -> bytes:
    if len(key) != KEY_BYTES:
        raise BadInputError(f"probe key: expected {KEY_BYTES} bytes, found {len(key)}")
    return key


@dataclass(frozen=True)
class Planted:
    """How planting went: written and read back, or not, and the first reason why not."""

    planted: int
    failed: int
    reason: str = ""
    void: tuple[int, ...] = ()
    """The blocks that hold no canary; hand them to :class:`Canaries` when it is made again."""


class Canaries:
    """Blocks with content that nobody else can know, at places that nobody else can know.

    ``key`` is :data:`KEY_BYTES` secret bytes, ``blocks`` the namespace's blocks of 4 KiB. The
    first and last block are always among ``positions``; with a ``count`` of 0 there are none.
    ``void`` are places where planting failed: no probes.
    """

    def __init__(
        self, key: bytes, nsid: int, blocks: int, count: int, *, void: Iterable[int] = ()
    ) -> None:
        self._key = _check_key(key)
        self.nsid = nsid
        self.blocks = blocks
        self.positions = places(self._derive(b"places"), blocks, count)
        """The blocks with a canary, ascending."""
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

    def plant(self, device: Device, progress: Tick | None = None) -> Planted:
        """Write every canary, each on the medium when its write returns, then read them all back.

        One that cannot be written, or does not read back as written, is void and counted as
        failed. Never raises for a drive that refuses: a probe that is missing is a finding.
        """
        written: list[int] = []
        void: list[int] = []
        in_a_row, reason = 0, ""
        for done, index in enumerate(self.positions):
            if in_a_row >= _GIVE_UP_AFTER:
                void.append(index)
                continue
            try:
                device.write_block(index, self.content(index)[: block_length(index, device.size)])
            except DriveError as error:
                void.append(index)
                in_a_row, reason = in_a_row + 1, reason or str(error)
            else:
                in_a_row = 0
                written.append(index)
            if progress and done % 64 == 0:
                progress(0.9 * done / len(self.positions), f"canary {done}")
        for index, block in device.read_blocks(written):
            if block is None or bytes(block) != self.content(index)[: len(block)]:
                void.append(index)
                reason = reason or (
                    f"{device.path}: expected block {index} to read back as it was written, found"
                    f" {'other content' if block is not None else 'a read error'}"
                )
        self._drop(void)
        if progress:
            progress(1.0, f"{len(self.positions)} canaries")
        return Planted(len(self.positions), len(void), reason, tuple(sorted(void)))

    def is_planted_at(self, index: int) -> bool:
        """Is ``index`` one of the places of this key?"""
        return index in self._at

    def is_canary(self, index: int, block: memoryview | bytes) -> bool:
        """Does ``block``, read at ``index``, still hold any sector of the canary meant for it,
        or of another one?"""
        if self.is_any_canary(block):
            return True
        if index not in self._at:
            return False
        data, whole = bytes(block), self.content(index)
        return any(
            data[at + _MARK : at + _SECTOR] == whole[at + _MARK : at + _SECTOR]
            for at in range(0, len(data), _SECTOR)
        )

    def is_any_canary(self, block: memoryview | bytes) -> bool:
        """Is the mark of this key anywhere in ``block``, at whatever offset?"""
        return self._mark in bytes(block)


class Fingerprints:
    """Keyed hashes of what stood on a namespace before the erase. No byte of it is kept.

    Only blocks that are neither uniform nor a pattern count: others may honestly read the same
    afterwards. ``looked`` random blocks were looked at and ``len(self)`` of them count. With more
    than ``cap`` every second one is dropped, again and again: what stays is spread evenly, and
    ``stride`` says that one of so many was kept.
    """

    def __init__(self, key: bytes, nsid: int, *, cap: int = 131072) -> None:
        self._key = _check_key(key)
        self.nsid = nsid
        self.cap = max(2, cap)
        self.looked = 0
        self.unreadable = 0
        self.stride = 1
        self._seen = 0
        self._indexes: array[int] = array("Q")
        self._digests = bytearray()

    def __len__(self) -> int:
        return len(self._indexes)

    @property
    def positions(self) -> array[int]:
        """The blocks with a fingerprint, ascending."""
        return self._indexes

    @property
    def compared(self) -> int:
        """Of the blocks looked at, as many as these fingerprints speak for."""
        return self.looked // self.stride

    def take(self, device: Device, positions: Iterable[int], progress: Tick | None = None) -> None:
        """Look at ``positions`` (ascending; ``range(device.blocks)`` for all) before the erase."""
        for index, block in device.read_blocks(positions):
            if block is None:
                self.unreadable += 1
            else:
                self.looked += 1
                if not classify(block).uniform:
                    self._add(index, block)
            if progress and self.looked % 4096 == 0:
                progress(index / device.blocks, f"{len(self)} fingerprints")
        if progress:
            progress(1.0, f"{len(self)} fingerprints")

    def _add(self, index: int, block: memoryview) -> None:
        if self._indexes and index <= self._indexes[-1]:
            raise ValueError(f"expected ascending blocks, found {index} after {self._indexes[-1]}")
        if self._seen % self.stride == 0:
            if len(self._indexes) == self.cap:
                self._thin()
            if self._seen % self.stride == 0:
                self._indexes.append(index)
                self._digests += self._digest(index, block)
        self._seen += 1

    def _thin(self) -> None:
        self.stride *= 2
        self._indexes = self._indexes[::2]
        old = self._digests
        self._digests = bytearray(b"".join(old[at : at + 16] for at in range(0, len(old), 32)))

    def _digest(self, index: int, block: memoryview | bytes) -> bytes:
        salt = index.to_bytes(8, "big") + self.nsid.to_bytes(4, "big")
        return hashlib.blake2b(block, digest_size=16, key=self._key, salt=salt).digest()

    def has(self, index: int) -> bool:
        """Was a fingerprint kept of this block?"""
        at = bisect.bisect_left(self._indexes, index)
        return at < len(self._indexes) and self._indexes[at] == index

    def unchanged(self, index: int, block: memoryview | bytes) -> bool:
        """Does this block still hold what it held before the erase?"""
        at = bisect.bisect_left(self._indexes, index)
        if at >= len(self._indexes) or self._indexes[at] != index:
            return False
        return self._digests[16 * at : 16 * at + 16] == self._digest(index, block)

    def dump(self) -> bytes:
        """The bytes that :func:`eraser.proof.probefile.save` writes."""
        head = array("Q", [self.nsid, self.cap, self.looked, self.unreadable, self.stride])
        head.extend([self._seen, len(self._indexes)])
        return head.tobytes() + self._indexes.tobytes() + bytes(self._digests)

    def save(self, path: str) -> None:
        """Write a file that survives a power cut on return (fsync; replaced in one step)."""
        probefile.save(path, self._key, self.dump())

    @classmethod
    def load(cls, path: str, key: bytes) -> Fingerprints:
        """Raises :class:`BadInputError` where the file is damaged or was made with another key."""
        return cls.undump(probefile.load(path, _check_key(key)), key, path)

    @classmethod
    def undump(cls, raw: bytes, key: bytes, what: str) -> Fingerprints:
        """The reverse of :meth:`dump`."""
        head: array[int] = array("Q")
        if len(raw) < 56:
            raise BadInputError(f"{what}: expected fingerprints, found {len(raw)} bytes")
        head.frombytes(raw[:56])
        nsid, cap, looked, unreadable, stride, seen, count = head
        if len(raw) != 56 + 24 * count:
            raise BadInputError(f"{what}: expected {count} fingerprints, found {len(raw)} bytes")
        made = cls(key, nsid, cap=cap)
        made.looked, made.unreadable, made.stride, made._seen = looked, unreadable, stride, seen
        made._indexes.frombytes(raw[56 : 56 + 8 * count])
        made._digests = bytearray(raw[56 + 8 * count :])
        return made
