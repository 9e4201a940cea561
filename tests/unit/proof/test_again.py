"""The second reading, and blocks that the kernel cannot read."""

from __future__ import annotations

import itertools
import json
import os
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from eraser.clock import MACHINE
from eraser.errors import BadInputError
from eraser.media.reader import BlockDevice
from eraser.proof import verify
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.tally import VerificationResult
from eraser.proof.verify import NamespacePlan, Verifier, VerifyPlan, choose_mode
from eraser.protocol.policy import VerificationMode
from tests.unit.conftest import Image

FULL, STATISTICAL, NIST = VerificationMode.FULL, VerificationMode.STATISTICAL, VerificationMode.NIST
KEY, SEED, BLOCK = b"k" * 32, b"s" * 32, 4096
BLOCKS = 20_000
NOISE = random.Random(5).randbytes(64 << 10)


def sparse(image: Image, blocks: int = BLOCKS) -> str:
    """A device of zeros, with noise at every hundredth block."""
    path = image(b"")
    with open(path, "r+b") as file:
        file.truncate(blocks * BLOCK)
        for at in range(0, blocks, 100):
            file.seek(at * BLOCK)
            file.write(NOISE[at % 4096 : at % 4096 + BLOCK])
    return path


def planted(path: str) -> NamespacePlan:
    with BlockDevice(path, writable=True) as device:
        prints = Fingerprints(KEY, 1)
        prints.take(device, range(0, device.blocks, 50))
        canaries = Canaries(KEY, 1, device.blocks, 50)
        canaries.plant(device)
        return NamespacePlan(1, path, device.size, canaries, prints)


def plan_of(mode: VerificationMode, *namespaces: NamespacePlan, reread: int = 0) -> VerifyPlan:
    return VerifyPlan(mode, SEED, 0.99, 0.1, namespaces, per_random=1, reread=reread)


def result_of(plan: VerifyPlan, between: Callable[[], None] = lambda: None) -> VerificationResult:
    result = Verifier(plan, BlockDevice, MACHINE).run(between=between)
    assert result is not None
    return replace(result, seconds=0.0)


def blank(namespace: NamespacePlan) -> None:
    os.truncate(namespace.path, 0)
    os.truncate(namespace.path, namespace.size)


def test_a_policy_that_names_the_layout_of_nist_has_everything_read(image: Image) -> None:
    """Also of a drive that is far larger than its windows and sample."""
    assert choose_mode(NIST, 1 << 30, 69075) is FULL
    namespace = planted(sparse(image))
    blank(namespace)
    result = result_of(plan_of(NIST, namespace))
    [found] = result.namespaces
    assert (result.asked, result.done, found.read) == (NIST, FULL, BLOCKS)
    assert (found.windows, found.window_blocks) == (0, 0)


