"""Proof that nobody uses a drive (promise 2): no guest, no process, nothing of this host.

The driver that is bound proves nothing: a stopped tenant's drive sits on ``nvme``, open by nobody,
and one on ``vfio-pci`` may be free. What cannot be read counts as in use.
"""

from __future__ import annotations

import enum
import errno
import os
from collections.abc import Collection, Iterator
from dataclasses import dataclass

from eraser.errors import DriveError, InUseError
from eraser.host import domains, openers, usage
from eraser.host.sysfs import AbsentError, Host, Node, PciFunction, open_node

KNOWN_DRIVERS = (None, "nvme", "vfio-pci")
PATIENCE = 3.0
"""Seconds for a passing look (monitoring, udev) to end before it counts as use."""
_PAUSE = 0.1


class Use(enum.StrEnum):
    """A kind of use, by which a reason is named."""

    DOMAIN = "domain"
    """A libvirt domain, running or not, names the function."""
    GUEST = "vfio user"
    """A process holds the function through VFIO: also a guest that libvirt forgot."""
    DRIVER = "driver"
    """A driver that we know no proof for, or virtual functions handed out."""
    BOOT = "boot drive"
    MOUNT = "mounted"
    SWAP = "swap"
    STACK = "stacked"
    EXPORT = "exported"
    OPEN = "open"
    EXCLUSIVE = "claimed"
    """The kernel refuses an exclusive claim: ZFS and whatever else has no file to show."""


_PASSING = frozenset({Use.OPEN, Use.EXCLUSIVE})


@dataclass(frozen=True)
class Reason:
    """One thing that speaks against touching the drive."""

    use: Use
    detail: str

    def __str__(self) -> str:
        return f"{self.use.value}: {self.detail}"


@dataclass(frozen=True)
class IdleFacts:
    """All that is known about who uses the function, gathered at one time."""

    address: str
    driver: str | None
    iommu_group: str | None
    virtual_functions: int
    nodes: tuple[Node, ...]
    claims: tuple[domains.DomainClaim, ...]
    domain_files: tuple[str, ...]
    processes: int
    vfio_users: tuple[openers.Opener, ...]
    openers: tuple[openers.Opener, ...]
    system_disks: frozenset[str]
    mounted: tuple[str, ...]
    swapping: tuple[str, ...]
    stacked: tuple[str, ...]
    exported: tuple[str, ...]
    refused_claims: tuple[str, ...]
    """Nodes on which the kernel refused us an exclusive claim."""


@dataclass(frozen=True)
class IdleProof:
    """What was looked at and found free."""

    address: str
    driver: str
    nodes: tuple[str, ...]
    processes: int
    domain_files: tuple[str, ...]
    looked_at: tuple[str, ...]


def prove_idle(
    host: Host,
    address: str,
    *,
    own_pids: frozenset[int],
    claimed: Collection[str] = (),
    patience: float = PATIENCE,
) -> IdleProof:
    """Proves that nobody uses the drive at ``address``, or says who does.

    ``own_pids`` may have it open; ``claimed`` names the disks (nvme0n1) that the caller's own
    :class:`~eraser.controller.lock.NamespaceHold` holds. A passing look by monitoring gets
    ``patience`` seconds to end. Raises :class:`InUseError` naming each use found, also where
    something could not be read, and :class:`AbsentError` where no function is there.
    """
    deadline = host.clock.monotonic() + patience
    while True:
        try:
            facts = gather(host, address, own_pids=own_pids, claimed=claimed)
        except InUseError as error:
            # A node that goes while it is read is no use of the drive: the next look has what is
            # there then.
            if _vanished(error.__cause__) and host.clock.monotonic() < deadline:
                host.clock.sleep(_PAUSE)
                continue
            raise
        found = reasons(facts)
        if not found:
            return _proof(facts)
        # A mount or a guest does not pass within seconds, so nobody waits for it.
        passing = all(reason.use in _PASSING for reason in found)
        if not passing or host.clock.monotonic() >= deadline:
            raise InUseError(
                f"{facts.address}: expected an unused drive, found it in use: "
                f"{'; '.join(map(str, found[:4]))}{' and more' if len(found) > 4 else ''}; "
                "nothing more is sent to it"
            )
        host.clock.sleep(_PAUSE)


def _vanished(cause: BaseException | None) -> bool:
    """Something went while it was being read: a rescan, or a drive that is coming up."""
    return isinstance(cause, OSError) and cause.errno in (errno.ENOENT, errno.ENXIO, errno.ENODEV)


def reasons(facts: IdleFacts) -> tuple[Reason, ...]:
    """Everything that speaks against touching the drive, worst first."""
    return tuple(_reasons(facts))


def _reasons(facts: IdleFacts) -> Iterator[Reason]:
    for claim in facts.claims:
        yield Reason(Use.DOMAIN, f"libvirt domain {claim.domain!r} names it in {claim.file}")
    for user in facts.vfio_users:
        yield Reason(Use.GUEST, f"process {user.pid} ({user.command}) holds {user.target}")
    if facts.driver not in KNOWN_DRIVERS:
        yield Reason(Use.DRIVER, f"bound to {facts.driver}: cannot prove that it is unused")
    if facts.driver == "vfio-pci" and facts.iommu_group is None:
        yield Reason(Use.DRIVER, "bound to vfio-pci without an IOMMU group: cannot prove")
    if facts.virtual_functions:
        yield Reason(Use.DRIVER, f"{facts.virtual_functions} virtual functions are enabled")
    for node in facts.nodes:
        if node.block and node.name in facts.system_disks:
            yield Reason(Use.BOOT, f"{node.name} carries this host's system")
    for use, details in (
        (Use.MOUNT, facts.mounted),
        (Use.SWAP, facts.swapping),
        (Use.STACK, facts.stacked),
        (Use.EXPORT, facts.exported),
    ):
        for detail in details:
            yield Reason(use, detail)
    for opener in facts.openers:
        yield Reason(Use.OPEN, f"process {opener.pid} ({opener.command}) has {opener.target} open")
    for name in facts.refused_claims:
        yield Reason(Use.EXCLUSIVE, f"something claims {name} exclusively")


