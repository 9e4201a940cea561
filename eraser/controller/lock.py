"""Who may work on a slot, and how everyone else is kept from its drive."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING, Self

from eraser.errors import BusyError, DriveError, InUseError
from eraser.host import sysfs
from eraser.protocol.identity import pci_address

if TYPE_CHECKING:
    from eraser.controller.nvme import Controller

RUN_DIR = Path("/run/nvme-quarantine")
PROBE_PATIENCE = 5.0
"""Seconds that udev's short probing of a device may keep it from us."""


class SlotLock:
    """One flock per slot, shared by the eraser and the gate.

    It belongs to the open file description: a child that inherited :attr:`fd` keeps the slot
    locked after its parent died. The file is never removed, because a lock on a removed file
    excludes nobody.
    """

    def __init__(self, address: str, run_dir: Path = RUN_DIR) -> None:
        """``address`` as sysfs writes it. Raises ``ValueError``."""
        self.address = pci_address(address)
        self.path = run_dir / f"slot-{self.address}.lock"
        self._fd: int | None = None

    @property
    def fd(self) -> int:
        """The descriptor that holds the lock. Raises :class:`BusyError` when not held."""
        if self._fd is None:
            raise BusyError(f"{self.path}: expected the lock to be held, found it free; acquire it")
        return self._fd

    @property
    def held(self) -> bool:
        """This object holds the lock."""
        return self._fd is not None

    def acquire(self, *, blocking: bool = False) -> None:
        """Takes the lock. Raises :class:`BusyError` that names the holder's pid.

        Raises :class:`DriveError` where the lock's file cannot be made.
        """
        if self._fd is not None:
            return
        try:
            self.path.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        except OSError as error:
            raise DriveError(
                f"expected to open the lock {self.path}, found {error.strerror}; run as root"
            ) from error
        try:
            # Without ``blocking`` the answer comes at once: whoever is refused may come again.
            fcntl.flock(fd, fcntl.LOCK_EX | (0 if blocking else fcntl.LOCK_NB))
        except BlockingIOError as error:
            os.close(fd)
            raise BusyError(
                f"{self.address}: expected a free slot, found it locked by process "
                f"{self.holder()}; "
                "try again when that has ended"
            ) from error
        except BaseException:
            os.close(fd)
            raise
        self._fd = fd
        # A full disk is no reason to fail: this only says who has it. A lock that we hold and have
        # no descriptor of would stay until we end.
        with contextlib.suppress(OSError):
            os.ftruncate(fd, 0)
            os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)

    def holder(self) -> str:
        """The pid of whoever took the lock last, for people."""
        try:
            # The holder writes its pid after it locked: until then the file has the pid of the one
            # before.
            return self.path.read_bytes()[:32].decode("ascii", "replace").strip() or "unknown"
        except OSError:
            return "unknown"

    def share(self) -> int:
        """The descriptor, made inheritable, for a child that must hold the slot as well."""
        os.set_inheritable(self.fd, True)
        return self.fd

    def release(self) -> None:
        """Lets go of our descriptor; children that inherited it still hold the lock."""
        if self._fd is not None:
            os.close(self._fd)
            self._fd = None

    def __enter__(self) -> Self:
        self.acquire()
        return self

    def __exit__(self, *_raised: object) -> None:
        self.release()


class NamespaceHold:
    """Keeps every block device of a controller to ourselves while the drive is worked on.

    ``O_EXCL`` keeps mounts, md, LVM, swap and other exclusive users away; ``flock`` keeps udev from
    probing (systemd, "Block device locking"). Both go with the descriptor, so drop it before a
    command that changes namespaces and take it again after.
    """

    def __init__(
        self, controller: Controller, *, patience: float = PROBE_PATIENCE, writable: bool = True
    ) -> None:
        """``writable`` False opens for reading alone: for whoever must change nothing."""
        self._controller = controller
        self._writable = writable
        self.patience = patience
        """Seconds that a passing claim of somebody else is waited for."""
        self._descriptors: dict[int, tuple[str, int]] = {}

    @property
    def claimed(self) -> frozenset[str]:
        """Names (nvme0n1) of the disks held now, for :func:`eraser.host.idle.prove_idle`."""
        return frozenset(os.path.basename(path) for path, _fd in self._descriptors.values())

    @property
    def paths(self) -> dict[int, str]:
        """NSID to the path of each disk held now."""
        return {nsid: path for nsid, (path, _fd) in self._descriptors.items()}

    def take(self) -> Self:
        """Claims all block devices that the controller has now; taken twice is taken anew.

        Raises :class:`InUseError` where somebody else has one.
        """
        # Our own claims go first: O_EXCL and flock would refuse us a second descriptor as they
        # refuse others.
        self.drop()
        try:
            for nsid, node in self._controller.block_nodes().items():
                path = str(self._controller.host.path(f"/dev/{node.name}"))
                self._descriptors[nsid] = (path, self._claim(path, node))
        except BaseException:
            self.drop()
            raise
        return self

    def _claim(self, path: str, node: sysfs.Node) -> int:
        deadline = self._controller.host.clock.monotonic() + self.patience
        while True:
            try:
                return exclusive(self._controller.host, node, writable=self._writable)
            except OSError as error:
                # EBUSY is from O_EXCL, EAGAIN from flock. udev's probing passes: both are waited
                # for.
                busy = error.errno in (errno.EBUSY, errno.EAGAIN)
                if busy and self._controller.host.clock.monotonic() < deadline:
                    self._controller.host.clock.sleep(sysfs.POLL)
                    continue
                if busy:
                    raise InUseError(
                        f"{path}: expected nobody else to use it, found it claimed "
                        f"({error.strerror}); see 'lsblk' and 'fuser -v'"
                    ) from error
                raise DriveError(
                    f"expected to open {path}, found {error.strerror}; rescan the controller"
                ) from error

    def drop(self) -> None:
        """Lets go of every disk. The kernel tells udev, which may look at them again."""
        while self._descriptors:
            _nsid, (_path, fd) = self._descriptors.popitem()
            os.close(fd)

    close = drop

    def __enter__(self) -> Self:
        return self.take()

    def __exit__(self, *_raised: object) -> None:
        self.drop()


def exclusive(host: sysfs.Host, node: sysfs.Node, *, writable: bool = True) -> int:
    """A descriptor with the exclusive claim and the lock.

    Raises ``OSError`` (EBUSY: claimed, EAGAIN: locked), :class:`DriveError` for another device.
    """
    flags = os.O_EXCL | os.O_NONBLOCK
    try:
        fd = sysfs.open_node(host, node, (os.O_RDWR if writable else os.O_RDONLY) | flags)
    except OSError as error:
        if error.errno not in (errno.EROFS, errno.EACCES, errno.EPERM):
            raise
        # A write protected namespace: the claim matters, not the writing.
        fd = sysfs.open_node(host, node, os.O_RDONLY | flags)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BaseException:
        os.close(fd)
        raise
    return fd
