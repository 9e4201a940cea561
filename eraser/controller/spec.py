"""Raw bytes of the drive to facts, at the offsets of the standards.

"Base" is NVM Express Base Specification 2.0, "NVM" the NVM Command Set Specification 1.0. Every
parser takes any bytes whatever and returns facts or raises :class:`DriveError`: firmware that a
tenant may have replaced wrote them.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

from eraser.errors import DriveError

IDENTIFY_BYTES = 4096
LOG_BYTES = 512
UNKNOWN_SECONDS = 0xFFFF_FFFF
"""Log 81h, estimated times: not reported (Base 5.16.1.25)."""

_NIDT_COMMAND_SET = 4
_MEDIA_VERIFICATION = 5
_VERSION_1_3, _VERSION_2_3 = 1 << 16 | 3 << 8, 2 << 16 | 3 << 8
_LBADS = range(9, 21)
"""NVM 4.1.5.1: LBADS below 9 is not used; above 1 MiB there is no such drive."""
_BLOCKS_MAX = 1 << 63


def need(raw: bytes, length: int, what: str) -> None:
    """Raises :class:`DriveError` where fewer than ``length`` bytes came."""
    if len(raw) < length:
        raise DriveError(f"{what}: expected {length} bytes, found {len(raw)}; read it again")


def _number(raw: bytes, start: int, length: int) -> int:
    return int.from_bytes(raw[start : start + length], "little")


def text(raw: bytes) -> str:
    """Bytes that firmware chose, as Latin-1 without trailing spaces and NULs: nothing is lost."""
    return raw.decode("latin-1").rstrip(" \0")


class SanitizeState(enum.StrEnum):
    """Log 81h, SSTAT bits 2:0 (Base 5.16.1.25)."""

    NEVER = "never"
    SUCCESS = "success"
    RUNNING = "running"
    FAILED = "failed"
    SUCCESS_NO_DEALLOC = "success_no_dealloc"
    """Success of an operation that asked for no deallocation, and media was deallocated."""


_STATES = tuple(SanitizeState)


@dataclass(frozen=True)
class IdentifyController:
    """Identify Controller, CNS 01h (Base 5.17.2.1)."""

    vendor_id: int
    subsystem_vendor_id: int
    serial: str
    model: str
    firmware: str
    controller_id: int
    version: int
    oacs: int
    frmw: int
    cmic: int
    lpa: int
    rpmbs: int
    mdts: int
    total_bytes: int
    unallocated_bytes: int
    namespaces: int
    """NN: no NSID is higher."""
    sanicap: int
    oncs: int
    fna: int
    vwc: int
    nwpc: int
    subnqn: str
    ctratt: int = 0

    @classmethod
    def parse(cls, raw: bytes) -> IdentifyController:
        """4,096 bytes. Raises :class:`DriveError`."""
        need(raw, IDENTIFY_BYTES, "Identify Controller")
        nn = _number(raw, 516, 4)
        if nn == 0:
            raise DriveError(
                "Identify Controller: expected NN of at least 1, found 0: a drive without room for "
                "any namespace, or no answer at all; power-cycle the slot and order again, then "
                "replace the drive"
            )
        return cls(
            vendor_id=_number(raw, 0, 2),
            subsystem_vendor_id=_number(raw, 2, 2),
            serial=text(raw[4:24]),
            model=text(raw[24:64]),
            firmware=text(raw[64:72]),
            controller_id=_number(raw, 78, 2),
            version=_number(raw, 80, 4),
            oacs=_number(raw, 256, 2),
            frmw=raw[260],
            cmic=raw[76],
            lpa=raw[261],
            rpmbs=_number(raw, 312, 4),
            mdts=raw[77],
            total_bytes=_number(raw, 280, 16),
            unallocated_bytes=_number(raw, 296, 16),
            namespaces=_number(raw, 516, 4),
            sanicap=_number(raw, 328, 4),
            oncs=_number(raw, 520, 2),
            fna=raw[524],
            vwc=raw[525],
            nwpc=raw[531],
            # A string that ends with a NUL; what stands behind it is no part of the name.
            subnqn=text(raw[768:1024].split(b"\0", 1)[0]),
            ctratt=_number(raw, 96, 4),
        )

    @property
    def can_sanitize(self) -> bool:
        """Any sanitize operation, hence also log 81h."""
        return bool(self.sanicap & 7)

    @property
    def describes_namespaces(self) -> bool:
        """Of a version that has the descriptors of a namespace (CNS 03h)."""
        return self.version >= _VERSION_1_3

    @property
    def tells_of_namespace_sanitize(self) -> bool:
        """Of a version that has sanitizes of one namespace."""
        return self.version >= _VERSION_2_3

    @property
    def can_secure(self) -> bool:
        """OACS bit 0: Security Send and Receive."""
        return bool(self.oacs & 1)

    @property
    def can_lock_down(self) -> bool:
        """OACS bit 10: Command and Feature Lockdown."""
        return bool(self.oacs >> 10 & 1)

    @property
    def can_virtualize(self) -> bool:
        """OACS bit 7: Virtualization Management."""
        return bool(self.oacs >> 7 & 1)

    @property
    def can_reserve(self) -> bool:
        """ONCS bit 5: reservations."""
        return bool(self.oncs >> 5 & 1)

    @property
    def many_controllers(self) -> bool:
        """CMIC bit 1: the subsystem may have more than one controller."""
        return bool(self.cmic >> 1 & 1)

    @property
    def can_format(self) -> bool:
        """OACS bit 1."""
        return bool(self.oacs & 2)

    @property
    def can_manage_firmware(self) -> bool:
        """OACS bit 2."""
        return bool(self.oacs & 4)

    @property
    def can_manage_namespaces(self) -> bool:
        """OACS bit 3."""
        return bool(self.oacs & 8)

    @property
    def saves_features(self) -> bool:
        """ONCS bit 4: Save and Select of features."""
        return bool(self.oncs >> 4 & 1)

    @property
    def wants_host_identifier(self) -> bool:
        """CTRATT bit 18, RHII: no host with identifier 0 has reservations (Base 2.1)."""
        return bool(self.ctratt >> 18 & 1)

    @property
    def has_nvm_sets(self) -> bool:
        """CTRATT bit 2."""
        return bool(self.ctratt >> 2 & 1)


@dataclass(frozen=True)
class LbaFormat:
    """One LBA format (NVM 4.1.5.1, figure 98)."""

    block_bytes: int
    metadata_bytes: int


@dataclass(frozen=True)
class IdentifyNamespace:
    """Identify Namespace, CNS 00h (NVM 4.1.5.1). ``blocks`` is NSZE."""

    blocks: int
    capacity: int
    used: int
    features: int
    lba_format: int
    extended_metadata: bool
    protection: int
    sharing: int
    format_progress: int
    dlfeat: int
    attributes: int
    formats: tuple[LbaFormat | None, ...]
    """By index; None where the drive lists a format that is not usable."""
    nguid: bytes = bytes(16)
    eui64: bytes = bytes(8)
    """Zeros where the drive gives none."""
    reservations: int = 0
    """RESCAP: 0 where the namespace supports none."""
    takes: int = 0
    """NVMCAP: bytes of the drive's capacity that it takes; 0 where the drive does not say."""

    @classmethod
    def parse(cls, raw: bytes) -> IdentifyNamespace:
        """4,096 bytes of an active namespace. Raises :class:`DriveError`."""
        need(raw, IDENTIFY_BYTES, "Identify Namespace")
        blocks, capacity = _number(raw, 0, 8), _number(raw, 8, 8)
        if blocks == 0:
            raise DriveError(
                "Identify Namespace: expected a size, found 0: not an active namespace"
            )
        # NLBAF (byte 25) counts from 0, and NULBAF (byte 82, of NVMe 2.0 on) those with attributes
        # of their own behind them; 64 formats are as many as the index in FLBAS can name.
        last = min(raw[25] + raw[82], 63)
        formats = tuple(_lba_format(_number(raw, 128 + 4 * n, 4)) for n in range(last + 1))
        # FLBAS bits 6:5 are the high bits of the index where there are more than 16 formats.
        index = raw[26] & 0xF | ((raw[26] >> 5 & 3) << 4 if len(formats) > 16 else 0)
        # Without the block size no length of this namespace could be computed.
        if index >= len(formats) or formats[index] is None:
            raise DriveError(
                f"Identify Namespace: expected one of {len(formats)} LBA formats in use, "
                f"found index {index}"
            )
        namespace = cls(
            blocks=blocks,
            capacity=capacity,
            used=_number(raw, 16, 8),
            features=raw[24],
            lba_format=index,
            extended_metadata=bool(raw[26] >> 4 & 1),
            protection=raw[29],
            sharing=raw[30],
            format_progress=raw[32],
            dlfeat=raw[33],
            attributes=raw[99],
            formats=formats,
            nguid=raw[104:120],
            eui64=raw[120:128],
            reservations=raw[31],
            takes=_number(raw, 48, 16),
        )
        if namespace.size >= _BLOCKS_MAX:
            raise DriveError(f"Identify Namespace: expected a possible size, found {blocks} blocks")
        return namespace

    @property
    def format_in_use(self) -> LbaFormat:
        """The format of FLBAS. Raises :class:`DriveError` where that one is not usable."""
        entry = self.formats[self.lba_format]
        if entry is None:
            raise DriveError("Identify Namespace: the LBA format in use is not usable")
        return entry

    @property
    def block_bytes(self) -> int:
        """Bytes of one logical block."""
        return self.format_in_use.block_bytes

    @property
    def metadata_bytes(self) -> int:
        """Metadata bytes per logical block."""
        return self.format_in_use.metadata_bytes

    @property
    def size(self) -> int:
        """Bytes that can be addressed."""
        return self.blocks * self.block_bytes

    @property
    def whole(self) -> int:
        """Bytes that can be addressed, with their metadata."""
        return self.blocks * (self.block_bytes + self.metadata_bytes)

    @property
    def format_left(self) -> int:
        """Percent that a Format has yet to do: FPI bits 6:0 (NVM 1.0, figure 97); 0 where bit 7 is
        clear, for then they say nothing."""
        return self.format_progress & 0x7F if self.format_progress & 0x80 else 0

    @property
    def write_protected(self) -> bool:
        """NSATTR bit 0."""
        return bool(self.attributes & 1)

    @property
    def expected_byte(self) -> int | None:
        """What a deallocated block reads as; see :func:`deallocated_byte`."""
        return deallocated_byte(self.dlfeat)


