"""What a libvirt daemon finds of the hook and of all that it needs: in a container other files."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

from eraser.defences import assessment
from eraser.defences.assessment import FileSeen, ViewSeen
from eraser.gate import hookfile
from eraser.gate.hookfile import HookSettings
from eraser.host import proc
from eraser.host.sysfs import Host

_MAX_HOOK = 1 << 20
_MOST_LINKS = 40
"""As the kernel has it (path_resolution(7))."""


def view(host: Host, root: str, settings: HookSettings | None) -> ViewSeen:
    """As whoever has this root sees it; empty for this host's own. Raises ``OSError``."""
    hook = f"{root}{hookfile.HOOK}"
    file = _lstat(host.path(hook))
    data: bytes | None = None
    if file is not None:
        try:
            with host.path(hook).open("rb") as opened:
                # Read with a limit: what lies there need not be ours.
                data = opened.read(_MAX_HOOK)
        except OSError:
            data = None
    programs = () if settings is None else (settings.python,)
    library = () if settings is None else (settings.door, *_package(host, root, settings.library))
    parents = {
        directory
        for path in (hookfile.HOOK_DIRECTORY, *programs, *library[:1])
        for directory in _parents(host, root, path)
    }
    loaded = {path: _reached(host, root, path) for path in library}
    return ViewSeen(
        directories={path: _lstat(host.path(f"{root}{path}")) for path in assessment.DIRECTORIES},
        file=file,
        data=data,
        programs={path: _reached(host, root, path) for path in programs},
        # Python writes a compiled file under another name at first: what is gone again is none.
        library={path: seen for path, seen in loaded.items() if seen or path in library[:1]},
        parents={path: _reached(host, root, path) for path in sorted(parents)},
        foreign=() if settings is None else tuple(foreign(host, root, settings)),
    )


def foreign(host: Host, root: str, settings: HookSettings) -> Iterator[str]:
    """Of the directories that the gate decides by, and locks in, those that whoever has this root
    shares not with this host."""
    for path in (settings.state_dir, settings.run_dir):
        ours = place(host, "", path)
        if ours is not None and place(host, root, path) != ours:
            yield path


def containers(host: Host, settings: HookSettings) -> Iterator[str]:
    """What libvirt with other files, as in a container, lacks; for people. Raises ``OSError``."""
    for daemon in proc.libvirt_daemons(host, tuple(proc.processes(host))):
        root = proc.view(host, daemon)
        lacks = tuple(_unmounted(host, root, settings)) if root else ()
        # What one lacks that ended meanwhile says nothing of the next.
        if lacks and proc.is_alive(host, daemon.pid):
            yield (
                f"{daemon.name} (process {daemon.pid}) has other files than this host: mount this "
                f"host's {', '.join(lacks)} into it, at the same places"
            )


def _unmounted(host: Host, root: str, settings: HookSettings) -> Iterator[str]:
    """What a container still has to get of this host for its libvirt to call the hook, and for the
    gate to be this host's. Raises ``OSError``."""
    for path in (hookfile.HOOKS, settings.state_dir, settings.run_dir):
        if not _shared(host, root, path):
            yield path
    # The same release may be installed in it.
    yield from (each for each in (settings.python, settings.library) if not place(host, root, each))


def _shared(host: Host, root: str, path: str) -> bool:
    """Whoever has this root has this host's own there, or will have it once there is one: a mount
    namespace alone, as by PrivateTmp, makes no other files."""
    here = Path(path)
    while (ours := place(host, "", str(here))) is None and here != here.parent:
        here = here.parent
    return ours is not None and place(host, root, str(here)) == ours


def place(host: Host, root: str, path: str) -> tuple[int, int] | None:
    """Which file or directory that is for whoever has this root; None where there is none."""
    try:
        found = host.path(f"{root}{_real(host, root, path)}").stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    return found.st_dev, found.st_ino


def _package(host: Host, root: str, library: str) -> Iterator[str]:
    """All that may be loaded of the eraser, compiled files too, as the daemon names it."""
    top = host.path(f"{root}{_real(host, root, f'{library}/eraser')}")
    for directory, _names, files in os.walk(top):
        place = f"{library}/eraser/{Path(directory).relative_to(top)}".removesuffix("/.")
        yield from (place, *(f"{place}/{name}" for name in files))


def _parents(host: Host, root: str, path: str) -> Iterator[str]:
    """The directories above ``path``, and above what it leads to by links."""
    yield from map(str, Path(path).parents)
    yield from map(str, Path(_real(host, root, path)).parents)


def _real(host: Host, root: str, path: str) -> str:
    """Where ``path`` leads to by links, for whoever has this root.

    Followed here: to the kernel an absolute link below /proc/PID/root begins at our own root, and
    an interpreter in a virtual environment is such a link.
    """
    here, ahead, links = Path("/"), list(Path(path).parts[1:]), 0
    while ahead:
        part = ahead.pop(0)
        if part == "..":
            here = here.parent
            continue
        try:
            target = Path(os.readlink(host.path(f"{root}{here / part}")))
        except OSError:  # no link, or nothing
            here = here / part
            continue
        links += 1
        if links > _MOST_LINKS:
            return path  # a loop: looking it up fails as it does for the daemon
        here = Path("/") if target.is_absolute() else here
        ahead = [*target.parts[target.is_absolute() :], *ahead]
    return str(here)


def _lstat(path: Path) -> FileSeen | None:
    return _seen(path, follow=False)


def _reached(host: Host, root: str, path: str) -> FileSeen | None:
    """What whoever has this root finds there."""
    return _seen(host.path(f"{root}{_real(host, root, path)}"), follow=True)


def _seen(path: Path, *, follow: bool) -> FileSeen | None:
    try:
        found = os.stat(path, follow_symlinks=follow)
    # Absent is an answer. Any other error is the caller's, and the defence is unknown then.
    except (FileNotFoundError, NotADirectoryError):
        return None
    return FileSeen(found.st_mode, found.st_uid, found.st_ino, found.st_ctime_ns)
