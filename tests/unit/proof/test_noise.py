"""A window of noise is looked at as a whole, and finds what a look at each block finds."""

from __future__ import annotations

import base64
import random
import struct
from array import array
from collections.abc import Callable

import pytest

from eraser.media.blocks import BLOCK
from eraser.proof.classify import BlockClass, _blank_or_noise, _limits, classes, classify
from eraser.proof.counter import Counter
from eraser.proof.noise import suspects
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.tally import Tally
from tests.unit.proof.test_classify import STRUCTURED

SECTOR = 512
BLOCKS = 512
"""Of a window of 2 MiB."""
TEXT = (b"the quick brown fox jumps over the lazy dog, and nobody minds. " * 66)[:BLOCK]


def window(blocks: list[bytes]) -> memoryview:
    return memoryview(bytearray(b"".join(blocks)))


def noise(rng: random.Random, count: int = BLOCKS) -> list[bytes]:
    return [rng.randbytes(BLOCK) for _ in range(count)]


def _words(word: Callable[[int], bytes]) -> bytes:
    return b"".join(word(n) for n in range(BLOCK))[:BLOCK]


def _bits(rng: random.Random, chances: list[float]) -> bytes:
    """Bytes whose bits are set with these chances, the lowest first."""
    return bytes(
        sum((rng.random() < chance) << bit for bit, chance in enumerate(chances))
        for _ in range(BLOCK)
    )


def _alike(rng: random.Random, share: float) -> bytes:
    """Noise in which so many bytes are as the one before."""
    found = bytearray(rng.randbytes(BLOCK))
    for at in range(1, BLOCK):
        if rng.random() < share:
            found[at] = found[at - 1]
    return bytes(found)


