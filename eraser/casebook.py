"""What a case's journal says: the entries, and where the case stands after them. Without I/O.

Each entry is a frozen dataclass; its kind in the journal is its class's name. The fold is the
only reader: what a resumed case knows is exactly what these entries say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eraser.errors import BadInputError
from eraser.journal import JournalError, Line
from eraser.wire import codec
from eraser.wire.identity import ControllerIdentity
from eraser.wire.policy import Label, Method
from eraser.wire.report import (
    CommandRecord,
    ControllerFacts,
    HealthRecord,
    MethodRecord,
    Step,
    Verdict,
    VerificationRecord,
)


@dataclass(frozen=True)
class Began:
    """The case was opened for this request, at this time (UTC; and seconds since the epoch)."""

    work: str
    at: str
    epoch: float


@dataclass(frozen=True)
class Resumed:
    """Another process took the case up."""

    at: str


@dataclass(frozen=True)
class Identified:
    """The drive that the case is about. Nothing destructive is sent to any other."""

    identity: ControllerIdentity


@dataclass(frozen=True)
class Inspected:
    """What was found before anything was changed, and what will be sent."""

    facts: ControllerFacts | None
    health: HealthRecord | None
    problems: tuple[str, ...]
    """What could not be read, each with why. Never a reason not to erase."""


@dataclass(frozen=True)
class CommandEntry:
    """One planned command (:class:`eraser.erase.plan.PlannedCommand`)."""

    method: Method
    opcode: int
    nsid: int
    cdw10: int


@dataclass(frozen=True)
class Planned:
    """The plan. A resumed case carries out this one, whatever the drive says of itself by then."""

    commands: tuple[CommandEntry, ...]
    achieved: Label | None
    downgraded: bool
    refusal: str


@dataclass(frozen=True)
class Fingerprinted:
    """The tenant's blocks were sampled."""

    taken: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Planted:
    """Canaries stand on the drive, for the command at ``place``."""

    place: int
    planted: int
    missing: tuple[str, ...]


@dataclass(frozen=True)
class Uprooted:
    """Somebody else's sanitize ran: the canaries for ``place`` are gone through no act of ours."""

    place: int
    reason: str


@dataclass(frozen=True)
class Intent:
    """The command at ``place`` is about to be sent, or (``adopted``) was found running."""

    place: int
    attempt: int
    adopted: bool
    log_before: str
    """Base64 of log 81h as read just before; empty for Format."""


@dataclass(frozen=True)
class Sent:
    """A destructive or setting command went to the drive, and this came back."""

    command: CommandRecord


@dataclass(frozen=True)
class SeenRunning:
    """Log 81h showed our command running: its end, whenever it comes, is ours."""

    place: int


@dataclass(frozen=True)
class AttemptOver:
    """The attempt at ``place`` had no usable end; another one follows."""

    place: int
    reason: str


@dataclass(frozen=True)
class MethodDone:
    """The command at ``place`` has its result. ``halt``: nothing more can be sent or read."""

    place: int
    record: MethodRecord
    halt: bool


@dataclass(frozen=True)
class WasReset:
    """The controller was reset after the last method: no cache answers the verification."""

    problem: str


@dataclass(frozen=True)
class Seeded:
    """The verification's seed was drawn (hexadecimal). Fingerprints are taken at its places."""

    seed: str


@dataclass(frozen=True)
class Verified:
    """The reading is done and judged."""

    record: VerificationRecord
    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Again:
    """The probes were lost with a journal and content alone does not decide: erase once more."""

    reason: str


@dataclass(frozen=True)
class Spent:
    """Seconds that a step took."""

    step: Step
    seconds: float


Entry = (
    Began
    | Resumed
    | Identified
    | Inspected
    | Planned
    | Fingerprinted
    | Planted
    | Uprooted
    | Intent
    | Sent
    | SeenRunning
    | AttemptOver
    | MethodDone
    | WasReset
    | Seeded
    | Verified
    | Again
    | Spent
)

_KINDS: dict[str, type[Entry]] = {
    kind.__name__: kind
    for kind in (
        Began,
        Resumed,
        Identified,
        Inspected,
        Planned,
        Fingerprinted,
        Planted,
        Uprooted,
        Intent,
        Sent,
        SeenRunning,
        AttemptOver,
        MethodDone,
        WasReset,
        Seeded,
        Verified,
        Again,
        Spent,
    )
}


