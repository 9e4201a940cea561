"""What a drive's own counters prove: from the report of its erase to the next guest's start.

Real code: the gate's ``counters``, ``rules``, ``intake`` and ``revocation``, the control plane's
``receipts``. Real figures too, for drives that count late, lose their seal with a reset, have none,
or count nothing; and for somebody elsewhere who writes one block, or has the drive count anew.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass

from eraser.controller.spec import SanitizeState
from eraser.ownership.facts import CaseSeen, CaseStanding, DriveSeen, SlotFacts, Starting
from eraser.ownership.model import Book, KeptTicket, SlotEntry
from eraser.protocol.ticket import Ticket, TicketState
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from tests.model import gauge, papers
from tests.model.books import domain
from tests.model.gauge import OWN_WRITES, Gauge, Habit, Use
from tests.model.papers import ADDRESS, ENTRIES, PAPERS
from tests.model.parts import Parts
from tests.model.seals import Key
from tests.model.search import Slip, Step
from tests.model.system import REFUSED, System
from tests.model.tables import fresh_record
from tests.model.world import CLEAN, NOWHERE, Mail, server

Steps = Iterator[tuple[str, Gauge]]

_MAIL = Mail("ticket", 1, 0, True)
_HELD = "an honest drive is held although nothing went wrong"


@dataclass(frozen=True)
class Config:
    """What is searched."""

    name: str
    budget: int = 0
    """How often the drive may be away from its slot."""
    blind: bool = False
    """The host's gate calls each ticket valid and lets every guest in. It still tells truthfully
    what it read of the drive, and the control plane has nothing else."""


class Meter(System[Gauge]):
    """One configuration with one version of the product's decisions."""

    def __init__(self, config: Config, parts: Parts) -> None:
        super().__init__(parts.switch)
        self.config, self.name = config, config.name
        self._rules, self._intake = parts.rules, parts.intake
        self._revocation, self._receipts = parts.revocation, parts.receipts

    def start(self) -> int:
        """A drive that nobody knows yet."""
        return self._worlds.number(Gauge(self.config.budget))

    def budget(self, number: int) -> int:
        """How often the drive may still be away."""
        return self.world(number).budget

    def good(self, number: int) -> bool:
        """Everything is one way here: no state needs a way back."""
        return True

    def broken(self, before: int, name: str, after: int) -> str:
        """What is wrong with a step, besides what was noticed within it."""
        if name.startswith(REFUSED) and not self.world(before).away:
            return "an honest guest is refused although nothing went wrong"
        return ""

    def _all_steps(self, number: int) -> tuple[Step[int], ...]:
        return tuple(
            (name, self._worlds.number(after)) for name, after in self._steps(self.world(number))
        )

    def _steps(self, here: Gauge) -> Steps:
        if here.habit is None:
            for habit in Habit:
                yield f"the drive {habit}", here.with_(habit=habit, stage="erasing")
            return
        if here.stage == "started":
            return
        if here.late:
            yield "the drive counts what it was late with", gauge.caught_up(here)
        yield from self._away(here)
        if here.stage == "erasing" and here.there:
            yield "its erase is proved and reported", gauge.reported(here)
        if here.stage == "reported" and (here.habit is not Habit.BARE_LATE or not here.late):
            # docs/decisions/gate.md: without a seal a drive has to have counted by its ticket.
            yield from self._taken(here)
        elif here.stage == "taken":
            yield from self._receipt(here)
        elif here.stage == "offered" and here.there and not self.config.blind:
            yield self._started(here)

    def _away(self, here: Gauge) -> Steps:
        if not here.there:
            yield "the drive is put into its slot", here.with_(there=True)
            for use in Use if here.data == CLEAN else ():
                yield f"somebody elsewhere {use}", gauge.used(here, use)
        elif here.budget and not (self.config.blind and here.stage in ("taken", "offered")):
            away = _AWAY.get(here.stage, "late")
            gone = here.with_(there=False, budget=here.budget - 1, away=here.away or away)
            yield "the drive leaves its slot while nobody looks", gone
            standing = CaseStanding.OPEN if here.stage == "erasing" else CaseStanding.ERASED
            book = self._revocation.gone(_book(here), ADDRESS, standing, "it was away")
            yield (
                "the drive leaves its slot",
                _entered(gone.with_(seen=bool(away) and not self.config.blind), book),
            )

    def _taken(self, here: Gauge) -> Steps:
        paper, book = _ticket(here), _book(here)
        if self.config.blind:
            if here.there:
                kept = KeptTicket(paper, TicketState.VALID, "", here.now, "")
                book = book.with_entry(SlotEntry(ADDRESS, ticket=kept))
                yield "the host calls the ticket valid", _entered(here, book).with_(stage="taken")
            return
        unread = dataclasses.replace(_facts(here), case=CaseSeen(CaseStanding.OPEN))
        for facts, how in ((_facts(here), ""), (unread, ", which cannot read its case this time")):
            taken = self._intake.take_ticket(book, paper, facts, "")
            if not isinstance(taken, self._intake.Later):
                after = _entered(here, taken).with_(stage="taken")
                yield f"the host takes the ticket in{how}", after

    def _receipt(self, here: Gauge) -> Steps:
        """The host says what the ticket is worth to it, and the control plane what it hears."""
        said = self._intake.answer(_book(here), _ticket(here))
        ruling, _why = self._receipts.judge(_record(here), said, [Key.public])
        if ruling == self._receipts.ReceiptRuling.READY:
            if self.config.blind and here.use and not _unknowable(here):
                raise Slip("the slot is given back although the host told of writes to the drive")
            yield "the slot is given back", here.with_(stage="offered")
        elif not here.away:
            raise Slip(_HELD)
        # Else a person decides, and it is erased again.

    def _started(self, here: Gauge) -> tuple[str, Gauge]:
        starting = Starting(domain(server(0)), "")
        found = self._rules.admit(_facts(here), starting)
        if not isinstance(found, self._rules.StartAdmission):
            return f"{REFUSED} the guest", here.with_(stage="started")
        if here.data != CLEAN and not _unknowable(here):
            raise Slip(f"a guest is let in on a drive that somebody wrote to ({here.habit})")
        return "the gate lets the guest start", here.with_(stage="started")


