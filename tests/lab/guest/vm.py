"""One guest that a test talks to: restored from a saved state, fed with commands, power cut."""

import contextlib
import os
import secrets
import shutil
import subprocess
import time
import uuid
from pathlib import Path
from typing import Final

from tests.lab.errors import GuestError
from tests.lab.guest import argv as command
from tests.lab.guest import snapshot, trees
from tests.lab.guest.agent import encode
from tests.lab.guest.argv import DEFAULT, Disks, Flavour, Sockets
from tests.lab.guest.build import Images
from tests.lab.guest.machine import Machine
from tests.lab.guest.running import RunningGuest

_RESUME_S: Final = 60.0
_BOOT_S: Final = 180.0
_CHUNK: Final = 1 << 18
_MOUNTED: Final = (
    ("site", "/opt/site", "ro,noatime"),
    ("src", "/opt/src", "ro,noatime"),
    ("state", "/opt/state", "rw"),
)


class Guest(RunningGuest):
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
        super().__init__(name, directory)
        self.images = images
        self.flavour = flavour
        self._short = short
        self._machine_id = uuid.uuid4().hex
        self.starts = 0
        short.mkdir(parents=True, exist_ok=True)
        self._state = directory / "state.ext4"
        self._overlay = directory / "root.qcow2"
        _copy_sparse(images.state(flavour.image), self._state)

    # Life

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


def _copy_sparse(source: Path, target: Path) -> None:
    """Copy an image and keep its holes: most of it is empty."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(target)
    subprocess.run(
        ["cp", "--sparse=always", "--reflink=auto", str(source), str(target)], check=True
    )
