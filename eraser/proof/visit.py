"""A drive as its next tenant will use it: ways of asking that no sweep has. It only counts.

A verification reads upwards, in large pieces, by the block layer. What a drive answers to that need
not be what it answers to a guest, which resets it, writes before it reads, asks for single sectors,
jumps, asks twice. Each act is done on a sample of blocks whose former content is known.
docs/decisions/visit.md has the catalogue with its sources.
"""

from __future__ import annotations

import contextlib
import mmap
import random
from array import array
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from eraser.controller.passthru import STATUS_MASK, means_later
from eraser.host.sysfs import Host
from eraser.media.blocks import BLOCK
from eraser.media.iocommand import (
    COMPARE,
    DATASET_MANAGEMENT,
    FLUSH,
    FUA,
    LIMITED_RETRY,
    READ,
    WRITE,
    WRITE_ZEROES,
    Namespace,
)
from eraser.media.passread import Patience
from eraser.media.reader import BlockDevice
from eraser.proof.aftererase import UNTOLD, AfterErase
from eraser.proof.classify import BlockClass, classify
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.protocol.report import ActRecord

MIDDLE = 64 << 10
"""Bytes of a large read that one page of memory pointers describes."""
AHEAD = 256 << 10
"""Bytes that the kernel reads ahead for file systems and blkid (docs/first-acts.md)."""
LARGE = 500 << 10
"""Bytes of a large read at most. Memory that lies scattered fills a segment with each page, one
more where it begins within a page; the driver takes 127 (NVME_MAX_SEGS, drivers/nvme/host/pci.c).
"""
SECONDS = 120.0
"""Of one namespace's visit: a healthy drive takes a few. What is left undone then is said."""
SILENT = 3
"""Commands without any answer, after which a drive is asked nothing more here: each may cost the
kernel its time-out and a reset."""
_SWEEP = 16
"""Blocks of the sweep for each place of another act."""
_AGAIN = 5
_ODD = 3
"""Sectors, or blocks, of a read whose length is no power of two."""
_PROCESSORS = 8
"""I/O queues that are tried: the kernel gives each processor one."""
_HINTS = 0x45
"""Dword 13 of Read: asked for in a row, and often (NVM 1.0, figure 47: bits 6 and 3:0)."""
_COMPARE_FAILURE = 0x285


