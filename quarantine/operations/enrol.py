"""Slots come under our care: reserved first, and never touched where a tenant has the drive.

A running cloud is enrolled as it stands: what is used becomes ``in_use`` and is only looked at,
what is free is unknown and therefore erased first. Doing it again changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final, Protocol

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from eraser.protocol.report import SeenDrive
from quarantine.cloud import custody
from quarantine.cloud.facts import ONE_TIME_USE, Provider, View, provider_name
from quarantine.cloud.sdk import NotFoundError
from quarantine.errors import (
    BadInputError,
    ConflictError,
    QuarantineError,
    StaleError,
    UnavailableError,
    UnfinishedError,
)
from quarantine.operations.names import EnrolmentFate as EnrolmentFate
from quarantine.record.facts import DriveRecord, Initiator, SlotRecord
from quarantine.record.states import State
from quarantine.record.store import Store
from quarantine.service import owners
from quarantine.service.issue.drive_inventory import misplaced

if TYPE_CHECKING:
    from quarantine.operations.plane import Plane
    from quarantine.service.container import Assembly

LOG = logging.getLogger(__name__)

_ATTEMPTS: Final = 3
_AT_REST: Final = "nvme"


class EnrolmentPlacement(custody.CustodyPlacement, Protocol):
    """What enrolment needs of :class:`quarantine.cloud.placement.Placement`."""

    def one_time_use(self, host: str | None = None) -> list[Provider]:
        """Every one-time-use slot."""

    def by_host(self, host: str) -> list[Provider]:
        """The slots of one host, with the trait or without."""

    def offered(self, resource_class: str) -> list[Provider]:
        """The slots of a class that Placement would hand out now."""

    def by_slot(self, slot: Slot) -> Provider | None:
        """The slot's provider by name."""

    def burns(self, uuid: str) -> bool:
        """Whether Nova reserves it at its next use."""


@dataclass(frozen=True)
class SlotPlan:
    """One slot's fate, decided on one look. ``reason`` is empty where there is nothing to say."""

    slot: Slot
    fate: EnrolmentFate
    reason: str = ""
    consumer: str | None = None
    resource_class: str = ""
    view: View | None = None


@dataclass(frozen=True)
class EnrolmentRequest:
    """Which slots are to be enrolled, and by what they are erased: one, a host's, or a class."""

    profile: str
    policy: str | None = None
    """None: that of ``[erase]policy``."""
    host: str | None = None
    address: str | None = None
    """One slot of the host."""
    resource_class: str | None = None
    """Neither host nor class: every one-time-use slot of the cloud."""


@dataclass(frozen=True)
class EnrolmentResult:
    """What was done, or would be."""

    slots: tuple[SlotPlan, ...]
    version: str = ""
    """Of a plan: it is another one where a slot's fate, its server, profile or policy is."""
    unacted: str = ""
    """Why one slot was not looked at at once: the running service does. Empty where it was."""

    @property
    def refused(self) -> bool:
        """Some are not to be taken into care as they stand."""
        return any(one.fate is EnrolmentFate.REFUSED for one in self.slots)


def decide(
    slot: Slot,
    record: SlotRecord | None,
    view: View,
    seen: SeenDrive | None,
    *,
    one_time_use: bool,
    drive: DriveRecord | None = None,
) -> SlotPlan:
    """What to do with a slot. Pure; ``seen`` is its host's last word about it, where it has one.

    ``drive`` is what we know of the drive that the host names there.
    """
    held = view.inventories[0].resource_class if view.inventories else ""
    planned = SlotPlan(slot, EnrolmentFate.REFUSED, resource_class=held, view=view)
    if record is not None:
        words = f"enrolled, {record.state} since {record.entered_at:%Y-%m-%d %H:%M}"
        return replace(planned, fate=EnrolmentFate.KNOWN, reason=words)
    others = view.foreign(None)
    trouble = _trouble(view, seen, one_time_use=one_time_use, used=bool(others))
    if trouble:
        return replace(planned, reason=trouble)
    if others:
        return replace(planned, fate=EnrolmentFate.IN_USE, consumer=others[0].consumer)
    if drive is not None and drive.retired:
        # Erased in full it would be held at the end: no certificate makes it fit again.
        reason = (
            f"expected another drive than serial {drive.identity.serial!r}, which was retired "
            f"({drive.reason}): pull it, and enrol when its host names the new one (host show)"
        )
        return replace(planned, reason=reason)
    return replace(planned, fate=EnrolmentFate.FREE)


