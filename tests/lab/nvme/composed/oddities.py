"""What is odd about an honest drive, and how its erase has to end all the same."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import EraseFault, Faults, MediaError
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.presetkind import Expected
from tests.lab.nvme.profile import ESTIMATE_UNKNOWN, DriveProfile

_QUIRK = "in drivers/nvme/host/pci.c, nvme_id_table"
_NOISE = Fill(FillKind.RANDOM, deallocated=False)
_BY_DIE = Fill(FillKind.DIES, "00ff", deallocated=False)
_BY_RANGE = Fill(FillKind.RANGES, "00ff", deallocated=False)


@dataclass(frozen=True, slots=True)
class Oddity:
    """One of them.

    ``says`` continues "it ..."; ``{n}`` is a number of ``numbers``. ``makes`` turns a profile and
    faults into those of a drive that is so; what lives at run time is in ``Manners``.
    """

    name: str
    says: str
    source: str
    numbers: tuple[int, ...] = (1,)
    expected: Expected = Expected.ERASED
    makes: Callable[[DriveProfile, Faults, int], tuple[DriveProfile, Faults]] | None = None
    needs_sanitize: bool = False
    group: str = ""
    """Of oddities of one group a drive has one."""


def _profile(
    **changes: object,
) -> Callable[[DriveProfile, Faults, int], tuple[DriveProfile, Faults]]:
    def makes(profile: DriveProfile, faults: Faults, _number: int) -> tuple[DriveProfile, Faults]:
        return replace(profile, **changes), faults  # type: ignore[arg-type]

    return makes


def _sanitize(
    **changes: object,
) -> Callable[[DriveProfile, Faults, int], tuple[DriveProfile, Faults]]:
    def makes(profile: DriveProfile, faults: Faults, _number: int) -> tuple[DriveProfile, Faults]:
        return replace(profile, sanitize=replace(profile.sanitize, **changes)), faults  # type: ignore[arg-type]

    return makes


def _faults(
    **changes: object,
) -> Callable[[DriveProfile, Faults, int], tuple[DriveProfile, Faults]]:
    def makes(profile: DriveProfile, faults: Faults, _number: int) -> tuple[DriveProfile, Faults]:
        return profile, replace(faults, **changes)  # type: ignore[arg-type]

    return makes


def _ready(profile: DriveProfile, faults: Faults, number: int) -> tuple[DriveProfile, Faults]:
    return replace(profile, ready_seconds=float(number)), faults


def _leaves(fill: Fill) -> Callable[[DriveProfile, Faults, int], tuple[DriveProfile, Faults]]:
    """What any erase leaves, under a DLFEAT that reports nothing."""

    def makes(profile: DriveProfile, faults: Faults, _number: int) -> tuple[DriveProfile, Faults]:
        sanitize = replace(profile.sanitize, crypto_leaves=fill, block_leaves=fill)
        form = replace(profile.format, crypto_leaves=fill, secure_leaves=fill)
        return replace(profile, sanitize=sanitize, format=form, dlfeat=0), faults

    return makes


def _slower(profile: DriveProfile, faults: Faults, number: int) -> tuple[DriveProfile, Faults]:
    sanitize = replace(
        profile.sanitize,
        estimate_crypto=1,
        estimate_block=1,
        estimate_overwrite=1,
        crypto_seconds=float(number),
        block_seconds=float(number),
        overwrite_seconds=float(number),
    )
    return replace(profile, sanitize=sanitize), faults


def _unreadable(profile: DriveProfile, faults: Faults, number: int) -> tuple[DriveProfile, Faults]:
    bad = [MediaError(first, first, erased_only=True) for first in range(8, 8 + 64 * number, 64)]
    return profile, replace(faults, media_errors=bad)


def _transfer(profile: DriveProfile, faults: Faults, number: int) -> tuple[DriveProfile, Faults]:
    return replace(profile, mdts=number), faults


ODDITIES: tuple[Oddity, ...] = (
    Oddity(
        "not-ready",
        "answers reads and writes with Namespace Not Ready, retry later, for {n} s after a driver "
        "took it",
        "github.com/linux-nvme/nvme-cli/issues/609 (20 to 30 s); status 82h, Base 3.3.3.2",
        (2, 20),
        group="ready",
    ),
    Oddity(
        "media-not-ready",
        "answers Format, Sanitize and namespace management with Admin Command Media Not Ready, "
        "retry later, for {n} s after a driver took it",
        "status 24h, Base 3.3.3.2; CRTO and CC.CRIME: Base 3.1.3, 3.5.1",
        (2, 10),
        group="ready",
    ),
    Oddity(
        "slow-to-wake",
        "takes {n} s from being enabled to being ready",
        f"NVME_QUIRK_DELAY_BEFORE_CHK_RDY (2 s) {_QUIRK}, 1c58:0003, 144d:a821",
        (1, 3),
        makes=_ready,
        group="ready",
    ),
    Oddity(
        "slow-reset",
        "answers a quarter of a second after a function level reset",
        "delay_250ms_after_flr in drivers/pci/quirks.c, 8086:0953",
        makes=_profile(flr_seconds=0.25),
    ),
    Oddity(
        "interrupted",
        "answers each command number {n} with Command Interrupted, retry later",
        "status 21h, Base 3.3.3.2; github.com/linux-nvme/nvme-cli/pull/535",
        (17, 101),
    ),
    Oddity(
        "read-retry",
        "fails the first read of one page of {n} with Unrecovered Read Error, without Do Not "
        "Retry, and no other",
        "status 281h and DNR, Base 3.3.3.2; read recovery: RRL, feature 12h",
        (50, 500),
    ),
    Oddity(
        "slower-than-said",
        "says that a sanitize takes 1 s, and takes {n} s",
        "estimates of log 81h are estimates: Base 5.16.1.25",
        (5,),
        makes=_slower,
        needs_sanitize=True,
        group="pace",
    ),
    Oddity(
        "instant",
        "is done with a sanitize before anybody can look",
        "an estimate of 0 is one done with the command: Base 5.16.1.25",
        makes=_sanitize(
            crypto_seconds=0.0,
            block_seconds=0.0,
            overwrite_seconds=0.0,
            estimate_crypto=0,
            estimate_block=0,
            estimate_overwrite=0,
        ),
        needs_sanitize=True,
        group="pace",
    ),
    Oddity(
        "no-estimates",
        "reports no time for any sanitize",
        "FFFFFFFFh in log 81h: Base 5.16.1.25; github.com/linux-nvme/nvme-cli/issues/3027",
        makes=_sanitize(
            estimate_crypto=ESTIMATE_UNKNOWN,
            estimate_block=ESTIMATE_UNKNOWN,
            estimate_overwrite=ESTIMATE_UNKNOWN,
        ),
        needs_sanitize=True,
    ),
    Oddity(
        "flat-progress",
        "shows a progress of {n} of 65536 from the start of a sanitize to its end",
        "SPROG is a fraction, of what is the drive's affair: Base 5.16.1.25; 655 in "
        "github.com/linux-nvme/nvme-cli/issues/3027",
        (0, 655),
        needs_sanitize=True,
    ),
    Oddity(
        "stuck",
        "stops at one per cent of a sanitize for ever",
        "github.com/linux-nvme/nvme-cli/issues/3027, 1784 and 752 (Intel 660p, 655 of 65536)",
        expected=Expected.HELD,
        makes=_faults(sanitize=EraseFault.STUCK, sanitize_at=0.01),
        needs_sanitize=True,
        group="pace",
    ),
    Oddity(
        "fails",
        "fails every sanitize half way",
        "SSTAT 3: Base 5.16.1.25, 8.21",
        expected=Expected.HELD,
        makes=_faults(sanitize=EraseFault.FAIL),
        needs_sanitize=True,
        group="pace",
    ),
    Oddity(
        "silent",
        "reports nothing of what deallocated blocks read as; they are zeros",
        "DLFEAT 000b: NVM 4.1.5.1",
        makes=_profile(dlfeat=0),
        group="fill",
    ),
    Oddity(
        "ones",
        "reads as FFh where it was erased",
        "DLFEAT 010b: NVM 4.1.5.1",
        makes=_profile(dlfeat=2, deallocated_reads=Fill(FillKind.ONES)),
        group="fill",
    ),
    Oddity(
        "by-die",
        "reads as 00h or FFh where it was erased, in turns of 64 KiB, and reports neither",
        "an erased flash cell is a one, a die may be inverted or scrambled; DLFEAT 000b: "
        "NVM 4.1.5.1",
        makes=_leaves(_BY_DIE),
        group="fill",
    ),
    Oddity(
        "by-range",
        "reads as 00h or FFh where it was erased, in turns of 4 MiB, and reports neither",
        "the value of a deallocated block may differ from one to the next: NVM 3.2.3.2.1, "
        "DLFEAT 000b",
        makes=_leaves(_BY_RANGE),
        group="fill",
    ),
    Oddity(
        "scrambled",
        "reads as noise where it was erased, and reports nothing",
        "old cipher text under a new key: Base 8.21; github.com/linux-nvme/nvme-cli/issues/1107, "
        "1465",
        makes=_leaves(_NOISE),
        group="fill",
    ),
    Oddity(
        "deallocated-error",
        "fails reads of deallocated blocks, as a tenant saved that it shall",
        "DULBE: feature 05h, NVM 4.1.3; status 287h",
    ),
    Oddity(
        "unreadable",
        "has {n} blocks that cannot be read from an erase on",
        "status 281h: NVM 4.1.1",
        (1, 4),
        expected=Expected.HELD,
        makes=_unreadable,
    ),
    Oddity(
        "small-transfers",
        "transfers {n} times doubled pages of 4 KiB at most",
        "MDTS: Base 5.17.2.1; 5 on 1c5f:1c5f in github.com/vitalif/vitastor/issues/79",
        (1, 5),
        makes=_transfer,
        group="transfer",
    ),
    Oddity(
        "any-transfer",
        "reports no largest transfer",
        "MDTS 0: Base 5.17.2.1",
        makes=_profile(mdts=0),
        group="transfer",
    ),
    Oddity(
        "capacity-unreported",
        "reports no capacity but that of its namespace",
        "TNVMCAP is for drives with namespace management: Base 5.17.2.1",
        makes=_profile(reports_capacity=False, namespace_management=False),
    ),
    Oddity(
        "no-ids",
        "has neither EUI64 nor NGUID",
        f"NVME_QUIRK_BOGUS_NID {_QUIRK}, 8086:0a54 (Intel P4500) and dozens more",
        makes=_profile(reports_ids=False),
    ),
    Oddity(
        "no-nqn",
        "has no subsystem NQN",
        f"NVME_QUIRK_IGNORE_DEV_SUBNQN {_QUIRK}, 8086:0a54, 1344:5407",
        makes=_profile(reports_nqn=False),
    ),
    Oddity(
        "old",
        "speaks NVMe 1.3",
        "VS: Base 3.1.3.2; Sanitize came with 1.3",
        makes=_profile(version=0x00010300),
    ),
    Oddity(
        "keeps-deallocated",
        "takes no hint: a deallocated block keeps its data until it is erased",
        "the controller may deallocate: NVM 3.2.3",
        makes=_profile(keeps_deallocated=True),
    ),
    Oddity(
        "no-write-zeroes",
        "has no Write Zeroes",
        f"ONCS bit 3: Base 5.17.2.1; NVME_QUIRK_DISABLE_WRITE_ZEROES {_QUIRK}, 144d:a809",
        makes=_profile(write_zeroes=False),
    ),
    Oddity(
        "old-health",
        "brings its health log up to date every ten minutes",
        "nothing in Base 5.16.1.3 says how fresh it is",
        makes=lambda profile, faults, _number: (
            replace(profile, smart=replace(profile.smart, lag_seconds=600.0)),
            faults,
        ),
    ),
)

BY_NAME = {oddity.name: oddity for oddity in ODDITIES}


@dataclass(frozen=True, slots=True)
class Odd:
    """An oddity of a drive."""

    name: str
    number: int = 1

    def check(self) -> None:
        """Raises DriveError that names what is wrong."""
        if self.name not in BY_NAME or self.number < 0:
            raise DriveError(f"no oddity {self.name!r}; there are: {', '.join(BY_NAME)}")

    @property
    def kind(self) -> Oddity:
        """What it is."""
        return BY_NAME[self.name]

    @property
    def sentence(self) -> str:
        """The drive does so, in plain words."""
        if self.name == "small-transfers":
            return f"transfers {4 << self.number} KiB at most"
        if self.name == "unreadable" and self.number == 1:
            return "has a block that cannot be read from an erase on"
        return self.kind.says.format(n=self.number)
