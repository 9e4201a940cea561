"""Reads what ``defences`` decides on: files of libvirt's hooks, processes, the watcher's lock."""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eraser.defences import assessment, diskscanners, selinux, views
from eraser.defences.assessment import DaemonSeen, FileSeen, LibvirtSeen, WatcherSeen
from eraser.defences.setup import Setup
from eraser.defences.sightings import Sightings
from eraser.errors import EraserError
from eraser.gate import hookfile
from eraser.host import daemons, iommu, proc
from eraser.host.proc import Process
from eraser.host.sysfs import Host
from eraser.protocol.ticket import Defence, DefenceSeen

WATCHER_LOCK = "watcher.lock"
"""In the run directory, locked by the watcher; holds its pid and its newest sign of life."""

_INSTALLED = (
    "/etc/libvirt",
    *(
        f"{place}/{name}"
        for place in ("/usr/sbin", "/usr/bin", "/usr/local/sbin")
        for name in proc.LIBVIRT_DAEMONS
    ),
)
NO_SIGHTINGS = Sightings()
"""As on a host that an earlier release set up."""


@dataclass
class Apart:
    """The hook as those daemons of libvirt saw it last that have other files than this host, in a
    container; none where the last ones that ran see what the host does."""

    hooks: tuple[FileSeen | None, ...] = ()


def libvirt_installed(host: Host) -> bool:
    """Something of libvirt's daemon is on the host."""
    return any(host.path(path).exists() for path in _INSTALLED)


def libvirt_here(host: Host) -> bool:
    """Its daemon is on the host, or runs: in a container the host has no file of it."""
    running = tuple(proc.processes(host))
    return libvirt_installed(host) or bool(proc.libvirt_daemons(host, running))


def defences_seen(
    host: Host,
    run_dir: Path,
    setup: Setup | None,
    drift: Callable[[], tuple[str, ...]],
    apart: Apart | None = None,
    sightings: Sightings = NO_SIGHTINGS,
) -> tuple[DefenceSeen, ...]:
    """How each defence stands; trouble with looking at one hides no other.

    ``drift`` tells which of host-setup's files are not as it wrote them. ``apart`` is kept from one
    look to the next. ``sightings`` are those of the hook.
    """

    def both() -> tuple[DefenceSeen, DefenceSeen]:
        _all_seen(host)
        libvirt = look_at_libvirt(host, run_dir, setup, sightings)
        _remember(libvirt, Apart() if apart is None else apart)
        return assessment.hook(libvirt), assessment.loaded(libvirt)

    def patch() -> DefenceSeen:
        _all_seen(host)
        return assessment.patch(_nova_computes(host))

    try:
        hook, loaded = both()
    except (OSError, EraserError) as error:
        # Both rest on the same look, so both are unknown with it.
        hook = assessment.unknown(Defence.HOOK, error)
        loaded = assessment.unknown(Defence.LOADED, error)
    return (
        hook,
        loaded,
        _or_unknown(Defence.PATCH, patch),
        _or_unknown(Defence.RULES, lambda: _rules(host, setup, drift)),
        _or_unknown(Defence.WATCHER, lambda: assessment.watcher(look_at_watcher(run_dir))),
    )


def _all_seen(host: Host) -> None:
    """Raises :class:`EraserError` where daemons may run that are not seen: that none is seen is no
    proof then that none is there."""
    if why := proc.blind(host):
        raise EraserError(why)


def _remember(libvirt: LibvirtSeen, apart: Apart) -> None:
    """Raises :class:`EraserError` where libvirt's container does not run: this host's own files are
    not what the next daemon will find."""
    if libvirt.daemons:
        apart.hooks = tuple(each.view.file for each in libvirt.daemons if each.apart)
    # One that is mounted into the container is the same file.
    elif any(hook != libvirt.idle_view.file for hook in apart.hooks):
        raise EraserError(
            "expected the libvirt daemon whose files are not this host's (a container), found none "
            "running: start it"
        )


def _rules(host: Host, setup: Setup | None, drift: Callable[[], tuple[str, ...]]) -> DefenceSeen:
    if setup is None:
        return assessment.rules(None, ())
    found = diskscanners.found(host)
    return assessment.rules(
        setup.slots,
        drift(),
        setup.pending,
        (*iommu.unprotected(host, setup.slots), *found.unclear),
        tuple(each.name for each in found.programs),
    )


