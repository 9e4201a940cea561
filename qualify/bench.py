"""A run of the bench: rounds of cells until the target is steady, then the result."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final

from qualify import VERSION
from qualify.errors import BadInputError
from qualify.fio import fiorun
from qualify.fio.fiojson import Sample
from qualify.fio.histogram import Histogram
from qualify.fio.presets import SOURCE_LOAD, Preset, source_options
from qualify.fio.workload import MIB, Cell, Load, Place, cell_options, fill_options
from qualify.host import machine, target
from qualify.host.target import Target
from qualify.progress import ProgressBar
from qualify.results import result
from qualify.rounds.journal import Entry, RunJournal
from qualify.rounds.plan import Plan, following, steady
from qualify.rounds.steady import WINDOW

FILL_FLOOR: Final = 20 * MIB
"""Bytes a second that a target must take while it is filled: less is a target that hangs."""


@dataclass(frozen=True)
class Request:
    """What was asked for, checked."""

    preset: Preset
    target: Target
    size: int
    """Bytes."""
    load: Load
    seconds: int
    rounds: tuple[int, int]
    readonly: bool = False
    overwrite: bool = False
    fill: bool = True
    label: str = ""
    emulated: bool = False

    @property
    def plan(self) -> Plan:
        """Its rounds; where nothing may be written, of the cells that only read."""
        cells = self.preset.cells
        if self.readonly:
            cells = tuple(cell for cell in cells if not cell.writes)
        if not cells:
            raise BadInputError(
                f"the preset {self.preset.name} only writes: it cannot run with --readonly"
            )
        return Plan(cells, self.rounds, replace(self.preset, cells=cells).tracked)

    @property
    def fills(self) -> bool:
        """Whether the place is written before anything is measured."""
        return self.fill and not self.readonly and not self.preset.source

    def header(self) -> dict[str, object]:
        """What two runs must share to be one."""
        return {
            "schema": result.SCHEMA,
            "version": VERSION,
            "preset": self.preset.name,
            "cells": [[cell.block, cell.reads] for cell in self.plan.cells],
            "target": self.target.path,
            "identity": target.identity(self.target),
            "capacity": self.target.capacity,
            "size": self.size,
            "load": asdict(self.load),
            "seconds": self.seconds,
            "readonly": self.readonly,
            "fill": self.fills,
        }


Measure = Callable[[Cell, fiorun.Tick], Sample]


def run(
    request: Request, journal: RunJournal, resume: bool, progress: ProgressBar
) -> result.Result:
    """Runs what is left of the request and returns the result.

    Raises :class:`~qualify.errors.BenchError`. Whatever ends it, what was measured is in the
    journal, and what it made on the target is gone.
    """
    plan, header = request.plan, request.header()
    # Before anything is touched: without fio nothing can come of it.
    fiorun.find()
    if not resume:
        journal.check_absent()  # before anything is written to the target
    # From before the target is filled: the first entry's time and cost include that.
    began, cpu_before = time.monotonic(), machine.own_cpu()
    entries: list[Entry] = []
    for entry in journal.load(header) if resume else ():
        entries.append(entry)
        _let_go(entries, entry.cell)
    with _measuring(request, progress) as measure:
        if not resume:
            # The target is held and filled by now: one that was refused leaves no journal.
            journal.begin(header)
        while (step := following(plan, _rates(entries))) is not None:
            number, cell = step
            runs = len(plan.cells) * max(number, plan.rounds[0])
            progress.start(f"round {number} {cell}")
            # The progress line shows what the cell made in its last round.
            before = next((entry for entry in reversed(entries) if entry.cell == cell), None)
            known = f", {before.sample.iops:,.0f} IOPS in round {before.round}" if before else ""
            sample = measure(cell, _ticker(progress, len(entries), runs, known))
            progress.end()
            wall, cpu = time.monotonic(), machine.own_cpu()
            entries.append(Entry(number, cell, sample, wall - began, cpu - cpu_before))
            began, cpu_before = wall, cpu
            # On the disk before the next cell: an interruption loses the one under way alone.
            journal.add(entries[-1])
            _let_go(entries, cell)
    return _result(request, plan, entries, _cost(entries))


def _ticker(progress: ProgressBar, done: int, runs: int, known: str) -> fiorun.Tick:
    return lambda passed: progress.show(done, runs, passed, known)


@contextmanager
def _measuring(request: Request, progress: ProgressBar) -> Iterator[Measure]:
    """How a cell is measured, while the target is held for it."""
    seconds = request.seconds
    if request.preset.source:
        with target.source_files(request.target) as stem:
            options = source_options(request.preset.source, stem)
            # Reads lay their files out first, which fio's run time does not count.
            longest = seconds + request.size / FILL_FLOOR
            yield lambda _cell, tick: fiorun.run(options, seconds=longest, tick=tick)
        return
    with target.held(
        request.target, request.size, readonly=request.readonly, overwrite=request.overwrite
    ) as place:
        # A resumed run fills too: in a directory its file is a new one.
        if request.fills:
            _fill(place, request.load, progress)
        yield lambda cell, tick: fiorun.run(
            cell_options(cell, place, request.load, seconds), seconds=seconds, tick=tick
        )


def _fill(place: Place, load: Load, progress: ProgressBar) -> None:
    progress.start(f"writing {place.size // MIB} MiB once", announce=True)
    fiorun.run(
        fill_options(place, load),
        seconds=place.size / FILL_FLOOR,
        tick=progress.wait,
    )


def _rates(entries: list[Entry]) -> dict[Cell, list[float]]:
    rates: dict[Cell, list[float]] = {}
    for entry in entries:
        rates.setdefault(entry.cell, []).append(entry.sample.iops)
    return rates


def _let_go(entries: list[Entry], cell: Cell) -> None:
    """The bins of a round that has left the window: they are most of what a run keeps."""
    places = [index for index, entry in enumerate(entries) if entry.cell == cell]
    if len(places) > WINDOW:
        # One round leaves with each that comes, so those before it are bare already.
        index = places[-WINDOW - 1]
        sample = entries[index].sample
        bare = replace(
            sample,
            read=replace(sample.read, latency=Histogram({})),
            write=replace(sample.write, latency=Histogram({})),
        )
        entries[index] = replace(entries[index], sample=bare)


def _cost(entries: list[Entry]) -> result.Cost:
    wall = sum(entry.wall for entry in entries)
    cpu = sum(entry.own_cpu for entry in entries)
    return result.Cost(
        wall=wall,
        bench_cpu=cpu,
        bench_share=cpu / wall if wall > 0 else 0.0,
        bench_memory=machine.own_memory(),
        fio_cpu=sum(entry.sample.cpu for entry in entries),
    )


def _result(request: Request, plan: Plan, entries: list[Entry], cost: result.Cost) -> result.Result:
    state = steady(plan, _rates(entries))
    cells = result.cells_of(plan, entries)
    grades = result.grades_of(request.target.capacity, cells)
    if state is not None and not state.reached:
        # Also for programs, which read this and no page.
        grades = replace(grades, reads=None, every_mix=None)
    source = bool(request.preset.source)
    load = SOURCE_LOAD if source else request.load
    now = datetime.datetime.now(datetime.UTC)
    return result.Result(
        schema=result.SCHEMA,
        version=VERSION,
        fio=entries[-1].sample.version,
        label=request.label,
        emulated=request.emulated,
        started_at=(now - datetime.timedelta(seconds=cost.wall)).isoformat(timespec="seconds"),
        target=result.Measured(**asdict(request.target), size=request.size),
        asked=result.Asked(
            request.preset.name,
            load.engine,
            load.depth,
            load.jobs,
            request.seconds,
            request.rounds,
            filled=request.fills,
            readonly=request.readonly,
        ),
        machine=machine.machine(),
        steady=result.SteadyState(plan.tracked.block, plan.tracked.reads, state) if state else None,
        cells=cells,
        grades=grades,
        notes=tuple(_notes(request, entries)),
        cost=cost,
    )


def _notes(request: Request, entries: list[Entry]) -> Iterator[str]:
    """What a reader should know before the figures."""
    if request.emulated:
        yield "Emulated: the figures compare runs on the same lab, and say nothing of hardware."
    if request.preset.source:
        yield "The source's own fio line, once; its steady state is not judged."
    elif not request.fills:
        yield (
            "The target was not written first: reads of blocks that nobody wrote since an erase "
            "are answered without a look at the flash, and are too fast."
        )
    # The most that each disk was busy in any cell.
    busiest = {
        name: max(entry.sample.utilization.get(name, 0.0) for entry in entries)
        for name in entries[-1].sample.utilization
    }
    idle = [f"{name} {busy:.0f} %" for name, busy in sorted(busiest.items()) if busy < 50]
    if idle and not request.preset.source:
        yield f"Disks that were never busy half of the time: {', '.join(idle)}."


def write(path: Path, found: result.Result) -> None:
    """The result in one piece. Raises :class:`BadInputError`."""
    part = path.with_name(path.name + ".new")
    try:
        # Under another name first, so that nobody reads half a result.
        with part.open("w") as file:
            file.write(found.text())
            file.flush()
            # The journal goes next: the result of hours must not be in memory alone then.
            os.fsync(file.fileno())
        part.replace(path)
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(directory)
        finally:
            os.close(directory)
    except OSError as error:
        raise BadInputError(f"cannot write {path}: {error.strerror}") from error
