"""A composed drive between two tenants: the eraser has it in its hands, and is held to account.

The first tenant fills it, the eraser erases and judges it, the second tenant takes what it can.
"""

from __future__ import annotations

import enum
import random
from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path

from eraser.cli.output import exit_code
from eraser.protocol.policy import Buffers, Policy, Verification
from eraser.protocol.report import EraseReport
from tests.lab.nvme.composed.audit import bench
from tests.lab.nvme.composed.description import Buffer, Description
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.marks import MAGIC
from tests.lab.nvme.composed.secondtenant import SecondTenant
from tests.lab.nvme.composed.visitor import Loot
from tests.lab.nvme.linux.case import erase, linux, profile_of
from tests.lab.nvme.linux.kernel import Kernel
from tests.lab.nvme.nature import Truth
from tests.lab.nvme.presetkind import Expected

_VERIFICATION = Verification(residual=0.05, canaries=700, visit=32)
"""A drive of the lab has a few thousand blocks: not much more than a sixth may take a canary, or
these would be what overwrites it."""


class Outcome(enum.StrEnum):
    """What became of a drive."""

    RELEASED = "released"
    """Honest, as it should be: erased and fit."""
    HELD = "held"
    """A liar that kept something, or a drive that is odd in a way that a person has to see."""
    NOTHING_KEPT = "nothing kept"
    """A liar whose lie these methods do not meet."""
    LET_THROUGH = "let through"
    """It lied, kept something and was released; or the second tenant got something of it."""
    HELD_FOR_NOTHING = "held for nothing"
    """Honest, and not released."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One drive's. ``loot`` is empty where it was not released."""

    drive: Description
    outcome: Outcome
    report: EraseReport
    truth: Truth
    loot: Loot

    @property
    def leaked(self) -> bool:
        """The second tenant got something of a drive that was released."""
        return not self.loot.empty


def shipped(*, visited: bool = True, subsystem_reset: bool = False) -> Policy:
    """The policy as it ships; a drive without Sanitize is cleared, for it is tried as well."""
    how = replace(_VERIFICATION, subsystem_reset=subsystem_reset)
    how = how if visited else replace(how, visit=0)
    return Policy(allow_clear=True, verification=how)


def attempt(
    drive: Description,
    directory: Path,
    policy: Policy,
    *,
    seed: int = 1,
    size: int = 16 << 20,
    kernel: type[Kernel] = Kernel,
) -> Trial:
    """Try one; its files stay in ``directory``. Raises DriveError for a drive that hangs."""
    with bench(drive, directory, size=size) as (served, host, clock):
        running = kernel(host, directory / "root")
        # By the seed too: whether a lie is met may hang on a few places.
        machine = linux(running, clock, random.Random(f"eraser {seed}").randbytes)
        profile = profile_of(machine)
        FirstTenant(host, seed).stay()
        running.reset()
        report = erase(machine, directory, profile, policy)
        with served.lock:
            truth = served.nature.truth()
            kept = former(served.backing)
        released, loot = exit_code(report) == 0, Loot()
        if released:
            loot = SecondTenant(host, seed).take()
    held = must_be_held(drive, policy)
    outcome = outcome_of(drive, held, released=released, kept=kept, got=not loot.empty)
    return Trial(drive, outcome, report, truth, loot)


def must_be_held(drive: Description, policy: Policy) -> bool:
    """Whether an honest drive has to wait for a person: for what is odd about it, or because what
    erases it under this policy is Format, which reaches neither a CMB nor a PMR."""
    if drive.expected is Expected.HELD:
        return True
    able = {method.value for method in drive.abilities.methods}
    cleared = able.isdisjoint(method.value for method in policy.purge_methods)
    mapped = drive.abilities.buffer is not Buffer.NONE
    return cleared and mapped and policy.verification.buffers is Buffers.HOLD


def former(backing: Path) -> bool:
    """Whether anything of the first tenant's stands in the files of the drive: canaries of the
    eraser that it kept are nobody's data."""
    return any(MAGIC in file.read_bytes() for file in backing.parent.glob(f"{backing.name}*"))


def outcome_of(
    drive: Description, must_hold: bool, *, released: bool, kept: bool, got: bool
) -> Outcome:
    """What became of a drive that ``kept`` something; ``got``: the second tenant has some of it."""
    if released:
        # What an honest drive leaves in no namespace, no command of a tenant gets at.
        if (kept and not drive.honest) or got:
            return Outcome.LET_THROUGH
        return Outcome.RELEASED if drive.honest else Outcome.NOTHING_KEPT
    if kept or (must_hold and drive.honest):
        return Outcome.HELD
    return Outcome.HELD_FOR_NOTHING if drive.honest else Outcome.NOTHING_KEPT


@dataclass
class Account:
    """What came of many, by what their lies are made of."""

    outcomes: Counter[Outcome] = field(default_factory=Counter)
    tried: Counter[str] = field(default_factory=Counter)
    through: Counter[str] = field(default_factory=Counter)
    leaked: Counter[str] = field(default_factory=Counter)
    met: Counter[str] = field(default_factory=Counter)
    """Drives by the acts of a visit that met their lie."""
    met_alone: Counter[str] = field(default_factory=Counter)
    """Of these, the drives whose lie no other act met."""

    def add(self, trial: Trial) -> None:
        """One more."""
        self.outcomes[trial.outcome] += 1
        if trial.drive.honest or trial.outcome is Outcome.NOTHING_KEPT:
            return
        acts = {
            act.act.removesuffix(", after writes")
            for visit in trial.report.visits
            for act in visit.acts
            if act.canaries or act.unchanged or act.otherwise
        }
        self.met.update(acts)
        self.met_alone.update(acts if len(acts) == 1 else ())
        words = {choice for lie in trial.drive.lies for choice in lie.trigger.words}
        words |= {f"keeps {lie.kept.what.value}" for lie in trial.drive.lies}
        words.add("undetectable" if trial.drive.undetectable else "detectable")
        self.tried.update(words)
        if trial.outcome is Outcome.LET_THROUGH:
            self.through.update(words)
            if trial.leaked:
                self.leaked.update(words)

    def lines(self) -> list[str]:
        """As text."""
        head = ", ".join(f"{one.value} {self.outcomes[one]}" for one in Outcome)
        rows = [
            f"{word}: kept something {self.tried[word]}, let through {self.through[word]}, "
            f"the second tenant got data of {self.leaked[word]}"
            for word in sorted(self.tried, key=lambda word: (-self.through[word], word))
        ]
        acts = [
            f"met by {act}: {count}, by it alone {self.met_alone[act]}"
            for act, count in self.met.most_common()
        ]
        return [head, *acts, *rows]
