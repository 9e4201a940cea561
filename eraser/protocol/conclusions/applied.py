"""A policy as it applies to one drive: its quirks taken in, its permissions asked.

Host and control plane both work it out from the same order, so that neither has to believe the
other. Without I/O.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from eraser.protocol.policy import Label, Limits, Method, Policy, Quirk
from eraser.protocol.report import MethodRecord, Verdict


@dataclass(frozen=True)
class Applied:
    """What a policy means for one drive."""

    purge_methods: tuple[Method, ...]
    clear_methods: tuple[Method, ...]
    limits: Limits
    quirks: tuple[Quirk, ...] = ()
    """Those that fit, in the policy's order."""
    skipped: tuple[Method, ...] = ()
    """Methods that would have been used, and are not because of a quirk."""

    @classmethod
    def plain(cls, policy: Policy) -> Applied:
        """For a drive that no quirk is about."""
        return cls(policy.purge_methods, policy.clear_methods, policy.limits)


def apply(policy: Policy, vendor_id: int, model: str, firmware: str) -> Applied:
    """``policy`` for a drive with this PCI vendor id, model and firmware revision.

    ``skip`` adds up over all quirks that fit; of lists and limits the last one's count. Raises
    ``ValueError`` where two quirks' limits do not go together.
    """
    fitting = tuple(q for q in policy.quirks if q.fits(vendor_id, model, firmware))
    purge, clear, limits = policy.purge_methods, policy.clear_methods, policy.limits
    for quirk in fitting:
        purge = quirk.purge_methods or purge
        clear = quirk.clear_methods or clear
        limits = quirk.limits.over(limits)
    skip = {method for quirk in fitting for method in quirk.skip}
    # What the policy names and a quirk's own list leaves out is not sent either.
    dropped = [m for m in policy.purge_methods + policy.clear_methods if m not in purge + clear]
    return Applied(
        purge_methods=tuple(m for m in purge if m not in skip),
        clear_methods=tuple(m for m in clear if m not in skip),
        limits=limits,
        quirks=fitting,
        # In the order of Method and each once, whether its list or ``skip`` left it out.
        skipped=tuple(m for m in Method if m in dropped or (m in skip and m in purge + clear)),
    )


def tolerated(policy: Policy, methods: Sequence[MethodRecord]) -> tuple[MethodRecord, ...]:
    """Methods that did not end well and hold nothing, because the policy says so.

    Only what the drive itself refused or reported as failed, never what is unknown; and only where
    a Sanitize stands last and ended well.
    """
    if not policy.allow_failed or policy.label is not Label.PURGE or not methods:
        return ()
    last = methods[-1]
    if last.verdict is not Verdict.ERASED or not last.method.is_sanitize:
        return ()
    # NOT_ERASED is the drive's own word; UNKNOWN methods are never among them.
    return tuple(m for m in methods if m.verdict is Verdict.NOT_ERASED and m.method.is_sanitize)
