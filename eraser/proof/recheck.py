"""Does a drive still read as its certificate says? Decided without I/O.

A second look, by whoever has the certificate, at the places that its seed draws. The probes' key is
gone with the case: what only probes could tell cannot be told again, and is said to be so.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from eraser.proof import verdict
from eraser.proof.classify import BlockClass
from eraser.proof.tally import Blocks, VerificationResult
from eraser.protocol.conclusions.claim import Claim
from eraser.protocol.policy import VerificationMode
from eraser.protocol.report import NamespaceVerification


class Agreement(enum.StrEnum):
    """What a second look found."""

    AGREES = "agrees"
    """No more blocks have any one look than the certificate counted, and what repeats repeats."""
    DIFFERS = "differs"
    """Some do not, or the layout is another: this is not the drive as it was certified."""
    UNKNOWN = "unknown"
    """Some could not be read."""


@dataclass(frozen=True)
class NamespaceCheck:
    """One namespace: blocks of 4 KiB read now, and how many of them differ by what they look."""

    nsid: int
    blocks: int
    read: int
    differ: int
    """Blocks of a look beyond as many as the certificate counted of it."""
    unreadable: int
    looks: dict[str, int]


@dataclass(frozen=True)
class Recheck:
    """The whole second look."""

    agreement: Agreement
    reasons: tuple[str, ...]
    read: int
    differ: int
    unreadable: int
    namespaces: tuple[NamespaceCheck, ...]
    unchecked: tuple[str, ...]
    """What the certificate says and this look cannot tell."""


def layout_differences(claim: Claim, found: dict[int, int]) -> tuple[str, ...]:
    """How the namespaces ``found`` (NSID to blocks of 4 KiB) differ from the certificate's."""
    claimed = {n.nsid: n.blocks for n in claim.namespaces if not n.temporary}
    return tuple(
        f"namespace {nsid}: expected {_blocks(claimed.get(nsid))}, found {_blocks(found.get(nsid))}"
        for nsid in sorted(claimed.keys() | found.keys())
        if claimed.get(nsid) != found.get(nsid)
    )


def _blocks(count: int | None) -> str:
    return "none" if count is None else f"{count} blocks"


def other_layout(claim: Claim, differences: tuple[str, ...]) -> Recheck:
    """The result for a drive whose places are not those of the certificate: nothing is read."""
    return Recheck(Agreement.DIFFERS, differences, 0, 0, 0, (), unchecked(claim))


def compare(claim: Claim, result: VerificationResult) -> Recheck:
    """Holds what was read against what was certified."""
    claimed = {n.nsid: n for n in claim.namespaces}
    checks = tuple(
        _check(claimed[n.nsid], n, looks)
        for n, looks in zip(result.namespaces, result.each_looks, strict=True)
    )
    differ, unreadable = sum(c.differ for c in checks), sum(c.unreadable for c in checks)
    reasons = [
        f"namespace {c.nsid}: {c.differ} of {c.read} blocks do not look as certified"
        for c in checks
        if c.differ
    ]
    unread = verdict.unreadable(result)
    if unread:
        reasons.append(unread)
    # A difference that was seen outweighs what could not be read.
    agreement = Agreement.UNKNOWN if unread else Agreement.AGREES
    if differ:
        agreement = Agreement.DIFFERS
    return Recheck(
        agreement=agreement,
        reasons=tuple(reasons),
        read=sum(c.read for c in checks),
        differ=differ,
        unreadable=unreadable,
        namespaces=checks,
        unchecked=unchecked(claim),
    )


def _check(
    claimed: NamespaceVerification, found: NamespaceVerification, now: Blocks
) -> NamespaceCheck:
    then = Blocks(claimed.zeros, claimed.ones, claimed.pattern, claimed.random, claimed.structured)
    # The places are a part of those that were certified, so no look can have become more frequent.
    differ = sum(max(0, now.of(kind) - then.of(kind)) for kind in BlockClass)
    # As many blocks look alike, and repeat another value than was certified: then all of them
    # differ.
    if not differ and claimed.uniform and found.read and found.uniform != claimed.uniform:
        differ = found.read
    return NamespaceCheck(
        nsid=found.nsid,
        blocks=found.blocks,
        read=found.read,
        differ=differ,
        unreadable=found.unreadable,
        looks={kind.value: now.of(kind) for kind in BlockClass if now.of(kind)},
    )


def unchecked(claim: Claim) -> tuple[str, ...]:
    """What nobody can check any more, or not by reading."""
    found = [
        "canaries: their places and content follow from a key that is never in a certificate",
        "fingerprints of the last owner's blocks: they never leave the host that took them",
    ]
    if any(n.random for n in claim.namespaces):
        found.append("whose noise it is: blocks that read as noise are told by no look")
    if gone := sum(n.blocks for n in claim.namespaces if n.temporary):
        found.append(f"{gone} blocks of capacity that belongs to no namespace: none shows them now")
    if claim.done is VerificationMode.STATISTICAL:
        found.append("blocks between the places: a sample was certified, the same one was read")
    return tuple(found)
