"""From a description to a drive of the model."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.description import Buffer, Description, Layout, description
from tests.lab.nvme.composed.liar import Composed
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import HEALTHY, Faults
from tests.lab.nvme.nature import Method
from tests.lab.nvme.presetkind import Preset
from tests.lab.nvme.profile import (
    BufferProfile,
    DriveProfile,
    FormatProfile,
    NamespaceProfile,
    SanitizeProfile,
)
from tests.lab.nvme.spec import Fid
from tests.lab.nvme.state import SavedFeature

PREFIX = "composed:"
"""Before a seed: the name of a preset."""

_DULBE = 1 << 16
_LAYOUTS = {
    Layout.ONE: (NamespaceProfile(),),
    Layout.TWO: (NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5)),
    Layout.ROOMY: (NamespaceProfile(1, 0.8),),
    Layout.ASIDE: (NamespaceProfile(1, 0.8), NamespaceProfile(2, 0.2, attached=False)),
}


def profile_of(drive: Description) -> tuple[DriveProfile, Faults]:
    """What the drive is, and what goes wrong with it openly."""
    able, has = drive.abilities, set(drive.abilities.methods)
    user = Method.FORMAT_USER in has
    profile = DriveProfile(
        model="NVMe Lab Composed",
        namespaces=_LAYOUTS[able.layout],
        namespace_management=able.management,
        metadata_formats=able.metadata,
        buffer={
            Buffer.NONE: None,
            Buffer.CMB: BufferProfile(),
            Buffer.PMR: BufferProfile(persistent=True),
        }[able.buffer],
        subsystem_reset=able.subsystem_reset,
        verify=able.verify,
        sanitize=SanitizeProfile(
            crypto=Method.SANITIZE_CRYPTO in has,
            block=Method.SANITIZE_BLOCK in has,
            overwrite=Method.SANITIZE_OVERWRITE in has,
        ),
        format=FormatProfile(
            supported=user or Method.FORMAT_CRYPTO in has, crypto=Method.FORMAT_CRYPTO in has
        ),
    )
    faults = HEALTHY
    for one in drive.odd:
        if one.kind.makes:
            profile, faults = one.kind.makes(profile, faults, one.number)
    return profile, faults


def nature_of(drive: Description, clock: Callable[[], float] = time.monotonic) -> Composed:
    """What it does beside; ``clock`` tells seconds to its triggers and manners."""
    return Composed(drive, clock)


def leave(drive: Drive, what: Description) -> None:
    """Do to a new drive what its description says that a tenant did."""
    if any(one.name == "deallocated-error" for one in what.odd):
        with drive.lock:
            for namespace in drive.state.namespaces:
                key = f"{Fid.ERROR_RECOVERY:02x}/{namespace.nsid}/0"
                drive.state.features[key] = SavedFeature(_DULBE)
            drive.save()


def quick(profile: DriveProfile) -> DriveProfile:
    """One whose erases take no time: for a drive that is asked in process."""
    sanitize = replace(
        profile.sanitize, crypto_seconds=0.0, block_seconds=0.0, overwrite_seconds=0.0
    )
    return replace(profile, sanitize=sanitize, format=replace(profile.format, seconds=0.0))


def drive_of(
    what: Description,
    backing: Path,
    *,
    size: int = 8 << 20,
    clock: Callable[[], float] = time.monotonic,
    at_once: bool = True,
) -> Drive:
    """The drive in process, erasing ``at_once`` or in the seconds that its description gives it.

    Raises DriveError on unusable files.
    """
    profile, faults = profile_of(what)
    profile = replace(quick(profile) if at_once else profile, size=size)
    drive = Drive(profile, backing, faults, nature_of(what, clock), clock)
    leave(drive, what)
    return drive


def preset_of(what: Description) -> Preset:
    """As a named drive of the lab."""
    profile, faults = profile_of(what)
    return Preset(
        what.name.replace("seed ", PREFIX),
        what.sentence,
        profile,
        faults,
        honest=what.honest,
        unfit="" if not what.honest or what.expected.value == "erased" else "oddities",
        composed=what,
    )


def preset(name: str) -> Preset:
    """The preset ``composed:SEED``. Raises DriveError for a seed that is no number."""
    seed = name.removeprefix(PREFIX)
    if not seed.isdigit():
        raise DriveError(f"{PREFIX} should be followed by a seed, found {seed!r}")
    return preset_of(compose(int(seed)))


def load(path: Path) -> Description:
    """The description in a file. Raises DriveError where there is none."""
    try:
        return description(json.loads(path.read_text()))
    except (OSError, ValueError) as error:
        raise DriveError(f"{path} should hold a drive's description: {error}") from error
