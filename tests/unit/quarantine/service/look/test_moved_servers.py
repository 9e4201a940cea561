"""A server that migrates is its drive's user, whatever holds the drive for it meanwhile.

Nova hands the allocation of what the server leaves behind to the migration, and deletes it with
the migration's end: the record's last consumer is then no server.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, cast

import pytest
import sqlalchemy as sa

from eraser.protocol.report import REPORT_TYPE
from eraser.protocol.ticket import LastOwner
from quarantine.cloud.facts import Allocation
from quarantine.cloud.novafacts import Migration
from quarantine.errors import ConflictError, UnavailableError
from quarantine.evidence import certificate, serverdrives
from quarantine.evidence.sections import MediumSource
from quarantine.evidence.serverdrives import Account
from quarantine.operations.papers import servers
from quarantine.record.pages import SlotQuery
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.handovers import AWAY_SECONDS, Handovers
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.service.inbound.plane import Plane, plane
from tests.unit.quarantine.smallcloud import RC, Clock, Cloud
from tests.unit.quarantine.testimony import IDENTITY, PROFILE, SLOT

__all__ = ["plane"]

ANN, BOB, MOVE, OTHER_MOVE = (f"{n * 8}-{n * 4}-4{n * 3}-8{n * 3}-{n * 12}" for n in "abcd")
GRACE = 300.0


@dataclass
class Nova:
    """Its migrations; away where ``away``."""

    moves: list[Migration] = field(default_factory=list)
    away: bool = False

    def migrations_of(self, server: str) -> list[Migration]:
        if self.away:
            raise UnavailableError("Nova is away")
        return [move for move in self.moves if move.server == server]

    def server(self, _uuid: str) -> None:
        """None of its own: a cell that is away is another test's."""
        if self.away:
            raise UnavailableError("Nova is away")


class Site:
    """One slot's drive, clean and on offer; a cloud that moves it, and hosts that erase it."""

    def __init__(self, plane: Plane) -> None:
        self.plane, self.store, self.nova, self.clock = plane, plane.store, Nova(), Clock()
        self.cloud = Cloud(self.clock)
        self.loop = Reconciler(
            self.store,
            self.cloud,
            plane.dispatcher,
            ServiceLimits(tickets=False),
            tickets=plane.tickets,
            handovers=Handovers(
                self.nova, GRACE, self.clock.monotonic, self.clock, note=self.store.note_move
            ),
        )
        provider = self.cloud.add(SLOT)
        self.cloud.burn(SLOT)
        record = self.store.enrol(
            SLOT,
            provider=provider,
            resource_class=RC,
            in_use=False,
            profile=PROFILE.name,
            policy="purge",
        )
        self.store.amend(record, SlotChanges(identity=IDENTITY))
        self.look()
        self.erased()
        assert self.look().state is State.AVAILABLE

    def look(self) -> SlotRecord:
        record = self.loop.look(SLOT)
        assert record is not None
        return record

    def used_by(self, server: str) -> None:
        self.cloud.claim(SLOT, server)
        self.cloud.burn(SLOT)
        assert self.look().consumer == server

    def handed_to(self, consumer: str) -> None:
        """As ``move_allocations`` of Nova's report client: owner and project stay."""
        seat = self.cloud.seat(SLOT)
        seat.holder = Allocation(consumer, {RC: 1}, 1, "MIGRATION", "p", "u")
        seat.moved()

    def moves(self, server: str = ANN, migration: str = MOVE, kind: str = "migration") -> None:
        self.nova.moves.append(Migration(migration, server, kind, "migrating", "cmp1", "cmp2"))
        self.handed_to(migration)

    def erased(self, owner: LastOwner | None = None) -> MediumSource:
        """What its certificate says of where the drive was."""
        assert self.plane.record().state is State.ERASING
        report = self.plane.answer(last_owner=owner)
        self.plane.inbox.report(self.plane.signed(report, REPORT_TYPE))
        stored = self.store.last_certificate()
        assert stored is not None
        keys = [self.plane.controller.public]
        return certificate.verify(stored.token, keys, "x").certificate.source

    def let_go(self) -> None:
        self.cloud.delete(SLOT)
        assert self.look().state is State.ERASING

    def account(self, server: str = ANN) -> Account:
        return serverdrives.account(self.store, server, [self.plane.controller.public])


@pytest.fixture
def site(plane: Plane) -> Site:
    return Site(plane)


GATES = [None, LastOwner(ANN, "i-1", "2026-11-01T00:00:00Z", "2026-11-20T00:00:00Z")]


