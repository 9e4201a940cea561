"""The verifier: what it counts, and that a killed run counts the same."""

from __future__ import annotations

import json
import os
import random
from array import array
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.clock import MACHINE
from eraser.errors import BadInputError, DriveError
from eraser.media.blocks import block_count
from eraser.media.reader import BlockDevice
from eraser.proof import verify
from eraser.proof.counter import merged
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.tally import VerificationResult
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan, choose_mode
from eraser.protocol.policy import VerificationMode
from tests.unit.conftest import Image

FULL, STATISTICAL = VerificationMode.FULL, VerificationMode.STATISTICAL
KEY = b"k" * 32
SEED = b"s" * 32
BLOCK = 4096
BLOCKS = 3000
NOISE = random.Random(3).randbytes


def _plan(
    mode: VerificationMode, *namespaces: NamespacePlan, unreadable_limit: int = 4096
) -> VerifyPlan:
    # 44 places at 99 % / 10 %: statistical also on a small image, reading in a row being dear.
    return VerifyPlan(
        mode, SEED, 0.99, 0.1, namespaces, per_random=1, unreadable_limit=unreadable_limit
    )


def _mixed(blocks: int = BLOCKS) -> bytes:
    kinds = (
        lambda: bytes(BLOCK),
        lambda: b"\xff" * BLOCK,
        lambda: b"\xa5\x5a" * 2048,
        lambda: NOISE(BLOCK),
        lambda: (b"some text %d " % len(NOISE(3)) * 400)[:BLOCK],
    )
    return b"".join(kinds[n // 7 % 5]() for n in range(blocks))


def _planted(path: str, count: int = 100) -> NamespacePlan:
    """Fingerprints of all that is there, then canaries over some of it."""
    with BlockDevice(path, writable=True) as device:
        prints = Fingerprints(KEY, 1)
        prints.take(device, range(device.blocks))
        canaries = Canaries(KEY, 1, device.blocks, count)
        canaries.plant(device)
        return NamespacePlan(1, path, device.size, canaries, prints)


def _result(plan: VerifyPlan) -> VerificationResult:
    result = Verifier(plan, BlockDevice, MACHINE).run()
    assert result is not None
    return result


@pytest.mark.parametrize("tail", [0, 512])
def test_full_counts_every_block(image: Image, tail: int) -> None:
    raw = _mixed() + bytes(tail)
    result = _result(_plan(FULL, NamespacePlan(1, image(raw), len(raw))))
    [found] = result.namespaces
    per = [sum(n // 7 % 5 == k for n in range(BLOCKS)) for k in range(5)]
    assert [found.zeros - bool(tail), found.ones, found.pattern] == per[:3]
    assert [found.random, found.structured] == per[3:]
    assert found.read == found.blocks == result.sampled == BLOCKS + bool(tail)
    assert result.bytes_read == len(raw)
    assert result.patterns == (("a55a" * 8,),)
    assert not result.incomplete


def _planted_more(namespace: NamespacePlan) -> tuple[int, ...]:
    """The canaries that a drive is told to deallocate, on one that keeps them."""
    assert namespace.canaries is not None
    with BlockDevice(namespace.path, writable=True) as device:
        return namespace.canaries.plant_deallocated(device)


def test_statistical_reads_the_places_and_every_probe(image: Image) -> None:
    path = image(_mixed())
    namespace = _planted(path)
    plan = _plan(STATISTICAL, namespace)
    assert namespace.canaries is not None
    assert namespace.fingerprints is not None
    dropped = set(_planted_more(namespace))
    canaries = set(namespace.canaries.positions) | dropped
    result = _result(plan)
    probes = canaries | set(namespace.fingerprints.positions)
    places = set(plan.places(namespace))
    assert result.done is STATISTICAL
    assert result.namespaces[0].read == len(places | probes)
    assert 44 <= result.sampled <= len(places)
    assert result.namespaces[0].canaries == len(canaries)
    hidden = canaries & set(namespace.fingerprints.positions)
    assert hidden & dropped
    unchanged = len(namespace.fingerprints) - len(hidden)
    assert result.namespaces[0].unchanged == result.fingerprints_checked == unchanged
    assert result.canaries_checked == result.canaries_planted
    assert result.compared == BLOCKS - len(hidden)
    assert result.written[0].total == len(probes - dropped)


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_probes_past_the_end_were_not_checked(image: Image, mode: VerificationMode) -> None:
    """Nor is a fingerprint there that a canary has taken subtracted twice."""
    path = image(_mixed())
    before = _planted(path)
    assert before.canaries is not None
    assert before.fingerprints is not None
    half = BLOCKS // 2
    counted, prints = set(before.canaries.positions), set(before.fingerprints.positions)
    canaries = counted | set(_planted_more(before))
    assert max(canaries & prints) >= half
    os.truncate(path, half * BLOCK)
    result = _result(_plan(mode, replace(before, size=half * BLOCK)))
    assert result.canaries_checked == sum(n < half for n in counted)
    assert result.fingerprints_checked == sum(n < half for n in prints - canaries)
    assert result.namespaces[0].unchanged == result.fingerprints_checked
    assert result.compared == sum(n not in canaries & prints for n in range(half))


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_after_an_erase_nothing_is_found_again(image: Image, mode: VerificationMode) -> None:
    path = image(_mixed())
    namespace = _planted(path)
    with open(path, "r+b") as file:
        file.write(bytes(namespace.size))
    result = _result(_plan(mode, namespace))
    [found] = result.namespaces
    assert (found.canaries, found.unchanged) == (0, 0)
    assert found.zeros == found.read
    assert result.written[0].zeros == result.written[0].total > 1000


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
@pytest.mark.parametrize("left", ["one canary", "one block of the owner"])
def test_one_probe_that_is_left_is_found(image: Image, mode: VerificationMode, left: str) -> None:
    raw = _mixed()
    path = image(raw)
    namespace = _planted(path)
    assert namespace.canaries is not None
    assert namespace.fingerprints is not None
    at = namespace.canaries.positions[37]
    content = namespace.canaries.content(at)
    if left != "one canary":
        at = next(n for n in namespace.fingerprints.positions if n > 1500)
        content = raw[at * BLOCK : (at + 1) * BLOCK]
    with open(path, "r+b") as file:
        file.write(bytes(namespace.size))
        file.seek(at * BLOCK)
        file.write(content)
    [found] = _result(_plan(mode, namespace)).namespaces
    assert (found.canaries, found.unchanged) == ((1, 0) if left == "one canary" else (0, 1))


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_killed_at_any_point_it_counts_the_same(
    image: Image, mode: VerificationMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "TICK", 0.0)
    first = _planted(image(_mixed()))
    second = replace(first, nsid=2, path=image(_mixed(1500)), size=1500 * BLOCK)
    plan = _plan(mode, first, second)
    whole = replace(_result(plan), seconds=0.0)
    checkpoints: list[str] = []
    verifier = Verifier(plan, BlockDevice, MACHINE)
    verifier.run(lambda _f, _d: checkpoints.append(json.dumps(verifier.state())))
    assert len(checkpoints) > 5
    # A few of them: the slices below stop at every one.
    for checkpoint in (*checkpoints[::9], checkpoints[-1]):
        resumed = Verifier(plan, BlockDevice, MACHINE)
        resumed.restore(json.loads(checkpoint))
        again = resumed.run()
        assert again is not None
        assert replace(again, seconds=0.0) == whole
    # And one that is stopped after every piece, again and again, through its checkpoints alone.
    state: object = Verifier(plan, BlockDevice, MACHINE).state()
    for _ in range(1000):
        slice_ = Verifier(plan, BlockDevice, MACHINE)
        slice_.restore(json.loads(json.dumps(state)))
        result = slice_.run(should_stop=lambda: True)
        state = slice_.state()
        if result is not None:
            assert replace(result, seconds=0.0) == whole
            return
    pytest.fail("the slices never came to an end")


def test_a_checkpoint_of_another_plan(image: Image) -> None:
    namespace = NamespacePlan(1, image(bytes(50 * BLOCK)), 50 * BLOCK)
    plan = _plan(FULL, namespace)
    state = Verifier(plan, BlockDevice, MACHINE).state()
    for other in (
        replace(plan, seed=b"t" * 32),
        replace(plan, namespaces=(replace(namespace, nsid=2),)),
        replace(plan, namespaces=(replace(namespace, canaries=Canaries(KEY, 1, 50, 9)),)),
        replace(plan, residual=0.01, mode=STATISTICAL, per_random=0),
    ):
        with pytest.raises(BadInputError, match="another's"):
            Verifier(other, BlockDevice, MACHINE).restore(state)
    wrong: tuple[object, ...] = (
        {},
        [],
        None,
        {**state, "at": "1"},
        {**state, "tallies": [{"x": 1}]},
    )
    for damaged in wrong:
        with pytest.raises(BadInputError, match="checkpoint"):
            Verifier(plan, BlockDevice, MACHINE).restore(damaged)


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_unreadable_blocks_are_counted_and_their_probes_are_not_checked(
    image: Image, mode: VerificationMode
) -> None:
    path = image(_mixed())
    namespace = _planted(path)
    plan = _plan(mode, namespace)
    assert namespace.canaries is not None
    lost = sum(n >= 2900 for n in namespace.canaries.positions)

    class Shortened(BlockDevice):
        """A drive whose last hundred blocks cannot be read."""

        def __init__(self, path: str) -> None:
            super().__init__(path)
            os.truncate(path, 2900 * BLOCK)

    result = Verifier(plan, Shortened, MACHINE).run()
    assert result is not None
    [found] = result.namespaces
    assert found.unreadable == (100 if mode is FULL else found.unreadable) > 0
    assert result.canaries_checked == result.canaries_planted - lost
    assert result.fingerprints_checked < result.fingerprints_taken
    assert not result.incomplete


def test_a_drive_with_too_many_unreadable_blocks_is_given_up(image: Image) -> None:
    path = image(_mixed())

    class Gone(BlockDevice):
        """A drive of which nothing can be read."""

        def __init__(self, path: str) -> None:
            super().__init__(path)
            os.truncate(path, 0)

    size = BLOCKS * BLOCK
    plan = _plan(FULL, NamespacePlan(1, path, size), unreadable_limit=64)
    result = Verifier(plan, Gone, MACHINE).run()
    assert result is not None
    assert "given up after" in result.incomplete
    assert result.namespaces[0].unreadable < 2 * 64
    assert result.namespaces[0].read == 0


def test_a_device_of_another_size_than_planned(image: Image) -> None:
    plan = _plan(FULL, NamespacePlan(1, image(bytes(10 * BLOCK)), 9 * BLOCK))
    with pytest.raises(DriveError, match="the layout changed"):
        Verifier(plan, BlockDevice, MACHINE).run()


def test_progress_never_goes_back(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(verify, "TICK", 0.0)
    seen: list[float] = []
    raw = bytes(BLOCKS * BLOCK)
    plan = _plan(FULL, *(NamespacePlan(n, image(raw), len(raw)) for n in (1, 2)))
    Verifier(plan, BlockDevice, MACHINE).run(lambda fraction, _detail: seen.append(fraction))
    assert seen == sorted(seen)
    assert seen[-1] == 1.0
    assert len(seen) > 10


@pytest.mark.parametrize(
    ("asked", "blocks", "n", "done"),
    [
        (FULL, 1 << 40, 1, FULL),
        (STATISTICAL, 16 * 69075, 69075, FULL),
        (STATISTICAL, 16 * 69075 + 1, 69075, STATISTICAL),
        (STATISTICAL, 1, 69075, FULL),
    ],
)
def test_what_is_cheaper_to_read_whole_is_read_whole(
    asked: VerificationMode, blocks: int, n: int, done: VerificationMode
) -> None:
    assert choose_mode(asked, blocks, n) is done


def test_first_and_last_block_of_every_namespace_are_read() -> None:
    namespaces = tuple(NamespacePlan(n, "-", size) for n, size in ((1, 1 << 40), (2, 8192)))
    plan = VerifyPlan(STATISTICAL, SEED, 0.999, 0.001, namespaces)
    for namespace in namespaces:
        places = list(plan.places(namespace))
        assert places[0] == 0
        assert places[-1] == block_count(namespace.size) - 1
    one, other = (set(plan.places(replace(namespaces[0], nsid=n))) for n in (1, 2))
    assert len(one & other) < 50, "every namespace has its own places"


def test_a_short_seed_can_be_guessed() -> None:
    with pytest.raises(ValueError, match="seed"):
        VerifyPlan(STATISTICAL, b"short", 0.9, 0.1, ())


@given(
    st.lists(st.integers(0, 60), unique=True).map(sorted),
    st.lists(st.integers(0, 60), unique=True).map(sorted),
    st.integers(0, 61),
)
def test_places_and_probes_are_read_once_each(
    places: list[int], probes: list[int], start: int
) -> None:
    wanted = sorted(n for n in {*places, *probes} if n >= start)
    assert list(merged(start, iter(places), array("Q", probes))) == wanted
