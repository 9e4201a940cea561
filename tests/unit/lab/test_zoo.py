"""What the zoo makes of results, without running a drive."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.zoo import page, result
from benchmarks.zoo.eraser import _read
from benchmarks.zoo.result import Result
from tests.lab.guest.payload import REPOSITORY
from tests.lab.nvme.presetkind import Expected
from tests.lab.nvme.presets import PRESETS

GOOD = Result(
    preset="honest",
    about="a drive",
    expected=Expected.ERASED,
    verdict="erased",
    fit=True,
    seconds=1.5,
    commands=80,
    leaked_blocks=0,
    left_blocks=0,
    tenant_blocks=3328,
    outcome="completed",
    achieved="Purge",
    resumed=0,
    hung=False,
    version="1",
)
HELD = replace(
    GOOD, preset="lying", expected=Expected.HELD, verdict="not_erased", fit=False, left_blocks=3328
)


@pytest.mark.parametrize(
    ("one", "wrong"),
    [
        (GOOD, ""),
        (HELD, ""),
        (replace(GOOD, verdict="unknown", reasons=["why"]), "an honest drive was held: why"),
        (replace(GOOD, fit=False), "an honest drive was held: "),
        (replace(GOOD, leaked_blocks=3, left_blocks=3), "3 blocks leaked"),
        (replace(HELD, verdict="erased", fit=True), "a drive that must be held was released"),
        (replace(HELD, hung=True), "it hung"),
    ],
)
def test_what_is_wrong_with_a_result(one: Result, wrong: str) -> None:
    assert one.wrong == wrong


def test_results_are_kept_line_by_line(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "results.jsonl"
    assert result.load(kept) == {}
    for one in (GOOD, HELD, replace(GOOD, seconds=2.0)):
        result.append(kept, one)
    kept.write_text(kept.read_text() + '{"preset": "torn')
    assert result.load(kept) == {"honest": replace(GOOD, seconds=2.0), "lying": HELD}
    assert result.load(kept, only="2") == {}
    assert set(result.load(kept, only="1")) == {"honest", "lying"}


def test_the_figures(tmp_path: Path) -> None:
    held = replace(GOOD, verdict="unknown")
    leak = replace(HELD, verdict="erased", fit=True, leaked_blocks=7)
    assert result.summary([GOOD, HELD, held, leak]) == {
        "presets": 4,
        "expected_erased": 2,
        "honest_held": 1,
        "wrongly_released": 1,
        "leaked_blocks": 7,
        "hangs": 0,
    }


def test_a_drives_own_words_do_no_harm_on_the_page() -> None:
    text = page.page([replace(HELD, reasons=["<script>`|\n\x1b[31m" + "x" * 900])])
    words = text[text.index("## What is said") :]
    assert "<" not in words
    assert "\x1b" not in words
    assert len(words) < 600
    assert text.count("| `lying` |") == 1


def test_the_page_of_the_repository_names_every_drive_of_the_lab() -> None:
    """``python -m benchmarks.zoo -f markdown`` makes it; what was not run yet is named as such."""
    text = (REPOSITORY / "docs/zoo.md").read_text()
    rows = re.findall(r"^\| `([^`]+)` \| (.+?) \| (erased|held) \|", text, re.MULTILINE)
    [waiting] = re.findall(r"nothing is said of them:\*\* (.+)\.$", text, re.MULTILINE) or [""]
    missing = re.findall(r"`([^`]+)`", waiting)
    assert sorted([name for name, _about, _expected in rows] + missing) == sorted(PRESETS)
    assert f"\n**{len(rows)} drives, " in text
    for name, about, expected in rows:
        assert (about, expected) == (PRESETS[name].about, PRESETS[name].expected), name


def test_the_page_names_the_drives_that_were_not_run() -> None:
    assert "Not run yet" not in page.page([GOOD])
    assert "nothing is said of them:** `lying`, `partial`." in page.page(
        [GOOD], ["lying", "partial"]
    )


def test_an_answer_that_is_no_object_is_unknown() -> None:
    answer = _read("", "nvme-eraser: no such drive\n", 1.0)
    assert (answer.verdict, answer.released) == ("unknown", False)
    assert answer.reasons == ("nvme-eraser: no such drive",)


def test_the_version_is_that_of_the_code() -> None:
    assert result.version() == result.version()
    assert len(json.dumps(result.version())) == 18


def test_the_version_is_that_of_the_guest_and_of_the_portraits_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Programs of the guest have no suffix, and a portrait's drive is made from its JSON."""
    files = ("guest/packages.py", "guest/overlay/initramfs/init", "nvme/portraits/p4510.json")
    monkeypatch.setattr(result, "REPOSITORY", tmp_path)
    for name in files:
        path = tmp_path / "tests/lab" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("as it was")
    for name in files:
        before = result.version()
        (tmp_path / "tests/lab" / name).write_text("another")
        assert result.version() != before, name
    before = result.version()
    kept = tmp_path / "tests/lab/guest/__pycache__/packages.cpython-311.pyc"
    kept.parent.mkdir()
    kept.write_bytes(b"compiled")
    assert result.version() == before


def test_a_preset_says_how_it_has_to_end() -> None:
    plain = PRESETS["honest"]
    assert plain.expected is Expected.ERASED
    assert replace(plain, unfit="worn").expected is Expected.HELD
    assert replace(plain, honest=False).expected is Expected.HELD


def test_the_page_says_of_which_code_it_is() -> None:
    one, other = replace(GOOD, version="ab"), replace(GOOD, preset="two", version="cd")
    assert "All of one code, whose digest is `ab`" in page.page([one])
    assert "**Not of one code**: digests `ab`, `cd`." in page.page([one, other])
    assert "whose digest is unknown" in page.page([replace(GOOD, version="")])
