"""Boot once, save the machine's state to a file, start every guest from it in about a second."""

import os
import shutil
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.errors import BuildError, GuestError
from tests.lab.guest import argv, payload
from tests.lab.guest.argv import Disks, Flavour, Sockets
from tests.lab.guest.cache import Cache, digest, digest_files
from tests.lab.guest.machine import Machine, short_directory
from tests.lab.guest.packages import PRELOADED_MODULES
from tests.lab.guest.qemu import KVM, Qemu, cpu_model
from tests.lab.guest.qmp import Monitor

_BOOT_S: Final = 180.0
_SAVE_S: Final = 120.0
_POLL_S: Final = 0.02
# Two readings of the programs that every test runs, so that their pages are part of the state; all
# other clean pages are dropped first, because each restore reads the whole state.
_WARM_UP: Final = """
modprobe -a {modules}
udevadm settle
sync
echo 3 >/proc/sys/vm/drop_caches
python3 -c 'import argparse, ctypes, dataclasses, json, logging, pathlib, subprocess'
nvme version
lsblk >/dev/null
udevadm info --version >/dev/null
sync
"""


@dataclass(frozen=True)
class Saved:
    """A saved machine: its memory and devices, and the root disk as it was at that moment."""

    state: Path
    root_overlay: Path
    flavour: Flavour


def ensure(cache: Cache, qemu: Qemu, accel: str, base: Path, flavour: Flavour) -> Saved:
    """Return the saved state of a flavour; boot and save it when there is none."""

    def build(part: Path) -> None:
        overlay = part / "root.qcow2"
        _create_overlay(base / "root.ext4", overlay)
        empty = _placeholders(part)
        sockets = Sockets(short_directory())
        disks = Disks(overlay, empty["site"], empty["src"], empty["state"])
        line = argv.command_line(accel, base, flavour, disks, sockets, part / "console.log")
        try:
            machine = Machine([*qemu.command, *line], sockets, part)
            try:
                _boot_and_save(machine, part / "state", flavour.image.warm_up)
            finally:
                machine.kill()
        finally:
            shutil.rmtree(sockets.directory)
        for path in empty.values():
            path.unlink()

    # The command line with stand-in paths: whatever changes it makes an old state useless.
    nowhere = Path("/nonexistent")
    disks = Disks(nowhere, nowhere, nowhere, nowhere)
    line = argv.command_line(accel, base, flavour, disks, Sockets(nowhere), nowhere)
    sizes = (payload.SITE_MIB, payload.SOURCES_MIB, payload.STATE_MIB)
    key = digest(
        [
            qemu.version,
            *line[1:],
            cpu_model() if accel == KVM else "",
            *map(str, sizes),
            flavour.image.warm_up,
            digest_files(Path(__file__).parent, [Path("snapshot.py")]),
        ]
    )
    entry = cache.entry("saved", key, build)
    return Saved(entry / "state", entry / "root.qcow2", flavour)


def _boot_and_save(machine: Machine, state: Path, warm_up: str) -> None:
    try:
        machine.agent.wait(machine.agent.hello, _BOOT_S, "boot")
        script = warm_up + _WARM_UP.format(modules=" ".join(PRELOADED_MODULES))
        done = machine.agent.request(
            "run", timeout=_BOOT_S, limit=_BOOT_S, argv=["/bin/sh", "-ec", script]
        )
    except GuestError as error:
        tail = " | ".join(machine.console.read_text(errors="replace").splitlines()[-5:])
        raise BuildError(f"the guest image did not boot: {error}; console: {tail}") from error
    if done["rc"] != 0:
        raise BuildError(f"the guest could not be prepared for saving: {done}")
    choose_format(machine.monitor)
    machine.monitor.execute("migrate-set-parameters", **{"max-bandwidth": 1 << 40})
    machine.monitor.execute("migrate", uri=f"file:{state}")
    deadline = time.monotonic() + _SAVE_S
    while (info := machine.monitor.execute("query-migrate"))["status"] != "completed":
        if info["status"] in ("failed", "cancelled") or time.monotonic() > deadline:
            raise BuildError(f"the guest's state could not be saved: {info}")
        time.sleep(_POLL_S)
    # An orderly end writes the overlay's metadata; a kill would leave it behind the saved memory.
    machine.monitor.execute("quit")
    machine.process.wait(_SAVE_S)


def load(machine: Machine, saved: Saved) -> None:
    """Load a saved state into a machine that was started with ``-incoming defer``."""
    choose_format(machine.monitor)
    machine.monitor.execute("migrate-incoming", uri=f"file:{saved.state}")
    machine.wait_running()


def choose_format(monitor: Monitor) -> None:
    """Set the format of the state on either side.

    Mapped: a page has its fixed place in the (sparse) file and empty pages are not in it, so
    loading does not touch them and a guest has only the memory that it uses.
    """
    monitor.execute(
        "migrate-set-capabilities", capabilities=[{"capability": "mapped-ram", "state": True}]
    )


def _create_overlay(backing: Path, overlay: Path) -> None:
    create = ["qemu-img", "create", "-q", "-f", "qcow2", "-F", "raw", "-b", str(backing)]
    done = subprocess.run([*create, str(overlay)], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"qemu-img create failed: {done.stderr.strip()}")


def _placeholders(directory: Path) -> dict[str, Path]:
    """Make empty disks of the sizes that the real ones will have."""
    sizes = {
        "site": payload.SITE_MIB,
        "src": payload.SOURCES_MIB,
        "state": payload.STATE_MIB,
    }
    paths = {}
    for name, size in sizes.items():
        paths[name] = directory / f"{name}.empty"
        with paths[name].open("wb") as handle:
            os.truncate(handle.fileno(), size << 20)
    return paths
