"""Switchable misbehaviour. Every field's default is an honest, healthy drive."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class EraseFault(StrEnum):
    """What goes wrong with the data of a Sanitize or a Format.

    LIE: every answer and log is a success, nothing is erased. STALE (Sanitize): answers success,
    starts nothing, log 81h shows whatever it showed before. PARTIAL: a scattered fraction of the
    4 KiB chunks survives, the same each time. RECENT: only what was written since a driver last
    took the drive is erased, as a drive would do that was made to fool canaries. FAIL: fails half
    way (SSTAT 3, or Internal Error for Format). STUCK (Sanitize): progress halts for ever. HIDE:
    the data stays, and reads show it as erased until the next controller reset. SPARE: all but one
    part is erased, ``Faults.spared``.
    """

    NONE = "none"
    LIE = "lie"
    STALE = "stale"
    PARTIAL = "partial"
    RECENT = "recent"
    FAIL = "fail"
    STUCK = "stuck"
    HIDE = "hide"
    SPARE = "spare"


class Spared(StrEnum):
    """What an erase with the fault SPARE forgets: the first or the last 64 KiB that a host can
    address, the last of the attached namespaces, the detached ones, or what is in no namespace.
    """

    FIRST = "first"
    LAST = "last"
    NAMESPACE = "namespace"
    DETACHED = "detached"
    UNALLOCATED = "unallocated"


class WriteFault(StrEnum):
    """What becomes of data that a write was acknowledged for.

    DROP: it is nowhere. CACHE: reads show it until the next controller reset, then it is gone and
    what was there before is back.
    """

    NONE = "none"
    DROP = "drop"
    CACHE = "cache"


class MediaErrorOp(StrEnum):
    """Which commands a bad range fails."""

    READ = "read"
    WRITE = "write"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class MediaError:
    """LBAs ``first`` to ``last`` (inclusive) of a namespace that cannot be read or written.

    ``status`` None means Unrecovered Read Error or Write Fault. With ``erased_only`` the range goes
    bad with the first erase.
    """

    first: int
    last: int
    op: MediaErrorOp = MediaErrorOp.READ
    nsid: int = 1
    status: int | None = None
    erased_only: bool = False

    def hits(self, nsid: int, slba: int, blocks: int, *, write: bool) -> bool:
        """Whether a command on these LBAs fails."""
        wrong_op = MediaErrorOp.READ if write else MediaErrorOp.WRITE
        return (
            self.op is not wrong_op
            and nsid == self.nsid
            and slba <= self.last
            and slba + blocks > self.first
        )


@dataclass(frozen=True, slots=True)
class Faults:
    """All faults of a drive; replaced as a whole at run time.

    ``sanitize_at`` is the fraction of the operation at which FAIL fails and STUCK halts.
    ``*_seconds`` None means as the profile says. ``admin_status`` answers an opcode with a
    15-bit status (DNR is 0x4000) without doing anything; opcodes in ``admin_hang`` are never
    answered. ``write_protected`` namespaces are so for ever. ``gone`` is a drive pulled from its
    slot: registers read as all ones. With ``creates_dirty`` a created namespace begins with what
    was there before. ``cached_reads``: after an erase, reads come from a cache with what was there
    before, until the next controller reset. ``reported_cdw10`` is what log 81h says in place of the
    command that ran. ``only_clears``: a sanitize that was asked to purge ends well and does not
    report that it did. ``renamed`` is the serial number that Identify shows from the next erase on.
    ``pulled_at`` is the fraction of an erase at which the drive is pulled from its slot, once; it
    is back after ``pulled_seconds``, or never.
    """

    sanitize: EraseFault = EraseFault.NONE
    sanitize_at: float = 0.5
    sanitize_seconds: float | None = None
    format: EraseFault = EraseFault.NONE
    format_seconds: float | None = None
    survivors: float = 0.01
    recent_writes: int = 4096
    admin_status: dict[int, int] = field(default_factory=dict)
    admin_hang: list[int] = field(default_factory=list)
    media_errors: list[MediaError] = field(default_factory=list)
    write_protected: list[int] = field(default_factory=list)
    gone: bool = False
    creates_dirty: bool = False
    spared: Spared = Spared.LAST
    writes: WriteFault = WriteFault.NONE
    cached_reads: bool = False
    reported_cdw10: int | None = None
    only_clears: bool = False
    renamed: str = ""
    pulled_at: float | None = None
    pulled_seconds: float | None = None
    log_io: bool = False


HEALTHY = Faults()
