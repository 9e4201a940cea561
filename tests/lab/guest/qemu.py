"""Find a QEMU that speaks vfio-user, and an accelerator that really boots a guest."""

import os
import platform
import re
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from tests.lab.errors import BuildError
from tests.lab.guest import trees
from tests.lab.guest.cache import Cache, digest
from tests.lab.guest.packages import QEMU_MINIMUM

TCG: Final = "tcg,thread=multi,tb-size=512"
KVM: Final = "kvm"
ACCELERATOR_VARIABLE: Final = "NVME_QUARANTINE_ACCEL"
_BINARY: Final = "qemu-system-x86_64"
_PROBE_S: Final = 5.0


@dataclass(frozen=True)
class Qemu:
    """One usable QEMU: the words that start it, before its own arguments."""

    command: tuple[str, ...]

    @cached_property
    def version(self) -> str:
        """The version as QEMU itself reports it; a saved VM state belongs to exactly one."""
        done = subprocess.run(
            [*self.command, "--version"], capture_output=True, text=True, check=False
        )
        found = re.search(r"version (\S+(?: \(.*?\))?)", done.stdout)
        if done.returncode != 0 or found is None:
            raise BuildError(
                f"expected a version from {self.command[0]}, got {done.stderr[-200:]!r}"
            )
        return found.group(1)

    @property
    def new_enough(self) -> bool:
        """Whether the version is at least the first one with vfio-user."""
        numbers = tuple(int(part) for part in re.findall(r"\d+", self.version)[:2])
        return numbers >= QEMU_MINIMUM


def find(cache: Cache) -> Qemu:
    """Return the QEMU of PATH when it is new enough, else one unpacked from Debian's backports."""
    installed = shutil.which(_BINARY)
    if installed is not None and (own := Qemu((installed,))).new_enough:
        return own
    unpacked = from_tree(trees.qemu_tree(cache))
    if not unpacked.new_enough:
        raise BuildError(
            f"expected QEMU >= {'.'.join(map(str, QEMU_MINIMUM))} in Debian's backports, found "
            f"{unpacked.version}; put a newer {_BINARY} on PATH"
        )
    return unpacked


def from_tree(root: Path) -> Qemu:
    """Return the QEMU inside a Debian tree, run by the tree's own loader: no chroot, no root."""
    libraries = root / "usr" / "lib" / "x86_64-linux-gnu"
    return Qemu(
        (
            str(root / "usr" / "lib64" / "ld-linux-x86-64.so.2"),
            "--library-path",
            str(libraries),
            str(root / "usr" / "bin" / _BINARY),
            "-L",
            str(root / "usr" / "share" / "qemu"),
            "-L",
            str(root / "usr" / "share" / "seabios"),
        )
    )


def accelerator(cache: Cache, qemu: Qemu, base: Path) -> str:
    """Return the ``-accel`` argument to use.

    The existence of /dev/kvm says nothing: inside many clouds it is there and every guest hangs in
    its first instructions. KVM is used only after it has booted our kernel once, here, with this
    QEMU. ``$NVME_QUARANTINE_ACCEL`` (``tcg`` or ``kvm``) overrides.
    """
    forced = os.environ.get(ACCELERATOR_VARIABLE)
    if forced is not None:
        if forced not in ("tcg", "kvm"):
            raise BuildError(f"expected tcg or kvm in {ACCELERATOR_VARIABLE}, found {forced!r}")
        return TCG if forced == "tcg" else KVM
    if not os.access("/dev/kvm", os.R_OK | os.W_OK):
        return TCG

    def probe(part: Path) -> None:
        (part / "accelerator").write_text(KVM if _boots(qemu, base, KVM) else TCG)

    key = digest([qemu.version, base.name, platform.release(), cpu_model()])
    return (cache.entry("accel", key, probe) / "accelerator").read_text()


def cpu_model() -> str:
    """Return the processor's name; a KVM state saved on one model need not load on another."""
    found = re.search(r"^model name\s*: (.*)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return found.group(1) if found else "unknown"


def _boots(qemu: Qemu, base: Path, accel: str) -> bool:
    with tempfile.TemporaryDirectory() as directory:
        console = Path(directory, "console")
        argv = [*qemu.command, "-accel", accel, "-machine", "q35", "-cpu", "host", "-m", "256"]
        argv += ["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"]
        argv += ["-serial", f"file:{console}", "-kernel", str(base / "vmlinuz")]
        argv += ["-initrd", str(base / "initramfs.gz")]
        argv += ["-append", "console=ttyS0 quiet panic=-1 lab.probe"]
        try:
            subprocess.run(argv, capture_output=True, timeout=_PROBE_S, check=False)
        except subprocess.TimeoutExpired:
            return False
        return console.exists() and "LAB-PROBE-BOOTED" in console.read_text(errors="replace")
