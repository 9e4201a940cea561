"""What a drive is: identity, capabilities and habits that a reset does not change."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field

from tests.lab.nvme.fill import ZEROS, Fill

METADATA_SHIFT = 6
"""log2 of the bytes of data to each byte of metadata: 8 to 512, as in formats that are sold."""

ESTIMATE_UNKNOWN = 0xFFFFFFFF
"""An erase time of log 81h that the drive does not report (Base 5.16.1.25)."""


@dataclass(frozen=True, slots=True)
class PciIds:
    """The ids in configuration space and in Identify Controller.

    The defaults are those of a data centre drive for which Linux 6.1 has no quirk, neither in
    its nvme driver nor among the reset quirks of vfio-pci.
    """

    vendor: int = 0x144D
    device: int = 0xA824
    subsystem_vendor: int = 0x144D
    subsystem: int = 0xA801
    oui: int = 0x002538
    link_speed: int = 4  # encoding of PCIe Link Status: 4 = 16 GT/s
    link_width: int = 4
    link_speed_now: int = 0  # 0: as fast and as wide as it can
    link_width_now: int = 0


@dataclass(frozen=True, slots=True)
class NamespaceProfile:
    """A namespace as the factory made it. ``share`` divides the media, in order."""

    nsid: int = 1
    share: float = 1.0
    lba_format: int = 0
    write_protect: int = 0  # state of feature 84h that a tenant left
    attached: bool = True
    csi: int = 0  # its I/O command set


@dataclass(frozen=True, slots=True)
class SanitizeProfile:
    """Sanitize abilities (SANICAP, Base 5.17.2.1) and what is left to read after a success.

    ``crypto_leaves`` and ``block_leaves``: None means that the drive deallocates when it may and
    reads as DLFEAT says. Times are in seconds.
    """

    crypto: bool = True
    block: bool = True
    overwrite: bool = True
    no_deallocate_inhibited: bool = False
    reports_purge: bool = False  # SANICAP bit 5, after Base 2.0
    media_modified: int = 2  # NODMMAS
    crypto_seconds: float = 0.5
    block_seconds: float = 2.0
    overwrite_seconds: float = 3.0
    crypto_leaves: Fill | None = None
    block_leaves: Fill | None = None
    estimate_crypto: int = 5
    estimate_block: int = 60
    estimate_overwrite: int = ESTIMATE_UNKNOWN


@dataclass(frozen=True, slots=True)
class FormatProfile:
    """Format NVM abilities (FNA, Base 5.17.2.1).

    A Format without secure erase (SES 0) keeps every byte where it was, as some drives do: an
    eraser that forgets SES is found out. ``secure_leaves``: None means deallocated.
    """

    supported: bool = True
    crypto: bool = True
    all_namespaces: bool = False
    secure_all_namespaces: bool = False
    broadcast: bool = True
    seconds: float = 0.0
    secure_leaves: Fill | None = None
    crypto_leaves: Fill | None = None


@dataclass(frozen=True, slots=True)
class SmartProfile:
    """Health as first reported; the counters of use are true and start at 0."""

    critical_warning: int = 0
    temperature_kelvin: int = 310
    spare_percent: int = 100
    spare_threshold_percent: int = 10
    percentage_used: int = 1
    power_on_hours: int = 12
    lag_seconds: float = 0.0  # log 02h is brought up to date so seldom


@dataclass(frozen=True, slots=True)
class SecurityProfile:
    """TCG security (Security Send and Receive, OACS bit 0).

    ``ssc`` is the feature code of Level 0 discovery: 0203h Opal 2, 0302h Pyrite 1, 0303h Pyrite 2.
    """

    ssc: int = 0x0203
    com_id: int = 0x07FE
    ata_password: bool = False  # protocol EFh beside it


@dataclass(frozen=True, slots=True)
class LbaFormat:
    """One LBA format (NVM 4.1.5.1): log2 of the bytes of data, bytes of metadata, and RP."""

    shift: int
    metadata: int = 0
    performance: int = 0


@dataclass(frozen=True, slots=True)
class Stated:
    """Bytes of Identify Controller that a drive of this model shows, at their offset."""

    offset: int
    content: bytes


@dataclass(frozen=True, slots=True)
class BufferProfile:
    """Memory of the drive that the host maps: a CMB (Base 8.5) or, ``persistent``, a PMR.

    ``size`` in bytes is a power of two.
    """

    persistent: bool = False
    size: int = 1 << 16


@dataclass(frozen=True, slots=True)
class FlexibleProfile:
    """Resources that a drive with SR-IOV shares out (Base 8.26), all of them the primary
    controller's when it leaves the factory. One queue pair and one interrupt stay its own."""

    queues: int = 32
    interrupts: int = 32


