"""Look, decide, act, look again: until the machine is what was wished for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .decide import Plan, decide
from .errors import RaidError
from .model import Machine, Wish
from .steps import Step
from .wish import checked

_ROUNDS = 6
"""Assemble, create, format, files: more than there are kinds of steps that need a new look."""


_LATE = "what else there is to do shows once the array is assembled"


@dataclass(frozen=True)
class Outcome:
    """What was done, or in check mode would be, and the plan that was left at the end."""

    steps: tuple[Step, ...]
    plan: Plan
    warnings: tuple[str, ...] = ()
    """Of all looks: some are about what is over when the run ends."""

    @property
    def changed(self) -> bool:
        """Whether there was anything to do."""
        return bool(self.steps)


def converge(
    wish: Wish,
    *,
    look: Callable[[Wish], Machine],
    act: Callable[[Step], None],
    check: bool = False,
) -> Outcome:
    """Bring the machine to the wish, or with ``check`` only say what that would take.

    The end is a look that finds nothing left to do. Raises :class:`Refusal`, and :class:`RaidError`
    where a step fails or does not help; each names the steps that were done before it.
    """
    checked(wish)
    done: list[Step] = []
    plan = decide(look(wish), wish)
    if check:
        return Outcome(plan.steps, plan, (*plan.warnings, *([_LATE] if plan.more else ())))
    # As a set that keeps its order.
    warnings = dict.fromkeys(plan.warnings)
    try:
        for _ in range(_ROUNDS):
            if not plan.steps:
                break
            for step in plan.now:
                act(step)
                done.append(step)
            plan = decide(look(wish), wish)
            warnings.update(dict.fromkeys(plan.warnings))
        if plan.steps:
            left = "; ".join(step.text for step in plan.steps)
            raise RaidError(
                f"expected nothing left to do, found still: {left}; look at the kernel's log"
            )
    except RaidError as error:
        error.done = tuple(step.text for step in done)
        raise
    return Outcome(tuple(done), plan, tuple(warnings))
