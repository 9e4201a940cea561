"""From samples to a result, its schema, and back from its JSON."""

from __future__ import annotations

import contextlib
import copy
import json
import tracemalloc
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import qualify
from eraser import VERSION
from qualify import schema
from qualify.errors import BadInputError
from qualify.fio.fiojson import Sample, Side
from qualify.fio.histogram import Histogram
from qualify.fio.workload import Cell
from qualify.results import reading, result
from qualify.rounds.journal import Entry, RunJournal
from tests.unit.qualify.results import CELLS, PLAN, entries, made, sample

CHECKED_IN = Path(qualify.__file__).with_name("result.schema.json")
RESULT = made()
PLAIN = json.loads(RESULT.text())


def test_the_version_is_the_projects() -> None:
    assert qualify.VERSION == VERSION


def test_the_schema_that_is_checked_in_is_that_of_the_code() -> None:
    assert json.loads(CHECKED_IN.read_text()) == schema.schema(), (
        "run: python -m qualify.schema > qualify/result.schema.json"
    )


def validator() -> jsonschema.Draft202012Validator:
    found = json.loads(CHECKED_IN.read_text())
    jsonschema.Draft202012Validator.check_schema(found)
    return jsonschema.Draft202012Validator(found)


def test_a_result_fits_its_schema_and_comes_back_as_it_was() -> None:
    validator().validate(PLAIN)

    assert reading.parse(RESULT.text().encode()) == RESULT


def test_the_window_is_the_last_five_rounds() -> None:
    cell = CELLS[0]
    done = [Entry(n, cell, sample(n * 1000.0, cell)) for n in range(1, 8)]
    (found,) = result.cells_of(PLAN, done)

    assert found.iops == 5000  # of 3 to 7
    assert found.rounds == tuple(n * 1000.0 for n in range(1, 8))
    assert found.deviation == pytest.approx(0.4)


def test_latencies_are_those_of_all_commands_not_means_of_percentiles() -> None:
    """Four quiet rounds and one slow one: of 1,000 commands 100 are slow, so p99 is theirs."""
    cell = Cell(4096, 100)
    none = Side(0.0, 0.0, 0, 0.0, 0, Histogram({}))

    def one(latency: int, count: int) -> Sample:
        side = Side(
            float(count), count * 4096.0, count, latency, latency, Histogram({latency: count})
        )
        return Sample(side, none, 1.0, 0.1, "fio-3.33", {})

    done = [Entry(n, cell, one(100, 225)) for n in range(1, 5)]
    done.append(Entry(5, cell, one(9_000, 100)))
    (found,) = result.cells_of(PLAN, done)

    assert found.read is not None
    assert (found.read.latency.p50, found.read.latency.p99) == (100, 9_000)
    assert found.read.latency.mean == pytest.approx((900 * 100 + 100 * 9_000) / 1000)
    assert found.write is None
    assert found.p99 == 9_000


def cells(*given: tuple[int, int, float]) -> tuple[result.CellResult, ...]:
    return result.cells_of(
        replace(PLAN, cells=tuple(Cell(block, reads) for block, reads, _rate in given)),
        [
            Entry(1, Cell(block, reads), sample(rate, Cell(block, reads)))
            for block, reads, rate in given
        ],
    )


def test_the_source_array_grades_as_itself() -> None:
    found = result.grades_of(7_200 * 10**9, cells((4096, 100, 2_374_000.0), (4096, 0, 1_710_000.0)))

    assert (found.i1_read, found.i1_write) == (1.0, 1.0)
    assert found.reads is not None
    assert (found.reads.vpu, found.reads.iops) == (120, 2_374_000)
    # 4K blocks alone: 9.7 GB/s of reads and 7.0 of writes are above what VPU 120 promises.
    assert found.every_mix is not None
    assert (found.every_mix.vpu, found.every_mix.iops) == (120, 1_710_000)


def test_the_worst_mix_grades_all_of_them() -> None:
    found = result.grades_of(
        256 * 10**9,
        cells((4096, 100, 60_000.0), (4096, 0, 16_000.0), (2**20, 100, 900.0), (2**20, 0, 900.0)),
    )

    assert found.reads is not None
    assert found.every_mix is not None
    assert (found.reads.vpu, found.every_mix.vpu) == (120, 10)


def test_without_4k_blocks_there_is_no_grade() -> None:
    found = result.grades_of(10**12, cells((2**20, 100, 900.0), (2**20, 0, 900.0)))

    assert (found.reads, found.every_mix, found.i1_read) == (None, None, None)


