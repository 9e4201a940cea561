"""Log page 81h read a second time, by a parser that shares nothing with the host's.

The host says what the log means; the control plane reads the raw bytes and compares.
"""

from __future__ import annotations

import base64
import binascii
import enum
import struct
from dataclasses import dataclass

from quarantine.errors import BadInputError

LOG_BYTES = 512
"""Sanitize Status log page (NVM Express Base 2.0, 5.16.1.25): the whole page."""


class SanitizeStatus(enum.IntEnum):
    """SSTAT bits 2:0 (NVM Express Base 2.0, figure 291)."""

    NEVER = 0
    SUCCESS = 1
    RUNNING = 2
    FAILED = 3
    SUCCESS_DEALLOCATED = 4
    """Success of a sanitize that had asked for no deallocation, and deallocated all the same."""


@dataclass(frozen=True)
class ReportedSanitizeLog:
    """The members that decide: SPROG (of 65536), SSTAT and SCDW10."""

    progress: int
    status: int
    passes: int
    global_data_erased: bool
    cdw10: int
    purged: bool = False
    """PRGD, SSTAT bit 11: it purged, as IEEE Std 2883 defines that, because it was asked to."""

    @property
    def succeeded(self) -> bool:
        """The most recent sanitize ended well."""
        return self.status in (SanitizeStatus.SUCCESS, SanitizeStatus.SUCCESS_DEALLOCATED)

    @property
    def status_name(self) -> str:
        """SSTAT in words, for reasons and certificates."""
        try:
            return SanitizeStatus(self.status).name.lower().replace("_", " ")
        except ValueError:
            return f"reserved value {self.status}"


def parse(encoded: str, what: str) -> ReportedSanitizeLog:
    """Base64 of the raw page to its members. Raises :class:`BadInputError`."""
    try:
        raw = base64.b64decode(encoded, validate=True)
    except (ValueError, binascii.Error) as error:
        raise BadInputError(f"{what}: expected Base64, found something else") from error
    if len(raw) != LOG_BYTES:
        raise BadInputError(f"{what}: expected {LOG_BYTES} bytes of log 81h, found {len(raw)}")
    # Bytes 1:0, 3:2 and 7:4, little-endian. Of SSTAT: status in bits 2:0, passes of an overwrite in
    # 7:3, Global Data Erased in 8, PRGD in 11.
    progress, sstat, cdw10 = struct.unpack_from("<HHI", raw)
    return ReportedSanitizeLog(
        progress=progress,
        status=sstat & 0x7,
        passes=(sstat >> 3) & 0x1F,
        global_data_erased=bool(sstat & 0x100),
        cdw10=cdw10,
        purged=bool(sstat & 0x800),
    )
