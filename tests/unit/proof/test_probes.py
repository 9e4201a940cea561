"""Canaries and fingerprints: planted, kept, found again, and never more than that."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.errors import BadInputError, DriveError
from eraser.media.reader import BlockDevice
from eraser.proof.plan import NamespacePlan
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.probes.probefile import KEY_BYTES
from tests.unit.conftest import Image

KEY = bytes(range(KEY_BYTES))
BLOCK = 4096
NOISE = random.Random(2).randbytes


class Refusing(BlockDevice):
    """A drive that takes no write to some blocks, and keeps old content in others."""

    refuse: range = range(0)
    ignore: range = range(0)

    def write_block(self, index: int, data: bytes, *, by_sector: bool = False) -> None:
        if index in self.refuse:
            raise DriveError(f"{self.path}: expected block {index} to be written, found EIO")
        if index not in self.ignore:
            super().write_block(index, data, by_sector=by_sector)


def test_planted_canaries_are_on_the_medium(image: Image) -> None:
    path = image(bytes(3000 * BLOCK + 1024))
    canaries = Canaries(KEY, 7, 3001, 200)
    with BlockDevice(path, writable=True) as device:
        planted = canaries.plant(device)
    assert planted.planted == len(canaries.positions) >= 200
    assert planted.failed == 0
    assert canaries.positions[0] == 0
    assert canaries.positions[-1] == 3000
    raw = Path(path).read_bytes()
    for index in range(3001):
        block = raw[index * BLOCK : (index + 1) * BLOCK]
        assert canaries.is_canary(index, block) == (index in canaries.positions)
        assert any(block) == (index in canaries.positions)


def test_some_more_are_written_to_be_deallocated_again(image: Image) -> None:
    """They count nowhere, are looked at, and are known where one of them turns up."""
    path = image(bytes(3000 * BLOCK))
    canaries = Canaries(KEY, 7, 3000, 200)
    with BlockDevice(path, writable=True) as device:
        written = canaries.plant_deallocated(device)
    assert written == tuple(canaries.deallocated)
    assert 20 <= len(written) <= 27
    assert not set(written) & set(canaries.positions)
    raw = Path(path).read_bytes()
    for index in written:
        assert canaries.is_canary(index, raw[index * BLOCK : (index + 1) * BLOCK])
        assert not canaries.is_planted_at(index)
    plan = NamespacePlan(7, path, 3000 * BLOCK, canaries)
    assert set(plan.looked_at) == set(plan.probes) | set(written)
    assert not set(plan.probes) & set(written), "they need not read as what was written"
    with Refusing(path, writable=True) as refusing:
        refusing.refuse = range(written[3], 3000)
        assert canaries.plant_deallocated(refusing) == written[:3]
    assert not Canaries(KEY, 7, 3000, 0).deallocated


def test_every_canary_is_another() -> None:
    canaries = Canaries(KEY, 1, 1 << 20, 64)
    blocks = {canaries.content(n) for n in canaries.positions}
    sectors = {b[at + 16 : at + 512] for b in blocks for at in range(0, BLOCK, 512)}
    assert len(blocks) == len(canaries.positions)
    assert len(sectors) == 8 * len(blocks)
    assert Canaries(KEY, 2, 1 << 20, 64).content(0) != canaries.content(0)
    assert Canaries(bytes(32), 1, 1 << 20, 64).content(0) != canaries.content(0)


def test_places_are_secret_and_repeatable() -> None:
    mine = Canaries(KEY, 1, 1 << 30, 1024).positions
    assert mine == Canaries(KEY, 1, 1 << 30, 1024).positions
    for other in (Canaries(bytes(32), 1, 1 << 30, 1024), Canaries(KEY, 2, 1 << 30, 1024)):
        assert len(set(mine) & set(other.positions)) < 10


def test_a_canary_is_known_wherever_it_turns_up() -> None:
    canaries = Canaries(KEY, 1, 1000, 10)
    content = canaries.content(canaries.positions[3])
    home, away = canaries.positions[3], 777
    assert canaries.is_canary(away, content)
    assert Canaries(KEY, 2, 50, 10).is_canary(away, content), "in another namespace"
    assert canaries.is_canary(away, bytes(512) + content[:512] + bytes(3072)), "one sector of it"
    assert canaries.is_canary(away, bytes(100) + content[:3996]), "moved by odd bytes"
    unmarked = bytes(BLOCK - 512) + bytes(16) + content[-496:]
    assert canaries.is_canary(home, unmarked), "a sector whose mark is gone"
    assert not canaries.is_canary(away, NOISE(BLOCK))
    assert not canaries.is_canary(home, Canaries(bytes(32), 1, 1000, 10).content(home))


def test_a_canary_that_does_not_read_back_is_void(image: Image) -> None:
    device = Refusing(image(bytes(500 * BLOCK)), writable=True)
    device.ignore = range(0, 250)
    with device:
        canaries = Canaries(KEY, 1, device.blocks, 100)
        asked = set(canaries.positions)
        planted = canaries.plant(device)
    assert planted.planted == len(canaries.positions) == sum(n >= 250 for n in asked)
    assert planted.failed == len(planted.void) == sum(n < 250 for n in asked)
    assert "read back as it was written" in planted.reason
    again = Canaries(KEY, 1, 500, 100, void=planted.void)
    assert again.positions == canaries.positions
    assert not again.is_planted_at(0)
    assert again.is_planted_at(499)


def test_a_write_error_is_a_finding(image: Image) -> None:
    device = Refusing(image(bytes(500 * BLOCK)), writable=True)
    device.refuse = range(1, 50)
    with device:
        canaries = Canaries(KEY, 1, device.blocks, 100)
        refused = sum(n in device.refuse for n in canaries.positions)
        planted = canaries.plant(device)
    assert 0 < refused == planted.failed
    assert "EIO" in planted.reason


def test_a_namespace_that_takes_no_write_is_not_tried_for_ever(image: Image) -> None:
    tried: list[int] = []

    class Counting(BlockDevice):
        """Opened for reading alone: the kernel refuses every write."""

        def write_block(self, index: int, data: bytes, *, by_sector: bool = False) -> None:
            tried.append(index)
            super().write_block(index, data, by_sector=by_sector)

    with Counting(image(bytes(500 * BLOCK))) as device:
        canaries = Canaries(KEY, 1, device.blocks, 100)
        asked = len(canaries.positions)
        planted = canaries.plant(device)
    assert len(tried) < 20
    assert (planted.planted, planted.failed) == (0, asked)
    assert len(canaries.positions) == 0


def test_no_canaries() -> None:
    assert len(Canaries(KEY, 1, 1000, 0).positions) == 0


@pytest.mark.parametrize("key", [b"", bytes(31), bytes(33)])
def test_a_key_of_another_size(key: bytes) -> None:
    with pytest.raises(BadInputError, match="32 bytes"):
        Canaries(key, 1, 10, 1)
    with pytest.raises(BadInputError, match="32 bytes"):
        Fingerprints(key, 1)


def _mixed() -> bytes:
    """Per ten blocks: three of zeros, one of ones, one pattern, five of data."""
    one = [bytes(BLOCK)] * 3 + [b"\xff" * BLOCK, b"\xa5\x5a" * 2048]
    return b"".join(b"".join([*one, *(NOISE(BLOCK) for _ in range(5))]) for _ in range(30))


@pytest.mark.parametrize("step", [1, 3, 16, 17, 40])
@pytest.mark.parametrize("tail", [0, 512])
def test_scattered_or_in_a_row_the_same_is_found(image: Image, step: int, tail: int) -> None:
    """Up to every sixteenth block the device is read whole, beyond that block by block."""
    raw = _mixed() + NOISE(400 * BLOCK) + bytes(400 * BLOCK) + NOISE(tail)
    with BlockDevice(image(raw)) as device:
        prints = Fingerprints(KEY, 1)
        prints.take(device, iter(range(0, device.blocks, step)))
    wanted = range(0, 1100 + bool(tail), step)
    blocks = {n: raw[n * BLOCK : (n + 1) * BLOCK] for n in wanted}
    data = [n for n in wanted if (n % 10 >= 5 if n < 300 else n < 700 or n == 1100)]
    assert prints.looked == len(wanted)
    assert list(prints.positions) == data
    assert all(prints.unchanged(n, blocks[n]) for n in data)


def test_only_blocks_that_hold_something_count(image: Image) -> None:
    raw = _mixed()
    with BlockDevice(image(raw)) as device:
        prints = Fingerprints(KEY, 1)
        prints.take(device, range(device.blocks))
    assert prints.looked == prints.compared(300) == prints.compared(999) == 300
    assert list(prints.positions) == [n for n in range(300) if n % 10 >= 5]
    for n in range(300):
        block = raw[n * BLOCK : (n + 1) * BLOCK]
        assert prints.has(n) == prints.unchanged(n, block) == (n % 10 >= 5)
        changed = bytes([block[0] ^ 1]) + block[1:]
        assert not prints.unchanged(n, changed)
    assert not prints.unchanged(6, raw[5 * BLOCK : 6 * BLOCK]), "another block's content"


def test_too_many_are_thinned_evenly(image: Image) -> None:
    raw = NOISE(700 * BLOCK)
    with BlockDevice(image(raw)) as device:
        prints = Fingerprints(KEY, 1, cap=100)
        prints.take(device, range(device.blocks))
    assert prints.stride == 8
    assert list(prints.positions) == list(range(0, 700, 8))
    assert prints.compared(700) == 700 // 8
    assert prints.compared(350) == 350 // 8
    assert all(prints.unchanged(n, raw[n * BLOCK : (n + 1) * BLOCK]) for n in range(0, 700, 8))


def test_unreadable_blocks_were_not_looked_at(image: Image) -> None:
    path = image(NOISE(200 * BLOCK))
    for readable, positions, found in (
        (150, range(200), (150, 50, 150)),
        (150, [1, 3, 160, 170], (2, 2, 2)),
    ):
        os.truncate(path, 200 * BLOCK)
        with BlockDevice(path) as device:
            os.truncate(path, readable * BLOCK)
            prints = Fingerprints(KEY, 1)
            prints.take(device, positions)
        assert (prints.looked, prints.unreadable, len(prints)) == found


def test_a_file_keeps_them_and_no_byte_of_the_owner(image: Image, tmp_path: Path) -> None:
    raw = b"".join((b"secret %d " % n * 600)[:BLOCK] for n in range(300))
    with BlockDevice(image(raw)) as device:
        prints = Fingerprints(KEY, 9, cap=200)
        prints.take(device, range(device.blocks))
    path = tmp_path / "prints"
    prints.save(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    stored = path.read_bytes()
    assert len(stored) < 300 * 40
    assert b"secret" not in stored
    assert not any(raw[at : at + 8] in stored for at in range(0, len(raw), 64))
    again = Fingerprints.load(str(path), KEY)
    assert again.dump() == prints.dump()
    assert (again.nsid, again.looked, again.stride) == (9, 300, 2)
    assert again.compared(100) == 50
    assert all(
        again.unchanged(n, raw[n * BLOCK : (n + 1) * BLOCK]) == prints.has(n) for n in range(300)
    )
    assert list(tmp_path.glob(".prints*")) == []


def test_a_saved_file_is_synced_with_its_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{fd}"))
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    Fingerprints(KEY, 1).save(str(tmp_path / "prints"))
    data, directory = synced
    assert data.startswith(str(tmp_path / ".prints."))
    assert directory == str(tmp_path)


def test_a_damaged_file_is_known(tmp_path: Path) -> None:
    path = tmp_path / "prints"
    with pytest.raises(BadInputError, match="No such file"):
        Fingerprints.load(str(path), KEY)
    Fingerprints(KEY, 1).save(str(path))
    good = path.read_bytes()
    assert len(Fingerprints.load(str(path), KEY)) == 0
    with pytest.raises(BadInputError, match="sealed with this case's key"):
        Fingerprints.load(str(path), bytes(32))
    for at in range(len(good)):
        for bad in (good[:at], good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :]):
            path.write_bytes(bad)
            with pytest.raises(BadInputError, match="something else"):
                Fingerprints.load(str(path), KEY)


@given(st.binary(max_size=200))
def test_no_payload_makes_another_error(raw: bytes) -> None:
    try:
        Fingerprints.undump(raw, KEY, "x")
    except BadInputError:
        return
    assert len(raw) >= 64