def _walk(rng: random.Random, share: float) -> bytes:
    """Words that each change some bits of the one before: even counts, and like their neighbours"""
    word, found = rng.getrandbits(64), []
    for _ in range(BLOCK // 8):
        found.append(word.to_bytes(8, "little"))
        word ^= sum((rng.random() < share) << bit for bit in range(64))
    return b"".join(found)


def corpus(rng: random.Random) -> dict[str, bytes]:
    """A block of each of many kinds that somebody may have stored."""
    letters = "abcdefghijklmnopqrstuvwxyz     "
    cyrillic = "абвгдежзиклмнопрстуфхцчшщыэюя   "
    return {
        **STRUCTURED,
        "letters": "".join(rng.choices(letters, k=BLOCK)).encode(),
        "utf-16": "".join(rng.choices(letters, k=BLOCK)).encode("utf-16-le")[:BLOCK],
        "cyrillic": "".join(rng.choices(cyrillic, k=BLOCK)).encode()[:BLOCK],
        "base64": base64.b64encode(rng.randbytes(BLOCK))[:BLOCK],
        "hexadecimal": rng.randbytes(BLOCK).hex().encode()[:BLOCK],
        "addresses": _words(lambda n: struct.pack("<Q", 0x7FFF12340000 + 16 * (n * n % 9973))),
        "records": _words(lambda n: struct.pack("<IIQQ", n, 7, 1700 + n, rng.getrandbits(64))),
        "keys and times": _words(lambda n: rng.randbytes(16) + struct.pack("<QQ", 1700 + n, n)),
        "doubles": _words(lambda n: struct.pack("<d", 100 + rng.gauss(0, 1))),
        "floats": _words(lambda n: struct.pack("<f", rng.gauss(0, 1))),
        "a picture": bytes(int(128 + rng.gauss(0, 6) + n // 64 % 3 * 30) for n in range(BLOCK)),
        "seven bits": bytes(byte & 127 for byte in rng.randbytes(BLOCK)),
        "few bits": _bits(rng, [0.4] * 8),
        "high bytes": _bits(rng, [0.44] * 7 + [0.92]),
        "sparse": _words(lambda n: rng.randbytes(8) + bytes(56)),
        "walk of 5 %": _walk(rng, 0.05),
        "walk of 10 %": _walk(rng, 0.1),
        "walk of 15 %": _walk(rng, 0.15),
        "walk of 20 %": _walk(rng, 0.2),
    }  # fmt: skip


def each_by_itself(block: bytes) -> bool:
    """The look at each block that was taken before: is there somebody's data? Every fifth byte, and
    only where that is no noise each sector."""
    thin = block[::5]
    number = int.from_bytes(thin, "little")
    sigma, middle = (8 * len(thin)) ** 0.5 / 2, 4 * len(thin)
    plain = (
        abs(number.bit_count() - middle) <= 5 * sigma
        and abs((number & _limits(len(thin)).top).bit_count() - len(thin) // 2)
        <= 5 * len(thin) ** 0.5 / 2 + 1
        and abs((number ^ (number >> 8)).bit_count() - middle) <= 5 * sigma
        and abs((number ^ (number >> 64)).bit_count() - middle) <= 5 * sigma
    )
    return not plain and not all(
        _blank_or_noise(block[at : at + SECTOR]) for at in range(0, BLOCK, SECTOR)
    )


def mutated(rng: random.Random, block: bytes, foreign: bytes, sectors: int) -> bytes:
    """``block`` with so many sectors in a row of something else."""
    at, taken = (SECTOR * rng.randrange(9 - sectors) for _ in range(2))
    return block[:at] + foreign[taken : taken + SECTOR * sectors] + block[at + SECTOR * sectors :]


@pytest.mark.parametrize("sectors", [1, 2, 3, 4, 8])
def test_what_the_look_at_each_block_found_is_found(sectors: int) -> None:
    rng = random.Random(sectors)
    tries = 24
    for name, foreign in corpus(rng).items():
        blocks = [mutated(rng, block, foreign, sectors) for block in noise(rng, tries)]
        before = sum(map(each_by_itself, blocks))
        now = classes(window(blocks)).count(BlockClass.STRUCTURED)
        # What is found by chance is found by another chance now.
        assert now >= before - (2 if before < tries else 0), (name, before, now)


@pytest.mark.parametrize("sector", range(8))
def test_a_sector_of_text_in_a_window_of_noise(sector: int) -> None:
    """Or of anything that has no byte above 7Fh."""
    rng = random.Random(sector)
    for text in (TEXT[7 : 7 + SECTOR], bytes(byte & 127 for byte in rng.randbytes(SECTOR))):
        blocks, at = noise(rng), rng.randrange(BLOCKS)
        place = sector * SECTOR
        blocks[at] = blocks[at][:place] + text + blocks[at][place + SECTOR :]
        found = classes(window(blocks))
        assert found[at] is BlockClass.STRUCTURED
        assert found.count(BlockClass.RANDOM) == BLOCKS - 1


def test_noise_is_hardly_ever_suspected() -> None:
    """Otherwise the whole look at each block is what costs."""
    rng = random.Random(1)
    found = sum(len(suspects(window(noise(rng)))) for _ in range(8))
    assert 0 < found < 0.015 * 8 * BLOCKS


def _mixture(rng: random.Random, kinds: list[bytes]) -> bytes:
    block = rng.randbytes(BLOCK)
    match rng.randrange(8):
        case 0:
            return rng.choice([bytes(BLOCK), b"\xff" * BLOCK, rng.randbytes(16) * 256])
        case 1:
            half = rng.randbytes(8)
            return (half + bytes(255 - byte for byte in half)) * 256
        case 2:
            return mutated(rng, block, rng.choice(kinds), rng.randint(1, 8))
        case 3:
            return mutated(rng, block, bytes(BLOCK), rng.randint(1, 7))
        case 4:
            weak = rng.randrange(40)
            return bytes(byte & 127 if rng.randrange(40) < weak else byte for byte in block)
        case 5:
            return _alike(rng, rng.random() / 5)
    return block


@pytest.mark.parametrize("tail", [0, 512, 3584])
def test_a_block_is_the_same_alone_and_in_a_window(tail: int) -> None:
    rng = random.Random(tail)
    kinds = [*corpus(rng).values()]
    for count in (1, 2, 31, 100):
        blocks = [_mixture(rng, kinds) for _ in range(count)]
        if tail:
            blocks.append(rng.choice([bytes(BLOCK), rng.randbytes(BLOCK), TEXT])[:tail])
        assert classes(window(blocks)) == [classify(block) for block in blocks]


@pytest.mark.parametrize("blank", [bytes(BLOCK), b"\xff" * BLOCK, bytes(range(16)) * 256])
def test_noise_is_not_suspected_for_a_blank_block_beside_it(blank: bytes) -> None:
    """Otherwise one blank block in each window makes the reading of the whole drive slow."""
    blocks = noise(random.Random(2))
    alone = suspects(window(blocks))
    at = next(number for number in range(BLOCKS) if number not in alone)
    blocks[at] = blank
    assert suspects(window(blocks)) == sorted([*alone, at])


def test_no_block_is_suspected_for_its_neighbour() -> None:
    """Of blocks that are as likely suspected as not, each with others beside it."""
    rng = random.Random(7)
    blocks = [_alike(rng, 0.055) for _ in range(120)]
    alone = [at for at, block in enumerate(blocks) if suspects(window([block]))]
    assert 20 < len(alone) < 100
    assert suspects(window(blocks)) == alone
    backwards = suspects(window(blocks[::-1]))
    assert sorted(len(blocks) - 1 - at for at in backwards) == alone


def _probed(
    rng: random.Random, count: int, left: bool
) -> tuple[list[bytes], Canaries, Fingerprints]:
    """Noise among which some of what was there before the erase is left."""
    canaries = Canaries(bytes(32), 1, count, 12)
    prints = Fingerprints(bytes(32), 1)
    blocks = noise(rng, count)
    for at in range(0, count, 9):
        prints._add(at, memoryview(blocks[at]))
    for at in range(0, count, 18):
        blocks[at] = rng.randbytes(BLOCK)
    here = canaries.positions
    if not left:
        return blocks, canaries, prints
    for at in here[:3]:
        blocks[at] = canaries.content(at)
    sector = canaries.content(here[4])[SECTOR + 16 : 2 * SECTOR]
    blocks[here[4]] = blocks[here[4]][: SECTOR + 16] + sector + blocks[here[4]][2 * SECTOR :]
    return blocks, canaries, prints


@pytest.mark.parametrize(("left", "moved"), [(False, False), (False, True), (True, False)])
@pytest.mark.parametrize("seed", range(3))
def test_a_window_counts_as_its_blocks_do(left: bool, moved: bool, seed: int) -> None:
    """Probes at their places, one at another, blocks that are read twice, patterns, blank ones."""
    rng = random.Random(seed)
    count = 150
    blocks, canaries, prints = _probed(rng, count, left)
    free = [n for n in range(count) if n % 9 and n not in canaries.positions]
    kinds = [*corpus(rng).values()]
    for at in rng.sample(free, 20):
        blocks[at] = _mixture(rng, kinds)
    blocks[rng.choice(free)] = rng.randbytes(16) * 256
    if moved:
        at = free[seed]
        blocks[at] = blocks[at][:1000] + canaries.content(5)[:16] + blocks[at][1016:]
    probes = array("Q", sorted({*canaries.positions, *prints.positions}))
    again = array("Q", sorted({*probes, *rng.sample(range(count), 30)}))
    whole, single = Tally(), Tally()
    one, other = (Counter(canaries, prints, probes, again, t, {}) for t in (whole, single))
    one.window(0, window(blocks))
    for at, block in enumerate(blocks):
        other.window(at, window([block]))
    assert whole == single
    assert whole.canaries == 4 * left + moved
    assert whole.unchanged > 0
