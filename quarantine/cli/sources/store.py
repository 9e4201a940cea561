"""What commands show, from the record of this control plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine import users
from quarantine.cli.sources.campaigns import StoreCampaigns
from quarantine.cli.sources.chunks import CHUNK, chunked, in_chunks
from quarantine.cli.sources.columns import members_of, place, read_as_shown, rows_of, slot
from quarantine.cli.sources.enrolment import StoreEnrolment
from quarantine.cli.sources.maintenances import StoreMaintenances
from quarantine.cli.sources.source import (
    Act,
    Acted,
    AlarmsWanted,
    CertificateLook,
    Columns,
    KeyFiles,
    Members,
    Papers,
    SlotAct,
)
from quarantine.operations import decisions, drives, hosts, slots
from quarantine.operations.decisions import Decision
from quarantine.operations.drives import DriveLine, DriveQuery
from quarantine.operations.hosts import HostView
from quarantine.operations.overview import alarms, capacity, history, refusals
from quarantine.operations.overview.alarms import AlarmLine
from quarantine.operations.overview.capacity import Capacity
from quarantine.operations.overview.history import Event
from quarantine.operations.overview.refusals import RefusalLine
from quarantine.operations.papers import certificates
from quarantine.operations.papers.certificates import CertificateLine
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.operations.plane import Plane
from quarantine.operations.slots import HistoryRow, Initiator, SlotView, State

HERE: Final = "here, with the keys that are believed"


@dataclass(frozen=True)
class CertificateRow:
    """A certificate in a list: what the API says of one, in the same words."""

    number: int
    digest: str
    slot: Slot | str
    generation: int
    drive: str
    server: str | None
    created_at: datetime | None
    owner: str | None
    damaged: tuple[str, ...]


class StoreSource:
    """See :class:`quarantine.cli.sources.source.Source`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def slots(self, *, host: str | None, states: Sequence[str], limit: int | None) -> Columns:
        """As the operation has them."""
        wanted = [State(name) for name in states]
        found = slots.find(self._plane, host=host, states=wanted, limit=limit)
        return read_as_shown(SlotView, found)

    def slot(self, name: str) -> Members:
        """With its version."""
        found = slots.versioned_closely(self._plane, slot(name))
        return _versioned(found.slot, found.version)

    def history(self, name: str, *, limit: int | None) -> Columns:
        """All of it, oldest first."""
        found = slots.history(self._plane, slot(name), limit=limit)
        return read_as_shown(HistoryRow, found)

    def fleet_history(self, *, host: str | None, event: str | None, limit: int | None) -> Columns:
        """The last first."""
        wanted, found = None if event is None else Event(event), list[HistoryRow]()
        more: int | None = None
        # Not by in_chunks(): the record says itself where the next page begins, for a page may be
        # short where lines of it cannot be read.
        while limit is None or len(found) < limit:
            most = CHUNK if limit is None else min(CHUNK, limit - len(found))
            lines, more = history.page(
                self._plane, limit=most, before=more, host=host, event=wanted
            )
            found += lines
            if more is None:
                break
        return rows_of(HistoryRow, found)

    def act(self, decision: SlotAct) -> Acted:
        """Writes it down, with whose shell it is, and acts on it."""
        place, reason = slot(decision.slot), decision.reason
        seen = (decision.seen,) if decision.seen else ()
        about = Decision(Initiator(users.who()), seen)
        if decision.act is Act.RELEASE:
            done = decisions.release(
                self._plane, place, reason=reason, new_drive=decision.new_drive, decision=about
            )
        elif decision.act is Act.HOLD:
            later = decision.at_next_release
            done = decisions.hold(
                self._plane, place, reason=reason, at_next_release=later, decision=about
            )
        elif decision.act is Act.ERASE:
            done = decisions.erase(self._plane, place, reason=reason, decision=about)
        else:
            done = decisions.retire(self._plane, place, reason=reason, decision=about)
        return Acted(_versioned(done.slot, done.version), done.unacted)

    def hosts(self, *, silent: bool, limit: int | None) -> Columns:
        """With what they said last."""
        return read_as_shown(HostView, hosts.find(self._plane, silent=silent, limit=limit))

    def host(self, name: str) -> Members:
        """One."""
        return members_of(hosts.show(self._plane, name))

    def capacity(self, *, flavor: str | None, host: str | None) -> Columns:
        """As the operation has it."""
        return rows_of(Capacity, capacity.show(self._plane, flavor=flavor, host=host))

    def certificates(self, *, slot: str | None, server: str | None, limit: int | None) -> Columns:
        """Without their texts: of some years they would fill the memory."""
        place = None if slot is None else _place(slot)

        def page(most: int, last: CertificateLine | None) -> Sequence[CertificateLine]:
            after = last.number if last else 0
            return certificates.page(
                self._plane, limit=most, after=after, slot=place, server=server
            )

        return read_as_shown(CertificateRow, map(_certificate, in_chunks(limit, page)))

    def certificate(self, name: str, trust: KeyFiles) -> CertificateLook:
        """Checked with the keys given, else with the configuration's."""
        trusted = TrustedKeys(trust.keys, trust.rotations)
        return look(certificates.show(self._plane, _named(name), trusted))

    def papers(self, name: str) -> Papers:
        """As they are in the record."""
        found, testimony = certificates.papers(self._plane, _named(name))
        if testimony is None:
            return Papers(found.digest, found.token)
        key = testimony.host_key.jwk()
        return Papers(found.digest, found.token, testimony.order, testimony.report, key)

    def drives(
        self,
        *,
        model: str | None,
        serial: str | None,
        firmware: str | None,
        limit: int | None,
    ) -> Columns:
        """By the digest of their identity."""
        query = DriveQuery(model, serial, firmware)

        def page(most: int, last: DriveLine | None) -> Sequence[DriveLine]:
            return drives.page(self._plane, query, limit=most, after=last.digest if last else "")

        return rows_of(DriveLine, chunked(limit, page))

    def drive(self, digest: str) -> Members:
        """Its life."""
        return members_of(drives.show(self._plane, digest))

    def alarms(self, wanted: AlarmsWanted, limit: int | None) -> Columns:
        """What people were called for."""
        place = None if wanted.slot is None else _place(wanted.slot)

        def page(most: int, last: AlarmLine | None) -> Sequence[AlarmLine]:
            return alarms.page(
                self._plane,
                limit=most,
                newest=wanted.newest,
                after=last.mark if last else None,
                code=wanted.code,
                severity=wanted.severity,
                host=wanted.host,
                slot=place,
                is_over=wanted.is_over,
            )

        return rows_of(AlarmLine, chunked(limit, page))

    def refusals(self, *, host: str | None, limit: int | None) -> Columns:
        """Oldest first."""

        def page(most: int, last: RefusalLine | None) -> Sequence[RefusalLine]:
            after = last.id if last else 0
            return refusals.page(self._plane, limit=most, after=after, host=host)

        return rows_of(RefusalLine, chunked(limit, page))

    @property
    def enrolment(self) -> StoreEnrolment:
        """Of slots, wherever they are."""
        return StoreEnrolment(self._plane)

    @property
    def maintenances(self) -> StoreMaintenances:
        """Of hosts and slots."""
        return StoreMaintenances(self._plane)

    @property
    def campaigns(self) -> StoreCampaigns:
        """Of many slots."""
        return StoreCampaigns(self._plane)


def look(shown: certificates.ShownCertificate) -> CertificateLook:
    """What was checked here."""
    signed, weighed = shown.signed, shown.weighed
    return CertificateLook(
        digest=signed.digest,
        token=signed.token,
        body=codec.plain(signed.certificate),
        headline=shown.headline,
        key=signed.key,
        checked=HERE,
        testimony=weighed.standing,
        contradictions=shown.contradictions,
        remarks=weighed.remarks,
        problems=shown.problems,
        broken=shown.broken,
    )


def _certificate(one: CertificateLine) -> CertificateRow:
    return CertificateRow(
        number=one.number,
        digest=one.digest,
        slot=place(one.host, one.address),
        generation=one.generation,
        drive=one.drive,
        server=one.server,
        created_at=one.created_at,
        owner=one.owner,
        damaged=one.damaged,
    )


def _versioned(view: SlotView, version: str) -> Members:
    names, values = members_of(view)
    return [*names, "version"], [*values, version]


def _named(text: str) -> str | Slot:
    return slot(text) if "/" in text else text


_place = slot
"""Where an argument has that name."""
