"""fio's command lines, the matrix, and what comes next."""

from __future__ import annotations

import pytest

from qualify.fio.presets import PRESETS, source_options
from qualify.fio.workload import (
    MIB,
    Cell,
    Load,
    Place,
    cell_options,
    fill_options,
    matrix,
    size_text,
)
from qualify.rounds.plan import Plan, following

PLACE = Place("/dev/nvme0n1", 64 * MIB)
LOAD = Load("libaio", 32, 4)


def test_the_sources_line_word_for_word() -> None:
    line = (
        "fio --bs=4k --direct=1 --rw=randread --randrepeat=0 --ioengine=libaio --iodepth=32 "
        "--runtime=120 --group_reporting --time_based --filesize=64m --numjobs=32 --name=/mnt/test"
    )

    assert " ".join(("fio", *source_options("randread", "/mnt/test"))) == line
    assert "--rw=randwrite" in source_options("randwrite", "/mnt/test")
    assert [PRESETS[name].source for name in ("i1-read", "i1-write")] == ["randread", "randwrite"]


def test_the_matrix_of_the_sources() -> None:
    cells = matrix()

    assert {size_text(cell.block) for cell in cells} == {
        "4K",
        "8K",
        "16K",
        "32K",
        "64K",
        "128K",
        "1M",
    }
    assert {cell.mix for cell in cells} == {
        "100/0",
        "95/5",
        "65/35",
        "50/50",
        "35/65",
        "5/95",
        "0/100",
    }
    assert len(cells) == len(set(cells)) == 49
    assert {cell.mix for cell in matrix(extra=True)} - {cell.mix for cell in cells} == {"70/30"}
    assert len(matrix(extra=True)) == 56


@pytest.mark.parametrize(
    ("reads", "expected"),
    [
        (100, {"--rw=randread"}),
        (0, {"--rw=randwrite"}),
        (65, {"--rw=randrw", "--rwmixread=65"}),
    ],
)
def test_a_cell(reads: int, expected: set[str]) -> None:
    options = cell_options(Cell(4096, reads), PLACE, LOAD, 60)

    assert {option for option in options if option.startswith("--rw")} == expected
    assert {
        "--bs=4096",
        "--direct=1",
        "--iodepth=32",
        "--numjobs=4",
        "--runtime=60",
        "--time_based",
        "--filename=/dev/nvme0n1",
        f"--size={64 * MIB}",
        "--allow_file_create=0",
    } <= set(options)


def test_a_place_that_may_only_be_read_is_never_written() -> None:
    place = Place("/dev/nvme0n1", MIB, readonly=True)

    assert "--readonly" in cell_options(Cell(4096, 100), place, LOAD, 1)
    assert "--readonly" not in cell_options(Cell(4096, 100), PLACE, LOAD, 1)
    for reads in (95, 0):
        with pytest.raises(ValueError, match="may only be read"):
            cell_options(Cell(4096, reads), place, LOAD, 1)
    with pytest.raises(ValueError, match="may only be read"):
        fill_options(place, LOAD)


def test_a_colon_in_a_path_does_not_part_it() -> None:
    options = fill_options(Place("/mnt/a:b\\c", MIB), LOAD)

    assert "--filename=/mnt/a\\:b\\\\c" in options


@pytest.mark.parametrize(
    ("count", "text"), [(4096, "4K"), (MIB, "1M"), (1536, "1536"), (10 << 30, "10G"), (512, "512")]
)
def test_sizes(count: int, text: str) -> None:
    assert size_text(count) == text


A, B = Cell(4096, 100), Cell(4096, 0)


def plan(least: int = 5, most: int = 25) -> Plan:
    return Plan((A, B), (least, most), B)


def test_a_round_is_finished_before_the_next_begins() -> None:
    assert following(plan(), {}) == (1, A)
    assert following(plan(), {A: [1]}) == (1, B)
    assert following(plan(), {A: [1], B: [1]}) == (2, A)
    assert following(plan(), {A: [1, 1], B: [1]}) == (2, B)


def test_it_ends_when_the_tracked_cell_is_steady() -> None:
    flat, wild = [100.0] * 5, [100.0, 50.0, 100.0, 50.0, 100.0]

    assert following(plan(), {A: wild, B: flat}) is None
    assert following(plan(), {A: flat, B: wild}) == (6, A)
    assert following(plan(), {A: flat[:4], B: flat[:4]}) == (5, A)


def test_it_ends_after_the_most_rounds_in_any_case() -> None:
    wild = [100.0, 50.0] * 13

    assert following(plan(), {A: wild[:24], B: wild[:24]}) == (25, A)
    assert following(plan(), {A: wild[:25], B: wild[:25]}) is None


def test_fewer_rounds_than_a_window_were_asked_for() -> None:
    assert following(plan(1, 1), {A: [1], B: [1]}) is None
    assert following(plan(2, 2), {A: [1], B: [1]}) == (2, A)


def test_every_preset_has_a_tracked_cell_of_its_own() -> None:
    for preset in PRESETS.values():
        assert preset.tracked in preset.cells
        least, most = preset.rounds
        assert 1 <= least <= most
    assert PRESETS["matrix"].tracked == Cell(4096, 0)


def test_quick_works_for_less_than_two_minutes() -> None:
    """fio takes up to a second to start and report; filling takes a while more."""
    quick = PRESETS["quick"]

    assert (quick.seconds + 1) * len(quick.cells) * quick.rounds[1] <= 100
