"""SMART / Health Information: what it says, and whether a policy lets such a drive out again."""

from __future__ import annotations

from eraser.drive.spec import SmartLog
from eraser.wire.policy import Health
from eraser.wire.report import HealthRecord

_WARNINGS = (
    "available spare below its threshold",
    "temperature beyond a threshold",
    "reliability degraded",
    "media read only",
    "volatile memory backup failed",
    "persistent memory region read only",
)
"""Critical Warning bits 0 to 5 (Base 5.16.1.3)."""


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


def unfit(health: HealthRecord, policy: Health) -> tuple[str, ...]:
    """Why the drive must not be handed out, empty where it may."""
    found: list[str] = []
    if health.critical_warning and not policy.allow_critical_warning:
        named = [text for bit, text in enumerate(_WARNINGS) if health.critical_warning >> bit & 1]
        found.append(
            f"health: expected no critical warning, found {health.critical_warning:#04x} "
            f"({', '.join(named) or 'reserved bits'})"
        )
    if health.percentage_used > policy.max_percentage_used:
        found.append(
            f"health: expected at most {policy.max_percentage_used} % of the endurance used, "
            f"found {health.percentage_used} %"
        )
    if health.media_errors_after > health.media_errors_before:
        found.append(
            f"health: expected no new media errors, found "
            f"{health.media_errors_after - health.media_errors_before} during this case"
        )
    return tuple(found)
