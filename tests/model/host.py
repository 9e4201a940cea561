"""A compute host in the model: its real gate, ticket intake, revocation and order check.

What is a stand-in: the drive, libvirt's files, the runner that erases. A case holds the slot's lock
while it runs, and a runner may die at any point.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

from eraser.agent.hoststate import HostState, OrderRefusedError
from eraser.controller.spec import SanitizeState
from eraser.gate import intake, rules
from eraser.ownership import atrest, model, revocation
from eraser.ownership.facts import (
    CaseSeen,
    CaseStanding,
    DriveSeen,
    HostSeen,
    NewErase,
    SlotFacts,
    Starting,
)
from eraser.protocol.ticket import Counters, TicketState
from tests.model import papers
from tests.model.books import book_of, counters, domain, entry_of, written_down
from tests.model.mutate import Memo, Switch
from tests.model.papers import ADDRESS, identity, order, ticket
from tests.model.search import Slip
from tests.model.sight import Changes, Seen, alone, changes, seen_by
from tests.model.world import CLEAN, NOWHERE, Drive, Mail, World, ghost, server

Steps = Iterator[tuple[str, World]]

LATER = model.SteadyTime("boot", 1000.0)
SOON = model.SteadyTime("boot", 1.0)
THEN = model.SteadyTime("boot", 0.0)
AT_REST = Counters(1000, 1000, 10, None)

_STANDING = {
    "": CaseStanding.NONE,
    "open": CaseStanding.OPEN,
    "running": CaseStanding.OPEN,
    "in_use": CaseStanding.IN_USE,
    "erased": CaseStanding.ERASED,
    "failed": CaseStanding.ENDED,
    "wrong": CaseStanding.ENDED,
}


class Host:
    """The steps of a host, with one version of its rules.

    They depend on little of the world: each answer is kept, under just what it may depend on.
    """

    def __init__(
        self,
        gate: ModuleType = rules,
        tickets: ModuleType = intake,
        taking: ModuleType = revocation,
        resting: ModuleType = atrest,
        switch: Switch | None = None,
    ) -> None:
        self._rules = gate
        self._intake = tickets
        self._revocation = taking
        self._resting = resting
        switch = switch or Switch()
        self._stepped: Memo[Any, tuple[tuple[str, Changes], ...]] = Memo(switch)
        self._started: Memo[Any, Changes | None] = Memo(switch)

    # The last gate

    def start(self, world: World, p: int, number: int) -> World | None:
        """Whether a domain may start on the slot's drive, and what is written down then."""
        small = seen_by(world, p)
        found = self._started((p, number, small), lambda: self._answer(p, number, *small))
        return None if found is None else world.at(p, **found)

    def _answer(self, p: int, number: int, here: Seen, drive: Drive) -> Changes | None:
        small = alone(p, here, drive)
        after = self._start(small, p, number)
        return None if after is None else changes(small, after, p)

    def _start(self, world: World, p: int, number: int) -> World | None:
        here = world.places[p]
        starting = Starting(domain(number), domain(number))
        kept, owner = entry_of(here).ticket, entry_of(here).owner
        base, fresh = None, False
        if owner is not None:
            base, fresh = owner.rest, here.rest_fresh
        elif kept is not None:
            base, fresh = kept.counters, here.ticket_fresh
        facts = self._facts(world, p, base, fresh)
        found = self._rules.admit(facts, starting)
        if isinstance(found, rules.StartRefusal | self._rules.StartRefusal):
            # That a refusal may void the ticket is left out: it only refuses more.
            return None
        book = self._rules.consume(book_of(here), [found], starting, THEN, "")
        return written_down(world, p, book)

    def _facts(self, world: World, p: int, base: Counters | None, fresh: bool) -> SlotFacts:
        here = world.places[p]
        if here.drive == NOWHERE:
            drive = DriveSeen(None)
        else:
            held = here.instance == "on" or here.ghost == "on"
            now = None if base is None else counters(world, p, base, fresh)
            drive = DriveSeen(
                "vfio-pci" if held else "nvme",
                identity(here.drive),
                now or Counters(0, 0, 0, None),
                SanitizeState.NEVER if here.case != "running" else SanitizeState.RUNNING,
            )
        case = CaseSeen()
        if here.accepted is not None:
            asked = order(p, here.accepted)
            case = CaseSeen(_STANDING[here.case], asked.order_id, asked.generation, asked.identity)
        return SlotFacts(
            ADDRESS,
            entry_of(here),
            drive,
            case,
            papers.incarnation(True),
            locked="a runner" if here.case == "running" else "",
        )

    # Orders and the erase

    def steps(self, world: World, p: int) -> Steps:
        """Everything that the eraser does by itself."""
        small = seen_by(world, p)
        for name, new in self._stepped((p, small), lambda: self._all(p, *small)):
            yield name, world.at(p, **new)
        here = world.places[p]
        if here.case == "running" and here.accepted and here.drive == here.accepted.drive:
            yield self._erase(world, p)

    def _all(self, p: int, here: Seen, drive: Drive) -> tuple[tuple[str, Changes], ...]:
        """All but the erase, which others may notice who know the drive's counters."""
        small = alone(p, here, drive)
        return tuple((name, changes(small, after, p)) for name, after in self._steps(small, p))

    def _steps(self, world: World, p: int) -> Steps:
        yield from self._orders(world, p)
        yield from self._tickets(world, p)
        yield from self._rest(world, p)
        here = world.places[p]
        if here.case == "open":
            yield self._begin(world, p)
        if here.case == "running":
            yield f"the runner of host {p} dies", world.at(p, case="open")
            if here.accepted is None or here.drive != here.accepted.drive:
                # What the runner holds open is the controller that went.
                yield self._ended(world, p, "failed")

    def _orders(self, world: World, p: int) -> Steps:
        here = world.places[p]
        known = None if here.accepted is None else order(p, here.accepted)
        card = SimpleNamespace(host=f"host{p}", incarnation=papers.incarnation(True))
        for mail in sorted(here.mail):
            if mail.kind != "order":
                continue
            new = order(p, mail)
            try:
                HostState._check(SimpleNamespace(card=card), new, known)  # type: ignore[arg-type]
            except OrderRefusedError:
                continue
            if new != known:
                after = world.at(p, accepted=mail, case="open", fresh=False)
                yield f"host {p} accepts order {mail.generation} for drive {mail.drive}", after
            elif here.case == "in_use":
                yield f"host {p} gets the same order again", world.at(p, case="open")

    def _begin(self, world: World, p: int) -> tuple[str, World]:
        """The idle proof, the identity, the revocation: nothing destructive before them."""
        here = world.places[p]
        assert here.accepted is not None
        if here.drive == NOWHERE:
            return self._ended(world, p, "failed")
        if here.instance in ("on", "off") or here.ghost:
            return self._ended(world, p, "in_use")
        if here.drive != here.accepted.drive:
            return self._ended(world, p, "wrong")
        domains = {}
        if here.instance == "suspended":
            # Its domain exists, and no longer names the drive.
            domains = {domain(server(p)): "/etc/libvirt/qemu"}
        now = SOON if here.instance == "starting" else LATER
        found = self._revocation.revoke(
            book_of(here),
            NewErase(ADDRESS, identity(here.drive), ""),
            HostSeen(now, domains),
        )
        if isinstance(found, revocation.StillOwned | self._revocation.StillOwned):
            return self._ended(world, p, "in_use")
        _nobody_has(world, p)
        after = written_down(world, p, found.book).at(p, case="running")
        return f"host {p}: idle, revoked, the erase begins", after

    def _erase(self, world: World, p: int) -> tuple[str, World]:
        here = world.places[p]
        assert here.accepted is not None
        _nobody_has(world, p)
        world = world.stale(here.drive).wrote(here.drive, CLEAN, sealed=True)
        world = world.at(p, fresh=True)
        _name, after = self._ended(world, p, "erased")
        return f"host {p} has erased and verified drive {here.drive}", after

    def _ended(self, world: World, p: int, how: str) -> tuple[str, World]:
        here = world.places[p]
        assert here.accepted is not None
        mail = here.accepted._replace(kind="report", says=how)
        after = world.at(p, case=how, mail=here.mail | {mail})
        return f"host {p} reports {how}", after

    # Tickets

    def _tickets(self, world: World, p: int) -> Steps:
        here = world.places[p]
        for mail in sorted(here.mail):
            if mail.kind != "ticket":
                continue
            paper, book = ticket(p, mail), book_of(here)
            known = self._intake.answer(book, paper)
            if known is None:
                facts = self._facts(world, p, paper.counters, here.fresh)
                taken = self._intake.take_ticket(book, paper, facts, "")
                if isinstance(taken, intake.Later | self._intake.Later):
                    continue
                after = written_down(world, p, taken)
                valid = entry_of(after.places[p]).ticket.state is TicketState.VALID  # type: ignore[union-attr]
                after = after.at(p, ticket_fresh=valid)
                yield f"host {p} takes ticket {mail.generation} in", after
            else:
                said = Mail("receipt", mail.generation, mail.drive, mail.present, known.state)
                if said not in here.mail:
                    after = world.at(p, mail=here.mail | {said})
                    yield f"host {p} answers ticket {mail.generation}: {known.state}", after

    # The drive of an owner that is off

    def _rest(self, world: World, p: int) -> Steps:
        here, owner = world.places[p], entry_of(world.places[p]).owner
        if here.drive == NOWHERE or here.case in ("open", "running"):
            return
        if not here.instance and not here.ghost:
            return  # whoever had it starts no more
        if here.instance == "starting":
            return  # read_idle: "its owner was let in a moment ago"
        driver = "vfio-pci" if here.instance == "on" or here.ghost == "on" else "nvme"
        wanted = self._resting.idle_action(owner, driver, papers.incarnation(True))
        self._needed(world, p, driver, wanted)
        if wanted is None or owner is None or owner.identity != identity(here.drive):
            return
        noted = AT_REST if wanted is self._resting.IdleAction.NOTE else None
        after = written_down(world, p, self._resting.rested(book_of(here), ADDRESS, noted))
        if after == world:
            raise Slip(f"host {p} writes nothing of its owner's counters")
        what = "notes" if noted else "forgets"
        yield f"host {p} {what} its owner's counters", after.at(p, rest_fresh=noted is not None)

    def _needed(self, world: World, p: int, driver: str, wanted: object) -> None:
        """An owner that is off can come back to a drive that was away, and one that runs writes."""
        here, owner = world.places[p], entry_of(world.places[p]).owner
        if owner is None or owner.incarnation != papers.incarnation(True):
            return
        lacks = owner.rest is None and not owner.left
        if (
            here.instance == "off"
            and driver == "nvme"
            and lacks
            and wanted != atrest.IdleAction.NOTE
        ):
            raise Slip(f"host {p} never notes what the drive of an owner that is off has counted")
        if driver == "vfio-pci" and owner.rest is not None and wanted != atrest.IdleAction.FORGET:
            raise Slip(f"host {p} holds against its owner what the drive had counted before")

    def vanished(self, world: World, p: int) -> World:
        """What the watcher writes when the drive has left its slot."""
        book = self._resting.left(book_of(world.places[p]), ADDRESS, "it was away")
        return written_down(world, p, book)

    # People

    def reinstalled(self, world: World, p: int) -> World:
        """A host that lost its files: every older order and ticket is for another one."""
        here = world.places[p]
        old = frozenset(mail._replace(present=False) for mail in here.mail)
        return world.at(
            p,
            registered=False,
            accepted=None,
            case="",
            fresh=False,
            entry=NOWHERE,
            ticket_drive=NOWHERE,
            ticket_fresh=False,
            rest_drive=NOWHERE,
            rest_fresh=False,
            mail=old,
        )


def _nobody_has(world: World, p: int) -> None:
    """Promise 2, from outside."""
    here = world.places[p]
    data = world.drives[here.drive].data
    if here.instance in ("starting", "on") or here.ghost == "on":
        raise Slip(f"host {p} erases a drive that a guest runs on")
    if data == server(p) and here.instance in ("off", "suspended"):
        raise Slip(f"host {p} erases the drive of an instance that is {here.instance}")
    if data == ghost(p) and here.ghost:
        raise Slip(f"host {p} erases a drive while a domain that Nova forgot still names it")
