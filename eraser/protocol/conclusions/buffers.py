"""Memory of a drive that its host maps, which Format does not reach. Host and control plane both
judge it here; neither believes the other. Pure.
"""

from __future__ import annotations

from eraser.protocol.condition import Buffer
from eraser.protocol.policy import Buffers, Label, Policy
from eraser.protocol.report import ControllerFacts


def seen(*looks: ControllerFacts | None) -> tuple[Buffer, ...]:
    """Those that any of the looks at the drive found: no erase takes them away."""
    found = {
        buffer
        for look in looks
        if look is not None and look.condition is not None
        for buffer in look.condition.buffers
    }
    return tuple(sorted(found))


def named(found: tuple[Buffer, ...], joint: str = " and ") -> str:
    """For people: "a controller memory buffer (CMB)"."""
    return joint.join(f"a {buffer.words}" for buffer in found)


def why_held(found: tuple[Buffer, ...], achieved: Label | None, policy: Policy) -> str:
    """Why a drive with these is not handed out; empty where it is."""
    allowed = policy.verification.buffers is Buffers.PRINT
    if not found or achieved is not Label.CLEAR or allowed:
        return ""
    return (
        f"expected no memory that Format does not reach, found {named(found)}, which nobody has "
        "read: erase the drive by Sanitize (label Purge) if it has that, or permit it "
        "(verification.buffers: print)"
    )
