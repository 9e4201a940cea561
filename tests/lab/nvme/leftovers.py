"""What a tenant left on a drive beside data, done to it as if the tenant's commands had come."""

from __future__ import annotations

from dataclasses import dataclass, field, fields

from tests.lab.nvme import hostmetadata
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.profile import NamespaceProfile
from tests.lab.nvme.spec import Fid, SanitizeAction, SanitizeStatus
from tests.lab.nvme.state import (
    FirmwareState,
    FlexibleState,
    NamespaceState,
    Registrant,
    ReservationState,
    SanitizeState,
    SavedFeature,
    SecurityState,
    laid_out,
)

TENANT_HOST = "7e" * 16
"""Host identifier of the tenant who holds a reservation, hex."""


@dataclass(frozen=True, slots=True)
class Leftovers:
    """All defaults: nothing was left.

    ``namespaces`` replaces the layout; the media keeps its data. ``write_protect`` is the state of
    feature 84h by namespace id, ``reservation`` the type (1 to 6) of one that the tenant holds on
    namespace 1, ``features`` are saved values by feature id, ``texts`` is what is saved in the data
    structure of one (of namespace 1 where it is a namespace's), ``metadata`` is text by element
    type in a host metadata feature (of namespace 1 where it is 7Fh). ``firmware`` replaces the
    slots, ``boot`` what the boot partitions are made from, ``lockdown`` are prohibited opcodes,
    ``locked_features`` prohibited features.
    ``verifying``: the tenant's own sanitize waits in the Media Verification state. ``flexible``:
    queues and interrupts that the primary controller has left.
    """

    namespaces: list[NamespaceProfile] = field(default_factory=list)
    no_namespaces: bool = False
    write_protect: dict[int, int] = field(default_factory=dict)
    reservation: int = 0
    persist: bool = True
    features: dict[int, int] = field(default_factory=dict)
    texts: dict[int, str] = field(default_factory=dict)
    metadata: dict[int, dict[int, str]] = field(default_factory=dict)
    firmware: FirmwareState | None = None
    security: SecurityState | None = None
    lockdown: list[int] = field(default_factory=list)
    locked_features: list[int] = field(default_factory=list)
    boot: list[str] = field(default_factory=list)
    verifying: bool = False
    flexible: list[int] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """What was left, by field; empty for a drive as the factory made it."""
        default = Leftovers()
        return [f.name for f in fields(self) if getattr(self, f.name) != getattr(default, f.name)]


NOTHING = Leftovers()

_VERIFY = 1 << 10
"""EMVS, bit 10 of Sanitize's dword 10 (Base 2.1, 5.1.22)."""


def apply(drive: Drive, left: Leftovers) -> None:
    """Do it. Raises DriveError for what the drive does not have."""
    state = drive.state
    with drive.lock:
        if left.no_namespaces:
            state.namespaces.clear()
        elif left.namespaces:
            state.namespaces = laid_out(left.namespaces, state.size)
            for namespace in state.namespaces:
                state.namespaces_made += 1
                namespace.made = state.namespaces_made
        for nsid, value in left.write_protect.items():
            _namespace(drive, nsid).write_protect = value
        if left.reservation:
            _namespace(drive, 1).reservation = ReservationState(
                2, left.reservation, TENANT_HOST, left.persist, [Registrant(TENANT_HOST, 0x7E4A47)]
            )
        for fid, value in left.features.items():
            state.features[f"{fid:02x}/0/0"] = SavedFeature(value)
        for fid, text in left.texts.items():
            nsid = int(drive.features.rules[fid].per_namespace)
            state.features[f"{fid:02x}/{nsid}/0"] = SavedFeature(0, text.encode().hex())
        for fid, texts in left.metadata.items():
            nsid = int(fid == Fid.NAMESPACE_METADATA)
            data = hostmetadata.pack((kind, 0, text.encode()) for kind, text in texts.items())
            state.features[f"{fid:02x}/{nsid}/0"] = SavedFeature(0, data.hex())
        state.firmware = left.firmware or state.firmware
        state.security = left.security or state.security
        state.lockdown = list(left.lockdown) or state.lockdown
        state.locked_features = list(left.locked_features) or state.locked_features
        state.boot = list(left.boot) or state.boot
        if left.flexible:
            lent = [] if state.flexible is None else state.flexible.lent
            state.flexible = FlexibleState(list(left.flexible), list(left.flexible), lent)
        if left.verifying:
            state.sanitize = SanitizeState(
                SanitizeStatus.RUNNING, 1.0, SanitizeAction.BLOCK | _VERIFY, verifying=True
            )
        drive.save()
        drive.note("tenant_left", ", ".join(left.names))


def _namespace(drive: Drive, nsid: int) -> NamespaceState:
    found = drive.state.namespace(nsid)
    if found is None:
        raise DriveError(f"leftovers name namespace {nsid}, the drive does not have it")
    return found