def test_sample_and_probes_are_read_once_each(image: Image) -> None:
    namespace = planted(sparse(image))
    plan = plan_of(STATISTICAL, namespace)
    result = result_of(plan)
    [found] = result.namespaces
    sample = set(plan.places(namespace))
    assert found.read == len(sample | set(namespace.looked_at))
    assert 44 <= result.sampled <= len(sample), "the bound counts the sample alone"
    assert namespace.canaries is not None
    assert namespace.fingerprints is not None
    canaries = set(namespace.canaries.positions)
    assert found.canaries == len(canaries)
    assert found.unchanged == len(set(namespace.fingerprints.positions) - canaries)
    assert result.written[0].total == len(namespace.probes)


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_killed_at_any_point_of_both_readings_it_counts_the_same(
    image: Image, mode: VerificationMode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(verify, "TICK", 0.0)
    first = planted(sparse(image))
    blank(first)
    second = replace(first, nsid=2)
    plan = plan_of(mode, first, second, reread=100)
    resets: list[int] = []
    whole = result_of(plan, lambda: resets.append(1))
    assert resets == [1]
    assert sum(n.reread for n in whole.namespaces) == sum(
        len(plan.again(n)) for n in plan.namespaces
    )
    assert all(n.changed == 0 for n in whole.namespaces)
    state: object = Verifier(plan, BlockDevice, MACHINE).state()
    looks = itertools.count(1)
    for slices in range(5000):
        verifier = Verifier(plan, BlockDevice, MACHINE)
        verifier.restore(json.loads(json.dumps(state)))
        result = verifier.run(
            should_stop=lambda: next(looks) % 11 == 0, between=lambda: resets.append(1)
        )
        state = verifier.state()
        if result is not None:
            assert slices > 1
            assert replace(result, seconds=0.0) == whole
            assert len(resets) == 2, "a run that goes on in the second reading resets no more"
            return
    pytest.fail("the slices never came to an end")


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
def test_a_cache_that_a_reset_empties_is_seen(image: Image, mode: VerificationMode) -> None:
    """Blank as long as the cache answers; then the medium, with what was on it."""
    namespace = planted(sparse(image))
    kept = Path(namespace.path).read_bytes()
    blank(namespace)
    plan = plan_of(mode, namespace, reread=500)
    result = result_of(plan, lambda: (Path(namespace.path).write_bytes(kept), None)[1])
    [found] = result.namespaces
    assert found.canaries == len(namespace.canaries.positions if namespace.canaries else ())
    assert found.unchanged > 0
    assert found.changed > 20
    # And what no probe knows: other blocks than those, changed by nobody.
    blank(namespace)
    places = set(plan.again(namespace)) - set(namespace.probes)

    def soil() -> None:
        with open(namespace.path, "r+b") as file:
            for place in sorted(places)[::7]:
                file.seek(place * BLOCK)
                file.write(b"\x01")

    [found] = result_of(plan, soil).namespaces
    assert (found.canaries, found.unchanged) == (0, 0)
    assert 0 < found.changed <= len(sorted(places)[::7])


def test_one_changed_block_is_enough(image: Image) -> None:
    namespace = planted(sparse(image))
    blank(namespace)
    plan = plan_of(FULL, namespace, reread=500)
    for place in list(plan.again(namespace))[::97]:

        def soil(at: int = place) -> None:
            with open(namespace.path, "r+b") as file:
                file.seek(at * BLOCK + 4095)
                file.write(b"\x80")

        blank(namespace)
        assert result_of(plan, soil).namespaces[0].changed == 1


def test_what_is_not_erased_at_the_first_look_is_not_looked_at_again(image: Image) -> None:
    namespace = planted(sparse(image))
    resets: list[int] = []
    result = result_of(plan_of(FULL, namespace, reread=500), lambda: resets.append(1))
    assert (resets, result.namespaces[0].reread) == ([], 0)


@dataclass
class Rescuer:
    """A drive that says by status what the kernel's errno does not."""

    status: int | None
    content: bytes = b"\xff" * BLOCK
    asked: list[int] = field(default_factory=list)

    def read(self, _fd: int, offset: int, into: memoryview) -> int | None:
        self.asked.append(offset // BLOCK)
        if self.status == 0:
            into[:] = self.content[: len(into)]
        return self.status


class Shortened(BlockDevice):
    """A drive whose last hundred blocks the kernel cannot read."""

    def __init__(self, path: str) -> None:
        super().__init__(path)
        os.truncate(path, (BLOCKS - 100) * BLOCK)


@pytest.mark.parametrize("mode", [FULL, STATISTICAL])
@pytest.mark.parametrize("status", [0, 0x281, 0x287, 0x282, None])
def test_a_failing_read_is_judged_by_its_status(
    image: Image, mode: VerificationMode, status: int | None
) -> None:
    namespace = planted(sparse(image))
    blank(namespace)
    rescue = Rescuer(status)
    plan = plan_of(mode, replace(namespace, rescue=rescue))
    result = Verifier(plan, Shortened, MACHINE).run()
    assert result is not None
    [found] = result.namespaces
    assert rescue.asked == sorted(set(rescue.asked))
    assert min(rescue.asked) >= BLOCKS - 100
    if status == 0:
        assert (found.unreadable, found.statuses) == (0, ())
        assert found.by_passthrough == found.ones == len(rescue.asked)
    else:
        assert found.unreadable == len(rescue.asked)
        assert [(s.status, s.blocks) for s in found.statuses] == [(status, found.unreadable)]
    if mode is FULL:
        assert len(rescue.asked) == 100


def test_a_drive_may_answer_with_every_status_there_is(image: Image) -> None:
    """What it says is counted, and bounded."""

    class Moody(Rescuer):
        def read(self, fd: int, offset: int, into: memoryview) -> int | None:
            self.status = 0x100 + offset // BLOCK % 90
            return super().read(fd, offset, into)

    namespace = NamespacePlan(1, sparse(image), BLOCKS * BLOCK, rescue=Moody(None))
    result = Verifier(plan_of(FULL, namespace), Shortened, MACHINE).run()
    assert result is not None
    [found] = result.namespaces
    assert len(found.statuses) <= 17
    assert sum(s.blocks for s in found.statuses) == found.unreadable == 100


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 1 << 70) | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)
MEMBERS = ("at", "seconds", "stopped", "reset", "tallies", "cursor", "sweep", "once", "again")


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(MEMBERS), JSON)
def test_any_checkpoint_is_refused_or_read_to_the_end(
    image: Image, member: str, value: Any
) -> None:
    path = image(bytes(50 * BLOCK))
    plan = plan_of(FULL, NamespacePlan(1, path, 50 * BLOCK), reread=9)
    state = Verifier(plan, BlockDevice, MACHINE).state()
    place = state if member in state else state["tallies"][0]
    place[member] = value
    verifier = Verifier(plan, BlockDevice, MACHINE)
    try:
        verifier.restore(json.loads(json.dumps(state)))
    except BadInputError:
        return
    assert verifier.run() is not None


def test_the_second_reading_goes_in_an_order_of_its_own(
    image: Image, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A drive that answers well to whoever reads upwards is asked otherwise, in an order that it
    cannot foresee; and a run that was killed goes on where it was."""
    namespace = planted(sparse(image))
    with open(namespace.path, "r+b") as file:
        file.truncate(0)
        file.truncate(namespace.size)
    plan = plan_of(STATISTICAL, namespace, reread=500)
    first, second = list[int](), list[int]()
    read, batches = first, BlockDevice.read_batches

    def read_batches(device: BlockDevice, indexes: Any) -> Any:
        for batch in batches(device, indexes):
            read.extend(batch.indexes)
            yield batch

    def between() -> None:
        nonlocal read
        read = second

    monkeypatch.setattr(BlockDevice, "read_batches", read_batches)
    killed = Verifier(plan, BlockDevice, MACHINE)
    assert killed.run(should_stop=lambda: len(second) > 200, between=between) is None
    goes_on = Verifier(plan, BlockDevice, MACHINE)
    goes_on.restore(json.loads(json.dumps(killed.state())))
    assert goes_on.run() is not None
    assert first == sorted(first)
    assert sorted(second) == list(plan.again(namespace))
    assert second == list(plan.again_in_order(namespace)) != sorted(second)
    assert second != list(replace(plan, seed=b"t" * 32).again_in_order(namespace))
