"""The 26 ways in which a released drive could reach the next guest, or be erased under this one.

Standard library only: tools/leaks and a unit test read it without Nova. What happened is never
written here: tests on the harness record what they saw (:func:`record`), and what a test elsewhere
shows holds only where that test was run and passed.
"""

from __future__ import annotations

import enum
import json
import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

OUTCOMES_FILE: Final = "NVME_QUARANTINE_LEAK_OUTCOMES"
"""Environment variable: the file that tests append what they saw to."""

TEST_NAME: Final = re.compile(r"test_leak_(?P<number>\d\d)_(?P<what>\w+)_(?P<side>without|with)")

HARNESS: Final = "harness"
RACK: Final = "rack"


class Side(enum.StrEnum):
    """Without our part, and with it."""

    WITHOUT = "without"
    WITH = "with"


class Saw(enum.StrEnum):
    """What a test may see; each word is decided by the drives, not by what software says."""

    LEAKED = "leaked"
    """A second tenant's guest ran on a drive with the first one's data."""
    DESTROYED = "destroyed"
    """A drive was erased while the guest whose data it holds still existed."""
    STRANDED = "stranded"
    """The drive stays reserved for ever: nobody learns that it waits for an erase."""
    FORGOTTEN = "forgotten"
    """Nothing leaked, and nobody can say any more who had the drive."""
    CLOSED = "closed"
    """Refused to the second tenant while dirty, erased, certified, and then handed out clean."""
    HELD = "held"
    """Kept out of the pool, with the reason, until a person decides."""
    REFUSED = "refused"
    """No guest got the drive, and nothing was done to it."""
    UNTOUCHED = "untouched"
    """The tenant's drive was left alone for as long as it was the tenant's."""
    KEPT = "kept"
    """The record names the drive, its tenant and what was done, whatever Nova forgot."""


@dataclass(frozen=True)
class Shown:
    """A test outside the harness, and what it shows when it passes."""

    test: str
    shows: str


@dataclass(frozen=True)
class Leak:
    """One row. ``elsewhere`` is empty for those on the harness."""

    number: int
    title: str
    how: str = HARNESS
    elsewhere: dict[Side, Shown] = field(default_factory=dict)


def _rack(number: int, title: str, without: Shown, with_ours: Shown) -> Leak:
    return Leak(number, title, RACK, {Side.WITHOUT: without, Side.WITH: with_ours})


LEAKS: Final = (
    Leak(1, "host reboots while the drive is absent, and it comes back"),
    Leak(2, "device_spec line removed and added again"),
    Leak(3, "resource class renamed in device_spec"),
    Leak(4, "compute service deleted and enrolled again"),
    Leak(5, "operator zeroes reserved while the drive is in use"),
    Leak(6, "operator zeroes reserved while the drive is in quarantine"),
    Leak(7, "server deleted while its host is down: a ghost guest runs on"),
    Leak(8, "evacuated host comes back"),
    Leak(9, "suspend gives the drive back to the host although it is the tenant's"),
    Leak(10, "failed spawn burns a drive that nobody used"),
    Leak(11, "migration leaves a burned drive behind without a delete event"),
    Leak(12, "shelve-offload releases a drive without a delete event"),
    Leak(13, "soft-deleted server is restored"),
    Leak(14, "two slots of a host swap their drives"),
    Leak(15, "late report of an old case meets a new tenant"),
    _rack(
        16,
        "crash in mid-erase",
        Shown(
            "tests/unit/lab/test_sanitize_model.py::TODO",
            "",
        ),
        Shown("tests/emulated/test_cycle.py::test_a_hosts_power_cut_in_mid_erase", "closed"),
    ),
    Leak(17, "erase answers success and erases nothing"),
    Leak(18, "tenant changed the drive beyond its data"),
    Leak(19, "nova-manage audit --delete and archive_deleted_rows"),
    Leak(20, "one_time_use dropped from device_spec"),
    Leak(21, "pci_in_placement switched off"),
    Leak(22, "a broad device_spec line stands before the one-time-use line"),
    Leak(23, "dirty drive pulled and plugged into another host"),
    Leak(24, "drive cannot be opened: vfio does not let go of it"),
    Leak(25, "server forced onto a host, or evacuated by force"),
    Leak(26, "Placement's database restored from a backup"),
)


def record(test: str, saw: Saw) -> None:
    """Appends what a test saw to the file that tools/leaks named, if it did.

    Raises ``ValueError`` for a test whose name is not that of a leak.
    """
    match = TEST_NAME.fullmatch(test)
    if match is None:
        raise ValueError(f"expected test_leak_NN_..._without or _with, found {test}")
    path = os.environ.get(OUTCOMES_FILE)
    if path:
        row = {"leak": int(match["number"]), "side": match["side"], "saw": str(saw), "test": test}
        with Path(path).open("a") as file:
            file.write(json.dumps(row) + "\n")
