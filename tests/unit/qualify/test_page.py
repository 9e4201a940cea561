"""The pages: whole, self-contained, deaf to what a label says, and drawn from the figures."""

from __future__ import annotations

import re
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from qualify.fio.workload import Cell
from qualify.report import page, scale, svg, table
from qualify.report.surface import Surface
from qualify.results import reading
from qualify.results.compare import compare
from qualify.results.result import Result
from tests.unit.qualify.results import CELLS, made, rate

EVIL = '"><script>x</script>&'


class Reader(HTMLParser):
    """Tags, attributes and text, as a browser would see them."""

    VOID = frozenset({"meta", "br", "link", "img", "hr"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.open: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.text: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text.append(data)


def both(result: Result) -> list[str]:
    other = made(lambda number, cell: rate(number, cell) * (0.7 if cell.reads else 1.2))
    return [
        page.render(result),
        page.render_comparison(result, other, compare(result, other)),
        page.render_comparison(other, result, compare(other, result)),
    ]


def test_markup_in_values_stays_text() -> None:
    result = made(label=EVIL, description=EVIL)
    result = replace(
        result,
        notes=(EVIL,),
        fio=EVIL,
        started_at=EVIL,
        target=replace(result.target, path=EVIL, members=(EVIL,), kind=EVIL),
        asked=replace(result.asked, preset=EVIL, engine=EVIL),
        machine=replace(result.machine, cpu=EVIL, kernel=EVIL),
    )
    for text in both(result):
        reader = Reader(text)
        assert "script" not in reader.tags
        assert EVIL in "".join(reader.text)


def test_nothing_is_fetched_and_nothing_runs() -> None:
    for text in both(made()):
        reader = Reader(text)
        names = {name for name, _value in reader.attributes}
        assert names.isdisjoint({"src", "href", "onload", "onclick", "style"})
        assert "default-src 'none'" in text
        assert not re.search(r"url\(|@import|https?:", text)


def test_every_cell_is_in_the_pictures_and_the_table() -> None:
    reader = Reader(page.render(made()))
    words = "".join(reader.text)

    assert reader.tags.count("polygon") == 36 + 3  # squares of the surface, floor, two walls
    assert reader.tags.count("tr") == 50
    for cell in CELLS:
        assert f"{cell}: " in words


def test_colours_that_are_used_are_defined() -> None:
    for text in both(made()):
        styles = text[: text.index("</style>")]
        used = {
            name
            for value in re.findall(r'class="([^"]+)"', text[len(styles) :])
            for name in value.split()
        }
        wanted = {name for name in used if re.fullmatch(r"[qdm][0-9]", name)}
        assert wanted
        for name in wanted:
            assert f".{name} {{" in styles
            # Light and dark, and paper from the light ones.
            assert styles.count(f"--{name}:") == 2


@pytest.mark.parametrize(
    "cells",
    [
        (Cell(4096, 100),),
        (Cell(4096, 0),),
        (Cell(4096, 100), Cell(2**20, 100)),
        (Cell(4096, 100), Cell(4096, 0)),
        tuple(cell for cell in CELLS if cell != Cell(16384, 50)),
    ],
)
def test_results_of_any_shape_have_a_page(cells: tuple[Cell, ...]) -> None:
    result = made(cells=cells)
    for text in (
        page.render(result),
        page.render_comparison(result, result, compare(result, result)),
    ):
        Reader(text)


def test_a_result_that_contradicts_itself_has_a_page() -> None:
    result = made()
    assert result.steady is not None
    late = replace(
        result, steady=replace(result.steady, state=replace(result.steady.state, first=900))
    )
    cells = tuple(replace(cell, rounds=()) for cell in result.cells)
    for odd in (late, replace(result, cells=cells), replace(result, steady=None)):
        Reader(page.render(reading.parse(odd.text().encode())))


def test_cells_without_any_command_have_a_page() -> None:
    result = made()
    still = tuple(replace(cell, iops=0.0, throughput=0.0) for cell in result.cells)
    for text in both(replace(result, cells=still)):
        Reader(text)


def test_an_emulated_result_says_so_in_colour() -> None:
    assert "notes warn" in page.render(replace(made(), emulated=True))
    assert "notes warn" not in page.render(made())


WILD = made(lambda number, cell: rate(number, cell) * (1 + number % 2))


def test_a_run_that_was_not_steady_shows_no_level() -> None:
    assert WILD.steady is not None
    assert not WILD.steady.state.reached
    shown = page.render(WILD)
    assert "VPU" not in shown
    assert shown.index("not steady") < shown.index("Most IOPS"), "at the top"
    assert "VPU" not in "\n".join(table.lines(WILD))
    assert "no level: the run was not steady" in "\n".join(table.lines(WILD))
    assert page.render(made()).count("VPU") > 1
    assert "steady state not judged" in page.render(replace(made(), steady=None))
    assert "steady state not judged" in "\n".join(table.lines(replace(made(), steady=None)))


def test_the_verdict_names_latency_that_rose() -> None:
    before, after = made(), made(latency=128_000)
    shown = page.render_comparison(before, after, compare(before, after))
    assert "<b>p99 rose</b>" in shown
    assert "p99 rose by more than 10% in 49" in shown
    assert "<b>no slower</b>" in page.render_comparison(before, before, compare(before, before))


@pytest.mark.parametrize(("sizes", "mixes", "drawn"), [(2, 7, False), (3, 2, False), (3, 3, True)])
def test_a_surface_of_two_sizes_says_nothing(sizes: int, mixes: int, drawn: bool) -> None:
    blocks = sorted({cell.block for cell in CELLS})[:sizes]
    reads = sorted({cell.reads for cell in CELLS})[:mixes]
    few = tuple(Cell(block, share) for block in blocks for share in reads)
    assert ("The surface" in page.render(made(cells=few))) is drawn


def test_words_that_are_no_text_do_not_keep_the_page_back(tmp_path: Path) -> None:
    """JSON has halves of surrogate pairs, and a path on Linux any byte; the figures are fine."""
    odd = replace(made(), fio="fio-\ud800", target=replace(made().target, path="/mnt/\udcff"))
    page.write(tmp_path / "page.html", odd)
    assert "/mnt/?" in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_words_in_a_picture_stay_words() -> None:
    drawn = svg.picture(
        1, 1, EVIL, [svg.text(0, 0, EVIL, title=EVIL), svg.dot((0, 0), 1, "", EVIL)]
    )

    assert Reader(drawn).tags == ["svg", "text", "title", "circle", "title"]


def test_a_higher_value_stands_higher() -> None:
    low = Surface({Cell(s, r): 100.0 for s in (4096, 8192) for r in (100, 0)}, 1000)
    high = Surface({Cell(s, r): 900.0 for s in (4096, 8192) for r in (100, 0)}, 1000)

    def heights(text: str) -> list[float]:
        return [float(y) for y in re.findall(r'cy="([0-9.]+)"', text)]

    assert len(heights(high.draw(""))) == 4

    pairs = zip(heights(high.draw("")), heights(low.draw("")), strict=True)
    assert all(above < below for above, below in pairs)


@given(st.floats(1e-3, 1e12))
def test_ticks_hold_what_they_measure(most: float) -> None:
    ticks = scale.linear_ticks(most)

    assert ticks[0] == 0
    assert ticks[-1] >= most * 0.999999
    assert len(ticks) <= 8


@given(st.floats(1, 1e12), st.floats(1, 1e9))
def test_logarithmic_ticks_hold_what_they_measure(least: float, factor: float) -> None:
    ticks = scale.log_ticks(least, least * factor)

    assert ticks[0] <= least * 1.001
    assert ticks[-1] >= least * factor * 0.999
    assert list(ticks) == sorted(ticks)
    assert 2 <= len(ticks) <= 14


@given(st.floats(0, 1e12), st.floats(0, 1e12), st.floats(0, 1e12))
def test_colours_are_always_on_the_ramp(value: float, least: float, most: float) -> None:
    assert 0 <= scale.step(value, least, most) < scale.STEPS
    assert scale.step(least, least, most) == 0


def test_changes_have_colours() -> None:
    found = [scale.ratio_step(ratio) for ratio in (0.1, 0.7, 0.85, 0.95, 1, 1.05, 1.2, 1.5, 3)]

    assert found == list(range(9))
