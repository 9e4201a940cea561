"""The programs that the eraser starts, without starting them: nvme-cli, and tee for sysfs.

What they print is what nvme-cli 2.3 prints for the same, as far as the eraser reads it.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from eraser.clock import utc_text
from eraser.host.command import Completed
from tests.lab.nvme.acts import Reset
from tests.lab.nvme.linux.kernel import Kernel, status_of


class Programs:
    """Stands for all of them."""

    def __init__(self, kernel: Kernel) -> None:
        self._kernel = kernel

    def run(self, argv: Sequence[str], stdin: bytes) -> Completed:
        """What the program would have come back with. Raises ``ValueError`` for an unknown one."""
        try:
            code, out, said = self._run(tuple(argv), stdin)
        except OSError as error:
            code, out, said = 1, b"", str(error.strerror)
        return Completed(tuple(argv), code, out, said, utc_text(), 0.0)

    def _run(self, argv: tuple[str, ...], stdin: bytes) -> tuple[int, bytes, str]:
        if argv[0] == "tee":
            return self._write(Path(argv[1]), stdin)
        verb = argv[1]
        if verb == "version":
            return 0, b"nvme version of the lab\n", ""
        if verb == "reset":
            return 0 if self._kernel.reset() else 1, b"", ""
        if verb == "subsystem-reset":
            done = self._kernel.reset_subsystem()
            refusal = "Subsystem-reset: NVM Subsystem Reset not supported."
            return (0, b"", "") if done else (1, b"", refusal)
        if verb == "ns-rescan":
            self._kernel.scan()
            return 0, b"", ""
        if verb in ("admin-passthru", "io-passthru"):
            return self._pass(verb == "io-passthru", _options(argv[3:]), stdin)
        raise ValueError(f"a program that the lab knows was expected, found {argv}")

    def _write(self, path: Path, value: bytes) -> tuple[int, bytes, str]:
        kernel = self._kernel
        if path == kernel.function / "reset":
            how = Reset.BUS if kernel.reset_methods()[0] == "bus" else Reset.FUNCTION
            return 0 if kernel.reset(how) else 1, value, ""
        if path == kernel.function / "reset_method":
            kernel.choose(value.decode().split())
            return 0, value, ""
        if path == kernel.function / "driver/unbind":
            kernel.unbind()
        elif path == kernel.root / "sys/bus/pci/drivers/nvme/bind":
            kernel.bind()
        elif path == kernel.function / "remove":
            kernel.remove()
        elif path == kernel.scan_file:
            kernel.find()
        else:
            raise ValueError(f"a file of sysfs that the lab knows was expected, found {path}")
        return 0, value, ""

    def _pass(self, io: bool, given: dict[str, int], stdin: bytes) -> tuple[int, bytes, str]:
        length = given.get("data-len", 0)
        reads = "read" in given
        answer = self._kernel.send(
            given["opcode"],
            nsid=given["namespace-id"],
            send=b"" if reads else stdin.ljust(length, b"\0")[:length],
            receive=length if reads else 0,
            io=io,
            **{name: value for name, value in given.items() if name.startswith("cdw")},
        )
        if answer.code:
            return 1, b"", f"NVMe status: of the lab({status_of(answer):#x})"
        return 0, answer.data, f"NVMe command is Success and result: {answer.dw0:#010x}"


def _options(argv: tuple[str, ...]) -> dict[str, int]:
    """``--opcode=0x06`` to a number, ``--read`` to 1."""
    found = {}
    for option in argv:
        name, _, value = option.removeprefix("--").partition("=")
        found[name] = int(value, 0) if value else 1
    return found
