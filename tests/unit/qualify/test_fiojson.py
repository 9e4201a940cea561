"""fio's answers: a real one to the last figure, and any other without a crash."""

from __future__ import annotations

import contextlib
import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from qualify.errors import FioError
from qualify.fio.fiojson import parse
from qualify.fio.histogram import Histogram

SAMPLES = Path(__file__).parent / "samples"
MIXED = (SAMPLES / "fio-3.33-mixed.json").read_text()


def test_a_real_answer() -> None:
    sample = parse(MIXED)
    job = json.loads(MIXED)["jobs"][0]

    assert sample.version == "fio-3.33"
    for side, plain in ((sample.read, job["read"]), (sample.write, job["write"])):
        assert side.iops == plain["iops"]
        assert side.throughput == plain["bw_bytes"]
        assert side.count == plain["total_ios"] == side.latency.count > 0
        assert side.longest == plain["clat_ns"]["max"]
    assert sample.iops == job["read"]["iops"] + job["write"]["iops"]
    assert sample.cpu > 0
    assert set(sample.utilization) == {disk["name"] for disk in json.loads(MIXED)["disk_util"]}


def test_our_percentiles_of_the_bins_are_fios_own() -> None:
    sample = parse(MIXED)
    job = json.loads(MIXED)["jobs"][0]

    for side, plain in ((sample.read, job["read"]), (sample.write, job["write"])):
        for percent in (50.0, 95.0, 99.0, 99.9, 99.99):
            theirs = plain["clat_ns"]["percentile"][f"{percent:.6f}"]
            # fio takes a bin's middle or its bound, by its version: bins are 1.6 % wide.
            assert side.latency.percentile(percent) == pytest.approx(theirs, rel=0.035)


def test_notes_before_the_object_are_passed_over() -> None:
    assert parse(f"note: both iodepth >= 1 and synchronous I/O\n{MIXED}") == parse(MIXED)


def test_a_job_that_failed_is_an_error_with_its_reason() -> None:
    with pytest.raises(FioError, match="Invalid argument"):
        parse((SAMPLES / "fio-3.33-einval.json").read_text())


def changed(change: Callable[[Any], object]) -> str:
    document = json.loads(MIXED)
    change(document)
    return json.dumps(document)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (lambda d: d["jobs"].clear(), "one group of jobs"),
        (lambda d: d["jobs"].append(d["jobs"][0]), "one group of jobs"),
        (lambda d: d["jobs"][0].pop("read"), "'read'"),
        (lambda d: d["jobs"][0]["read"].update(iops=-1), "0 or more"),
        (lambda d: d["jobs"][0]["read"].update(iops="many"), "a number"),
        (lambda d: d["jobs"][0]["read"].update(iops=True), "a number"),
        (lambda d: d["jobs"][0]["read"].update(iops=10**400), "0 or more"),
        (lambda d: d["jobs"][0]["read"].update(total_ios=1.5), "a count"),
        (lambda d: d["jobs"][0]["write"]["clat_ns"].pop("bins"), "'bins'"),
        (lambda d: d["jobs"][0]["write"]["clat_ns"]["bins"].update({"-4": 1}), "nanoseconds"),
        (lambda d: d["jobs"][0]["write"]["clat_ns"]["bins"].update({"4": -1}), "a count"),
        (
            lambda d: d["jobs"][0]["read"]["clat_ns"].update(
                bins={str(n): 1 for n in range(10_001)}
            ),
            "at most 10000 bins",
        ),
        (lambda d: d.update(disk_util={}), "list of disks"),
        (lambda d: d.update({"fio version": "f" * 101}), "short text"),
    ],
)
def test_what_cannot_be_is_named(change: Callable[[Any], object], says: str) -> None:
    with pytest.raises(FioError, match=says):
        parse(changed(change))


@pytest.mark.parametrize("text", ["", "fio: nothing", "{", "[]", "[" * 100_000, '{"jobs": NaN}'])
def test_no_object_is_one_clear_error(text: str) -> None:
    with pytest.raises(FioError):
        parse(text)


@settings(deadline=None, max_examples=60)
@given(st.integers(0, len(MIXED)), st.binary(max_size=8))
def test_damaged_answers_never_crash(place: int, junk: bytes) -> None:
    text = MIXED[:place] + junk.decode("latin1") + MIXED[place + len(junk) :]
    with contextlib.suppress(FioError):
        sample = parse(text)
        assert sample.iops >= 0
        assert sample.seconds >= 0


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=6,
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inner = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list)
        else ()
    )  # fmt: skip
    return [path, *(p for key, item in inner for p in _paths(item, (*path, key)))]


DOCUMENT = json.loads(MIXED)
PATHS = [path for path in _paths(DOCUMENT) if path and "bins" not in path[:-1]]


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(PATHS), JSON)
def test_any_value_anywhere_is_taken_or_refused(path: tuple[Any, ...], value: object) -> None:
    document = copy.deepcopy(DOCUMENT)
    place = document
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with contextlib.suppress(FioError):
        parse(json.dumps(document))


def test_histograms_add_up() -> None:
    merged = Histogram.merged([Histogram({10: 98, 20: 1}), Histogram({20: 0, 500: 1})])

    assert merged.count == 100
    assert [merged.percentile(p) for p in (50, 98, 99, 99.5)] == [10, 10, 20, 500]
    assert Histogram({}).percentile(99) == 0