def _or_unknown(defence: Defence, look: Callable[[], DefenceSeen]) -> DefenceSeen:
    try:
        return look()
    except (OSError, EraserError) as error:
        return assessment.unknown(defence, error)


def _nova_computes(host: Host) -> tuple[assessment.NovaComputeSeen, ...]:
    running = tuple(proc.processes(host))
    seen = [
        assessment.NovaComputeSeen(
            process.pid, daemons.patches(host, process), daemons.age(host, process)
        )
        for process in daemons.nova_computes(host, running)
    ]
    # One that ended meanwhile, as in a restart, showed nothing of what it had.
    return tuple(each for each in seen if proc.is_alive(host, each.pid))


def look_at_libvirt(
    host: Host, run_dir: Path, setup: Setup | None, sightings: Sightings = NO_SIGHTINGS
) -> LibvirtSeen:
    """The hook and every daemon. Raises ``OSError``."""
    running = tuple(proc.processes(host))
    settings = None if setup is None else setup.hook
    seen = [
        _daemon(host, process, run_dir, setup, sightings)
        for process in proc.libvirt_daemons(host, running)
    ]
    return LibvirtSeen(
        installed=libvirt_installed(host),
        expected=None if settings is None else hookfile.text(settings).encode(),
        # What one sees that ended meanwhile is gone with it: nothing was found there, and it starts
        # no guest any more.
        daemons=tuple(each for each in seen if proc.is_alive(host, each.pid)),
        # A daemon that is not running now is started with what the host itself sees; but see Apart.
        idle_view=views.view(host, "", settings),
        vfio_guests=daemons.vfio_guests(host, running),
    )


def _daemon(
    host: Host, process: Process, run_dir: Path, setup: Setup | None, sightings: Sightings
) -> DaemonSeen:
    # A daemon in a container has an /etc of its own: its hook counts, not this host's.
    root = proc.view(host, process)
    boot = host.boot_id()
    view = views.view(host, root, None if setup is None else setup.hook)
    forbidden = unclear = ""
    try:
        if view.file is not None:
            forbidden = selinux.forbids(host, process, host.path(f"{root}{hookfile.HOOK}"))
    except (OSError, ValueError) as error:
        unclear = f"whether SELinux lets {process.name} execute the hook: {error}"
    return DaemonSeen(
        pid=process.pid,
        name=process.name,
        started_at=daemons.started_at(host, process),
        called_at=_called_at(host.path(f"{root}{run_dir}") if root else run_dir, process),
        told=tuple(
            (told.inode, told.changed)
            for told in (() if setup is None else setup.told)
            # A pid alone may be another process by now, and ticks since boot mean nothing in
            # another boot.
            if (told.pid, told.start, told.boot) == (process.pid, process.start, boot)
        ),
        view=view,
        preceding=tuple(
            (each.inode, each.changed) for each in sightings.hooks if each.precedes(process, boot)
        ),
        apart=bool(root),
        forbidden=forbidden,
        unclear=unclear,
    )


def _called_at(run_dir: Path, process: Process) -> float | None:
    """When this very daemon called the hook last, as the hook wrote it down."""
    path = run_dir / hookfile.CALLED_FILE
    try:
        at = path.stat().st_mtime
        # The file may be of an earlier daemon: it says nothing of this one.
        same = path.read_text().split() == [str(process.pid), str(process.start)]
    except (OSError, ValueError):
        return None
    return at if same else None


def look_at_watcher(run_dir: Path) -> WatcherSeen:
    """Whether somebody holds the watcher's lock, and how long ago it said that it lives.

    Raises ``OSError``.
    """
    try:
        descriptor = os.open(run_dir / WATCHER_LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return WatcherSeen(held=False, silent=None)
    try:
        words = os.pread(descriptor, 64, 0).decode("ascii", "replace").split()
        try:
            # A shared lock fails only where somebody holds it exclusively, and goes with the
            # descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return WatcherSeen(held=True, silent=_silence(words))
        return WatcherSeen(held=False, silent=_silence(words))
    finally:
        os.close(descriptor)


def _silence(words: list[str]) -> float | None:
    try:
        return max(0.0, time.monotonic() - float(words[1]))
    except (IndexError, ValueError):
        return None
