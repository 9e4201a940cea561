"""Where a case stands, folded from its journal's entries. Without I/O.

The fold is the journal's only reader: what a resumed case knows is exactly what the entries say.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from eraser.case.entries import (
    Again,
    Allocated,
    Allocating,
    AttemptOver,
    Began,
    Changing,
    CommandEntry,
    Drawn,
    Entry,
    Fingerprinted,
    Freed,
    Identified,
    Inspected,
    Intent,
    Keyed,
    Loosened,
    Mapped,
    MethodDone,
    Narrowed,
    Planned,
    Planted,
    Restored,
    Resumed,
    Revoked,
    Risking,
    Seeded,
    SeenRunning,
    Sent,
    Spent,
    Unlocked,
    Uprooted,
    Verified,
    Visited,
    WasReset,
    decode,
)
from eraser.controller.passthru import FORMAT_NVM, NAMESPACE_MANAGEMENT
from eraser.drive import manage
from eraser.ownership.model import SteadyTime
from eraser.protocol.condition import Buffer
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.profile import NamespaceLayout, layout_differences
from eraser.protocol.report import CommandRecord, MethodRecord, VisitRecord
from eraser.state.journal import Line


@dataclass
class CaseState:
    """Where the case stands. Changed by :meth:`apply` alone."""

    began: Began | None = None
    resumed: int = 0
    since: SteadyTime | None = None
    """When the first run of the present boot began; None where no run told."""
    used: float = 0.0
    """Seconds that runs of earlier boots spent."""
    identity: ControllerIdentity | None = None
    revoked: Revoked | None = None
    inspected: Inspected | None = None
    plan: Planned | None = None
    locked: bool = False
    """A sanitize kept the inspection from unlocking the drive, and nobody has done it since."""
    restored: Restored | None = None
    allocating: Allocating | None = None
    allocated: Allocated | None = None
    freed: Freed | None = None
    """The temporary namespaces are gone; another set may follow."""
    fingerprinted: Fingerprinted | None = None
    renewed: bool = False
    """Temporary namespaces were made after the fingerprints were taken: these are of others."""
    key: str = ""
    """SHA-256 of the key that the probes are made with."""
    key_lost: bool = False
    """The key was gone when it was needed: probes made with it can no longer be known."""
    planted: dict[int, Planted] = field(default_factory=dict)
    uprooted: set[int] = field(default_factory=set)
    intent: Intent | None = None
    """Open: its result is not known."""
    untimed: bool = False
    """A run ended, or another one's command was adopted, while a command was under way: the
    seconds of the methods are not all that they took."""
    running_seen: bool = False
    """The open intent's command was seen running."""
    first: int = 0
    """Commands before this place are not ours to testify: a later one was found running."""
    attempts: dict[int, int] = field(default_factory=dict)
    failures: dict[int, str] = field(default_factory=dict)
    """The last attempt that had to be given up, by place."""
    counted: dict[int, int] = field(default_factory=dict)
    """Of these attempts, those in which the drive had its chance."""
    commands: list[CommandRecord] = field(default_factory=list)
    made: set[int] = field(default_factory=set)
    """Temporary namespaces that the drive called created, and not deleted since."""
    changes: int = 0
    """Commands that rearrange the drive, so far."""
    changing: Changing | None = None
    """The last of them, where its end is not in the journal."""
    done: dict[int, MethodDone] = field(default_factory=dict)
    reset: WasReset | None = None
    mapped: tuple[Buffer, ...] | None = None
    """What registers told while no driver had the drive; None where they were not read then."""
    narrowed: str = ""
    """The function's reset methods as they have to be again."""
    loose: int = 0
    """The namespace that has to be attached again."""
    risking: str = ""
    """What may take the host down with it is being done."""
    downs: dict[str, int] = field(default_factory=dict)
    """Boots that ended in the midst of it, by what it was."""
    probe_seed: str = ""
    """Of the places where fingerprints are taken."""
    seed: str = ""
    """Of the places that are read; empty until it is drawn after the last command of the erase."""
    visits: list[VisitRecord] = field(default_factory=list)
    verified: Verified | None = None
    unread: int = 0
    """Bytes of temporary namespaces that the reading did not have: the drive has them, and did not
    give them again."""
    rounds: int = 1
    parted: bool = False
    """A run ended between two Formats of the round at hand: what the first ones had erased was
    nobody's until the next run."""
    again: str = ""
    retried: bool = False
    """A reading has asked for another round already."""
    seconds: dict[str, float] = field(default_factory=dict)

    @classmethod
    def of(cls, lines: Iterable[Line]) -> CaseState:
        """The state after ``lines``. Raises :class:`UnknownEntryError`."""
        state = cls()
        for line in lines:
            state.apply(decode(line))
        return state

    @property
    def steps(self) -> tuple[CommandEntry, ...]:
        """All commands of the plan, and of a layout that was restored after it; another round
        repeats the last sanitize, or each Format of the layout that there is."""
        if self.plan is None:
            return ()
        once = self.plan.commands
        # Another round is one sanitize, which covers all of the drive, or each Format.
        last = once[-1:] if once and once[-1].method.is_sanitize else once
        added = self.restored.commands if self.restored is not None else ()
        return once + added + (added or last) * (self.rounds - 1)

    @property
    def next(self) -> int | None:
        """The first place that has no result; restoring may have added some."""
        places = range(self.first, len(self.steps))
        return next((place for place in places if place not in self.done), None)

    @property
    def restore_place(self) -> int:
        """The layout is restored before the command at this place: before the last sanitize, so
        that canaries over the new layout prove it; after Format has reached every namespace that
        is about to be deleted."""
        once = () if self.plan is None else self.plan.commands
        return len(once) - 1 if once and once[-1].method.is_sanitize else len(once)

    def opens_round(self, place: int) -> bool:
        """Whether the command at ``place`` is the first of the Formats of one layout."""
        first = 0 if self.plan is None else len(self.plan.commands)
        added = len(self.restored.commands) if self.restored is not None else 0
        if place < first:
            return place == 0
        # Each later round has as many as the restored layout needs, else as the plan had.
        return (place - first) % (added or first or 1) == 0

    def opens_pass(self, place: int) -> bool:
        """Whether the command at ``place`` is the first that reaches all of the drive once more."""
        steps = self.steps
        return steps[place].method.is_sanitize or self.opens_round(place)

    def visited(self, place: int, *, wrote: bool) -> bool:
        """Whether the drive was used as by its next tenant there."""
        return any(visit.place == place and visit.wrote is wrote for visit in self.visits)

    @property
    def layout(self) -> tuple[NamespaceLayout, ...] | None:
        """The namespaces that canaries stand in and that are read; None before the inspection."""
        if self.restored is not None and self.restored.changed:
            # Canaries and reading go by the layout that there is now.
            return self.restored.namespaces + self.temporary
        if self.inspected is None or self.inspected.facts is None:
            return None
        return self.inspected.facts.namespaces + self.temporary

    @property
    def left(self) -> int | None:
        """Bytes that are in no namespace, and in none that was read; None where none was tried."""
        return None if self.allocated is None else self.allocated.left + self.unread

    @property
    def temporary(self) -> tuple[NamespaceLayout, ...]:
        """The temporary namespaces that are there."""
        if self.allocated is None or self.freed is not None:
            return ()
        return self.allocated.namespaces

    def kept(self, nsid: int) -> bool:
        """Whether a namespace is as the last owner left it: fingerprints speak of its blocks."""
        if self.layout is None or self.inspected is None or self.inspected.facts is None:
            return False
        found = self.inspected.facts.namespaces
        # A temporary namespace had fingerprints too, as long as it is the very one that was there.
        if not self.renewed and (self.restored is None or not self.restored.changed):
            found += self.temporary
        before = [entry for entry in found if entry.nsid == nsid]
        now = [entry for entry in self.layout if entry.nsid == nsid]
        # Not by equality: an older version's inspection tells less of each.
        return bool(before) and not layout_differences(tuple(before), tuple(now))

    @property
    def rearranged(self) -> bool:
        """Namespaces were deleted, made or given another LBA format: nothing is as it was."""
        return any(
            command.opcode in (NAMESPACE_MANAGEMENT, FORMAT_NVM)
            # Among I/O commands the number of the one is Reservation Register's.
            and "io-passthru" not in command.argv
            for command in self.sent
        )

    @property
    def sent(self) -> tuple[CommandRecord, ...]:
        """All commands, also one whose end is not known yet."""
        last = () if self.changing is None else (self.changing.command,)
        return (*self.commands, *last)

    @property
    def erased(self) -> bool:
        """Every command has its result, or is not ours to send."""
        return bool(self.steps) and all(
            place in self.done for place in range(self.first, len(self.steps))
        )

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
        # All plantings are at the same places, so they do not add up.
        return max(
            (entry.planted for place, entry in self.planted.items() if place not in self.uprooted),
            default=0,
        )

    @property
    def dropped(self) -> int:
        """Writes that the drive called done and did not store, at the worst of the plantings."""
        return max((entry.dropped for entry in self.planted.values()), default=0)

    @property
    def missing_probes(self) -> tuple[str, ...]:
        """Every probe that could not be taken or planted, with why, each once."""
        # A dictionary keeps the order, and each line once.
        found: dict[str, None] = {}
        if self.key_lost:
            found["probes made before: the case's key was lost"] = None
        if self.fingerprinted is not None:
            found.update(dict.fromkeys(self.fingerprinted.missing))
        for place in sorted(self.planted):
            found.update(dict.fromkeys(self.planted[place].missing))
        return tuple(found)

    def _count(self, sent: CommandRecord) -> None:
        """Which temporary namespaces there are, by what the drive answered: it may list none that
        is not attached."""
        if sent.opcode != NAMESPACE_MANAGEMENT or sent.status != 0:
            return
        if sent.cdw10 == manage.DELETE:
            self.made.discard(sent.nsid)
            self.loose = 0 if self.loose == sent.nsid else self.loose
        elif self.allocating is not None and self.freed is None:
            # A number that was there before is a lie, or a mistake: that one is not ours to delete.
            self.made |= {manage.created(sent)} - {0, *self.allocating.before}
        else:
            # Of the layout, whatever had that number before.
            self.made.discard(manage.created(sent))

    def apply(self, entry: Entry) -> None:  # noqa: C901 - a table of entries, one line or two each
        """Takes one more entry into account."""
        # Most entries are facts and only kept. What one of them makes void is reset beside it.
        match entry:
            case Began():
                self.began = entry
                self.since = entry.moment
            case Resumed():
                self.resumed += 1
                # What the command took until now was measured by a run that is gone.
                self.untimed = self.untimed or self.intent is not None
                # A new boot: its clock began anew, so only what the runs before noted is known.
                if entry.moment is not None and not entry.moment.same_boot(self.since):
                    self.used, self.since = sum(self.seconds.values()), entry.moment
                    if self.risking:
                        self.downs[self.risking] = self.downs.get(self.risking, 0) + 1
                self.risking = ""
                # The slot was nobody's meanwhile: canaries that no command of ours followed may be
                # gone through another's, and would count as erased by us.
                self.uprooted.update(self.planted.keys() - self.attempts.keys())
                if self.next is not None and not self.opens_pass(self.next):
                    self.parted = True
            case Identified():
                self.identity = entry.identity
            case Revoked():
                self.revoked = entry
            case Inspected():
                self.inspected = entry
            case Restored():
                self.restored = entry
                # Formats of the new layout reach all once more.
                self.parted = self.parted and not entry.commands
                if entry.changed:
                    # Canaries stood at places of the layout that is gone.
                    self.uprooted.update(self.planted)
            case Allocating():
                # Another set of temporary namespaces: what is known of the one before is void.
                self.allocating, self.allocated, self.freed = entry, None, None
                self.renewed = self.fingerprinted is not None
            case Allocated():
                self.allocated, self.freed = entry, None
                self.made.update(each.nsid for each in entry.namespaces)
            case Freed():
                self.freed = entry
                if not entry.problem:
                    self.made.clear()
            case Planned():
                self.plan, self.locked = entry, entry.locked
            case Unlocked():
                self.locked = False
            case Keyed():
                # A second key: without the first nobody can tell what was planted with it.
                self.key_lost = bool(self.key)
                self.key = entry.digest
                # Nobody can look for them without their key.
                self.planted.clear()
                self.uprooted.clear()
            case Fingerprinted():
                self.fingerprinted = entry
            case Planted():
                self.planted[entry.place] = entry
                self.uprooted.discard(entry.place)
            case Uprooted():
                self.uprooted.add(entry.place)
            case Intent():
                # An adopted one was found running.
                self.intent, self.running_seen = entry, entry.adopted
                self.seed = ""  # the drive may have been asked for these places
                self.attempts[entry.place] = entry.attempt
                if entry.adopted:
                    self.untimed = True
                    # The plan goes in order, so what stands before a running command is over.
                    self.first = max(self.first, entry.place)
            case Changing():
                self.changes, self.changing = entry.number, entry
            case Sent():
                self.commands.append(entry.command)
                self.changing = None
                self._count(entry.command)
            case SeenRunning():
                self.running_seen = True
            case AttemptOver():
                self.intent, self.running_seen = None, False
                self.failures[entry.place] = entry.reason
                self.counted[entry.place] = self.counted.get(entry.place, 0) + entry.counted
            case MethodDone():
                self.intent, self.running_seen = None, False
                self.done[entry.place] = entry
            case WasReset():
                self.reset = entry
            case Mapped():
                self.mapped = entry.buffers
            case Narrowed():
                self.narrowed = entry.methods
            case Loosened():
                self.loose = entry.nsid
            case Risking():
                self.risking = entry.act
            case Visited():
                self.visits.append(entry.record)
            case Seeded():
                self.probe_seed = entry.seed
            case Drawn():
                self.seed = entry.seed
            case Verified():
                self.verified = entry
                # Temporary namespaces that were made and that this reading did not have.
                read = {each.nsid for each in entry.record.namespaces if each.temporary}
                lost = [each for each in self.temporary if each.nsid not in read]
                self.unread = sum(each.blocks * each.block_bytes for each in lost)
            case Again():
                self.rounds += 1
                self.parted = False
                self.again = entry.reason
                self.retried = self.retried or entry.read
                # Another erase follows: nothing that was read before it proves anything.
                self.reset, self.seed, self.verified, self.unread = None, "", None, 0
            case Spent():
                name = entry.step.value
                self.seconds[name] = self.seconds.get(name, 0.0) + entry.seconds
