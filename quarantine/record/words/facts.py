"""What the store hands out: frozen rows, and the changes one may ask for."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Generic, TypeAlias, TypeVar

from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.report import Hello, Step
from eraser.protocol.transport.signing import PublicKey
from quarantine.record.words.clock import is_to_come
from quarantine.record.words.states import Custody, Event, State

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"
"""A value that JSON can hold."""

T = TypeVar("T")


class Unset(enum.Enum):
    """The one value that means: leave this field as it is."""

    UNSET = "unset"


UNSET = Unset.UNSET

UNSETTLED: Final = -1
"""A generation that no provider has: the slot was seen, and has to be looked at again. In use: it
was not reserved then, as between a server's claim and Nova's burn, or something was unreadable."""


@dataclass(frozen=True)
class Initiator:
    """Who decided something, as the way that it came in tells."""

    user: str
    """A uuid of Keystone's, or a name."""
    project: str = ""
    request: str = ""
    """The request's id, which is in the log of the API too."""


@dataclass(frozen=True)
class NextHold:
    """A person's word that a slot is to be held when its server lets go of the drive."""

    reason: str
    by: Initiator | None = None


@dataclass(frozen=True)
class SlotRecord:
    """All that we know about one slot at one revision. Times are UTC on our own clock."""

    id: int
    slot: Slot
    provider: str
    """UUID of the slot's resource provider in Placement."""
    resource_class: str
    state: State
    generation: int
    """Count of cases; 0 before the first custody. Never goes back."""
    revision: int
    """Count of writes to this record; what compare-and-set compares."""
    reason: str
    """Why the slot is in its state, where that needs saying."""
    profile: str
    policy: str
    identity: ControllerIdentity | None
    """The controller expected in the slot; None until a registered host has named it."""
    consumer: str | None
    """UUID of the server that has the drive, or had it last."""
    custody: str | None
    """UUID of our own consumer in Placement, stored before the request that creates it."""
    custody_stage: Custody
    order_id: str | None
    nonce: str | None
    order_token: str | None
    """The signed order, sent again as it stands when nothing is heard."""
    ordered_at: datetime | None
    """When the order was sent last, or could not be for the reason in ``detail``."""
    heard_at: datetime | None
    """Last word of the host about this order."""
    attempts: int
    step: Step | None
    fraction: float
    """Of ``step``, 0 to 1. Only for people."""
    detail: str
    certificate: str | None
    """Digest of the certificate under which the drive is, or was last, handed out."""
    ticket_token: str | None
    """The signed ticket for the host's last gate, made with the certificate, sent as it stands."""
    ticket_incarnation: str | None
    """The life of the host that the ticket, like the case, belongs to."""
    ticket_at: datetime | None
    """When the ticket was last sent."""
    ticket_ready: bool
    """The host's signed receipt says that the ticket is valid there."""
    alarm: str
    """What an operator was alarmed about and what still stands; empty when nothing is wrong."""
    provider_generation: int | None
    offered_as: str | None
    """:class:`quarantine.rules.offermark.Mark` of the provider as it went on offer, where there is
    no gate."""
    read_at: datetime | None
    """When Placement was last looked at for this slot."""
    entered_at: datetime
    """When the present state began."""
    created_at: datetime
    hold_code: str | None = None
    """With ``held``: a member of :class:`quarantine.record.words.reasons.HoldCode`, or one of
    another release; None where that had no codes. It says why, and decides nothing."""
    next_hold: NextHold | None = None
    """A server has the drive, and a person wants the slot held when it lets go."""


@dataclass(frozen=True)
class UnreadableSlot:
    """A row of ``slots`` that this release cannot read: nothing is known of its drive."""

    host: str
    address: str
    provider: str
    why: str

    def __str__(self) -> str:
        return f"{self.host}/{self.address}"


@dataclass(frozen=True)
class OfferClaim:
    """What a slot's right to be on offer rests on."""

    provider: str
    slot: Slot
    state: State
    custody_stage: Custody
    clean: bool
    """Its drive is clean, not retired, and by this very certificate."""
    registered: bool
    """Its host is registered."""


