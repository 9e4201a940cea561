"""One guest that a test talks to: restored from a saved state, fed with commands, power cut."""

import contextlib
import os
import secrets
import shutil
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.lab.errors import CommandFailed, GuestError
from tests.lab.guest import argv as command
from tests.lab.guest import processes, snapshot, trees
from tests.lab.guest.agent import Answer, decode, encode
from tests.lab.guest.argv import DEFAULT, Disks, Flavour, Sockets
from tests.lab.guest.build import Images
from tests.lab.guest.commands import COMMAND_S, GRACE_S, Completed, GuestProcess
from tests.lab.guest.machine import Machine

_RESUME_S: Final = 60.0
_BOOT_S: Final = 180.0
_CHUNK: Final = 1 << 18
_MOUNTED: Final = (
    ("site", "/opt/site", "ro,noatime"),
    ("src", "/opt/src", "ro,noatime"),
    ("state", "/opt/state", "rw"),
)


class Guest:
    """A machine of the rack.

    ``directory`` keeps its logs and its persistent disk; ``short`` is a directory whose path is
    short enough for unix sockets. A power cut and a new start keep the persistent disk only.
    """

    def __init__(
        self,
        images: Images,
        name: str,
        directory: Path,
        short: Path,
        flavour: Flavour = DEFAULT,
    ) -> None:
        self.images = images
        self.name = name
        self.flavour = flavour
        self.directory = directory
        self._short = short
        self._machine: Machine | None = None
        self._machine_id = uuid.uuid4().hex
        self.starts = 0
        directory.mkdir(parents=True, exist_ok=True)
        short.mkdir(parents=True, exist_ok=True)
        self._state = directory / "state.ext4"
        self._overlay = directory / "root.qcow2"
        _copy_sparse(images.state(flavour.image), self._state)

    # Life

    @property
    def machine(self) -> Machine:
        """The running QEMU. Raises ``GuestError`` when the guest is off."""
        if self._machine is None:
            raise GuestError(f"expected guest {self.name} to be on, it is off; call start()")
        return self._machine

    @property
    def is_on(self) -> bool:
        """Whether the guest runs."""
        return self._machine is not None and self._machine.alive()

    def start(self) -> None:
        """Restore the saved state as a fresh boot of this guest (about a second)."""
        saved = self.images.saved(self.flavour)
        self._expect_off()
        shutil.copyfile(saved.root_overlay, self._overlay)
        self._machine = self._launch("-incoming", "defer")
        snapshot.load(self._machine, saved)
        self._resume()

    def reboot(self) -> None:
        """Shut down in order and boot for real (about 10 s): the root disk stays as it is.

        Drives are unplugged by it; plug them, or others, in again.
        """
        self.run(["sync"])
        # Only an orderly end of QEMU writes all of the overlay.
        self.machine.monitor.execute("quit")
        self.machine.process.wait(_RESUME_S)
        self.power_cut()
        self._machine = self._launch()
        self._machine.agent.wait(self._machine.agent.hello, _BOOT_S, "boot")
        self._resume()

    def _expect_off(self) -> None:
        if self._machine is not None:
            raise GuestError(f"expected guest {self.name} to be off, it is on; cut its power first")

    def _launch(self, *more: str) -> Machine:
        disks = Disks(self._overlay, self.images.site, self.images.sources(), self._state)
        sockets = Sockets(self._short)
        self.starts += 1
        console = self.directory / "console.log"
        line = command.command_line(
            self.images.accel,
            self.images.base(self.flavour.image),
            self.flavour,
            disks,
            sockets,
            console,
        )
        return Machine([*self.images.qemu.command, *line, *more], sockets, self.directory)

    def power_cut(self) -> None:
        """Pull the plug: what was not synced to the persistent disk is lost."""
        if self._machine is not None:
            self._machine.kill()
            self._machine = None

    def _resume(self) -> None:
        disks = [
            {"device": f"/dev/disk/by-id/virtio-{serial}", "target": target, "options": options}
            for serial, target, options in _MOUNTED
        ]
        self.request(
            "resume",
            timeout=_RESUME_S,
            time=time.time(),
            entropy=encode(secrets.token_bytes(64)),
            name=self.name,
            machine_id=self._machine_id,
            boot_id=str(uuid.uuid4()),
            disks=disks,
            binds=[[f"/opt/state/{name}", f"/{name}"] for name in trees.PERSISTENT],
        )

    # Commands

    def request(self, operation: str, *, timeout: float, **fields: object) -> Answer:
        """Ask the agent; see ``overlay/root/usr/local/lib/lab_agent.py`` for the operations."""
        return self.machine.agent.request(operation, timeout=timeout, **fields)

    def run(
        self,
        argv: Sequence[str],
        *,
        stdin: str | bytes = b"",
        timeout: float = COMMAND_S,
        env: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> Completed:
        """Run a command and wait for it.

        Raises ``CommandFailed`` on a non-zero exit code unless ``check`` is false, ``GuestError``
        when it does not end in ``timeout`` seconds (it is killed then) or the guest dies.
        """
        data = stdin.encode() if isinstance(stdin, str) else stdin
        answer = self.request(
            "run",
            timeout=timeout + GRACE_S,
            argv=list(argv),
            stdin=encode(data),
            limit=timeout,
            env=dict(env or {}),
        )
        if answer["expired"]:
            raise GuestError(
                f"{self.name}: expected {argv[0]} to end in {timeout:g} s, killed it; "
                f"stderr: {decode(answer['err'])[-300:]!r}"
            )
        done = Completed(tuple(argv), answer["rc"], decode(answer["out"]), decode(answer["err"]))
        if check and done.returncode != 0:
            raise CommandFailed(
                f"{self.name}: {' '.join(argv)!r} ended with {done.returncode}; "
                f"stderr: {done.stderr.strip()[-600:]!r} stdout: {done.stdout.strip()[-300:]!r}"
            )
        return done

    def sh(self, script: str, *, timeout: float = COMMAND_S, check: bool = True) -> Completed:
        """Run a shell script (``sh -e``)."""
        return self.run(["/bin/sh", "-ec", script], timeout=timeout, check=check)

    def spawn(self, argv: Sequence[str], *, env: Mapping[str, str] | None = None) -> GuestProcess:
        """Start a command in the background, in a process group of its own."""
        stem = f"/run/lab/{uuid.uuid4().hex[:8]}"
        files = (f"{stem}.out", f"{stem}.err")
        answer = self.request(
            "spawn",
            timeout=GRACE_S,
            argv=list(argv),
            env=dict(env or {}),
            stdout=files[0],
            stderr=files[1],
        )
        return GuestProcess(self, answer["pid"], files)

    def put(self, path: str, data: str | bytes, *, mode: int = 0o644) -> None:
        """Write a file in the guest, with its parent directories."""
        content = data.encode() if isinstance(data, str) else data
        for offset in range(0, max(len(content), 1), _CHUNK):
            self.request(
                "put",
                timeout=GRACE_S,
                path=path,
                data=encode(content[offset : offset + _CHUNK]),
                append=offset > 0,
                mode=mode,
            )

    def get(self, path: str) -> bytes:
        """Read a file of the guest."""
        whole = bytearray()
        while True:
            answer = self.request("get", timeout=GRACE_S, path=path, offset=len(whole), size=_CHUNK)
            data = decode(answer["data"])
            whole += data
            if len(data) < _CHUNK:
                return bytes(whole)

    def wait_for(self, pattern: str, timeout: float = COMMAND_S, *, gone: bool = False) -> None:
        """Wait until a path (or glob pattern) exists in the guest, or until none is left."""
        answer = self.request(
            "await", timeout=timeout + GRACE_S, pattern=pattern, gone=gone, limit=timeout
        )
        if not answer["met"]:
            wanted = "vanish" if gone else "appear"
            raise GuestError(f"{self.name}: expected {pattern} to {wanted} in {timeout:g} s")

    # Hardware

    def plug(self, slot: int, socket: Path) -> str:
        """Put the drive that is served on a unix socket into a slot; return its PCI address.

        Never to be taken out again while the guest runs: QEMU 11.1 aborts when a vfio-user device
        is unplugged. A drive that shall vanish answers all ones instead (a fault of the drive).
        """
        self.machine.monitor.execute(
            "device_add",
            driver="vfio-user-pci",
            id=f"drive{slot}",
            bus=command.root_port(slot),
            socket={"type": "unix", "path": str(socket)},
        )
        address = command.slot_address(slot)
        self.wait_for(f"/sys/bus/pci/devices/{address}")
        return address

    def console_tail(self, lines: int = 60) -> str:
        """Return the end of what the guest's kernel and init have printed."""
        return processes.tail(self.directory / "console.log", lines)

    def qemu_log_tail(self, lines: int = 40) -> str:
        """Return the end of QEMU's own messages."""
        return processes.tail(self.directory / "qemu.log", lines)

    def memory_mib(self) -> float:
        """Return the resident memory of QEMU in MiB."""
        status = Path(f"/proc/{self.machine.process.pid}/status").read_text()
        (line,) = [line for line in status.splitlines() if line.startswith("VmRSS")]
        return int(line.split()[1]) / 1024


def _copy_sparse(source: Path, target: Path) -> None:
    """Copy an image and keep its holes: most of it is empty."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    subprocess.run(
        ["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True
    )
