"""Programs of this host that look on every disk for orders, systems or pools, and ask no udev.

host-setup's rules keep off who asks udev, LVM, md or multipath. These read every disk themselves,
and what a tenant wrote there is acted on: no rule by address keeps them off, so they must not run.
A program in a container that lacks the file that host-setup wrote for it is as bad.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from eraser.defences import views
from eraser.host import proc
from eraser.host.sysfs import Host

CLOUD_INIT_OFF = "/etc/cloud/cloud-init.disabled"
"""Where it is, cloud-init does nothing at all (ds-identify, and a condition of each unit)."""

MULTIPATH_CONF = "/etc/multipath/conf.d/nvme-quarantine.conf"
"""host-setup's, for multipath: it leaves the drives alone where this is read."""

_UNITS = (
    "/etc/systemd/system",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
)
_SEARCHES = (
    "cloud-init-local.service",
    "cloud-init.service",
    "cloud-init-network.service",
    "cloud-init-main.service",
)
"""Look for a data source. The others use what these found, and want them: any one starts all."""
_CLOUD_INIT = (*_SEARCHES, "cloud-config.service", "cloud-final.service")

_READ_NO_DISK = frozenset({"None", "MAAS", "OpenStack", "Ec2"})
"""Data sources that ask the network alone. NoCloud, ConfigDrive, OVF, OpenNebula, Azure, IBMCloud,
AltCloud and RbxCloud mount whatever carries their label or file system; of others nobody looked."""

_LISTED = re.compile(r"""^\s*["']?datasource_list["']?\s*:(.*)$""", re.M)
_ONE_LINE = re.compile(r"\s*\[([^][]*)\]\s*(?:#.*)?")
_OVERRIDES = re.compile(r"datasource_list|(?:^|\s)(?:ds|ci\.ds|ci\.datasource)=")
"""On the kernel's command line they go before what /etc says."""
_ROOT_LABEL = re.compile(r"(?:^|\s)root=(?:PART)?LABEL=")
_GRUB_OFF = re.compile(r"""^\s*GRUB_DISABLE_OS_PROBER=["']?(\w*)""", re.M)


@dataclass(frozen=True)
class DiskScanner:
    """One that may run on this host: what it does with a tenant's drive, and how to end that."""

    name: str
    does: str
    instead: str
    why: str = "asks no udev"

    @property
    def line(self) -> str:
        """For people."""
        return f"{self.name} {self.why}: {self.does}; {self.instead}"


@dataclass(frozen=True)
class Found:
    """Those that run here, by what the host's files say."""

    programs: tuple[DiskScanner, ...]
    unclear: tuple[str, ...]
    """For people: of which that cannot be told, and why."""


def found(host: Host) -> Found:
    """Looks for each; what cannot be read of one is told, and hides no other."""
    programs: list[DiskScanner] = []
    unclear: list[str] = []
    for runs, scanner in _LOOKS:
        try:
            if runs(host):
                programs.append(scanner)
        except OSError as error:
            unclear.append(f"whether {scanner.name} runs here cannot be told: {error}")
    return Found(tuple(programs), tuple(unclear))


def _root_by_label(host: Host) -> bool:
    """initramfs-tools asks blkid which disk it is (scripts/functions, resolve_device); dracut's and
    systemd's way, /dev/disk/by-label, is udev's, which shows none of our drives there."""
    ours = host.path("/usr/sbin/update-initramfs").exists()
    return ours and _ROOT_LABEL.search(_text(host, "/proc/cmdline")) is not None


def _cloud_init(host: Host) -> bool:
    if not any(_wanted(host, unit) for unit in _CLOUD_INIT):
        return False
    if all(_masked(host, unit) for unit in _SEARCHES if _installed(host, unit)):
        return False
    line = _text(host, "/proc/cmdline")
    if host.path(CLOUD_INIT_OFF).is_file() or "cloud-init=disabled" in line:
        return False
    return bool(_OVERRIDES.search(line)) or not _pinned(host)


def _pinned(host: Host) -> bool:
    """The data sources are named, and none of them reads a disk. cloud-init heeds the last file
    that names any; one that is not written in one line is not understood here, nor by ds-identify.
    """
    parts = "/etc/cloud/cloud.cfg.d"
    names = (name for name in _names(host, parts) if name.endswith(".cfg"))
    places = ("/etc/cloud/cloud.cfg", *(f"{parts}/{name}" for name in names))
    listed = [value for place in places for value in _LISTED.findall(_text(host, place))]
    line = _ONE_LINE.fullmatch(listed[-1]) if listed else None
    sources = {each.strip(" \"'") for each in line[1].split(",")} if line else set()
    return bool(sources) and sources <= _READ_NO_DISK


