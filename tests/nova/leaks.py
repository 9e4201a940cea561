"""The 28 ways in which a released drive could reach the next guest, or be erased under this one.

Standard library only: tools/leaks and a unit test read it without Nova. What happened is never
written here: the tests record what they saw (:func:`record`).
"""

from __future__ import annotations

import enum
import json
import os
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

OUTCOMES_FILE: Final = "NVME_QUARANTINE_LEAK_OUTCOMES"
"""Environment variable: the file that tests append what they saw to."""

TEST_NAME: Final = re.compile(r"test_leak_(?P<number>\d\d)_(?P<what>\w+)_(?P<side>without|with)")


class Side(enum.StrEnum):
    """Without our part, and with it."""

    WITHOUT = "without"
    WITH = "with"


class Saw(enum.StrEnum):
    """What a test may see, decided by the drives; :data:`tests.nova.leaktable.WORDS` explains."""

    LEAKED = "leaked"
    DESTROYED = "destroyed"
    STRANDED = "stranded"
    FORGOTTEN = "forgotten"
    CLOSED = "closed"
    HELD = "held"
    REFUSED = "refused"
    UNTOUCHED = "untouched"
    KEPT = "kept"


@dataclass(frozen=True)
class Leak:
    """One row. ``rack``: the tests with real kernels, drives and libvirt that show what the host's
    stand-in of the harness only says (paths, ``::`` and the function's name)."""

    number: int
    title: str
    rack: tuple[str, ...] = ()


_CYCLE = "tests/emulated/test_cycle.py"
_ERASE = "tests/emulated/test_erase.py"
_GATE = "tests/libvirt/test_gate.py"

LEAKS: Final = (
    Leak(1, "host reboots while the drive is absent, and it comes back"),
    Leak(2, "device_spec line removed and added again"),
    Leak(3, "resource class renamed in device_spec"),
    Leak(4, "compute service deleted and enrolled again"),
    Leak(
        5,
        "operator zeroes reserved while the drive is in use",
        (f"{_GATE}::test_a_certified_drive_starts_one_guest_once",),
    ),
    Leak(6, "operator zeroes reserved while the drive is in quarantine"),
    Leak(
        7,
        "server deleted while its host is down: a ghost guest runs on",
        (f"{_CYCLE}::test_a_drive_in_use_is_left_alone_until_it_is_free",),
    ),
    Leak(
        8,
        "evacuated host comes back",
        (f"{_CYCLE}::test_a_drive_in_use_is_left_alone_until_it_is_free",),
    ),
    Leak(
        9,
        "suspend gives the drive back to the host although it is the tenant's",
        (f"{_GATE}::test_no_erase_while_the_owner_exists",),
    ),
    Leak(10, "failed spawn burns a drive that nobody used"),
    Leak(11, "migration leaves a burned drive behind without a delete event"),
    Leak(12, "shelve-offload releases a drive without a delete event"),
    Leak(13, "soft-deleted server is restored"),
    Leak(
        14,
        "two slots of a host swap their drives",
        (
            f"{_CYCLE}::test_another_drive_in_the_slot_is_not_touched",
            "tests/libvirt/test_boot.py::test_autostart_and_swapped_drives",
        ),
    ),
    Leak(15, "late report of an old case meets a new tenant"),
    Leak(
        16,
        "crash in mid-erase",
        (
            f"{_CYCLE}::test_a_hosts_power_cut_in_mid_erase",
            "tests/emulated/test_erase_resume.py::test_a_power_cut_at_any_step_is_resumed",
        ),
    ),
    Leak(
        17,
        "erase answers success and erases nothing",
        (
            f"{_CYCLE}::test_unknown_drives_are_erased_first_and_the_liar_is_held",
            f"{_ERASE}::test_a_drive_that_keeps_data_is_not_erased",
        ),
    ),
    Leak(
        18,
        "tenant changed the drive beyond its data",
        (f"{_ERASE}::test_a_changed_layout_is_erased_and_held",),
    ),
    Leak(19, "nova-manage audit --delete and archive_deleted_rows"),
    Leak(20, "one_time_use dropped from device_spec"),
    Leak(21, "pci_in_placement switched off"),
    Leak(22, "a broad device_spec line stands before the one-time-use line"),
    Leak(
        23,
        "dirty drive pulled and plugged into another host",
        ("tests/emulated/test_erase_case.py::test_the_ordered_drive_and_no_other",),
    ),
    Leak(
        24,
        "drive cannot be opened: vfio does not let go of it",
        ("tests/emulated/test_idle.py::test_ghost_guest_and_rebinding",),
    ),
    Leak(25, "server forced onto a host, or evacuated by force"),
    Leak(
        26,
        "Placement's database restored from a backup",
        (f"{_GATE}::test_a_certified_drive_starts_one_guest_once",),
    ),
    Leak(27, "server that is resized on its host gets another drive than Placement gave it"),
    Leak(28, "Nova rewrites a drive's inventory record and un-reserves the drive with it"),
)


def side_of(test: str) -> tuple[int, Side] | None:
    """The leak and the side that a test is named after; ``None`` for any other test."""
    match = TEST_NAME.fullmatch(test)
    return (int(match["number"]), Side(match["side"])) if match else None


def record(test: str, saw: str) -> None:
    """Appends what a test saw to the file that was asked for, if one was.

    Raises ``ValueError`` for a test whose name is not that of a leak.
    """
    side = side_of(test)
    if side is None:
        raise ValueError(f"expected test_leak_NN_..._without or _with, found {test}")
    path = os.environ.get(OUTCOMES_FILE)
    if path:
        row = {"leak": side[0], "side": side[1], "saw": saw}
        with Path(path).open("a") as file:
            file.write(json.dumps(row) + "\n")