def _lba_format(entry: int) -> LbaFormat | None:
    shift = entry >> 16 & 0xFF
    return LbaFormat(1 << shift, entry & 0xFFFF) if shift in _LBADS else None


def deallocated_byte(dlfeat: int) -> int | None:
    """DLFEAT bits 2:0 (NVM 4.1.5.1): 001b is 00h, 010b is FFh, anything else promises nothing."""
    return {1: 0x00, 2: 0xFF}.get(dlfeat & 7)


@dataclass(frozen=True)
class SanitizeLog:
    """Sanitize Status, log 81h (Base 5.16.1.25). Estimates are seconds, None: not reported."""

    progress: int
    """SPROG: 65536ths done; FFFFh when none is running."""
    state: SanitizeState
    passes: int
    global_data_erased: bool
    """SSTAT bit 8: no user data was written since the last successful sanitize."""
    cdw10: int
    """SCDW10: command dword 10 of the sanitize that this log is about."""
    overwrite_seconds: int | None
    block_seconds: int | None
    crypto_seconds: int | None
    verifying: bool = False
    """SSI (Base 2.1, 5.1.12.1.33), byte 36 bits 3:0: the Media Verification state, in which a
    sanitize that was sent with EMVS stays until somebody ends it. Older drives have zeros there."""
    purged: bool = False
    """SSTAT bit 11 (PRGD): it purged as IEEE Std 2883 defines that, because it was asked to."""

    target: int = 0
    """STNSID (Base 2.3, 5.2.12.1.36): the namespace that it is about, 0 for the subsystem."""

    @classmethod
    def parse(cls, raw: bytes) -> SanitizeLog:
        """At least 32 bytes (512 as read). Raises :class:`DriveError`."""
        need(raw, 32, "Sanitize Status log")
        status = _number(raw, 2, 2)
        if status & 7 >= len(_STATES):
            raise DriveError(
                f"Sanitize Status log: expected a state of 0 to 4 in SSTAT, found {status & 7}"
            )
        return cls(
            progress=_number(raw, 0, 2),
            state=_STATES[status & 7],
            passes=status >> 3 & 0x1F,
            global_data_erased=bool(status >> 8 & 1),
            cdw10=_number(raw, 4, 4),
            overwrite_seconds=_seconds(raw, 8),
            block_seconds=_seconds(raw, 12),
            crypto_seconds=_seconds(raw, 16),
            purged=bool(status >> 11 & 1),
            # The log may come with 32 bytes, which end before SSI.
            verifying=len(raw) > 36 and raw[36] & 0xF == _MEDIA_VERIFICATION,
            target=_number(raw, 44, 4),
        )

    @property
    def estimate(self) -> int | None:
        """Seconds that the drive expects this log's operation to take (SANACT, SCDW10 bits 2:0)."""
        # SANACT 2 is block erase, 3 overwrite, 4 crypto erase; other operations have no estimate
        # here.
        by_action = {2: self.block_seconds, 3: self.overwrite_seconds, 4: self.crypto_seconds}
        return by_action.get(self.cdw10 & 7)

    @property
    def fraction(self) -> float:
        """Done, 0 to 1; 1 where none is running."""
        return self.progress / 65536 if self.state is SanitizeState.RUNNING else 1.0


