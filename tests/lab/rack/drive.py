"""A drive of the rack: one server process, one backing file, a socket for each who plugs it in."""

import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from subprocess import Popen
from typing import Final

from tests.lab.errors import LabError
from tests.lab.guest import processes
from tests.lab.guest.payload import REPOSITORY
from tests.lab.guest.running import RunningGuest
from tests.lab.nvme.commandlog import (
    LoggedCommand,
    LoggedEvent,
    log_path,
    read_commands,
    read_events,
)
from tests.lab.nvme.control import DriveControl
from tests.lab.nvme.faults import Faults
from tests.lab.rack import audit

_READY_S: Final = 60.0
_POLL_S: Final = 0.02
DEFAULT_SIZE: Final = 1 << 30
"""Bytes of a drive when a test names no size."""


class RackDrive:
    """A drive in a slot of a compute host.

    ``address`` is its PCI address there. The compute guest and a tenant guest have a socket each,
    as both see the same drive one after the other.
    """

    def __init__(
        self,
        *,
        slot: int,
        address: str,
        host: str,
        serial: str,
        preset: str,
        size: int,
        directory: Path,
        short: Path,
        options: tuple[str, ...] = (),
    ) -> None:
        self.slot = slot
        self.address = address
        self.host = host
        self.serial = serial
        self.preset = preset
        self.size = size
        self._options = options
        directory.mkdir(parents=True, exist_ok=True)
        short.mkdir(parents=True, exist_ok=True)
        self.backing = directory / "media"
        self.command_log = log_path(self.backing)
        self.log = directory / "server.log"
        self.host_socket = short / "host"
        self.tenant_socket = short / "tenant"
        self.control_socket = short / "control"
        self._process: Popen[bytes] | None = None

    # The server

    def start(self) -> None:
        """Start the server process (again); ``wait_ready`` before use."""
        self.log.unlink(missing_ok=True)
        argv = [sys.executable, "-m", "tests.lab.nvme.server"]
        argv += ["--backing", str(self.backing), "--size", str(self.size)]
        argv += ["--serial", self.serial, "--preset", self.preset]
        argv += ["--socket", str(self.host_socket), "--socket", str(self.tenant_socket)]
        argv += ["--control", str(self.control_socket), *self._options]
        environment = dict(os.environ, PYTHONPATH=str(REPOSITORY))
        self._process = processes.start(argv, self.log, env=environment, cwd=REPOSITORY)

    def wait_ready(self) -> None:
        """Wait until every socket is served. Raises ``LabError``."""
        deadline = time.monotonic() + _READY_S
        while not self._ready():
            if self._process is None or self._process.poll() is not None:
                raise LabError(f"drive {self.serial} did not start: {processes.tail(self.log, 5)}")
            if time.monotonic() > deadline:
                raise LabError(f"expected drive {self.serial} to serve within {_READY_S:g} s")
            time.sleep(_POLL_S)

    @property
    def pid(self) -> int:
        """The server's process id. Raises ``LabError`` when it is not running."""
        if self._process is None:
            raise LabError(f"expected drive {self.serial} to be served, it was stopped")
        return self._process.pid

    def kill(self) -> None:
        """Kill the server: the drive vanishes from the bus in the middle of whatever it does."""
        if self._process is not None:
            processes.stop(self._process, kill=True)
            self._process = None

    def plug_into(self, guest: RunningGuest) -> str:
        """Put it into its slot of a compute guest; its PCI address there."""
        return guest.plug(self.slot, self.host_socket)

    # Steering

    def control(self) -> DriveControl:
        """Connect to the drive's control socket; close it, or use it as a context manager."""
        self.wait_ready()
        return DriveControl(self.control_socket)

    def set_faults(self, faults: Faults) -> None:
        """Replace the drive's faults at run time."""
        with self.control() as control:
            control.set_faults(faults)

    def powered(self) -> bool:
        """Whether it has power; a drive that was pulled has none."""
        with self.control() as control:
            return control.powered()

    def power_cycle(self) -> None:
        """Take the drive's power away and give it back; an interrupted sanitize goes on."""
        with self.control() as control:
            control.power_cycle()

    # What it was told and what it keeps

    def commands(self, name: str | None = None) -> list[LoggedCommand]:
        """Return the commands the drive saw, e.g. only those called ``sanitize``."""
        found = read_commands(self.command_log)
        return [command for command in found if name is None or command.name == name]

    def events(self) -> list[LoggedEvent]:
        """Return what happened to the drive: power cycles, resets, the course of a sanitize."""
        return read_events(self.command_log)

    def stored_mib(self) -> float:
        """Return how much of the backing file is really stored, in MiB."""
        return self.backing.stat().st_blocks * 512 / (1 << 20)

    def fingerprints(self) -> frozenset[bytes]:
        """Return digests of all blocks on the drive that say something (see ``audit``)."""
        return audit.fingerprints(self.backing)

    def count_leaked(self, known: frozenset[bytes]) -> int:
        """Return how many 4 KiB blocks hold a content fingerprinted before."""
        return audit.count_leaked(self.backing, known)

    def audit_blocks(self, wanted: Callable[[bytes], bool]) -> list[int]:
        """Return the byte offsets of stored 4 KiB blocks that the predicate accepts."""
        return audit.matching_blocks(self.backing, wanted)

    def command_tail(self, count: int = 30) -> str:
        """Return the last lines of the drive's command log."""
        return processes.tail(self.command_log, count)

    def log_tail(self, count: int = 20) -> str:
        """Return the last lines of what the server process printed."""
        return processes.tail(self.log, count)

    def _ready(self) -> bool:
        return self.log.exists() and "ready" in self.log.read_text(errors="replace").splitlines()
