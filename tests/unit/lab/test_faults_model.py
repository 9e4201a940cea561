"""Misbehaviours of the drive model: what each does to data, to reads and to the drive itself."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme.faults import EraseFault, Faults, MediaError, Spared, WriteFault
from tests.lab.nvme.profile import DriveProfile, FormatProfile, NamespaceProfile, SanitizeProfile
from tests.lab.nvme.profile import SmartProfile as Smart
from tests.unit.lab.model import DEADLINE_SECONDS, SIZE, Bench, Memory

QUICK = SanitizeProfile(crypto_seconds=0.05, block_seconds=0.05)
PROFILE = DriveProfile(size=SIZE, sanitize=QUICK)
SECRET = os.urandom(4096)
BLOCK, CRYPTO = 2, 4
USER_DATA = 1 << 9


def bench(directory: Path, faults: Faults, profile: DriveProfile = PROFILE) -> Bench:
    """A drive whose every namespace is full of secrets."""
    made = Bench(directory, profile)
    for namespace in made.drive.state.attached:
        for at in range(0, namespace.size, 65536):
            assert made.write(at, SECRET * 16, nsid=namespace.nsid) == 0
    made.drive.set_faults(faults)
    return made


def left(made: Bench) -> set[int]:
    """Offsets on the media where the secret is, in units of 64 KiB."""
    stored = made.stored()
    return {at >> 16 for at in range(0, SIZE, 4096) if stored[at : at + 4096] == SECRET}


@pytest.mark.parametrize("action", [BLOCK, CRYPTO])
def test_a_hidden_erase_is_undone_by_a_reset(tmp_path: Path, action: int) -> None:
    made = bench(tmp_path, Faults(sanitize=EraseFault.HIDE))
    assert made.sanitize(action) == 0
    assert made.wait_sanitize().outcome == 1
    assert made.read(0, 8192) == bytes(8192)
    made.write(4096, b"n" * 4096)
    assert made.read(0, 12288) == bytes(4096) + b"n" * 4096 + bytes(4096)
    made.controller.reset()
    assert made.read(0, 12288) == SECRET + b"n" * 4096 + SECRET
    assert left(made)


def test_cached_reads_show_what_is_gone_until_a_reset(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(cached_reads=True))
    made.sanitize(CRYPTO)
    made.wait_sanitize()
    made.sanitize(BLOCK)
    made.wait_sanitize()
    assert not left(made)
    assert made.read(0, 4096) == SECRET
    made.write(0, b"n" * 512)
    assert made.read(0, 4096) == b"n" * 512 + SECRET[512:]
    made.controller.reset()
    assert made.read(4096, 4096) == bytes(4096)


def test_dropped_and_forgotten_writes(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(writes=WriteFault.DROP))
    assert made.write(0, b"n" * 4096) == 0
    assert made.read(0, 4096) == SECRET
    made.drive.set_faults(Faults(writes=WriteFault.CACHE))
    assert made.write(0, b"n" * 4096) == 0
    assert made.read(0, 8192) == b"n" * 4096 + SECRET
    made.controller.reset()
    assert made.read(0, 4096) == SECRET
    assert made.stored()[:4096] == SECRET


TWO = (NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.25), NamespaceProfile(3, 0.125))


@pytest.mark.parametrize(
    ("what", "units"),
    [
        (Spared.FIRST, {0}),
        (Spared.LAST, {(SIZE * 3 // 4 >> 16) - 1}),
        (Spared.NAMESPACE, set(range(SIZE // 2 >> 16, SIZE * 3 // 4 >> 16))),
        (Spared.DETACHED, set(range(SIZE * 3 // 4 >> 16, SIZE * 7 // 8 >> 16))),
        (Spared.UNALLOCATED, set()),
    ],
)
@pytest.mark.parametrize("by", ["sanitize", "format"])
def test_an_erase_spares_a_part(tmp_path: Path, what: Spared, units: set[int], by: str) -> None:
    profile = replace(PROFILE, namespaces=TWO, format=FormatProfile(secure_all_namespaces=True))
    faults = Faults(sanitize=EraseFault.SPARE, format=EraseFault.SPARE, spared=what)
    made = bench(tmp_path, faults, profile)
    made.drive.state.namespaces[2].attached = False
    if by == "sanitize":
        made.sanitize(BLOCK)
        made.wait_sanitize()
    else:
        assert made.format(USER_DATA) == 0
    assert left(made) == units


def test_what_is_in_no_namespace_is_spared(tmp_path: Path) -> None:
    faults = Faults(sanitize=EraseFault.SPARE, spared=Spared.UNALLOCATED)
    made = bench(tmp_path, faults, replace(PROFILE, namespaces=TWO))
    del made.drive.state.namespaces[1]
    made.sanitize(CRYPTO)
    made.wait_sanitize()
    assert left(made) == set(range(SIZE // 2 >> 16, SIZE * 3 // 4 >> 16))


def test_the_log_names_another_command(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(reported_cdw10=0x13))
    made.sanitize(BLOCK)
    log = made.wait_sanitize()
    assert (log.outcome, log.cdw10) == (1, 0x13)
    assert not left(made)


@pytest.mark.parametrize("by", ["sanitize", "format"])
def test_a_drive_has_another_name_after_the_erase(tmp_path: Path, by: str) -> None:
    made = bench(tmp_path, Faults(renamed="OTHER"))
    nqn = made.identify(1)[768:]
    assert made.identify(1)[4:24].strip() == PROFILE.serial.encode()
    if by == "sanitize":
        made.sanitize(BLOCK)
        made.wait_sanitize()
    else:
        made.format(USER_DATA)
    assert made.identify(1)[4:24].strip() == b"OTHER"
    assert made.identify(1)[768:] == nqn
    assert made.reborn().identify(1)[4:24].strip() == b"OTHER"


def test_blocks_go_bad_with_the_erase(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(media_errors=[MediaError(8, 8, erased_only=True)]))
    assert made.read_status(8) == 0
    made.sanitize(BLOCK)
    made.wait_sanitize()
    assert made.read_status(8) == 0x281
    assert made.read_status(9) == 0


def powered(made: Bench, wanted: bool) -> None:
    """Wait until the drive has power, or has none."""
    deadline = time.monotonic() + DEADLINE_SECONDS
    while made.drive.powered is not wanted:
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_a_pulled_drive_goes_on_when_it_is_back(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize_seconds=0.4, pulled_at=0.3, pulled_seconds=0.2))
    made.sanitize(CRYPTO)
    powered(made, False)
    assert left(made)
    powered(made, True)
    assert made.wait_sanitize().outcome == 1
    assert not left(made)


def test_a_drive_pulled_for_ever_keeps_what_it_had(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(format_seconds=0.4, pulled_at=0.5))
    assert made.submit(0x80, lambda _reply: None, Memory(), nsid=1, cdw10=USER_DATA) is None
    powered(made, False)
    time.sleep(0.5)
    assert not made.drive.powered
    # Half a format is half an erase.
    assert 0 < len(left(made)) < SIZE >> 16


def test_a_lagging_health_log(tmp_path: Path) -> None:
    made = Bench(tmp_path, replace(PROFILE, smart=Smart(lag_seconds=600)))
    before = made.log(2)
    made.write(0, SECRET)
    assert made.log(2)[80:96] == before[80:96]
    assert Bench.reborn(made).log(2)[80:96] != before[80:96]