def test_below_every_level() -> None:
    found = result.grades_of(10**12, cells((4096, 100, 10.0)))

    assert found.reads is not None
    assert (found.reads.vpu, found.reads.name) == (None, "below every level")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d.update(schema="nvme-bench/2"), "form nvme-bench/1"),
        (lambda d: d.pop("cells"), r"result\.cells"),
        (lambda d: d.update(cells=[]), "1 to 4096 cells"),
        (lambda d: d["cells"].append(d["cells"][0]), "each cell once"),
        (lambda d: d["cells"][0].update(reads=101), "real size"),
        (lambda d: d["cells"][0].update(block=0), "real size"),
        (lambda d: d["cells"][0].update(read=None, write=None), "reads or writes"),
        (lambda d: d["cells"][0].update(iops=-1), r"cells\[0\]\.iops"),
        (lambda d: d["cells"][0].update(iops=float("nan")), r"cells\[0\]\.iops"),
        (lambda d: d["cells"][0].update(iops=1e300), r"cells\[0\]\.iops"),
        (lambda d: d["cells"][0].update(iops=5e-324), r"cells\[0\]\.iops"),
        (lambda d: d.update(emulated=1), "emulated"),
        (lambda d: d.update(label="x" * 5000), "label"),
        (lambda d: d["asked"].update(rounds=[5]), "2 items"),
    ],
)
def test_what_is_no_result_is_named(change: Any, says: str) -> None:
    plain = copy.deepcopy(PLAIN)
    change(plain)
    with pytest.raises(BadInputError, match=says):
        reading.parse(json.dumps(plain).encode())


@settings(deadline=None, max_examples=60)
@given(st.binary(max_size=64), st.integers(0, len(RESULT.text())))
def test_damaged_results_never_crash(junk: bytes, place: int) -> None:
    data = RESULT.text().encode()
    with contextlib.suppress(BadInputError):
        reading.parse(data[:place] + junk + data[place + len(junk) :])


@pytest.mark.parametrize("data", [b"", b"[]", b"[" * 100_000, b"null", b"\xff"])
def test_other_files_are_refused(data: bytes) -> None:
    with pytest.raises(BadInputError):
        reading.parse(data)


HEADER = {"schema": "nvme-bench/1", "size": 1}


def test_a_journal_comes_back(tmp_path: Path) -> None:
    journal, done = RunJournal(tmp_path / "run.part"), entries(cells=CELLS[:3], rounds=2)
    journal.begin(HEADER)
    for entry in done:
        journal.add(entry)

    assert list(journal.load(HEADER)) == done


def test_a_torn_line_never_happened(tmp_path: Path) -> None:
    journal, done = RunJournal(tmp_path / "run.part"), entries(cells=CELLS[:2], rounds=1)
    journal.begin(HEADER)
    journal.add(done[0])
    whole = journal.path.read_bytes()
    journal.add(done[1])
    torn = journal.path.read_bytes()[:-20]
    journal.path.write_bytes(torn)

    assert list(journal.load(HEADER)) == done[:1]
    assert journal.path.read_bytes() == whole
    journal.add(done[1])
    assert list(journal.load(HEADER)) == done


def test_no_more_of_a_journal_is_in_memory_than_is_wanted(tmp_path: Path) -> None:
    """One of a run of days has more bins than a machine has room for."""
    journal, done = RunJournal(tmp_path / "run.part"), entries(cells=CELLS[:1], rounds=1)
    journal.begin(HEADER)
    journal.add(done[0])
    with journal.path.open("ab") as file:
        file.write(journal.path.read_bytes().splitlines(keepends=True)[1] * 5000)
    first = next(journal.load(HEADER))  # what is read before is not counted
    assert first == done[0]
    tracemalloc.start()
    count = sum(1 for _ in journal.load(HEADER))
    _now, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert count == 5001
    assert peak < journal.path.stat().st_size / 4


def test_a_journal_is_of_one_run(tmp_path: Path) -> None:
    journal = RunJournal(tmp_path / "run.part")
    journal.begin(HEADER)

    with pytest.raises(BadInputError, match="--resume"):
        journal.begin(HEADER)
    with pytest.raises(BadInputError, match="another run"):
        list(journal.load({**HEADER, "size": 2}))
    journal.path.write_bytes(json.dumps(HEADER).encode() + b'\n{"round": 1}\n')
    with pytest.raises(BadInputError, match="something else"):
        list(journal.load(HEADER))
    journal.path.write_bytes(b"")
    with pytest.raises(BadInputError, match="another run"):
        list(journal.load(HEADER))


@settings(deadline=None, max_examples=60)
@given(st.lists(st.binary(max_size=40), max_size=3))
def test_any_journal_is_taken_or_refused(tmp_path_factory: Any, lines: list[bytes]) -> None:
    journal = RunJournal(tmp_path_factory.mktemp("journal") / "run.part")
    journal.path.write_bytes(b"\n".join([json.dumps(HEADER).encode(), *lines, b""]))
    with contextlib.suppress(BadInputError):
        list(journal.load(HEADER))
