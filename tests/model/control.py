"""The control plane in the model: its real decisions and hands on a store and a Placement of ours.

What is real: ``decide``, ``Reconciler`` (what it looks up), ``Hands``, ``Dispatcher``, ``Inbox``,
``census``, ``check``, ``lifecycle``. What is a stand-in: the tables and the HTTP behind them, both
with the same compare-and-set; and signatures, which say by themselves what they stand for.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from types import ModuleType
from typing import Any

from eraser.gate.records import Entry
from eraser.wire.errors import BadInputError
from eraser.wire.identity import ControllerIdentity, Slot
from eraser.wire.order import EraseOrder
from eraser.wire.report import (
    AcceptedOrder,
    EraseReport,
    Hello,
    Outcome,
    SeenDrive,
    Verdict,
)
from eraser.wire.signing import PublicKey
from eraser.wire.ticket import (
    Defence,
    DefenceSeen,
    DomainSeen,
    GateTestimony,
    Standing,
    Ticket,
    TicketReceipt,
    TicketSeen,
    TicketState,
)
from quarantine import dispatch, inbox, letters, receipts, reconcile, tickets
from quarantine.cloud.facts import CONSUMER_TYPE, Allocation, Inventory, Provider, View
from quarantine.cloud.facts import provider_name as name_of
from quarantine.errors import ConflictError, IllegalTransitionError, QuarantineError
from quarantine.record import lifecycle, rows
from quarantine.record import slots as table
from quarantine.record.facts import (
    Approved,
    DriveRecord,
    HostRecord,
    NewCertificate,
    SlotChanges,
    SlotRecord,
)
from quarantine.record.states import Event, State
from quarantine.step import Act, Limits
from tests.model import mutate
from tests.model.names import Names
from tests.model.search import Slip
from tests.model.world import CLEAN, GONE, NOWHERE, Known, Mail, Place, World, ghost, server
from tests.unit.quarantine.testimony import ORDER, POLICY, PROFILE, REPORT

ADDRESS = "0000:01:00.0"
CLASS = "CUSTOM_NVME"
NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
LONG_AGO = NOW - timedelta(days=2)
LONGER_AGO = NOW - timedelta(days=4)
UUIDS = {"known": "provider-in-our-record", "other": "provider-of-another-day"}
LIMITS = Limits()

Steps = Iterator[tuple[str, World]]

RECORDS: Names[SlotRecord] = Names()
HELLOS: Names[Hello] = Names()
ENTRIES: Names[Entry] = Names()
"""What a gate has of its slot."""


class CrashedError(Exception):
    """The process ended after its last write."""


def slot(place: int) -> Slot:
    """The one slot of a host."""
    return Slot(f"host{place}", ADDRESS)


@functools.cache
def identity(drive: int) -> ControllerIdentity:
    """Who a drive is."""
    return dataclasses.replace(ORDER.identity, serial=f"DRIVE{drive}")


@functools.cache
def drive_of(who: ControllerIdentity | None) -> int:
    """The drive that an identity names."""
    return NOWHERE if who is None else int(who.serial.removeprefix("DRIVE"))


def instance(place: int) -> str:
    """The consumer of a place's instance."""
    return f"instance-{server(place)}"


# Orders and reports, by tokens that spell them out


def order_token(place: int, mail: Mail) -> str:
    """Stands for the signed order, or ticket."""
    return f"{mail.kind} {place} {mail.generation} {mail.drive} {int(mail.present)}"


def order_mail(token: str) -> tuple[int, Mail]:
    """Whose order, or ticket, a token is."""
    kind, place, generation, drive, present = token.split()
    return int(place), Mail(kind, int(generation), int(drive), bool(int(present)))


@functools.cache
def order(place: int, mail: Mail) -> EraseOrder:
    """The order itself. One case gives one order to one incarnation."""
    name = f"{mail.generation:04d}-{mail.drive}-{int(mail.present)}"
    return dataclasses.replace(
        ORDER,
        order_id=f"order-of-case-{name}",
        nonce=f"nonce-of-case-{name}",
        slot=slot(place),
        identity=identity(mail.drive),
        generation=mail.generation,
        incarnation=incarnation(mail.present),
    )


