"""What will happen in a run, drawn whole from its seed before it begins.

A run is its script: the same one gives the same run, and a shorter one is what a failure is shrunk
to. Each run turns on a random subset of the faults at random rates: a uniform rain of all of them
would hide those that need calm before them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random
from typing import Final, Literal

Mode = Literal["ordinary", "swarm", "liveness"]
MODES: Final[tuple[Mode, ...]] = ("ordinary", "swarm", "liveness")


@dataclass(frozen=True)
class Deed:
    """Something that happens at ``at`` (seconds). ``figures`` are what its kind needs."""

    at: float
    kind: str
    figures: tuple[float, ...] = ()
    words: tuple[str, ...] = ()

    def __str__(self) -> str:
        figures = " ".join(f"{number:g}" for number in self.figures)
        return f"{self.at:9.1f}  {self.kind} {figures} {' '.join(self.words)}".rstrip()


@dataclass(frozen=True)
class Script:
    """One run. Durations are in seconds."""

    seed: int
    mode: Mode
    hosts: int
    slots: int
    """On each host."""
    used: float
    """Share of the slots that tenants have on the day of the enrolment."""
    gate: bool
    """``[gate]required``, and a gate that refuses."""
    patched: bool
    """nova_patch: providers are born reserved."""
    bells: bool
    latency: float
    """Of each request at first."""
    erase: tuple[float, float]
    """The shortest and longest erase."""
    busy: float
    """While deeds happen."""
    end: float
    faults: tuple[str, ...]
    deeds: tuple[Deed, ...] = field(default=())


_PLACES: Final = 1_000_000
"""A deed names a slot or host by a number that is taken modulo how many there are."""


def _window(chance: Random, low: float, high: float) -> tuple[float, ...]:
    return (float(chance.randrange(_PLACES)), chance.uniform(low, high))


FAULTS: Final[dict[str, tuple[float, Callable[[Random], tuple[float, ...]]]]] = {
    # Name: most per hour, and the figures of one deed.
    "trait_dropped": (12, lambda chance: _window(chance, 120, 2400)),
    "placement_empty": (6, lambda chance: (float(chance.randint(1, 2)),)),
    "placement_503": (6, lambda chance: _window(chance, 5, 400)),
    "slow": (3, lambda chance: (chance.choice([0.06, 0.3, 1.0]), chance.uniform(600, 3600))),
    "broker_down": (6, lambda chance: _window(chance, 20, 900)),
    "broker_lost": (3, lambda chance: ()),
    "backlog": (4, lambda chance: _window(chance, 30, 1800)),
    "duplicates": (3, lambda chance: (chance.uniform(0.05, 0.6), chance.uniform(300, 3600))),
    "reorder": (3, lambda chance: (chance.uniform(1, 90), chance.uniform(300, 3600))),
    "crash": (20, lambda chance: (float(chance.randrange(3)), chance.uniform(0.5, 20))),
    "crash_commit": (20, lambda chance: ()),
    "other_release": (4, lambda chance: (float(chance.randrange(_PLACES)),)),
    "reboot": (3, lambda chance: _window(chance, 60, 600)),
    "silence": (4, lambda chance: _window(chance, 60, 1800)),
    "slip": (4, lambda chance: (chance.choice([-1, 1]) * chance.choice([30, 300, 7200, 90000]),)),
    "reserve": (6, lambda chance: (float(chance.randrange(_PLACES)),)),
    "unreserve": (6, lambda chance: (float(chance.randrange(_PLACES)),)),
    "freed": (60, lambda chance: (float(chance.randrange(_PLACES)),)),
    "absent": (3, lambda chance: _window(chance, 60, 900)),
    "lost_answers": (3, lambda chance: (chance.uniform(0.05, 0.5), chance.uniform(300, 3600))),
    "proxy_twice": (3, lambda chance: (chance.uniform(0.05, 0.5), chance.uniform(300, 3600))),
}
BOOT_FAULTS: Final = ("never_burns", "migration", "race")
"""Faults that are a property of a server's life."""
ALL_FAULTS: Final = (*FAULTS, *BOOT_FAULTS)


