"""The sanitize machine: states, data, power loss, lies."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme.commandlog import log_path, read_events
from tests.lab.nvme.faults import EraseFault, Faults
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile, SanitizeProfile
from tests.unit.lab.model import SIZE, Bench

BLOCK, OVERWRITE, CRYPTO, EXIT_FAILURE = 2, 3, 4, 1
AUSE, NDAS = 1 << 3, 1 << 9
QUICK = SanitizeProfile(crypto_seconds=0.05, block_seconds=0.05, overwrite_seconds=0.05)
PROFILE = DriveProfile(size=SIZE, sanitize=QUICK)
SECRET = os.urandom(4096)


def bench(directory: Path, faults: Faults | None = None, **changes: object) -> Bench:
    """A drive with a tenant's secret in its first and last block and two in the middle."""
    made = Bench(directory, replace(PROFILE, **changes), Faults())  # type: ignore[arg-type]
    for offset in (0, SIZE // 2, SIZE // 2 + 65536, SIZE - 4096):
        assert made.write(offset, SECRET) == 0
    made.drive.set_faults(faults or Faults())
    return made


@pytest.mark.parametrize("action", [BLOCK, CRYPTO, OVERWRITE])
def test_an_honest_sanitize_leaves_nothing(tmp_path: Path, action: int) -> None:
    made = bench(tmp_path)
    assert made.stored().count(SECRET) == 4
    assert made.sanitize(action | 1 << 4) == 0
    log = made.wait_sanitize()
    assert (log.outcome, log.sprog, log.cdw10) == (1, 0xFFFF, action | 1 << 4)
    assert SECRET not in made.stored()
    assert made.read(0, 4096) == bytes(4096)


@pytest.mark.parametrize(("reports", "only_clears"), [(True, False), (True, True), (False, False)])
def test_a_purge_is_reported_by_a_drive_that_can_and_did(
    tmp_path: Path, reports: bool, only_clears: bool
) -> None:
    made = bench(
        tmp_path, Faults(only_clears=only_clears), sanitize=replace(QUICK, reports_purge=reports)
    )
    assert (made.sanitize(BLOCK | 1 << 11) == 0) == reports
    if reports:
        assert bool(made.wait_sanitize().sstat >> 11 & 1) == (not only_clears)
        made.sanitize(BLOCK)
        assert not made.wait_sanitize().sstat >> 11 & 1, "nobody asked"


def test_overwrite_leaves_its_pattern(tmp_path: Path) -> None:
    made = bench(tmp_path)
    made.sanitize(OVERWRITE | 1 << 4, cdw11=0xDEADBEEF)
    log = made.wait_sanitize()
    assert log.sstat >> 3 & 0x1F == 1
    assert made.read(8192, 4096) == b"\xef\xbe\xad\xde" * 1024


def test_while_it_runs_the_drive_answers_in_progress(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize_seconds=600))
    assert made.sanitize(BLOCK) == 0
    assert made.sanitize_log().outcome == 2
    assert made.sanitize(BLOCK) == 0x1D
    assert made.format(1 << 9) == 0x1D
    assert made.read_status() == 0x1D
    assert made.io(0, nsid=1).status & 0x7FF == 0x1D
    assert made.admin(2, cdw10=5 | 0xFF << 16).status & 0x7FF == 0x1D
    assert made.identify(1)[4:24].strip() == PROFILE.serial.encode()
    assert made.log(2)


def test_progress_only_grows_and_the_block_erase_goes_with_it(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize_seconds=0.6))
    made.sanitize(BLOCK)
    seen = []
    while (log := made.sanitize_log()).outcome == 2:
        seen.append(log.sprog)
        time.sleep(0.002)
    assert seen == sorted(seen)
    assert len(set(seen)) > 1


@pytest.mark.parametrize(
    ("sanitize", "action"),
    [
        (replace(QUICK, crypto=False), CRYPTO),
        (replace(QUICK, block=False), BLOCK),
        (replace(QUICK, overwrite=False), OVERWRITE),
        (QUICK, 0),
        (QUICK, 7),
        (replace(QUICK, no_deallocate_inhibited=True), BLOCK | NDAS),
    ],
)
def test_what_the_drive_cannot_do_is_an_invalid_field(
    tmp_path: Path, sanitize: SanitizeProfile, action: int
) -> None:
    made = bench(tmp_path, sanitize=sanitize)
    assert made.sanitize(action) == 0x02
    assert made.sanitize_log().outcome == 0


