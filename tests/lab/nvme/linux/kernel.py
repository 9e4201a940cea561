"""The nvme driver and the block layer, as the eraser meets them: sysfs, ioctl, reads, resets."""

from __future__ import annotations

import ctypes
import errno
import itertools
import os
import shutil
import struct
from pathlib import Path

from eraser.host.proc import ALL_PIDS
from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.host import Answer, Host, Namespace
from tests.lab.nvme.errors import DriveError

ADDRESS = "0000:01:00.0"
QUEUES = 8
"""One for each processor."""
ADMIN_CMD, IO_CMD = 0xC0484E41, 0xC0484E43
"""NVME_IOCTL_ADMIN_CMD, NVME_IOCTL_IO_CMD (linux/nvme_ioctl.h)."""
COMMAND = struct.Struct("<BBHIIIQQIIIIIIIIII")
"""struct nvme_passthru_cmd (linux/nvme_ioctl.h)."""
DNR = 0x4000
_RETRIES = 5
"""nvme_max_retries (drivers/nvme/host/core.c): of the driver's own commands and the block layer's;
one that user space passes through is sent once."""
_FUA = 1 << 30
_NSSRS, _NVME = 1 << 36 - 32, 0x4E564D65
"""CAP bit 36 and what NSSR wants to be written (Base 2.0, 3.1.3.1 and 3.1.3.7)."""
_ONCS_TIMESTAMP = 1 << 6
"""Base 2.0, figure 275: the Timestamp feature is supported."""
_NOW = 1_800_000_000_000
"""Milliseconds since 1970."""


