"""What will be read after an erase: mode, places, probes. Pure."""

from __future__ import annotations

import functools
import hashlib
from array import array
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from eraser.media.blocks import block_count
from eraser.media.passread import Rescue
from eraser.proof.counter import probed
from eraser.proof.probes.canaries import Canaries
from eraser.proof.probes.fingerprints import Fingerprints
from eraser.proof.sampling import SEQUENTIAL_PER_RANDOM, iter_places, needed, places, share
from eraser.protocol import codec
from eraser.protocol.policy import VerificationMode

UNREADABLE_LIMIT = 4096
"""Blocks. Each costs the kernel several tries; a drive with so many is not read to the end."""


def choose_mode(
    asked: VerificationMode, blocks: int, n: int, *, per_random: int = SEQUENTIAL_PER_RANDOM
) -> VerificationMode:
    """Statistical where that was asked for and all of ``blocks`` costs more than ``n`` places.

    Everything else is read in full, the NIST layout of older policies too: all blocks hold its
    places. ``per_random`` is how many blocks can be read in a row in the time of one scattered
    read.
    """
    if asked is VerificationMode.STATISTICAL and blocks > n * per_random:
        return VerificationMode.STATISTICAL
    return VerificationMode.FULL


@dataclass(frozen=True)
class NamespacePlan:
    """One namespace to read: its block device, its size in bytes, and what must be gone."""

    nsid: int
    path: str
    size: int
    canaries: Canaries | None = None
    fingerprints: Fingerprints | None = None
    rescue: Rescue | None = None
    temporary: bool = False
    """It will be deleted when it was read."""

    @property
    def blocks(self) -> int:
        """Blocks of 4 KiB, a short last one included."""
        return block_count(self.size)

    @functools.cached_property
    def probes(self) -> array[int]:
        """Every block with a probe, ascending."""
        return probed(self.canaries, self.fingerprints, self.blocks)

    @functools.cached_property
    def looked_at(self) -> array[int]:
        """These, and the blocks whose canary was deallocated before the erase, ascending."""
        if self.canaries is None:
            return self.probes
        more = (n for n in self.canaries.deallocated if n < self.blocks)
        return array("Q", sorted({*self.probes, *more}))


@dataclass(frozen=True)
class VerifyPlan:
    """What to read. ``seed`` is fresh and random, and kept with the case: it goes on the
    certificate, and a resumed run must read the same places. ``reread`` blocks, and every probe,
    are read a second time; with 0 none is."""

    mode: VerificationMode
    seed: bytes
    confidence: float
    residual: float
    namespaces: tuple[NamespacePlan, ...]
    per_random: int = SEQUENTIAL_PER_RANDOM
    unreadable_limit: int = UNREADABLE_LIMIT
    reread: int = 0
    gone: int = 0
    """Blocks of temporary namespaces that had their share of the places and are no more."""

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

    @functools.cached_property
    def done_mode(self) -> VerificationMode:
        """How it will be done: a small drive is read whole whatever was asked."""
        return choose_mode(self.mode, self.blocks, self.needed, per_random=self.per_random)

    def share(self, namespace: NamespacePlan) -> int:
        """The random places of one namespace."""
        # Namespaces that are gone still count in the whole: the places are those of the
        # certificate.
        return share(self.needed, namespace.blocks, self.blocks + self.gone)

    def places(self, namespace: NamespacePlan) -> Iterator[int]:
        """The random places of one namespace, first and last block among them, ascending."""
        seed = namespace_seed(self.seed, namespace.nsid)
        # Made anew at each call and never kept: a sample of a large drive need not fit into memory.
        return iter_places(seed, namespace.blocks, self.share(namespace))

    def again(self, namespace: NamespacePlan) -> array[int]:
        """The blocks of one namespace that are read twice, ascending: probes, and random places of
        their own, drawn as the others are. Without a second reading what is looked at alone."""
        return self._again[namespace.nsid]

    def again_in_order(self, namespace: NamespacePlan) -> array[int]:
        """The same blocks in the order in which they are read the second time: mixed by the seed,
        for the first reading went upwards, and a drive may answer only that well."""
        seed = namespace_seed(self.seed, namespace.nsid)
        key = hashlib.sha256(seed + b"order").digest()

        def place(block: int) -> bytes:
            return hashlib.blake2b(block.to_bytes(8, "big"), key=key, digest_size=8).digest()

        return array("Q", sorted(self.again(namespace), key=place))

    @functools.cached_property
    def _again(self) -> dict[int, array[int]]:
        return {n.nsid: self._drawn_again(n) for n in self.namespaces}

    def _drawn_again(self, namespace: NamespacePlan) -> array[int]:
        found = namespace.looked_at
        if not self.reread:
            return found
        seed = namespace_seed(self.seed, namespace.nsid) + b"again"
        count = share(self.reread, namespace.blocks, self.blocks)
        return array("Q", sorted({*found, *places(seed, namespace.blocks, count)}))

    @property
    def digest(self) -> str:
        """Tells one plan's checkpoint from another's."""
        return codec.digest(
            {
                "mode": self.done_mode,
                "seed": self.seed.hex(),
                "needed": self.needed,
                "reread": self.reread,
                # Else the checkpoint of a release whose second reading went upwards would fit.
                "order": "mixed",
                "namespaces": [
                    {
                        "nsid": n.nsid,
                        "size": n.size,
                        "canaries": list(n.canaries.positions) if n.canaries else [],
                        "fingerprints": list(n.fingerprints.positions) if n.fingerprints else [],
                    }
                    # A reading that an earlier release began did not look at these.
                    | ({"deallocated": list(d)} if (d := _deallocated(n)) else {})
                    for n in self.namespaces
                ],
            }
        )


def _deallocated(namespace: NamespacePlan) -> Sequence[int]:
    return namespace.canaries.deallocated if namespace.canaries else ()


def namespace_seed(seed: bytes, nsid: int) -> bytes:
    """The sampler's seed for one namespace: the plan's seed, then the NSID in 4 bytes."""
    return seed + nsid.to_bytes(4, "big")
