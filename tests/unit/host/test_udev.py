"""Disks that udev has not seen: waited for a little, and told of in the end."""

from __future__ import annotations

from pathlib import Path

import pytest

from eraser.clock import Clock
from eraser.host import udev
from eraser.host.sysfs import Host
from tests.unit.host.fakehost import ADDRESS, FUNCTION, FakeHost

DISK, PARTITION = "/run/udev/data/b259:0", "/run/udev/data/b259:1"


@pytest.fixture
def fake(tmp_path: Path) -> FakeHost:
    """A host whose udev has been through with the disk alone."""
    fake = FakeHost(tmp_path)
    fake.put(DISK, "E:ERASER_QUARANTINE=1")
    for numbers in ("259:0", "259:1"):
        fake.put(f"/sys/dev/block/{numbers}/uevent", "MAJOR=259")
    return fake


class Ticking(Clock):
    """A second goes by with each look; udev comes after some."""

    def __init__(self, fake: FakeHost, comes_after: float) -> None:
        self.fake, self.comes_after, self.now = fake, comes_after, 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        assert seconds < 1
        self.now += 1
        if self.now >= self.comes_after:
            self.fake.put(PARTITION, "E:ERASER_QUARANTINE=1")


def names(fake: FakeHost) -> list[str]:
    return [node.name for node in udev.unseen(fake.host, ADDRESS)]


def told(fake: FakeHost) -> list[bool]:
    places = (fake.path(f"/sys/dev/block/{each}/uevent") for each in ("259:0", "259:1"))
    return [place.read_text().startswith("add") for place in places]


def test_disks_and_partitions_each_have_an_entry(fake: FakeHost) -> None:
    assert names(fake) == ["nvme5n1p1"]
    fake.path(DISK).unlink()
    assert names(fake) == ["nvme5n1", "nvme5n1p1"]
    fake.path("/run/udev/data").rename(fake.path("/run/udev/gone"))
    assert names(fake) == [], "no udev runs here"


@pytest.mark.parametrize(("comes_after", "left"), [(2, 1.0), (99, 0.0)])
def test_udev_is_waited_for_a_little(fake: FakeHost, comes_after: float, left: float) -> None:
    clock = Ticking(fake, comes_after)
    host = Host(fake.root, clock=clock)
    assert udev.wait(host, ADDRESS, 3.0) == left
    assert clock.now <= 3
    assert udev.wait(host, ADDRESS, left) == left, "nobody waits twice"


def test_what_udev_passed_by_it_is_told_of_anew(fake: FakeHost) -> None:
    udev.announce(fake.host, ADDRESS)
    assert told(fake) == [False, True]
    fake.path("/sys/dev/block/259:1/uevent").unlink()
    udev.announce(fake.host, ADDRESS)
    fake.path(FUNCTION).rename(fake.path("/sys/pulled"))
    udev.announce(fake.host, ADDRESS)