def _glean(host: Host) -> bool:
    units = ("glean-early.service", "glean@.service")
    return any(_installed(host, unit) and not _masked(host, unit) for unit in units)


def _os_prober(host: Host) -> bool:
    if not host.path("/usr/bin/os-prober").exists():
        return False
    parts = "/etc/default/grub.d"
    names = (name for name in _names(host, parts) if name.endswith(".cfg"))
    # GRUB itself says that it is off since its release 2.06; the last word counts.
    makers = ("/usr/sbin/grub-mkconfig", "/usr/sbin/grub2-mkconfig")
    places = (*makers, "/etc/default/grub", *(f"{parts}/{name}" for name in names))
    said = [value for place in places for value in _GRUB_OFF.findall(_text(host, place))]
    return not said or said[-1] != "true"


def _zfs_scan(host: Host) -> bool:
    return _wanted(host, "zfs-import-scan.service") and not _filled(host, "/etc/zfs/zpool.cache")


def _multipathd_apart(host: Host) -> bool:
    return any(
        not host.path(f"{root}{MULTIPATH_CONF}").exists() and proc.is_alive(host, process.pid)
        for process in proc.processes(host)
        if process.name == "multipathd"
        and (root := proc.view(host, process))
        and _other_files(host, root)
    )


def _other_files(host: Host, root: str) -> bool:
    """Whoever has this root reads another /etc than the host's first process: a mount namespace of
    its own, which we may be in ourselves, makes no container."""
    theirs = views.place(host, root, "/etc")
    return theirs is None or theirs != views.place(host, proc.view(host, proc.FIRST), "/etc")


def _installed(host: Host, unit: str) -> bool:
    return any(host.path(f"{place}/{unit}").exists() for place in _UNITS)


def _masked(host: Host, unit: str) -> bool:
    """A link to /dev/null, or an empty file, in its place (systemd.unit(5))."""
    path = host.path(f"{_UNITS[0]}/{unit}")
    if path.is_symlink():
        return str(path.readlink()) == "/dev/null"
    return path.is_file() and path.stat().st_size == 0


def _wanted(host: Host, unit: str) -> bool:
    """Another unit pulls it in, and it is not masked: an administrator enabled it, or a package."""
    if _masked(host, unit):
        return False
    return any(
        host.path(f"{place}/{name}/{unit}").is_symlink()
        for place in _UNITS
        for name in _names(host, place)
        if name.endswith((".wants", ".requires"))
    )


def _filled(host: Host, place: str) -> bool:
    path = host.path(place)
    return path.is_file() and path.stat().st_size > 0


def _text(host: Host, place: str) -> str:
    try:
        return host.path(place).read_bytes().decode("utf-8", "replace")
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
        return ""


def _names(host: Host, place: str) -> list[str]:
    try:
        return host.children(place)
    except NotADirectoryError:
        return []


_LOOKS: tuple[tuple[Callable[[Host], bool], DiskScanner], ...] = (
    (
        _cloud_init,
        DiskScanner(
            "cloud-init",
            "at the next boot it runs, as root, what lies on a tenant's drive under the label "
            "config-2 or cidata",
            f"disable it ('nvme-eraser host-setup --disable-cloud-init' writes {CLOUD_INIT_OFF}), "
            "or pin datasource_list to sources that read no disk",
        ),
    ),
    (
        _glean,
        DiskScanner(
            "glean",
            "at boot it takes root's SSH keys and the network's configuration from a tenant's "
            "drive with the label config-2",
            "remove it, or mask its units",
        ),
    ),
    (
        _os_prober,
        DiskScanner(
            "os-prober",
            "at each update-grub it mounts what is on tenants' drives and puts systems from there "
            "into the boot menu",
            "remove it, or write GRUB_DISABLE_OS_PROBER=true into /etc/default/grub",
        ),
    ),
    (
        _zfs_scan,
        DiskScanner(
            "zfs-import-scan",
            "at boot it imports any pool that a tenant left",
            "'systemctl disable zfs-import-scan'; zfs-import-cache imports your own",
        ),
    ),
    (
        _root_by_label,
        DiskScanner(
            "initramfs (root=LABEL)",
            "at boot it takes a tenant's file system with the label of this host's root for that",
            "name the root by its UUID on the kernel's command line and in /etc/fstab",
        ),
    ),
    (
        _multipathd_apart,
        DiskScanner(
            "multipathd (container)",
            "it makes one device of drives to which tenants gave one WWID",
            f"mount {MULTIPATH_CONF} into it, which host-setup writes where /etc/multipath is, and "
            "start it anew",
            "has not host-setup's file",
        ),
    ),
)
