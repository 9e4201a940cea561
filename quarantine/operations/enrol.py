"""Slots come under our care: reserved first, and never touched where a tenant has the drive.

A running cloud is enrolled as it stands: what is used becomes ``in_use`` and is only looked at,
what is free is unknown and therefore erased first. Doing it again changes nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine.cloud import custody
from quarantine.cloud.facts import provider_name
from quarantine.cloud.patience import TRIES, patiently
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
from quarantine.operations.survey import (
    EnrolmentPlacement,
    SlotPlan,
    decide,
    known_drive,
    look_at,
    seen_by_host,
    survey,
)
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator, SlotRecord
from quarantine.record.words.states import State
from quarantine.service import owners

if TYPE_CHECKING:
    from quarantine.operations.plane import Plane
    from quarantine.service.assembly import Assembly

LOG = logging.getLogger(__name__)

_ATTEMPTS: Final = 3


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


@dataclass(frozen=True)
class EnrolmentTerms:
    """How slots are taken: by what they are erased, and who decided it, for their histories."""

    profile: str
    policy: str
    reason: str = ""
    by: Initiator | None = None


def take(
    plane: Plane,
    wish: EnrolmentRequest,
    *,
    plan: bool = False,
    reason: str = "",
    by: Initiator | None = None,
) -> EnrolmentResult:
    """Takes slots into care; a free one is erased first, a used one is not touched.

    With ``plan`` it says what would be done, and changes nothing. Raises as :func:`enrol`,
    :func:`survey` and :func:`carry_out`, and ``BadInputError`` where profile or policy is not
    approved.
    """
    with plane.assembly() as assembly:
        terms = replace(_terms(assembly, wish), reason=reason, by=by)
        # One slot by its name is enrolled by itself: what stands in its way is an error then, and
        # no line of a plan.
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
        # The survey is made anew, and its version is compared before anything is written.
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
    # Reasons are left out: they have times and words in them that decide nothing.
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
        seen = seen_by_host(store, slot)
        planned = decide(slot, None, view, seen, one_time_use=burns, drive=known_drive(store, seen))
        if planned.fate is EnrolmentFate.REFUSED:
            raise BadInputError(planned.reason)
        return planned

    # Outside of the try: what fails in the first look has changed nothing.
    planned = look()
    try:
        return _record(store, _reserved(placement, planned, look), terms)
    except UnavailableError as error:
        # A write to Placement without an answer may have been done.
        raise _unfinished(error) from error


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
    # All of them leave the pool first, which is what protects tenants. Records, which may fail,
    # come after: a slot without one stays reserved.
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
        # Nothing to reserve: it is not free, or it is out of the pool already, by an earlier
        # enrolment that ended early, by Nova or by our own custody.
        if not free or view is None or view.locked or view.custody(None) is not None:
            return planned
        try:
            custody.reserve(placement, view)
        except (ConflictError, NotFoundError):
            # The provider moved since the look, and nothing was written. A server may have claimed
            # the drive: its fate is decided anew.
            planned = look()
            continue
        return planned
    raise ConflictError(f"{planned.slot}: expected it to stand still for a moment; try again")


def _reserved_or_refused(
    store: Store, placement: EnrolmentPlacement, planned: SlotPlan
) -> SlotPlan:
    """One slot that never stands still must not keep all the others out of our care."""
    again = _again(store, placement, planned)
    for tries_left in reversed(range(TRIES)):
        try:
            return _reserved(placement, planned, again)
        except ConflictError as error:
            return replace(planned, fate=EnrolmentFate.REFUSED, reason=str(error))
        except UnavailableError as error:
            if not tries_left:
                raise
            LOG.info("%s: looked at again: %s", planned.slot, error)
            # Whether it was written nobody knows; only the next look tells.
            planned = again()
    raise AssertionError("unreachable")


def _again(
    store: Store, placement: EnrolmentPlacement, planned: SlotPlan
) -> Callable[[], SlotPlan]:
    def look() -> SlotPlan:
        uuid = planned.view.provider.uuid if planned.view else ""
        # Only what was found free comes here: of retired slots those alone that were named.
        burns = patiently(lambda: placement.burns(uuid))
        found = look_at(store, placement, planned.slot, uuid, burns, is_named=True)
        return found or replace(planned, fate=EnrolmentFate.REFUSED, reason="its provider vanished")

    return look


def _record(store: Store, planned: SlotPlan, terms: EnrolmentTerms) -> SlotRecord:
    assert planned.view is not None
    # Of a server that has the drive now, while the allocation that names its project is at hand.
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
