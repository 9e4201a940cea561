"""Named drives.

The honest ones erase what they say they erase; whether they are fit for a tenant (wear, bad
blocks) is another question. The others must never be handed out.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import HEALTHY, EraseFault, Faults, MediaError, MediaErrorOp
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.leftovers import NOTHING, Leftovers
from tests.lab.nvme.profile import (
    DriveProfile,
    FormatProfile,
    NamespaceProfile,
    SanitizeProfile,
    SecurityProfile,
    SmartProfile,
)
from tests.lab.nvme.spec import DNR, AdminOp, Status

_HONEST = DriveProfile()
_RANDOM = Fill(FillKind.RANDOM, deallocated=False)
_PATTERN = Fill(FillKind.PATTERN, "a55a", deallocated=False)
_ONES = Fill(FillKind.ONES)
_NO_SANITIZE = SanitizeProfile(crypto=False, block=False, overwrite=False)

FULL_FEATURED = replace(
    _HONEST,
    namespace_management=True,
    reservations=True,
    security=SecurityProfile(),
    boot_partition_units=1,
    lockdown=True,
)
"""Everything that a data centre drive may have."""


@dataclass(frozen=True, slots=True)
class Preset:
    """A drive by name.

    ``honest`` tells that it erases what it says it erases. ``left`` is what its last tenant did to
    it: a new drive is served in that state.
    """

    name: str
    about: str
    profile: DriveProfile
    faults: Faults = HEALTHY
    honest: bool = True
    left: Leftovers = NOTHING


_ALL = (
    Preset("honest", "512-byte sectors, all sanitize methods, reads zeros", _HONEST),
    Preset(
        "full-featured",
        "namespace management, reservations, Opal, boot partitions, lockdown",
        FULL_FEATURED,
    ),
    Preset(
        "honest-4k",
        "4096-byte sectors",
        replace(_HONEST, namespaces=(NamespaceProfile(lba_format=1),)),
    ),
    Preset(
        "crypto-random",
        "a crypto erase leaves random bytes, a block erase zeros",
        replace(_HONEST, sanitize=SanitizeProfile(crypto_leaves=_RANDOM)),
    ),
    Preset(
        "crypto-only-random",
        "crypto erase alone, which leaves random bytes; DLFEAT reports nothing",
        replace(
            _HONEST,
            dlfeat=0,
            sanitize=SanitizeProfile(block=False, overwrite=False, crypto_leaves=_RANDOM),
        ),
    ),
    Preset(
        "block-pattern",
        "a block erase leaves a pattern; DLFEAT reports nothing",
        replace(_HONEST, dlfeat=0, sanitize=SanitizeProfile(block_leaves=_PATTERN)),
    ),
    Preset(
        "reads-ones",
        "deallocated blocks read as FFh (DLFEAT 2)",
        replace(_HONEST, dlfeat=2, deallocated_reads=_ONES),
    ),
    Preset(
        "block-only",
        "sanitize block erase alone, Format without crypto erase",
        replace(
            _HONEST,
            sanitize=SanitizeProfile(crypto=False, overwrite=False),
            format=FormatProfile(crypto=False),
        ),
    ),
    Preset(
        "format-crypto",
        "no Sanitize; Format with crypto erase",
        replace(_HONEST, sanitize=_NO_SANITIZE),
    ),
    Preset(
        "format-only",
        "no Sanitize; Format with user data erase alone, no broadcast",
        replace(
            _HONEST,
            sanitize=_NO_SANITIZE,
            format=FormatProfile(crypto=False, broadcast=False),
        ),
    ),
    Preset(
        "format-slow",
        "no Sanitize; a Format takes 20 s",
        replace(_HONEST, sanitize=_NO_SANITIZE, format=FormatProfile(seconds=20)),
    ),
    Preset(
        "sanitize-slow",
        "a crypto erase takes 8 s, a block erase 20 s, times not reported",
        replace(
            _HONEST,
            sanitize=SanitizeProfile(
                crypto_seconds=8,
                block_seconds=20,
                estimate_crypto=0xFFFFFFFF,
                estimate_block=0xFFFFFFFF,
            ),
        ),
    ),
    Preset(
        "sanitize-instant",
        "operations are done before the first look at the log",
        replace(
            _HONEST,
            sanitize=SanitizeProfile(
                crypto_seconds=0, block_seconds=0, estimate_crypto=0, estimate_block=0
            ),
        ),
    ),
    Preset(
        "no-deallocate-inhibited",
        "NDI: a request not to deallocate is refused",
        replace(_HONEST, sanitize=SanitizeProfile(no_deallocate_inhibited=True)),
    ),
    Preset(
        "namespaces",
        "three namespaces, one with 4096-byte sectors, a tenth of the media unallocated",
        replace(
            _HONEST,
            namespaces=(
                NamespaceProfile(1, 0.5),
                NamespaceProfile(2, 0.3, lba_format=1),
                NamespaceProfile(5, 0.1),
            ),
        ),
    ),
    Preset(
        "write-protect-left",
        "a tenant left write protection on; it can be cleared",
        replace(_HONEST, namespaces=(NamespaceProfile(write_protect=1),)),
    ),
    Preset(
        "worn",
        "erases well, but spare is below its threshold and the wear above 100 %",
        replace(
            _HONEST,
            smart=SmartProfile(critical_warning=1, spare_percent=4, percentage_used=113),
        ),
    ),
    Preset(
        "hostile-names",
        "serial and model full of path and markup characters",
        replace(_HONEST, serial="../../x<b>&'\"", model="<script>alert(1)</script>"),
    ),
    Preset(
        "lying",
        "sanitize and format run through all states to success and erase nothing",
        _HONEST,
        Faults(sanitize=EraseFault.LIE, format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "lying-stale",
        "sanitize is answered with success and never runs; format erases nothing",
        _HONEST,
        Faults(sanitize=EraseFault.STALE, format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "lying-format",
        "no Sanitize; a Format is answered with success and erases nothing",
        replace(_HONEST, sanitize=_NO_SANITIZE),
        Faults(format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "partial",
        "every erase leaves one block in a hundred",
        _HONEST,
        Faults(sanitize=EraseFault.PARTIAL, format=EraseFault.PARTIAL, survivors=0.01),
        honest=False,
    ),
    Preset(
        "canary-eater",
        "erases only what was written since a driver last took the drive",
        _HONEST,
        Faults(sanitize=EraseFault.RECENT, format=EraseFault.RECENT),
        honest=False,
    ),
    Preset(
        "sanitize-fails",
        "sanitize fails half way",
        _HONEST,
        Faults(sanitize=EraseFault.FAIL),
        honest=False,
    ),
    Preset(
        "sanitize-stuck",
        "sanitize halts at one per cent",
        _HONEST,
        Faults(sanitize=EraseFault.STUCK, sanitize_at=0.01),
        honest=False,
    ),
    Preset(
        "sanitize-rejected",
        "sanitize is advertised and answered with Internal Error",
        _HONEST,
        Faults(admin_status={AdminOp.SANITIZE: Status.INTERNAL | DNR}),
        honest=False,
    ),
    Preset(
        "format-fails",
        "no Sanitize; a Format fails half way",
        replace(_HONEST, sanitize=_NO_SANITIZE),
        Faults(format=EraseFault.FAIL),
        honest=False,
    ),
    Preset(
        "format-hangs",
        "no Sanitize; a Format is never answered",
        replace(_HONEST, sanitize=_NO_SANITIZE),
        Faults(admin_hang=[AdminOp.FORMAT_NVM]),
        honest=False,
    ),
    Preset(
        "sanitize-hangs",
        "a Sanitize command is never answered",
        _HONEST,
        Faults(admin_hang=[AdminOp.SANITIZE]),
        honest=False,
    ),
    Preset(
        "write-protected",
        "namespace 1 is write protected for ever",
        _HONEST,
        Faults(write_protected=[1]),
        honest=False,
    ),
    Preset(
        "bad-blocks",
        "erases well, but some blocks cannot be read",
        _HONEST,
        Faults(
            media_errors=[
                MediaError(8, 15),
                MediaError(65536, 65551, MediaErrorOp.BOTH),
            ]
        ),
    ),
)

PRESETS = {preset.name: preset for preset in _ALL}


def preset(name: str) -> Preset:
    """The preset of this name. Raises DriveError with the names there are."""
    try:
        return PRESETS[name]
    except KeyError:
        raise DriveError(f"no drive preset {name!r}; there are: {', '.join(PRESETS)}") from None
