"""What stays on a drive whatever is sent to it, in sentences for the certificate. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from eraser.wire.condition import Condition
from eraser.wire.policy import Label
from eraser.wire.report import ControllerFacts


def residues(
    before: ControllerFacts | None, after: ControllerFacts | None, achieved: Label | None
) -> tuple[str, ...]:
    """A sentence for each thing that no command of ours clears; empty where nothing was read."""
    facts = after or before
    if facts is None:
        return ()
    return tuple(
        (*_condition(facts.condition or Condition(), facts.firmware), *_capacity(before, achieved))
    )


def _condition(found: Condition, running: str) -> Iterator[str]:
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
    if found.firmware is not None:
        others = sorted(
            {
                f"{slot} ({held})"
                for slot, held in enumerate(found.firmware.revisions, start=1)
                if held and slot != found.firmware.active
            }
        )
        if others:
            yield (
                f"Firmware: slots {', '.join(others)} hold images beside the running "
                f"{running}; of an image only its revision can be read."
            )
    if found.security is not None and found.security.sets:
        yield (
            f"TCG tables ({', '.join(found.security.sets)}): what an owner wrote into the data "
            "store is kept until the drive is reverted."
        )
    if found.logs:
        yield f"Logs that the drive keeps: {', '.join(found.logs)}."


def _capacity(before: ControllerFacts | None, achieved: Label | None) -> Iterator[str]:
    """Format erases namespaces; capacity that belonged to none is reached by Sanitize alone."""
    if before is not None and before.unallocated_bytes and achieved is Label.CLEAR:
        yield (
            f"Capacity: {before.unallocated_bytes} bytes belonged to no namespace when the erase "
            "began; Format does not reach what a deleted namespace left there."
        )
