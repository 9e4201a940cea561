"""Who a controller is, and where it sits.

Identity is the controller's own (promise 3): PCI ids, serial, model and subsystem NQN. EUI64, NGUID
and namespace ids are layout: a tenant can change them, and so does our own repair.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from eraser.protocol import codec

_ADDRESS = re.compile(
    r"(?P<domain>[0-9a-fA-F]{4,8}):(?P<bus>[0-9a-fA-F]{2}):(?P<device>[01][0-9a-fA-F])\.(?P<function>[0-7])"
)
_HOST = re.compile(r"[A-Za-z0-9]([A-Za-z0-9._-]{0,251}[A-Za-z0-9])?")


def pci_address(text: str) -> str:
    """The one form of a PCI address, as sysfs writes it: ``0000:01:00.0``.

    Raises ``ValueError`` when ``text`` is not ``DOMAIN:BUS:DEVICE.FUNCTION``.
    """
    if not (found := _ADDRESS.fullmatch(text)):
        raise ValueError(f"expected a PCI address such as 0000:01:00.0, found {text!r}")
    # sysfs has four digits of a domain, and more only where it needs them; some tools print eight.
    domain = f"{int(found['domain'], 16):04x}"
    return f"{domain}{text[found.end('domain') :].lower()}"


def host_name(text: str) -> str:
    """A host's name as Nova's hypervisor list has it. Raises ``ValueError``."""
    if not _HOST.fullmatch(text):
        raise ValueError(f"expected a host name (letters, digits, '.', '_', '-'), found {text!r}")
    return text


@dataclass(frozen=True, order=True)
class Slot:
    """A compute host and a PCI address: a place, whatever drive is in it."""

    host: str
    address: str

    def __post_init__(self) -> None:
        host_name(self.host)
        if pci_address(self.address) != self.address:
            raise ValueError(f"expected a PCI address in lower case, found {self.address!r}")

    def __str__(self) -> str:
        return f"{self.host}/{self.address}"

    @classmethod
    def parse(cls, text: str) -> Slot:
        """``HOST/0000:01:00.0``. Raises ``ValueError``."""
        host, _, address = text.rpartition("/")
        return cls(host_name(host), pci_address(address))


@dataclass(frozen=True)
class ControllerIdentity:
    """What names one controller wherever it is plugged in.

    The PCI ids are numbers of 16 bits from configuration space; ``serial``, ``model`` and
    ``subnqn`` are Identify Controller (CNS 01h) bytes 23:04, 63:24 and 1023:768 as Latin-1 text
    without trailing spaces and NULs. The serial is 20 bytes that firmware chose: never a file
    name, never markup, never a command's argument.
    """

    vendor_id: int
    device_id: int
    subsystem_vendor_id: int
    subsystem_device_id: int
    serial: str
    model: str
    subnqn: str

    def __post_init__(self) -> None:
        for number in (
            self.vendor_id,
            self.device_id,
            self.subsystem_vendor_id,
            self.subsystem_device_id,
        ):
            if not 0 <= number <= 0xFFFF:
                raise ValueError(f"expected a PCI id of 16 bits, found {number}")
        if len(self.serial) > 20 or len(self.model) > 40 or len(self.subnqn) > 256:
            raise ValueError("expected serial, model and subnqn of at most 20, 40 and 256 bytes")

    @property
    def digest(self) -> str:
        """64 hexadecimal digits that stand for this controller in file names and keys."""
        return codec.digest(self)

    def differences(self, other: ControllerIdentity) -> tuple[str, ...]:
        """The members that differ, each as ``name: expected X, found Y`` (X is ours)."""
        return tuple(
            f"{name}: expected {mine!r}, found {theirs!r}"
            for name, mine, theirs in (
                (name, getattr(self, name), getattr(other, name))
                for name in self.__dataclass_fields__
            )
            if mine != theirs
        )
