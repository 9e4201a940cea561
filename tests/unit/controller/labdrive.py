"""The eraser's controller on the lab's drive model, without a kernel between them.

What nvme-cli would print is made up here in its words; the emulated tests have the real one.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from eraser.controller.nvme import Controller
from eraser.controller.passthru import message, passthru_argv, status_of
from eraser.controller.registers import Registers
from eraser.protocol.condition import Buffer
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.report import CommandRecord
from tests.lab.nvme.leftovers import Leftovers, apply
from tests.lab.nvme.profile import DriveProfile
from tests.unit.lab.model import SIZE, Bench, Memory


class LabController(Controller):
    """Every command goes to the model; nothing else of a host is there."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.address, self.path, self.name = "0000:01:00.0", "/dev/nvme0", "nvme0"
        self.timeout = 30.0
        self.records, self.asker, self.unended = [], None, set()
        self._descriptor = None

    def admin(
        self,
        opcode: int,
        *,
        nsid: int = 0,
        cdw10: int = 0,
        cdw11: int = 0,
        cdw12: int = 0,
        cdw13: int = 0,
        data_len: int = 0,
        send: bytes = b"",
        io: str = "",
        timeout: float,
        note: str = "",
    ) -> tuple[CommandRecord, bytes]:
        words = {"nsid": nsid, "cdw10": cdw10, "cdw11": cdw11, "cdw12": cdw12, "cdw13": cdw13}
        if io:
            assert io == self.block_devices()[nsid]
            memory = Memory(send or bytes(data_len))
            reply = self.bench.io(opcode, memory, **words)
            data = bytes(memory.content[:data_len])
        else:
            reply = self.bench.admin(opcode, send, **words)
            # The kernel's buffer, into which the drive has put as much as it had.
            data = (reply.data or b"")[:data_len].ljust(data_len, b"\0")
        good = reply.status == 0
        said = (
            f"Admin Command X is Success and result: {reply.dw0:#010x}"
            if good
            else f"NVMe status: X({reply.status:#x})"
        )
        record = CommandRecord(
            argv=passthru_argv(
                "nvme",
                io or self.path,
                opcode,
                nsid=nsid,
                cdw10=cdw10,
                cdw11=cdw11,
                cdw12=cdw12,
                cdw13=cdw13,
                data_len=data_len,
                send_len=len(send),
                io=bool(io),
                timeout=timeout,
            ),
            opcode=opcode,
            nsid=nsid,
            cdw10=cdw10,
            status=status_of(0 if good else 1, said),
            exit_code=0 if good else 1,
            message=message(note, said),
            started_at="",
            seconds=0.0,
            sent=send.rstrip(b"\0").hex(),
            cdw11=cdw11,
            cdw12=cdw12,
        )
        self.records.append(record)
        return record, data if good else b""

    def registers(self) -> Registers | None:
        buffer = self.bench.profile.buffer
        kind = Buffer.PMR if buffer is not None and buffer.persistent else Buffer.CMB
        return Registers(self.bench.profile.boot_partition_units, (kind,) if buffer else ())

    def buffers_by_driver(self) -> tuple[Buffer, ...]:
        return ()

    def check_place(self) -> None: ...

    def identity(self) -> ControllerIdentity:
        found, ids = self.identify(), self.bench.profile.pci
        return ControllerIdentity(
            ids.vendor, ids.device, ids.subsystem_vendor, ids.subsystem,
            found.serial, found.model, found.subnqn,
        )  # fmt: skip

    def block_devices(self) -> dict[int, str]:
        return {nsid: f"/dev/nvme0n{nsid}" for nsid in self.active_namespaces()}

    def rescan(self, *, timeout: float = 60.0) -> None: ...

    def wait_live(
        self, timeout: float, *, namespaces: bool = True, but: Collection[int] = ()
    ) -> None: ...

    def wait_namespaces(self, timeout: float) -> None: ...


FULL = DriveProfile(size=SIZE, namespace_management=True, reservations=True)


def lab_controller(
    directory: Path, profile: DriveProfile = FULL, left: Leftovers | None = None
) -> LabController:
    """A drive, perhaps as a tenant has left it."""
    bench = Bench(directory, profile)
    if left is not None:
        apply(bench.drive, left)
    return LabController(bench)
