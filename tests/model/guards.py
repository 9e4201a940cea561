"""Every guard turned around, one at a time: what the search says to that.

``python -m tests.model.guards [--module NAME]`` runs them all and prints each search's answer. What
no search shows is printed last: such a guard keeps no promise of the model's (docs/model.md says
what the model leaves out), or the model is too small for it. Hours, most of them for those.
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections.abc import Iterator
from types import ModuleType

from eraser.gate import counters, intake, rest, revocation, rules
from quarantine import decide, receipts
from tests.model import mutate
from tests.model.control import Control
from tests.model.host import Host
from tests.model.mutate import Guard
from tests.model.protocol import Config, Protocol
from tests.model.search import Found

MODULES: tuple[ModuleType, ...] = (
    *(decide, receipts),
    *(rules, intake, revocation, counters, rest),
)
"""Where it is decided who gets a drive, and which drive is erased."""

SEARCHES: tuple[Config, ...] = (
    Config("nothing goes wrong"),
    Config("suspend", frozenset({"suspend"}), 1),
    Config("ghost", frozenset({"ghost"}), 1),
    Config("elsewhere", frozenset({"absence", "elsewhere"}), 2),
    Config("exchange", frozenset({"absence"}), 1, drives=2),
    Config("typo", frozenset({"typo"}), 1),
    Config("operator", frozenset({"operator"}), 1),
    Config("reinstall", frozenset({"reinstall"}), 1),
    Config("amnesia", frozenset({"amnesia"}), 1),
)
"""In the order of their size. All guards go through one before the undecided go through the next:
most are decided in seconds, and a run that is broken off has said what it could."""


def protocol(config: Config, guard: Guard) -> Protocol:
    """The protocol with that one guard turned around."""
    changed = {m.__name__: m for m in MODULES}
    copy = mutate.inverted(changed[guard.module], guard)
    if guard.module == decide.__name__:
        return Protocol(config, control=Control(copy.decide))
    if guard.module == receipts.__name__:
        return Protocol(config, control=Control(decide.decide, judge=copy))
    if guard.module == counters.__name__:
        gate, tickets = mutate.copied(rules), mutate.copied(intake)
        gate.since_intake = copy.since_intake  # type: ignore[attr-defined]
        gate.since_rest = copy.since_rest  # type: ignore[attr-defined]
        tickets.since_report = copy.since_report  # type: ignore[attr-defined]
        return Protocol(config, host=Host(gate, tickets))
    parts = {
        rules.__name__: "gate",
        intake.__name__: "tickets",
        revocation.__name__: "taking",
        rest.__name__: "resting",
    }
    return Protocol(config, host=Host(**{parts[guard.module]: copy}))


def verdict(config: Config, guard: Guard) -> str:
    """The counter-example that the search finds without the guard; empty where it finds none."""
    try:
        tried = protocol(config, guard)
        found = tried.run()
    except Exception as error:
        # A guard that keeps the code from its own mistake is one too.
        return f"the code breaks: {type(error).__name__}: {error}"
    if isinstance(found, Found):
        return str(found)
    stuck = next(found.stuck(tried.good), None)
    if stuck is None:
        return ""
    return "\n".join(["no way back to the pool after:", *found.trace(stuck)])


def every() -> Iterator[Guard]:
    """All guards of all modules."""
    for module in MODULES:
        yield from mutate.guards(module)


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.guards", description=__doc__)
    parser.add_argument("--module", help="only guards of the module whose name ends so")
    parser.add_argument("--traces", action="store_true", help="print the counter-examples")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    undecided = [g for g in every() if g.module.endswith(chosen.module or "")]
    for config in SEARCHES:
        undecided = [g for g in undecided if not shown(config, g, chosen.traces)]
    for guard in undecided:
        print(f"NOTHING FOUND  {guard}")
    return 1 if undecided else 0


def shown(config: Config, guard: Guard, traces: bool) -> bool:
    """Whether this search shows what the guard is worth; prints what it found."""
    began = time.process_time()
    found = verdict(config, guard)
    first = found.splitlines()[0] if found else "nothing"
    print(f"{time.process_time() - began:6.1f} s  {config.name:20} {guard}: {first}", flush=True)
    if traces and found:
        print(found, flush=True)
    return bool(found)


if __name__ == "__main__":
    sys.exit(main())
