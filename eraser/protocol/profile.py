"""What a drive of a model must look like: proposed by ``inspect --save``, approved by a person."""

from __future__ import annotations

import enum
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field

from eraser.protocol.codec import LATE
from eraser.protocol.condition import ExpectedCondition

NVM_COMMAND_SET = 0
"""CSI (Base 2.0, I/O Command Set Identifier)."""
_COMMAND_SETS = {NVM_COMMAND_SET: "NVM", 1: "Key Value", 2: "Zoned Namespace"}


@dataclass(frozen=True)
class NamespaceLayout:
    """One namespace, from Identify Namespace (CNS 00h, 11h; NVM Command Set 1.0, 4.1.5.1).

    A member that may be None is not compared where either side does not tell: profiles and
    reports are older than it.
    """

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
    capacity: int | None = None
    """NCAP, in logical blocks; less than ``blocks`` on a thinly provisioned namespace."""
    sharing: int | None = None
    """NMIC; bit 0: other controllers of the subsystem may have it attached too."""
    extended_metadata: bool | None = None
    """FLBAS bit 4: metadata is transferred with the data."""
    command_set: int = field(default=NVM_COMMAND_SET, metadata=LATE)
    """CSI (Namespace Identification Descriptor list, CNS 03h; Base 2.0, 5.17.2.3). Of the NVM
    command set is what names none: a drive, a profile, or a report that is older than this."""

    @property
    def size(self) -> int:
        """Bytes that can be addressed."""
        return self.blocks * self.block_bytes

    def differences(self, found: NamespaceLayout, tolerance: int = 0) -> tuple[str, ...]:
        """Members in which ``found`` is not as this one; empty where it is. It may have up to
        ``tolerance`` bytes less."""
        return tuple(self._differences(found, tolerance))

    def _differences(self, found: NamespaceLayout, tolerance: int) -> Iterator[str]:
        # Counts of blocks of different sizes cannot be held against each other: no tolerance then.
        less = tolerance // self.block_bytes if self.block_bytes == found.block_bytes else 0
        for name in self.__dataclass_fields__:
            mine, theirs = getattr(self, name), getattr(found, name)
            if mine == theirs or mine is None or theirs is None:
                continue
            if name not in _SIZES or not 0 < mine - theirs <= less:
                yield name


_SIZES = frozenset({"blocks", "capacity"})

_BLOCK_SIZES = frozenset(1 << shift for shift in range(9, 21))
_NAMESPACE_FIELDS = {
    "nsid": (1, 0xFFFFFFFE),
    "blocks": (1, (1 << 63) - 1),
    "lba_format": (0, 63),
    "metadata_bytes": (0, 0xFFFF),
    "protection": (0, 0xFF),
    "capacity": (0, (1 << 64) - 1),
    "sharing": (0, 0xFF),
    "command_set": (0, 0xFF),
}
_FEATURE_FIELDS = {
    "fid": (0, 0xFF),
    "value": (0, 0xFFFFFFFF),
    "nsid": (0, 0xFFFFFFFF),
    "select": (0, 0xFFFFFFFF),
}
"""What the fields of commands hold: least and most (Base 2.0, 5.15, 5.23, 5.27; NVM 1.0, 5.8)."""


def _check(value: object, fields: dict[str, tuple[int, int]]) -> None:
    """Raises ``ValueError`` where a member is too small or too large for its field."""
    for name, (least, most) in fields.items():
        number = getattr(value, name)
        if number is not None and not least <= number <= most:
            raise ValueError(f"expected {name} of {least} to {most}, found {number}")


def layout_differences(
    expected: tuple[NamespaceLayout, ...], found: tuple[NamespaceLayout, ...], tolerance: int = 0
) -> tuple[str, ...]:
    """Every difference between two layouts in words, by namespace; empty where there is none.

    A namespace may have up to ``tolerance`` bytes less than expected.
    """
    return tuple(_layout_differences(expected, found, tolerance))


