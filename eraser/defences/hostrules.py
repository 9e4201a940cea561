"""Rules that keep this host from looking into what a tenant left on a drive.

By PCI address: udev neither probes nor watches such a drive, systemd, md, multipath and udisks
leave it alone, and LVM does not open it. mdadm assembles only what its own configuration names. The
kernel still reads partition tables; nothing acts on what it finds.
"""

from __future__ import annotations

import difflib
import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from eraser.defences import bootimages, diskscanners, mdadmconf
from eraser.errors import BadInputError, EraserError
from eraser.gate import hookfile
from eraser.protocol.identity import pci_address
from eraser.state.journal import replace_durably

UDEV_RULES = "/etc/udev/rules.d/10-nvme-quarantine.rules"
LVM_CONF = "/etc/lvm/lvm.conf"
LVM_LOCAL = "/etc/lvm/lvmlocal.conf"

IN_INITRAMFS = (UDEV_RULES, LVM_LOCAL, *mdadmconf.PLACES)
"""What the initramfs has copies of."""

MARK = "ERASER_QUARANTINE"
"""The udev property of our drives. multipath judges the first property, by name, that any of its
lists knows, and its built-in exceptions know ID_WWN: ours has to come before that."""

_TRIGGER = "udevadm trigger --settle --parent-match="

_BEGIN = "# BEGIN nvme-quarantine: written by 'nvme-eraser host-setup', do not edit"
_END = "# END nvme-quarantine"
_BLOCK = re.compile(rf"^{re.escape(_BEGIN)}\n.*?^{re.escape(_END)}\n", re.MULTILINE | re.DOTALL)
_FILTER = re.compile(r"^\s*(?:devices\s*/\s*)?global_filter\s*=\s*(\[[^]]*\]|\"[^\"]*\")", re.M)
_NVME_NAMES = (
    "/dev/nvme0n1",
    "/dev/nvme10n2p1",
    "/dev/disk/by-id/nvme-MODEL_SERIAL",
    "/dev/disk/by-path/pci-0000:01:00.0-nvme-1",
)


@dataclass(frozen=True)
class FileChange:
    """One file as it is and as it should be (None: absent), and what makes it count.

    ``drift`` says what besides its text is not as it should be, ``held`` why it is not written all
    the same.
    """

    path: str
    before: str | None
    after: str | None
    reload: tuple[str, ...] = ()
    warning: str = ""
    root: Path = Path("/")
    drift: str = ""
    held: str = ""

    @property
    def needed(self) -> bool:
        """The file differs from what it should be."""
        return self.before != self.after or bool(self.drift)

    @property
    def due(self) -> bool:
        """It is to be written."""
        return self.needed and not self.held

    def diff(self) -> str:
        """What :func:`apply` would change, as a unified diff; empty where nothing."""
        lines = difflib.unified_diff(
            (self.before or "").splitlines(keepends=True),
            (self.after or "").splitlines(keepends=True),
            self.path if self.before is not None else "/dev/null",
            self.path if self.after is not None else "/dev/null",
        )
        return "".join(lines) + (f"{self.path}: {self.drift}\n" if self.drift else "")


def plan(addresses: Iterable[str], root: Path = Path("/")) -> list[FileChange]:
    """What each file should hold for exactly these slots; compare with :attr:`FileChange.needed`.

    Programs that are not installed get no file. Raises :class:`BadInputError` for no or wrong
    addresses, and for a configuration that rules of ours cannot be added to.
    """
    try:
        slots = sorted({pci_address(address) for address in addresses})
    except ValueError as error:
        raise BadInputError(f"host-setup: {error}") from error
    if not slots:
        raise BadInputError("host-setup: expected at least one PCI address, found none")
    udev = (
        "udevadm control --reload",
        *(
            f"{_TRIGGER}/sys/bus/pci/devices/{slot}"
            for slot in slots
            if _installed(root, f"/sys/bus/pci/devices/{slot}")
        ),
        # The initramfs has its own copies of udev's, LVM's and mdadm's files, and acts before the
        # root is mounted. initramfs-tools and a host-only dracut take all rules of /etc into it.
        *_initramfs(root),
    )
    # udev is on every host; the other programs get a file only where they are installed.
    changes = [_change(root, UDEV_RULES, udev_rules(slots), udev)]
    if _installed(root, "/etc/multipath", "/usr/sbin/multipath", "/sbin/multipath"):
        # A multipathd that does not run reads it when it starts.
        running = (root / "run/multipathd.pid").exists()
        reload = ("multipathd reconfigure",) if running else ()
        changes.append(_change(root, diskscanners.MULTIPATH_CONF, multipath_conf(), reload))
    if _installed(root, "/etc/lvm", "/usr/sbin/lvm", "/sbin/lvm"):
        text = lvm_local(_text(root, LVM_LOCAL) or "", _text(root, LVM_CONF) or "", slots)
        changes.append(_change(root, LVM_LOCAL, text, _initramfs(root)))
    if _installed(root, "/etc/mdadm", "/etc/mdadm.conf", "/usr/sbin/mdadm", "/sbin/mdadm"):
        conf = mdadmconf.place(root)
        change = _change(root, conf, mdadm_conf(_text(root, conf) or ""), _initramfs(root))
        why = unlisted_arrays(conf, root)
        # A host whose own arrays are gone may not boot. What is there already stays.
        there = _BLOCK.search(change.before or "") is not None
        changes.append(replace(change, warning=why) if there else replace(change, held=why))
    return changes


