"""Named drives: honest ones, what tenants leave, those that must never be handed out, and portraits
of models that are sold."""

from __future__ import annotations

from tests.lab.nvme.bad_drives import BAD_DRIVES
from tests.lab.nvme.composed import build
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.honest_drives import HONEST_DRIVES
from tests.lab.nvme.left_drives import LEFT_DRIVES
from tests.lab.nvme.portraits.portrait import PORTRAIT_DRIVES
from tests.lab.nvme.presetkind import Preset

PRESETS = {
    preset.name: preset for preset in (*HONEST_DRIVES, *LEFT_DRIVES, *BAD_DRIVES, *PORTRAIT_DRIVES)
}


def preset(name: str) -> Preset:
    """The preset of this name, ``composed:SEED`` too. Raises DriveError with those there are."""
    if name.startswith(build.PREFIX):
        return build.preset(name)
    try:
        return PRESETS[name]
    except KeyError:
        raise DriveError(f"no drive preset {name!r}; there are: {', '.join(PRESETS)}") from None