def incarnation(present: bool) -> str:
    """A host is one of two: the one that it is, or one that it was."""
    return "incarnation-00001" if present else "incarnation-00000"


@functools.cache
def report(place: int, mail: Mail) -> EraseReport:
    """What the host answers to an order."""
    asked = order(place, mail._replace(kind="order", says=""))
    base = dataclasses.replace(
        REPORT,
        order_id=asked.order_id,
        slot=asked.slot,
        identity=asked.identity,
        generation=asked.generation,
        nonce=asked.nonce,
        incarnation=asked.incarnation,
    )
    if mail.says == "erased":
        return base
    nothing: dict[str, Any] = {
        "methods": (),
        "commands": (),
        "verification": None,
        "fit": False,
        "verdict": Verdict.UNKNOWN,
        "reasons": (mail.says,),
        "achieved": None,
    }
    outcome = {
        "in_use": Outcome.IN_USE,
        "wrong": Outcome.WRONG_DRIVE,
        "failed": Outcome.COMPLETED,
    }[mail.says]
    return dataclasses.replace(base, outcome=outcome, **nothing)


@functools.cache
def ticket(place: int, mail: Mail) -> Ticket:
    """The ticket itself, as the product makes it from the case's order and report."""
    asked, said = mail._replace(kind="order"), mail._replace(kind="report", says="erased")
    return tickets.build(order(place, asked), report(place, said), certificate(place))


def certificate(place: int) -> str:
    """The digest of the certificate that a place's record may name."""
    return f"certificate-{place}"


@functools.cache
def receipt(place: int, mail: Mail) -> TicketReceipt:
    """What the host answers to a ticket."""
    asked = ticket(place, mail._replace(kind="ticket", says=""))
    valid = mail.says == "valid"
    return TicketReceipt(
        order_id=asked.order_id,
        slot=asked.slot,
        generation=asked.generation,
        incarnation=asked.incarnation,
        state=TicketState(mail.says),
        reason="" if valid else mail.says,
        counters=asked.counters if valid else None,
    )


def spoken(token: str) -> Any:
    """What a token stands for."""
    kind, _, rest = token.partition(" ")
    if kind == "hello":
        return HELLOS[int(rest)]
    place, generation, drive, present, *says = rest.split()
    mail = Mail(kind, int(generation), int(drive), bool(int(present)), *says)
    return _SPOKEN[kind](int(place), mail)


_SPOKEN: dict[str, Callable[[int, Mail], Any]] = {
    "order": order,
    "ticket": ticket,
    "report": report,
    "receipt": receipt,
}


class _Signing:
    """Signatures that hold: forging one is not what the model asks about."""

    @staticmethod
    def verify(token: str, key: object, typ: str, what: str) -> bytes:
        if not token:
            raise BadInputError(f"{what}: expected a signed message")
        return token.encode()

    @staticmethod
    def unverified_payload(token: str, what: str) -> bytes:
        return token.encode()


class _Codec:
    """Messages are passed as what they are; their JSON has tests of its own."""

    @staticmethod
    def canonical(value: Any) -> Any:
        return value

    @staticmethod
    def load(cls: type, raw: bytes, what: str) -> Any:
        found = spoken(raw.decode())
        if not isinstance(found, cls):
            raise BadInputError(f"{what}: expected a {cls.__name__}")
        return found

    @staticmethod
    def parse(_raw: bytes, _what: str) -> Any:
        """As much of an order as its reader asks about: none of an earlier release is about."""
        return {"policy": {"verification": {"reread": 0}}}


class _Key:
    """Signs orders and tickets by spelling them out."""

    public = PublicKey(b"\0" * 32)

    def sign(self, payload: Any, typ: str) -> str:
        kind = "ticket" if isinstance(payload, Ticket) else "order"
        present = payload.incarnation == incarnation(True)
        mail = Mail(kind, payload.generation, drive_of(payload.identity), present)
        return order_token(int(payload.slot.host[-1]), mail)


class _Counting:
    """Ids that differ within a step; afterwards the order's own are written instead."""

    def __init__(self) -> None:
        self._number = 0

    def uuid4(self) -> str:
        self._number += 1
        return f"newly-made-id-{self._number:06d}"

    def token_hex(self, _size: int) -> str:
        return self.uuid4()