def reloads(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """The commands that make what is written count, each once."""
    return tuple(dict.fromkeys(line for each in changes if each.due for line in each.reload))


def still_due(lines: Iterable[str], root: Path = Path("/")) -> tuple[str, ...]:
    """Of commands that an earlier run left, those that can still be run: udev itself tells of a
    drive that has left its slot since, when one comes there. Also what no run was told to have left
    undone: an initramfs that is older than our rules, of a kernel that may be booted."""
    left = [
        bootimages.UPDATE if line == bootimages.UPDATE_NEWEST else line
        for line in lines
        if not line.startswith(_TRIGGER) or _installed(root, line.removeprefix(_TRIGGER))
    ]
    if bootimages.UPDATE in _initramfs(root) and bootimages.older(root, (UDEV_RULES,)):
        left.append(bootimages.UPDATE)
    return tuple(dict.fromkeys(left))


def apply(changes: Sequence[FileChange]) -> tuple[str, ...]:
    """Writes what is due, each file at once; returns the commands that make it count.

    Raises :class:`EraserError` where a file cannot be written; files before it are in place.
    """
    for change in changes:
        if not change.due:
            continue
        path = change.root / change.path.lstrip("/")
        try:
            _write(path, change)
        except OSError as error:
            raise EraserError(
                f"host-setup: expected to write {path}, found {error.strerror}; run as root"
            ) from error
    return reloads(changes)


def _write(path: Path, change: FileChange) -> None:
    data = None if change.after is None else change.after.encode("utf-8", "surrogateescape")
    # Libvirt's hook is installed and removed by its own module.
    if change.path == hookfile.HOOK:
        if data is None:
            hookfile.remove(path)
        else:
            hookfile.install(path, data)
    elif data is not None:
        path.parent.mkdir(parents=True, exist_ok=True)
        # A person's mode for the file is kept.
        mode = path.stat().st_mode & 0o777 if path.exists() else 0o644
        replace_durably(path, data, mode)


def hook(settings: hookfile.HookSettings | None, root: Path = Path("/")) -> FileChange:
    """Our file in libvirt's hooks: there with these settings, or (None) not there."""
    path = root / hookfile.HOOK.lstrip("/")
    drift = ""
    if settings is not None and (path.is_symlink() or path.exists()):
        status = path.lstat()
        wanted = (stat.S_IFREG | hookfile.MODE, os.geteuid())
        if (status.st_mode, status.st_uid) != wanted:
            drift = (
                f"expected a file of mode {hookfile.MODE:o} and owner {wanted[1]}, "
                f"found mode {status.st_mode:o} and owner {status.st_uid}"
            )
    return FileChange(
        hookfile.HOOK,
        _text(root, hookfile.HOOK) if path.is_file() else None,
        None if settings is None else hookfile.text(settings),
        root=root,
        drift=drift,
    )


def cloud_init_off(root: Path = Path("/")) -> FileChange:
    """The file that keeps cloud-init from running at all. A person's own is left as it is."""
    before = _text(root, diskscanners.CLOUD_INIT_OFF)
    text = "Written by 'nvme-eraser host-setup --disable-cloud-init'.\n"
    return _change(root, diskscanners.CLOUD_INIT_OFF, text if before is None else before, ())


def check(addresses: Iterable[str], root: Path = Path("/")) -> tuple[str, ...]:
    """Which files are not as they should be for these slots; empty where all is in place.

    Raises :class:`BadInputError` as :func:`plan` does.
    """
    return tuple(missing(change) for change in plan(addresses, root) if change.needed)


def missing(change: FileChange) -> str:
    """A file that is not as it should be, in one line."""
    found = change.drift or ("none" if change.before is None else "another")
    wanted = "none" if change.after is None else "the one for these slots"
    why = f"{change.held}; then" if change.held else "run"
    return f"{change.path}: expected {wanted}, found {found}; {why} 'nvme-eraser host-setup'"


def udev_rules(slots: Sequence[str]) -> str:
    """Rules that run before all that look into a drive (60-persistent-storage, 64-md, 69-lvm).

    A disk hangs below its PCI function, but with native multipath below the subsystem: then the
    subsystem's controllers tell their addresses.
    """
    # A dot in a pattern matches any character.
    pattern = "|".join(slot.replace(".", "[.]") for slot in slots)
    lines = [
        "# Written by 'nvme-eraser host-setup': drives of tenants, never looked into.",
        'ACTION=="remove", GOTO="nvme_quarantine_end"',
        'SUBSYSTEM!="block", GOTO="nvme_quarantine_end"',
        *(f'SUBSYSTEMS=="pci", KERNELS=="{slot}", GOTO="nvme_quarantine"' for slot in slots),
        # Partitions of a head lie one directory deeper than the head.
        'SUBSYSTEMS=="nvme-subsystem", PROGRAM=="/bin/sh -c '
        f'\'grep -qsxE \\"{pattern}\\" /sys%p/../nvme*/address /sys%p/../../nvme*/address\'", '
        'GOTO="nvme_quarantine"',
        'GOTO="nvme_quarantine_end"',
        'LABEL="nvme_quarantine"',
        f'ENV{{{MARK}}}="1"',
        'ENV{UDEV_DISABLE_PERSISTENT_STORAGE_BLKID_FLAG}="1"',
        'ENV{SYSTEMD_READY}="0"',
        'ENV{UDISKS_IGNORE}="1"',
        # 60-multipath.rules asks multipath unless the kernel's command line says nompath.
        'ENV{nompath}="1"',
        'OPTIONS:="nowatch"',
        'LABEL="nvme_quarantine_end"',
    ]
    return "\n".join(lines) + "\n"


def multipath_conf() -> str:
    """multipath leaves alone what carries our mark: two drives may be given one WWID."""
    return f'{_BEGIN}\nblacklist {{\n\tproperty "^{MARK}$"\n}}\n{_END}\n'


def mdadm_conf(before: str) -> str:
    """Ours goes first: mdadm heeds the first AUTO line that it reads (mdadm.conf(5))."""
    return f"{_BEGIN}\nAUTO -all\n{_END}\n" + _BLOCK.sub("", before)


def unlisted_arrays(conf: str, root: Path = Path("/")) -> str:
    """Of arrays that run and no ARRAY line names, for people; empty where there are none."""
    texts = [_text(root, each) or "" for each in (conf, *mdadmconf.parts(root, conf))]
    missing = mdadmconf.unnamed(texts, _text(root, "/run/mdadm/map") or "")
    if not missing:
        return ""
    return (
        f"{', '.join(missing)}: running but not named in {conf}; arrays of this host that "
        "have no ARRAY line will not be assembled at the next boot: add 'mdadm --detail --scan', "
        "and stop those of tenants"
    )


def lvm_local(local: str, main: str, slots: Sequence[str]) -> str:
    """A global_filter by path in lvmlocal.conf, which overrides lvm.conf (LVM 2.03.16).

    A filter that is there already is kept behind ours. LVM accepts a device when *any* of its names
    is accepted, so a pattern that accepts NVMe names cannot stand beside ours: raises
    :class:`BadInputError`. A last ``a|.*|`` only spells out the default and is left away.
    """
    # Our block of an earlier run goes first, or its filter would count as a person's.
    own = _BLOCK.sub("", local)
    # lvmlocal.conf overrides lvm.conf, so a filter there hides the other one.
    theirs = _patterns(own) or _patterns(main)
    # It would accept our drives by their other names.
    if theirs and _accepts_all(theirs[-1]):
        theirs = theirs[:-1]
    for pattern in theirs:
        if pattern.startswith("a") and any(_matches(pattern, name) for name in _NVME_NAMES):
            raise BadInputError(
                f"host-setup: expected no LVM global_filter that accepts NVMe drives by name, "
                f"found {pattern!r}; name your own drives by /dev/disk/by-path there, or use LVM's "
                "devices file"
            )
    ours = [f"r|^/dev/disk/by-path/pci-{slot.replace('.', '[.]')}-|" for slot in slots]
    # The first pattern that matches a name decides, so ours stand in front.
    quoted = ", ".join(f'"{pattern}"' for pattern in [*ours, *theirs])
    separator = "" if not own or own.endswith("\n") else "\n"
    return f"{own}{separator}{_BEGIN}\ndevices/global_filter = [ {quoted} ]\n{_END}\n"


def _patterns(text: str) -> list[str]:
    """The strings of the last ``global_filter`` that is not a comment."""
    uncommented = "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))
    found = _FILTER.findall(uncommented)
    return re.findall(r"\"((?:[^\"\\]|\\.)*)\"", found[-1]) if found else []


def _accepts_all(pattern: str) -> bool:
    return pattern[:1] == "a" and pattern[2:-1] in (".*", "^/dev/.*", "/dev/.*", "")


def _matches(pattern: str, name: str) -> bool:
    try:
        return re.search(pattern[2:-1], name) is not None
    except re.error:
        return True  # not Python's dialect: count it as one that accepts


def _initramfs(root: Path) -> tuple[str, ...]:
    """What puts files of /etc into the initramfs; nothing where no program makes one."""
    if _installed(root, "/usr/sbin/update-initramfs"):
        return (bootimages.UPDATE,)
    if _installed(root, "/usr/bin/dracut", "/usr/sbin/dracut"):
        return ("dracut --force --regenerate-all",)
    return ()


def _installed(root: Path, *paths: str) -> bool:
    return any((root / path.lstrip("/")).exists() for path in paths)


def _text(root: Path, path: str) -> str | None:
    try:
        return (root / path.lstrip("/")).read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise EraserError(
            f"host-setup: expected to read {path}, found {error.strerror}; run as root"
        ) from error


def _change(root: Path, path: str, after: str, reload: tuple[str, ...]) -> FileChange:
    return FileChange(path, _text(root, path), after, reload, root=root)
