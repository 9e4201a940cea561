"""``nvme-bench`` as it is called: exit codes, one line for each error, what it leaves behind."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
import zipapp
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import jsonschema
import pytest

import qualify
from qualify import bench
from qualify.cli import app as cli
from qualify.errors import BadInputError
from qualify.fio.fiojson import Sample
from qualify.fio.presets import PRESETS
from qualify.fio.workload import MIB, Cell, Load
from qualify.host import machine, target
from qualify.progress import ProgressBar, clock
from qualify.report import words
from qualify.results import reading
from qualify.rounds.journal import RunJournal
from qualify.rounds.plan import Plan
from tests.unit.qualify.results import made, rate, sample

SHORT = ["--size", "4M", "--seconds", "1", "--rounds", "1", "--jobs", "1"]


def test_a_run_leaves_a_result_a_page_and_nothing_else(
    room: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result, html = tmp_path / "r.json", tmp_path / "r.html"
    argv = ["run", "quick", str(room), *SHORT, "-o", str(result), "--html", str(html)]

    assert cli.main(argv) == 0

    said = capsys.readouterr()
    assert "IOPS (columns: reads/writes in percent)" in said.out
    assert "level by reads: " in said.out
    assert "of the i1 array's 2,374k IOPS" in said.out
    assert "round 1 4K 0/100" in said.err
    assert list(room.iterdir()) == []
    assert sorted(path.name for path in tmp_path.iterdir() if path != room) == ["r.html", "r.json"]
    found = reading.read(result)
    assert {cell.cell for cell in found.cells} == set(PRESETS["quick"].cells)
    assert all(cell.iops > 0 for cell in found.cells)
    assert found.asked.filled
    assert found.steady is None  # one round says nothing
    schema = json.loads(Path(qualify.__file__).with_name("result.schema.json").read_text())
    jsonschema.Draft202012Validator(schema).validate(json.loads(result.read_text()))
    assert found.cost.bench_cpu < found.cost.wall

    before = result.read_bytes()
    assert cli.main(argv) == 2
    assert "is there already" in capsys.readouterr().err
    assert result.read_bytes() == before


def test_the_bench_is_no_load_of_its_own(room: Path, tmp_path: Path) -> None:
    """It waits for fio; a process of its own, because what this one needs is pytest's."""
    result = tmp_path / "r.json"
    argv = ["run", "quick", str(room), *SHORT, "-o", str(result)]
    program = "import sys; from qualify.cli.app import main; sys.exit(main(sys.argv[1:]))"
    subprocess.run([sys.executable, "-c", program, *argv], check=True, capture_output=True)
    cost = reading.read(result).cost
    assert 0 < cost.bench_memory < 64 * MIB


