"""Writes certificates: the one place that appends to the chain."""

from __future__ import annotations

import logging
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport, Step
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.doors import Clock, utc_now
from quarantine.errors import BadInputError, QuarantineError
from quarantine.evidence import attestations, certificate
from quarantine.evidence.attestations import Attestation
from quarantine.evidence.certificate import CertificateEvidence, Link, SignedCertificate
from quarantine.evidence.sections import Approval, HistoryLine, Issuer
from quarantine.evidence.sheet.files import write_files
from quarantine.record.store import Store
from quarantine.record.words.facts import (
    Approved,
    HistoryRow,
    NewCertificate,
    NonceUse,
    SignedTestimony,
    SlotChanges,
    SlotRecord,
)
from quarantine.record.words.reasons import HoldReason
from quarantine.record.words.states import Event, State
from quarantine.rules.reports import ticket
from quarantine.rules.reports.lastuse import last_use
from quarantine.service.issue import tickets
from quarantine.service.issue.drivepast import past_of

LOG = logging.getLogger(__name__)

_REASON = 1000
"""Characters of a line of the history."""


@dataclass
class Registrar:
    """Signs a certificate onto the chain's end and stores it with the slot's step."""

    store: Store
    key: PrivateKey
    issuer: Issuer
    directory: Path | None = None
    """Where the files go; None keeps certificates in the store alone."""
    clock: Clock = utc_now
    numbers: Mapping[str, str] = field(default_factory=dict)
    """The organisation's property numbers, by serial number."""
    chassis: Mapping[str, str] = field(default_factory=dict)
    """Its numbers of the machines, by host."""
    attestations: Sequence[Attestation] = ()
    former: tuple[str, ...] = ()
    """Thumbprints of the keys that ``key`` followed without a rotation, by the operator's word."""
    ticket_key: PrivateKey | None = None
    """What signs tickets; None where it is ``key``."""
    order_keys: tuple[PublicKey, ...] = ()
    """Those that signed the orders; empty where ``key`` did."""

    def certify(
        self,
        record: SlotRecord,
        *,
        order: EraseOrder,
        report: EraseReport,
        report_token: str,
        host_key: PublicKey,
        changes: SlotChanges,
        nonce: NonceUse,
    ) -> SignedCertificate:
        """Certificate, ticket, transition and nonce in one transaction; then the files.

        Raises :class:`ConflictError` when the slot or the chain moved meanwhile: decide again.
        """
        signed, new = self._signed(record, order, report, report_token, host_key)
        made = ticket.build(order, report, signed.digest)
        issued = tickets.issue(made, self.ticket_key or self.key)
        self.store.transition(
            record,
            Event.CERTIFIED,
            detail={"certificate": signed.digest},
            changes=replace(
                changes,
                ticket_token=issued.ticket_token,
                ticket_incarnation=issued.ticket_incarnation,
                ticket_at=issued.ticket_at,
                ticket_ready=issued.ticket_ready,
            ),
            certificate=new,
            nonce=nonce,
        )
        LOG.info("%s: certified, certificate %s", record.slot, signed.digest)
        # Last: a file of a transaction that was refused would name a certificate that is none.
        self._write(signed, new.testimony)
        return signed

    def write_missing(self, slot: Slot, order_id: str) -> None:
        """The files of a case's certificate, where whoever stored it came no further: it was
        killed, or heard no answer to its commit. Raises nothing."""
        if self.directory is None:
            return
        try:
            stored = self.store.newest_of(slot=slot)
            if stored is None or stored.order_id != order_id:
                return
            if (self.directory / f"{stored.digest}.json").exists():
                return  # written last
            what = f"certificate {stored.digest}"
            signed = certificate.verify(stored.token, [self.key.public], what)
            self._write(signed, self.store.testimony(stored.digest))
        except QuarantineError as error:
            LOG.warning("%s: the files of its certificate: %s", slot, error)

    def images(self, drive: ControllerIdentity) -> tuple[str, ...]:
        """What lay in a drive's firmware slots when it was last certified, wherever that was.

        Raises :class:`BadInputError` for a stored certificate that cannot be read.
        """
        known = self.store.drive(drive.digest)
        if known is None or known.certificate is None:
            return ()
        stored = self.store.certificate(known.certificate)
        if stored is None:
            return ()
        return certificate.installed(stored.token, f"certificate {stored.digest}")

    def withhold(
        self,
        record: SlotRecord,
        *,
        order: EraseOrder,
        report: EraseReport,
        report_token: str,
        host_key: PublicKey,
        changes: SlotChanges,
        nonce: NonceUse,
        hold: HoldReason,
        reasons: tuple[str, ...],
    ) -> SlotRecord:
        """Holds a drive that was erased and is not fit, with a certificate that says both.

        ``reasons`` are the lines of ``hold`` as the certificate prints them.
        No ticket goes with it, and the drive stays dirty to the record. Raises as :meth:`certify`.
        """
        signed, new = self._signed(record, order, report, report_token, host_key, reasons)
        held = self.store.hold(
            record,
            hold,
            detail={
                "certificate": signed.digest,
                "report": certificate.token_digest(report_token),
                "verdict": report.verdict.value,
            },
            changes=changes,
            certificate=new,
            nonce=nonce,
        )
        self._write(signed, new.testimony)
        return held

    def _signed(
        self,
        record: SlotRecord,
        order: EraseOrder,
        report: EraseReport,
        report_token: str,
        host_key: PublicKey,
        withheld: tuple[str, ...] = (),
    ) -> tuple[SignedCertificate, NewCertificate]:
        """The next link, signed, and as the store takes it."""
        history = self.store.history(record.slot)
        past = past_of(self.store, order.identity, record.slot, history)
        owner = report.last_owner.domain if report.last_owner else None
        # A migration that held the drive was no user of it: its server was.
        seen = self.store.server_behind(record.consumer) if record.consumer else ""
        use = last_use(record.slot, past, seen, owner)
        evidence = CertificateEvidence(
            order=order,
            order_token=record.order_token or "",
            report=report,
            report_token=report_token,
            host_key=host_key.thumbprint,
            provider=record.provider,
            last_user=use.consumer,
            gate_counts=use.gate,
            history=moments(history),
            property_number=self.numbers.get(order.identity.serial, ""),
            chassis=self.chassis.get(order.slot.host, ""),
            withheld=withheld,
            policy=_approval(order.policy, self.store.approved(order.policy)),
            profile=_approval(order.profile, self.store.approved(order.profile)),
            attestation=self._attestation(report),
            order_key=self._order_key(record.order_token),
        )
        # Read outside the transaction: the store refuses the certificate where the chain has grown.
        link = self._end()
        signed = certificate.sign(
            certificate.build(evidence, self.issuer, link, iso(self.clock())), self.key
        )
        new = NewCertificate(
            signed.token,
            signed.digest,
            link.digest,
            server=use.consumer or None,
            owner=_uuid(owner) if use.gate else None,
            testimony=SignedTestimony(evidence.order_token, report_token, host_key),
            key=signed.key,
            former=self.former,
            firmware=report.facts_after.firmware if report.facts_after else "",
            verify_seconds=sum(
                report.seconds.get(step, 0.0) for step in (Step.VERIFY, Step.REPORT)
            ),
        )
        return signed, new

    def _order_key(self, token: str | None) -> str:
        """The key that signed this very order, where it is another than the certificate's: after a
        change of keys that may be a former one."""
        if token is None or not self.order_keys:
            return ""
        try:
            key, _payload = signing.verify_any(token, self.order_keys, ORDER_TYPE, "stored order")
        except BadWireError as error:
            raise BadInputError(f"{error}; hold the slot") from error
        return "" if key == self.key.public else key.x

    def _attestation(self, report: EraseReport) -> str:
        if report.identity is None or report.facts_after is None:
            return ""
        return attestations.statement(
            self.attestations, report.identity.model, report.facts_after.firmware
        )

    def _end(self) -> Link:
        """What the next certificate names. Raises :class:`UnreadableError`."""
        last = self.store.chain_end()
        if last is None:
            return Link()
        return certificate.checked_link(last.number, last.digest, last.token)

    def _write(self, signed: SignedCertificate, testimony: SignedTestimony | None) -> None:
        """The files are copies: the store has the certificate itself."""
        if self.directory is None:
            return
        try:
            write_files(self.directory, signed, testimony)
        except OSError as error:
            LOG.error(
                "certificate %s is stored, but not written to %s: %s; run "
                "'nvme-quarantine certificate export'",
                signed.digest,
                self.directory,
                error,
            )


