"""A bare Debian guest: booted by systemd, with the packages and wheels on a disk of their own."""

from __future__ import annotations

import secrets
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.lab.bare.image import BareImage
from tests.lab.errors import BuildError, GuestError
from tests.lab.guest import argv as command
from tests.lab.guest.argv import Sockets
from tests.lab.guest.build import Images
from tests.lab.guest.commands import Completed
from tests.lab.guest.machine import Machine
from tests.lab.guest.running import RunningGuest
from tests.lab.rack.drive import RackDrive

OFFERED: Final = "/srv/offered"
"""Where a guest has the packages and the wheels."""
MACHINE: Final = "10.0.2.2"
"""This machine's loopback, as guests see it."""
PATIENCE: Final = 900.0
"""Seconds that a step may take: everything is emulated."""

_MEMORY_MIB: Final = 1536
_CPUS: Final = 2
_BOOT_S: Final = 400.0
# No service of the guest asks for the network before the first command does.
_NETWORK: Final = """
ip link set eth0 up
ip addr add 10.0.2.15/24 dev eth0
ip link set eth1 up
ip addr add {address}/24 dev eth1
"""
_SOURCES: Final = f"""
mkdir -p {OFFERED}
mount -o ro /dev/disk/by-id/virtio-offered {OFFERED}
echo 'deb [trusted=yes] file:{OFFERED}/packages ./' >/etc/apt/sources.list
apt-get -q update
"""
# What every machine would have configured otherwise. Nothing is compiled at once: the guest is some
# ten times slower than we, and of the files of the dependencies most are never loaded.
_PIP: Final = f"""\
[global]
no-index = true
find-links = {OFFERED}/wheels
disable-pip-version-check = true
[install]
compile = false
"""


class Cable:
    """The network between two guests: whoever starts first has the end ``server``."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._ends = 0

    def end(self) -> list[str]:
        """QEMU's arguments for the next end."""
        self._ends += 1
        server = "on" if self._ends == 1 else "off"
        where = f"addr.type=unix,addr.path={command.escape(self.path)}"
        mac = f"52:54:00:00:01:{self._ends:02x}"
        return [
            *("-netdev", f"stream,id=cable,server={server},{where}"),
            *("-device", f"virtio-net-pci,netdev=cable,mac={mac},romfile="),
        ]


class BareGuest(RunningGuest):
    """A machine as it stands after the installation of Debian: ``name`` is its full name.

    ``address`` is its own on the cable. The environment of its commands has nothing of the lab.
    """

    def __init__(
        self,
        images: Images,
        bare: BareImage,
        name: str,
        address: str,
        directory: Path,
        short: Path,
    ) -> None:
        super().__init__(name, directory)
        short.mkdir(parents=True, exist_ok=True)
        self.address = address
        self._images = images
        self._bare = bare
        self._short = short
        self._overlay = directory / "root.qcow2"

    def plug_in(self, offered: Path, cable: Cable) -> None:
        """Begin to boot; ``settle`` waits for it. Raises ``BuildError``, ``GuestError``."""
        if self.is_on:
            raise GuestError(f"expected guest {self.name} to be off, it is on")
        create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw"]
        create += ["-b", str(self._bare.root), str(self._overlay)]
        done = subprocess.run(create, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise BuildError(f"qemu-img create failed: {done.stderr.strip()}")
        sockets = Sockets(self._short)
        line = self._command_line(sockets, offered, cable)
        self._machine = Machine([*self._images.qemu.command, *line], sockets, self.directory)

    def settle(self) -> None:
        """Wait until systemd is done, then configure what an installer asks for: the network, where
        apt and pip have packages from. Raises ``GuestError``, ``CommandFailed``."""
        self.machine.agent.wait(self.machine.agent.hello, _BOOT_S, "boot")
        self.sh("systemctl is-system-running --wait || true", timeout=_BOOT_S)
        self.put("/etc/pip.conf", _PIP)
        self.sh(_NETWORK.format(address=self.address))
        self.sh(_SOURCES, timeout=_BOOT_S)

    def _command_line(self, sockets: Sockets, offered: Path, cable: Cable) -> list[str]:
        arguments = f"root=/dev/vda rw {command.KERNEL_ARGUMENTS}"
        arguments += f" systemd.hostname={self.name} systemd.machine_id={secrets.token_hex(16)}"
        arguments += " systemd.firstboot=off fsck.mode=skip"
        console = self.directory / "console.log"
        accel = self._images.accel
        argv = command.chassis(accel, _MEMORY_MIB, _CPUS, sockets, console)
        argv += command.boot(self._bare.kernel, self._bare.initramfs, arguments)
        argv += command.disk("root", self._overlay, {"format": "qcow2", "cache": "unsafe"})
        argv += command.disk("offered", offered, {"format": "raw", "readonly": "on"})
        return argv + command.channels(sockets) + cable.end() + command.slots()

    def step(self, line: str, *, check: bool = True) -> Completed:
        """Run a line of the guide in root's own shell, in the directory that root works in."""
        return self.run(["/bin/bash", "-c", line], timeout=PATIENCE, env=dict(_ROOTS), check=check)

    def plug_drive(self, drive: RackDrive) -> None:
        """Put a drive into its slot while the guest runs, and wait for its namespace."""
        drive.wait_ready()
        address = self.plug(drive.slot, drive.host_socket)
        self.wait_for(f"/sys/bus/pci/devices/{address}/nvme/nvme*/nvme[0-9]*n[0-9]*")

    def journal(self, lines: int = 80) -> str:
        """The end of the system's journal."""
        return self.run(["journalctl", "--no-pager", "-n", str(lines)], check=False).stdout


# The agent's own environment names the project's sources and forbids to write compiled files.
_ROOTS: Final[Mapping[str, str]] = {"PYTHONPATH": "", "PYTHONDONTWRITEBYTECODE": ""}