def _trouble(view: View, seen: SeenDrive | None, *, one_time_use: bool, used: bool) -> str:
    """Why the slot must not be taken as it stands."""
    if len(view.inventories) != 1:
        return (
            f"expected one resource class on {view.provider.name}, found {custody.describe(view)}"
        )
    if not one_time_use:
        return (
            f"expected the trait {ONE_TIME_USE} on {view.provider.name}, found none: Nova would "
            'hand the drive on without an erase; set "one_time_use":"true" in its device_spec'
        )
    if seen is None:
        return ""
    if wrong := misplaced(seen):
        return wrong
    if not used and seen.driver != _AT_REST:
        return (
            f"expected a drive that nobody has on the driver {_AT_REST}, its host says "
            f"{seen.driver or 'none'}: remove the binding at boot, or wait for the host's next word"
        )
    return ""


@dataclass(frozen=True)
class EnrolmentTerms:
    """How slots are taken: by what they are erased, and who decided it, for their histories."""

    profile: str
    policy: str
    reason: str = ""
    by: Initiator | None = None


def take(
    plane: Plane, wish: EnrolmentRequest, *, plan: bool = False, reason: str = ""
) -> EnrolmentResult:
    """Takes slots into care; a free one is erased first, a used one is not touched.

    With ``plan`` it says what would be done, and changes nothing. Raises as :func:`enrol`,
    :func:`survey` and :func:`carry_out`, and ``BadInputError`` where profile or policy is not
    approved.
    """
    with plane.assembly() as assembly:
        terms = replace(_terms(assembly, wish), reason=reason)
        if plan or wish.host is None or wish.address is None:
            return _take(assembly, wish, terms, plan=plan)
        slot = Slot(wish.host, wish.address)
        record = enrol(assembly.store, assembly.placement, slot, terms)
        fate = EnrolmentFate.IN_USE if record.state is State.IN_USE else EnrolmentFate.FREE
        one = SlotPlan(record.slot, fate, "", record.consumer, record.resource_class)
        return EnrolmentResult((one,), unacted=_unacted(assembly, record.slot))


def take_as_planned(
    plane: Plane,
    wish: EnrolmentRequest,
    behind: Collection[str],
    *,
    reason: str,
    by: Initiator | None = None,
) -> EnrolmentResult:
    """Takes slots into care as a plan said, whose version is one of these.

    Raises as :func:`take`, ``StaleError`` where the plan would be another one now, and
    ``BadInputError`` without a reason.
    """
    if not reason.strip():
        raise BadInputError("enrol: expected a reason, found none")
    with plane.assembly() as assembly:
        terms = replace(_terms(assembly, wish), reason=reason, by=by)
        done = _take(assembly, wish, terms, behind=behind)
        taken = [one.slot for one in done.slots if one.fate is EnrolmentFate.FREE]
        # One, so that whoever looks on sees it begin; the running service has the others.
        return replace(done, unacted=_unacted(assembly, taken[0]) if taken else "")


def _unacted(assembly: Assembly, slot: Slot) -> str:
    try:
        assembly.reconciler.look(slot)
    except QuarantineError as error:
        LOG.warning("%s: enrolled, and not looked at at once: %s", slot, error)
        return str(error)
    return ""


def _terms(assembly: Assembly, wish: EnrolmentRequest) -> EnrolmentTerms:
    """Raises ``BadInputError`` where profile or policy is not approved."""
    store = assembly.store
    if store.profile(wish.profile) is None:
        raise BadInputError(
            f"enrol: expected an approved profile {wish.profile!r}; "
            "nvme-quarantine profile approve FILE --by NAME"
        )
    policy = assembly.conf.erase.policy if wish.policy is None else wish.policy
    if assembly.dispatcher.policy(policy) is None:
        raise BadInputError(f"enrol: expected an approved policy {policy!r}, found none")
    return EnrolmentTerms(wish.profile, policy)