class Kernel:
    """One host with one drive. ``root`` becomes the root of its file systems."""

    strict = False
    """CONFIG_IO_STRICT_DEVMEM without ``iomem=relaxed``: nobody maps the registers of a drive that
    the driver has."""

    resettable = ("flr", "bus")
    """Ways to reset the function, in the order in which the kernel tries them."""
    loses_link = False
    """A reset of the subsystem takes the link down, and the slot tells nobody: the function has no
    addresses until it is looked for anew."""

    def __init__(self, host: Host, root: Path) -> None:
        """The driver takes the drive."""
        self.host = host
        self.root = root
        self.queue = 1
        """Of the processor that everything runs on just now."""
        self.name = ""
        """Of the controller. The kernel deals out another one while somebody still holds the old
        one open (nvme_init_ctrl and nvme_free_ctrl in drivers/nvme/host/core.c), so it is another
        one here each time that the driver takes the drive."""
        self._taken = 0
        self._lost = False
        self._make_sysfs()
        self._bring_up()

    # sysfs

    @property
    def function(self) -> Path:
        """The directory of the PCI function."""
        return self.root / "sys/bus/pci/devices" / ADDRESS

    @property
    def scan_file(self) -> Path:
        """Has the bus of the function looked over anew (bus_rescan_store)."""
        return self.root / "sys/class/pci_bus" / ADDRESS.rpartition(":")[0] / "rescan"

    def _make_sysfs(self) -> None:
        self._make_function()
        driver = self.root / "sys/bus/pci/drivers/nvme"
        driver.mkdir(parents=True)
        self.scan_file.parent.mkdir(parents=True)
        self.scan_file.touch()
        (self.root / "dev").mkdir()
        self._make_proc()

    def _make_proc(self) -> None:
        """A host on which nothing runs but its first process."""
        first = self.root / "proc/1"
        (first / "fd").mkdir(parents=True)
        (first / "ns").mkdir()
        (first / "ns/mnt").symlink_to("mnt:[1]")
        (first / "root").symlink_to("/")
        (self.root / "proc/self/ns").mkdir(parents=True)
        (self.root / "proc/self/ns/pid").symlink_to(ALL_PIDS)
        (first / "comm").write_text("init\n")
        self.mounted()
        (self.root / "proc/swaps").write_text("Filename\tType\tSize\tUsed\tPriority\n")
        (self.root / "proc/cmdline").write_text("quiet\n")
        boot = self.root / "proc/sys/kernel/random/boot_id"
        boot.parent.mkdir(parents=True)
        boot.write_text("9d4b9cd5-5b8e-4b0f-a4a5-b9a3b2a4d1c0\n")

    def mounted(self, *nsids: int) -> None:
        """These namespaces alone are mounted from now on."""
        lines = ["21 1 0:1 / / rw - overlay overlay rw"]
        names = {nsid: Path(self.path(nsid)).name for nsid in nsids}
        lines += [f"3{n} 21 259:{n} / /mnt rw - xfs /dev/{names[n]} rw" for n in nsids]
        (self.root / "proc/1/mountinfo").write_text("\n".join(lines) + "\n")

    def _make_function(self) -> None:
        self.function.mkdir(parents=True)
        ids = self.host.drive.profile.pci
        for name, value in (
            ("vendor", ids.vendor),
            ("device", ids.device),
            ("subsystem_vendor", ids.subsystem_vendor),
            ("subsystem_device", ids.subsystem),
        ):
            (self.function / name).write_text(f"{value:#06x}\n")
        if self.resettable:
            (self.function / "reset").write_text("")
        self.choose(list(self.resettable))

    def _show_registers(self, *, free: bool) -> None:
        """A look alone, which changes nothing in the drive."""
        registers = self.host.register(0, 4096).to_bytes(4096, "little")
        shown = free or not self.strict
        (self.function / "resource0").write_bytes(registers if shown else b"")

    def _bring_up(self) -> None:
        self._show_registers(free=False)
        self.name, self._taken = f"nvme{self._taken}", self._taken + 1
        self._numbers: dict[int, int] = {}
        controller = self.function / "nvme" / self.name
        controller.mkdir(parents=True)
        (self.function / "driver").symlink_to(self.root / "sys/bus/pci/drivers/nvme")
        # Nobody opens the node for more than its number: any character device will do.
        null = os.stat(os.devnull).st_rdev
        (controller / "dev").write_text(f"{os.major(null)}:{os.minor(null)}\n")
        (self.root / "dev" / self.name).symlink_to(os.devnull)
        self._say("live")
        try:
            self.host.bring_up(QUEUES)
        except DriveError:
            self._say("dead")
            return
        self._start()

    def _show_controller(self, told: bytes) -> None:
        """What the driver knows of the controller by itself, since it brought it up."""
        shown = self.root / "sys/class/nvme" / self.name
        if shown.exists():
            return
        shown.mkdir(parents=True)
        for name, value in (
            ("address", ADDRESS.encode()),
            ("serial", told[4:24]),
            ("model", told[24:64]),
            ("subsysnqn", told[768:1024].rstrip(b"\0")),
        ):
            (shown / name).write_bytes(value + b"\n")

    def _say(self, state: str) -> None:
        self._state = state
        (self.function / "nvme" / self.name / "state").write_text(state + "\n")

    @property
    def live(self) -> bool:
        """The driver has not given the drive up."""
        return self._state == "live"

    def _start(self) -> None:
        """What the driver does with a drive that is ready: it tells the time
        (nvme_configure_timestamp in drivers/nvme/host/core.c), and looks for namespaces."""
        told = self.host.identify(0x01)
        self._show_controller(told)
        if int.from_bytes(told[520:522], "little") & _ONCS_TIMESTAMP:
            self.host.command(0, 0x09, send=_NOW.to_bytes(8, "little"), cdw10=0x0E)
        self.scan()

    def scan(self) -> None:
        """Look which namespaces there are; each that describes itself gets its disk."""
        controller = self.function / "nvme" / self.name
        self.disks: dict[int, Namespace] = {}
        for nsid in self.host.namespaces():
            found = self.host.namespace(nsid)
            if found.size:
                self.disks[nsid] = found
        self._number()
        for old in controller.glob(f"{self.name}n*"):
            for file in old.iterdir():
                file.unlink()
            old.rmdir()
        for old in (self.root / "dev").glob(f"{self.name}n*"):
            old.unlink()
        for nsid in self.disks:
            Path(self.path(nsid)).touch()
            disk = controller / Path(self.path(nsid)).name
            disk.mkdir()
            (disk / "nsid").write_text(f"{nsid}\n")
            (disk / "dev").write_text(f"259:{nsid}\n")

    def _number(self) -> None:
        """The lowest free number to each new disk: it is not the id of its namespace
        (nvme_alloc_ns_head in drivers/nvme/host/core.c)."""
        kept = {nsid: number for nsid, number in self._numbers.items() if nsid in self.disks}
        for nsid in sorted(self.disks.keys() - kept.keys()):
            kept[nsid] = next(n for n in itertools.count(1) if n not in kept.values())
        self._numbers = kept

    def path(self, nsid: int) -> str:
        """Of a namespace's block device."""
        return str(self.root / f"dev/{self.name}n{self._numbers[nsid]}")

    def disk(self, path: str) -> Namespace:
        """The namespace of a block device. Raises ``OSError`` where there is none."""
        for nsid, found in self.disks.items():
            if path == self.path(nsid):
                return found
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT), path)

    def unbind(self) -> None:
        """The driver lets go of the drive, and tells it so. Raises ``OSError`` where it has not
        got it."""
        if not (self.function / "driver").exists():
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        # To a controller that is reset and not ready the driver announces nothing.
        if self.live and self.host.register(0x1C) & 1:
            self.host.shut_down()
        self.disks = {}
        shutil.rmtree(self.function / "nvme")
        shutil.rmtree(self.root / "sys/class/nvme", ignore_errors=True)
        for gone in (self.root / "dev").glob("nvme*"):
            gone.unlink()
        (self.function / "driver").unlink()
        self._show_registers(free=True)

    def bind(self) -> None:
        """The driver takes the drive. Raises ``OSError`` where it has it already."""
        if (self.function / "driver").exists() or not self.function.exists():
            raise OSError(errno.EBUSY, os.strerror(errno.EBUSY))
        if self._lost:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        self._bring_up()

    # Resets

    def reset(self, how: Reset = Reset.CONTROLLER) -> bool:
        """Reset the drive and take it again; whether it is live afterwards."""
        try:
            self.host.reset(how, QUEUES)
        except DriveError:
            self._say("dead")
            return False
        self._say("live")
        self._start()
        return True

    def reset_methods(self) -> list[str]:
        """Those of ``reset_method``, as it is now."""
        return (self.function / "reset_method").read_text().split()

    def choose(self, methods: list[str]) -> None:
        """Have these alone. Raises ``OSError`` for one that the function does not have."""
        if not set(methods) <= set(self.resettable):
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        (self.function / "reset_method").write_text(" ".join(methods) + "\n")

    def reset_subsystem(self) -> bool:
        """NVME_IOCTL_SUBSYS_RESET: the register is written, and the driver does not look what
        became of the drive. False where the drive has no such reset (CAP.NSSRS)."""
        if not self.host.register(0x04) & _NSSRS:
            return False
        self.host.set_register(0x20, _NVME)
        self._lost = self.loses_link
        return True

    def remove(self) -> None:
        """The function is forgotten, its driver too."""
        if (self.function / "driver").exists():
            self.unbind()
        shutil.rmtree(self.function)

    def find(self) -> None:
        """Look for functions anew; each gets its addresses and its driver."""
        self._lost = False
        if not self.function.exists():
            self._make_function()
            self._bring_up()

    # Commands

    def send(
        self,
        opcode: int,
        *,
        nsid: int = 0,
        send: bytes = b"",
        receive: int = 0,
        metadata: int | bytes = 0,
        shift: int = 0,
        io: bool = False,
        **dwords: int,
    ) -> Answer:
        """One command as user space passes it through. Raises ``OSError`` for a dead drive."""
        if not self.live:
            raise OSError(errno.ENODEV, os.strerror(errno.ENODEV))
        try:
            answer = self.host.command(
                self.queue if io else 0,
                opcode,
                nsid=nsid,
                send=send,
                receive=receive,
                metadata=metadata,
                shift=shift,
                **dwords,
            )
        except DriveError as error:  # no answer within the time-out
            self.reset()
            raise OSError(errno.EINTR, os.strerror(errno.EINTR)) from error
        if not io and opcode in (0x0D, 0x15, 0x80, 0x84):
            self.scan()  # the effects that the log of commands has for them
        return answer

    def ioctl(self, _descriptor: int, request: int, raw: bytearray, _mutate: bool = True) -> int:
        """NVME_IOCTL_ADMIN_CMD and _IO_CMD: the status as the kernel gives it, 15 bits."""
        fields = list(COMMAND.unpack(raw))
        opcode, nsid, metadata, data = fields[0], fields[3], fields[6], fields[7]
        beside, length, dwords = fields[8], fields[9], fields[10:16]
        sends = opcode & 1 == 1  # bit 0: from the host to the drive (NVM 1.0, figure 16)
        answer = self.send(
            opcode,
            nsid=nsid,
            send=ctypes.string_at(data, length) if sends and length else b"",
            receive=0 if sends else length,
            metadata=ctypes.string_at(metadata, beside) if sends and beside else beside,
            shift=data % 4096 if request == IO_CMD else 0,
            io=request == IO_CMD,
            **{f"cdw{10 + at}": dword for at, dword in enumerate(dwords)},
        )
        if answer.code == 0 and not sends:
            ctypes.memmove(data, answer.data, len(answer.data))
            ctypes.memmove(metadata, answer.metadata, len(answer.metadata))
        fields[17] = answer.dw0
        raw[:] = COMMAND.pack(*fields)
        return status_of(answer)

    # The block layer

    def read(self, path: str, offset: int, length: int) -> bytes:
        """A direct read, split as the drive allows. Raises ``OSError``."""
        where, found = self.disk(path), b""
        while len(found) < length:
            step = min(length - len(found), self.host.transfer)
            first = (offset + len(found)) // where.block
            found += self._block(
                0x02,
                where,
                first,
                receive=step,
                metadata=step // where.block * where.metadata,
                cdw12=step // where.block - 1,
            )
        return found

    def write(self, path: str, offset: int, data: bytes) -> None:
        """A direct write with O_DSYNC, which is FUA. Raises ``OSError``."""
        where = self.disk(path)
        self._block(
            0x01,
            where,
            offset // where.block,
            send=data,
            metadata=bytes(len(data) // where.block * where.metadata),
            cdw12=len(data) // where.block - 1 | _FUA,
        )

    def _block(
        self,
        opcode: int,
        where: Namespace,
        first: int,
        *,
        send: bytes = b"",
        receive: int = 0,
        metadata: int | bytes,
        cdw12: int,
    ) -> bytes:
        for _ in range(1 + _RETRIES):
            if not self.live:
                break
            try:
                answer = self.host.command(
                    self.queue,
                    opcode,
                    nsid=where.nsid,
                    send=send,
                    receive=receive,
                    metadata=metadata,
                    cdw10=first & 0xFFFFFFFF,
                    cdw11=first >> 32,
                    cdw12=cdw12,
                )
            except DriveError:
                self.reset()
                break
            if answer.code == 0:
                return answer.data
            if not answer.again:
                break
        raise OSError(errno.EIO, os.strerror(errno.EIO))


def status_of(answer: Answer) -> int:
    """The 15 bits of a completion's status that the kernel gives to user space."""
    return answer.code | (DNR if answer.code and not answer.again else 0)
