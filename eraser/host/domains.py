"""Which libvirt domains claim a drive, read from libvirt's files and without libvirt.

A domain claims it by its PCI address, or as a disk by a path of the host's own /dev.

Defined domains (shut off ones too) stand in ``/etc/libvirt/qemu/*.xml``, running, paused and
transient ones in ``/run/libvirt/qemu/*.xml``; neither directory alone is enough. Subdirectories
(networks, autostart, channels) hold no domains. A daemon that runs in a container may have both
directories to itself: then its own are read as well.
"""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from eraser.errors import InUseError
from eraser.host import proc
from eraser.host.sysfs import Host

RUNNING = "/run/libvirt/qemu"
DIRECTORIES = ("/etc/libvirt/qemu", RUNNING)
MAX_BYTES = 16 << 20
_TRIES = 5
_SHORT = re.compile(
    r"(?:([0-9a-fA-F]{1,8}):)?([0-9a-fA-F]{1,2}):([0-9a-fA-F]{1,2})\.([0-7])(?![0-9a-fA-F])"
)
"""QEMU takes a domain of any length, libvirt and sysfs write four digits and more."""


_PATH = re.compile(r"/dev/[^\s,;\"']+")


@dataclass(frozen=True)
class NamedDomain:
    """A domain, every host PCI address that it names, and every path below /dev."""

    domain: str
    uuid: str
    """In lower case; empty where the file has none."""
    addresses: frozenset[str]
    paths: frozenset[str]


@dataclass(frozen=True)
class ListedDomain:
    """A domain of one of libvirt's files."""

    file: str
    running: bool
    """It stands among the running, paused and transient ones."""
    named: NamedDomain


@dataclass(frozen=True)
class DomainClaim:
    """A domain names the drive, running or not."""

    domain: str
    file: str


def named(document: bytes) -> NamedDomain:
    """What a domain's devices name.

    A host address is an ``address`` below a ``source`` (hostdev, interface, disk type nvme, also
    the ``actual`` device of a network's pool); the ``address`` beside it is the guest's side.
    Raises ``ValueError`` for what is not a domain.
    """
    try:
        top = ElementTree.fromstring(document)  # noqa: S314 - expat limits entity expansion itself
    except (ElementTree.ParseError, LookupError) as error:
        raise ValueError(f"not XML ({error})") from error
    # A running domain's file has a <domstatus> around it.
    domain = top if top.tag == "domain" else top.find("domain")
    if domain is None:
        raise ValueError(f"no domain but <{top.tag[:40]}>")
    found, paths = set[str](), set[str]()
    for source in domain.iter("source"):
        for element in source.iter("address"):
            if (address := _numerical(element)) is not None:
                found.add(address)
    for element in domain.iter():
        # QEMU's own arguments, and libvirt's override of one property of a device.
        if element.tag.endswith(("}arg", "}property")):
            found.update(_in_argument(element.get("value", "")))
        # Any attribute: a path of the drive may stand in elements that we do not know.
        for value in element.attrib.values():
            paths.update(_PATH.findall(value))
    uuid = domain.findtext("uuid", "").strip().lower()
    return NamedDomain(
        domain.findtext("name", "(no name)"), uuid, frozenset(found), frozenset(paths)
    )


def _numerical(element: ElementTree.Element) -> str | None:
    """libvirt writes hexadecimal with 0x; by hand decimal and octal are allowed too."""
    if element.get("type", "pci") != "pci" or not {"bus", "slot"} & element.attrib.keys():
        return None
    if {"device", "target", "port"} & element.attrib.keys():
        return None  # USB and SCSI addresses have a bus too
    parts = [_integer(element.get(name, "0")) for name in ("domain", "bus", "slot", "function")]
    return "{:04x}:{:02x}:{:02x}.{:x}".format(*parts)


def _integer(text: str) -> int:
    text = text.strip()
    if len(text) > 1 and text[0] == "0" and text[1:].isdecimal():
        return int(text, 8)
    return int(text, 0)


def _in_argument(value: str) -> Iterator[str]:
    """Addresses in a raw QEMU argument, with or without their domain."""
    for domain, bus, device, function in _SHORT.findall(value):
        yield f"{int(domain or '0', 16):04x}:{int(bus, 16):02x}:{int(device, 16):02x}.{function}"


