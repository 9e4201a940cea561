"""Drives that must never be handed out: they lie, fail, hang or vanish."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.nvme.faults import EraseFault, Faults, Spared, WriteFault
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.presetkind import NO_SANITIZE, PLAIN, Preset
from tests.lab.nvme.profile import FormatProfile, NamespaceProfile, SanitizeProfile
from tests.lab.nvme.spec import DNR, AdminOp, Status

_RANDOM = Fill(FillKind.RANDOM, deallocated=False)
_TWO = (NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5))


def _spares(what: Spared) -> Faults:
    return Faults(sanitize=EraseFault.SPARE, format=EraseFault.SPARE, spared=what)


BAD_DRIVES = (
    Preset(
        "lying",
        "sanitize and format run through all states to success and erase nothing",
        PLAIN,
        Faults(sanitize=EraseFault.LIE, format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "lying-stale",
        "sanitize is answered with success and never runs; format erases nothing",
        PLAIN,
        Faults(sanitize=EraseFault.STALE, format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "lying-format",
        "no Sanitize; a Format is answered with success and erases nothing",
        replace(PLAIN, sanitize=NO_SANITIZE),
        Faults(format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "partial",
        "every erase leaves one block in a hundred",
        PLAIN,
        Faults(sanitize=EraseFault.PARTIAL, format=EraseFault.PARTIAL, survivors=0.01),
        honest=False,
    ),
    Preset(
        "canary-eater",
        "erases only what was written since a driver last took the drive",
        PLAIN,
        Faults(sanitize=EraseFault.RECENT, format=EraseFault.RECENT),
        honest=False,
    ),
    Preset(
        "sanitize-fails",
        "sanitize fails half way",
        PLAIN,
        Faults(sanitize=EraseFault.FAIL),
        honest=False,
    ),
    Preset(
        "sanitize-stuck",
        "sanitize halts at one per cent",
        PLAIN,
        Faults(sanitize=EraseFault.STUCK, sanitize_at=0.01),
        honest=False,
    ),
    Preset(
        "sanitize-rejected",
        "sanitize is advertised and answered with Internal Error",
        PLAIN,
        Faults(admin_status={AdminOp.SANITIZE: Status.INTERNAL | DNR}),
        honest=False,
    ),
    Preset(
        "format-fails",
        "no Sanitize; a Format fails half way",
        replace(PLAIN, sanitize=NO_SANITIZE),
        Faults(format=EraseFault.FAIL),
        honest=False,
    ),
    Preset(
        "format-hangs",
        "no Sanitize; a Format is never answered",
        replace(PLAIN, sanitize=NO_SANITIZE),
        Faults(admin_hang=[AdminOp.FORMAT_NVM]),
        honest=False,
    ),
    Preset(
        "sanitize-hangs",
        "a Sanitize command is never answered",
        PLAIN,
        Faults(admin_hang=[AdminOp.SANITIZE]),
        honest=False,
    ),
    Preset(
        "spares-first",
        "every erase forgets the first 64 KiB",
        PLAIN,
        _spares(Spared.FIRST),
        honest=False,
    ),
    Preset(
        "spares-last",
        "every erase forgets the last 64 KiB",
        PLAIN,
        _spares(Spared.LAST),
        honest=False,
    ),
    Preset(
        "spares-namespace",
        "every erase forgets the second namespace",
        replace(PLAIN, namespaces=_TWO),
        _spares(Spared.NAMESPACE),
        honest=False,
    ),
    Preset(
        "returns-after-reset",
        "shows zeros after an erase, and the old data after the next controller reset",
        PLAIN,
        Faults(sanitize=EraseFault.HIDE, format=EraseFault.HIDE),
        honest=False,
    ),
    Preset(
        "anothers-success",
        "erases nothing, and its log shows the success of another command",
        PLAIN,
        Faults(sanitize=EraseFault.LIE, format=EraseFault.LIE, reported_cdw10=3 | 1 << 4),
        honest=False,
    ),
    Preset(
        "foreign-log",
        "erases well, but its log names another command than ours",
        PLAIN,
        Faults(reported_cdw10=3 | 1 << 4),
        honest=False,
    ),
    Preset(
        "only-clears",
        "erases well, and does not report the purge that it is asked for",
        replace(PLAIN, sanitize=SanitizeProfile(reports_purge=True)),
        Faults(only_clears=True),
        honest=False,
    ),
    Preset(
        "dlfeat-lies",
        "says that erased blocks read as zeros, and leaves random bytes",
        replace(PLAIN, sanitize=SanitizeProfile(crypto_leaves=_RANDOM, block_leaves=_RANDOM)),
        honest=False,
    ),
    Preset(
        "drops-writes",
        "acknowledges writes that it does not store, so that no canary is planted",
        PLAIN,
        Faults(writes=WriteFault.DROP),
        honest=False,
    ),
    Preset(
        "forgets-writes",
        "keeps new writes in a cache that a reset empties, and erases nothing else",
        PLAIN,
        Faults(writes=WriteFault.CACHE, sanitize=EraseFault.LIE, format=EraseFault.LIE),
        honest=False,
    ),
    Preset(
        "renamed",
        "has another serial number after the erase",
        PLAIN,
        Faults(renamed="SOMEONEELSE"),
        honest=False,
    ),
    Preset(
        "vanishes",
        "is pulled from its slot while it sanitizes, and never seen again",
        replace(PLAIN, sanitize=SanitizeProfile(crypto_seconds=6, block_seconds=8)),
        Faults(pulled_at=0.4),
        honest=False,
    ),
    Preset(
        "format-vanishes",
        "no Sanitize; is pulled from its slot during a Format",
        replace(PLAIN, sanitize=NO_SANITIZE, format=FormatProfile(seconds=8)),
        Faults(pulled_at=0.4),
        honest=False,
    ),
    Preset(
        "no-logs",
        "answers every log page with Internal Error",
        PLAIN,
        Faults(admin_status={AdminOp.GET_LOG_PAGE: Status.INTERNAL | DNR}),
        honest=False,
    ),
)
