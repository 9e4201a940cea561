"""A person decides about a slot that the record has on offer, and a server has it by then."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine import users
from quarantine.api import application
from quarantine.cli.sources.source import Act, SlotAct
from quarantine.cli.sources.store import StoreSource
from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    QuarantineError,
    StaleError,
    UnavailableError,
    UnfinishedError,
)
from quarantine.operations import decisions, slots
from quarantine.operations.decisions import Decision
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.operations.slots import Initiator
from quarantine.page.application import MOUNT
from quarantine.record.store import Store
from quarantine.record.words.facts import NextHold, SlotChanges, SlotRecord
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import Event, State
from quarantine.rules import absence, holds
from quarantine.service.issue import drive_inventory
from tests.unit.quarantine.api import client
from tests.unit.quarantine.page import visitor
from tests.unit.quarantine.service.look.test_burn_grace import Site
from tests.unit.quarantine.smallcloud import Clock, Cloud, available, slot_at

SLOT = slot_at(50)
NAME = slots.name(SLOT)
PAGE = f"/page/slots/{NAME}"
ADA = Initiator("ada", "ops", "req-1")
ALARMS = ("used-again", "claimed-unerased", "on-offer")


class Quick(ServingPlane):
    """A control plane whose Placement is the test's."""

    def __init__(self, file: Path, loop: Any) -> None:
        super().__init__([file])
        self.loop = loop

    @contextmanager
    def assembly(self) -> Iterator[Any]:
        """With the loop's hands."""
        with self.parts() as parts:
            parts.reconciler = self.loop  # type: ignore[attr-defined]
            yield parts


class Place:
    """A site whose slot is on offer by the record."""

    def __init__(self, path: Path) -> None:
        site = client.Site(path)
        self.store = Store.open(f"sqlite:///{path}/record.db")
        clock = Clock()
        self.site = Site(self.store, Cloud(clock))
        clock.seconds = (self.store._clock() - clock()).total_seconds()
        self.plane = Quick(site.file, self.site.loop)
        available(self.store, self.site.cloud, SLOT)

    @property
    def record(self) -> SlotRecord:
        """The slot's."""
        found = self.store.slot(SLOT)
        assert found is not None
        return found

    def claimed(self) -> None:
        """Nova gave it to a server; no bell rang yet."""
        self.site.cloud.claim(SLOT, "tenant")
        self.site.cloud.burn(SLOT)

    def require_untouched(self) -> None:
        """The server keeps its drive, and the record knows."""
        assert (self.record.state, self.record.consumer) == (State.IN_USE, "tenant")
        events = {row.event for row in self.store.history(SLOT)}
        assert not events & {Event.HELD, Event.RETIRED}


