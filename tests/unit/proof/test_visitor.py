"""What one namespace's visit asks, and what of it there is nothing to ask: each said as it was."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

import pytest

from eraser.media.iocommand import COMPARE, READ, Namespace
from eraser.proof.probes.canaries import Canaries
from eraser.proof.visit import SECONDS, CutOffError, Visitor
from eraser.protocol.report import ActRecord

BLOCKS = 512
COMPARE_FAILURE = 0x285
HOST: Any = SimpleNamespace(
    chance=os.urandom,
    clock=SimpleNamespace(monotonic=time.monotonic),
    processes=SimpleNamespace(
        processors=lambda: (0, 1), on_processor=lambda number: contextlib.nullcontext()
    ),
)


def answer(opcode: int, first: int, length: int) -> int:
    """As an honest drive does."""
    return COMPARE_FAILURE if opcode == COMPARE else 0


@dataclass
class Drive:
    """One namespace that reads as zeros, and what was asked of it, in sectors."""

    sector: int
    canaries: int = 100
    blocks: int = BLOCKS
    large: int = 256 << 10
    answer: Callable[[int, int, int], int] = answer
    asked: list[tuple[int, int, int]] = field(default_factory=list)

    def visitor(self, places: int = 8, pool: Sequence[int] | None = None) -> Visitor:
        drive = self

        class Recorded(Namespace):
            def transfer(self, fd: int, opcode: int, first: int, content: Any, **_: int) -> int:
                drive.asked.append((opcode, first, len(content) // drive.sector))
                return drive.answer(opcode, first, len(content) // drive.sector)

            def send(self, fd: int, opcode: int, data: Any, beside: Any, dwords: Any) -> int:
                return drive.answer(opcode, 0, 0)

        device: Any = SimpleNamespace(
            size=4096 * self.blocks,
            descriptor=3,
            read_blocks=lambda chosen: ((block, bytes(4096)) for block in chosen),
        )
        patience: Any = SimpleNamespace(wait=lambda: False)
        return Visitor(
            device,
            Recorded(1, self.sector, 0, False, False, 5.0, HOST),
            patience,
            Canaries(b"k" * 32, 1, self.blocks, self.canaries) if self.canaries else None,
            None,
            range(self.blocks) if pool is None else pool,
            places,
            HOST,
            large=self.large,
        )


@contextlib.contextmanager
def visiting(drive: Drive, **how: Any) -> Iterator[Visitor]:
    visitor = drive.visitor(**how)
    try:
        yield visitor
    finally:
        visitor.close()


def acts(visitor: Visitor) -> dict[str, ActRecord]:
    return {act.act: act for act in visitor.acts}


def test_a_drive_that_answers_slowly_is_visited_for_so_long_and_no_longer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A second for each command: a case ends, whatever its drive does."""
    drive = Drive(512)
    monkeypatch.setattr(HOST.clock, "monotonic", lambda: float(len(drive.asked)))
    with visiting(drive) as visitor, pytest.raises(CutOffError, match="cut off after 120 s"):
        visitor.read()
    assert SECONDS <= len(drive.asked) <= SECONDS + 1


def test_random_reads_of_a_slow_drive_end_with_the_time_of_its_visit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    read = list[int]()

    def slow(chosen: Sequence[int]) -> Iterator[tuple[int, bytes]]:
        for block in chosen:
            read.append(block)
            yield block, bytes(4096)

    monkeypatch.setattr(HOST.clock, "monotonic", lambda: 2.0 * len(read))
    with visiting(Drive(512)) as visitor:
        visitor.device.read_blocks = slow  # type: ignore[method-assign, assignment]
        with pytest.raises(CutOffError, match="cut off after 120 s"):
            visitor.sweep()
        [act] = visitor.acts
        assert act.done == len(read), "what was read until then counts"
    assert SECONDS / 2 <= len(read) <= SECONDS / 2 + 1


