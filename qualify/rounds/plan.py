"""What to run next, from what was run. Pure: an interrupted run goes on by the same rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from qualify.fio.workload import Cell
from qualify.rounds.steady import WINDOW, Steady, judge


@dataclass(frozen=True)
class Plan:
    """Rounds of cells."""

    cells: tuple[Cell, ...]
    rounds: tuple[int, int]
    """Least and most."""
    tracked: Cell
    """The cell that says whether the target is steady."""


Rates = Mapping[Cell, Sequence[float]]
"""IOPS of a cell, round by round."""


def steady(plan: Plan, rates: Rates) -> Steady | None:
    """The tracked cell's last rounds; None before there are enough of them."""
    return judge(rates.get(plan.tracked, ()), WINDOW)


def following(plan: Plan, rates: Rates) -> tuple[int, Cell] | None:
    """The round (from 1) and cell to run; None where the plan is done.

    A round is finished before the next begins. After the least number of rounds the plan is done
    as soon as the target is steady, and after the most in any case.
    """
    counts = {cell: len(rates.get(cell, ())) for cell in plan.cells}
    done = min(counts.values())
    for cell in plan.cells:
        # A round is under way where some cell is ahead of this one.
        if counts[cell] == done and max(counts.values()) > done:
            return done + 1, cell
    if done >= plan.rounds[1]:
        return None
    # Between two rounds, and there alone, it is asked whether that was the last.
    if done >= plan.rounds[0]:
        state = steady(plan, rates)
        # Fewer rounds than a window were asked for: nothing can be said, and no more is wanted.
        if (state is None and plan.rounds[0] == plan.rounds[1]) or (state and state.reached):
            return None
    return done + 1, plan.cells[0]