@dataclass(frozen=True, slots=True)
class DriveProfile:
    """Everything that a preset decides."""

    serial: str = "LAB0000001"
    model: str = "NVMe Lab Drive"
    salt: str = ""  # of the names that are made from model and serial: another piece of hardware
    firmware: str = "GDC5602Q"
    size: int = 1 << 30
    pci: PciIds = PciIds()
    cntlid: int = 1
    other_controllers: tuple[int, ...] = ()  # of the same subsystem, as on a second port
    version: int = 0x00010400
    namespaces: tuple[NamespaceProfile, ...] = (NamespaceProfile(),)
    lba_shifts: tuple[int, ...] = (9, 12)  # LBA formats without metadata: 512 and 4096 bytes
    metadata_formats: bool = False  # each of them again, with 8 bytes of metadata to 512 of data
    formats: tuple[LbaFormat, ...] = ()  # a portrait's own, in place of the two above
    stated: tuple[Stated, ...] = ()  # of a portrait: what no other field here decides
    mdts: int = 7  # 2 ** 7 pages = 512 KiB
    volatile_write_cache: bool = True
    dlfeat: int = 1  # 0 not reported, 1 zeros, 2 ones (NVM 4.1.5.1)
    deallocated_reads: Fill = ZEROS
    write_protect: bool = True  # NWPC: basic and permanent write protection
    firmware_slots: int = 3
    namespace_management: bool = False  # OACS bit 3
    most_namespaces: int = 16  # NN, where namespaces can be made
    zoned: bool = False  # namespaces of the Zoned Namespace Command Set can be made (CSI 2)
    reservations: bool = False  # ONCS bit 5, RESCAP
    wants_host_identifier: bool = False  # CTRATT bit 18, RHII: no reservations of host 0
    security: SecurityProfile | None = None
    boot_partition_units: int = 0  # of 128 KiB; 0 is a drive without boot partitions
    boot_log: bool = True  # log 15h, which came with NVMe 2.0
    lockdown: bool = False  # OACS bit 10
    flexible: FlexibleProfile | None = None  # OACS bit 7
    buffer: BufferProfile | None = None
    subsystem_reset: bool = False  # CAP.NSSRS
    verify: bool = False  # ONCS bit 7
    write_zeroes: bool = True  # ONCS bit 3
    reports_capacity: bool = True  # TNVMCAP, UNVMCAP and NVMCAP; without management optional
    reports_ids: bool = True  # EUI64 and NGUID
    reports_nqn: bool = True  # SUBNQN, which came with NVMe 1.2.1
    keeps_deallocated: bool = False  # Dataset Management is a hint that it does not take
    many_features: bool = False  # all that NVMe 2.1 and the vendors have made of them
    keeps_metadata: bool = True  # host metadata outlives a reset, which no standard asks for
    ready_seconds: float = 0.0  # from CC.EN to CSTS.RDY
    flr_seconds: float = 0.0  # a function level reset: until registers answer again
    sanitize: SanitizeProfile = field(default_factory=SanitizeProfile)
    format: FormatProfile = field(default_factory=FormatProfile)
    smart: SmartProfile = field(default_factory=SmartProfile)

    @property
    def subsystem_nqn(self) -> str:
        """SUBNQN, a UUID name made from the serial number (Base 4.5)."""
        return f"nqn.2014-08.org.nvmexpress:uuid:{self._uuid('subsystem')}"

    @property
    def shifts(self) -> tuple[int, ...]:
        """log2 of the block size of each LBA format, bytes."""
        if self.formats:
            return tuple(each.shift for each in self.formats)
        return self.lba_shifts * (1 + self.metadata_formats)

    def plays(self, lba_format: int) -> bool:
        """Whether a namespace can have this format. Of a portrait's, those without metadata."""
        if self.formats:
            return lba_format < len(self.formats) and not self.formats[lba_format].metadata
        return lba_format < len(self.shifts)

    def metadata_bytes(self, lba_format: int) -> int:
        """Metadata of one block of a format, bytes; the buffer for it is a separate one."""
        if self.formats:
            return self.formats[lba_format].metadata
        plain = lba_format < len(self.lba_shifts)
        return 0 if plain else 1 << self.shifts[lba_format] >> METADATA_SHIFT

    @property
    def highest_nsid(self) -> int:
        """NN: the highest namespace id that can be valid (Base 5.17.2.1)."""
        factory = max(namespace.nsid for namespace in self.namespaces)
        return max(factory, self.most_namespaces) if self.namespace_management else factory

    def nguid(self, nsid: int, made: int = 0) -> bytes:
        """NGUID of a namespace, 16 bytes. One that is ``made`` again gets another one."""
        return self._uuid(f"nguid/{nsid}" + f"/{made}" * (made > 0)).bytes

    def eui64(self, nsid: int, made: int = 0) -> bytes:
        """EUI64 of a namespace, 8 bytes, beginning with the vendor's OUI."""
        name = f"eui64/{nsid}" + f"/{made}" * (made > 0)
        return self.pci.oui.to_bytes(3, "big") + self._uuid(name).bytes[:5]

    def _uuid(self, what: str) -> uuid.UUID:
        return uuid.uuid5(uuid.NAMESPACE_OID, f"{self.model}/{self.serial}{self.salt}/{what}")
