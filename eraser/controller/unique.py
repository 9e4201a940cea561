"""Two drives with one serial and model, or an empty serial: hold both (promise 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eraser.controller.spec import text
from eraser.errors import IdentityError
from eraser.host.sysfs import GONE, Host
from eraser.protocol.identity import ControllerIdentity


@dataclass(frozen=True)
class SeenController:
    """A controller of this host, as its driver read it."""

    address: str
    name: str
    serial: str
    model: str
    subsystem: str = ""
    """The NQN that the kernel knows it by; empty on a kernel that does not tell."""


def controllers(host: Host) -> tuple[SeenController, ...]:
    """Every NVMe controller of the host, also of fabrics. Raises :class:`IdentityError`."""
    found: list[SeenController] = []
    for name in host.children("/sys/class/nvme"):
        directory = f"/sys/class/nvme/{name}"
        try:
            address, serial, model = (
                _attribute(host, f"{directory}/{attribute}")
                for attribute in ("address", "serial", "model")
            )
        except OSError as error:
            if error.errno in GONE:
                continue  # unplugged, or on its way to a guest, while we looked
            raise IdentityError(
                f"expected to read serial and model of {name}, found {error.strerror}: cannot "
                "prove that the drive is unique"
            ) from error
        found.append(SeenController(address, name, serial, model, _subsystem(host, directory)))
    return tuple(found)


def _subsystem(host: Host, directory: str) -> str:
    try:
        return text(host.path(f"{directory}/subsysnqn").read_bytes().removesuffix(b"\n"))
    except OSError:
        return ""  # on its way out, which serial and model tell; or an older kernel


def _attribute(host: Host, path: str) -> str:
    return text(host.path(path).read_bytes().removesuffix(b"\n"))


def _as_sysfs(value: str) -> str:
    """The driver prints these fields as C strings: up to the first NUL."""
    return value.split("\0", 1)[0].strip(" ")


def same(identity: ControllerIdentity, seen: SeenController) -> bool:
    """Whether the controller has this drive's serial number and model, and that is one."""
    # One comes from Identify, the other from sysfs: both are cut as the driver cuts them.
    mine = (_as_sysfs(identity.serial), _as_sysfs(identity.model))
    return bool(mine[0]) and mine == (_as_sysfs(seen.serial), _as_sysfs(seen.model))


def check(identity: ControllerIdentity, address: str, others: Iterable[SeenController]) -> None:
    """Raises :class:`IdentityError` where the drive cannot be told from another. Pure.

    Nor where the kernel takes another controller for a second way to the same subsystem: it
    then may send a read of one drive's namespace to the other.
    """
    if not _as_sysfs(identity.serial):
        raise IdentityError(
            f"{address}: expected a serial number, found an empty one: the drive cannot be told "
            "from others; hold it"
        )
    others = tuple(others)
    # The NQN counts as the kernel has it, for the kernel decides by it what shares a subsystem.
    nqns = {other.subsystem for other in others if other.address == address} - {""}
    for other in others:
        if other.address != address and same(identity, other):
            raise IdentityError(
                f"{address}: expected the only drive with serial {identity.serial!r} and model "
                f"{identity.model!r}, found another at {other.address} ({other.name}); hold both"
            )
        if other.address != address and other.subsystem in nqns:
            raise IdentityError(
                f"{address}: expected the only controller of its subsystem, found another at "
                f"{other.address} ({other.name}), serial {other.serial!r}, with the same NQN; "
                "hold both"
            )


def check_unique(host: Host, identity: ControllerIdentity, address: str) -> None:
    """:func:`check` against every controller of this host. Raises :class:`IdentityError`."""
    check(identity, address, controllers(host))