def test_large_sectors_have_odd_lengths_and_are_said_to_have_no_boundary_within() -> None:
    """Blocks of 4 KiB are one sector: three of them at once are neither a power of two nor less."""
    drive = Drive(4096)
    with visiting(drive) as visitor:
        visitor.read()
        done = acts(visitor)
        assert done["odd lengths"].done
        assert not any(act.refused for act in done.values())
        assert "unaligned reads" not in done
        [said] = visitor.undone
        assert said == "unaligned reads do not apply to sectors of 4,096 bytes"
    assert any(count == 3 and opcode == READ for opcode, _first, count in drive.asked)
    assert all(0 <= first <= BLOCKS - count for _opcode, first, count in drive.asked)


@pytest.mark.parametrize("sector", [512, 4096])
def test_small_sectors_have_all_of_them_and_nothing_is_said(sector: int) -> None:
    drive = Drive(sector, canaries=0)
    with visiting(drive) as visitor:
        visitor.read()
        assert ("unaligned reads" in acts(visitor)) is (sector == 512)
        assert all(act.done for act in visitor.acts)


@pytest.mark.parametrize(("blocks", "large"), [(2, 256 << 10), (BLOCKS, 8192)])
def test_three_blocks_at_once_are_no_more_than_there_are_or_may_be(blocks: int, large: int) -> None:
    drive = Drive(4096, canaries=0, blocks=blocks, large=large)
    with visiting(drive) as visitor:
        visitor.read()
        assert "odd lengths" not in acts(visitor)
        assert any(text.startswith("odd lengths:") for text in visitor.undone)


def test_where_no_canary_stood_there_is_nothing_to_compare_with_or_to_write_onto() -> None:
    with visiting(Drive(512, canaries=0)) as visitor:
        visitor.read()
        visitor.write()
        assert "Compare" not in acts(visitor)
        assert "Compare: no canary stood there to compare with" in visitor.undone
        assert "writes: no canary stood there to write onto" in visitor.undone


def test_what_a_drive_refuses_is_counted_as_refused() -> None:
    drive = Drive(512, answer=lambda opcode, first, length: 0x2002 if opcode == COMPARE else 0)
    with visiting(drive) as visitor:
        visitor.read()
        compared = acts(visitor)["Compare"]
        assert (compared.done, compared.refused) == (0, 8 * 8)
        assert visitor.undone == []


def test_blocks_are_counted_once_however_often_they_are_looked_at() -> None:
    """Of a block that is asked for five times, by two queues, or sector by sector there is one."""
    drive = Drive(512)
    with visiting(drive, places=8) as visitor:
        visitor.read()
        visitor.write()
        visitor.sweep()
        for act in visitor.acts:
            most = 16 * 8 if act.act.startswith("random") else 8 + 2  # the ends always
            # Nothing lies before the first block nor behind the last one.
            least = 8 - 2 if act.act.startswith("unaligned reads") else 8
            assert least <= act.blocks <= most, act
            assert act.blocks <= act.done
        done = acts(visitor)
        assert done["the same again"].done >= 5 * done["the same again"].blocks
        assert done["Compare"].done == 8 * done["Compare"].blocks
        assert done["writes of single blocks"].done > done["writes of single blocks"].blocks


def test_a_second_round_counts_what_the_first_one_had_not() -> None:
    seen: dict[str, set[int]] = {}
    pool = range(20)
    with visiting(Drive(512), pool=pool) as first, visiting(Drive(512), pool=pool) as second:
        first.seen = second.seen = seen
        first.read()
        second.read()
        for name, act in acts(second).items():
            if name != "Compare":
                assert acts(first)[name].blocks + act.blocks <= len(pool)
                assert act.done


@pytest.mark.parametrize(("refuse", "blocks"), [(0, 7), (1, 0)])
def test_a_block_of_which_a_sector_was_not_compared_is_none(refuse: int, blocks: int) -> None:
    """The drive compares no first sector of a block, or just not that of one block."""
    refused = list[int]()

    def answer(opcode: int, first: int, length: int) -> int:
        if opcode == COMPARE and first % 8 == 0 and (refuse or not refused):
            refused.append(first)
            return 0x2002
        return COMPARE_FAILURE if opcode == COMPARE else 0

    with visiting(Drive(512, answer=answer)) as visitor:
        visitor.read()
        assert acts(visitor)["Compare"].blocks == blocks