def _take(
    assembly: Assembly,
    wish: EnrolmentRequest,
    terms: EnrolmentTerms,
    *,
    plan: bool = False,
    behind: Collection[str] | None = None,
) -> EnrolmentResult:
    store, placement = assembly.store, assembly.placement
    planned = survey(
        store,
        placement,
        host=wish.host,
        resource_class=wish.resource_class,
        address=wish.address,
    )
    version = plan_version(planned, terms)
    if behind is not None and version not in behind:
        raise StaleError("enrol: the plan would be another one now; look at it again")
    done = planned if plan else carry_out(store, placement, planned, terms)
    return EnrolmentResult(done, version)


def plan_version(planned: Iterable[SlotPlan], terms: EnrolmentTerms) -> str:
    """What a plan says, as a digest."""
    slots = [[str(one.slot), one.fate, one.consumer, one.resource_class] for one in planned]
    return codec.digest([terms.profile, terms.policy, slots])[:32]


def enrol(
    store: Store, placement: EnrolmentPlacement, slot: Slot, terms: EnrolmentTerms
) -> SlotRecord:
    """A new record: ``in_use`` where somebody holds the drive, else ``released`` and reserved.

    A retired slot is taken anew, with another drive in it. Raises ``BadInputError`` when Placement
    has no such one-time-use device or it must not be taken as it stands, ``ConflictError`` when
    the slot is enrolled already or is claimed just now, ``UnavailableError``, and
    ``UnfinishedError`` where the slot may be reserved by then.
    """

    def look() -> SlotPlan:
        old = store.slot(slot)
        if old is not None and old.state is not State.RETIRED:
            # Before anything is written to Placement: a certified drive would be erased again.
            raise ConflictError(
                f"{slot}: expected a slot that is not enrolled, found it {old.state}; "
                "retire it first or leave it"
            )
        provider = placement.by_slot(slot)
        view = placement.view(provider.uuid, "") if provider else None
        if view is None:
            raise BadInputError(
                f"expected a resource provider {provider_name(slot)}, Placement has none; "
                "is the device in nova-compute's device_spec, with report_in_placement?"
            )
        burns = placement.burns(view.provider.uuid)
        seen = _seen(store, slot)
        planned = decide(
            slot, None, view, seen, one_time_use=burns, drive=_known_drive(store, seen)
        )
        if planned.fate is EnrolmentFate.REFUSED:
            raise BadInputError(planned.reason)
        return planned

    planned = look()
    try:
        return _record(store, _reserved(placement, planned, look), terms)
    except UnavailableError as error:
        raise _unfinished(error) from error


def survey(
    store: Store,
    placement: EnrolmentPlacement,
    *,
    host: str | None = None,
    resource_class: str | None = None,
    address: str | None = None,
) -> tuple[SlotPlan, ...]:
    """The fate of every slot of a host, of a resource class, or of the cloud. Changes nothing.

    A retired slot is left as it is, unless it is named: ``address``, of the host. Raises
    ``BadInputError`` where Placement has no such slot, ``UnavailableError``.
    """
    burnt = {p.uuid: p for p in placement.one_time_use(host)}
    found = dict(burnt)
    if host is not None:
        found |= {p.uuid: p for p in placement.by_host(host)}
    if resource_class is not None:
        offered = placement.offered(resource_class)
        found |= {p.uuid: p for p in offered if host in (None, p.host)}
    slots = sorted(
        (p.slot, p.uuid)
        for p in found.values()
        if p.slot is not None and address in (None, p.slot.address)
    )
    if address is not None and not slots:
        raise BadInputError(f"enrol: expected {host}/{address} in Placement, found none")
    looks = (
        _look(store, placement, slot, uuid, uuid in burnt, is_named=address is not None)
        for slot, uuid in slots
    )
    planned = tuple(
        one for one in looks if one is not None and resource_class in (None, one.resource_class)
    )
    if not planned:
        where = " ".join(
            words for words in (f"of host {host}" if host else "", resource_class or "") if words
        )
        raise BadInputError(
            f"enrol: expected one-time-use devices {where or 'in Placement'}, found none; are they "
            "in nova-compute's device_spec, with report_in_placement and one_time_use?"
        )
    return planned