@dataclass(frozen=True)
class SlotChanges:
    """Fields to write together with a step; ``UNSET`` leaves a field alone.

    State, revision and certificate are not here: only a transition moves them. The generation only
    grows, with a new case.
    """

    provider: str | Unset = UNSET
    resource_class: str | Unset = UNSET
    profile: str | Unset = UNSET
    policy: str | Unset = UNSET
    identity: ControllerIdentity | Unset | None = UNSET
    consumer: str | Unset | None = UNSET
    custody: str | Unset | None = UNSET
    custody_stage: Custody | Unset = UNSET
    order_id: str | Unset | None = UNSET
    nonce: str | Unset | None = UNSET
    order_token: str | Unset | None = UNSET
    ordered_at: datetime | Unset | None = UNSET
    heard_at: datetime | Unset | None = UNSET
    attempts: int | Unset = UNSET
    step: Step | Unset | None = UNSET
    fraction: float | Unset = UNSET
    detail: str | Unset = UNSET
    ticket_token: str | Unset | None = UNSET
    ticket_incarnation: str | Unset | None = UNSET
    ticket_at: datetime | Unset | None = UNSET
    ticket_ready: bool | Unset = UNSET
    alarm: str | Unset = UNSET
    provider_generation: int | Unset | None = UNSET
    offered_as: str | Unset | None = UNSET
    read_at: datetime | Unset | None = UNSET
    next_hold: NextHold | Unset | None = UNSET
    new_case: bool = False
    """Generation + 1 and an empty case: every order and report given so far becomes void.
    ``custody_taken`` does this by itself; ask for it when a hold must end a case for good."""
    above: int = 0
    """With a new case: its generation is greater than this one too."""


@dataclass(frozen=True)
class Subject:
    """What is in maintenance: a host with all of its slots, or one slot."""

    host: str
    address: str = ""
    """Empty: the whole host."""

    @classmethod
    def of(cls, slot: Slot) -> Subject:
        """One slot alone."""
        return cls(slot.host, slot.address)

    def __str__(self) -> str:
        return f"{self.host}/{self.address}" if self.address else f"host {self.host}"


@dataclass(frozen=True)
class Maintenance:
    """A person's word about a subject's maintenance: the last counts, until its time is over."""

    subject: Subject
    version: int
    """Counts these words from 1 on; what compare-and-set compares."""
    at: datetime
    until: datetime | None
    """None: it was ended."""
    reason: str
    by: Initiator

    def lasts(self, now: datetime) -> bool:
        """Whether it is in effect, where it is the last word; not where a clock said it that was
        ahead: it would last until that clock's time comes."""
        return self.until is not None and now < self.until and not is_to_come(self.at, now)


@dataclass(frozen=True)
class HistoryRow:
    """One line of a slot's life. ``event`` None is a note without a change of state, or what
    another release called by a name that we do not know."""

    seq: int
    """Grows over all slots; the order of writing."""
    slot: Slot
    at: datetime
    event: Event | None
    source: State | None
    target: State
    generation: int
    revision: int
    reason: str
    detail: Mapping[str, JSON]
    hold_code: str | None = None
    """As a slot's, where this line says that it was held; in a note, for what it would have been,
    were it not held already."""
    by: Initiator | None = None
    """Who decided this, where a person did and is known."""

    @property
    def became(self) -> State | None:
        """The state that this line led into; None for a note. Evidence asks for it and not for the
        event, which may be a word that only another release has."""
        return None if self.source is self.target else self.target


@dataclass(frozen=True)
class HostRecord:
    """A host that a person has registered. ``hello`` is its last, under this incarnation."""

    name: str
    key: PublicKey
    incarnation: str
    sequence: int
    hello: Hello | None
    registered_at: datetime
    heard_at: datetime | None


@dataclass(frozen=True)
class ServerOwner:
    """Whose a server is, by its allocation in Placement as it was last seen."""

    uuid: str
    project: str
    user: str
    seen_at: datetime


SWEEP: Final = "sweep"
"""The pass that looks at everything (:mod:`quarantine.service.reconciler`); it is late where none
went through within its ``sweep_bound``."""
READING: Final = "reading"
"""Of the slots in use, one after the other: the one that waits longest says how late a release
without a bell would be seen."""
PLACEMENT: Final = "placement"
"""A listing of Placement's."""
BROKER: Final = "broker"
"""A turn of the lists of hosts."""
RESUMED: Final = "resumed"
"""The end of the last long break between two sweeps (:mod:`quarantine.rules.breaks`)."""


