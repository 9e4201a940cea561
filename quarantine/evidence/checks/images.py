"""Firmware images in a drive's slots, from one certificate to the next. Pure.

A fleet's slots hold what its history left there, and none of that runs: it is printed on the
certificate and holds nothing. What came there since the drive was certified was loaded by somebody
who had the drive.
"""

from __future__ import annotations

from collections.abc import Iterator

from eraser.protocol.order import EraseOrder
from eraser.protocol.report import ControllerFacts, EraseReport


def revisions(facts: ControllerFacts) -> tuple[str, ...]:
    """By slot, the first one being slot 1; empty where the drive, or its host, does not say."""
    slots = None if facts.condition is None else facts.condition.firmware
    return () if slots is None else slots.revisions


def loaded(before: tuple[str, ...], order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Slots with another image than ``before``, the drive's last certificate, that nobody approved.

    Nothing where either side does not tell: then the certificate is the first that does.
    """
    now = () if report.facts_after is None else revisions(report.facts_after)
    if not before or not now:
        return
    condition, running = order.profile.condition, order.profile.firmware
    # An emptied slot holds nothing that anybody loaded.
    trusted = {*running, *(() if condition is None else condition.slot_firmware), ""}
    for slot, held in enumerate(now, start=1):
        was = before[slot - 1] if slot <= len(before) else ""
        if held != was and held not in trusted:
            yield (
                f"expected in firmware slot {slot} {was or 'nothing'!r} as in the drive's last "
                f"certificate, found {held!r}: somebody loaded it; name it in the profile's "
                "condition.slot_firmware where you trust it, approve that and release the slot, "
                "else retire the drive"
            )
