"""What health log and link say of a drive, and what the operator allows."""

from __future__ import annotations

from pathlib import Path

import pytest

from eraser.drive import health
from eraser.host.sysfs import Host, PciFunction
from eraser.protocol.policy import Health
from eraser.protocol.report import LinkRecord

SMART = bytearray(512)
SMART[1:6] = (0x43, 0x01, 90, 10, 40)


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (0, 0, None),
        (0, 0x08, "media read only"),
        (0, 0x40, "reserved bits"),
        (5, 100, None),
        (5, 101, "101 %"),
        (160, 2, "2 during this case"),
    ],
)
def test_health(offset: int, value: int, words: str | None) -> None:
    raw = bytearray(SMART)
    raw[offset] = value
    found = health.unfit(health.read(bytes(raw), bytes(SMART)), Health())
    assert len(found) == (words is not None)
    if words is not None:
        assert words in found[0]


def test_health_as_the_operator_allows() -> None:
    raw = bytearray(SMART)
    raw[0], raw[5] = 1, 120
    allowed = Health(max_percentage_used=150, allow_critical_warning=True)
    record = health.read(bytes(raw))
    assert health.unfit(record, allowed) == ()
    assert record.temperature_kelvin == 323


PORT = "sys/devices/pci0000:00/0000:00:01.0"


def linked(root: Path, own: dict[str, str], port: dict[str, str]) -> LinkRecord | None:
    """A function below a port, as sysfs shows both."""
    for directory, values in ((f"{PORT}/0000:01:00.0", own), (PORT, port)):
        (root / directory).mkdir(parents=True, exist_ok=True)
        for name, text in values.items():
            (root / directory / name).write_text(f"{text}\n")
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    if not (bus / "0000:01:00.0").exists():
        (bus / "0000:01:00.0").symlink_to(f"../../../../{PORT}/0000:01:00.0")
    return health.link(PciFunction(Host(root), "0000:01:00.0"))


GEN4 = {
    "current_link_speed": "16.0 GT/s PCIe",
    "current_link_width": "4",
    "max_link_speed": "16.0 GT/s PCIe",
    "max_link_width": "4",
}


@pytest.mark.parametrize(
    ("own", "port", "expected"),
    [
        (GEN4, GEN4, LinkRecord(16, 4, 16, 4)),
        (
            GEN4 | {"current_link_width": "2", "current_link_speed": "8.0 GT/s PCIe"},
            {"max_link_speed": "8.0 GT/s PCIe", "max_link_width": "2"},
            LinkRecord(8, 2, 8, 2),  # the slot has no more: nothing is wrong
        ),
        (GEN4, {}, LinkRecord(16, 4, 16, 4)),
        (GEN4, {"max_link_speed": "Unknown", "max_link_width": "255"}, LinkRecord(16, 4, 16, 4)),
        (GEN4 | {"current_link_speed": "Unknown", "current_link_width": "0"}, GEN4, None),
        (GEN4 | {"current_link_width": ""}, GEN4, None),
        ({}, GEN4, None),
    ],
)
def test_the_link_and_what_both_its_ends_can(
    tmp_path: Path, own: dict[str, str], port: dict[str, str], expected: LinkRecord | None
) -> None:
    assert linked(tmp_path, own, port) == expected
