"""What a test does with a guest that is on: commands, files, drives, and its end."""

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tests.lab.errors import CommandFailed, GuestError
from tests.lab.guest import argv as command
from tests.lab.guest import processes
from tests.lab.guest.agent import Answer, decode, encode
from tests.lab.guest.commands import COMMAND_S, GRACE_S, Completed, GuestProcess
from tests.lab.guest.machine import Machine

_CHUNK: Final = 1 << 18


class RunningGuest:
    """A guest by its agent. How it gets on is each kind's own; it sets ``_machine`` then."""

    def __init__(self, name: str, directory: Path) -> None:
        """``directory`` keeps its logs and disks."""
        self.name = name
        self.directory = directory
        self._machine: Machine | None = None
        directory.mkdir(parents=True, exist_ok=True)

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

    def power_cut(self) -> None:
        """Pull the plug: what was not synced to the persistent disk is lost."""
        if self._machine is not None:
            self._machine.kill()
            self._machine = None

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
