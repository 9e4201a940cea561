"""Whom the drive's namespaces are reserved for, and which hosts are registered with them."""

from __future__ import annotations

from eraser.controller.nvme import Controller
from eraser.controller.passthru import IO_RESERVATION_REPORT, CommandError
from eraser.controller.spec import IdentifyController, IdentifyNamespace
from eraser.drive import hostidentifier, statelogs
from eraser.protocol.condition import Reservation

REFUSED = "reservations, which it refuses to report"
"""By a model's habit: what a tenant can keep a drive from telling by is answered with
:data:`~eraser.drive.hostidentifier.UNNAMED`."""
_TOLD_LATER = frozenset({0x01D, 0x02C})
"""Sanitize In Progress, Sanitize Namespace In Progress (Base 2.3, 4.2.3.1)."""
_EXTENDED = 1
"""Reservation Report, dword 11 bit 0: asked for where hosts have identifiers of 128 bits."""


def reservations(
    controller: Controller,
    identify: IdentifyController,
    namespaces: tuple[tuple[int, IdentifyNamespace], ...],
    untold: list[str],
    name: hostidentifier.Namer | None = hostidentifier.name,
) -> tuple[Reservation, ...]:
    """Of each namespace that the kernel has made a disk of: the report is an I/O command.

    :data:`REFUSED` is added to ``untold`` where a namespace that supports reservations has
    none. Raises :class:`CommandError` where the drive wants a host identifier and takes none.
    """
    if not identify.can_reserve:
        return ()
    disks, found = controller.block_devices(), list[Reservation]()
    for nsid, namespace in namespaces:
        # Without a disk there is no path for an I/O command.
        if nsid not in disks:
            continue
        try:
            entry = reservation(controller, nsid, disks[nsid], name)
        except CommandError as error:
            # A tenant can keep us from naming ourselves (Lockdown), and behind that be registered.
            if not error.status or error.status == hostidentifier.UNNAMED:
                raise
            known = error.status in _TOLD_LATER or REFUSED in untold
            if namespace.reservations and not known:
                untold.append(REFUSED)
        else:
            found += [entry] if entry is not None else []
    return tuple(found)


def reservation(
    controller: Controller,
    nsid: int,
    path: str,
    name: hostidentifier.Namer | None = hostidentifier.name,
) -> Reservation | None:
    """Of one namespace, ``path`` being its block device; None where there is nothing.

    ``name`` tells the drive who asks, where it wants to know that; with None it is not told.
    Raises :class:`CommandError` where the drive does not tell, with its status where it refused.
    """
    try:
        return _reservation(controller, nsid, path)
    except CommandError as error:
        if not error.status:
            raise
        unnamed = error.status == hostidentifier.UNNAMED
        if name is None or not (unnamed or controller.identify().wants_host_identifier):
            raise
    name(controller)
    return _reservation(controller, nsid, path)


def _reservation(controller: Controller, nsid: int, path: str) -> Reservation | None:
    length, what = statelogs.RESERVATION_BYTES, f"Reservation Report of namespace {nsid}"

    def ask(structure: int) -> bytes:
        return controller.read(
            IO_RESERVATION_REPORT,
            length,
            what,
            nsid=nsid,
            cdw10=length // 4 - 1,
            cdw11=structure,
            io=path,
        )

    try:
        raw = ask(0)
    except CommandError as error:
        if not error.status or error.status == hostidentifier.UNNAMED:
            raise
        # A drive whose hosts have identifiers of 128 bits refuses the plain form.
        raw = ask(_EXTENDED)
    return statelogs.reservation(raw, nsid)
