"""What a drive says of itself: layout, capabilities, features that a tenant can change."""

from __future__ import annotations

from dataclasses import dataclass

from eraser.drive.nvme import Controller
from eraser.drive.passthru import CommandError
from eraser.drive.spec import IdentifyController
from eraser.wire.profile import Comparator, FeatureRule, NamespaceLayout
from eraser.wire.report import ControllerFacts


@dataclass(frozen=True)
class KnownFeature:
    """A feature worth reading, and how a profile is to hold it against a drive."""

    fid: int
    name: str
    comparator: Comparator = Comparator.EQUAL
    per_namespace: bool = False


FEATURES = (
    KnownFeature(0x01, "arbitration"),
    KnownFeature(0x02, "power management"),
    # The driver sets the temperature thresholds and may coalesce interrupts: shown, not compared.
    KnownFeature(0x04, "temperature threshold", Comparator.REPORTED),
    KnownFeature(0x05, "error recovery", per_namespace=True),
    KnownFeature(0x06, "volatile write cache"),
    KnownFeature(0x08, "interrupt coalescing", Comparator.REPORTED),
    KnownFeature(0x0A, "write atomicity"),
    KnownFeature(0x10, "host controlled thermal management"),
    KnownFeature(0x11, "non-operational power states"),
    KnownFeature(0x84, "namespace write protection", per_namespace=True),
)
"""Feature identifiers of Base 2.0, 5.27.1 (figure 317) whose value is one dword and that outlive
a reset where the drive saves features."""


def facts(controller: Controller) -> ControllerFacts:
    """Reads capabilities and every active namespace. Raises ``DriveError``."""
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
        namespaces=tuple(
            NamespaceLayout(
                nsid=nsid,
                blocks=namespace.blocks,
                block_bytes=namespace.block_bytes,
                lba_format=namespace.lba_format,
                metadata_bytes=namespace.metadata_bytes,
                protection=namespace.protection,
            )
            for nsid, namespace in namespaces
        ),
        dlfeat=tuple(namespace.dlfeat for _nsid, namespace in namespaces),
    )


def features(controller: Controller) -> tuple[FeatureRule, ...]:
    """The saved values (current ones on a drive that saves none) of :data:`FEATURES`.

    What the drive does not know is left out. Raises ``DriveError`` where it does not answer.
    """
    identify = controller.identify()
    active = controller.active_namespaces()
    found: list[FeatureRule] = []
    for known in FEATURES:
        if known.per_namespace and not active:
            continue
        value = _value(controller, identify, known, active[0] if known.per_namespace else 0)
        if value is not None:
            found.append(FeatureRule(known.fid, known.name, value, known.comparator))
    return tuple(found)


def _value(
    controller: Controller, identify: IdentifyController, known: KnownFeature, nsid: int
) -> int | None:
    tries = (True, False) if identify.saves_features else (False,)
    for saved in tries:
        try:
            return controller.get_feature(known.fid, nsid, saved=saved)
        except CommandError as error:
            if error.status is None:
                raise
    return None
