"""Learned durations: bounded, hard to poison, and of use to whoever waits."""

from __future__ import annotations

import dataclasses
import os
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.protocol.policy import Method
from eraser.protocol.report import EraseReport, Outcome, Verdict
from eraser.state import duration_files
from eraser.state.durations import (
    MAX_PER_DRIVE,
    MAX_SAMPLES,
    DurationSample,
    Estimate,
    ModelDurations,
    estimate,
    left,
    patience,
    percentile,
    table,
)
from tests.unit.quarantine.testimony import BLOCK, CRYPTO, IDENTITY, REPORT

CRYPTO_KEY, BLOCK_KEY = Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK
EMPTY = ModelDurations(0x8086, "M", "F", BLOCK_KEY)


def row(*samples: tuple[str, float]) -> ModelDurations:
    made = EMPTY
    for drive, seconds in samples:
        made = made.with_sample(DurationSample(drive, seconds))
    return made


@pytest.mark.parametrize(
    ("values", "share", "expected"),
    [
        ([5], 0.99, 5),
        ([1, 2, 3, 4], 0.5, 2),
        ([1, 2, 3], 0.5, 2),
        (range(1, 101), 0.99, 99),
        (range(1, 101), 0.5, 50),
        ([1, 2], 0.99, 2),
    ],
)
def test_percentiles_are_values_that_were_seen(
    values: list[float], share: float, expected: float
) -> None:
    assert percentile(values, share) == expected


samples = st.lists(
    st.tuples(st.sampled_from("abcdefgh"), st.floats(0, 1e6)), min_size=0, max_size=120
)


@given(samples)
def test_a_row_is_bounded_in_all_and_for_each_drive(given_: list[tuple[str, float]]) -> None:
    made = row(*given_)
    assert len(made.samples) <= MAX_SAMPLES
    drives = [sample.drive for sample in made.samples]
    assert all(drives.count(drive) <= MAX_PER_DRIVE for drive in drives)
    if given_:
        assert made.samples[-1] == DurationSample(*given_[-1]), "the newest is always kept"
        known = estimate(made)
        assert known is not None
        assert known.p50 <= known.p99


@given(samples, st.floats(1, 1e5))
def test_nothing_that_was_learned_shortens_the_policys_patience(
    given_: list[tuple[str, float]], configured: float
) -> None:
    assert configured <= patience(row(*given_), configured) <= 8 * configured


@given(samples, st.lists(st.floats(0, 1e6), min_size=1, max_size=50))
def test_one_lying_drive_cannot_make_others_wait_longer(
    given_: list[tuple[str, float]], lies: list[float]
) -> None:
    """Whatever one more drive says, patience is what the honest slowest would give at most."""
    honest = row(*given_)
    fooled = row(*given_[-(MAX_SAMPLES - MAX_PER_DRIVE) :], *(("liar", lie) for lie in lies))
    most = max((s.seconds for s in honest.samples), default=0.0)
    assert patience(fooled, 100.0) <= max(100.0, 2 * most)


def test_patience_grows_with_three_drives_that_agree() -> None:
    slow = [("a", 1000.0), ("b", 1100.0), ("c", 1200.0)]
    assert patience(row(*slow[:2]), 900) == 900
    assert patience(row(*slow), 900) == 2200, "twice what all but the slowest took"
    assert patience(row(*slow), 3000) == 3000
    assert patience(row(*((d, 1e6) for d in "abc")), 900) == 7200
    assert patience(None, 900) == 900


def test_estimates_for_people() -> None:
    known = Estimate(60, 100, 7, 3)
    assert left(0, 0, None) == ""
    assert left(20, 0, known) == "about 40 s left, 60 s is usual, of 7 erases of this model"
    assert left(20, 0.5, known) == "about 20 s left", "the drive's own progress counts first"
    assert left(70, 0, known) == "70 s so far, 60 s is usual, of 7 erases of this model"
    assert left(101, 0, known).endswith("slower than 99 of 100")
    assert estimate(EMPTY) is None
    assert estimate(None) is None


def test_a_proved_erase_is_learned_by_model_firmware_and_method(tmp_path: Path) -> None:
    duration_files.learn(tmp_path, REPORT)
    duration_files.learn(tmp_path, REPORT)
    found = duration_files.load(tmp_path, IDENTITY, "VDV10131", CRYPTO_KEY)
    assert found is not None
    assert [sample.seconds for sample in found.samples] == [4.2, 4.2]
    assert found.drives == 1
    assert duration_files.load(tmp_path, IDENTITY, "OTHER", CRYPTO_KEY) is None
    other = dataclasses.replace(IDENTITY, vendor_id=1)
    assert duration_files.load(tmp_path, other, "VDV10131", CRYPTO_KEY) is None
    assert [line["method"] for line in table(duration_files.rows(tmp_path))] == [
        "sanitize-block",
        "sanitize-crypto",
    ]


@pytest.mark.parametrize(
    "changes",
    [
        {"verdict": Verdict.UNKNOWN},
        {"verdict": Verdict.NOT_ERASED},
        {"outcome": Outcome.IN_USE},
        {"resumed": 1},
        {"identity": None},
        {"facts_before": None},
        {"methods": (dataclasses.replace(CRYPTO, verdict=Verdict.NOT_ERASED), BLOCK)},
        {"methods": (dataclasses.replace(CRYPTO, adopted=True), BLOCK)},
        {"methods": (CRYPTO, dataclasses.replace(BLOCK, attempts=2))},
        {"methods": ()},
    ],
)
def test_nothing_else_is_learned(tmp_path: Path, changes: dict[str, object]) -> None:
    report: EraseReport = dataclasses.replace(REPORT, **changes)  # type: ignore[arg-type]
    duration_files.learn(tmp_path, report)
    assert duration_files.rows(tmp_path) == ()


def test_damaged_files_cost_an_estimate_and_no_case(tmp_path: Path) -> None:
    duration_files.learn(tmp_path, REPORT)
    for path in (tmp_path / "durations").iterdir():
        path.write_bytes(b'{"samples": [')
    assert duration_files.load(tmp_path, IDENTITY, "VDV10131", CRYPTO_KEY) is None
    assert duration_files.rows(tmp_path) == ()
    duration_files.learn(tmp_path, REPORT)
    assert len(duration_files.rows(tmp_path)) == 2
    blocked = tmp_path / "blocked"
    blocked.mkdir()
    (blocked / "durations").write_text("no directory")
    duration_files.learn(blocked, REPORT)


def test_the_files_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(duration_files, "MAX_FILES", 4)
    facts = REPORT.facts_before
    assert facts is not None
    for n in range(5):
        firmware = dataclasses.replace(facts, firmware=f"EVIL{n}")
        duration_files.learn(tmp_path, dataclasses.replace(REPORT, facts_before=firmware))
        for path in (tmp_path / "durations").glob("*.json"):
            os.utime(path, (n, n)) if path.stat().st_mtime > 1000 else None
    kept = {row.firmware for row in duration_files.rows(tmp_path)}
    assert kept == {"EVIL3", "EVIL4"}