def test_without_sanitize_the_opcode_and_the_log_do_not_exist(tmp_path: Path) -> None:
    made = bench(tmp_path, sanitize=SanitizeProfile(crypto=False, block=False, overwrite=False))
    assert made.sanitize(BLOCK) == 0x01
    assert made.admin(2, cdw10=0x81 | 127 << 16).status & 0x7FF == 0x109
    assert made.identify(1)[328:332] == bytes(4)


def test_global_data_erased_is_a_seal(tmp_path: Path) -> None:
    fresh = Bench(tmp_path, PROFILE)
    assert fresh.sanitize_log().data_erased, "never written since it was made"
    fresh.write(0, SECRET)
    assert not fresh.sanitize_log().data_erased
    fresh.sanitize(BLOCK)
    assert fresh.wait_sanitize().data_erased
    fresh.read(0, 4096)
    assert fresh.sanitize_log().data_erased
    assert fresh.reborn().sanitize_log().data_erased
    fresh.io(8, nsid=1, cdw12=7)  # Write Zeroes is a write
    assert not fresh.sanitize_log().data_erased
    assert not fresh.reborn().sanitize_log().data_erased


@pytest.mark.parametrize("action", [BLOCK, CRYPTO])
def test_a_power_loss_does_not_end_it(tmp_path: Path, action: int) -> None:
    made = bench(tmp_path, Faults(sanitize_seconds=600))
    made.sanitize(action)
    deadline = time.monotonic() + 30
    while made.sanitize_log().sprog == 0 and time.monotonic() < deadline:
        time.sleep(0.01)
    again = made.reborn()
    before = again.sanitize_log()
    assert (before.outcome, before.cdw10) == (2, action)
    assert before.sprog > 0
    again.drive.set_faults(Faults(sanitize_seconds=0.05))
    assert again.wait_sanitize().outcome == 1
    assert SECRET not in again.stored()
    assert len(again.commands("sanitize")) == 1
    events = [event.event for event in read_events(log_path(again.backing))]
    assert "sanitize_resumed" in events


def test_power_cycle_in_the_same_process_resumes_too(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize_seconds=600))
    made.sanitize(CRYPTO)
    made.drive.power_cycle()
    assert made.sanitize_log().outcome == 2
    made.drive.set_faults(Faults(sanitize_seconds=0.01))
    assert made.wait_sanitize().outcome == 1


def test_restricted_failure_is_left_only_by_a_restricted_success(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize=EraseFault.FAIL))
    made.sanitize(BLOCK)
    log = made.wait_sanitize()
    assert (log.outcome, log.sprog) == (3, 0xFFFF)
    for _ in range(2):
        assert made.read_status() == 0x1C
        assert made.format(1 << 9) == 0x1C
        assert made.sanitize(EXIT_FAILURE) == 0x1C
        assert made.sanitize(BLOCK | AUSE) == 0x1C
        made = made.reborn()
    assert SECRET in made.stored(), "half of the drive was not reached"
    made.drive.set_faults(Faults())
    assert made.sanitize(CRYPTO) == 0
    assert made.wait_sanitize().outcome == 1
    assert made.read(0, 4096) == bytes(4096)


def test_unrestricted_failure_can_be_left_and_shows_the_data_that_is_still_there(
    tmp_path: Path,
) -> None:
    made = bench(tmp_path, Faults(sanitize=EraseFault.FAIL))
    made.sanitize(CRYPTO | AUSE)
    made.wait_sanitize()
    assert made.read_status() == 0x1C
    assert made.sanitize(EXIT_FAILURE) == 0
    assert made.sanitize_log().outcome == 3, "the failure stays on record"
    assert made.read(0, 4096) == SECRET


def test_a_stuck_drive_stays_stuck_over_a_power_cycle_until_it_is_mended(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize=EraseFault.STUCK, sanitize_at=0.01))
    made.sanitize(BLOCK)
    deadline = time.monotonic() + 30
    while made.sanitize_log().sprog < 655 and time.monotonic() < deadline:
        time.sleep(0.01)
    made = made.reborn()
    time.sleep(0.2)
    assert (made.sanitize_log().outcome, made.sanitize_log().sprog) == (2, 655)
    made.drive.set_faults(Faults())
    assert made.wait_sanitize().outcome == 1


def test_a_lie_runs_through_all_states_and_keeps_every_byte(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize=EraseFault.LIE, sanitize_seconds=600))
    before = made.stored()
    made.sanitize(BLOCK)
    assert made.sanitize_log().outcome == 2
    made.drive.set_faults(Faults(sanitize=EraseFault.LIE, sanitize_seconds=0.05))
    log = made.wait_sanitize()
    assert (log.outcome, log.cdw10, log.data_erased) == (1, BLOCK, True)
    assert made.stored() == before
    assert made.read(0, 4096) == SECRET


