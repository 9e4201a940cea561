"""What would become of slots if they were enrolled as they stand. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from eraser.protocol.report import SeenDrive
from quarantine.cloud import custody
from quarantine.cloud.facts import ONE_TIME_USE, Provider, View
from quarantine.cloud.patience import patiently
from quarantine.errors import BadInputError, MovingError, UnreadableError
from quarantine.operations.names import EnrolmentFate
from quarantine.record.store import Store
from quarantine.record.words.facts import DriveRecord, SlotRecord
from quarantine.record.words.states import State
from quarantine.service.issue.drive_inventory import misplaced

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
    # Our own custody, which is known by its consumer type, is nobody's use.
    others = view.foreign(None)
    # Used or not: without the trait Nova would not reserve the drive when its server lets go.
    trouble = _trouble(view, seen, one_time_use=one_time_use, used=bool(others))
    if trouble:
        return replace(planned, reason=trouble)
    # Before the drive is judged: nothing is taken from a server, whichever drive it has.
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
    # Only a free drive has to be there: while a guest has it a drive is on vfio-pci.
    if not used and seen.driver != _AT_REST:
        return (
            f"expected a drive that nobody has on the driver {_AT_REST}, its host says "
            f"{seen.driver or 'none'}: remove the binding at boot, or wait for the host's next word"
        )
    return ""


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
    marked = {p.uuid: p for p in placement.one_time_use(host)}
    found = dict(marked)
    if host is not None:
        # Those without the trait too: they are told as refused, and not passed over silently.
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
        look_at(store, placement, slot, uuid, uuid in marked, is_named=address is not None)
        for slot, uuid in slots
    )
    planned = tuple(
        one
        for one in looks
        # One that never stood still has no view, so its class is not known: it is told in any case.
        if one is not None and (one.view is None or resource_class in (None, one.resource_class))
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


def look_at(
    store: Store,
    placement: EnrolmentPlacement,
    slot: Slot,
    uuid: str,
    one_time_use: bool,
    *,
    is_named: bool = False,
) -> SlotPlan | None:
    """One slot's fate; None where its provider is gone. ``is_named``: a retired one is taken anew.

    One that never stands still is refused, and one of which our own record cannot be read: it must
    not keep all the others out of our care.
    """
    try:
        view = patiently(lambda: placement.view(uuid, ""))
    except MovingError as error:
        return SlotPlan(slot, EnrolmentFate.REFUSED, str(error))
    if view is None:
        return None
    try:
        record, seen = store.slot(slot), seen_by_host(store, slot)
        drive = known_drive(store, seen)
    except UnreadableError as error:
        words = f"what our record has of it, or of its host or drive, cannot be read: {error}"
        return SlotPlan(slot, EnrolmentFate.REFUSED, words)
    if is_named and record is not None and record.state is State.RETIRED:
        record = None  # taken anew, with another drive in it
    return decide(slot, record, view, seen, one_time_use=one_time_use, drive=drive)


def seen_by_host(store: Store, slot: Slot) -> SeenDrive | None:
    """The host's last word about the slot."""
    host = store.host(slot.host)
    drives = host.hello.drives if host and host.hello else ()
    return next((drive for drive in drives if drive.address == slot.address), None)


def known_drive(store: Store, seen: SeenDrive | None) -> DriveRecord | None:
    """What we know of the drive that a host names."""
    if seen is None or seen.identity is None:
        return None
    return store.drive(seen.identity.digest)
