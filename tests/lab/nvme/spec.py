"""Numbers of the NVMe standards, each with the section it comes from.

Sections are those of the NVM Express Base Specification 2.0 ("Base") and of the NVM Command Set
Specification 1.0 ("NVM"). Nothing here does I/O.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from enum import IntEnum

PAGE = 4096
"""Memory page size that the model supports (CC.MPS = 0), bytes."""

BROADCAST_NSID = 0xFFFFFFFF
"""NSID that means every namespace (Base 3.2.1.2)."""

DNR = 0x4000
"""Do Not Retry, as a bit of the 15-bit status field (Base 3.3.3.2.1)."""


class AdminOp(IntEnum):
    """Admin command opcodes (Base 5, figure "Opcodes for Admin Commands")."""

    DELETE_SQ = 0x00
    CREATE_SQ = 0x01
    GET_LOG_PAGE = 0x02
    DELETE_CQ = 0x04
    CREATE_CQ = 0x05
    IDENTIFY = 0x06
    ABORT = 0x08
    SET_FEATURES = 0x09
    GET_FEATURES = 0x0A
    ASYNC_EVENT = 0x0C
    NAMESPACE_MANAGEMENT = 0x0D
    FIRMWARE_COMMIT = 0x10
    FIRMWARE_DOWNLOAD = 0x11
    SELF_TEST = 0x14
    NAMESPACE_ATTACHMENT = 0x15
    KEEP_ALIVE = 0x18
    VIRTUALIZATION_MANAGEMENT = 0x1C
    LOCKDOWN = 0x24
    FORMAT_NVM = 0x80
    SECURITY_SEND = 0x81
    SECURITY_RECEIVE = 0x82
    SANITIZE = 0x84
    SANITIZE_NAMESPACE = 0x8C


class NvmOp(IntEnum):
    """I/O command opcodes (NVM 3, figure "Opcodes for NVM Commands")."""

    FLUSH = 0x00
    WRITE = 0x01
    READ = 0x02
    COMPARE = 0x05
    WRITE_ZEROES = 0x08
    DATASET_MANAGEMENT = 0x09
    VERIFY = 0x0C
    RESERVATION_REGISTER = 0x0D
    RESERVATION_REPORT = 0x0E
    RESERVATION_ACQUIRE = 0x11
    RESERVATION_RELEASE = 0x15


class Status(IntEnum):
    """Status codes as SCT << 8 | SC (Base 3.3.3.2; NVM 4.1.1)."""

    SUCCESS = 0x000
    INVALID_OPCODE = 0x001
    INVALID_FIELD = 0x002
    DATA_TRANSFER_ERROR = 0x004
    INTERNAL = 0x006
    ABORT_REQUESTED = 0x007
    INVALID_NAMESPACE = 0x00B
    SEQUENCE_ERROR = 0x00C
    PRP_OFFSET_INVALID = 0x013
    HOST_ID_FORMAT = 0x018
    SANITIZE_FAILED = 0x01C
    SANITIZE_IN_PROGRESS = 0x01D
    NAMESPACE_WRITE_PROTECTED = 0x020
    COMMAND_INTERRUPTED = 0x021
    LOCKED_DOWN = 0x023
    MEDIA_NOT_READY = 0x024
    HOST_ID_NOT_INITIALIZED = 0x027
    NAMESPACE_SANITIZE_IN_PROGRESS = 0x02C
    LBA_OUT_OF_RANGE = 0x080
    NAMESPACE_NOT_READY = 0x082
    RESERVATION_CONFLICT = 0x083
    FORMAT_IN_PROGRESS = 0x084
    INVALID_CQ = 0x100
    INVALID_QUEUE_ID = 0x101
    INVALID_QUEUE_SIZE = 0x102
    ASYNC_LIMIT = 0x105
    INVALID_VECTOR = 0x108
    INVALID_LOG_PAGE = 0x109
    INVALID_FORMAT = 0x10A
    INVALID_QUEUE_DELETION = 0x10C
    COMMAND_SEQUENCE = 0x0C
    FEATURE_NOT_SAVEABLE = 0x10D
    FEATURE_NOT_CHANGEABLE = 0x10E
    FEATURE_NOT_PER_NAMESPACE = 0x10F
    FIRMWARE_AWAITS_SUBSYSTEM_RESET = 0x110
    FIRMWARE_AWAITS_CONTROLLER_RESET = 0x111
    INSUFFICIENT_CAPACITY = 0x115
    NO_NAMESPACE_ID = 0x116
    ALREADY_ATTACHED = 0x118
    NOT_ATTACHED = 0x11A
    THIN_PROVISIONING = 0x11B
    CONTROLLER_LIST = 0x11C
    INVALID_CONTROLLER = 0x11F
    INVALID_RESOURCES = 0x121
    INVALID_RESOURCE_ID = 0x122
    SANITIZE_PROHIBITED = 0x123
    COMMAND_SET_NOT_SUPPORTED = 0x129
    NOT_LOCKABLE = 0x128
    WRITE_FAULT = 0x280
    UNRECOVERED_READ = 0x281
    COMPARE_FAILURE = 0x285
    ACCESS_DENIED = 0x286
    DEALLOCATED = 0x287
    ZONE_INVALID_WRITE = 0x1BC


class CommandSet(IntEnum):
    """I/O Command Set Identifiers, CSI (Base 2.0, figure "I/O Command Set Identifiers")."""

    NVM = 0
    ZONED = 2


class Cns(IntEnum):
    """Identify's Controller or Namespace Structure (Base 5.17.1)."""

    NAMESPACE = 0x00
    CONTROLLER = 0x01
    ACTIVE_NAMESPACES = 0x02
    DESCRIPTORS = 0x03
    NAMESPACE_BY_COMMAND_SET = 0x05
    CONTROLLER_BY_COMMAND_SET = 0x06
    ACTIVE_BY_COMMAND_SET = 0x07
    NAMESPACE_INDEPENDENT = 0x08
    ALLOCATED_NAMESPACES = 0x10
    ALLOCATED_NAMESPACE = 0x11
    ATTACHED_CONTROLLERS = 0x12
    CONTROLLERS = 0x13
    PRIMARY_CAPABILITIES = 0x14
    COMMAND_SETS = 0x1C