def test_a_device_is_read_only_where_that_is_asked_for(
    loop, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    device, output = loop(8), tmp_path / "r.json"
    content = bytes(range(256)) * 32768
    Path(device).write_bytes(content)
    argv = ["run", "quick", device, "--readonly", "--seconds", "1", "--rounds", "1", "-f", "json"]

    assert cli.main([*argv, "-o", str(output)]) == 0

    found = json.loads(capsys.readouterr().out)
    assert [(cell["block"], cell["reads"]) for cell in found["cells"]] == [
        (MIB, 100),
        (4096, 100),
    ]
    assert any("not written first" in note for note in found["notes"])
    assert Path(device).read_bytes() == content


def test_a_device_is_not_written_without_a_word(
    loop, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    device = loop(8)
    content = bytes(range(256)) * 32768
    Path(device).write_bytes(content)

    assert cli.main(["run", "quick", device, *SHORT, "-o", str(tmp_path / "r.json")]) in (2, 3)
    assert Path(device).read_bytes() == content
    assert not list(tmp_path.glob("r.json*"))


def test_the_sources_preset_runs_its_line(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A stand-in for fio notes its options and answers with what the real one once said."""
    answer = Path(__file__).parent / "samples/fio-3.33-mixed.json"
    program = tmp_path / "bin" / "fio"
    program.parent.mkdir()
    program.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >{tmp_path}/argv\n'
        f'for last; do :; done\ntouch {room}/test.3.0\ncp {answer} "${{last#--output=}}"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:/usr/bin:/bin")

    assert cli.main(["run", "i1-write", str(room), "-o", str(tmp_path / "r.json")]) == 0

    line = " ".join(["fio", *(tmp_path / "argv").read_text().split()])
    assert line.startswith(
        "fio --bs=4k --direct=1 --rw=randwrite --randrepeat=0 --ioengine=libaio --iodepth=32 "
        "--runtime=120 --group_reporting --time_based --filesize=64m --numjobs=32 "
        f"--name={room}/test --output-format=json+ --output="
    )
    found = reading.read(tmp_path / "r.json")
    assert (found.asked.depth, found.asked.jobs, found.asked.filled) == (32, 32, False)
    assert list(room.iterdir()) == []


def test_a_result_is_on_the_disk_before_its_journal_goes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two a power cut would have taken a run of hours."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        synced.append(os.readlink(f"/proc/self/fd/{descriptor}"))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    bench.write(tmp_path / "r.json", made())
    assert synced == [str(tmp_path / "r.json.new"), str(tmp_path)]
    assert reading.read(tmp_path / "r.json").text() == made().text()


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (["run", "i1-read", ".", "--seconds", "5"], "the source's own line"),
        (["run", "i1-read", ".", "--depth", "32"], "expected no --depth"),
        (["run", "i1-write", ".", "--jobs", "2"], "expected no --jobs"),
        (["run", "i1-write", ".", "--engine", "io_uring"], "expected no --engine"),
        (["run", "i1-write", ".", "--no-fill"], "expected no --no-fill"),
        (["run", "quick", "/nonexistent/place"], "No such file"),
        (["run", "quick", ".", "--readonly"], "needs a device or a file"),
        (["run", "quick", ".", "--mix-70-30", "--size", "0"], "expected a size"),
        (["run", "quick", ".", "--jobs", "0"], "expected a number"),
        (["run", "nothing", "."], "invalid choice"),
        (["run", "quick", ".", "--size", "9999T"], "smaller --size"),
        (["show", "/nonexistent.json"], "expected a result"),
        (["compare", "/dev/zero", "/dev/zero"], "expected"),
        (["grade", "--size", "0", "--iops", "1", "--throughput", "1"], "above 0"),
        (
            ["grade", "--size=1", "--iops=1", "--throughput=1", "--tolerance=nan"],
            "percent from 0 on, found 'nan'",
        ),
        (["dance"], "invalid choice"),
    ],
)
def test_bad_input_is_one_line(
    argv: list[str],
    says: str,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(argv) == 2

    said = capsys.readouterr()
    assert says in said.err
    assert said.err.count("\n") == 1
    assert said.out == ""
    assert list(tmp_path.iterdir()) == []


def test_no_fio_is_one_line(
    room: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert cli.main(["run", "quick", str(room), *SHORT, "-o", str(tmp_path / "r.json")]) == 6
    assert "install the package fio" in capsys.readouterr().err
    assert not (tmp_path / "r.json.part").exists()


def test_compare_has_an_exit_code_for_ci(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    a, b, html = tmp_path / "a.json", tmp_path / "b.json", tmp_path / "c.html"
    a.write_text(made().text())
    b.write_text(made(lambda number, cell: rate(number, cell) * 0.8).text())

    assert cli.main(["compare", str(a), str(a)]) == 0
    assert cli.main(["compare", str(b), str(a)]) == 0
    assert cli.main(["compare", str(a), str(b), "--tolerance", "25"]) == 0
    capsys.readouterr()
    assert cli.main(["compare", str(a), str(b), "--html", str(html), "-f", "json"]) == 7
    found = json.loads(capsys.readouterr().out)
    assert found["passed"] is False
    assert found["worst"]["ratio"] == pytest.approx(0.8)
    assert "slower" in html.read_text()
    assert cli.main(["compare", str(a), str(b)]) == 7
    assert "worst cell: " in capsys.readouterr().out


def test_show_prints_what_run_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "r.json"
    evil = "\x1b[2J"
    result = made(description=f"{evil} a drive")
    assert result.grades.reads is not None
    reads = replace(result.grades.reads, name=evil)
    hostile = replace(result, notes=(evil,), grades=replace(result.grades, reads=reads))
    file.write_text(hostile.text())

    assert cli.main(["show", str(file)]) == 0
    said = capsys.readouterr().out
    assert "steady over rounds 1 to 5 by 4K 0/100" in said
    assert "\x1b" not in said
    assert cli.main(["show", str(file), "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(file.read_text())


def test_grade_of_any_figures(capsys: pytest.CaptureFixture[str]) -> None:
    argv = ["grade", "--size", "256", "--throughput", "2000"]

    assert cli.main([*argv, "--iops", "30900"]) == 0
    assert "VPU 50): promises 30,720 IOPS" in capsys.readouterr().out
    assert cli.main([*argv, "--iops", "400"]) == 8
    assert "below every level: the smallest promises 512 IOPS" in capsys.readouterr().out


@pytest.mark.parametrize("verb", ["run", "show", "compare", "grade"])
def test_help_of_every_verb(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([verb, "--help"])
    assert ended.value.code == 0
    assert "exit codes:" in capsys.readouterr().out


def test_it_runs_as_one_file_without_the_project(tmp_path: Path) -> None:
    """As docs/bench.md makes it for a tenant."""
    tree, program = tmp_path / "tree", tmp_path / "nvme-bench"
    here = Path(qualify.__file__).parent
    shutil.copytree(here, tree / "qualify", ignore=shutil.ignore_patterns("__pycache__"))
    (tree / "__main__.py").write_text(
        "import sys\nfrom qualify.cli.app import main\nsys.exit(main())\n"
    )
    zipapp.create_archive(tree, program, interpreter="/usr/bin/env python3")
    result = tmp_path / "r.json"
    result.write_text(made().text())

    done = subprocess.run(
        [sys.executable, "-I", program, "show", result, "--html", tmp_path / "r.html"],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "r.html").read_text().endswith("</html>\n")
    assert (
        subprocess.run([sys.executable, "-I", program, "grade"], capture_output=True).returncode
        == 2
    )


class Fakes:
    """Measures by a rule instead of by fio: for the bench's own logic."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
        self.calls: list[tuple[str, ...]] = []
        self.fail_at = 0
        self.wild = True
        monkeypatch.setattr(bench.fiorun, "run", self.run)
        monkeypatch.setattr(bench.fiorun, "find", lambda: "/usr/bin/fio")
        self.seen = target.look(str(tmp_path))

    def run(
        self, options: tuple[str, ...], tick: Callable[[float], None], **_more: object
    ) -> Sample:
        self.calls.append(options)
        tick(0.0)
        if len(self.calls) == self.fail_at:
            raise KeyboardInterrupt
        cell = Cell(4096, 0 if "--rw=randwrite" in options else 100)
        rounds = sum("--rw=randwrite" in options for options in self.calls)
        return sample(1000.0 + (500.0 * (rounds % 2) if rounds <= 3 and self.wild else 0), cell)

    def request(self, **more: object) -> bench.Request:
        preset = replace(PRESETS["quick"], cells=(Cell(4096, 100), Cell(4096, 0)), rounds=(5, 25))
        return replace(bench.Request(preset, self.seen, MIB, Load(), 1, (5, 25)), **more)


@pytest.fixture
def fakes(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Fakes:
    return Fakes(monkeypatch, tmp_path)


def test_rounds_go_on_until_the_target_is_steady(fakes: Fakes, tmp_path: Path) -> None:
    found = bench.run(
        fakes.request(), RunJournal(tmp_path / "p"), False, ProgressBar(io.StringIO(), 1)
    )

    # The third round was the last wild one: rounds 4 to 8 are steady.
    assert found.steady is not None
    assert (found.steady.state.first, found.steady.state.last) == (4, 8)
    assert found.steady.state.reached
    assert len(fakes.calls) == 1 + 2 * 8
    assert "--rw=write" in fakes.calls[0]  # filled once, before all


def test_a_run_that_never_got_steady_has_no_level_for_programs_either(
    fakes: Fakes, tmp_path: Path
) -> None:
    """The page and the table named none, and the result did."""
    request = fakes.request(rounds=(5, 5))
    found = bench.run(request, RunJournal(tmp_path / "p"), False, ProgressBar(io.StringIO(), 1))

    assert found.unsteady
    assert (found.grades.reads, found.grades.every_mix) == (None, None)
    assert found.grades.i1_read is not None


def test_the_figure_beside_a_cell_is_its_own(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = io.StringIO()
    monkeypatch.setattr(said, "isatty", lambda: True)
    monkeypatch.setenv("COLUMNS", "200")
    found = bench.run(fakes.request(), RunJournal(tmp_path / "p"), False, ProgressBar(said, 1))
    rounds = {str(cell.cell): cell.rounds for cell in found.cells}
    line = r"round (\d+) (\S+ [\d/]+), \S+ left(?:, ([\d,]+) IOPS in round (\d+))?"
    shown = re.findall(line, said.getvalue())
    assert len(shown) == 2 * 8
    for number, cell, figure, before in shown:
        if number == "1":
            assert figure == "", "nothing is known of it yet"
        else:
            assert int(before) == int(number) - 1
            assert figure == f"{rounds[cell][int(before) - 1]:,.0f}"


def test_a_run_goes_on_where_it_was_interrupted(fakes: Fakes, tmp_path: Path) -> None:
    fakes.wild = False
    journal, request = RunJournal(tmp_path / "p"), fakes.request()
    fakes.fail_at = 5
    with pytest.raises(KeyboardInterrupt):
        bench.run(request, journal, False, ProgressBar(io.StringIO(), 1))
    assert len(journal.path.read_bytes().splitlines()) == 1 + 3

    found = bench.run(request, journal, True, ProgressBar(io.StringIO(), 1))

    assert [len(cell.rounds) for cell in found.cells] == [5, 5]
    assert found.cost.wall >= sum(entry.wall for entry in journal.load(request.header())) > 0
    # What was asked for, the one that was cut, and the file of the second try is filled again.
    assert len(fakes.calls) == 2 + 10 + 1
    with pytest.raises(BadInputError, match="another run"):
        bench.run(replace(request, size=2 * MIB), journal, True, ProgressBar(io.StringIO(), 1))


def test_a_run_does_not_go_on_with_another_drive_of_the_same_name(
    fakes: Fakes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its cells would be half of one drive and half of another."""
    drive = ["eui.1"]
    monkeypatch.setattr(target, "identity", lambda _target: drive[0])
    journal, request = RunJournal(tmp_path / "p"), fakes.request()
    fakes.fail_at = 5
    with pytest.raises(KeyboardInterrupt):
        bench.run(request, journal, False, ProgressBar(io.StringIO(), 1))
    drive[0] = "eui.2"
    with pytest.raises(BadInputError, match="another run"):
        bench.run(request, journal, True, ProgressBar(io.StringIO(), 1))
    assert len(fakes.calls) == 5, "nothing was written to it"


def test_an_unfinished_run_is_seen_before_anything_is_written(fakes: Fakes, tmp_path: Path) -> None:
    journal = RunJournal(tmp_path / "p")
    journal.begin({})
    with pytest.raises(BadInputError, match="--resume"):
        bench.run(fakes.request(), journal, False, ProgressBar(io.StringIO(), 1))
    assert fakes.calls == []


def test_bins_of_old_rounds_are_let_go(fakes: Fakes, tmp_path: Path) -> None:
    kept: list[object] = []
    entries = [
        bench.Entry(n, Cell(4096, 100), sample(1000.0, Cell(4096, 100))) for n in range(1, 8)
    ]
    for entry in entries:
        kept.append(entry)
        bench._let_go(kept, Cell(4096, 100))

    assert [bool(entry.sample.read.latency.bins) for entry in kept] == [False] * 2 + [True] * 5


def test_readonly_plans_only_reads(fakes: Fakes) -> None:
    assert fakes.request(readonly=True).plan == Plan((Cell(4096, 100),), (5, 25), Cell(4096, 100))
    with pytest.raises(BadInputError, match="only writes"):
        _ = fakes.request(readonly=True, preset=PRESETS["i1-write"]).plan


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_has_a_bar_with_the_time_that_is_left() -> None:
    stream = Terminal()
    progress = ProgressBar(stream, 60)
    progress.start("round 1 4K 100/0")
    progress.show(10, 20, 30.0, ", 912 IOPS")
    progress.close()

    line = stream.getvalue()
    assert line.startswith("\r\x1b[K[############............]  52% round 1 4K 100/0, 9:30 left")
    assert line.endswith("\n")


def test_elsewhere_a_line_per_tenth() -> None:
    stream = io.StringIO()
    progress = ProgressBar(stream, 1)
    for done in range(100):
        progress.show(done, 100, 0.0)
    assert len(stream.getvalue().splitlines()) == 10


@pytest.mark.parametrize(("seconds", "text"), [(0, "0:00"), (59.6, "1:00"), (3723, "1:02:03")])
def test_clocks(seconds: float, text: str) -> None:
    assert clock(seconds) == text


@pytest.mark.parametrize(
    ("say", "value", "text"),
    [
        (words.count, 2_374_000, "2,374k"),
        (words.count, 57_600, "57.6k"),
        (words.count, 912.4, "912"),
        (words.count, 3.14, "3.1"),
        (words.throughput, 9_725_000_000, "9.72 GB/s"),
        (words.throughput, 320_000_000, "320 MB/s"),
        (words.latency, 412_000, "412 us"),
        (words.latency, 3_490_000, "3.49 ms"),
        (words.latency, 700, "700 ns"),
        (words.size, 7_200 * 10**9, "7.2 TB"),
        (words.change, 0.888, "-11.2 %"),
        (words.change, 0.9999, "0.0 %"),
        (words.brief, "75.0k", "75k"),
        (words.brief, "1.50 GB/s", "1.5 GB/s"),
        (words.brief, "100k", "100k"),
    ],
)
def test_figures_for_people(say, value: object, text: str) -> None:
    assert say(value) == text


def test_the_machine() -> None:
    found = machine.machine()

    assert found.cpus >= 1
    assert found.cpu
    assert re.match(r"\d+\.", found.kernel)
    assert machine.own_memory() > MIB
