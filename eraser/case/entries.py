"""The entries of a case's journal, each a frozen dataclass; its kind is its class's name."""

from __future__ import annotations

from dataclasses import dataclass, field

from eraser.errors import BadInputError
from eraser.ownership.model import SteadyTime
from eraser.protocol import codec
from eraser.protocol.condition import Buffer
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Label, Method
from eraser.protocol.profile import NamespaceLayout
from eraser.protocol.report import (
    CommandRecord,
    ControllerFacts,
    HealthRecord,
    MethodRecord,
    Step,
    Verdict,
    VerificationRecord,
    VisitRecord,
)
from eraser.protocol.ticket import LastOwner
from eraser.state.journal import Line, UnknownEntryError


@dataclass(frozen=True)
class Began:
    """The case was opened for this request, at this time (UTC; and seconds since the epoch).

    Those are for people: they may be wrong. ``moment`` is this machine's own; None from an older
    version.
    """

    work: str
    at: str
    epoch: float
    moment: SteadyTime | None = None


@dataclass(frozen=True)
class Resumed:
    """Another process took the case up. ``moment`` as in :class:`Began`."""

    at: str
    moment: SteadyTime | None = None


@dataclass(frozen=True)
class Identified:
    """The drive that the case is about. Nothing destructive is sent to any other."""

    identity: ControllerIdentity


@dataclass(frozen=True)
class Revoked:
    """Nobody has the slot's drive any more; who had this one last, where the gate knows."""

    last_owner: LastOwner | None


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
    locked: bool = False
    """A sanitize was running: what locks the drive still stands, and :class:`Unlocked` follows."""


@dataclass(frozen=True)
class Unlocked:
    """What was put off beside a running sanitize has been taken off."""


@dataclass(frozen=True)
class Restored:
    """The namespaces are as the profile wants them, or as near to it as the drive allowed."""

    changed: bool
    """Something was sent: probes that stood in the layout before say nothing about this one."""
    namespaces: tuple[NamespaceLayout, ...]
    commands: tuple[CommandEntry, ...]
    """Formats of the new layout, where Format is all that the drive has; the last sanitize once
    more, where none was left to follow."""
    problems: tuple[str, ...]


@dataclass(frozen=True)
class Allocating:
    """Temporary namespaces are about to be made over capacity that belongs to none; what comes
    beside those that exist ``before`` is ours."""

    before: tuple[int, ...]
    capacity: int = 0
    """Bytes that belong to no namespace, by the most that the drive told; 0 in an older journal."""
    total: int = 0
    """These, and what the namespaces take that exist ``before``."""


@dataclass(frozen=True)
class Allocated:
    """They are there, as many as the drive gave."""

    namespaces: tuple[NamespaceLayout, ...]
    left: int
    """Bytes that still belong to no namespace."""
    problem: str
    """Why, where somebody else might get at them."""


@dataclass(frozen=True)
class Freed:
    """The temporary namespaces are deleted."""

    problem: str


@dataclass(frozen=True)
class Keyed:
    """The probes' secret key was made; SHA-256 of it. Another one makes older probes void."""

    digest: str


@dataclass(frozen=True)
class Fingerprinted:
    """The tenant's blocks were sampled."""

    taken: int
    missing: tuple[str, ...]
    media_errors: int | None = None
    """Log 02h afterwards: reading what the last owner left may have counted some."""


@dataclass(frozen=True)
class Planted:
    """Canaries stand on the drive, for the command at ``place``."""

    place: int
    planted: int
    missing: tuple[str, ...]
    dropped: int = 0
    """Writes that the drive called done and did not store; of a Format that is sent again, before
    its first attempt."""


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
class Changing:
    """A command that rearranges the drive is about to be sent; :class:`Sent` closes it."""

    number: int
    """From 1, within the case."""
    note: str
    command: CommandRecord
    """As the report has it where nothing is ever known of its end."""


@dataclass(frozen=True)
class SeenRunning:
    """Log 81h showed our command running: its end, whenever it comes, is ours."""

    place: int


