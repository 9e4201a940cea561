"""What a drive says of itself: layout, capabilities, and what a tenant can change."""

from __future__ import annotations

from eraser.drive import inquiry
from eraser.drive.nvme import Controller
from eraser.drive.spec import IdentifyController, IdentifyNamespace
from eraser.wire.profile import NamespaceLayout
from eraser.wire.report import ControllerFacts


def facts(controller: Controller, *, layout_only: bool = False) -> ControllerFacts:
    """Reads capabilities, every namespace, also detached ones, and the drive's condition.

    With ``layout_only`` no more than an erase needs: neither detached namespaces nor the condition.
    Raises ``DriveError``.
    """
    identify = controller.identify()
    active = controller.active_namespaces()
    namespaces = tuple((nsid, controller.identify_namespace(nsid)) for nsid in active)
    return ControllerFacts(
        firmware=identify.firmware,
        nvme_version=identify.version,
        oacs=identify.oacs,
        oncs=identify.oncs,
        fna=identify.fna,
        sanicap=identify.sanicap,
        total_bytes=identify.total_bytes,
        unallocated_bytes=identify.unallocated_bytes,
        namespaces=tuple(layout_of(nsid, namespace) for nsid, namespace in namespaces),
        dlfeat=tuple(namespace.dlfeat for _nsid, namespace in namespaces),
        detached=() if layout_only else detached(controller, identify, frozenset(active)),
        condition=None if layout_only else inquiry.condition(controller, identify, namespaces),
    )


def detached(
    controller: Controller, identify: IdentifyController, active: frozenset[int]
) -> tuple[NamespaceLayout, ...]:
    """Namespaces that exist and are not attached to this controller. Raises ``DriveError``."""
    if not identify.can_manage_namespaces:
        return ()
    return tuple(
        layout_of(nsid, controller.identify_namespace(nsid, attached=False))
        for nsid in controller.allocated_namespaces()
        if nsid not in active
    )


def layout_of(nsid: int, namespace: IdentifyNamespace) -> NamespaceLayout:
    """A namespace as a profile has it."""
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
    )