def _seconds(raw: bytes, start: int) -> int | None:
    value = _number(raw, start, 4)
    return None if value == UNKNOWN_SECONDS else value


@dataclass(frozen=True)
class SmartLog:
    """SMART / Health Information, log 02h (Base 5.16.1.3)."""

    critical_warning: int
    temperature_kelvin: int
    available_spare: int
    spare_threshold: int
    percentage_used: int
    data_units_written: int
    """Thousands of 512 bytes, rounded up."""
    host_write_commands: int
    power_cycles: int
    power_on_hours: int
    media_errors: int
    sensors: tuple[int, ...] = ()
    """Numbers (1 to 8) of the temperature sensors that there are."""

    @classmethod
    def parse(cls, raw: bytes) -> SmartLog:
        """512 bytes. Raises :class:`DriveError`, also for nothing but zeros: no drive has 0 K and
        was never powered on, and as figures they would call it healthy and not written to."""
        need(raw, LOG_BYTES, "SMART log")
        if not any(raw[:LOG_BYTES]):
            raise DriveError("SMART log: expected health and counters, found nothing but zeros")
        return cls(
            critical_warning=raw[0],
            temperature_kelvin=_number(raw, 1, 2),
            available_spare=raw[3],
            spare_threshold=raw[4],
            percentage_used=raw[5],
            data_units_written=_number(raw, 48, 16),
            host_write_commands=_number(raw, 80, 16),
            power_cycles=_number(raw, 112, 16),
            power_on_hours=_number(raw, 128, 16),
            media_errors=_number(raw, 160, 16),
            # Temperature Sensor 1 to 8, two bytes each from byte 200 on; 0 means that there is no
            # such sensor.
            sensors=tuple(n for n in range(1, 9) if _number(raw, 198 + 2 * n, 2)),
        )


