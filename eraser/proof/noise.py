"""A first look at many blocks at once: which of them are not plainly noise?

Noise is what an erase that only changes the key leaves on the whole drive, so this is what a full
reading of such a drive costs. A look at each block by itself costs two seconds of a processor per
GB. Here one word of 64 bits in eight is looked at, and one integer holds the same word of every
block: what is done to it is done to all blocks, each in a lane of its own. Sums of bits are kept
as bit planes, the way that adders in hardware do it.

The answer for a block does not depend on its neighbours. It is no verdict: noise is suspected one
time in 150, and what is suspected is looked at whole (:mod:`eraser.proof.classify`).
"""

from __future__ import annotations

import functools
import math
from array import array
from collections.abc import Callable, Sequence

from eraser.media.blocks import BLOCK

_WORD = 8
_WORDS = BLOCK // _WORD
_SECTORS = 8
"""Of 512 bytes, in a block."""
_PAIRS = 4
"""Of words side by side, in a sector: one pair in each 128 bytes, each time elsewhere in them, so
that no field of a record of up to 64 bytes is left out."""
_PLACES = tuple(
    tuple(
        64 * sector + 16 * pair + 8 * (sector // 4 ^ pair % 2) + 2 * ((pair + sector) % 4)
        for pair in range(_PAIRS)
    )
    for sector in range(_SECTORS)
)
"""The first words of the pairs, for each sector."""
_SIGMAS = 3.2
"""Honest noise fails one of the four sums by chance once in 180; the whole look tells it."""
_STUCK = 5
"""Bits that are the same in all eight words of a sector: of noise one of 128 is, which makes five
of 64 once in 7,000 sectors. Text has eight at least, the top bits of its bytes."""
_LOW_PLANES = 2
"""Planes that are left out of the sums: counts in fours tell as much, and fit into a byte."""


def suspects(window: memoryview) -> list[int]:
    """Which blocks of ``window`` (whole ones of 4096 bytes) are not plainly noise: their numbers.

    Whatever repeats a piece of 2, 4, 8 or 16 bytes is among them.
    """
    words = array("Q")
    words.frombytes(window)
    blocks: Sequence[int] = range(len(words) // _WORDS)
    # Blocks that repeat are found by one comparison, and need no statistics.
    if found := _repeating(words):
        # Out with them: most windows with any are blank but for a few blocks.
        blocks = [at for at in blocks if at not in found]
        words = array("Q")
        for at in blocks:
            words.frombytes(window[at * BLOCK : (at + 1) * BLOCK])
    return sorted([*found, *(blocks[at] for at in _suspected(words, len(blocks)))])


def _repeating(words: array[int]) -> set[int]:
    """The blocks whose first 8 bytes come again 16 bytes on."""
    differ = _row(words, 0) ^ _row(words, 2)
    size = len(words) // _WORDS * _WORD
    raw = differ.to_bytes(size, "little")
    if bytes(_WORD) not in raw:
        return set()
    return {at // _WORD for at in range(0, size, _WORD) if not any(raw[at : at + _WORD])}


def _row(words: array[int], place: int) -> int:
    """The word at ``place`` of each block, in its block's lane."""
    return int.from_bytes(words[place::_WORDS], "little")


def _suspected(words: array[int], count: int) -> list[int]:
    if not count:
        return []
    lanes = functools.partial(_lanes, count)
    inner = lanes((1 << 56) - 1)
    rows: list[int] = []
    bytes_apart: list[int] = []
    words_apart: list[int] = []
    bad = 0
    for places in _PLACES:
        sector = [_row(words, place + n) for place in places for n in (0, 1)]
        bad |= _stuck(sector, lanes)
        rows += sector
        # The shift crosses lanes: the top byte of each meets the next block's, and is masked out
        # below.
        bytes_apart += [row ^ (row >> 8) for row in sector]
        words_apart += [sector[n] ^ sector[n + 1] for n in range(0, len(sector), 2)]
    size = len(rows)
    # One pass adds up each bit column over all words; the four questions are asked of these sums.
    planes = _planes(rows)
    top = lanes(0x8080808080808080)
    bad |= _far(planes, 64, size, lanes)
    bad |= _far([plane & top for plane in planes], 8, size, lanes)
    # The last byte of a word met the next block's.
    bad |= _far([plane & inner for plane in _planes(bytes_apart)], 56, size, lanes)
    bad |= _far(_planes(words_apart), 64, size // 2, lanes)
    if not bad:
        return []
    raw = bad.to_bytes(count * _WORD, "little")
    return [at // _WORD for at in range(0, len(raw), _WORD) if any(raw[at : at + _WORD])]


_Lanes = Callable[[int], int]


@functools.lru_cache(maxsize=64)
def _lanes(count: int, lane: int) -> int:
    """The 64 bits ``lane`` for each of ``count`` blocks."""
    return int.from_bytes(lane.to_bytes(_WORD, "little") * count, "little")


def _stuck(sector: list[int], lanes: _Lanes) -> int:
    """A bit for each block in whose sector too many bits are the same in all words."""
    ever = always = sector[0]
    for row in sector[1:]:
        ever |= row
        always &= row
    stuck = _counts([(ever ^ lanes((1 << 64) - 1)) | always], lanes)
    # A count of _STUCK or more carries into bit 15 of its lane: one addition compares all lanes.
    return (stuck + lanes(0x8000 - _STUCK)) & lanes(0x8000)


def _far(planes: list[int], columns: int, rows: int, lanes: _Lanes) -> int:
    """A bit for each lane with more or fewer ones than as many throws of a coin show.

    ``planes`` are the sums of ``rows`` numbers with ``columns`` bits in each lane.
    """
    unit = 1 << _LOW_PLANES
    # Each column's sum is cut down to a multiple of the unit, by (unit - 1) / 2 in the mean.
    mean = columns * (rows - (unit - 1)) / 2 / unit
    most = _SIGMAS * math.sqrt(columns * (rows / 4 + (unit**2 - 1) / 12)) / unit
    counts = _counts(planes[_LOW_PLANES:], lanes)
    # The same comparison by a carry into bit 15: once for too many ones, once for too few.
    above = counts + lanes(0x8000 - math.floor(mean + most) - 1)
    below = counts + lanes(0x8000 - math.ceil(mean - most))
    return (above ^ (below & lanes(0x8000)) ^ lanes(0x8000)) & lanes(0x8000)


def _planes(rows: list[int]) -> list[int]:
    """The sum of ``rows``, each bit for itself: its ones, its twos, its fours and so on."""
    planes = []
    while rows:
        carries = []
        # A full adder: three numbers of one weight become one of this weight and one carry.
        while len(rows) > 2:
            one, two, three = rows.pop(), rows.pop(), rows.pop()
            half = one ^ two
            rows.append(half ^ three)
            carries.append((one & two) | (half & three))
        if len(rows) == 2:
            one, two = rows
            rows = [one ^ two]
            carries.append(one & two)
        planes += rows
        rows = carries
    return planes


def _counts(planes: list[int], lanes: _Lanes) -> int:
    """In each lane the number of its ones, those of the second plane twice, of the third four
    times and so on: at most 31 for each column."""
    pairs, nibbles, octets = (lanes(int(n * 8, 16)) for n in ("55", "33", "0f"))
    total = 0
    # From the highest plane down: each step doubles what was summed and adds the next plane's ones.
    for plane in reversed(planes):
        twos = plane - ((plane >> 1) & pairs)
        fours = (twos & nibbles) + ((twos >> 2) & nibbles)
        total += total + ((fours + (fours >> 4)) & octets)
    # Bytes are added in pairs of 16 bits, for the sum of a lane may exceed one byte.
    evens = lanes(0x00FF00FF00FF00FF)
    total = (total & evens) + ((total >> 8) & evens)
    total += total >> 16
    total += total >> 32
    return total & lanes(0xFFFF)
