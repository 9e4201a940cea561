"""Two drives with one serial and model, or an empty serial: hold both (promise 3)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from eraser.drive.spec import text
from eraser.drive.sysfs import GONE, Host
from eraser.errors import IdentityError
from eraser.wire.identity import ControllerIdentity


@dataclass(frozen=True)
class Seen:
    """A controller of this host, as its driver read it."""

    address: str
    name: str
    serial: str
    model: str


def controllers(host: Host) -> tuple[Seen, ...]:
    """Every NVMe controller of the host, also of fabrics. Raises :class:`IdentityError`."""
    found: list[Seen] = []
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
        found.append(Seen(address, name, serial, model))
    return tuple(found)


def _attribute(host: Host, path: str) -> str:
    return text(host.path(path).read_bytes().removesuffix(b"\n"))


def _as_sysfs(value: str) -> str:
    """The driver prints these fields as C strings: up to the first NUL."""
    return value.split("\0", 1)[0].strip(" ")


def check(identity: ControllerIdentity, address: str, others: Iterable[Seen]) -> None:
    """Raises :class:`IdentityError` where the drive cannot be told from another. Pure."""
    if not _as_sysfs(identity.serial):
        raise IdentityError(
            f"{address}: expected a serial number, found an empty one: the drive cannot be told "
            "from others; hold it"
        )
    mine = (_as_sysfs(identity.serial), _as_sysfs(identity.model))
    for other in others:
        theirs = (_as_sysfs(other.serial), _as_sysfs(other.model))
        if other.address != address and theirs == mine:
            raise IdentityError(
                f"{address}: expected the only drive with serial {identity.serial!r} and model "
                f"{identity.model!r}, found another at {other.address} ({other.name}); hold both"
            )


def check_unique(host: Host, identity: ControllerIdentity, address: str) -> None:
    """:func:`check` against every controller of this host. Raises :class:`IdentityError`."""
    check(identity, address, controllers(host))
