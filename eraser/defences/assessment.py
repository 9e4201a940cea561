"""Whether the things stand that stand between a released drive and the next guest.

Facts are read by ``facts``; what they mean is decided here, without I/O. What could not be
looked at is unknown, and never present (promise 6).
"""

from __future__ import annotations

import stat
from collections.abc import Iterable
from dataclasses import dataclass, field

from eraser.gate.hookfile import HOOK, HOOK_DIRECTORY, HOOKS
from eraser.protocol.ticket import SCANNERS, Defence, DefenceSeen, DefenceStanding

CLOCK_MARGIN = 2.0
"""Seconds: the kernel tells the time of its boot in whole ones."""

WATCHER_SILENCE = 60.0
"""Seconds without a sign of life after which nothing is known of the watcher."""

WATCHER_STUCK = 600.0
"""Seconds after which one that holds its lock counts as stuck. A system disk that stands still
(a path that fails over, a controller that is reset) keeps it from its look, and all hosts of one
array at once: what is told as absent would cost them their free slots."""

COMING_UP = 60.0
"""Seconds within which a nova-compute may not have come to our patch yet: it loads all of Nova
first, and what is told as absent costs the host its free slots."""

SETUP = "run 'nvme-eraser host-setup' with all slots"

_LONGEST = 500
"""Characters of what is told of the rules."""


@dataclass(frozen=True)
class FileSeen:
    """A file or directory as its lstat(2) has it. ``changed`` is st_ctime_ns."""

    mode: int
    uid: int
    inode: int
    changed: int


@dataclass(frozen=True)
class ViewSeen:
    """The hook's place as one libvirt daemon (or this host, where none runs) sees it."""

    directories: dict[str, FileSeen | None]
    file: FileSeen | None
    data: bytes | None
    programs: dict[str, FileSeen | None]
    """What the hook runs: the interpreter, links followed."""
    library: dict[str, FileSeen | None]
    """What it loads: every file and directory of the eraser's package, links followed."""
    parents: dict[str, FileSeen | None] = field(default_factory=dict)
    """The directories up to / of the hook, of what it runs and of what it loads: who may write to
    one may put another in the place of what lies there. Links followed."""
    foreign: tuple[str, ...] = ()
    """Directories of the gate that are not this host's own there, or not at all."""


@dataclass(frozen=True)
class DaemonSeen:
    """A running libvirt daemon. ``start`` in ticks since boot, ``started_at`` on the host's clock.

    ``called_at`` is when it was seen to call our hook, None where never; ``told`` holds inode and
    ctime of each hook file that was there when host-setup told it to look again, ``preceding``
    those of each that host-setup saw before it started.
    """

    pid: int
    name: str
    started_at: float
    called_at: float | None
    told: tuple[tuple[int, int], ...]
    view: ViewSeen
    preceding: tuple[tuple[int, int], ...] = ()
    apart: bool = False
    """It sees other files than this host, as in a container."""
    forbidden: str = ""
    """Why the kernel does not let it execute the hook that it sees."""
    unclear: str = ""
    """Why nobody can tell whether it does."""


@dataclass(frozen=True)
class LibvirtSeen:
    """Everything about libvirt. ``expected`` is the text of the hook, None where not set up."""

    installed: bool
    expected: bytes | None
    daemons: tuple[DaemonSeen, ...]
    idle_view: ViewSeen
    """As this host sees it; what a daemon that starts later will see."""
    vfio_guests: tuple[int, ...]

    @property
    def absent(self) -> bool:
        """Nothing here can start a guest with a drive."""
        return not self.installed and not self.daemons and not self.vfio_guests

    @property
    def views(self) -> tuple[ViewSeen, ...]:
        """What every daemon sees; the host's own where none runs."""
        return tuple(daemon.view for daemon in self.daemons) or (self.idle_view,)


@dataclass(frozen=True)
class NovaComputeSeen:
    """A running nova-compute, the marks that our patch left in it, and the seconds that it runs."""

    pid: int
    patches: tuple[str, ...]
    age: float


@dataclass(frozen=True)
class WatcherSeen:
    """The watcher's lock, and the seconds since its last sign of life (None: it gave none)."""

    held: bool
    silent: float | None


def unknown(defence: Defence, error: object) -> DefenceSeen:
    """It could not be looked at."""
    said = _readable(f"could not be looked at: {error}"[:500])
    return DefenceSeen(defence, DefenceStanding.UNKNOWN, said)


def _readable(text: str) -> str:
    """Names of files may be any bytes; what goes into a hello is UTF-8."""
    return text.encode("utf-8", "backslashreplace").decode()