@pytest.mark.parametrize("owner", GATES, ids=["no gate", "gate"])
@pytest.mark.parametrize("kind", ["migration", "resize", "live-migration"])
def test_a_server_that_moved_away_is_the_last_user(
    site: Site, kind: str, owner: LastOwner | None
) -> None:
    site.used_by(ANN)
    site.moves(kind=kind)
    assert (site.look().state, site.look().consumer) == (State.IN_USE, MOVE)
    site.let_go()
    source = site.erased(owner)
    how = "the host's gate and Placement" if owner else "allocations seen in Placement"
    assert (source.last_user, source.known_from) == (ANN, how)
    assert site.account().unknown == ()
    assert site.account().complete
    assert site.account(MOVE).drives == ()
    (stored,) = site.store.certificates(server=ANN)
    assert stored.server == ANN


def test_its_owner_sees_the_drive_that_it_left(site: Site) -> None:
    site.used_by(ANN)
    handed_out = site.plane.record().certificate
    site.moves()
    site.look()
    assert [one.uuid for one in site.store.server_page(limit=9)] == [ANN], "no server but her"
    assert [each.state for each in shown(site).drives] == ["in_use"]
    assert shown(site).drives[0].certificate == handed_out
    (use,) = site.account().drives
    assert use.says == ("after: none yet, the server has the drive",)
    site.let_go()
    assert [each.state for each in shown(site).drives] == ["erasing"]
    (line,) = site.store.slot_page(SlotQuery(server=ANN, states=("erasing", "held")), limit=9)
    assert line.slot == SLOT
    site.erased()
    assert shown(site).drives == ()
    assert len(shown(site).certificates) == 1


@dataclass
class Doors:
    """What the operation is given, as far as it asks."""

    store: Store

    @contextlib.contextmanager
    def parts(self) -> Iterator[Doors]:
        yield self


def shown(site: Site) -> servers.ServerDrives:
    return servers.show(cast(Any, Doors(site.store)), ANN)


def test_a_migration_that_was_reverted_changes_nobody(site: Site) -> None:
    site.used_by(ANN)
    site.moves()
    site.look()
    site.handed_to(ANN)
    assert site.look().consumer == ANN
    site.moves(migration=OTHER_MOVE)
    site.look()
    site.let_go()
    assert site.erased().last_user == ANN
    assert site.account().complete


def test_a_migration_after_another_that_was_reverted_unseen_calls_nobody(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.used_by(ANN)
    site.moves()
    site.look()
    site.handed_to(ANN)
    site.moves(migration=OTHER_MOVE)
    assert site.look().consumer == OTHER_MOVE
    assert "ALARM" not in caplog.text
    site.let_go()
    assert site.erased().last_user == ANN
    assert site.account().complete


def test_who_takes_it_from_a_migration_is_named(site: Site) -> None:
    """A stranger, by an operator's hand: its own word."""
    site.used_by(ANN)
    site.moves()
    site.look()
    site.handed_to(BOB)
    assert site.look().consumer == BOB
    site.let_go()
    assert site.erased().last_user == BOB
    assert not site.account(BOB).complete, "whose data it got, nobody knows"
    assert not site.account(ANN).complete


@pytest.mark.parametrize("ends", [True, False], ids=["it ends meanwhile", "it is known again"])
def test_a_nova_that_was_away_is_asked_first(site: Site, ends: bool) -> None:
    site.used_by(ANN)
    site.nova.away = True
    site.moves()
    assert site.look().consumer == ANN
    if not ends:
        site.nova.away = False
        site.clock.forward(AWAY_SECONDS)
        assert site.look().consumer == MOVE
    site.let_go()
    assert site.erased().last_user == ANN
    assert site.account().complete


def test_a_former_release_that_writes_beside_us_names_nobody_else(site: Site) -> None:
    """It sets the consumer and nothing that goes with it."""
    site.used_by(ANN)
    site.moves()
    site.look()
    site.store.amend(site.plane.record(), SlotChanges(consumer=BOB))
    site.handed_to(BOB)
    site.let_go()
    assert site.erased().last_user == BOB


def test_two_that_note_the_same_migration_are_one(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The slower one looks again, and finds it noted."""
    note, refused = site.store.note_move, [ConflictError("beside us")]

    def slower(migration: str, server: str) -> None:
        note(migration, server)
        if refused:
            raise refused.pop()

    site.loop._looks._handovers._note = slower  # type: ignore[union-attr]
    site.used_by(ANN)
    site.moves()
    assert site.look().consumer == MOVE
    assert not refused


def test_a_damaged_note_keeps_no_drive_from_its_certificate(site: Site) -> None:
    site.used_by(ANN)
    site.moves()
    site.look()
    with site.store._writing() as db:
        assert db.execute(sa.text("UPDATE moves SET server = x'ff'")).rowcount == 1
    site.store.amend(site.plane.record(), SlotChanges(consumer=ANN))
    assert site.look().consumer == MOVE, "nobody waits for what cannot be read"
    site.let_go()
    assert site.erased().last_user == MOVE
    assert not site.account().complete
