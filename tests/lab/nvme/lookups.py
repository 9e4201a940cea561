"""Identify (Base 5.17) and Get Log Page (Base 5.16): which structure a command asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from tests.lab.nvme import identify, lockdown, logs, namespacesanitize, nvm
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.spec import BROADCAST_NSID, Cns, Command, Lid, Reply, Status, refused

RETAIN_EVENT = 1 << 15
"""Bit of CDW10: reading the log does not clear its event."""

_LISTS = (Cns.ACTIVE_NAMESPACES, Cns.ALLOCATED_NAMESPACES, Cns.ACTIVE_BY_COMMAND_SET)
_OF_A_NAMESPACE = (
    Cns.NAMESPACE,
    Cns.DESCRIPTORS,
    Cns.NAMESPACE_BY_COMMAND_SET,
    Cns.NAMESPACE_INDEPENDENT,
    Cns.ALLOCATED_NAMESPACE,
)
_OF_MANAGEMENT = (
    Cns.ALLOCATED_NAMESPACES,
    Cns.ALLOCATED_NAMESPACE,
    Cns.ATTACHED_CONTROLLERS,
    Cns.CONTROLLERS,
)


def identify_data(drive: Drive, command: Command) -> Reply:
    """Answer Identify."""
    profile, state = drive.profile, drive.state
    cns, nsid, csi = command.cdw10 & 0xFF, command.nsid, command.cdw11 >> 24
    if cns in _OF_MANAGEMENT and not profile.namespace_management:
        return refused(Status.INVALID_FIELD)
    if cns == Cns.PRIMARY_CAPABILITIES and profile.flexible is None:
        return refused(Status.INVALID_FIELD)
    whole_drive: dict[int, Callable[[], bytes]] = {
        Cns.CONTROLLER: lambda: identify.controller(profile, state),
        Cns.CONTROLLER_BY_COMMAND_SET: lambda: bytes(4096),
        Cns.CONTROLLERS: lambda: identify.controller_list(profile, command.cdw10 >> 16),
        Cns.PRIMARY_CAPABILITIES: lambda: identify.primary_capabilities(profile, state),
        Cns.COMMAND_SETS: lambda: identify.command_sets(profile),
    }
    if cns in whole_drive:
        if cns == Cns.CONTROLLER_BY_COMMAND_SET and csi:
            return refused(Status.INVALID_FIELD)
        return Reply(data=whole_drive[cns]())
    if cns in _LISTS:
        if nsid >= BROADCAST_NSID - 1:
            return refused(Status.INVALID_NAMESPACE)
        chosen = state.namespaces if cns == Cns.ALLOCATED_NAMESPACES else state.attached
        return Reply(data=identify.namespace_list(chosen, nsid))
    if cns == Cns.ATTACHED_CONTROLLERS:
        namespace = state.namespace(nsid)
        if namespace is None:
            return refused(_absent(drive, nsid))
        at_least = command.cdw10 >> 16 if namespace.attached else 0xFFFF
        return Reply(data=identify.controller_list(profile, at_least))
    if cns not in _OF_A_NAMESPACE:
        return refused(Status.INVALID_FIELD)
    return _namespace(drive, cns, nsid, csi)


def _namespace(drive: Drive, cns: int, nsid: int, csi: int) -> Reply:
    profile, state = drive.profile, drive.state
    if nsid == BROADCAST_NSID and cns == Cns.NAMESPACE:
        # Capabilities that all namespaces share (Base 5.17.2.1): those of the first, without
        # what is its own, and present even where no namespace is left.
        return Reply(data=identify.namespace_capabilities(profile))
    allocated = cns == Cns.ALLOCATED_NAMESPACE
    namespace = state.namespace(nsid) if allocated else state.active(nsid)
    if namespace is None:
        if not 1 <= nsid <= profile.highest_nsid or cns == Cns.DESCRIPTORS:
            return refused(Status.INVALID_NAMESPACE)
        return Reply(data=bytes(4096))  # valid but inactive: zeros (Base 5.17.2.1)
    left = drive.formatter.percent_left(nsid)
    protected = drive.write_protect(namespace) != 0
    if cns == Cns.DESCRIPTORS:
        return Reply(data=identify.descriptors(profile, namespace))
    if cns == Cns.NAMESPACE_INDEPENDENT:
        return Reply(data=identify.namespace_independent(format_left=left, protected=protected))
    if cns == Cns.NAMESPACE_BY_COMMAND_SET:
        return refused(Status.INVALID_FIELD) if csi else Reply(data=bytes(4096))
    return Reply(data=identify.namespace(profile, namespace, format_left=left, protected=protected))


def _absent(drive: Drive, nsid: int) -> Status:
    known = 1 <= nsid <= drive.profile.highest_nsid
    return Status.INVALID_FIELD if known else Status.INVALID_NAMESPACE


def log_page(drive: Drive, command: Command, opcodes: Iterable[int]) -> Reply:
    """Answer Get Log Page."""
    lid, specific = command.cdw10 & 0xFF, command.cdw10 >> 8 & 0x7F
    length = ((command.cdw10 >> 16 | (command.cdw11 & 0xFFFF) << 16) + 1) * 4
    offset = command.cdw12 | command.cdw13 << 32
    of_one = drive.state.namespace(command.nsid)
    if lid == Lid.SANITIZE and of_one and drive.profile.version >= namespacesanitize.VERSION:
        return Reply(data=namespacesanitize.log(of_one)[:length].ljust(length, b"\0"))
    content = _content(drive, lid, specific, opcodes)
    if content is None:
        known = lid in _known(drive)
        return refused(Status.INVALID_FIELD if known else Status.INVALID_LOG_PAGE)
    if offset > len(content) or offset % 4:
        return refused(Status.INVALID_FIELD)
    clears = lid == Lid.CHANGED_NAMESPACES and not command.cdw10 & RETAIN_EVENT
    if clears and drive.state.changed_namespaces:
        drive.state.changed_namespaces.clear()
        drive.save()
    # More than the page holds reads as zeros; a host that asks for gigabytes gets 1 MiB.
    length = min(length, 1 << 20)
    return Reply(data=content[offset : offset + length].ljust(length, b"\0"))


def _known(drive: Drive) -> list[Lid]:
    profile = drive.profile
    has = {
        Lid.SANITIZE: bool(identify.sanicap(profile)),
        Lid.FEATURES: profile.many_features,
        Lid.LOCKDOWN: profile.lockdown,
        Lid.BOOT_PARTITION: profile.boot_partition_units > 0 and profile.boot_log,
    }
    return [lid for lid in Lid if has.get(lid, True)]


def _content(drive: Drive, lid: int, specific: int, opcodes: Iterable[int]) -> bytes | None:
    profile, state = drive.profile, drive.state
    if lid not in _known(drive):
        return None
    if lid == Lid.SMART:
        drive.tick()
    contents: dict[int, Callable[[], bytes | None]] = {
        Lid.SMART: lambda: logs.smart(profile, state, drive.reported_counters()),
        Lid.SANITIZE: lambda: logs.sanitize_status(
            profile,
            state,
            drive.faults.reported_cdw10,
            drive.nature.progress,
            purges=not drive.faults.only_clears,
        ),
        Lid.ERROR: lambda: logs.errors(drive.errors),
        Lid.FIRMWARE: lambda: logs.firmware(state.firmware),
        Lid.CHANGED_NAMESPACES: lambda: logs.changed_namespaces(state.changed_namespaces),
        Lid.EFFECTS: lambda: logs.effects(opcodes, nvm.supported(profile)),
        Lid.FEATURES: lambda: logs.features(drive.features.rules),
        Lid.LOCKDOWN: lambda: lockdown.log(state, specific),
        Lid.BOOT_PARTITION: lambda: logs.boot_partition(profile, state.boot, specific & 1),
        Lid.SUPPORTED: lambda: logs.supported(_known(drive)),
    }
    return contents[lid]()
