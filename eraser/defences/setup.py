"""What host-setup did on this host, for the self-check: which slots, which hook, who was told."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

from eraser.errors import BadInputError
from eraser.gate.hookfile import HOOK, HookSettings
from eraser.host import daemons, proc
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.protocol.identity import pci_address
from eraser.state.journal import make_directory, replace_durably

GROWN_UP = 5.0
"""Seconds after its start until a daemon surely takes SIGHUP for a wish, and does not end by it."""


@dataclass(frozen=True)
class HookReload:
    """A libvirt daemon was told (SIGHUP) to look for hooks while this very file was there.

    ``start`` is in clock ticks since boot; ``inode`` and ``changed`` (st_ctime_ns) are the file's.
    """

    pid: int
    start: int
    boot: str
    inode: int
    changed: int


@dataclass(frozen=True)
class Setup:
    """The newest run. ``hook`` is None without libvirt on the host, and after ``--no-gate``."""

    slots: tuple[str, ...]
    hook: HookSettings | None = None
    told: tuple[HookReload, ...] = ()
    pending: tuple[str, ...] = field(default=(), metadata=codec.LATE)
    """Commands that make its files count, and did not run or failed."""

    def __post_init__(self) -> None:
        # host-setup wrote them as they were given to it once: with more zeros than sysfs has.
        object.__setattr__(self, "slots", tuple(map(pci_address, self.slots)))


def setup_file(state_dir: Path) -> Path:
    """Where it is kept."""
    return state_dir / "gate" / "setup.json"


def save(state_dir: Path, setup: Setup) -> None:
    """Raises ``OSError``."""
    path = setup_file(state_dir)
    make_directory(path.parent)
    replace_durably(path, codec.canonical(setup) + b"\n")


def load(state_dir: Path) -> Setup | None:
    """None where host-setup was never run. Raises :class:`BadInputError`."""
    path = setup_file(state_dir)
    try:
        return codec.load(Setup, path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BadInputError(f"expected to read {path}, found {error.strerror}") from error


def tell(host: Host) -> tuple[HookReload, ...]:
    """Tells every running libvirt daemon that sees our hook to look for hooks.

    Waits for daemons that have only just started. Raises ``OSError``.
    """
    told = []
    boot = host.boot_id()
    for process in proc.libvirt_daemons(host, tuple(proc.processes(host))):
        try:
            file = os.lstat(host.path(f"{proc.view(host, process)}{HOOK}"))
        except FileNotFoundError:
            continue  # a container with an /etc of its own: the self-check tells of it
        # A daemon that has not installed its handler yet would end by SIGHUP.
        if (young := GROWN_UP - daemons.age(host, process)) > 0:
            host.clock.sleep(young)
        # It may have ended meanwhile, also while another one was waited for, and its number be
        # somebody else's.
        if process not in proc.processes(host):
            continue
        # The file was looked at before: one that is replaced meanwhile does not count as told.
        try:
            daemons.tell_to_look(process)
        except ProcessLookupError:
            continue
        told.append(HookReload(process.pid, process.start, boot, file.st_ino, file.st_ctime_ns))
    return tuple(told)