def draw(
    seed: int, mode: Mode, *, faults: tuple[str, ...] | None = None, small: bool = False
) -> Script:
    """The script of a seed. ``faults``: those and no others; ``small``: short and few."""
    chance = Random(f"{seed}/script/{mode}")
    hosts = chance.randint(1, 2) if small else chance.choice([1, 2, 2, 3, 4])
    slots = chance.randint(1, 3) if small else chance.choice([2, 4, 4, 6, 10])
    hours = chance.uniform(0.4, 0.9) if small else chance.uniform(2, 4)
    if mode == "ordinary":
        chosen: tuple[str, ...] = ("migration", "race")
    elif faults is not None:
        chosen = faults
    else:
        chosen = tuple(name for name in ALL_FAULTS if chance.random() < 0.25)
    crowded = "slow" in chosen and not small
    if crowded:
        # What waits behind long passes is seen where many cases are open and a request is slow.
        hosts, slots, hours = 4, chance.choice([6, 10]), chance.uniform(0.6, 0.9)
    busy = 3600.0 * hours
    settle = {"swarm": 300.0, "ordinary": 3600.0, "liveness": 3 * 3600.0}[mode]
    longest = chance.choice([1200.0, 1800.0] if crowded else [60.0, 300.0, 1200.0, 1800.0])
    deeds = [*_boots(chance, chosen, hosts * slots, busy, hosts), *_weather(chance, chosen, busy)]
    if mode == "ordinary":
        deeds += _ordinary(chance, hosts, busy)
    return Script(
        seed=seed,
        mode=mode,
        hosts=hosts,
        slots=slots,
        used=chance.choice([0.0, 0.3] if crowded else [0.0, 0.3, 0.8]),
        gate=mode == "ordinary" or chance.random() < 0.6,
        patched=mode == "ordinary" or chance.random() < 0.7,
        bells=chance.random() < 0.5,
        latency=chance.choice([0.3, 1.0] if crowded else [0.002, 0.01, 0.03]),
        erase=(longest / 6, longest),
        busy=busy,
        end=busy + settle,
        faults=chosen,
        deeds=tuple(sorted(deeds, key=lambda deed: deed.at)),
    )


def _boots(
    chance: Random, chosen: tuple[str, ...], slots: int, busy: float, hosts: int
) -> list[Deed]:
    mean = chance.choice([120.0, 600.0, 1800.0])
    pause = (mean + 400.0) / slots * chance.uniform(0.6, 1.5)
    unburned = chance.uniform(0.1, 0.9) if "never_burns" in chosen else 0.0
    moving = chance.uniform(0.1, 0.5) if "migration" in chosen and hosts > 1 else 0.0
    racing = chance.uniform(0.1, 0.6) if "race" in chosen else 0.0
    deeds: list[Deed] = []
    at = chance.uniform(0, 120)
    while at < busy:
        for number in range(2 if chance.random() < racing else 1):
            move = chance.choice(["confirm", "revert"]) if chance.random() < moving else ""
            figures = (
                float(chance.choice([1, 1, 1, 2, 4])),
                20.0 + chance.expovariate(1 / mean),
                float(chance.random() >= unburned),
            )
            deeds.append(Deed(at + number * 0.1, "boot", figures, (move,) if move else ()))
        at += chance.expovariate(1 / pause)
    return deeds


def _weather(chance: Random, chosen: tuple[str, ...], busy: float) -> list[Deed]:
    deeds: list[Deed] = []
    for name in chosen:
        if name not in FAULTS:
            continue
        most, figures = FAULTS[name]
        pause = 3600.0 / (most * chance.uniform(0.15, 1.0))
        at = chance.expovariate(1 / pause)
        while at < busy:
            deeds.append(Deed(at, name, figures(chance)))
            at += chance.expovariate(1 / pause)
    return deeds


def _ordinary(chance: Random, hosts: int, busy: float) -> list[Deed]:
    """A rolling restart of nova-compute, and Placement away for an hour."""
    start = chance.uniform(300, busy - 300)
    deeds = [Deed(start + 30.0 * number, "restart", (float(number),)) for number in range(hosts)]
    if chance.random() < 0.3:
        deeds.append(Deed(chance.uniform(300, busy - 300), "placement_503", (0.0, 3600.0)))
    return deeds
