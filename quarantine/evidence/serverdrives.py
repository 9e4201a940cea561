"""The drives that a server had, each with its certificate from before and from after.

From the gates' records where a report names them, else from allocations seen in Placement. What
neither tells is said plainly: an answer with a hole in it must not look whole.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from eraser.protocol.identity import Slot
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError, UnreadableError
from quarantine.evidence import certificate
from quarantine.evidence.certificate import SignedCertificate
from quarantine.record.store import Store
from quarantine.record.words.facts import HistoryRow, SlotRecord, StoredCertificate
from quarantine.record.words.reasons import HoldCode
from quarantine.record.words.states import State
from quarantine.record.words.texts import USED_AGAIN

_BEFORE_UNKNOWN = (
    "unknown: no certificate is older than its use; the drive was in use when it was enrolled"
)


@dataclass(frozen=True)
class Reference:
    """One certificate, as an answer names it."""

    digest: str
    number: int
    issued_at: str
    label: str
    downgraded: bool
    withheld: bool
    """It says that the drive was erased and not handed out."""

    @classmethod
    def of(cls, signed: SignedCertificate) -> Reference:
        """From a certificate whose signature was verified."""
        body = signed.certificate
        return cls(
            digest=signed.digest,
            number=body.position,
            issued_at=body.issued_at,
            label=body.sanitization.method.value,
            downgraded=body.sanitization.downgraded,
            withheld=bool(body.withheld),
        )


@dataclass(frozen=True)
class ServedDrive:
    """One drive that the server had."""

    slot: str
    model: str
    serial: str
    known_from: str
    before: Reference | None
    """Under which it was handed out to the server."""
    after: tuple[Reference, ...]
    """Of the erase that followed; more than one where it was erased again before its return."""
    says: tuple[str, ...]
    """What is unknown or still to come, one line each."""


@dataclass(frozen=True)
class Account:
    """The whole answer. ``complete``: every use has both certificates, and nothing is unknown."""

    server: str
    drives: tuple[ServedDrive, ...]
    unknown: tuple[str, ...]
    broken: bool = False
    """A certificate on record does not hold: no key given verifies it, or it was altered."""

    @property
    def complete(self) -> bool:
        """Nothing is missing."""
        return not self.unknown and all(use.before and use.after for use in self.drives)


@dataclass
class _Clerk:
    """Looks things up for one server."""

    store: Store
    keys: Sequence[PublicKey]
    unknown: list[str] = field(default_factory=list)
    broken: bool = False
    _read: dict[str, SignedCertificate | None] = field(default_factory=dict)

    def read(self, stored: StoredCertificate) -> SignedCertificate | None:
        """Verified, and None with a line in ``unknown`` where that fails."""
        if stored.digest not in self._read:
            try:
                signed = certificate.verify(stored.token, self.keys, f"certificate {stored.digest}")
                if signed.digest != stored.digest:
                    raise BadInputError(
                        f"certificate {stored.digest}: expected it in the record, found "
                        f"{signed.digest} under its name"
                    )
            except BadInputError as error:
                self.unknown.append(str(error))
                self.broken = True
                self._read[stored.digest] = None
            else:
                self._read[stored.digest] = signed
        return self._read[stored.digest]

    def handed_out(self, stored: StoredCertificate) -> bool:
        """Whether the slot went back to the pool under this certificate."""
        return any(_hands_out(row, stored) for row in self.store.history(stored.slot))

    def before(
        self, drive: str, slot: Slot, first: StoredCertificate | None = None
    ) -> Reference | str:
        """The certificate under which a drive was handed out in ``slot`` to whoever had it before
        the certificate ``first``, or has it now; or why none is named."""
        known = self.store.certificates(drive=drive)
        older = [one for one in known if first is None or one.number < first.number]
        if not older:
            return _BEFORE_UNKNOWN
        # Only the last one says how the drive came to its next user: whoever had it under one from
        # before that has had it already.
        last = older[-1]
        if last.slot != slot:
            return (
                f"unknown: the drive's certificate {last.number} is of {last.slot}; how it came to "
                f"the server in {slot}, no certificate tells"
            )
        if not self.handed_out(last):
            return (
                f"unknown: under its certificate {last.number}, the last from before, the drive "
                "was not handed out"
            )
        if self._had_another_user(last, first):
            return (
                f"unknown: since its certificate {last.number} the drive was let go, or another "
                "server had it, before this one"
            )
        signed = self.read(last)
        if signed is None:
            return f"unknown: certificate {last.number} is not believed"
        return Reference.of(signed)

    def _had_another_user(
        self, handed_out: StoredCertificate, until: StoredCertificate | None
    ) -> bool:
        """Whoever had the slot last before ``until``, or has it now, was not the first to have it
        since it went out under ``handed_out``."""
        used = over = False
        for row in self._since(handed_out, until):
            if row.reason.endswith(USED_AGAIN):
                return True
            if row.became is State.IN_USE or row.hold_code == HoldCode.CLAIMED:
                # A drive that was let go is not handed out: whoever takes it then gets it dirty.
                if used or over:
                    return True
                used = True
            over = over or row.became is State.RELEASED
        return False

    def _since(
        self, handed_out: StoredCertificate, until: StoredCertificate | None
    ) -> list[HistoryRow]:
        rows = self.store.history(handed_out.slot)
        rows = list(itertools.dropwhile(lambda row: not _hands_out(row, handed_out), rows))
        # The case of the next erase begins, and has its number, when nobody has the drive any more.
        return [row for row in rows[1:] if until is None or row.generation < until.generation]


def _hands_out(row: HistoryRow, stored: StoredCertificate) -> bool:
    return row.became is State.AVAILABLE and row.generation == stored.generation


def account(store: Store, server: str, keys: Sequence[PublicKey]) -> Account:
    """What the record knows of the drives of ``server`` (a uuid in canonical form)."""
    # What certificates tell of uses that are over, and the record of the present one.
    clerk = _Clerk(store, keys)
    erased = store.certificates(server=server)
    uses = list(_erased(clerk, erased))
    present = [record for record in store.slots(server=server) if not _covered(store, record)]
    uses += [_unfinished(clerk, record) for record in present]
    # From here on: each other trace of the server. One that leads to no use above is told as
    # unknown, for the answer would look whole without it.
    had = store.places(server=server)
    for slot in sorted(had - {record.slot for record in store.slots(server=server)}):
        clerk.unknown.append(f"{slot}: the server was seen there, and its row cannot be read")
    told = {row.slot for row in erased} | {record.slot for record in present}
    slots = told | had
    hosts, unread = store.every_host()
    clerk.unknown += [f"{line}; whether it names the server is not known" for line in unread]
    for host in hosts:
        gate = host.hello.gate if host.hello else None
        # What hosts say of their guests: a domain there without an allocation that anybody saw.
        for domain in gate.domains if gate else ():
            addresses = {f"{host.name}/{address}" for address in domain.addresses}
            if domain.uuid == server and (more := sorted(addresses - {str(s) for s in slots})):
                clerk.unknown.append(
                    f"{', '.join(more)}: its host names the server's domain there, and no "
                    "allocation of it was seen"
                )
    # Last the histories: they keep a server's name when nothing else has it any more. That the
    # record has it there still says nothing of a use whose certificate names another.
    for row in _mentions(clerk, server):
        if row.slot not in told:
            told.add(row.slot)
            clerk.unknown.append(
                f"{row.slot}: its history names the server at {row.at:%Y-%m-%d %H:%M:%S} UTC "
                f"({row.reason}); which drive that was, no certificate tells"
            )
    if not uses and not clerk.unknown:
        clerk.unknown.append(
            "no drive of this server is on record: it had none, or its slots were not enrolled by "
            "then, or it took and let go of them between two looks"
        )
    return Account(server, tuple(uses), tuple(dict.fromkeys(clerk.unknown)), clerk.broken)


def _mentions(clerk: _Clerk, server: str) -> list[HistoryRow]:
    try:
        return clerk.store.mentions(server)
    except UnreadableError as error:
        clerk.unknown.append(f"which slots' histories name the server is not known: {error}")
        return []


def _covered(store: Store, record: SlotRecord) -> bool:
    """The erase that follows the server's use has its certificate."""
    rows = store.history(record.slot)
    # Into released, but not by a person who settled a hold: a server's use was found to be over.
    ends = [
        n
        for n, row in enumerate(rows)
        if row.became is State.RELEASED and row.source is not State.HELD
    ]
    if record.state is State.IN_USE or not ends:
        return False
    # Since the last use that ended: a certificate from before it is of an earlier erase.
    return any("certificate" in row.detail for row in rows[ends[-1] :])