def carry_out(
    store: Store,
    placement: EnrolmentPlacement,
    planned: Iterable[SlotPlan],
    terms: EnrolmentTerms,
) -> tuple[SlotPlan, ...]:
    """Carries a survey out: every free slot is reserved before the first record is written.

    Nothing is undone when it ends early (``UnfinishedError``), whatever the reason: what is
    reserved stays reserved, and another enrolment goes on from there.
    """
    try:
        return _carried_out(store, placement, planned, terms)
    except QuarantineError as error:
        raise _unfinished(error) from error


def _unfinished(error: QuarantineError) -> UnfinishedError:
    return UnfinishedError(
        "enrol: ended early; what is reserved stays reserved, and the same without --seen goes on "
        f"from there ({error})"
    )


def _carried_out(
    store: Store,
    placement: EnrolmentPlacement,
    planned: Iterable[SlotPlan],
    terms: EnrolmentTerms,
) -> tuple[SlotPlan, ...]:
    reserved = [_reserved_or_refused(store, placement, one) for one in planned]
    done: list[SlotPlan] = []
    for one in reserved:
        if one.fate in (EnrolmentFate.FREE, EnrolmentFate.IN_USE):
            try:
                _record(store, one, terms)
            except ConflictError:
                one = replace(
                    one, fate=EnrolmentFate.KNOWN, reason="enrolled by somebody else just now"
                )
        done.append(one)
    return tuple(done)


def _reserved(
    placement: EnrolmentPlacement, planned: SlotPlan, look: Callable[[], SlotPlan]
) -> SlotPlan:
    """The same slot, out of the pool; looked at again where it moved under us."""
    for _ in range(_ATTEMPTS):
        view = planned.view
        free = planned.fate is EnrolmentFate.FREE and view is not None
        if not free or view is None or view.locked or view.custody(None) is not None:
            return planned
        try:
            custody.reserve(placement, view)
        except (ConflictError, NotFoundError):
            planned = look()
            continue
        return planned
    raise ConflictError(f"{planned.slot}: expected it to stand still for a moment; try again")


def _reserved_or_refused(
    store: Store, placement: EnrolmentPlacement, planned: SlotPlan
) -> SlotPlan:
    """One slot that never stands still must not keep all the others out of our care."""
    try:
        return _reserved(placement, planned, _again(store, placement, planned))
    except ConflictError as error:
        return replace(planned, fate=EnrolmentFate.REFUSED, reason=str(error))


def _again(
    store: Store, placement: EnrolmentPlacement, planned: SlotPlan
) -> Callable[[], SlotPlan]:
    def look() -> SlotPlan:
        uuid = planned.view.provider.uuid if planned.view else ""
        # Only what was found free comes here: of retired slots those alone that were named.
        burns = placement.burns(uuid)
        found = _look(store, placement, planned.slot, uuid, burns, is_named=True)
        return found or replace(planned, fate=EnrolmentFate.REFUSED, reason="its provider vanished")

    return look


def _look(
    store: Store,
    placement: EnrolmentPlacement,
    slot: Slot,
    uuid: str,
    one_time_use: bool,
    *,
    is_named: bool = False,
) -> SlotPlan | None:
    view = placement.view(uuid, "")
    if view is None:
        return None
    record, seen = store.slot(slot), _seen(store, slot)
    if is_named and record is not None and record.state is State.RETIRED:
        record = None  # taken anew, with another drive in it
    drive = _known_drive(store, seen)
    return decide(slot, record, view, seen, one_time_use=one_time_use, drive=drive)


def _seen(store: Store, slot: Slot) -> SeenDrive | None:
    host = store.host(slot.host)
    drives = host.hello.drives if host and host.hello else ()
    return next((drive for drive in drives if drive.address == slot.address), None)


def _known_drive(store: Store, seen: SeenDrive | None) -> DriveRecord | None:
    if seen is None or seen.identity is None:
        return None
    return store.drive(seen.identity.digest)


def _record(store: Store, planned: SlotPlan, terms: EnrolmentTerms) -> SlotRecord:
    assert planned.view is not None
    owners.learn(store, planned.view, planned.consumer)
    return store.enrol(
        planned.slot,
        provider=planned.view.provider.uuid,
        resource_class=planned.resource_class,
        in_use=planned.fate is EnrolmentFate.IN_USE,
        profile=terms.profile,
        policy=terms.policy,
        consumer=planned.consumer,
        reason=terms.reason,
        by=terms.by,
    )