def command_set(raw: bytes) -> int | None:
    """CSI of a Namespace Identification Descriptor list (Base 2.0, 5.17.2.3): of NIDT 4h, which is
    one byte; None where the list does not name one.

    Each descriptor is NIDT, NIDL, two reserved bytes and NIDL bytes; an NIDL of 0 ends the list.
    Raises :class:`DriveError` where it is too short.
    """
    need(raw, IDENTIFY_BYTES, "Namespace Identification Descriptor list")
    at = 0
    while at + 4 < IDENTIFY_BYTES and raw[at] and raw[at + 1]:
        kind, length = raw[at], raw[at + 1]
        if (kind, length) == (_NIDT_COMMAND_SET, 1):
            return raw[at + 4]
        at += 4 + length
    return None


def namespace_list(raw: bytes) -> tuple[int, ...]:
    """A namespace list (Base 4.5.2): up to 1,024 NSIDs, ascending, 0 ends it.

    Raises :class:`DriveError` where it is too short, or does not ascend.
    """
    need(raw, IDENTIFY_BYTES, "namespace list")
    found: list[int] = []
    for start in range(0, IDENTIFY_BYTES, 4):
        nsid = _number(raw, start, 4)
        if nsid == 0:
            break
        # A list that does not ascend would have its reader ask for the same page for ever.
        if nsid > 0xFFFF_FFFE or (found and nsid <= found[-1]):
            raise DriveError(f"namespace list: expected ascending NSIDs, found {nsid:#x}")
        found.append(nsid)
    return tuple(found)