@dataclass(frozen=True)
class GoodPass:
    """When a pass of the running service last went well."""

    name: str
    at: datetime
    within: float
    """Seconds in which the next one was expected then."""


@dataclass(frozen=True)
class DriveRecord:
    """A controller, wherever it sits. Born dirty; only a certificate makes it clean."""

    digest: str
    identity: ControllerIdentity
    slot: Slot
    """Where it was last seen or spoken of."""
    dirty: bool
    retired: bool
    """A person gave it up; it is never handed out again, in whatever slot it turns up."""
    reason: str
    changed_at: datetime
    certificate: str | None
    """Digest of its last certificate, also when it has become dirty since."""
    certified_slot: Slot | None
    certified_at: datetime | None
    dirty_slot: Slot | None
    """Where it last became dirty."""
    dirty_at: datetime | None
    firmware: str | None = None
    """The revision that ran at its last certificate."""


@dataclass(frozen=True)
class NonceUse:
    """A nonce that was spent, on which order, with which message (digest, or empty)."""

    nonce: str
    order_id: str
    digest: str
    at: datetime


@dataclass(frozen=True)
class Refusal:
    """A message that was refused. The same one again raises ``count`` and ``last_at``."""

    id: int
    kind: str
    host: str
    reason: str
    digest: str
    excerpt: str
    count: int
    first_at: datetime
    last_at: datetime


@dataclass(frozen=True)
class Approved(Generic[T]):
    """A document that a person approved. Approving a changed one makes the next version."""

    name: str
    version: int
    digest: str
    content: T
    approved_by: str
    approved_at: datetime
    reason: str = ""
    """Empty where none was given, or by an earlier release."""
    project: str = ""
    request: str = ""
    """Of the API's request that approved it."""


@dataclass(frozen=True)
class ApprovedLine(Generic[T]):
    """The same in a list, where one that cannot be read ends it for no other."""

    name: str
    version: int
    digest: str
    content: T | None
    """None where this release cannot read it: then nothing is erased by it."""
    approved_by: str
    approved_at: datetime | None
    """None where that is damaged."""
    reason: str = ""
    project: str = ""
    request: str = ""
    damaged: tuple[str, ...] = ()
    """Columns that cannot be read."""


@dataclass(frozen=True)
class SignedTestimony:
    """What a certificate rests on, as it was signed; the certificate holds a digest of each."""

    order: str
    """The controller's order, a compact JWS."""
    report: str
    """The host's report that answers it, a compact JWS."""
    host_key: PublicKey
    """The host's, as it was registered then: a later registration replaces it."""


@dataclass(frozen=True)
class NewCertificate:
    """A certificate to be stored with the transition that it justifies.

    ``previous`` is the digest of the last certificate in the chain, empty for the first one.
    ``server`` is the uuid of the instance that had the drive, for questions by tenants.
    """

    token: str
    digest: str
    previous: str
    server: str | None = None
    owner: str | None = None
    """The same by the host's gate, where it knows; mostly the same uuid."""
    testimony: SignedTestimony | None = None
    key: str = ""
    """Thumbprint of the key that signed it."""
    former: tuple[str, ...] = ()
    """Those of the keys that another one followed without a rotation, by the operator's word."""
    firmware: str = ""
    """The drive's revision, by the host's report; empty where it says none."""
    verify_seconds: float | None = None
    """How long the host read back, by its own count; None where nobody says."""


@dataclass(frozen=True)
class StoredRotation:
    """One signing key after another."""

    number: int
    new_key: str
    """Thumbprint."""
    document: str
    """:mod:`quarantine.evidence.keys.rotation`."""


@dataclass(frozen=True)
class StoredCertificate:
    """A link of the chain."""

    number: int
    digest: str
    previous: str
    slot: Slot
    generation: int
    drive: str
    """Digest of the controller's identity."""
    order_id: str
    server: str | None
    token: str
    created_at: datetime
    owner: str | None = None
    """The last owner by the host's gate; ``server`` is what Placement was seen to name."""