def _erased(clerk: _Clerk, rows: Sequence[StoredCertificate]) -> Iterator[ServedDrive]:
    """One use for each row, those that only erased again left to the use before them."""
    for drive in dict.fromkeys(row.drive for row in rows):
        group: list[StoredCertificate] = []
        for row in (row for row in rows if row.drive == drive):
            # A drive that was handed out, or that went to another slot, begins a new use.
            if group and (clerk.handed_out(group[-1]) or group[-1].slot != row.slot):
                yield from _use(clerk, group)
                group = []
            group.append(row)
        yield from _use(clerk, group)


def _use(clerk: _Clerk, rows: Sequence[StoredCertificate]) -> Iterator[ServedDrive]:
    found = [signed for row in rows if (signed := clerk.read(row)) is not None]
    if not found:
        return
    # The first certificate after the use says how its user is known, the last one whether the drive
    # went out.
    body = found[0].certificate
    before = clerk.before(rows[0].drive, rows[0].slot, rows[0])
    says = [f"before: {before}"] if isinstance(before, str) else []
    if certificate.OTHERWISE in body.source.known_from:
        # A host may name whomever it likes as the last user of its own drives.
        clerk.unknown.append(
            f"{rows[0].slot}: before certificate {rows[0].number} {body.source.last_user} had the "
            f"drive, known from {body.source.known_from}: one of the two had it"
        )
    if found[-1].certificate.withheld:
        says.append("after: erased and not handed out; see the certificate")
    yield ServedDrive(
        slot=str(rows[0].slot),
        model=body.drive.identity.model,
        serial=body.drive.identity.serial,
        known_from=body.source.known_from or "allocations seen in Placement",
        before=None if isinstance(before, str) else before,
        after=tuple(Reference.of(signed) for signed in found),
        says=tuple(says),
    )


def _unfinished(clerk: _Clerk, record: SlotRecord) -> ServedDrive:
    """The server's drive is with it, or on its way to a certificate."""
    identity = record.identity
    before = clerk.before(identity.digest, record.slot) if identity else _BEFORE_UNKNOWN
    if record.state is State.IN_USE:
        after = "after: none yet, the server has the drive"
    else:
        why = f" ({record.reason})" if record.reason else ""
        after = f"after: none, the slot is {record.state}{why}"
    return ServedDrive(
        slot=str(record.slot),
        model=identity.model if identity else "",
        serial=identity.serial if identity else "",
        known_from="allocations seen in Placement",
        before=None if isinstance(before, str) else before,
        after=(),
        says=(*([f"before: {before}"] if isinstance(before, str) else []), after),
    )