def _seen(defence: Defence, trouble: str, well: str) -> DefenceSeen:
    standing = DefenceStanding.ABSENT if trouble else DefenceStanding.PRESENT
    return DefenceSeen(defence, standing, _readable(trouble or well))


def hook(libvirt: LibvirtSeen) -> DefenceSeen:
    """Our file is there, runs, and is ours, for every daemon."""
    if libvirt.absent:
        return DefenceSeen(Defence.HOOK, DefenceStanding.NOT_APPLICABLE, "no libvirt on this host")
    trouble = next(
        (found for view in libvirt.views if (found := _hook_trouble(view, libvirt.expected))), ""
    )
    return _seen(Defence.HOOK, trouble, HOOK)


def _hook_trouble(view: ViewSeen, expected: bytes | None) -> str:
    if view.file is None:
        return f"expected {HOOK}, found none: guests start unchecked; {SETUP}"
    if not stat.S_ISREG(view.file.mode):
        return f"{HOOK}: expected a regular file, found none; {SETUP}"
    if not view.file.mode & 0o111:
        return f"{HOOK}: expected it to be executable, found mode {view.file.mode & 0o7777:o}: " + (
            f"libvirt passes it by and guests start unchecked; {SETUP}"
        )
    # Whoever may write to any of these decides what libvirt runs as root.
    owned = {HOOK: view.file, **view.directories, **view.programs, **view.library, **view.parents}
    for path, seen in owned.items():
        if seen is None:
            return f"expected {path}, which the hook needs, found none; {SETUP}"
        if seen.uid != 0 or _open_to_others(seen):
            return (
                f"{path}: expected it to be root's and writable by root alone, found owner "
                f"{seen.uid} and mode {seen.mode & 0o7777:o}; chown root, chmod go-w"
            )
    for path, seen in view.programs.items():
        if seen is not None and not seen.mode & 0o111:
            return f"{path}: expected a program, found mode {seen.mode & 0o7777:o}; {SETUP}"
    if expected is None:
        return f"{HOOK}: expected host-setup's record of it, found none; {SETUP}"
    if view.data != expected:
        return f"{HOOK}: expected the hook of this version, found another text; {SETUP}"
    if view.foreign:
        # A book of its own knows no ticket, or those of then; a lock of its own stops no erase.
        return (
            f"expected the host's own {' and '.join(view.foreign)} where the libvirt daemon looks, "
            "found another or none: mount it into the daemon's container"
        )
    return ""


def _open_to_others(seen: FileSeen) -> bool:
    """Somebody else may write to it. In a sticky directory (/tmp) root's own stays as it is."""
    sticky = stat.S_ISDIR(seen.mode) and seen.mode & stat.S_ISVTX
    return bool(seen.mode & 0o022) and not stat.S_ISLNK(seen.mode) and not sticky


def loaded(libvirt: LibvirtSeen) -> DefenceSeen:
    """Every running daemon calls hooks: it looked for them when ours was there.

    libvirt looks for hooks when it starts and at SIGHUP. Where it found none it calls none, also
    not one that is added later; where it found any, later ones count at once.
    """
    if libvirt.absent:
        return DefenceSeen(
            Defence.LOADED, DefenceStanding.NOT_APPLICABLE, "no libvirt on this host"
        )
    if not libvirt.daemons:
        if libvirt.idle_view.file is None:
            return _seen(Defence.LOADED, f"expected {HOOK} before libvirt starts; {SETUP}", "")
        return _seen(Defence.LOADED, "", "no libvirt daemon runs; the next one finds the hook")
    deaf = [daemon for daemon in libvirt.daemons if not _calls_hooks(daemon)]
    if deaf:
        return _seen(
            Defence.LOADED,
            f"{deaf[0].name} (process {deaf[0].pid}): expected that it looked for hooks after ours "
            "was there, found no sign of it: guests may start unchecked; run 'systemctl reload "
            f"{deaf[0].name}' and then 'nvme-eraser host-setup' again, which tells it too",
            "",
        )
    for daemon in libvirt.daemons:
        if daemon.forbidden:
            return _seen(
                Defence.LOADED,
                f"{daemon.name} (process {daemon.pid}): {daemon.forbidden}: guests do not start, "
                "and running ones are ended when it is started anew; allow it, or run 'nvme-eraser "
                "host-setup --no-gate'",
                "",
            )
        # Who has called it was let do so.
        if daemon.unclear and not _called(daemon):
            return unknown(Defence.LOADED, daemon.unclear)
    return _seen(
        Defence.LOADED, "", ", ".join(f"{daemon.name} {daemon.pid}" for daemon in libvirt.daemons)
    )


