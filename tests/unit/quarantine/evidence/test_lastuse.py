"""A certificate names a drive's last user, or nobody: never one who was not the last."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sqlalchemy as sa

from eraser.protocol.identity import Slot
from eraser.protocol.report import HELLO_TYPE, REPORT_TYPE, Hello, SeenDrive
from eraser.protocol.ticket import LastOwner
from quarantine.evidence import certificate, testimony
from quarantine.evidence.sections import MediumSource
from quarantine.record.database import engine, models
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import Event, State
from quarantine.rules.reports.check import Ruling
from quarantine.rules.reports.lastuse import DrivePast, LastUse, Moment, last_use
from tests.unit.quarantine.service.inbound.plane import INCARNATION, Plane, plane
from tests.unit.quarantine.testimony import IDENTITY, PROFILE, REPORT, SLOT

__all__ = ["plane"]

ANN, BOB = (f"{n * 8}-{n * 4}-4{n * 3}-8{n * 3}-{n * 12}" for n in "ab")
OWNER = LastOwner(ANN, "i-1", "2026-11-01T00:00:00Z", "2026-11-20T00:00:00Z")
AWAY = Slot("cmp2", "0000:41:00.0")
BESIDE = Slot("cmp1", "0000:02:00.0")
LIVES = {"cmp1": INCARNATION, "cmp2": "incarnation-00002"}


def enrolled(plane: Plane, slot: Slot) -> None:
    record = plane.store.enrol(
        slot,
        provider=f"rp-{slot}"[:64],
        resource_class="CUSTOM_NVME",
        in_use=False,
        profile=PROFILE.name,
        policy="purge",
    )
    plane.store.amend(record, SlotChanges(identity=IDENTITY))


def erased(plane: Plane, slot: Slot, owner: LastOwner | None = None) -> MediumSource:
    """From released to certified; where its certificate says that the drive comes from."""
    plane.dispatcher.order(plane.store.transition(plane.record(slot), Event.CUSTODY_TAKEN))
    order = plane.order(slot)
    report = replace(
        REPORT,
        slot=slot,
        order_id=order.order_id,
        nonce=order.nonce,
        generation=order.generation,
        incarnation=order.incarnation,
        last_owner=owner,
    )
    key = plane.host if slot.host == "cmp1" else plane.other_host
    decision = plane.inbox.report(plane.signed(report, REPORT_TYPE, key))
    assert decision.ruling is Ruling.CERTIFY, decision.reasons
    stored = plane.store.last_certificate()
    assert stored is not None
    keys = [plane.controller.public]
    body = certificate.verify(stored.token, keys, "x").certificate
    given = plane.store.testimony(stored.digest)
    assert given is not None
    weighed = testimony.weigh(body, given, keys)
    assert weighed.standing is testimony.TestimonyStanding.AGREES, weighed
    assert (stored.owner or "") == body.source.gate_owner
    return body.source


def given_out(plane: Plane, slot: Slot, server: str) -> None:
    """To that server, which lets go of it again."""
    record = plane.store.transition(
        plane.record(slot), Event.RETURNED, changes=SlotChanges(consumer=None)
    )
    claimed = SlotChanges(consumer=server)
    record = plane.store.transition(record, Event.CLAIM_SEEN, changes=claimed)
    plane.store.transition(record, Event.RELEASE_SEEN)


def served_here(plane: Plane) -> None:
    """Erased on cmp1, Ann's there, and let go."""
    enrolled(plane, SLOT)
    erased(plane, SLOT)
    given_out(plane, SLOT, ANN)


def test_a_use_on_another_host_outdates_this_ones_book(plane: Plane) -> None:
    """Pulled, and Bob's on cmp2, whose book cmp1 does not have."""
    served_here(plane)
    enrolled(plane, AWAY)
    assert erased(plane, AWAY).last_user == "none on record"
    given_out(plane, AWAY, BOB)
    source = erased(plane, SLOT, OWNER)
    assert source.last_user == "none on record"
    assert source.known_from == "nothing on record"
    assert (source.gate_owner, source.gate_since, source.gate_until) == ("", "", "")
    for tenant in (ANN, BOB):
        assert plane.store.certificates(server=tenant) == []


def called_by_another_release(plane: Plane, event: Event) -> None:
    """One letter of the event is another one: a word that no release of ours has."""
    with engine.writing(plane.store._engine) as db:
        changed = (
            sa.update(models.history)
            .where(models.history.c.event == event.value)
            .values(event=f"{event.value[:-1]}q")
        )
        assert db.execute(changed).rowcount


@pytest.mark.parametrize("event", [Event.CLAIM_SEEN, Event.ENROLLED_IN_USE])
def test_a_claim_is_one_whatever_a_release_calls_it(plane: Plane, event: Event) -> None:
    served_here(plane)
    record = plane.store.enrol(
        AWAY,
        provider="rp-away",
        resource_class="CUSTOM_NVME",
        in_use=event is Event.ENROLLED_IN_USE,
        profile=PROFILE.name,
        policy="purge",
    )
    record = plane.store.amend(record, SlotChanges(identity=IDENTITY))
    claimed = SlotChanges(consumer=BOB)
    if record.state is State.IN_USE:
        record = plane.store.amend(record, claimed)
    else:
        record = plane.store.transition(record, Event.CLAIM_SEEN, changes=claimed)
    plane.store.transition(record, Event.RELEASE_SEEN)
    called_by_another_release(plane, event)
    assert erased(plane, SLOT, OWNER).last_user == "none on record"