def decode(line: Line) -> Entry:
    """A journal line to its entry. Raises :class:`JournalError` for a kind or form not ours."""
    kind = _KINDS.get(line.kind)
    if kind is None:
        raise JournalError(
            f"journal line {line.sequence}: expected an entry of this version, found "
            f"{line.kind[:40]!r}; the drive was not touched; finish with the version that wrote it"
        )
    try:
        entry: Entry = codec.decode(kind, line.payload, f"journal line {line.sequence}")
    except BadInputError as error:
        raise JournalError(f"{error}; the drive was not touched") from error
    return entry


@dataclass
class CaseState:
    """Where the case stands. Changed by :meth:`apply` alone."""

    began: Began | None = None
    resumed: int = 0
    identity: ControllerIdentity | None = None
    inspected: Inspected | None = None
    plan: Planned | None = None
    fingerprinted: Fingerprinted | None = None
    planted: dict[int, Planted] = field(default_factory=dict)
    uprooted: set[int] = field(default_factory=set)
    intent: Intent | None = None
    """Open: its result is not known."""
    running_seen: bool = False
    """The open intent's command was seen running."""
    first: int = 0
    """Commands before this place are not ours to testify: a later one was found running."""
    attempts: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    """The last attempt that had to be given up, by place."""
    commands: list[CommandRecord] = field(default_factory=list)
    done: dict[int, MethodDone] = field(default_factory=dict)
    reset: WasReset | None = None
    seed: str = ""
    verified: Verified | None = None
    rounds: int = 1
    again: str = ""
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Line]) -> CaseState:
        """The state after ``lines``. Raises :class:`JournalError`."""
        state = cls()
        for line in lines:
            state.apply(decode(line))
        return state

    @property
    def steps(self) -> tuple[CommandEntry, ...]:
        """All commands of the plan; a second round repeats the last one."""
        if self.plan is None:
            return ()
        return self.plan.commands + self.plan.commands[-1:] * (self.rounds - 1)

    @property
    def halted(self) -> bool:
        """Nothing more can be sent or read: a sanitize without end, a dead controller."""
        return any(done.halt for done in self.done.values())

    @property
    def methods(self) -> tuple[MethodRecord, ...]:
        """What the commands came to, in order."""
        return tuple(self.done[place].record for place in sorted(self.done))

    @property
    def canaries_planted(self) -> int:
        """Canaries that stood on the drive before a command of ours and were not uprooted."""
        return max(
            (entry.planted for place, entry in self.planted.items() if place not in self.uprooted),
            default=0,
        )

    @property
    def missing_probes(self) -> tuple[str, ...]:
        """Every probe that could not be taken or planted, with why, each once."""
        found: dict[str, None] = {}
        if self.fingerprinted is not None:
            found.update(dict.fromkeys(self.fingerprinted.missing))
        for place in sorted(self.planted):
            found.update(dict.fromkeys(self.planted[place].missing))
        return tuple(found)

    def apply(self, entry: Entry) -> None:  # noqa: C901 - a table of entries, one line or two each
        """Takes one more entry into account."""
        match entry:
            case Began():
                self.began = entry
            case Resumed():
                self.resumed += 1
            case Identified():
                self.identity = entry.identity
            case Inspected():
                self.inspected = entry
            case Planned():
                self.plan = entry
            case Fingerprinted():
                self.fingerprinted = entry
            case Planted():
                self.planted[entry.place] = entry
                self.uprooted.discard(entry.place)
            case Uprooted():
                self.uprooted.add(entry.place)
            case Intent():
                self.intent, self.running_seen = entry, entry.adopted
                self.attempts[entry.place] = entry.attempt
                if entry.adopted:
                    self.first = max(self.first, entry.place)
            case Sent():
                self.commands.append(entry.command)
            case SeenRunning():
                self.running_seen = True
            case AttemptOver():
                self.intent, self.running_seen = None, False
                self.failures[entry.place] = entry.reason
            case MethodDone():
                self.intent, self.running_seen = None, False
                self.done[entry.place] = entry
            case WasReset():
                self.reset = entry
            case Seeded():
                self.seed = entry.seed
            case Verified():
                self.verified = entry
            case Again():
                self.rounds += 1
                self.again = entry.reason
                self.reset, self.seed, self.verified = None, "", None
            case Spent():
                name = entry.step.value
                self.seconds[name] = self.seconds.get(name, 0.0) + entry.seconds
