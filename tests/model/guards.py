"""Every guard turned around, one at a time: a history that breaks a promise without it.

``witnesses.json`` has the histories, ``tests/model/test_guards.py`` replays them. ``--find NAME``
looks for those of the guards with NAME in their name (anew, where one is there), ``--missing`` for
all that are neither witnessed nor explained in ``unwitnessed.json``; minutes for each.
"""

from __future__ import annotations

import argparse
import enum
import json
import logging
import sys
import time
from dataclasses import asdict
from pathlib import Path

from tests.model import house, meter
from tests.model.hunt import Hunt, Witness
from tests.model.mutate import Guard
from tests.model.parts import WiredParts
from tests.model.protocol import ALL, Config
from tests.model.replay import replay
from tests.model.systems import AnyConfig, made

HERE = Path(__file__).parent
WITNESSES = HERE / "witnesses.json"
UNWITNESSED = HERE / "unwitnessed.json"

CONFIGS: dict[str, AnyConfig] = {
    config.name: config
    for config in (
        Config("nothing goes wrong"),
        Config("suspend", frozenset({"suspend"}), 1),
        Config("ghost", frozenset({"ghost"}), 1),
        Config("elsewhere", frozenset({"absence", "elsewhere"}), 2),
        Config("exchange", frozenset({"absence"}), 1, drives=2),
        Config("typo", frozenset({"typo", "absence", "operator"}), 2),
        Config("operator", frozenset({"operator"}), 2),
        Config("reinstall", frozenset({"reinstall"}), 1),
        Config("amnesia", frozenset({"amnesia"}), 1),
        Config("moved", frozenset({"absence"}), 2, hosts=2),
        meter.Config("counters"),
        meter.Config("counters of a drive that was away", 1),
        meter.Config("a blind host", 1, blind=True),
        house.Config("two drives"),
        house.Config("drives attached by hand", frozenset({"attach"}), 1),
        house.Config("words of people", frozenset({"word", "by hand"}), 2, guests=2, slots=1),
        house.Config("guests before the gate", frozenset({"unseen"}), 1, adopted=True),
        Config("everything", ALL, 3, drives=2),
    )
}
"""What the histories are in, and are looked for in this order."""


def witnesses() -> dict[str, Witness]:
    """The histories that were found, by the names of their guards."""
    kept = json.loads(WITNESSES.read_text(encoding="utf-8"))
    return {
        name: Witness(each["config"], each["broken"], tuple(each["history"]))
        for name, each in kept.items()
    }


class Reason(enum.StrEnum):
    """Why the model has no history for a guard."""

    EQUIVALENT = "equivalent"
    """Turned around it changes nothing, in the model or outside: other guards are there first."""
    WORDS = "words"
    """It changes what people read, and no step."""
    COST = "cost"
    """It saves work or time; what happens in the end is the same."""
    OUTSIDE = "outside"
    """It is about something that the model does not have; the line says what, and what tests it."""


def unwitnessed() -> dict[str, dict[str, str]]:
    """The guards without a history: a reason each, and in a line why."""
    found: dict[str, dict[str, str]] = json.loads(UNWITNESSED.read_text(encoding="utf-8"))
    return found


def keep(found: dict[str, Witness]) -> None:
    """Writes them down."""
    kept = {name: asdict(found[name]) for name in sorted(found)}
    text = json.dumps(kept, indent=1, ensure_ascii=False) + "\n"
    WITNESSES.write_text(text, encoding="utf-8")


def main(arguments: list[str] | None = None) -> int:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.model.guards", description=__doc__)
    which = parser.add_mutually_exclusive_group(required=True)
    which.add_argument("--find", metavar="NAME", help="guards with this in their name")
    which.add_argument(
        "--missing", action="store_true", help="guards with neither history nor reason"
    )
    parser.add_argument("--pool", type=int, default=6000, help="states to begin at")
    parser.add_argument("--limit", type=int, default=1500, help="states beyond them, of each guard")
    parser.add_argument("--config", choices=CONFIGS, help="look in this one alone")
    chosen = parser.parse_args(arguments)
    logging.disable(logging.CRITICAL)
    parts, found = WiredParts(), witnesses()
    if chosen.missing:
        found = {name: each for name, each in found.items() if holds(parts, name, each)}
    explained = unwitnessed()
    wanted = [
        guard
        for guard in parts.guards
        if (chosen.find in str(guard) if chosen.find else str(guard) not in {*found, *explained})
    ]
    for config in [CONFIGS[chosen.config]] if chosen.config else CONFIGS.values():
        if wanted:
            hunt = Hunt(parts, config, chosen.pool)
            print(f"{len(wanted)} guards: {config.name}", flush=True)
            wanted = [guard for guard in wanted if not hunted(hunt, guard, found, chosen.limit)]
    keep(found)
    return 1 if wanted else 0


def holds(parts: WiredParts, name: str, witness: Witness) -> bool:
    """Whether a history that was kept still breaks the same without its guard."""
    bits = {str(guard): bit for guard, bit in parts.guards.items()}
    parts.switch.turned = bits.get(name, 0)
    try:
        found = replay(made(CONFIGS[witness.config], parts), witness.history)
    finally:
        parts.switch.turned = 0
    return found.broken == witness.broken and found.took == len(witness.history)


def hunted(hunt: Hunt, guard: Guard, found: dict[str, Witness], limit: int) -> bool:
    """Whether a history was found; it is kept, and printed in one line."""
    began = time.process_time()
    witness = hunt.find(hunt.parts.guards[guard], limit)
    if witness is not None:
        found[str(guard)] = witness
        keep(found)
    took = time.process_time() - began
    what = f"{witness.broken}, {len(witness.history)} events" if witness else "nothing"
    print(f"{took:5.1f} s  {hunt.differs:4} differ  {guard}: {what}", flush=True)
    return witness is not None


if __name__ == "__main__":
    sys.exit(main())