@pytest.fixture
def place(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> Iterator[Place]:
    made = Place(tmp_path)
    with caplog.at_level(logging.WARNING):
        yield made
    made.store.close()


def quiet(caplog: pytest.LogCaptureFixture) -> bool:
    """Nobody was called for nothing."""
    return not any(code in caplog.text for code in ALARMS)


def decide(plane: Plane, act: str, *, decision: Decision = decisions.ANYHOW) -> Any:
    if act == "retire":
        return decisions.retire(plane, SLOT, reason="worn", decision=decision)
    if act == "release":
        return decisions.release(plane, SLOT, reason="settled", decision=decision)
    if act == "erase":
        return decisions.erase(plane, SLOT, reason="odd", decision=decision)
    later = act == "hold-at-release"
    return decisions.hold(plane, SLOT, reason="odd", at_next_release=later, decision=decision)


@pytest.mark.parametrize("act", ["hold", "hold-at-release", "retire", "release", "erase"])
def test_what_was_looked_at_is_stale(
    place: Place, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    seen = Decision(ADA, (slots.version(place.record),))
    place.claimed()
    with pytest.raises(StaleError):
        decide(place.plane, act, decision=seen)
    place.require_untouched()
    assert place.record.next_hold is None
    assert quiet(caplog)


@pytest.mark.parametrize("act", ["hold", "retire", "erase"])
def test_nothing_is_taken_from_a_server(
    place: Place, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Of who decides without a version too: the shell."""
    place.claimed()
    with pytest.raises(IllegalTransitionError, match="nothing is taken from a server"):
        decide(place.plane, act)
    place.require_untouched()
    assert quiet(caplog)


def test_at_its_next_release_is_not_now(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    place.claimed()
    done = decide(place.plane, "hold-at-release")
    assert (done.slot.state, done.slot.next_hold, done.unacted) == (State.IN_USE, "odd", "")
    place.require_untouched()
    place.site.cloud.delete(SLOT)
    place.site.go_on(600)
    assert place.record.state is State.HELD
    assert not place.site.cloud.on_offer(SLOT)
    assert quiet(caplog)


@pytest.mark.parametrize("act", ["hold", "hold-at-release", "retire"])
def test_a_slot_that_no_server_has_is_taken_now(
    place: Place, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    """At its next release too: whoever comes a moment too late would have to ask again."""
    done = decide(place.plane, act, decision=Decision(ADA, (slots.version(place.record),)))
    assert done.slot.state is (State.RETIRED if act == "retire" else State.HELD)
    assert not done.unacted
    assert not place.site.cloud.on_offer(SLOT)
    assert quiet(caplog)


def test_a_held_slot_that_a_server_got_hold_of_is_looked_at_again(place: Place) -> None:
    """To retire it would give up a drive that somebody has, unseen by who decides."""
    held = decide(place.plane, "hold")
    place.site.cloud.seat(SLOT).reserved = False
    place.claimed()
    with pytest.raises(StaleError):
        decide(place.plane, "retire", decision=Decision(ADA, (held.version,)))
    assert (place.record.state, place.record.consumer) == (State.HELD, "tenant")


# Its provider is gone for good: a host that was evacuated, and deleted before anybody looked.


def gone(place: Place) -> None:
    place.claimed()
    place.site.go_on(60)
    assert place.record.state is State.IN_USE
    place.site.cloud.delete(SLOT)
    del place.site.cloud.seats[f"rp-{SLOT}"]
    # A listing with nothing in it is not believed.
    place.site.cloud.seats[place.site.cloud.add(slot_at(51))].reserved = True
    place.site.go_on(120)
    assert absence.absent_since(place.record) is not None
    assert place.record.state is State.IN_USE


@pytest.mark.parametrize("act", ["hold", "retire"])
def test_a_slot_in_use_that_placement_shows_no_more_is_not_so_for_ever(
    place: Place, act: str, caplog: pytest.LogCaptureFixture
) -> None:
    """The alarm about it says to retire it, which was refused: a server has the drive."""
    gone(place)
    decide(place.plane, act, decision=Decision(ADA, (slots.version(place.record),)))
    assert place.record.state is (State.RETIRED if act == "retire" else State.HELD)
    assert [row.by for row in place.store.history(SLOT)][-2:] == [ADA, ADA]
    assert quiet(caplog)


@pytest.mark.parametrize("act", ["hold", "retire"])
def test_a_slot_in_use_stays_so_while_placement_is_away(
    place: Place, act: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone(place)
    away(place, monkeypatch)
    with pytest.raises(IllegalTransitionError, match="nothing is taken from a server"):
        decide(place.plane, act)
    assert place.record.state is State.IN_USE


def test_drives_of_a_host_that_is_dead_go_on_in_another(place: Place) -> None:
    """Its last word names them in it still; and a slot that is retired must not give them up."""
    drive = place.record.identity
    assert drive is not None
    for host, address in ((SLOT.host, SLOT.address), ("cmp9", "0000:09:00.0")):
        if place.store.host(host) is None:
            place.store.register_host(host, PrivateKey.generate().public, "incarnation-0009")
        known = place.store.host(host)
        assert known is not None
        seen = (SeenDrive(address, "nvme", drive),)
        hello = Hello(host, known.incarnation, known.sequence + 1, "1", seen, ())
        place.store.host_seen(host, known.sequence + 1, hello)
        drive_inventory.take(place.store, hello, place.site.clock)
    assert (place.record.state, place.record.hold_code) == (State.HELD, HoldCode.TWO_PLACES)
    with pytest.raises(IllegalTransitionError, match="gone for good"):
        decisions.release(place.plane, SLOT, reason="moved", new_drive=True)
    assert place.store.remove_host(SLOT.host)
    decisions.release(place.plane, SLOT, reason="moved", new_drive=True)
    decide(place.plane, "hold")  # the dispatcher here waits for no host
    decide(place.plane, "retire")
    assert (place.record.state, place.record.identity) == (State.RETIRED, None)
    known_drive = place.store.drive(drive.digest)
    assert known_drive is not None
    assert not known_drive.retired


# Placement is away.


def away(place: Place, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    asked: list[str] = []

    def refused(about: str) -> None:
        asked.append(about)
        raise UnavailableError("Placement does not answer")

    monkeypatch.setattr(place.site.cloud, "_ask", refused)
    return asked


def test_a_hold_does_not_wait_for_placement(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        asked = away(place, patch)
        done = decide(place.plane, "hold")
        assert len(asked) == 1, "each may cost a timeout"
    assert (done.slot.state, done.unacted) == (State.HELD, "Placement does not answer")
    place.site.go_on(60)
    assert not place.site.cloud.on_offer(SLOT)


@pytest.mark.parametrize("act", ["hold-at-release", "retire", "erase"])
def test_what_presumes_that_nobody_has_it_waits_for_placement(
    place: Place, monkeypatch: pytest.MonkeyPatch, act: str
) -> None:
    before = place.record
    place.claimed()
    with monkeypatch.context() as patch:
        away(place, patch)
        with pytest.raises(UnavailableError, match="hold it, or decide when Placement answers"):
            decide(place.plane, act)
    assert place.record == before


def test_who_is_late_anyway_does_not_wait_for_placement(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = away(place, monkeypatch)
    with pytest.raises(StaleError):
        decide(place.plane, "hold", decision=Decision(ADA, ("of another time",)))
    assert not asked


def test_a_record_that_cannot_learn_of_the_server_is_not_written_over(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.claimed()

    def broken(slot: Any) -> None:
        raise QuarantineError("a row cannot be read")

    monkeypatch.setattr(place.site.loop, "look", broken)
    with pytest.raises(ConflictError, match=r"tenant has the drive by now.*a row cannot be read"):
        decide(place.plane, "hold")
    assert place.record.state is State.AVAILABLE


# Erased again by one word.


def last_events(place: Place) -> list[Event | None]:
    return [row.event for row in place.store.history(SLOT)]


def test_a_drive_on_offer_is_erased_again_and_no_server_gets_it_between(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    before = len(last_events(place))
    offered: list[bool] = []
    really = Store.transition

    def transition(store: Store, record: SlotRecord, event: Event, **words: Any) -> SlotRecord:
        if event is Event.RELEASED_BY_OPERATOR:
            offered.append(place.site.cloud.on_offer(SLOT))
        return really(store, record, event, **words)

    monkeypatch.setattr(Store, "transition", transition)
    done = decide(place.plane, "erase", decision=Decision(ADA, (slots.version(place.record),)))
    assert offered == [False]
    assert not done.unacted
    assert not place.site.cloud.on_offer(SLOT)
    rows = place.store.history(SLOT)[before:]
    by_people = [(row.event, row.reason, row.by) for row in rows if row.by]
    assert by_people == [
        (Event.HELD, "odd", ADA),
        (Event.RELEASED_BY_OPERATOR, "odd", ADA),
    ]
    place.site.go_on(60)
    assert place.record.state in (State.QUARANTINED, State.ERASING)
    with pytest.raises(IllegalTransitionError, match="it is being erased as it is"):
        decide(place.plane, "erase")
    assert quiet(caplog)


def test_a_held_drive_is_erased_again_as_by_a_release(place: Place) -> None:
    decide(place.plane, "hold")
    decide(place.plane, "erase")
    assert last_events(place)[-2:] != [Event.HELD, Event.RELEASED_BY_OPERATOR]
    assert last_events(place).count(Event.HELD) == 1
    assert Event.RELEASED_BY_OPERATOR in last_events(place)


def test_placement_that_is_away_in_the_midst_leaves_a_hold_and_the_same_again_goes_on(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def refused(slot: Any) -> Any:
            raise UnavailableError("Placement does not answer")

        patch.setattr(place.site.loop, "look", refused)
        with pytest.raises(UnfinishedError, match=r"it is held by now.*the same again"):
            decide(place.plane, "erase")
        assert (place.record.state, place.record.reason) == (State.HELD, "odd")
    decide(place.plane, "erase")
    assert Event.RELEASED_BY_OPERATOR in last_events(place)
    assert not place.site.cloud.on_offer(SLOT)


def test_a_server_that_is_quicker_than_the_hold_has_nothing_erased_and_is_named(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    really = Store.hold

    def hold(store: Store, *words: Any, **more: Any) -> SlotRecord:
        place.claimed()
        return really(store, *words, **more)

    monkeypatch.setattr(Store, "hold", hold)
    with pytest.raises(UnfinishedError, match=r"server tenant got the drive.*nothing is erased"):
        decide(place.plane, "erase")
    assert place.record.state is State.HELD
    assert Event.RELEASED_BY_OPERATOR not in last_events(place)
    assert "claimed-unerased" not in caplog.text


def quicker(place: Place, monkeypatch: pytest.MonkeyPatch, *, burned: bool) -> None:
    """A server gets the drive between the hold and its first look at Placement."""
    really = Store.hold

    def hold(store: Store, *words: Any, **more: Any) -> SlotRecord:
        after = really(store, *words, **more)
        place.site.cloud.claim(SLOT, "tenant")
        if burned:
            place.site.cloud.burn(SLOT)
        return after

    monkeypatch.setattr(Store, "hold", hold)


@pytest.mark.parametrize("burned", [True, False])
@pytest.mark.parametrize("act", ["hold", "erase"])
def test_a_server_that_rightly_got_the_clean_drive_keeps_it_until_its_release(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    act: str,
    burned: bool,
) -> None:
    certificate = place.record.certificate
    by_ada = Decision(ADA, (slots.version(place.record),))
    with monkeypatch.context() as patch:
        quicker(place, patch, burned=burned)
        if act == "erase":
            with pytest.raises(
                UnfinishedError, match=r"nothing is erased, and it is held, and then"
            ):
                decide(place.plane, act, decision=by_ada)
        else:
            done = decide(place.plane, act, decision=by_ada)
            assert (done.slot.state, done.slot.next_hold) == (State.IN_USE, "odd")
    assert (place.record.state, place.record.consumer) == (State.IN_USE, "tenant")
    assert place.record.next_hold == NextHold("odd", ADA)
    assert place.record.certificate == certificate is not None
    if not burned:
        place.site.cloud.burn(SLOT)
    place.site.go_on(600)
    assert place.record.state is State.IN_USE
    place.site.cloud.delete(SLOT)
    place.site.go_on(600)
    assert (place.record.state, place.record.reason) == (State.HELD, "odd")
    assert quiet(caplog)


def dirty(place: Place) -> None:
    identity = place.record.identity
    assert identity is not None
    place.store.note_drive(identity, SLOT, dirty=True, reason="served elsewhere")


def another_paper(place: Place) -> None:
    place.store.amend(place.record, SlotChanges(new_case=True))


@pytest.mark.parametrize("spoiled", [dirty, another_paper])
def test_a_server_that_gets_a_drive_that_is_not_clean_is_told_of(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    spoiled: Any,
) -> None:
    spoiled(place)
    with monkeypatch.context() as patch:
        quicker(place, patch, burned=True)
        decide(place.plane, "hold", decision=Decision(ADA))
    assert (place.record.state, place.record.consumer) == (State.HELD, "tenant")
    assert "ALARM used-again" in caplog.text


def test_a_server_that_gets_a_held_drive_after_it_was_reserved_is_told_of(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    """Only somebody who lowered that can have let it."""
    decide(place.plane, "hold", decision=Decision(ADA))
    place.site.clock.forward(60)
    place.site.cloud.seat(SLOT).reserved = False
    place.claimed()
    place.site.go_on(60)
    assert (place.record.state, place.record.consumer) == (State.HELD, "tenant")
    assert "ALARM used-again" in caplog.text


@pytest.mark.parametrize("code", [HoldCode.TWO_PLACES, HoldCode.ANOTHER_DRIVE])
def test_what_no_person_held_is_told_of(
    place: Place, code: HoldCode, caplog: pytest.LogCaptureFixture
) -> None:
    place.store.hold(place.record, holds.because(code, "it was seen elsewhere"))
    place.claimed()
    place.site.go_on(60)
    assert (place.record.state, place.record.consumer) == (State.HELD, "tenant")
    assert "ALARM used-again" in caplog.text


@pytest.mark.parametrize("exchanged", [True, False])
def test_a_server_that_gets_an_exchanged_drive_is_told_of(
    place: Place, caplog: pytest.LogCaptureFixture, exchanged: bool
) -> None:
    """What its host names in the slot by then cannot hold it, for a person does; and the drive that
    was certified may be back before anybody looks."""
    identity = place.record.identity
    assert identity is not None
    place.store.hold(place.record, holds.because(HoldCode.BY_PERSON, "odd"), by=ADA)
    other = replace(identity, serial="another") if exchanged else identity
    for number, drive in enumerate((other, identity), 1):
        seen = SeenDrive(SLOT.address, "nvme", drive)
        hello = Hello(SLOT.host, "incarnation-00001", number, "1", (seen,), ())
        drive_inventory.take(place.store, hello, place.site.clock)
    place.claimed()
    place.site.go_on(60)
    assert place.record.consumer == "tenant"
    if exchanged:
        assert (place.record.state, place.record.reason) == (State.HELD, "odd")
        assert "ALARM used-again" in caplog.text
    else:
        assert (place.record.state, place.record.next_hold) == (State.IN_USE, NextHold("odd", ADA))
        assert quiet(caplog)


def test_a_claim_between_the_look_and_the_reservation_is_no_alarm(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    really = place.site.cloud.put_reserved

    def late(*words: Any, **more: Any) -> int:
        monkeypatch.setattr(place.site.cloud, "put_reserved", really)
        place.claimed()
        return really(*words, **more)

    monkeypatch.setattr(place.site.cloud, "put_reserved", late)
    place.site.clock.seconds += 1
    decide(place.plane, "hold", decision=Decision(ADA))
    assert (place.record.state, place.record.next_hold) == (State.IN_USE, NextHold("odd", ADA))
    assert quiet(caplog)


def test_a_service_that_looks_in_the_same_moment_stops_no_act(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    really, looks = place.site.loop.look, list[bool]()

    def look(slot: Any) -> Any:
        looks.append(True)
        if len(looks) == 2:  # the one after the hold
            really(slot)
            raise ConflictError("its row changed meanwhile")
        return really(slot)

    monkeypatch.setattr(place.site.loop, "look", look)
    assert not decide(place.plane, "erase").unacted
    assert Event.RELEASED_BY_OPERATOR in last_events(place)


def test_the_release_is_of_the_hold_that_was_made(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What somebody else does with it in between is looked at before it is released."""
    really = decisions.release

    def release(plane: Plane, *words: Any, **more: Any) -> Any:
        place.store.amend(place.record, SlotChanges(policy="another"))
        return really(plane, *words, **more)

    monkeypatch.setattr(decisions, "release", release)
    with pytest.raises(UnfinishedError, match=r"held by now.*not yet released"):
        decide(place.plane, "erase")
    assert place.record.state is State.HELD


def test_a_record_that_goes_away_in_the_midst_leaves_a_hold_and_says_so(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody is told that the service goes on by itself: a hold is all that it knows of."""
    really, held = Store.hold, list[bool]()

    def hold(store: Store, *words: Any, **more: Any) -> SlotRecord:
        held.append(True)
        return really(store, *words, **more)

    def closely(*_: Any) -> Any:
        if held:
            raise UnavailableError("the record is away")

    with monkeypatch.context() as patch:
        patch.setattr(Store, "hold", hold)
        patch.setattr(decisions, "closely", closely)
        with pytest.raises(UnfinishedError, match=r"not yet released.*the same again"):
            decide(place.plane, "erase")
    assert place.record.state is State.HELD
    decide(place.plane, "erase")
    assert Event.RELEASED_BY_OPERATOR in last_events(place)


def test_a_retired_drive_is_not_erased_again(place: Place) -> None:
    decide(place.plane, "retire")
    with pytest.raises(IllegalTransitionError, match="it is retired"):
        decide(place.plane, "erase")


def test_erased_again_by_each_skin(place: Place) -> None:
    StoreSource(place.plane).act(SlotAct(str(SLOT), Act.ERASE, "odd"))
    assert last_events(place).count(Event.RELEASED_BY_OPERATOR) == 1
    decide(place.plane, "hold")
    admin = client.Client(application.make(place.plane)).as_user(client.ADMIN)
    one = f"/v1/slots/{NAME}"
    tag = admin.get(one).headers["ETag"]
    done = admin.ask("POST", f"{one}/erase", {"reason": "odd"}, If_Match=tag)
    assert done.status_code == 200
    assert last_events(place).count(Event.RELEASED_BY_OPERATOR) == 2


# The skins.


@pytest.mark.parametrize("act", ["hold", "retire", "erase"])
def test_by_the_shell(place: Place, act: str) -> None:
    place.claimed()
    with pytest.raises(IllegalTransitionError, match="nothing is taken from a server"):
        StoreSource(place.plane).act(SlotAct(str(SLOT), Act(act), "odd"))
    place.require_untouched()
    later = SlotAct(str(SLOT), Act.HOLD, "odd", at_next_release=True)
    StoreSource(place.plane).act(later)
    assert place.record.next_hold == NextHold("odd", Initiator(users.who()))
    place.require_untouched()


@pytest.mark.parametrize(
    ("act", "more"),
    [("hold", {}), ("hold", {"at_next_release": True}), ("retire", {}), ("erase", {})],
)
def test_by_the_api(place: Place, act: str, more: dict[str, Any]) -> None:
    admin = client.Client(application.make(place.plane)).as_user(client.ADMIN)
    one = f"/v1/slots/{NAME}"
    tag = admin.get(one).headers["ETag"]
    place.claimed()
    body = {"reason": "odd", **more}
    found = admin.ask("POST", f"{one}/{act}", body, If_Match=tag)
    assert (found.status_code, client.code(found)) == (412, "stale")
    place.require_untouched()
    found = admin.ask("POST", f"{one}/{act}", body, If_Match=admin.get(one).headers["ETag"])
    assert found.status_code == (200 if more else 409)
    place.require_untouched()
    assert (place.record.next_hold is not None) == bool(more)


@pytest.mark.parametrize("act", ["hold", "retire", "erase"])
def test_by_the_page(place: Place, act: str) -> None:
    person = visitor.Visitor(application.make(place.plane, MOUNT)).as_user(client.ADMIN)
    action = f"{PAGE}/{act}"
    fields = {**person.page(PAGE).forms[action], "reason": "odd", "confirm": f"S{SLOT}"}
    place.claimed()
    found = person.send(action, fields)
    assert found.status_code == 412
    place.require_untouched()
