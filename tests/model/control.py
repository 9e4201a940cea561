"""The control plane in the model: its real decisions and acts on tables and a Placement of ours.

What is real: ``decide``, ``Reconciler`` (what it looks up), ``Executor``, ``Dispatcher``,
``Inbox``, ``drive_inventory``, ``check``, ``lifecycle``. What is a stand-in: the tables and the
HTTP behind them, both with the same compare-and-set; and signatures, which say by themselves what
they stand for.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from types import ModuleType
from typing import Any, NoReturn

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.cloud.facts import View
from quarantine.errors import ConflictError, QuarantineError
from quarantine.record.words.facts import (
    NewCertificate,
    SlotChanges,
    SlotRecord,
)
from quarantine.record.words.states import Event, State
from quarantine.rules.action import Action, ActionKind, ServiceLimits, SlotContext
from quarantine.rules.reports import receipts
from quarantine.rules.reports import ticket as ticket_rules
from quarantine.service import reconciler
from quarantine.service.inbound import authenticate, messages
from quarantine.service.issue import dispatch, tickets
from tests.model import duties, mutate
from tests.model.hellos import hello
from tests.model.lowered import (
    excess,
    hello_lowered,
    lowered,
    oldest_in_hello,
    oldest_in_record,
)
from tests.model.papers import (
    HELLOS,
    LIMITS,
    LONG_AGO,
    NOW,
    RECORDS,
    Steps,
    certificate,
    drive_of,
    order_mail,
    slot,
)
from tests.model.placement import Placement
from tests.model.seals import BELIEVED, IDS, Codec, Key, Signing
from tests.model.search import Slip
from tests.model.tables import CrashedError, Store, Writes
from tests.model.world import CLEAN, NOWHERE, Mail, Place, World

Following = tuple[tuple[str, World], ...]


class Control:
    """The steps of the control plane, with one version of its decisions.

    What it does depends on little of the world, and is asked for again and again: each answer is
    kept, under just what it may depend on.
    """

    def __init__(
        self,
        decide: Callable[..., Any],
        judge: ModuleType = receipts,
        switch: mutate.Switch | None = None,
        limits: ServiceLimits = LIMITS,
    ) -> None:
        self._decide = decide
        self._limits = limits
        self._dispatch = mutate.copied(dispatch)
        self._stored = mutate.copied(ticket_rules)
        self._tickets = mutate.copied(tickets)
        self._receipts = mutate.copied(judge) if judge is receipts else judge
        self._inbox = mutate.copied(messages)
        _replace(self._dispatch, signing=Signing, codec=Codec)
        _replace(self._stored, signing=Signing, codec=Codec)
        _replace(self._tickets, signing=Signing, codec=Codec, ticket=self._stored)
        _replace(self._receipts, stored=self._stored)
        self._authenticate = mutate.copied(authenticate)
        _replace(self._authenticate, signing=Signing, codec=Codec)
        _replace(
            self._inbox,
            signing=Signing,
            codec=Codec,
            receipts=self._receipts,
            Authenticator=self._authenticate.Authenticator,
        )
        switch = switch or mutate.Switch()
        self._looked: mutate.Memo[tuple[int, World], Following] = mutate.Memo(switch)
        self._looked_low: mutate.Memo[tuple[int, World], Following] = mutate.Memo(switch)
        self._heard: mutate.Memo[tuple[World, str], World | None] = mutate.Memo(switch)

    def looks(self, world: World, p: int) -> Steps:
        """One look and the one step it asks for; also cut off after each of its writes."""
        if world.places[p].record == NOWHERE:
            return
        small = _small(world, p, _LOOKED_AT)
        for name, after in self._looked((p, small), lambda: self._looks(small, p)):
            seen, mine = world.places[p], after.places[p]
            yield (
                name,
                _records(world, after).at(
                    p, reserved=mine.reserved, holder=mine.holder, mail=seen.mail | mine.mail
                ),
            )

    def _looks(self, small: World, p: int) -> Following:
        here = small.places[p]
        by = excess(oldest_in_record(here.record), oldest_in_hello(here.hello))
        low = lowered(small, p, by)
        found = self._looked_low((p, low), lambda: tuple(self._all_looks(low, p)))
        return tuple((name, lowered(after, p, -by)) for name, after in found)

    def _all_looks(self, world: World, p: int) -> Steps:
        for late in (False, True):
            writes, name, reason, after = self._look(world, p, late, None)
            if writes == 0:
                continue
            yield f"{name}{reason}", after
            for last in range(1, writes):
                _count, name, reason, after = self._look(world, p, late, last)
                yield f"{name}, and crash after write {last}{reason}", after

    def _look(
        self, world: World, p: int, late: bool, last: int | None
    ) -> tuple[int, str, str, World]:
        writes = Writes(last)
        store, placement = Store(world, writes), Placement(world, writes)
        sent: list[str] = []

        def post(_host: str, token: str) -> None:
            sent.append(token)

        dispatcher = self._dispatch.Dispatcher(
            store, Key(), post, clock=_now, uuid=IDS.uuid4, token=IDS.token_hex
        )
        papers = self._tickets.Tickets(store, Key(), post, clock=_now)
        loop = reconciler.Reconciler(
            store,  # type: ignore[arg-type]
            placement,  # type: ignore[arg-type]
            dispatcher,
            self._limits,
            _now,
            tickets=papers,
        )
        record = store.records[slot(p)]
        if late:
            times: dict[str, Any] = dict.fromkeys(_TIMES, LONG_AGO)
            record = dataclasses.replace(record, **times)
            store.records[slot(p)] = record
        view = loop._looks.view(record)
        context = dataclasses.replace(loop._looks.context(record), ghosts=None)
        action = self._decide(record, view, NOW, self._limits, context)
        if action.act is ActionKind.ASK:
            action = self._asked(record, view, context, p)
        elif action.act is ActionKind.CHECK:
            action = self._checked(record, view, context, p)
        elif action.act is ActionKind.GIVE_BACK:
            raise Slip(f"the slot of host {p} is given back before its trait was asked for")
        elif action.act in (ActionKind.ORDER, ActionKind.RESEND):
            raise Slip(f"an order for host {p} goes out before Nova was asked for ghosts")
        if not late:
            duties.hasty(p, record, view, action)
        duties.told(p, record, view, context, action)
        duties.locked(p, record, view, action, late)
        try:
            if action.act in (ActionKind.ORDER, ActionKind.RESEND):
                loop._looks.executor.send(record)
            elif action.act is ActionKind.TICKET:
                loop._looks.executor.send_ticket(record)
            elif action.act not in (ActionKind.NOTHING, ActionKind.WAIT):
                loop._looks.executor.carry_out(record, view, action)
        except CrashedError:
            pass
        except ConflictError as conflict:
            # Nobody is beside this look: the next one would ask for the same.
            raise Slip(f"a look at the slot of host {p} meets a conflict with nobody") from conflict
        after = store.result(placement.world)
        for token in sent:
            place, mail = order_mail(token)
            after = after.at(place, mail=after.places[place].mail | {mail})
        if not last and writes.count and not sent and duties.same(record, world, store, placement):
            raise Slip(f"a look at the slot of host {p} writes and changes nothing, for ever")
        name = f"control {p}{', much later' if late else ''}: {action.event or action.act}"
        alarm = ALARM if action.alarm and not late else " ("
        return writes.count, name, f"{alarm}{action.reason})" if action.reason else "", after

    def _asked(self, record: SlotRecord, view: View | None, context: SlotContext, p: int) -> Action:
        """The decision where Nova knows of no ghost; where it does, nothing may be sent."""
        haunted = dataclasses.replace(context, ghosts=("a server without its allocation",))
        if self._decide(record, view, NOW, self._limits, haunted).act is not ActionKind.WAIT:
            raise Slip(f"an order for host {p} does not wait although Nova names a ghost")
        found = dataclasses.replace(context, ghosts=())
        answered: Action = self._decide(record, view, NOW, self._limits, found)
        return answered

    def _checked(
        self, record: SlotRecord, view: View | None, context: SlotContext, p: int
    ) -> Action:
        """The decision where the slot has its trait; one without it is not given back."""
        unburned = dataclasses.replace(context, burns=False)
        if self._decide(record, view, NOW, self._limits, unburned).event is not Event.HELD:
            raise Slip(f"the slot of host {p} is not held although Nova would not burn it")
        found = dataclasses.replace(context, burns=True)
        answered: Action = self._decide(record, view, NOW, self._limits, found)
        return answered

    def _hears(self, world: World, p: int, kind: str, said: int | Mail) -> World | None:
        """The world after one message of a host; None where it was refused."""
        small = _small(world, p, ("record", "registered", "hello", "heard"))
        here = small.places[p]
        oldest = said.generation if isinstance(said, Mail) else oldest_in_hello(said)
        by = excess(oldest, oldest_in_record(here.record), oldest_in_hello(here.hello))
        low = lowered(small, p, by)
        token = f"{kind} {_spelt(p, said, by)}"
        after = self._heard((low, token), lambda: self._open(low, token))
        return None if after is None else _records(world, lowered(after, p, -by))

    def _open(self, world: World, token: str) -> World | None:
        store = Store(world, Writes(None))
        door = self._inbox.Inbox(store, BELIEVED, _Registrar(store), _Nobody(), clock=_now)
        vars(door)["_unjudged"] = _mistaken
        try:
            getattr(door, token.split()[0])(token)
        except QuarantineError:
            return None
        return store.result(world)

    def hello(self, world: World, p: int) -> Steps:
        """The host tells what it sees now."""
        if not world.places[p].registered:
            return
        number = HELLOS.number(hello(world, p))
        after = self._hears(world, p, "hello", number)
        if after is not None:
            mine = RECORDS[after.places[p].record] if after.places[p].record != NOWHERE else None
            same = after.places[p].record == world.places[p].record
            # What moved the slot was decided on this hello: it is of before the new state.
            after = after.at(p, hello=number, heard=same or mine is None)
            yield f"host {p} says hello", after

    def letters(self, world: World, p: int) -> Steps:
        """Every report and receipt that was ever sent, delivered now."""
        for mail in sorted(world.places[p].mail):
            if mail.kind in ("report", "receipt"):
                after = self._hears(world, p, mail.kind, mail)
                if after is not None:
                    _certified(world, after, p)
                    yield f"{mail.kind} of host {p}: {mail.says}, case {mail.generation}", after

    def released(self, world: World, p: int) -> Steps:
        """A person settles a hold, for the drive that is known or for another one."""
        record = RECORDS[world.places[p].record]
        if record.state is not State.HELD:
            return
        for name, changes in (
            ("", SlotChanges()),
            (" with another drive", SlotChanges(identity=None, consumer=None)),
        ):
            store = Store(world, Writes(None))
            store.transition(record, Event.RELEASED_BY_OPERATOR, reason="settled", changes=changes)
            yield f"an operator releases the slot of host {p}{name}", store.result(world)


def _spelt(p: int, said: int | Mail, by: int) -> str:
    """A host's message, of cases that many earlier."""
    if isinstance(said, Mail):
        present = int(said.present)
        return f"{p} {said.generation - by} {said.drive} {present} {said.says}"
    return str(hello_lowered(said, by))