def _approval(
    used: Policy | Profile, found: Approved[Policy] | Approved[Profile] | None
) -> Approval | None:
    """The digest is of what the order says; an earlier release may have stored it otherwise."""
    if found is None:
        return None
    return Approval(
        used.name, codec.digest(used), found.version, found.approved_by, iso(found.approved_at)
    )


def _uuid(text: str | None) -> str | None:
    """A host's word as the record's keys are spelt; None for what is no uuid."""
    try:
        return None if text is None else str(uuid.UUID(text))
    except ValueError:
        return None


def moments(history: list[HistoryRow]) -> tuple[HistoryLine, ...]:
    """The lines of the present case, from what began it; notes without an event are left out."""
    starts = [n for n, row in enumerate(history) if _begins(row)]
    return tuple(
        HistoryLine(iso(row.at), str(row.event), str(row.target), _short(row.reason))
        for row in history[starts[-1] if starts else 0 :]
        if row.event is not None
    )


def _begins(row: HistoryRow) -> bool:
    """The slot was enrolled, or let go of: by its server, or by a person who settled a hold."""
    return row.became is State.RELEASED or (
        row.became is not None and row.source in (None, State.RETIRED)
    )


def _short(reason: str) -> str:
    """Whole, unless it is longer than anybody reads: a host may have written it."""
    return reason if len(reason) <= _REASON else f"{reason[:_REASON]}..."


def iso(moment: datetime) -> str:
    """UTC with milliseconds, as certificates and JSON output have it."""
    return moment.astimezone(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