_IDS = _Counting()


class Store:
    """The tables: compare-and-set, one transition one write, drives by identity."""

    def __init__(self, world: World, writes: Writes) -> None:
        self._writes = writes
        self.world = world
        self.records: dict[Slot, SlotRecord] = {
            slot(p): RECORDS[place.record]
            for p, place in enumerate(world.places)
            if place.record != NOWHERE
        }
        self.known: list[Known | None] = list(world.known)

    # What the decisions read

    def slot(self, place: Slot) -> SlotRecord | None:
        return self.records.get(place)

    def slots(
        self,
        *,
        host: str | None = None,
        states: Iterable[State] | None = None,
        identity: ControllerIdentity | None = None,
        consumer: str | None = None,
    ) -> list[SlotRecord]:
        wanted = None if states is None else set(states)
        return [
            record
            for record in self.records.values()
            if host in (None, record.slot.host)
            and (wanted is None or record.state in wanted)
            and identity in (None, record.identity)
            and consumer in (None, record.consumer)
        ]

    def drive(self, digest: str) -> DriveRecord | None:
        for number, known in enumerate(self.known):
            if known is not None and identity(number).digest == digest:
                return DriveRecord(
                    digest=digest,
                    identity=identity(number),
                    slot=slot(known.seen),
                    dirty=known.dirty,
                    retired=False,
                    reason="",
                    changed_at=NOW,
                    certificate=_certificate(known.certificate),
                    certified_slot=None,
                    certified_at=None,
                    dirty_slot=None,
                    dirty_at=None,
                )
        return None

    def host(self, name: str) -> HostRecord | None:
        place = self.world.places[int(name[-1])]
        hello = None if place.hello == NOWHERE else HELLOS[place.hello]
        return HostRecord(
            name=name,
            key=_Key.public,
            incarnation=incarnation(place.registered),
            sequence=0,
            hello=hello,
            registered_at=NOW,
            heard_at=None if hello is None else NOW if place.heard else LONGER_AGO,
        )

    def profile(self, name: str) -> Approved[Any]:
        return Approved(name, 1, "", PROFILE, "", NOW)

    def policy(self, name: str) -> None:
        return None

    def history(self, place: Slot) -> list[Any]:
        return []

    def nonce(self, nonce: str) -> None:
        """A replayed report has to be refused by its ids alone here."""
        return None

    def record_refusal(self, *_: object) -> None:
        return None

    def host_seen(self, name: str, sequence: int, hello: Hello) -> HostRecord:
        p = int(name[-1])
        self.world = self.world.at(p, hello=HELLOS.number(hello), heard=True)
        found = self.host(name)
        assert found is not None
        return found

    # What they write

    def transition(
        self,
        record: SlotRecord,
        event: Event,
        *,
        reason: str = "",
        detail: Mapping[str, Any] | None = None,
        changes: SlotChanges = table.NO_CHANGES,
        certificate: NewCertificate | None = None,
        nonce: object = None,
    ) -> SlotRecord:
        state = lifecycle.target(record.state, event)
        table._require(record, event, reason, certificate)
        if event is Event.RETURNED:
            self._require_returnable(record)
        values = table._case_columns(record, event, changes) | rows.columns(changes)
        values |= {"state": state, "reason": reason, "entered_at": NOW}
        if certificate is not None:
            values["certificate"] = certificate.digest
        after = self._swap(record, values, changes)
        self._drive_after(after, event, certificate)
        self._writes.done()
        return after

    def amend(self, record: SlotRecord, changes: SlotChanges, *, note: str = "") -> SlotRecord:
        values = table._case_columns(record, None, changes) | rows.columns(changes)
        after = self._swap(record, values, changes)
        if after.identity is not None and after.identity != record.identity:
            self.note_drive(after.identity, after.slot, False, note)
        self._writes.done()
        return after

    def note_drive(self, who: ControllerIdentity, place: Slot, dirty: bool, reason: str) -> None:
        number, p = drive_of(who), int(place.host[-1])
        known = self.known[number]
        if known is None:
            known = Known()
        if dirty:
            known = known._replace(dirty=True)
        self.known[number] = known._replace(seen=p)

    def _swap(self, record: SlotRecord, values: dict[str, Any], changes: SlotChanges) -> SlotRecord:
        if self.records.get(record.slot) != record:
            raise ConflictError(f"{record.slot}: changed")
        values.pop("identity_digest", None)
        if "identity" in values:
            values["identity"] = changes.identity
        after = dataclasses.replace(record, **values, revision=record.revision + 1)
        self.records[record.slot] = after
        return after

    def _require_returnable(self, record: SlotRecord) -> None:
        known = None if record.identity is None else self.known[drive_of(record.identity)]
        if known is None or known.dirty or _certificate(known.certificate) != record.certificate:
            raise IllegalTransitionError(f"{record.slot}: the drive is not clean by this case")

    def _drive_after(
        self, record: SlotRecord, event: Event, certificate: NewCertificate | None
    ) -> None:
        if record.identity is None:
            return
        number, p = drive_of(record.identity), int(record.slot.host[-1])
        if event in lifecycle.DIRTIES_DRIVE or self.known[number] is None:
            self.note_drive(record.identity, record.slot, True, event.value)
        if certificate is not None:
            # The place's older certificates are of other cases now.
            self.known = [
                known._replace(certificate=GONE) if known and known.certificate == p else known
                for known in self.known
            ]
            self.known[number] = Known(False, p, p)

    def result(self, world: World) -> World:
        """The world with what was written."""
        for p in range(len(world.places)):
            record = self.records.get(slot(p))
            world = world.at(p, record=NOWHERE if record is None else RECORDS.number(record))
        return world._replace(known=tuple(self.known))