class _Registrar:
    """Certifies as the real one does, without the paper."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def images(self, _drive: ControllerIdentity) -> tuple[str, ...]:
        """The model's drives have no firmware slots."""
        return ()

    def certify(self, record: SlotRecord, **evidence: Any) -> None:
        digest = certificate(int(record.slot.host[-1]))
        made = ticket_rules.build(evidence["order"], evidence["report"], digest)
        token = Key().sign(made, "")
        changes = dataclasses.replace(
            evidence["changes"],
            ticket_token=token,
            ticket_incarnation=made.incarnation,
        )
        self._store.transition(
            record,
            Event.CERTIFIED,
            changes=changes,
            certificate=NewCertificate("", digest, ""),
        )


ALARM = " (ALARM: "
"""In the name of a step: people are called, and not because something takes long."""
_LOOKED_AT = ("provider", "reserved", "holder", "registered", "record", "hello", "heard")
_TIMES = ("entered_at", "ordered_at", "heard_at", "ticket_at")


def _now() -> datetime:
    return NOW


def _small(world: World, p: int, fields: tuple[str, ...]) -> World:
    """Only what the control plane can see: of its own records all, of one place the fields."""
    places = []
    for number, place in enumerate(world.places):
        seen = {field: getattr(place, field) for field in fields} if number == p else {}
        places.append(Place(**{"record": place.record, **seen}))
    return World((), tuple(places), world.known, 0)