def claims(
    host: Host, address: str, leads_to_it: Callable[[str], bool]
) -> tuple[tuple[DomainClaim, ...], tuple[str, ...]]:
    """The claims on ``address``, and the files that were read.

    ``leads_to_it`` tells of a path below /dev whether the drive is behind it. Raises
    :class:`InUseError` where a file cannot be read or understood: it may name the drive.
    """
    known = listed(host)
    found = tuple(
        DomainClaim(each.named.domain, each.file)
        for each in known
        if address in each.named.addresses or any(map(leads_to_it, sorted(each.named.paths)))
    )
    return found, tuple(each.file for each in known)


PATIENCE = 3.0
"""Seconds in which what could not be read of the host's processes may be read after all."""

_PAUSE = 0.2


def listed(host: Host) -> tuple[ListedDomain, ...]:
    """Every domain of this host, defined or running; one that is both stands twice, or more often.

    Raises :class:`InUseError` where a file cannot be read or understood, and where daemons of
    libvirt may run that are not seen from here.
    """
    if why := proc.blind(host):
        raise InUseError(f"cannot prove idle: {why}")
    deadline = host.clock.monotonic() + PATIENCE
    while True:
        try:
            return _everywhere(host)
        except OSError as error:
            # What the machine lacks for a moment must not end a case that has erased already.
            if host.clock.monotonic() >= deadline:
                raise InUseError(
                    f"cannot prove idle: expected to read who runs on this host, found {error}; "
                    "run as root, or try again"
                ) from error
        host.clock.sleep(_PAUSE)


def _everywhere(host: Host) -> tuple[ListedDomain, ...]:
    found = list(_listed(host, ""))
    # We may be in a container ourselves, while the daemon of the host is down.
    if view := proc.view(host, proc.FIRST):
        found += _listed(
            host, view, tuple(each for each in DIRECTORIES if _apart(host, view, each))
        )
    for daemon in proc.libvirt_daemons(host, tuple(proc.processes(host))):
        # A daemon in a mount namespace of its own has other files under the same names.
        if view := proc.view(host, daemon):
            found += _listed(host, view)
        # What it sees went with it, reaped or not: its namespace then reads as ours, and an absent
        # directory as one without domains.
        if not proc.is_alive(host, daemon.pid):
            raise InUseError(
                f"cannot prove idle: expected to read the domains of {daemon.name} (process "
                f"{daemon.pid}), found that it ended meanwhile; try again"
            )
    return tuple(found)


def _apart(host: Host, view: str, directory: str) -> bool:
    """Another directory is there than the one of that name here: a unit that systemd confines has a
    mount namespace of its own, and the same files. Raises :class:`InUseError`."""
    place, ours = host.path(f"{view}{directory}"), host.path(directory)
    try:
        return place.exists() and not (ours.exists() and place.samefile(ours))
    except OSError as error:
        raise InUseError(
            f"cannot prove idle: expected to see whether the host has another {directory}, found "
            f"{error}; run as root"
        ) from error


def _listed(
    host: Host, view: str, directories: tuple[str, ...] = DIRECTORIES
) -> Iterator[ListedDomain]:
    """The domains in libvirt's directories below ``view``."""
    for directory in directories:
        for name, document in _documents(host, f"{view}{directory}"):
            path = f"{view}{directory}/{name}"
            try:
                yield ListedDomain(path, directory == RUNNING, named(document))
            except ValueError as error:
                raise InUseError(
                    f"cannot prove idle: expected a domain in {path}, found {error}; "
                    "mend or remove the file"
                ) from error


def _documents(host: Host, directory: str) -> list[tuple[str, bytes]]:
    """All XML files of a directory at one time; libvirt may be changing it."""
    for _ in range(_TRIES):
        try:
            names = [name for name in host.children(directory) if name.endswith(".xml")]
            documents = [(name, _read(host, f"{directory}/{name}")) for name in names]
            # Only a list that is the same before and after was read at one time.
            if names == [name for name in host.children(directory) if name.endswith(".xml")]:
                return documents
        except FileNotFoundError:
            continue  # removed between listing and reading: look again
        except (OSError, ValueError) as error:
            raise InUseError(
                f"cannot prove idle: expected to read the domains in {directory}, found {error}; "
                "run as root"
            ) from error
    raise InUseError(
        f"cannot prove idle: expected {directory} to keep still, found it changing; try again"
    )


def _read(host: Host, path: str) -> bytes:
    with host.path(path).open("rb") as handle:
        document = handle.read(MAX_BYTES + 1)
    if len(document) > MAX_BYTES:
        raise ValueError(f"more than {MAX_BYTES} bytes in {path}")
    return document
