"""``nvme-bench run``: measures, and leaves a result."""

from __future__ import annotations

import argparse
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Final

from qualify import bench
from qualify.bench import Request
from qualify.cli.output import BenchInterrupted, add_format
from qualify.errors import BadInputError
from qualify.fio.presets import PRESETS, SOURCE_LOAD, Preset
from qualify.fio.workload import EXTRA_MIX, GIB, KIB, MIB, Load, matrix
from qualify.host import target
from qualify.progress import ProgressBar
from qualify.report import table, words
from qualify.results.result import Result
from qualify.rounds.journal import RunJournal

_MAX_JOBS: Final = 32
"""As many as the source had cores: more jobs than processors only wait for each other."""


def size(text: str) -> int:
    """``4K``, ``10G``, plain bytes. Raises ``ArgumentTypeError``."""
    found = re.fullmatch(r"([1-9][0-9]{0,15})([KMGT]?)(?:iB)?", text, re.IGNORECASE)
    if found is None:
        raise argparse.ArgumentTypeError(f"expected a size such as 512M or 10G, found {text!r}")
    units = {"": 1, "K": KIB, "M": MIB, "G": GIB, "T": 1024 * GIB}
    return int(found[1]) * units[found[2].upper()]


def _number(text: str) -> int:
    # isdecimal() alone lets the digits of other scripts in.
    if not (text.isascii() and text.isdecimal() and 0 < int(text) <= 1_000_000):
        raise argparse.ArgumentTypeError(f"expected a number from 1 on, found {text!r}")
    return int(text)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options."""
    width = max(map(len, PRESETS))
    parser.add_argument(
        "preset",
        choices=PRESETS,
        help="; ".join(f"{name:{width}}: {preset.help}" for name, preset in PRESETS.items()),
    )
    parser.add_argument(
        "target",
        help="a directory (a file is made in it and removed again: safe), a block device or a "
        "file (both need --overwrite or --readonly)",
    )
    parser.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="the result (default: nvme-bench-PRESET.json here); it is never overwritten. Keep it "
        "off the target: it is written to between runs",
    )
    parser.add_argument(
        "--html", type=Path, metavar="FILE", help="write the report with its pictures as well"
    )
    parser.add_argument(
        "--overwrite",
        action="store_true",
        help="what is on the device or file is lost. Only for one that is unused: what is mounted, "
        "a member of anything, open, partitioned or has a signature is refused all the same",
    )
    parser.add_argument(
        "--readonly",
        action="store_true",
        help="write nothing and run the cells that only read: for a device in use. Its users slow "
        "the bench down, and it them",
    )
    parser.add_argument(
        "--size",
        type=size,
        metavar="SIZE",
        help="work on the first SIZE of a device, or make a file so large (default: 10G, quick "
        "1G). Raise it above the drive's cache where one is; the whole device is nearest to PTS",
    )
    parser.add_argument(
        "--seconds",
        type=_number,
        help="how long each cell runs in each round (default: 60, quick 2). Lower it for a first "
        "look: a cell of a few seconds sees no garbage collection",
    )
    parser.add_argument(
        "--rounds",
        type=_number,
        metavar="N",
        help="exactly so many rounds (default: 5, then until steady, 25 at most). Below 5 nothing "
        "can be said about steady state",
    )
    parser.add_argument(
        "--mix-70-30",
        action="store_true",
        help="add the mix of 70 %% reads, to compare with fleet figures taken at it",
    )
    parser.add_argument(
        "--engine",
        choices=("libaio", "io_uring"),
        help="fio's engine (default: libaio). That is the source's and compares with its figures; "
        "io_uring costs less CPU a command, for a machine that runs out of it",
    )
    parser.add_argument(
        "--depth",
        type=_number,
        help="commands under way for each job (default: 32, the source's). Lower it to see "
        "latencies that an application with few commands would see",
    )
    parser.add_argument(
        "--jobs",
        type=_number,
        help="processes that send commands (default: one per processor, at most 32). Give the same "
        "number on machines that are to be compared",
    )
    parser.add_argument(
        "--no-fill",
        action="store_true",
        help="do not write the place once before measuring. Only where it was written already: "
        "reads of blocks that nobody wrote are too fast",
    )
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with a run that was interrupted; give the same options again",
    )
    parser.add_argument("--label", default="", help="a name for the report, such as a host's")
    parser.add_argument(
        "--emulated",
        action="store_true",
        help="say in result and report that the figures are of a model, not of hardware",
    )
    add_format(parser)


def run(arguments: argparse.Namespace) -> int:
    """Measures. Raises :class:`~qualify.errors.BenchError`."""
    request = request_of(arguments)
    output: Path = arguments.output or Path(f"nvme-bench-{request.preset.name}.json")
    # Looked for now: hours of measuring must not end at a file that is in the way.
    for path in (output, arguments.html):
        if path is not None and path.exists():
            raise BadInputError(f"{path} is there already; name another by --output or --html")
    journal = RunJournal(output.with_name(output.name + ".part"))
    progress = ProgressBar(sys.stderr, request.seconds)
    try:
        found = bench.run(request, journal, arguments.resume, progress)
    except BenchInterrupted as error:
        progress.close()
        # Without a journal nothing was measured, and --resume would find nothing.
        if journal.path.exists():
            error.args = (f"{error}; the same command with --resume goes on from there",)
        raise
    finally:
        progress.close()
    bench.write(output, found)
    # Last: until the result is there, the run can go on from the journal.
    journal.path.unlink(missing_ok=True)
    if arguments.html is not None:
        _report(arguments.html, found)
    if arguments.format == "json":
        print(found.text(), end="")
    else:
        for line in table.lines(found):
            print(words.printable(line))
        print(f"result: {output}")
    return 0


def _report(path: Path, found: Result) -> None:
    from qualify.report import page

    page.write(path, found)


def request_of(arguments: argparse.Namespace) -> Request:
    """What the options ask for. Raises :class:`BadInputError`."""
    preset: Preset = PRESETS[arguments.preset]
    if preset.source:
        _refuse_changes(arguments)
    if arguments.mix_70_30:
        cells = matrix(extra=True) if preset.name == "matrix" else preset.cells
        # The preset quick has that mix anyway.
        if EXTRA_MIX not in {cell.reads for cell in cells}:
            raise BadInputError("--mix-70-30 belongs to the preset matrix")
        preset = replace(preset, cells=cells)
    seen = target.look(arguments.target)
    wanted = arguments.size or preset.size
    rounds = (arguments.rounds,) * 2 if arguments.rounds else preset.rounds
    if arguments.readonly and seen.kind == target.DIRECTORY:
        raise BadInputError("--readonly needs a device or a file: in a directory one must be made")
    return Request(
        preset,
        seen,
        target.working_size(seen, wanted, arguments.size is not None),
        SOURCE_LOAD if preset.source else _load(arguments),
        arguments.seconds or preset.seconds,
        (rounds[0], rounds[1]),
        readonly=arguments.readonly,
        overwrite=arguments.overwrite,
        fill=not arguments.no_fill,
        label=arguments.label,
        emulated=arguments.emulated,
    )


def _load(arguments: argparse.Namespace) -> Load:
    return Load(
        arguments.engine or SOURCE_LOAD.engine,
        arguments.depth or SOURCE_LOAD.depth,
        arguments.jobs or min(os.cpu_count() or 1, _MAX_JOBS),
    )


def _refuse_changes(arguments: argparse.Namespace) -> None:
    """The source's line is the source's only as long as nothing in it is changed."""
    of_place = ("size", "readonly", "overwrite", "no_fill")
    of_load = ("seconds", "rounds", "mix_70_30", "engine", "depth", "jobs")
    for name in (*of_place, *of_load):
        # Each of them is None or False unless it was given: 0 is no value of any.
        if getattr(arguments, name):
            raise BadInputError(
                f"{arguments.preset} is the source's own line: expected no "
                f"--{name.replace('_', '-')}; use quick or matrix to choose"
            )
