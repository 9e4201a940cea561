"""The mount point: where the kernel has it, and what is mounted there."""

from __future__ import annotations

from .errors import Refusal
from .model import Machine, Wish
from .wish import of_the_system


def of(machine: Machine, wish: Wish) -> str:
    """Where the kernel has the mount: below a link (/srv to var/srv) by another path."""
    return machine.point or wish.mount


def mounted(machine: Machine, wish: Wish) -> tuple[str, ...]:
    """The options of the mount on our mount point; none where nothing is mounted."""
    point = of(machine, wish)
    found = [mount.options for mount in machine.mounts if mount.point == point]
    return found[-1] if found else ()


def all_of(machine: Machine, device: str) -> tuple[str, ...]:
    """Where a device is mounted."""
    return tuple(mount.point for mount in machine.mounts if device and mount.device == device)


def refuse_taken(machine: Machine, wish: Wish, device: str) -> None:
    """Raises :class:`Refusal` where it is the system's own, has a mount of another device, or is no
    directory."""
    point = of(machine, wish)
    if of_the_system(point):
        raise Refusal(
            (
                f"expected {wish.mount} to be a directory for data, it leads to the system's own "
                f"{point}",
            )
        )
    top = [mount for mount in machine.mounts if mount.point == point]
    if top and (not device or top[-1].device != device):
        raise Refusal(
            (f"expected {wish.mount} to be free or ours, found {top[-1].device} mounted there",)
        )
    if machine.no_directory:
        raise Refusal(
            (f"expected {wish.mount} to be a directory, found {machine.no_directory} there",)
        )