def _unknowable(here: Gauge) -> bool:
    """What docs/decisions/gate.md leaves open: nobody saw the drive leave, and without a seal it
    counts nothing, or what it counted might be the case's own."""
    if here.seen:
        return False
    if here.habit is Habit.MUTE:
        return True
    little = here.use is Use.BLOCK and here.away == "early"
    return little and here.habit in (Habit.BARE, Habit.BARE_LATE)


_AWAY = {"erasing": "", "reported": "early"}
"""What is read before the report is read whatever became of the drive until then."""


def _entered(here: Gauge, book: Book) -> Gauge:
    entry = dataclasses.replace(book.entry(ADDRESS), last_owner=None, last_identity=None)
    return here.with_(entry=ENTRIES.number(entry))


def _book(here: Gauge) -> Book:
    entry = SlotEntry(ADDRESS) if here.entry == NOWHERE else ENTRIES[here.entry]
    return Book(papers.incarnation(True), (entry,), adopted_at="once")


def _ticket(here: Gauge) -> Ticket:
    assert here.reported is not None
    made = papers.ticket(0, _MAIL)
    return dataclasses.replace(made, counters=here.reported, own_writes=OWN_WRITES)


def _facts(here: Gauge) -> SlotFacts:
    paper = _ticket(here)
    case = CaseSeen(CaseStanding.ERASED, paper.order_id, paper.generation, paper.identity)
    drive = DriveSeen(None)
    if here.there:
        drive = DriveSeen("nvme", paper.identity, here.now, SanitizeState.SUCCESS)
    return SlotFacts(ADDRESS, _book(here).entry(ADDRESS), drive, case, papers.incarnation(True))


def _record(here: Gauge) -> SlotRecord:
    """The slot as the control plane has it, certified."""
    paper = _ticket(here)
    return dataclasses.replace(
        fresh_record(0, in_use=False, generation=paper.generation),
        state=State.CERTIFIED,
        order_id=paper.order_id,
        certificate=paper.certificate,
        ticket_token=f"paper {PAPERS.number(paper)}",
    )
