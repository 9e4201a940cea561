"""What a drive of a model must look like: proposed by ``inspect --save``, approved by a person."""

from __future__ import annotations

import enum
from dataclasses import dataclass


@dataclass(frozen=True)
class NamespaceLayout:
    """One active namespace, from Identify Namespace (CNS 00h; NVM Command Set 1.0, 4.1.5.1)."""

    nsid: int
    blocks: int
    """NSZE, in logical blocks."""
    block_bytes: int
    """2 to the power of LBADS of the format in use."""
    lba_format: int
    """FLBAS: the index of the format in use."""
    metadata_bytes: int = 0
    protection: int = 0
    """DPS, end-to-end data protection settings."""

    @property
    def size(self) -> int:
        """Bytes that can be addressed."""
        return self.blocks * self.block_bytes


class Comparator(enum.StrEnum):
    """How a feature's value is held against the profile's."""

    EQUAL = "equal"
    REPORTED = "reported"
    """Shown in the report, compared with nothing."""


@dataclass(frozen=True)
class FeatureRule:
    """One saved feature (Get Features, dword 0) that a tenant can change."""

    fid: int
    name: str
    value: int
    comparator: Comparator = Comparator.EQUAL


@dataclass(frozen=True)
class Profile:
    """What a drive of one model must look like to be handed out.

    It decides release, never whether to try to erase.
    """

    name: str
    vendor_id: int
    device_id: int
    model: str
    firmware: tuple[str, ...]
    """Revisions (Identify Controller bytes 71:64) that an operator trusts."""
    namespaces: tuple[NamespaceLayout, ...]
    features: tuple[FeatureRule, ...] = ()
    total_bytes: int = 0
    """TNVMCAP, 0 where the drive does not report it."""

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 128:
            raise ValueError(f"expected a profile name of 1 to 128 characters, found {self.name!r}")
        if not self.firmware:
            raise ValueError("expected at least one firmware revision")
        if not self.namespaces:
            raise ValueError("expected at least one namespace")
