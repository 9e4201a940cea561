"""Which drives are the instance's own: all NVMe drives but the system's, as many as expected."""

from __future__ import annotations

import fnmatch

from . import obstacles
from .errors import Refusal
from .model import Drive, Machine, Wish


def candidates(machine: Machine, wish: Wish) -> tuple[Drive, ...]:
    """The drives, by PCI address. Raises :class:`Refusal` when they are not the expected number."""
    own = [drive for drive in machine.drives if not drive.system and wanted(drive, wish.only)]
    own.sort(key=lambda drive: (drive.address, drive.name))
    if len(own) != wish.drives:
        lines = [f"expected {wish.drives} NVMe drives, found {len(own) or 'none'}" + _where(wish)]
        lines += [f"{drive.title}: {_state(drive, wish, machine)}" for drive in own]
        raise Refusal(tuple(lines))
    return tuple(own)


def wanted(drive: Drive, only: tuple[str, ...]) -> bool:
    """Whether a drive is among those asked for."""
    names = (drive.address, drive.serial, drive.model)
    return not only or any(
        fnmatch.fnmatchcase(name.lower(), pattern.lower()) for name in names for pattern in only
    )


def _where(wish: Wish) -> str:
    return f" that match {', '.join(wish.only)}" if wish.only else " beside the system's own"


def _state(drive: Drive, wish: Wish, machine: Machine) -> str:
    if drive.member is not None and drive.member.local_name == wish.name:
        member = drive.member
        return f"place {member.role} of {member.devices} in the array {obstacles.described(member)}"
    return ", and ".join(obstacles.of_a_drive(drive, wish, machine)) or "free"
