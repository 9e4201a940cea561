"""What will be read after an erase: mode, places, probes. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from eraser.proof.blocks import block_count
from eraser.proof.probes import Canaries, Fingerprints
from eraser.proof.sampling import SEQUENTIAL_PER_RANDOM, iter_places, needed, share
from eraser.wire import codec
from eraser.wire.policy import VerificationMode

UNREADABLE_LIMIT = 4096
"""Blocks. Each costs the kernel several tries; a drive with so many is not read to the end."""


def choose_mode(
    asked: VerificationMode, blocks: int, n: int, *, per_random: int = SEQUENTIAL_PER_RANDOM
) -> VerificationMode:
    """Full where all was asked for, or where all of ``blocks`` costs no more than ``n`` places.

    ``per_random`` is how many blocks can be read in a row in the time of one scattered read.
    """
    if asked is VerificationMode.FULL or blocks <= n * per_random:
        return VerificationMode.FULL
    return VerificationMode.STATISTICAL


@dataclass(frozen=True)
class NamespacePlan:
    """One namespace to read: its block device, its size in bytes, and what must be gone."""

    nsid: int
    path: str
    size: int
    canaries: Canaries | None = None
    fingerprints: Fingerprints | None = None

    @property
    def blocks(self) -> int:
        """Blocks of 4 KiB, a short last one included."""
        return block_count(self.size)


@dataclass(frozen=True)
class VerifyPlan:
    """What to read. ``seed`` is fresh and random, and kept with the case: it goes on the
    certificate, and a resumed run must read the same places."""

    mode: VerificationMode
    seed: bytes
    confidence: float
    residual: float
    namespaces: tuple[NamespacePlan, ...]
    per_random: int = SEQUENTIAL_PER_RANDOM
    unreadable_limit: int = UNREADABLE_LIMIT

    def __post_init__(self) -> None:
        if len(self.seed) < 16:
            raise ValueError(f"expected a seed of at least 16 bytes, found {len(self.seed)}")

    @property
    def blocks(self) -> int:
        """All blocks of all namespaces."""
        return sum(n.blocks for n in self.namespaces)

    @property
    def needed(self) -> int:
        """Random places that the confidence and residual asked for need."""
        return needed(self.confidence, self.residual)

    @property
    def done_mode(self) -> VerificationMode:
        """How it will be done: a small drive is read whole whatever was asked."""
        return choose_mode(self.mode, self.blocks, self.needed, per_random=self.per_random)

    def share(self, namespace: NamespacePlan) -> int:
        """The random places of one namespace."""
        return share(self.needed, namespace.blocks, self.blocks)

    def places(self, namespace: NamespacePlan) -> Iterator[int]:
        """The random places of one namespace, first and last block among them, ascending."""
        seed = namespace_seed(self.seed, namespace.nsid)
        return iter_places(seed, namespace.blocks, self.share(namespace))

    @property
    def digest(self) -> str:
        """Tells one plan's checkpoint from another's."""
        return codec.digest(
            {
                "mode": self.done_mode,
                "seed": self.seed.hex(),
                "needed": self.needed,
                "namespaces": [
                    {
                        "nsid": n.nsid,
                        "size": n.size,
                        "canaries": list(n.canaries.positions) if n.canaries else [],
                        "fingerprints": list(n.fingerprints.positions) if n.fingerprints else [],
                    }
                    for n in self.namespaces
                ],
            }
        )


def namespace_seed(seed: bytes, nsid: int) -> bytes:
    """The sampler's seed for one namespace: the plan's seed, then the NSID in 4 bytes."""
    return seed + nsid.to_bytes(4, "big")