def _called(daemon: DaemonSeen) -> bool:
    """It called the hook as it is now."""
    file, at = daemon.view.file, daemon.called_at
    return file is not None and at is not None and at >= file.changed / 1e9


def _calls_hooks(daemon: DaemonSeen) -> bool:
    file = daemon.view.file
    if file is None:
        return False
    changed = file.changed / 1e9
    return (
        # It started after the hook was there, by the steady clock or by the time of day, or called
        # it since, or was told to look while it was there.
        (file.inode, file.changed) in daemon.preceding
        or daemon.started_at > changed + CLOCK_MARGIN
        or _called(daemon)
        or (file.inode, file.changed) in daemon.told
    )


def patch(computes: Iterable[NovaComputeSeen]) -> DefenceSeen:
    """Every running nova-compute has our patch."""
    running = tuple(computes)
    if not running:
        return DefenceSeen(
            Defence.PATCH, DefenceStanding.NOT_APPLICABLE, "no nova-compute runs here"
        )
    bare = [compute.pid for compute in running if not compute.patches]
    # Only where none of those without the patch has had the time to load it.
    if bare and all(compute.age < COMING_UP for compute in running if not compute.patches):
        return DefenceSeen(
            Defence.PATCH,
            DefenceStanding.UNKNOWN,
            f"nova-compute (process {bare[0]}) has only just started: see again in a minute",
        )
    return _seen(
        Defence.PATCH,
        f"nova-compute (process {bare[0]}): expected our patch in it, found none: new providers "
        "are free from birth; install nova_patch and restart nova-compute"
        if bare
        else "",
        ", ".join(f"process {compute.pid}: {compute.patches[0]}" for compute in running)
        if not bare
        else "",
    )


def rules(
    slots: tuple[str, ...] | None,
    drift: tuple[str, ...],
    pending: tuple[str, ...] = (),
    unprotected: tuple[str, ...] = (),
    scanners: tuple[str, ...] = (),
) -> DefenceSeen:
    """host-setup was run for these slots, its files are as it wrote them, and they count by now.

    ``pending`` are commands that did not run. ``unprotected`` is what is wrong with the IOMMU, and
    ``scanners`` are programs that no rule keeps off: they are told, and cost the host nothing by
    themselves.
    """
    if slots is None:
        return _seen(Defence.RULES, f"expected host-setup's record, found none; {SETUP}", "")
    # However the rules stand: who compares two hellos must find the same programs in both.
    named = (f"{SCANNERS}{', '.join(scanners)}",) if scanners else ()
    # A file that is not as it was written is the worse finding, and is told first.
    if pending and not drift:
        undone = f"NOT DONE: {'; '.join(pending)}; run 'nvme-eraser host-setup' again"
        return DefenceSeen(Defence.RULES, DefenceStanding.UNKNOWN, _with(undone, *named))
    well = "; ".join((f"for {len(slots)} slots", *named, *unprotected))
    wrong = _with("; ".join(drift), *named) if drift else ""
    return _seen(Defence.RULES, wrong, well[:_LONGEST])


def _with(text: str, *named: str) -> str:
    """As much of ``text`` as there is room for beside the programs that are named."""
    room = _LONGEST - sum(len(each) + len("; ") for each in named)
    return "; ".join((text[:room], *named))


def watcher(seen: WatcherSeen) -> DefenceSeen:
    """The watcher runs and is not stuck. One that ended a moment ago may be on its way back."""
    # A restart takes seconds, and "absent" would cost the host its free slots.
    if not seen.held and seen.silent is not None and seen.silent <= WATCHER_SILENCE:
        return DefenceSeen(
            Defence.WATCHER,
            DefenceStanding.UNKNOWN,
            f"expected 'nvme-eraser watcher' to run, found that it ended within "
            f"{seen.silent:.0f} s: is it being restarted?",
        )
    if not seen.held:
        return _seen(
            Defence.WATCHER,
            "expected 'nvme-eraser watcher' to run, found its lock free; start it",
            "",
        )
    if seen.silent is None or seen.silent > WATCHER_SILENCE:
        since = "ever" if seen.silent is None else f"for {seen.silent:.0f} s"
        wrong = f"expected signs of life of the watcher, found none {since}"
        if seen.silent is not None and seen.silent <= WATCHER_STUCK:
            detail = f"{wrong}: does this host's disk stand still?"
            return DefenceSeen(Defence.WATCHER, DefenceStanding.UNKNOWN, detail)
        return _seen(Defence.WATCHER, f"{wrong}; restart it", "")
    return _seen(Defence.WATCHER, "", "runs")


DIRECTORIES = ("/etc/libvirt", HOOKS, HOOK_DIRECTORY)
"""Who may write there decides what libvirt runs."""
