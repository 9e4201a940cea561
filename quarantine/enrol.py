"""A slot comes under our care: reserved first, and never touched where a tenant has the drive."""

from __future__ import annotations

from typing import Final, Protocol

from eraser.wire.identity import Slot
from quarantine import custody
from quarantine.cloud.facts import ONE_TIME_USE, Provider, provider_name
from quarantine.errors import BadInputError, ConflictError
from quarantine.record.facts import SlotRecord
from quarantine.record.store import Store

_ATTEMPTS: Final = 3


class Cloud(custody.Door, Protocol):
    """What enrolment needs of :class:`quarantine.cloud.placement.Placement`."""

    def by_slot(self, slot: Slot) -> Provider | None:
        """The slot's provider by name."""

    def burns(self, uuid: str) -> bool:
        """Whether Nova reserves it at its next use."""


def enrol(store: Store, placement: Cloud, slot: Slot, *, profile: str, policy: str) -> SlotRecord:
    """A new record: ``in_use`` where somebody holds the drive, else ``released`` and reserved.

    Raises ``BadInputError`` when Placement has no such one-time-use device, ``ConflictError`` when
    the slot is enrolled already or is claimed just now, ``UnavailableError``.
    """
    for _ in range(_ATTEMPTS):
        provider = placement.by_slot(slot)
        view = placement.view(provider.uuid, "") if provider else None
        if view is None:
            raise BadInputError(
                f"expected a resource provider {provider_name(slot)}, Placement has none; "
                "is the device in nova-compute's device_spec, with report_in_placement?"
            )
        if len(view.inventories) != 1:
            raise BadInputError(
                f"expected one resource class on {view.provider.name}, found "
                f"{custody.describe(view)}"
            )
        if not placement.burns(view.provider.uuid):
            raise BadInputError(
                f"expected the trait {ONE_TIME_USE} on {view.provider.name}, found none: Nova "
                "would hand the drive on without an erase; "
                'set "one_time_use":"true" in its device_spec'
            )
        others = view.foreign(None)
        if not others and not view.locked and view.custody(None) is None:
            try:
                custody.reserve(placement, view)
            except ConflictError:
                continue
        return store.enrol(
            slot,
            provider=view.provider.uuid,
            resource_class=view.inventories[0].resource_class,
            in_use=bool(others),
            profile=profile,
            policy=policy,
            consumer=others[0].consumer if others else None,
        )
    raise ConflictError(f"{slot}: expected it to stand still for a moment; try again")