def _certificate(place: int) -> str | None:
    return None if place == NOWHERE else certificate(place)


class Writes:
    """Counts what is durable; the process may end after any of it."""

    def __init__(self, last: int | None) -> None:
        self._last = last
        self.count = 0

    def done(self) -> None:
        self.count += 1
        if self.count == self._last:
            raise CrashedError


class Placement:
    """One consistent look at a time, and writes that carry the look's generation."""

    def __init__(self, world: World, writes: Writes) -> None:
        self.world = world
        self._writes = writes

    def by_slot(self, place: Slot) -> Provider | None:
        p = int(place.host[-1])
        here = self.world.places[p]
        return Provider(_uuid(p, here.provider), name_of(place), 0) if here.provider else None

    def view(self, uuid: str, resource_class: str) -> View | None:
        for p, here in enumerate(self.world.places):
            if here.provider and uuid == _uuid(p, here.provider):
                inventory = Inventory(CLASS, 1, int(here.reserved), 1, 1, 1, 1.0)
                provider = Provider(uuid, name_of(slot(p)), 0)
                return View(provider, resource_class or CLASS, (inventory,), _held(p, here))
        return None

    def put_reserved(self, view: View, *, full: bool) -> int:
        p = self._unchanged(view)
        self.world = self.world.at(p, reserved=full)
        self._writes.done()
        return 0

    def reshape(self, view: View, consumer: str, *, hold: bool) -> None:
        p = self._unchanged(view)
        self.world = self.world.at(p, reserved=False, holder=consumer if hold else "")
        if not hold:
            _offered(self.world, p)
        self._writes.done()

    def _unchanged(self, view: View) -> int:
        now = self.view(view.provider.uuid, view.resource_class)
        if now != view:
            raise ConflictError("409")
        return int(view.provider.slot.host[-1]) if view.provider.slot else NOWHERE


def _offered(world: World, p: int) -> None:
    """Promise 1: what we ourselves put on offer is clean, as far as we were told."""
    record = RECORDS[world.places[p].record]
    known = world.known[drive_of(record.identity)] if record.identity else None
    if known is None or known.dirty:
        raise Slip(f"the slot of host {p} was given back although its drive is known as dirty")


def _uuid(p: int, provider: str) -> str:
    return f"{UUIDS[provider]}-{p}"


def _held(p: int, here: Place) -> tuple[Allocation, ...]:
    if not here.holder:
        return ()
    ours = here.holder != "server"
    consumer = here.holder if ours else instance(p)
    kind = CONSUMER_TYPE if ours else "INSTANCE"
    return (Allocation(consumer, {CLASS: 1}, 1, kind, "", ""),)