class Lid(IntEnum):
    """Log page identifiers (Base 5.16.1)."""

    SUPPORTED = 0x00
    ERROR = 0x01
    SMART = 0x02
    FIRMWARE = 0x03
    CHANGED_NAMESPACES = 0x04
    EFFECTS = 0x05
    FEATURES = 0x12
    LOCKDOWN = 0x14
    BOOT_PARTITION = 0x15
    SANITIZE = 0x81


class Fid(IntEnum):
    """Feature identifiers (Base 5.27.1; NVM 4.1.3)."""

    ARBITRATION = 0x01
    POWER_MANAGEMENT = 0x02
    LBA_RANGES = 0x03
    TEMPERATURE_THRESHOLD = 0x04
    ERROR_RECOVERY = 0x05
    WRITE_CACHE = 0x06
    NUMBER_OF_QUEUES = 0x07
    INTERRUPT_COALESCING = 0x08
    INTERRUPT_VECTOR = 0x09
    WRITE_ATOMICITY = 0x0A
    ASYNC_EVENTS = 0x0B
    TIMESTAMP = 0x0E
    KEEP_ALIVE = 0x0F
    READ_RECOVERY = 0x12
    LBA_STATUS = 0x15
    SANITIZE_CONFIG = 0x17
    DATA_PLACEMENT = 0x1D
    ADMIN_LABEL = 0x1F
    PERSONALITY = 0x22
    POWER_LIMIT = 0x23
    POWER_THRESHOLD = 0x24
    MANAGEMENT_ADDRESS = 0x78
    AGENT_ADDRESS = 0x79
    ENHANCED_CONTROLLER_METADATA = 0x7D
    CONTROLLER_METADATA = 0x7E
    NAMESPACE_METADATA = 0x7F
    PROGRESS_MARKER = 0x80
    HOST_IDENTIFIER = 0x81
    WRITE_PROTECT = 0x84
    BOOT_PROTECT = 0x85
    VENDOR_ERRORS = 0xC0
    VENDOR_COUNTER = 0xC5
    VENDOR_POWER = 0xC7
    VENDOR_FIXED = 0xD1


class SanitizeAction(IntEnum):
    """SANACT, bits 2:0 of CDW10 (Base 5.24)."""

    EXIT_FAILURE = 1
    BLOCK = 2
    OVERWRITE = 3
    CRYPTO = 4
    EXIT_VERIFICATION = 5


class SanitizeStatus(IntEnum):
    """Bits 2:0 of SSTAT in log 81h (Base 5.16.1.25)."""

    NEVER = 0
    SUCCESS = 1
    RUNNING = 2
    FAILED = 3
    SUCCESS_DEALLOCATED = 4


SPROG_IDLE = 0xFFFF
"""SPROG while nothing runs (Base 5.16.1.25)."""

GLOBAL_DATA_ERASED = 1 << 8
"""SSTAT bit 8: no user data written since the last successful sanitize (Base 5.16.1.25)."""

SQE = struct.Struct("<BBHI8x3Q6I")
"""The fields of a 64-byte submission entry that the model reads (Base 3.3.3.1)."""

CQE = struct.Struct("<IIHHHH")
"""Completion entry: DW0, DW1, SQ head, SQ id, CID, status with phase (Base 3.3.3.2)."""


@dataclass(frozen=True, slots=True)
class Command:
    """One submission queue entry (Base 3.3.3.1)."""

    opcode: int
    flags: int
    cid: int
    nsid: int
    prp1: int
    prp2: int
    cdw10: int
    cdw11: int
    cdw12: int
    cdw13: int
    cdw14: int
    cdw15: int
    mptr: int = 0

    @classmethod
    def parse(cls, entry: bytes | memoryview) -> Command:
        """Read a 64-byte entry; a shorter one raises ``struct.error``."""
        fields = SQE.unpack_from(entry, 0)
        return cls(*fields[:4], *fields[5:], *fields[4:5])  # MPTR comes before the PRPs

    @property
    def slba(self) -> int:
        """Starting LBA of an I/O command (NVM 3.2)."""
        return self.cdw10 | self.cdw11 << 32

    @property
    def blocks(self) -> int:
        """Number of logical blocks of an I/O command; the field itself is 0's based."""
        return (self.cdw12 & 0xFFFF) + 1


@dataclass(frozen=True, slots=True)
class Reply:
    """What a command is answered with: status, DW0 of the completion, data for the host."""

    status: int = Status.SUCCESS
    dw0: int = 0
    data: bytes | None = None


OK = Reply()


def refused(status: int, *, retry: bool = False) -> Reply:
    """An error answer; ``retry`` says whether DNR stays clear."""
    return Reply(status if retry else status | DNR)
