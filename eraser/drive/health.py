"""SMART / Health Information: what it says, and whether a policy lets such a drive out again."""

from __future__ import annotations

from eraser.controller.spec import SmartLog
from eraser.host.sysfs import Host, PciFunction
from eraser.protocol.conclusions.remarks import remarks
from eraser.protocol.fitness import Consequence, Health
from eraser.protocol.report import ControllerFacts, HealthRecord, LinkRecord


def read(raw: bytes, before: bytes | None = None) -> HealthRecord:
    """Log 02h (512 bytes) as a record; ``before`` is the same log from before the erase.

    Raises ``DriveError``.
    """
    now = SmartLog.parse(raw)
    earlier = now if before is None else SmartLog.parse(before)
    return HealthRecord(
        critical_warning=now.critical_warning,
        available_spare=now.available_spare,
        spare_threshold=now.spare_threshold,
        percentage_used=now.percentage_used,
        media_errors_before=earlier.media_errors,
        media_errors_after=now.media_errors,
        data_units_written=now.data_units_written,
        host_write_commands=now.host_write_commands,
        power_cycles=now.power_cycles,
        power_on_hours=now.power_on_hours,
        temperature_kelvin=now.temperature_kelvin,
    )


def unfit(health: HealthRecord, policy: Health, *looks: ControllerFacts | None) -> tuple[str, ...]:
    """Why the drive must not be handed out, empty where it may."""
    return tuple(
        remark.text
        for remark in remarks(health, policy, *looks)
        if remark.consequence is not Consequence.NOTE
    )


def final(health: HealthRecord, policy: Health, *looks: ControllerFacts | None) -> tuple[str, ...]:
    """What of it the policy retires a drive for."""
    return tuple(
        remark.text
        for remark in remarks(health, policy, *looks)
        if remark.consequence is Consequence.RETIRE
    )


def link(function: PciFunction) -> LinkRecord | None:
    """The function's PCI Express link, None where the kernel shows none.

    The port above it may be narrower or slower than the drive: the smaller of the two is what can
    be expected. Without a port that can be read, the drive's own word counts.
    """
    host, own = function.host, function.directory
    speed, width = (
        _number(host, f"{own}/current_link_speed"),
        _number(host, f"{own}/current_link_width"),
    )
    if not speed or not width:
        return None
    try:
        port = str(host.path(own).resolve().parent)
    except OSError:
        port = ""
    # ``resolve`` gives a path of this machine; the host's trees are named from their root on.
    root = str(host.root.resolve()).rstrip("/")
    above = port.removeprefix(root)
    able = {
        name: [
            value
            for place in (own, above)
            if place and (value := _number(host, f"{place}/max_link_{name}"))
        ]
        for name in ("speed", "width")
    }
    return LinkRecord(
        speed=speed,
        width=int(width),
        speed_able=min(able["speed"], default=0.0),
        width_able=int(min(able["width"], default=0)),
    )


def _number(host: Host, path: str) -> float:
    """``8.0 GT/s PCIe`` or ``4``; 0 for ``Unknown``, nothing, or what a link cannot have.

    The kernel gives 255 lanes, and "Unknown", for a register that reads as all ones
    (drivers/pci/pci-sysfs.c).
    """
    try:
        value = float(host.text(path).split()[0])
    except (OSError, ValueError, IndexError):
        return 0.0
    return value if 0 < value < 255 else 0.0