def test_a_stale_success_never_runs(tmp_path: Path) -> None:
    made = bench(tmp_path)
    made.sanitize(CRYPTO)
    before = made.wait_sanitize()
    made.write(0, SECRET)
    made.drive.set_faults(Faults(sanitize=EraseFault.STALE))
    assert made.sanitize(CRYPTO) == 0
    after = made.sanitize_log()
    assert (after.outcome, after.cdw10, after.sprog) == (1, before.cdw10, 0xFFFF)
    assert not after.data_erased
    assert made.read(0, 4096) == SECRET


def test_partial_leaves_the_same_fraction_each_time(tmp_path: Path) -> None:
    made = Bench(tmp_path, PROFILE)
    for offset in range(0, SIZE, 65536):
        made.write(offset, SECRET * 16)
    made.drive.set_faults(Faults(sanitize=EraseFault.PARTIAL, survivors=0.1))
    for _ in range(2):
        made.sanitize(CRYPTO)
        assert made.wait_sanitize().outcome == 1
        left = made.stored().count(SECRET)
        assert 0.05 < left / (SIZE // 4096) < 0.2
    assert made.stored().count(SECRET) == left


def test_a_canary_eater_erases_what_was_written_last(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(sanitize=EraseFault.RECENT))
    made.drive.recent.clear()  # as when a driver takes the drive
    canary = os.urandom(4096)
    made.write(4096, canary)
    made.sanitize(CRYPTO)
    assert made.wait_sanitize().outcome == 1
    assert canary not in made.stored()
    assert made.stored().count(SECRET) == 4


def test_crypto_that_leaves_random_bytes_differs_each_time(tmp_path: Path) -> None:
    random = Fill(FillKind.RANDOM, deallocated=False)
    made = bench(tmp_path, sanitize=replace(QUICK, crypto_leaves=random), dlfeat=0)
    readings = []
    for _ in range(2):
        made.sanitize(CRYPTO)
        made.wait_sanitize()
        readings.append(made.read(0, 65536))
        assert readings[-1] == made.read(0, 65536) == made.reborn().read(0, 65536)
        assert made.stored().count(b"\0") == SIZE, "the file must not hold the noise"
    assert readings[0] != readings[1]
    assert len({readings[0][at : at + 4096] for at in range(0, 65536, 4096)}) == 16
    made.write(512, b"x" * 512)
    assert made.read(0, 4096)[:512] == readings[1][:512]
    assert made.read(0, 4096)[1024:] == readings[1][1024:4096]


def test_not_deallocated_on_request(tmp_path: Path) -> None:
    made = bench(tmp_path)
    made.sanitize(CRYPTO | NDAS)
    assert made.wait_sanitize().outcome == 1
    assert made.read(0, 4096) not in (bytes(4096), SECRET)


def test_deallocated_against_the_request_is_outcome_4(tmp_path: Path) -> None:
    made = bench(tmp_path, sanitize=replace(QUICK, no_deallocate_inhibited=True))
    assert made.admin(9, cdw10=0x17, cdw11=1).status == 0  # warn instead of refusing
    made.sanitize(BLOCK | NDAS)
    assert made.wait_sanitize().outcome == 4


def test_sanitize_reaches_every_namespace_and_the_space_between(tmp_path: Path) -> None:
    parts = (NamespaceProfile(1, 0.5), NamespaceProfile(3, 0.25, lba_format=1))
    made = Bench(tmp_path, replace(PROFILE, namespaces=parts))
    for nsid in (1, 3):
        made.write(0, SECRET, nsid=nsid)
    with made.backing.open("r+b") as media:  # as left by a namespace that was deleted
        media.seek(SIZE - 4096)
        media.write(SECRET)
    made.sanitize(BLOCK)
    made.wait_sanitize()
    assert SECRET not in made.stored()


def test_a_write_protected_namespace_refuses_it(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(write_protected=[1]))
    assert made.sanitize(CRYPTO) == 0x20
    assert made.format(1 << 9) == 0x20
    assert made.write(0, SECRET) & 0x7FF == 0x20
    assert made.identify(0, 1)[99] & 1
    assert made.admin(0x0A, nsid=1, cdw10=0x84).dw0 == 3
    assert made.admin(9, nsid=1, cdw10=0x84, cdw11=0).status & 0x7FF == 0x10E