class Control:
    """The steps of the control plane, with one version of its decisions.

    What it does depends on little of the world, and is asked for again and again: each answer is
    kept, under just what it may depend on.
    """

    def __init__(self, decide: Callable[..., Any], judge: ModuleType = receipts) -> None:
        self._decide = decide
        self._dispatch = mutate.copied(dispatch)
        self._tickets = mutate.copied(tickets)
        self._receipts = mutate.copied(judge)
        self._inbox = mutate.copied(inbox)
        _replace(self._dispatch, signing=_Signing, codec=_Codec, uuid=_IDS, secrets=_IDS)
        _replace(self._tickets, signing=_Signing, codec=_Codec)
        _replace(self._receipts, tickets=self._tickets)
        self._letters = mutate.copied(letters)
        _replace(self._letters, signing=_Signing, codec=_Codec)
        _replace(
            self._inbox,
            signing=_Signing,
            codec=_Codec,
            receipts=self._receipts,
            Letters=self._letters.Letters,
        )
        self._looked: dict[World, tuple[tuple[str, World], ...]] = {}
        self._heard: dict[tuple[World, str], World | None] = {}

    def looks(self, world: World, p: int) -> Steps:
        """One look and the one step it asks for; also cut off after each of its writes."""
        if world.places[p].record == NOWHERE:
            return
        small = _small(world, p, _LOOKED_AT)
        if small not in self._looked:
            self._looked[small] = tuple(self._all_looks(small, p))
        for name, after in self._looked[small]:
            seen, mine = world.places[p], after.places[p]
            yield (
                name,
                _records(world, after).at(
                    p, reserved=mine.reserved, holder=mine.holder, mail=seen.mail | mine.mail
                ),
            )

    def _all_looks(self, world: World, p: int) -> Steps:
        for late in (False, True):
            writes, name, after = self._look(world, p, late, None)
            if writes == 0:
                continue
            yield name, after
            for last in range(1, writes):
                _count, name, after = self._look(world, p, late, last)
                yield f"{name}, and crash after write {last}", after

    def _look(self, world: World, p: int, late: bool, last: int | None) -> tuple[int, str, World]:
        writes = Writes(last)
        store, placement = Store(world, writes), Placement(world, writes)
        sent: list[str] = []

        def post(_host: str, token: str) -> None:
            sent.append(token)

        dispatcher = self._dispatch.Dispatcher(store, _Key(), post, clock=_now)
        papers = self._tickets.Tickets(store, _Key(), post, clock=_now)
        loop = reconcile.Reconciler(
            store,  # type: ignore[arg-type]
            placement,  # type: ignore[arg-type]
            dispatcher,
            LIMITS,
            _now,
            tickets=papers,
        )
        record = store.records[slot(p)]
        if late:
            times: dict[str, Any] = dict.fromkeys(_TIMES, LONG_AGO)
            record = dataclasses.replace(record, **times)
            store.records[slot(p)] = record
        view = loop._view(record)
        action = self._decide(record, view, NOW, LIMITS, loop._past(record))
        # An IllegalTransitionError is the product's own last guard: the step is not taken.
        with contextlib.suppress(ConflictError, CrashedError, IllegalTransitionError):
            if action.act in (Act.ORDER, Act.RESEND):
                loop._hands.send(record)
            elif action.act is Act.TICKET:
                loop._hands.send_ticket(record)
            elif action.act not in (Act.NOTHING, Act.WAIT):
                loop._hands.carry_out(record, view, action)
        after = store.result(placement.world)
        for token in sent:
            place, mail = order_mail(token)
            after = after.at(place, mail=after.places[place].mail | {mail})
        what = action.event or action.act
        return writes.count, f"control {p}: {what} {action.reason}".rstrip(), after

    def _hears(self, world: World, p: int, token: str) -> World | None:
        """The world after one message of a host; None where it was refused."""
        key = (_small(world, p, ("record", "registered", "hello", "heard")), token)
        if key not in self._heard:
            self._heard[key] = self._open(*key)
        after = self._heard[key]
        return None if after is None else _records(world, after)

    def _open(self, world: World, token: str) -> World | None:
        store = Store(world, Writes(None))
        door = self._inbox.Inbox(store, _Key.public, _Registrar(store), _Nobody(), clock=_now)
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
        after = self._hears(world, p, f"hello {number}")
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
                spelt = f"{p} {mail.generation} {mail.drive} {int(mail.present)} {mail.says}"
                after = self._hears(world, p, f"{mail.kind} {spelt}")
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