class _Drawn(random.Random):
    """Numbers made of a host's chance, as :class:`random.SystemRandom` makes them of this one's."""

    def __init__(self, chance: Callable[[int], bytes]) -> None:
        super().__init__(0)
        self._chance = chance

    def random(self) -> float:
        return (int.from_bytes(self._chance(7)) >> 3) * 2.0**-53

    def getrandbits(self, bits: int, /) -> int:
        return int.from_bytes(self._chance((bits + 7) // 8)) >> -bits % 8


class CutOffError(Exception):
    """The visit is over before its end, and why; what follows tells whether the drive is well."""


@dataclass
class _Count:
    done: int = 0
    refused: int = 0
    canaries: int = 0
    unchanged: int = 0
    structured: int = 0
    blocks: int = 0
    otherwise: int = 0


@dataclass
class Visitor:
    """Asks one namespace, at the blocks of 4 KiB in ``pool``.

    ``places`` is how many of them each act takes. ``large`` is the largest transfer in bytes, and
    ``left`` what the reading found; the default for no reading, and where we write.
    """

    device: BlockDevice
    namespace: Namespace
    patience: Patience
    canaries: Canaries | None
    fingerprints: Fingerprints | None
    pool: Sequence[int]
    places: int
    host: Host
    large: int = LARGE
    left: AfterErase = UNTOLD
    counts: dict[str, _Count] = field(default_factory=dict)
    seen: dict[str, set[int]] = field(default_factory=dict)
    """The blocks that each act was done with. Visitors that share it count each of them once."""
    undone: list[str] = field(default_factory=list)
    """What of it there was nothing to ask, and why."""
    _silent: int = 0

    def __post_init__(self) -> None:
        self.rng: random.Random = _Drawn(self.host.chance)
        self._deadline = self.host.clock.monotonic() + SECONDS
        whole = self.device.size // BLOCK
        # A short last block is left out: commands here are for whole blocks of 4 KiB.
        self.pool = array("Q", (block for block in self.pool if block < whole))
        self.sectors_per_block = BLOCK // self.namespace.block_bytes
        # Two pages, aligned, so that a read can begin in the middle of the first.
        self.two_pages = mmap.mmap(-1, 2 * BLOCK)

    def close(self) -> None:
        """Lets go of its memory."""
        self.two_pages.close()

    @property
    def acts(self) -> tuple[ActRecord, ...]:
        """What was done, in order, and what it showed."""
        return tuple(
            ActRecord(
                *(act, c.done, c.refused, c.canaries, c.unchanged, c.structured),
                *(c.blocks, c.otherwise),
            )
            for act, c in self.counts.items()
        )

    # What it does

    def read(self, when: str = "") -> None:
        """Every way of reading, each in a sample of its own. Raises :class:`CutOffError`."""
        for name, way in _WAYS:
            if why := self._nothing_to_ask(name, way):
                self._say(why)
                continue
            act = f"{name}{when}"
            count = self.counts.setdefault(act, _Count())
            blocks = self._sample(self.pool)
            # Within the block is not enough: read ahead of a drive follows the order of its
            # commands.
            if way is _backwards:
                blocks.sort(reverse=True)
            for block in blocks:
                for found in way(self, block):
                    self._look(count, block, found)
                    self._met(act, block, found is not None)
        if self.canaries is None:
            self._say("Compare: no canary stood there to compare with")
            return
        self._compare(self.canaries, f"Compare{when}")

    def write(self) -> None:
        """Every way of writing, each followed by a read of what lies there and beside it.

        Onto canaries alone, which are planted anew before the next method: what we write over is
        no witness of that one any more.
        """
        if self.canaries is None:
            self._say("writes: no canary stood there to write onto")
            return
        whole = self.device.size // BLOCK
        places = (*self.canaries.positions, *self.canaries.deallocated)
        canaries = array("Q", [n for n in places if n < whole])
        for name, act in _WRITES:
            most = len(canaries) // _SHARE.get(name, 1)
            if not most:
                self._say(f"{name}: {len(canaries)} canaries are too few to write over one")
                continue
            count = self.counts.setdefault(name, _Count())
            for block in self._sample(canaries, most):
                if not act(self, block):
                    count.refused += 1
                    continue
                # A drive that fills up its mapping unit from what lies beneath brings the
                # neighbours back.
                for near in (block, block - 1, block + 1):
                    if 0 <= near < whole:
                        found = self.read_block(near)
                        self._look(count, near, found)
                        # Neighbours are looked at, but the act was done with its own block alone.
                        self._met(name, near, near == block and found is not None)

    def sweep(self) -> None:
        """Many blocks of the pool by the block layer, in no order. Raises :class:`CutOffError`."""
        act = "random reads of 4 KiB"
        count = self.counts.setdefault(act, _Count())
        # In no order: the verification read upwards, and a drive may answer only that well.
        chosen = self.rng.sample(self.pool, min(_SWEEP * self.places, len(self.pool)))
        with contextlib.closing(self.device.read_blocks(chosen)) as blocks:
            for block, found in blocks:
                self._look(count, block, None if found is None else bytes(found))
                self._met(act, block, found is not None)
                # After the look: what was read counts.
                self._check_time()

    def _nothing_to_ask(self, name: str, way: Callable[[Visitor, int], _Found]) -> str:
        """Why there is no such read of this namespace, empty where there is. Nothing was refused
        then."""
        if way is _unaligned and self.sectors_per_block == 1:
            return f"{name} do not apply to sectors of {self.namespace.block_bytes:,} bytes"
        if way is _odd and self.sectors_per_block <= _ODD and not self._takes(_ODD):
            return f"{name}: {_ODD} blocks are more than it has, or than one command may carry"
        return ""

    def _takes(self, blocks: int) -> bool:
        return blocks * BLOCK <= min(self.large, self.device.size // BLOCK * BLOCK)

    def _say(self, why: str) -> None:
        if why not in self.undone:
            self.undone.append(why)

    def _sample(self, pool: Sequence[int], most: int | None = None) -> list[int]:
        """Places of a pool, the first and the last of the namespace among them; ``most`` of it
        beside these."""
        ends = [block for block in (0, self.device.size // BLOCK - 1) if block in pool]
        count = min(self.places, len(pool) if most is None else most)
        return [*ends, *self.rng.sample(pool, count)]

    def _look(self, count: _Count, block: int, found: bytes | None) -> None:
        if found is None:
            count.refused += 1
            return
        count.done += 1
        kind = classify(found)
        # Neither a canary nor a fingerprint is uniform, so nothing of ours can be hidden here.
        if kind.uniform:
            count.otherwise += not self.left.has(found, kind)
        elif self.canaries and self.canaries.is_canary(block, found):
            count.canaries += 1
        elif self.fingerprints and self.fingerprints.unchanged(block, found):
            count.unchanged += 1
        elif kind is BlockClass.STRUCTURED:
            count.structured += 1
        else:
            count.otherwise += not self.left.has(found, kind)

    def _met(self, act: str, block: int, answered: bool) -> None:
        """Counts a block that the act was done with, unless it is counted for it."""
        seen = self.seen.setdefault(act, set())
        self.counts[act].blocks += answered and block not in seen
        if answered:
            seen.add(block)

    def _compare(self, canaries: Canaries, act: str) -> None:
        """Tells a drive what was there, sector by sector, and asks whether it still is."""
        count = self.counts.setdefault(act, _Count())
        whole = self.device.size // BLOCK
        every = (*canaries.positions, *canaries.deallocated)
        places = [block for block in every if block < whole]
        for block in self.rng.sample(places, min(self.places, len(places))):
            content = memoryview(bytearray(canaries.content(block)))
            size, refused = self.namespace.block_bytes, count.refused
            for at in range(self.sectors_per_block):
                piece = content[at * size : (at + 1) * size]
                status = self.transfer(COMPARE, block * self.sectors_per_block + at, piece)
                # Compare Failure is the honest answer: a drive that compares with its old mapping
                # says success, although its reads show blanks.
                count.canaries += status == 0
                count.done += status in (0, _COMPARE_FAILURE)
                count.refused += status not in (0, _COMPARE_FAILURE)
            self._met(act, block, count.refused == refused)

    # Commands

    def transfer(
        self, opcode: int, first: int, content: memoryview, *, flags: int = 0, hints: int = 0
    ) -> int | None:
        """One Read, Write or Compare from sector ``first`` on; the arguments, and the status (SCT
        and SC, None without a completion), are those of :meth:`Namespace.transfer`.

        Raises :class:`CutOffError`.
        """
        return self._patient(
            lambda: self.namespace.transfer(
                self.device.descriptor, opcode, first, content, flags=flags, hints=hints
            )
        )

    def _patient(self, send: Callable[[], int | None]) -> int | None:
        self._check_time()
        while (status := send()) is not None and means_later(status) and self.patience.wait():
            pass
        # The kernel made that answer up, having given up the command: some such in a row are a
        # drive that is gone, and each takes the timeout of one command.
        if status is None:
            self._silent += 1
            if self._silent >= SILENT:
                raise CutOffError("it stopped answering")
            return None
        self._silent = 0
        return status & STATUS_MASK

    def _check_time(self) -> None:
        if self.host.clock.monotonic() > self._deadline:
            raise CutOffError(f"cut off after {SECONDS:g} s")

    def read_pieces(self, block: int, lengths: Sequence[int], **how: int) -> bytes | None:
        """The block of 4 KiB, read by one command for each of ``lengths`` (sectors).

        None where the drive refused one. Raises :class:`CutOffError`.
        """
        content, at, size = memoryview(bytearray(BLOCK)), 0, self.namespace.block_bytes
        for length in lengths:
            piece = content[at * size : (at + length) * size]
            if self.transfer(READ, block * self.sectors_per_block + at, piece, **how) != 0:
                return None
            at += length
        return bytes(content)

    def read_block(self, block: int, **how: int) -> bytes | None:
        """The block of 4 KiB, read by one command; None where the drive refused it."""
        return self.read_pieces(block, [self.sectors_per_block], **how)

    def send_range(self, opcode: int, block: int) -> bool:
        """Sends a command about one block that carries none of its data; whether it succeeded."""
        first, count = block * self.sectors_per_block, self.sectors_per_block
        fd, space = self.device.descriptor, self.namespace
        if opcode == DATASET_MANAGEMENT:
            return self._patient(lambda: space.deallocate(fd, ((first, count),))) == 0
        dwords = (first & 0xFFFFFFFF, first >> 32, count - 1, 0)
        if opcode == FLUSH:
            dwords = (0, 0, 0, 0)
        return self._patient(lambda: space.send(fd, opcode, bytearray(), bytearray(), dwords)) == 0

    def write_sector(self, block: int, flags: int = 0) -> bool:
        """Writes one sector of a block; whether it succeeded. The drive makes of the others what it
        likes, which a read shows."""
        noise = memoryview(bytearray(self.host.chance(self.namespace.block_bytes)))
        first = block * self.sectors_per_block + self.rng.randrange(self.sectors_per_block)
        return self.transfer(WRITE, first, noise, flags=flags) == 0

    def write_block(self, block: int) -> bool:
        """Writes all sectors of a block by one command; whether it succeeded."""
        noise = memoryview(bytearray(self.host.chance(BLOCK)))
        return self.transfer(WRITE, block * self.sectors_per_block, noise) == 0


_Found = Iterator[bytes | None]


def _alone(visitor: Visitor, block: int) -> _Found:
    yield visitor.read_pieces(block, [1] * visitor.sectors_per_block)


def _backwards(visitor: Visitor, block: int) -> _Found:
    content, size = memoryview(bytearray(BLOCK)), visitor.namespace.block_bytes
    for at in reversed(range(visitor.sectors_per_block)):
        piece = content[at * size : (at + 1) * size]
        if visitor.transfer(READ, block * visitor.sectors_per_block + at, piece) != 0:
            yield None
            return
    yield bytes(content)


def _again(visitor: Visitor, block: int) -> _Found:
    for _ in range(_AGAIN):
        yield visitor.read_block(block)


def _odd(visitor: Visitor, block: int) -> _Found:
    """Three, one, the rest: neither a power of two nor at a boundary of 4 KiB. Three blocks at once
    where the sectors are too large for it."""
    if visitor.sectors_per_block > _ODD:
        rest = visitor.sectors_per_block - _ODD - 1
        yield visitor.read_pieces(block, [_ODD, 1, *([rest] if rest else [])])
        return
    yield _of_many(visitor, block, _ODD)


def _unaligned(visitor: Visitor, block: int) -> _Found:
    """As much as a block, from the middle of the one before on."""
    size, half = visitor.namespace.block_bytes, visitor.sectors_per_block // 2
    last = visitor.device.size // BLOCK - 1
    # Sectors of 4 KiB have no middle, and the first and the last block have no neighbour to begin
    # in.
    if not half or not 0 < block < last:
        return
    content = memoryview(bytearray(2 * BLOCK))
    for at, first in (
        (0, block * visitor.sectors_per_block - half),
        (BLOCK, block * visitor.sectors_per_block + half),
    ):
        if visitor.transfer(READ, first, content[at : at + BLOCK]) != 0:
            yield None
            return
    yield bytes(content[half * size : half * size + BLOCK])


def _into_middle(visitor: Visitor, block: int) -> _Found:
    with memoryview(visitor.two_pages) as page, page[512 : 512 + BLOCK] as content:
        done = visitor.transfer(READ, block * visitor.sectors_per_block, content) == 0
        yield bytes(content) if done else None


def _fua(visitor: Visitor, block: int) -> _Found:
    yield visitor.read_block(block, flags=FUA)


def _limited(visitor: Visitor, block: int) -> _Found:
    yield visitor.read_block(block, flags=LIMITED_RETRY)


def _hinted(visitor: Visitor, block: int) -> _Found:
    yield visitor.read_block(block, hints=_HINTS)


def _large(visitor: Visitor, block: int, flags: int = 0) -> _Found:
    most = min(visitor.large, visitor.device.size)
    # A set: where the drive or the kernel takes less, several sizes are the same.
    for blocks in sorted({min(size, most) // BLOCK for size in (MIDDLE, AHEAD, LARGE)}):
        yield _of_many(visitor, block, blocks, flags)


def _readahead(visitor: Visitor, block: int) -> _Found:
    """As the kernel reads ahead of what a file system or blkid asks for (docs/first-acts.md)."""
    yield from _large(visitor, block, LIMITED_RETRY)


def _of_many(visitor: Visitor, block: int, blocks: int, flags: int = 0) -> bytes | None:
    """The block out of one read of so many from it on, or before it at the end."""
    # At the end of the namespace the read begins earlier, so that it stays within.
    first = min(block, visitor.device.size // BLOCK - blocks)
    content = memoryview(bytearray(blocks * BLOCK))
    if visitor.transfer(READ, first * visitor.sectors_per_block, content, flags=flags) != 0:
        return None
    at = (block - first) * BLOCK
    # Only this block's former content is known.
    return bytes(content[at : at + BLOCK])


def _everywhere(visitor: Visitor, block: int) -> _Found:
    processes = visitor.host.processes
    for number in processes.processors()[:_PROCESSORS]:
        with processes.on_processor(number):
            yield visitor.read_block(block)


_WAYS: tuple[tuple[str, Callable[[Visitor, int], _Found]], ...] = (
    ("single blocks", _alone),
    ("large reads", _large),
    ("large reads with Limited Retry", _readahead),
    ("backward reads", _backwards),
    ("odd lengths", _odd),
    ("unaligned reads", _unaligned),
    ("the same again", _again),
    ("unaligned memory", _into_middle),
    ("reads with FUA", _fua),
    ("reads with Limited Retry", _limited),
    ("reads with hints", _hinted),
    ("other queues", _everywhere),
)

_WRITES: tuple[tuple[str, Callable[[Visitor, int], bool]], ...] = (
    ("writes of single blocks", lambda v, block: v.write_sector(block)),
    ("writes with FUA", lambda v, block: v.write_sector(block, FUA)),
    ("Write Zeroes", lambda v, block: v.send_range(WRITE_ZEROES, block)),
    ("Flush", lambda v, block: v.send_range(FLUSH, block)),
    ("Deallocate", lambda v, block: v.send_range(DATASET_MANAGEMENT, block)),
    ("writes of 4 KiB", lambda v, block: v.write_block(block)),
)

_SHARE = {"Write Zeroes": 4, "Deallocate": 4, "writes of 4 KiB": 8}
"""Of so many canaries one at most. These acts leave nothing of a block that could tell what the
acts after them wake up: who asks for more places than there are canaries is to see no less."""