def test_a_case_begins_where_it_began_whatever_a_release_calls_it(plane: Plane) -> None:
    served_here(plane)
    called_by_another_release(plane, Event.RELEASE_SEEN)
    erased(plane, SLOT, OWNER)
    stored = plane.store.last_certificate()
    assert stored is not None
    body = certificate.verify(stored.token, [plane.controller.public], "x").certificate
    assert [line.event for line in body.case.history] == ["custody_taken", "ordered"]


def test_the_host_that_had_it_last_is_believed(plane: Plane) -> None:
    served_here(plane)
    enrolled(plane, AWAY)
    erased(plane, AWAY)
    given_out(plane, AWAY, BOB)
    source = erased(plane, AWAY, replace(OWNER, domain=BOB))
    assert (source.last_user, source.gate_owner) == (BOB, BOB)
    assert source.known_from == "the host's gate and Placement"


def test_who_had_it_here_since_is_named(plane: Plane) -> None:
    served_here(plane)
    enrolled(plane, AWAY)
    erased(plane, AWAY)
    given_out(plane, AWAY, BOB)
    erased(plane, SLOT, OWNER)
    given_out(plane, SLOT, ANN)
    source = erased(plane, SLOT, OWNER)
    assert (source.last_user, source.gate_owner) == (ANN, ANN)


def test_another_slot_of_the_same_host_is_the_gates_to_know(plane: Plane) -> None:
    served_here(plane)
    enrolled(plane, BESIDE)
    source = erased(plane, BESIDE, OWNER)
    assert (source.last_user, source.known_from) == (ANN, "the host's gate")


def test_a_drive_that_was_only_erased_again_had_the_same_user(plane: Plane) -> None:
    served_here(plane)
    erased(plane, SLOT, OWNER)
    plane.store.transition(plane.record(), Event.RECALLED, reason="its host lost its state")
    record = plane.store.transition(plane.record(), Event.HELD, reason="a test")
    plane.store.transition(record, Event.RELEASED_BY_OPERATOR, reason="a test")
    source = erased(plane, SLOT, OWNER)
    assert (source.last_user, source.known_from) == (ANN, "the host's gate and Placement")


def test_a_drive_that_was_seen_on_another_host_meanwhile(plane: Plane) -> None:
    """What ran with it there nobody knows: no certificate, no claim."""
    served_here(plane)
    drives = (SeenDrive(AWAY.address, "nvme", IDENTITY),)
    hello = Hello("cmp2", LIVES["cmp2"], 1, "0.1.0", drives, ())
    plane.inbox.hello(plane.signed(hello, HELLO_TYPE, plane.other_host))
    assert plane.record().state is State.HELD
    assert str(AWAY) in plane.record().reason
    plane.store.transition(plane.record(), Event.RELEASED_BY_OPERATOR, reason="it is back")
    source = erased(plane, SLOT, OWNER)
    assert (source.last_user, source.gate_owner) == ("none on record", "")


HERE, THERE = SLOT, AWAY


@pytest.mark.parametrize(
    ("past", "owner", "use"),
    [
        (DrivePast(), BOB, LastUse(ANN, gate=True)),
        (DrivePast(Moment(HERE, 5)), BOB, LastUse(ANN, gate=True)),
        (DrivePast(Moment(BESIDE, 5)), BOB, LastUse("", gate=True)),
        (DrivePast(Moment(BESIDE, 5), (Moment(HERE, 4),)), BOB, LastUse("", gate=True)),
        (DrivePast(Moment(BESIDE, 5), (Moment(HERE, 6),)), BOB, LastUse(ANN, gate=True)),
        (DrivePast(Moment(THERE, 5)), BOB, LastUse("", gate=False)),
        (DrivePast(Moment(THERE, 5), (Moment(HERE, 4),)), ANN, LastUse("", gate=False)),
        (DrivePast(Moment(THERE, 5), (Moment(HERE, 6),)), ANN, LastUse(ANN, gate=True)),
        (DrivePast(Moment(THERE, 5), (Moment(HERE, 6),)), BOB, LastUse(ANN, gate=False)),
        (DrivePast(None, (Moment(HERE, 4), Moment(THERE, 5))), ANN, LastUse("", gate=False)),
        (DrivePast(None, (Moment(HERE, 6), Moment(THERE, 5))), ANN, LastUse(ANN, gate=True)),
        (DrivePast(Moment(HERE, 5), (Moment(THERE, 4),)), BOB, LastUse(ANN, gate=True)),
        (DrivePast(Moment(HERE, 5), (Moment(THERE, 6),)), ANN, LastUse("", gate=False)),
        (DrivePast(Moment(HERE, 5), (Moment(BESIDE, 6),)), BOB, LastUse("", gate=True)),
        (
            DrivePast(Moment(HERE, 5), (Moment(HERE, 6),), (Moment(THERE, 7),)),
            ANN,
            LastUse("", gate=False),
        ),
        (
            DrivePast(Moment(HERE, 5), (Moment(HERE, 6),), (Moment(BESIDE, 7),)),
            BOB,
            LastUse("", gate=True),
        ),
        (DrivePast(Moment(HERE, 5), (), (Moment(THERE, 4),)), BOB, LastUse(ANN, gate=True)),
    ],
)
def test_whose_word_counts(past: DrivePast, owner: str, use: LastUse) -> None:
    assert last_use(HERE, past, ANN, owner) == use


def test_nobody_is_not_somebody_whom_the_gate_names_too() -> None:
    assert last_use(HERE, DrivePast(Moment(THERE, 5)), "", "") == LastUse("", gate=False)