@dataclass(frozen=True)
class AttemptOver:
    """The attempt at ``place`` had no usable end; another one follows."""

    place: int
    reason: str
    counted: bool = field(default=False, metadata=codec.LATE)
    """The drive had its chance: it ended the command, or a run waited for an end in vain. Not where
    the power, the host or the sender went."""


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
    writes: int | None = None
    """Host Write Commands (log 02h) after it: a resumed case sees by them what came between."""
    announced: bool = False
    """The driver let go of the drive for it, and announced a shutdown."""


@dataclass(frozen=True)
class Mapped:
    """What registers told of memory that a host maps, while no driver had the drive."""

    buffers: tuple[Buffer, ...]


@dataclass(frozen=True)
class Narrowed:
    """The kernel is about to be told to reset the function by its bus alone."""

    methods: str
    """``reset_method`` as it was before; empty: it is so again."""


@dataclass(frozen=True)
class Loosened:
    """A namespace is about to be detached, to be attached again."""

    nsid: int
    """0: it is attached again."""


@dataclass(frozen=True)
class Risking:
    """What may take the host down with it is about to be done. Of a resumed case alone: a former
    release knows no such entry, and goes on with what nobody interrupted.
    """

    act: str
    """What it is; empty: it is over."""


@dataclass(frozen=True)
class Visited:
    """The drive was used as by its next tenant."""

    record: VisitRecord


@dataclass(frozen=True)
class Seeded:
    """The seed of the places where fingerprints are taken was drawn (hexadecimal): the drive sees
    these before its erase, so nothing is claimed from them about the places that it has not seen.
    """

    seed: str


@dataclass(frozen=True)
class Drawn:
    """The seed of the places that are read after the last method was drawn (hexadecimal), when
    that was over: the drive could not know them."""

    seed: str


@dataclass(frozen=True)
class Verified:
    """The reading is done and judged."""

    record: VerificationRecord
    verdict: Verdict
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Again:
    """Erase once more: the probes were lost with a journal and content alone does not decide, the
    drive may have been written to between two runs, or it is to be used as by its next tenant
    between two erases."""

    reason: str
    read: bool = True
    """The reading asked for it, which it may do once in a case. False for every other reason."""


@dataclass(frozen=True)
class Spent:
    """Seconds that a step took."""

    step: Step
    seconds: float


Entry = (
    Began
    | Resumed
    | Identified
    | Revoked
    | Inspected
    | Planned
    | Unlocked
    | Restored
    | Allocating
    | Allocated
    | Freed
    | Keyed
    | Fingerprinted
    | Planted
    | Uprooted
    | Intent
    | Changing
    | Sent
    | SeenRunning
    | AttemptOver
    | MethodDone
    | WasReset
    | Mapped
    | Narrowed
    | Loosened
    | Risking
    | Visited
    | Seeded
    | Drawn
    | Verified
    | Again
    | Spent
)

# By the names of the classes: one that is renamed cannot be read in a journal of before.
_KINDS: dict[str, type[Entry]] = {
    kind.__name__: kind
    for kind in (
        Began,
        Resumed,
        Identified,
        Revoked,
        Inspected,
        Planned,
        Unlocked,
        Restored,
        Allocating,
        Allocated,
        Freed,
        Keyed,
        Fingerprinted,
        Planted,
        Uprooted,
        Intent,
        Changing,
        Sent,
        SeenRunning,
        AttemptOver,
        MethodDone,
        WasReset,
        Mapped,
        Narrowed,
        Loosened,
        Risking,
        Visited,
        Seeded,
        Drawn,
        Verified,
        Again,
        Spent,
    )
}


_WAITS = (
    "nothing is sent to the drive; the case waits for the release that wrote it, or for the slot's "
    "next order"
)


def decode(line: Line) -> Entry:
    """A line of a journal that is whole to its entry. Raises :class:`UnknownEntryError` for a kind
    or form not ours."""
    kind = _KINDS.get(line.kind)
    # An entry that is passed over may be the one that says that a command went out.
    if kind is None:
        raise UnknownEntryError(
            f"journal line {line.sequence}: expected an entry of this release, found "
            f"{line.kind[:40]!r}; {_WAITS}"
        )
    try:
        entry: Entry = codec.decode(kind, line.payload, f"journal line {line.sequence}")
    except BadInputError as error:
        raise UnknownEntryError(f"{error}; {_WAITS}") from error
    return entry