class _Registrar:
    """Certifies as the real one does, without the paper."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def images(self, _drive: ControllerIdentity) -> tuple[str, ...]:
        """The model's drives have no firmware slots."""
        return ()

    def certify(self, record: SlotRecord, **evidence: Any) -> None:
        digest = certificate(int(record.slot.host[-1]))
        made = tickets.build(evidence["order"], evidence["report"], digest)
        token = _Key().sign(made, "")
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


_LOOKED_AT = (
    *("provider", "reserved", "holder", "instance"),
    *("registered", "record", "hello", "heard"),
)
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


class _Nobody:
    """Looks come as steps of their own."""

    def look(self, _slot: Slot) -> None:
        return None

    def bell(self, _host: str, _address: str | None = None) -> None:
        return None


def hello(world: World, p: int) -> Hello:
    """What a host says of itself, truthfully."""
    here = world.places[p]
    held = here.instance == "on" or here.ghost == "on"
    seen: tuple[SeenDrive, ...] = ()
    if here.drive != NOWHERE:
        readable = not held and here.case not in ("open", "running")
        who = identity(here.drive) if readable else None
        seen = (SeenDrive(ADDRESS, "vfio-pci" if held else "nvme", who),)
    accepted: tuple[AcceptedOrder, ...] = ()
    cases: tuple[str, ...] = ()
    if here.accepted is not None:
        asked = order(p, here.accepted)
        accepted = (AcceptedOrder(ADDRESS, asked.order_id, asked.generation),)
        cases = (asked.order_id,) if here.case in ("open", "running") else ()
    return Hello(
        host=f"host{p}",
        incarnation=incarnation(True),
        sequence=1,
        version="",
        drives=seen,
        cases=cases,
        accepted=accepted,
        gate=_gate(here, p),
    )


def _gate(here: Place, p: int) -> GateTestimony:
    domains = []
    # A suspended instance's domain no longer names the drive.
    if here.instance in ("on", "off"):
        domains.append(DomainSeen(_uuid_of(server(p)), "", (ADDRESS,), here.instance == "on", True))
    if here.ghost:
        domains.append(DomainSeen(_uuid_of(ghost(p)), "", (ADDRESS,), here.ghost == "on", True))
    seen: tuple[TicketSeen, ...] = ()
    entry = Entry(ADDRESS) if here.entry == NOWHERE else ENTRIES[here.entry]
    if entry.ticket is not None:
        kept = entry.ticket.ticket
        seen = (TicketSeen(ADDRESS, kept.order_id, kept.generation, entry.ticket.state, ""),)
    defences = tuple(DefenceSeen(each, Standing.PRESENT, "") for each in Defence)
    return GateTestimony(defences, tuple(domains), seen, ())


def _uuid_of(domain: int) -> str:
    """An instance's domain has its uuid; the ghost's is of one that Placement no longer names."""
    return f"instance-{domain}"


def _replace(module: ModuleType, **names: Any) -> None:
    for name, value in names.items():
        setattr(module, name, value)


def fresh_record(place: int, *, in_use: bool, generation: int = 0) -> SlotRecord:
    """As enrolment leaves it (``SlotRoom.enrol``)."""
    return SlotRecord(
        id=place + 1,
        slot=slot(place),
        provider=_uuid(place, "known"),
        resource_class=CLASS,
        state=State.IN_USE if in_use else State.RELEASED,
        generation=generation,
        revision=0,
        reason="",
        profile=PROFILE.name,
        policy=POLICY.name,
        identity=None,
        consumer=instance(place) if in_use else None,
        custody=None,
        custody_ready=False,
        order_id=None,
        nonce=None,
        order_token=None,
        ordered_at=None,
        heard_at=None,
        attempts=0,
        step=None,
        fraction=0.0,
        detail="",
        certificate=None,
        ticket_token=None,
        ticket_incarnation=None,
        ticket_at=None,
        ticket_ready=False,
        alarm="",
        provider_generation=None,
        read_at=None,
        entered_at=NOW,
        created_at=NOW,
    )