def _records(world: World, after: World) -> World:
    """The world with the records of another; a hello is older than whatever moved a slot."""
    for number, place in enumerate(after.places):
        old = world.places[number]
        if old.record != place.record:
            moved = _state(old.record) is not _state(place.record)
            world = world.at(number, record=place.record, heard=old.heard and not moved)
    return world._replace(known=after.known)


def _state(record: int) -> State | None:
    return None if record == NOWHERE else RECORDS[record].state


def _certified(before: World, after: World, p: int) -> None:
    """Promise 1, from outside: what is called clean was clean when the host's report was made."""
    old, new = RECORDS[before.places[p].record], RECORDS[after.places[p].record]
    if new.state is not State.CERTIFIED or old.state is State.CERTIFIED:
        return
    drive = drive_of(new.identity)
    if before.drives[drive].data != CLEAN and before.places[p].fresh:
        raise Slip(f"host {p}: drive {drive} was certified with somebody's data on it")


def _mistaken(*given: object) -> NoReturn:
    """A slot that is held for a mistake of ours, or of this model's, would only end the search."""
    raise AssertionError(f"met {given[-1]!r} over a report")


class _Nobody:
    """Looks come as steps of their own."""

    def look(self, _slot: Slot) -> None:
        return None

    def ring(self, _host: str, _address: str | None = None) -> tuple[()]:
        return ()


def _replace(module: ModuleType, **names: Any) -> None:
    for name, value in names.items():
        setattr(module, name, value)
