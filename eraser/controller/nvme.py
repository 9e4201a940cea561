"""One NVMe controller, held open, spoken to through nvme-cli with raw bytes only."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

from eraser.controller import registers, spec
from eraser.controller.adminqueue import AdminQueue
from eraser.controller.held import HeldController, hold
from eraser.controller.passthru import (
    ALL_NAMESPACES,
    CNS_ACTIVE,
    CNS_ALLOCATED,
    CNS_ALLOCATED_NAMESPACE,
    CNS_CONTROLLER,
    CNS_DESCRIPTORS,
    CNS_NAMESPACE,
    FEATURE_CURRENT,
    GET_FEATURES,
    GET_LOG_PAGE,
    IDENTIFY,
    LOG_FIRMWARE,
    LOG_SANITIZE,
    LOG_SMART,
    SET_FEATURES,
    CommandError,
    result_of,
)
from eraser.controller.probe_process import Asker
from eraser.errors import DriveError
from eraser.host.sysfs import Host, Node, numbers
from eraser.protocol.condition import Buffer
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.profile import NVM_COMMAND_SET

NO_FUNCTION_RESET = "the kernel knows none for it"
"""Why a function was not reset."""
MAX_NAMESPACES = 1024
"""No drive that we know has more; firmware that lists them for ever must not keep us, and what was
sent to so many still fits into a report."""
_NO_NAMESPACE = 0x00B
_NO_LIST = frozenset({0x002, _NO_NAMESPACE})
"""Invalid Field, of a drive that does not know CNS 02h, which came with NVMe 1.1; and Invalid
Namespace or Format, of one that knows a single bit of CNS, as 1.0 has it (Base 2.0, figure 126)."""


class Controller(HeldController, AdminQueue):
    """A controller that is held open, and what it is asked. Made by :func:`open_controller`."""

    ready: float = 60.0
    """Seconds in which the driver brings it back after a reset."""

    def __init__(self, held: HeldController, *, command_timeout: float) -> None:
        """Takes over what is held; ``command_timeout`` in seconds is for an ordinary command."""
        HeldController.__init__(self, held.function, held.name, held.take())
        AdminQueue.__init__(self, held.host, held.address, held.path, timeout=command_timeout)

    @property
    def pids(self) -> frozenset[int]:
        """Who has the controller open on this object's account."""
        return frozenset({os.getpid(), self.asker.pid} if self.asker else {os.getpid()})

    def close(self) -> None:
        """Lets go of the controller. Its name may belong to another one from now on."""
        # The child has the controller open as well: the name is let go of when both have closed it.
        if self.asker is not None:
            self.asker.close()
        super().close()

    def identify(self) -> spec.IdentifyController:
        """Identify Controller. Raises :class:`DriveError`."""
        return spec.IdentifyController.parse(
            self.read(IDENTIFY, spec.IDENTIFY_BYTES, "Identify Controller", cdw10=CNS_CONTROLLER)
        )

    def identity(self) -> ControllerIdentity:
        """Who this is, from the drive itself and from its PCI configuration space.

        Makes sure that the descriptor's controller still sits at the address. Raises
        :class:`DriveError`.
        """
        self.check_place()
        return self.identity_of(self.identify())

    def identify_namespace(self, nsid: int, *, attached: bool = True) -> spec.IdentifyNamespace:
        """Identify Namespace of an active one, or (CNS 11h) of one that is not ``attached``.

        Raises :class:`DriveError`.
        """
        return spec.IdentifyNamespace.parse(
            self.read(
                IDENTIFY,
                spec.IDENTIFY_BYTES,
                f"Identify Namespace {nsid}",
                nsid=nsid,
                cdw10=CNS_NAMESPACE if attached else CNS_ALLOCATED_NAMESPACE,
            )
        )

    def command_set(self, nsid: int) -> int:
        """CSI of an active namespace: the NVM command set where the drive does not tell. Raises
        :class:`DriveError`."""
        what = f"the descriptors of namespace {nsid}"
        try:
            raw = self.read(IDENTIFY, spec.IDENTIFY_BYTES, what, nsid=nsid, cdw10=CNS_DESCRIPTORS)
        except CommandError as error:
            if error.status is None:
                raise
            return NVM_COMMAND_SET
        found = spec.command_set(raw)
        return NVM_COMMAND_SET if found is None else found

    def active_namespaces(self) -> tuple[int, ...]:
        """NSIDs attached to this controller (CNS 02h). Raises :class:`DriveError`."""
        try:
            return self._namespaces(CNS_ACTIVE, "active namespaces")
        except CommandError as error:
            identify = self.identify()
            # Such a drive tells no version. Of any other a refusal is an error: an empty answer
            # would hide namespaces from the erase.
            if error.status not in _NO_LIST or identify.version:
                raise
        return self._one_by_one(identify.namespaces)

    def _one_by_one(self, most: int) -> tuple[int, ...]:
        """As the kernel looks for namespaces on a drive of NVMe 1.0, which has no list of them."""
        if most > MAX_NAMESPACES:
            raise DriveError(
                f"{self.address}: expected at most {MAX_NAMESPACES} namespaces, found {most}"
            )
        return tuple(nsid for nsid in range(1, most + 1) if self._is_active(nsid))

    def _is_active(self, nsid: int) -> bool:
        what = f"Identify Namespace {nsid}"
        try:
            raw = self.read(IDENTIFY, spec.IDENTIFY_BYTES, what, nsid=nsid, cdw10=CNS_NAMESPACE)
        except CommandError as error:
            if error.status != _NO_NAMESPACE:
                raise
            return False
        return any(raw[:8])  # NSZE, zeros for one that is not

    def allocated_namespaces(self) -> tuple[int, ...]:
        """NSIDs that exist in the subsystem (CNS 10h), also detached ones.

        A drive without Namespace Management (OACS bit 3) has only active ones. Raises
        :class:`DriveError`.
        """
        if not self.identify().can_manage_namespaces:
            return self.active_namespaces()
        return self._namespaces(CNS_ALLOCATED, "allocated namespaces")

    def _namespaces(self, cns: int, what: str) -> tuple[int, ...]:
        found: tuple[int, ...] = ()
        while True:
            page = spec.namespace_list(
                self.read(
                    IDENTIFY,
                    spec.IDENTIFY_BYTES,
                    what,
                    nsid=found[-1] if found else 0,
                    cdw10=cns,
                )
            )
            # The drive began the list anew: without this the loop would have no end.
            if page and found and page[0] <= found[-1]:
                raise DriveError(
                    f"{self.address}: expected {what} above {found[-1]}, found {page[0]}"
                )
            found += page
            if len(found) > MAX_NAMESPACES:
                raise DriveError(
                    f"{self.address}: expected at most {MAX_NAMESPACES} {what}, found more"
                )
            # Only a full page may have another one behind it.
            if len(page) < spec.IDENTIFY_BYTES // 4:
                return found

    def log(self, lid: int, length: int, what: str, nsid: int = ALL_NAMESPACES) -> bytes:
        """``length`` bytes of a log page, of the drive or of one namespace. Raises
        :class:`DriveError`.

        Get Log Page dword 10 (Base 5.16): LID 7:0, RAE 15, NUMDL 31:16 (dwords, from 0). RAE stays
        0, as the kernel and smartctl ask: with it some drives give a SMART log of zeros (nvme-cli
        #1729), and nobody here waits for the events that it keeps.
        """
        cdw10 = (length // 4 - 1) << 16 | lid
        return self.read(GET_LOG_PAGE, length, what, nsid=nsid, cdw10=cdw10)

    def sanitize_log(self, nsid: int = ALL_NAMESPACES) -> bytes:
        """Log 81h, 512 raw bytes, of the subsystem or (Base 2.3) of one namespace. Raises
        :class:`DriveError`."""
        return self.log(LOG_SANITIZE, spec.LOG_BYTES, "the Sanitize Status log (81h)", nsid)

    def smart_log(self) -> bytes:
        """Log 02h, 512 raw bytes. Raises :class:`DriveError`."""
        return self.log(LOG_SMART, spec.LOG_BYTES, "the SMART log (02h)")

    def firmware_log(self) -> bytes:
        """Log 03h, 512 raw bytes. Raises :class:`DriveError`."""
        return self.log(LOG_FIRMWARE, spec.LOG_BYTES, "the Firmware Slot log (03h)")

    def get_feature(self, fid: int, nsid: int = 0, *, cdw11: int = 0) -> int:
        """Dword 0 of a feature's current value. Raises :class:`CommandError`."""
        return self.feature(fid, nsid, cdw11=cdw11)[0]

    def feature(
        self,
        fid: int,
        nsid: int = 0,
        *,
        cdw11: int = 0,
        select: int = FEATURE_CURRENT,
        length: int = 0,
    ) -> tuple[int, bytes]:
        """Dword 0 of a feature, and the data that comes with it.

        Where it is not known whether any comes, ``length`` makes room for it all the same: a drive
        that found none would write elsewhere. Raises :class:`CommandError`.
        """
        what = f"feature {fid:#04x}"
        record, data = self.admin(
            GET_FEATURES,
            nsid=nsid,
            cdw10=fid | select << 8,
            cdw11=cdw11,
            data_len=length,
            timeout=self.timeout,
            note=what,
        )
        if record.status != 0:
            raise self.failed(record, what)
        # Also of a success by ioctl: AdminQueue writes it down in nvme-cli's words.
        value = result_of(record.message)
        if value is None or len(data) != length:
            raise CommandError(
                f"{self.address}: expected a value and {length} bytes of {what}, found "
                f"{record.message!r} and {len(data)} bytes",
                record,
            )
        return value, data

    def set_feature(self, fid: int, value: int, nsid: int = 0, *, save: bool = False) -> None:
        """Sets dword 11 of a feature (SV, bit 31 of dword 10, where ``save``).

        Raises :class:`CommandError`.
        """
        what = f"Set Features {fid:#04x} to {value:#x}"
        record, _data = self.admin(
            SET_FEATURES,
            nsid=nsid,
            cdw10=fid | (1 << 31 if save else 0),
            cdw11=value,
            timeout=self.timeout,
            note=what,
        )
        if record.status != 0:
            raise self.failed(record, what)

    def registers(self) -> registers.Registers | None:
        """What no command tells; None where it cannot be read."""
        self.check_place()
        return registers.read(self.function)

    def buffers_by_driver(self) -> tuple[Buffer, ...]:
        """What the kernel's driver found of the memory that a host can map."""
        return registers.by_driver(self.function, self.name)

    def reset(self, *, timeout: float = 60.0) -> None:
        """A Controller Level Reset; volatile caches and states do not outlive it.

        Raises :class:`DriveError` where it failed or took longer than ``timeout`` seconds.
        """
        self._driver_call("reset", timeout)

    def reset_subsystem(self, *, timeout: float = 60.0) -> None:
        """Writes NSSR (Base 2.0, 3.7.1). Whether the drive has it (CAP.NSSRS) the kernel looks.

        Kernels differ in what they know of it afterwards: most take the controller for live, and
        where the link went down it is gone, or comes back under another name. Whoever calls this
        has the driver take it anew. Raises :class:`DriveError` where it was not written.
        """
        self._driver_call("subsystem-reset", timeout)

    def reset_function(self, *, timeout: float = 60.0) -> str:
        """The reset of the PCI function, as vfio-pci does it before a guest gets the drive. Why
        the kernel did not do it, empty where it did.

        The kernel takes the first way that works: function level reset, power management, the bus
        (``Documentation/ABI/testing/sysfs-bus-pci``, reset and reset_method). The driver stays
        bound. Raises :class:`DriveError` where it took longer than ``timeout`` seconds.
        """
        self.check_place()
        path = self.host.path(f"{self.function.directory}/reset")
        if not path.exists():
            return NO_FUNCTION_RESET
        # By a child: a write that is stuck in the kernel must not keep us.
        done = self.host.processes.run(("tee", str(path)), timeout=timeout, stdin=b"1")
        if done.exit_code is None:
            raise DriveError(
                f"{self.address}: expected the function to be reset within {timeout:g} s, found no "
                "answer; see the kernel's log"
            )
        if done.exit_code:
            return f"the kernel refuses it ({done.stderr.strip()[:200] or 'without a word'})"
        return ""

    def rescan(self, *, timeout: float = 60.0) -> None:
        """Makes the kernel read the namespaces again; then :meth:`wait_live`.

        Raises :class:`DriveError`.
        """
        self._driver_call("ns-rescan", timeout)

    def _driver_call(self, verb: str, timeout: float) -> None:
        self.check_place()
        # nvme-cli opens the drive by name: only while we hold it open does that name mean this
        # drive.
        done = self.host.processes.run((self.host.nvme, verb, self.path), timeout=timeout)
        if done.exit_code != 0:
            raise DriveError(
                f"{self.address}: expected 'nvme {verb}' to succeed, found "
                f"{done.stderr.strip() or 'no answer'}; see the kernel's log"
            )

    def wait_live(
        self, timeout: float, *, namespaces: bool = True, but: Collection[int] = ()
    ) -> None:
        """Until the driver says live and each active namespace has its block device, ``but`` for
        those that are known to have none.

        Raises :class:`DriveError` after ``timeout`` seconds.
        """
        self.host.wait_for(
            f"controller {self.name} at {self.address} to be live",
            timeout,
            lambda: self.state == "live",
        )
        # The driver is live before it has scanned the namespaces, so their disks may come later.
        if namespaces:
            active = set(self.active_namespaces()) - set(but)
            self.host.wait_for(
                f"block devices of namespaces {sorted(active)} at {self.address}",
                timeout,
                lambda: active <= self._visible(),
            )

    def wait_namespaces(self, timeout: float) -> None:
        """:meth:`wait_live`, and no block device of a namespace that is gone.

        Raises :class:`DriveError` after ``timeout`` seconds.
        """
        self.wait_live(timeout)
        active = set(self.active_namespaces())
        self.host.wait_for(
            f"no other block devices than of namespaces {sorted(active)} at {self.address}",
            timeout,
            lambda: self._visible() == active,
        )

    def _visible(self) -> set[int]:
        try:
            return {nsid for nsid, path in self.block_devices().items() if Path(path).exists()}
        except (OSError, DriveError):
            return set()  # half built: the kernel adds disk, attributes and node one by one

    def block_nodes(self) -> dict[int, Node]:
        """NSID to its disk, NSIDs as sysfs has them. Raises :class:`DriveError`."""
        found: dict[int, Node] = {}
        for disk in self.function.disks(self.name):
            try:
                nsid = self.function.nsid(disk)
                text = self.host.text(f"{disk}/dev")
            except OSError as error:
                raise DriveError(
                    f"{self.address}: expected a namespace at {disk}, found {error.strerror}; "
                    "rescan the controller"
                ) from error
            node = Node(os.path.basename(disk), *numbers(text, f"{disk}/dev"), block=True)
            if found.setdefault(nsid, node) != node:
                raise DriveError(
                    f"{self.address}: expected one block device of namespace {nsid}, "
                    f"found {found[nsid].name} and {node.name}"
                )
        return found

    def block_devices(self) -> dict[int, str]:
        """NSID to path (/dev/nvme0n1). Raises :class:`DriveError`."""
        return {
            nsid: str(self.host.path(f"/dev/{node.name}"))
            for nsid, node in self.block_nodes().items()
        }


def open_controller(
    host: Host,
    address: str,
    *,
    timeout: float,
    command_timeout: float = 30.0,
    by_ioctl: bool = False,
) -> Controller:
    """:func:`eraser.controller.held.hold`, for commands. ``command_timeout`` is for ordinary ones.

    With ``by_ioctl`` a child of this process sends what only reads; not where threads run.
    Raises :class:`AbsentError` where no function or no ``nvme`` driver is there,
    :class:`DriveError` for anything else.
    """
    controller = Controller(hold(host, address, timeout=timeout), command_timeout=command_timeout)
    controller.ready = timeout
    if by_ioctl:
        # The child is forked at the first question, and a fork with threads could inherit a held
        # lock.
        controller.asker = Asker(host, controller.descriptor)
    return controller
