"""What a drive says of itself: layout, capabilities, and what a tenant can change."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from eraser.controller.nvme import Controller
from eraser.controller.passthru import CommandError
from eraser.controller.spec import IdentifyController, IdentifyNamespace
from eraser.drive import hostidentifier, inquiry, optionalquestions
from eraser.errors import DriveError
from eraser.protocol.profile import NVM_COMMAND_SET, NamespaceLayout
from eraser.protocol.report import ControllerFacts, NamespaceId

DETACHED = "detached namespaces"
"""Never passed over in silence: they may hold data that Format does not reach."""


def facts(
    controller: Controller,
    *,
    layout_only: bool = False,
    name: hostidentifier.Namer | None = hostidentifier.name,
) -> ControllerFacts:
    """Reads capabilities, every namespace, also detached ones, and the drive's condition.

    ``name`` as in :func:`~eraser.drive.reservations.reservation`.
    With ``layout_only`` no more than an erase needs: neither detached namespaces nor the condition.
    Raises ``DriveError``.
    """
    identify = controller.identify()
    active = controller.active_namespaces()
    namespaces = described(controller, active)
    sets: Mapping[int, int] = {}
    loose: tuple[NamespaceLayout, ...] = ()
    condition = None
    if not layout_only:
        sets = command_sets(controller, identify, namespaces)
        # Nonsense about detached namespaces is kept and named: obstacles() then holds the drive.
        nonsense: list[str] = []
        loose = inquiry.sensible(
            DETACHED, lambda: detached(controller, identify, frozenset(active)), loose, nonsense
        )
        condition = inquiry.condition(controller, identify, namespaces, name)
        # Both lists are one for the reader: what was asked and got no sensible answer.
        condition = replace(condition, unreadable=(*nonsense, *condition.unreadable))
    return ControllerFacts(
        firmware=identify.firmware,
        nvme_version=identify.version,
        oacs=identify.oacs,
        oncs=identify.oncs,
        fna=identify.fna,
        sanicap=identify.sanicap,
        total_bytes=identify.total_bytes,
        unallocated_bytes=identify.unallocated_bytes,
        namespaces=layouts(active, namespaces, sets),
        dlfeat=tuple(namespace.dlfeat for _nsid, namespace in namespaces),
        detached=loose,
        condition=condition,
        ids=tuple(_ids(nsid, namespace) for nsid, namespace in namespaces),
    )


def _ids(nsid: int, namespace: IdentifyNamespace) -> NamespaceId:
    nguid, eui64 = namespace.nguid, namespace.eui64
    return NamespaceId(nsid, nguid.hex() if any(nguid) else "", eui64.hex() if any(eui64) else "")


def described(
    controller: Controller, numbers: tuple[int, ...], *, attached: bool = True
) -> tuple[tuple[int, IdentifyNamespace], ...]:
    """The active namespaces that describe themselves in a way that can be: another command set's
    does not, nor one whose firmware lost it. Those that are not ``attached`` are asked for
    otherwise. Raises ``DriveError`` where the drive is silent."""
    found: list[tuple[int, IdentifyNamespace]] = []
    for nsid in numbers:
        try:
            found.append((nsid, controller.identify_namespace(nsid, attached=attached)))
        except CommandError as error:
            if error.status is None:
                raise
        except DriveError:
            pass
    return tuple(found)


def command_sets(
    controller: Controller,
    identify: IdentifyController,
    namespaces: tuple[tuple[int, IdentifyNamespace], ...],
) -> dict[int, int]:
    """CSI of each of these, by NSID: Identify Namespace is the same for a zoned one.

    A drive that manages no namespaces is not asked: nobody could have made another of it. Left out
    are those of which it does not end the question. Raises ``DriveError``.
    """
    if not (identify.can_manage_namespaces and identify.describes_namespaces):
        return {}
    found: dict[int, int] = {}
    for nsid, _namespace in namespaces:
        tell = functools.partial(controller.command_set, nsid)
        told = optionalquestions.ask(controller, "the descriptors of namespaces", tell)
        if told is not None:
            found[nsid] = told
    return found


def layouts(
    active: tuple[int, ...],
    namespaces: tuple[tuple[int, IdentifyNamespace], ...],
    sets: Mapping[int, int] = MappingProxyType({}),
) -> tuple[NamespaceLayout, ...]:
    """All active namespaces; of no size those that do not describe themselves, and of the NVM
    command set those that ``sets`` does not have."""
    known = dict(namespaces)
    return tuple(
        layout_of(nsid, known[nsid], sets.get(nsid, NVM_COMMAND_SET))
        if nsid in known
        else _sizeless(nsid)
        for nsid in active
    )


def detached(
    controller: Controller, identify: IdentifyController, active: frozenset[int]
) -> tuple[NamespaceLayout, ...]:
    """Namespaces that exist and are not attached to this controller. Raises ``DriveError``."""
    if not identify.can_manage_namespaces:
        return ()
    return tuple(
        _loose(controller, nsid) for nsid in controller.allocated_namespaces() if nsid not in active
    )


def _loose(controller: Controller, nsid: int) -> NamespaceLayout:
    """A detached one; of no size where the drive does not describe it."""
    try:
        return layout_of(nsid, controller.identify_namespace(nsid, attached=False))
    except CommandError as error:
        if error.status is None:
            raise
    except DriveError:
        pass
    return _sizeless(nsid)


def _sizeless(nsid: int) -> NamespaceLayout:
    # No size, which fits no profile: so the namespace is seen, and nobody takes it for empty.
    return NamespaceLayout(nsid, 0, 512, 0)


def layout_of(
    nsid: int, namespace: IdentifyNamespace, command_set: int = NVM_COMMAND_SET
) -> NamespaceLayout:
    """A namespace as a profile has it. A detached one does not tell of its command set."""
    return NamespaceLayout(
        nsid=nsid,
        blocks=namespace.blocks,
        block_bytes=namespace.block_bytes,
        lba_format=namespace.lba_format,
        metadata_bytes=namespace.metadata_bytes,
        protection=namespace.protection,
        capacity=namespace.capacity,
        sharing=namespace.sharing,
        extended_metadata=namespace.extended_metadata,
        command_set=command_set,
    )