def gather(
    host: Host, address: str, *, own_pids: frozenset[int], claimed: Collection[str] = ()
) -> IdleFacts:
    """Reads everything that :func:`reasons` decides on. Raises :class:`InUseError`."""
    function = PciFunction(host, address)
    try:
        # A boot may deal the addresses out anew: of what else is there now nothing is read, and it
        # stays on its driver.
        if other := function.other_class:
            raise AbsentError(
                f"expected an NVMe drive at {function.address}, found a function of PCI class "
                f"{other}; has the host other addresses than before?"
            )
        known = function.nodes()
        claims, files = domains.claims(
            host, function.address, lambda path: _leads_to(function, known, path)
        )
        # A domain may name a drive that is away: that is a use of it.
        if not function.present and not claims:
            raise AbsentError(
                f"expected a PCI function at {function.address}, found none; "
                "is the drive in its slot?"
            )
        return _gather(function, claims, files, own_pids, claimed)
    except AbsentError:
        raise
    except InUseError as error:
        raise InUseError(f"{function.address}: {error}") from error
    except (OSError, DriveError) as error:
        raise InUseError(
            f"{function.address}: cannot prove idle: expected to read who uses the drive, "
            f"found {error}; run as root, or try again"
        ) from error


def _leads_to(function: PciFunction, nodes: tuple[Node, ...], path: str) -> bool:
    """Whether a path below /dev is the drive; by-path names it whatever driver it is on."""
    return f"/pci-{function.address}-nvme-" in path or usage.names_node(function.host, path, nodes)


def _gather(
    function: PciFunction,
    claims: tuple[domains.DomainClaim, ...],
    files: tuple[str, ...],
    own_pids: frozenset[int],
    claimed: Collection[str],
) -> IdleFacts:
    host = function.host
    nodes = function.nodes()
    processes = openers.pids(host)
    mounts = openers.mounts(host, processes)
    # Processes of one mount namespace share one tuple, which is looked at once.
    distinct = {id(seen): seen for seen in mounts.values()}.values()
    every_mount = [mount for seen in distinct for mount in seen]
    vfio_devices, vfio_names = openers.vfio_handles(function)
    others = [pid for pid in processes if pid not in own_pids]
    users = openers.openers(
        host, others, vfio_devices | {node.device for node in nodes}, vfio_names
    )
    own = {node.device for node in nodes}
    # What is open but is none of the drive's nodes was found as a VFIO handle or a PCI resource.
    guests = [user for user in users if user.device not in own]
    return IdleFacts(
        address=function.address,
        driver=function.driver,
        iommu_group=function.iommu_group,
        virtual_functions=sum(
            name.startswith("virtfn") for name in host.children(function.directory)
        ),
        nodes=nodes,
        claims=claims,
        domain_files=files,
        processes=len(processes),
        vfio_users=tuple(guests),
        openers=tuple(user for user in users if user not in guests),
        system_disks=usage.system_disks(host, _system_mounts(mounts)),
        mounted=tuple(usage.mounted(nodes, every_mount, usage.kinds_without_device(host))),
        swapping=tuple(usage.swapping(host, nodes)),
        stacked=tuple(usage.stacked(host, nodes)),
        exported=tuple(usage.exported(host, nodes)),
        refused_claims=tuple(refused_claims(host, nodes, claimed)),
    )


def _system_mounts(
    mounts: dict[int, tuple[openers.MountLine, ...]],
) -> tuple[openers.MountLine, ...]:
    # Without these the boot drive cannot be told from others.
    if 1 not in mounts:
        raise InUseError("cannot prove idle: expected the mounts of process 1, found none")
    return mounts[1]


def refused_claims(host: Host, nodes: tuple[Node, ...], claimed: Collection[str]) -> Iterator[str]:
    """Disks on which the kernel refuses an exclusive open (read only, so that udev stays quiet).

    A claim on a partition keeps others from the whole disk too, hence disks are enough; ours are
    left out. Raises ``OSError`` for any other failure.
    """
    blocks = [node for node in nodes if node.block]
    disks = [
        node
        for node in blocks
        if not any(node.name != disk.name and _is_part(node, disk) for disk in blocks)
    ]
    for node in disks:
        if node.name in claimed:
            continue
        try:
            descriptor = open_node(host, node, os.O_RDONLY | os.O_EXCL | os.O_NONBLOCK)
        except OSError as error:
            # Only EBUSY says that somebody has a claim; any other failure proves nothing.
            if error.errno != errno.EBUSY:
                raise
            yield node.name
        else:
            os.close(descriptor)


def _is_part(node: Node, disk: Node) -> bool:
    return node.name.startswith(f"{disk.name}p")


def _proof(facts: IdleFacts) -> IdleProof:
    return IdleProof(
        address=facts.address,
        driver=facts.driver or "",
        nodes=tuple(f"{node.name} {node.numbers}" for node in facts.nodes),
        processes=facts.processes,
        domain_files=facts.domain_files,
        looked_at=(
            "libvirt domains, defined and running",
            "VFIO group and device, PCI resources",
            "descriptors of all processes",
            "mounts in all mount namespaces",
            "swap, md, dm, bcache, btrfs, loop",
            "nvmet and LIO exports",
            "disks under the running system",
            "exclusive claim on each disk",
        ),
    )
