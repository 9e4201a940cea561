"""What a host does to a drive, as the drive hears it: commands, resets, a driver that takes it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from tests.lab.nvme.spec import AdminOp, Command, NvmOp


class Reset(StrEnum):
    """Ways to reset a drive (Base 3.7).

    CONTROLLER: CC.EN cleared (3.7.2). SUBSYSTEM: NSSR (3.7.1). FUNCTION: function level reset of
    PCI Express, as vfio does it before and after a guest. BUS: conventional or hot reset of the
    bus, as a host's boot and a bridge do it. POWER: off and on.
    """

    CONTROLLER = "controller"
    SUBSYSTEM = "subsystem"
    FUNCTION = "function"
    BUS = "bus"
    POWER = "power"


class Kind(StrEnum):
    """What sort of act it is. TAKEN: a driver set CC.EN. LEFT: a driver announced a shutdown."""

    ADMIN = "admin"
    IO = "io"
    RESET = "reset"
    TAKEN = "taken"
    LEFT = "left"


READS = frozenset({NvmOp.READ, NvmOp.COMPARE})
"""I/O commands that look at what the media holds."""

WRITES = frozenset({NvmOp.WRITE, NvmOp.WRITE_ZEROES})
"""I/O commands that put data there."""


@dataclass(frozen=True, slots=True)
class Act:
    """One thing that the host did.

    ``start`` and ``end`` are the bytes of the media that an I/O command names, both 0 where it
    names none. ``block`` is the size of a logical block of its namespace, bytes.
    """

    kind: Kind
    command: Command | None = None
    queue: int = 0
    reset: Reset | None = None
    start: int = 0
    end: int = 0
    block: int = 512

    @property
    def opcode(self) -> int:
        """Opcode of a command, -1 of anything else."""
        return self.command.opcode if self.command else -1

    @property
    def reads(self) -> bool:
        """Whether it reads blocks."""
        return self.kind is Kind.IO and self.opcode in READS and self.end > self.start

    @property
    def writes(self) -> bool:
        """Whether it writes blocks."""
        return self.kind is Kind.IO and self.opcode in WRITES and self.end > self.start

    def is_admin(self, opcode: AdminOp) -> bool:
        """Whether it is this admin command."""
        return self.kind is Kind.ADMIN and self.opcode == opcode

    def is_io(self, opcode: NvmOp) -> bool:
        """Whether it is this I/O command."""
        return self.kind is Kind.IO and self.opcode == opcode
