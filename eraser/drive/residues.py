"""Names what an erase may leave on a drive, in sentences for the certificate. Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from eraser.protocol.conclusions import buffers, unallocated
from eraser.protocol.condition import Condition, FirmwareSlots
from eraser.protocol.policy import Label
from eraser.protocol.report import ControllerFacts


def residues(
    before: ControllerFacts | None,
    after: ControllerFacts | None,
    achieved: Label | None,
    trusted: Collection[str] | None = None,
    left: int | None = None,
) -> tuple[str, ...]:
    """One sentence for each thing that no command of the erase clears.

    ``before`` and ``after`` are the inspections before and after the erase; empty where there is
    neither. ``trusted`` has the firmware revisions that the profile names; None without a profile.
    ``left`` is the capacity, in bytes, that stayed without a temporary namespace; None where the
    case tried to create none.
    """
    facts = after or before
    if facts is None:
        return ()
    return tuple(
        (
            *_condition(facts.condition or Condition(), facts.firmware, trusted),
            *_capacity(before, achieved, left),
            *_capacity_untold(before, after, achieved),
            *_buffers(before, after, achieved),
        )
    )


def _condition(found: Condition, running: str, trusted: Collection[str] | None) -> Iterator[str]:
    if found.rpmb_units:
        yield (
            f"RPMB: {found.rpmb_units} units of replay protected memory are kept; only the holder "
            "of the key, which may be a former tenant, can write them."
        )
    if found.boot is not None:
        yield (
            f"Boot partitions: two of {found.boot.size} bytes are kept; they were "
            f"{'read as far as a digest' if found.boot.digests else 'not read'}."
        )
    if found.boot_untold:
        yield (
            "Boot partitions: a drive older than NVMe 2.0 tells of them by a register, which the "
            "host's kernel lets nobody read; whether there are any is unknown."
        )
    if found.firmware is not None:
        yield from _images(found.firmware, running, trusted)
    if found.security is not None and found.security.sets:
        yield (
            f"TCG tables ({', '.join(found.security.sets)}): what an owner wrote into the data "
            "store is kept until the drive is reverted."
        )
        if found.security.owner_untold:
            yield (
                "TCG owner: the drive does not tell whether its password was changed (no Block SID "
                "descriptor); with its locking off, whoever changed it can lock the drive later."
            )
    if found.logs:
        yield f"Logs that the drive keeps: {', '.join(found.logs)}."


def _images(
    firmware: FirmwareSlots, running: str, trusted: Collection[str] | None
) -> Iterator[str]:
    others = [
        (slot, held)
        for slot, held in enumerate(firmware.revisions, start=1)
        if held and slot != firmware.active
    ]
    if others:
        named = ", ".join(f"{slot} ({held})" for slot, held in others)
        yield (
            f"Firmware: slots {named} hold images beside the running "
            f"{running}; of an image only its revision can be read."
        )
    unknown = [slot for slot, held in others if trusted is not None and held not in trusted]
    if unknown:
        yield (
            f"Firmware: the images in slots {', '.join(map(str, unknown))} have revisions that the "
            "profile does not name; they do not run, and a command of the next user may start one."
        )


def _capacity(
    before: ControllerFacts | None, achieved: Label | None, left: int | None
) -> Iterator[str]:
    """Capacity in no namespace. Format erases namespaces; Sanitize alone reaches the rest."""
    if left is None:
        # No temporary namespace was tried, so nobody read what the drive told before the erase.
        left = unallocated.told(before)
    if left and achieved is Label.CLEAR:
        yield (
            f"Capacity: {left} bytes belonged to no namespace when the erase "
            "began; Format does not reach what a deleted namespace left there."
        )
    elif left and achieved is Label.PURGE:
        yield (
            f"Capacity: {left} bytes belonged to no namespace; Sanitize covers them, and nobody "
            "has read them."
        )


def _capacity_untold(
    before: ControllerFacts | None, after: ControllerFacts | None, achieved: Label | None
) -> Iterator[str]:
    """Drives that manage namespaces have to tell their capacity (Base 2.0, figure 275). Some do
    not."""
    looks = [look for look in (before, after) if look is not None]
    told = any(look.total_bytes or look.unallocated_bytes for look in looks)
    if told or achieved is None or not unallocated.manages(*looks):
        return
    reached = "Sanitize covers it" if achieved is Label.PURGE else "Format does not reach it"
    yield (
        "Capacity: the drive manages namespaces and does not tell how much it has (TNVMCAP and "
        f"UNVMCAP are 0); whether any belongs to no namespace is unknown; {reached}, and nobody "
        "has read it."
    )


def _buffers(
    before: ControllerFacts | None, after: ControllerFacts | None, achieved: Label | None
) -> Iterator[str]:
    """Memory that a host maps: Sanitize covers it (Base 2.0, 8.21), Format does not."""
    looks = [look.condition for look in (before, after) if look is not None and look.condition]
    if found := buffers.seen(before, after):
        named = buffers.named(found)
        if achieved is Label.PURGE:
            yield f"Memory: the drive has {named}; Sanitize covers it, and nobody has read it."
        else:
            yield f"Memory: the drive has {named}; Format does not reach it, nobody has read it."
    # One inspection that read the registers is enough. After a Purge the question is void, for
    # Sanitize covers both.
    if achieved is not Label.PURGE and looks and all(look.buffers_untold for look in looks):
        yield (
            "Memory: whether the drive has a controller memory buffer (CMB) or a persistent memory "
            f"region (PMR){', other than that,' if found else ''} is told by registers, which the "
            "host's kernel lets nobody read; Format reaches neither."
        )