def _layout_differences(
    expected: tuple[NamespaceLayout, ...], found: tuple[NamespaceLayout, ...], tolerance: int
) -> Iterator[str]:
    wanted = {namespace.nsid: namespace for namespace in expected}
    seen = {namespace.nsid: namespace for namespace in found}
    for nsid in sorted(wanted.keys() | seen.keys()):
        if nsid not in seen:
            yield f"expected namespace {nsid}, found none"
        elif nsid not in wanted:
            yield f"expected no namespace {nsid}, found one of {seen[nsid].size} bytes"
        else:
            for name in wanted[nsid].differences(seen[nsid], tolerance):
                mine, theirs = getattr(wanted[nsid], name), getattr(seen[nsid], name)
                if name == "command_set":
                    mine, theirs = _named(mine), _named(theirs)
                    yield f"expected namespace {nsid} of {mine}, found it of {theirs}"
                else:
                    yield f"expected namespace {nsid} with {name} {mine}, found {theirs}"


def _named(command_set: int) -> str:
    name = _COMMAND_SETS.get(command_set, "")
    return f"the {name} command set (CSI {command_set})" if name else f"CSI {command_set}"


FEATURE_DATA_BYTES = 4096
"""The data structure of a host metadata feature (Base 2.0, 5.27.1.23); no other one is compared."""


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
    nsid: int = 0
    """The namespace that it is of; 0 for the controller, and in older profiles for any."""
    digest: str = ""
    """SHA-256 of the data that comes with the feature, empty for one that has only a dword."""
    select: int = field(default=0, metadata=LATE)
    """Command dword 11 of Get Features: of which sensor, NVM set or endurance group it is."""
    current: bool = field(default=False, metadata=LATE)
    """The drive says that it does not save this feature: its current value is what is compared."""
    data: str = field(default="", metadata=LATE)
    """That data, hexadecimal, without the zeros at its end. Empty where there is none, and in older
    profiles: they can only be compared, unless the digest is that of zeros."""

    def __post_init__(self) -> None:
        _check(self, _FEATURE_FIELDS)
        # The digest is what is compared, and the data what is written back: both must tell the
        # same.
        if self.data and hashlib.sha256(self.content).hexdigest() != self.digest:
            raise ValueError(
                f"feature {self.fid:#04x}: expected the digest of its data, found {self.digest!r}"
            )

    @property
    def content(self) -> bytes:
        """The data as the drive has it. Raises ``ValueError`` where it is not hexadecimal."""
        return bytes.fromhex(self.data).ljust(FEATURE_DATA_BYTES, b"\0")

    @property
    def complete(self) -> bool:
        """Whether :attr:`content` is what the digest is of."""
        return bool(self.digest) and hashlib.sha256(self.content).hexdigest() == self.digest


MAX_TOLERANCE = 1 << 30
"""Bytes: what drives are known to take is 64 MiB."""


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
    condition: ExpectedCondition | None = None
    """Firmware slots, locks and the like; None in an older profile: not compared."""
    size_tolerance: int = field(default=0, metadata=LATE)
    """Bytes by which a namespace may be smaller than named here: some drives refuse to make one of
    the size that they were delivered with (Namespace Insufficient Capacity, 115h)."""

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 128:
            raise ValueError(f"expected a profile name of 1 to 128 characters, found {self.name!r}")
        if not self.firmware:
            raise ValueError("expected at least one firmware revision")
        if not self.namespaces:
            raise ValueError("expected at least one namespace")
        # What no command could make would be found by a host in the middle of a case.
        for each in self.namespaces:
            _check(each, _NAMESPACE_FIELDS)
            if each.block_bytes not in _BLOCK_SIZES:
                raise ValueError(
                    "expected block_bytes of a power of two from 512 to 1048576, found "
                    f"{each.block_bytes}"
                )
        if len({each.nsid for each in self.namespaces}) != len(self.namespaces):
            raise ValueError("expected each namespace once, found one twice")
        most = min(MAX_TOLERANCE, min(namespace.size for namespace in self.namespaces) // 2)
        if not 0 <= self.size_tolerance <= most:
            raise ValueError(
                f"expected a size_tolerance of 0 to {most} bytes, found {self.size_tolerance}"
            )
