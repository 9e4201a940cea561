"""Drives that erase what they say they erase, of every kind that an operator may meet."""

from __future__ import annotations

from dataclasses import replace

from tests.lab.nvme.faults import Faults, MediaError, MediaErrorOp
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.presetkind import FULL_FEATURED, NO_SANITIZE, PLAIN, Event, Preset
from tests.lab.nvme.profile import (
    FormatProfile,
    NamespaceProfile,
    PciIds,
    SanitizeProfile,
    SmartProfile,
)

_RANDOM = Fill(FillKind.RANDOM, deallocated=False)
_PATTERN = Fill(FillKind.PATTERN, "a55a", deallocated=False)
_ONES = Fill(FillKind.ONES)
_SLOW = SanitizeProfile(crypto_seconds=6, block_seconds=8)

HONEST_DRIVES = (
    Preset("honest", "512-byte sectors, all sanitize methods, reads zeros", PLAIN),
    Preset(
        "full-featured",
        "namespace management, reservations, Opal, boot partitions, lockdown",
        FULL_FEATURED,
    ),
    Preset(
        "many-features",
        "every feature that NVMe 2.1 has, and some of its vendor's, one of which counts by itself",
        replace(FULL_FEATURED, many_features=True),
    ),
    Preset(
        "honest-4k",
        "4096-byte sectors",
        replace(PLAIN, namespaces=(NamespaceProfile(lba_format=1),)),
    ),
    Preset(
        "crypto-random",
        "a crypto erase leaves random bytes, a block erase zeros",
        replace(PLAIN, sanitize=SanitizeProfile(crypto_leaves=_RANDOM)),
    ),
    Preset(
        "crypto-only-random",
        "crypto erase alone, which leaves random bytes; DLFEAT reports nothing",
        replace(
            PLAIN,
            dlfeat=0,
            sanitize=SanitizeProfile(block=False, overwrite=False, crypto_leaves=_RANDOM),
        ),
    ),
    Preset(
        "block-pattern",
        "a block erase leaves a pattern; DLFEAT reports nothing",
        replace(PLAIN, dlfeat=0, sanitize=SanitizeProfile(block_leaves=_PATTERN)),
    ),
    Preset(
        "reads-ones",
        "deallocated blocks read as FFh (DLFEAT 2)",
        replace(PLAIN, dlfeat=2, deallocated_reads=_ONES),
    ),
    Preset(
        "block-only",
        "sanitize block erase alone, Format without crypto erase",
        replace(
            PLAIN,
            sanitize=SanitizeProfile(crypto=False, overwrite=False),
            format=FormatProfile(crypto=False),
        ),
    ),
    Preset(
        "format-crypto",
        "no Sanitize; Format with crypto erase",
        replace(PLAIN, sanitize=NO_SANITIZE),
    ),
    Preset(
        "format-only",
        "no Sanitize; Format with user data erase alone, no broadcast",
        replace(
            PLAIN,
            sanitize=NO_SANITIZE,
            format=FormatProfile(crypto=False, broadcast=False),
        ),
    ),
    Preset(
        "format-slow",
        "no Sanitize; a Format takes 20 s",
        replace(PLAIN, sanitize=NO_SANITIZE, format=FormatProfile(seconds=20)),
    ),
    Preset(
        "sanitize-slow",
        "a crypto erase takes 8 s, a block erase 20 s, times not reported",
        replace(
            PLAIN,
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
            PLAIN,
            sanitize=SanitizeProfile(
                crypto_seconds=0, block_seconds=0, estimate_crypto=0, estimate_block=0
            ),
        ),
    ),
    Preset(
        "no-deallocate-inhibited",
        "NDI: a request not to deallocate is refused",
        replace(PLAIN, sanitize=SanitizeProfile(no_deallocate_inhibited=True)),
    ),
    Preset(
        "namespaces",
        "three namespaces, one with 4096-byte sectors, a tenth of the media unallocated",
        replace(
            PLAIN,
            namespaces=(
                NamespaceProfile(1, 0.5),
                NamespaceProfile(2, 0.3, lba_format=1),
                NamespaceProfile(5, 0.1),
            ),
        ),
    ),
    Preset(
        "unallocated",
        "manages namespaces, a quarter of the media is in none",
        replace(FULL_FEATURED, namespaces=(NamespaceProfile(1, 0.75),)),
    ),
    Preset(
        "reports-purge",
        "is asked to purge as IEEE Std 2883 defines it, and reports that it did",
        replace(PLAIN, sanitize=SanitizeProfile(reports_purge=True)),
    ),
    Preset(
        "dual-port",
        "two controllers, of which the second is not connected",
        replace(FULL_FEATURED, other_controllers=(2,)),
    ),
    Preset("nearly-full", "a tenant wrote to all of it but a little", PLAIN, filled=0.97),
    Preset("nearly-empty", "a tenant wrote one block", PLAIN, filled=0),
    Preset(
        "slow-to-wake",
        "takes 3 s from being enabled to being ready, after every reset",
        replace(PLAIN, ready_seconds=3),
    ),
    Preset(
        "slow-reset",
        "answers a quarter of a second after a function level reset, as some controllers do",
        replace(PLAIN, flr_seconds=0.25),
        event=Event.PASSED,
    ),
    Preset(
        "smart-lagging",
        "brings its health log up to date every ten minutes",
        replace(PLAIN, smart=SmartProfile(lag_seconds=600)),
    ),
    Preset(
        "cached-reads",
        "after an erase, reads show old data from a cache until the controller is reset",
        PLAIN,
        Faults(cached_reads=True),
    ),
    Preset(
        "power-loss-sanitize",
        "the host and the drive lose power while it sanitizes",
        replace(PLAIN, sanitize=_SLOW),
        event=Event.POWER_CUT,
    ),
    Preset(
        "power-loss-format",
        "no Sanitize; the host and the drive lose power during a Format",
        replace(PLAIN, sanitize=NO_SANITIZE, format=FormatProfile(seconds=12)),
        event=Event.POWER_CUT,
    ),
    Preset(
        "worker-killed",
        "the worker dies while it sanitizes",
        replace(PLAIN, sanitize=_SLOW),
        event=Event.KILL,
    ),
    Preset(
        "vanish-and-return",
        "is pulled from its slot while it sanitizes, and put back after ten seconds",
        replace(PLAIN, sanitize=_SLOW),
        Faults(pulled_at=0.4, pulled_seconds=10),
        event=Event.RETURN,
    ),
    Preset(
        "worn",
        "erases well, but spare is below its threshold and the wear above 100 %",
        replace(
            PLAIN,
            smart=SmartProfile(critical_warning=1, spare_percent=4, percentage_used=113),
        ),
        unfit="worn out",
    ),
    Preset(
        "hostile-names",
        "serial and model full of path and markup characters",
        replace(PLAIN, serial="../../x<b>&'\"", model="<script>alert(1)</script>"),
    ),
    Preset(
        "bad-blocks",
        "erases well, but some blocks cannot be read",
        PLAIN,
        Faults(
            media_errors=[
                MediaError(8, 15),
                MediaError(65536, 65551, MediaErrorOp.BOTH),
            ]
        ),
        unfit="what cannot be read is not proved",
    ),
    Preset(
        "spare-low",
        "erases well; its spare blocks are below the threshold",
        replace(PLAIN, smart=SmartProfile(critical_warning=1, spare_percent=3)),
        unfit="spare below its threshold",
    ),
    Preset(
        "read-only",
        "erases well, but takes no more writes",
        replace(PLAIN, smart=SmartProfile(critical_warning=8, percentage_used=100)),
        Faults(media_errors=[MediaError(0, (1 << 64) - 1, MediaErrorOp.WRITE)]),
        unfit="media read only",
    ),
    Preset(
        "bad-after-erase",
        "blocks go bad with the erase: reads fail only when it is verified",
        PLAIN,
        Faults(media_errors=[MediaError(4096, 4111, erased_only=True)]),
        unfit="what cannot be read is not proved",
    ),
    Preset(
        "narrow-link",
        "erases well; its PCI Express link runs at one lane of four",
        replace(PLAIN, pci=PciIds(link_width_now=1)),
        unfit="link narrower than the drive",
    ),
    Preset(
        "twins",
        "another drive in the same host has the same serial number",
        replace(PLAIN, serial="TWIN0001"),
        unfit="two drives with one serial number: nobody knows which was erased",
        event=Event.TWIN,
    ),
)
"""Those that are fit come first."""
