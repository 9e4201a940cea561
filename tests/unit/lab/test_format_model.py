"""Format NVM: what it erases, what it refuses, what a reset in the middle does."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme.faults import EraseFault, Faults
from tests.lab.nvme.profile import DriveProfile, FormatProfile, NamespaceProfile
from tests.unit.lab.model import DEADLINE_SECONDS, SIZE, Bench

NONE, USER_DATA, CRYPTO = 0, 1 << 9, 2 << 9
BROADCAST = 0xFFFFFFFF
SECRET = os.urandom(4096)
TWO = DriveProfile(size=SIZE, namespaces=(NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5)))


PLAIN = FormatProfile()


def bench(directory: Path, faults: Faults | None = None, form: FormatProfile = PLAIN) -> Bench:
    made = Bench(directory, replace(TWO, format=form), faults or Faults())
    for nsid in (1, 2):
        assert made.write(0, SECRET, nsid=nsid) == 0
        assert made.write(SIZE // 2 - 4096, SECRET, nsid=nsid) == 0
    return made


@pytest.mark.parametrize("erase", [USER_DATA, CRYPTO])
def test_it_erases_its_namespace_alone(tmp_path: Path, erase: int) -> None:
    made = bench(tmp_path)
    assert made.format(erase) == 0
    assert made.stored().count(SECRET) == 2
    assert made.read(0, 4096) == bytes(4096)
    assert made.read(0, 4096, nsid=2) == SECRET


@pytest.mark.parametrize(
    ("nsid", "form"),
    [
        (BROADCAST, PLAIN),
        (1, FormatProfile(secure_all_namespaces=True)),
        (2, FormatProfile(secure_all_namespaces=True, all_namespaces=True)),
    ],
)
def test_it_erases_all_namespaces(tmp_path: Path, nsid: int, form: FormatProfile) -> None:
    made = bench(tmp_path, form=form)
    assert made.format(USER_DATA, nsid) == 0
    assert SECRET not in made.stored()


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("whole", [False, True])
def test_one_bit_of_fna_tells_the_scope_of_an_erase_and_the_other_of_a_plain_format(
    tmp_path: Path, *, whole: bool, secure: bool
) -> None:
    form = FormatProfile(all_namespaces=whole, secure_all_namespaces=secure)
    made = bench(tmp_path, form=form)
    assert made.format(NONE | 1) == 0
    assert [made.shift(nsid) for nsid in (1, 2)] == [12, 12 if whole else 9]
    assert made.format(USER_DATA | 1) == 0
    assert made.stored().count(SECRET) == (0 if secure else 2)
    assert made.shift(2) == (12 if whole or secure else 9)


def test_without_secure_erase_every_byte_stays(tmp_path: Path) -> None:
    made = bench(tmp_path)
    before = made.stored()
    assert made.format(NONE | 1) == 0
    assert made.stored() == before
    assert made.shift(1) == 12


def test_the_namespace_is_counted_in_new_blocks(tmp_path: Path) -> None:
    made = bench(tmp_path)
    assert int.from_bytes(made.identify(0, 1)[:8], "little") == SIZE // 2 // 512
    assert made.format(USER_DATA | 1) == 0
    raw = made.identify(0, 1)
    assert int.from_bytes(raw[:8], "little") == SIZE // 2 // 4096
    assert raw[26] & 0xF == 1
    assert made.read_status(SIZE // 2 // 4096) == 0x80
    assert made.log(4, 4096)[:8] == b"\1\0\0\0\0\0\0\0"
    assert made.reborn().shift(1) == 12


@pytest.mark.parametrize(
    ("cdw10", "nsid", "form", "status"),
    [
        (USER_DATA | 2, 1, PLAIN, 0x10A),
        (USER_DATA | 1 << 12, 1, PLAIN, 0x10A),
        (USER_DATA | 1 << 5, 1, PLAIN, 0x10A),  # protection information
        (3 << 9, 1, PLAIN, 0x02),
        (5 << 9, 1, PLAIN, 0x02),
        (CRYPTO, 1, FormatProfile(crypto=False), 0x02),
        (USER_DATA, 0, PLAIN, 0x0B),
        (USER_DATA, 7, PLAIN, 0x0B),
        (USER_DATA, BROADCAST, FormatProfile(broadcast=False), 0x02),
        (USER_DATA, 1, FormatProfile(supported=False), 0x01),
    ],
)
def test_refusals_leave_the_data(
    tmp_path: Path, cdw10: int, nsid: int, form: FormatProfile, status: int
) -> None:
    made = bench(tmp_path, form=form)
    assert made.format(cdw10, nsid) == status
    assert made.stored().count(SECRET) == 4
    (logged,) = made.commands("format_nvm")
    assert logged.status is not None
    assert logged.status & 0x7FF == status


def test_fna_says_what_format_does(tmp_path: Path) -> None:
    made = bench(
        tmp_path,
        form=FormatProfile(secure_all_namespaces=True, crypto=False, broadcast=False),
    )
    assert made.identify(1)[524] == 0b1010


def test_a_lie_answers_success_and_keeps_the_data(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(format=EraseFault.LIE))
    assert made.format(CRYPTO) == 0
    assert made.stored().count(SECRET) == 4


def test_a_failure_is_an_internal_error(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(format=EraseFault.FAIL))
    assert made.format(USER_DATA) == 0x06
    assert made.stored().count(SECRET) == 3


def test_a_slow_format_is_answered_at_its_end(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(format_seconds=2))
    answers: list[int] = []
    assert made.submit(0x80, lambda r: answers.append(r.status), nsid=1, cdw10=USER_DATA) is None
    assert made.read_status() == 0x84
    assert made.read_status(nsid=2) == 0
    assert made.format(USER_DATA, 2) == 0x84
    assert made.identify(0, 1)[32] & 0x7F > 0
    deadline = time.monotonic() + DEADLINE_SECONDS
    while not answers and time.monotonic() < deadline:
        time.sleep(0.01)
    assert answers == [0]
    assert made.read(0, 4096) == bytes(4096)
    assert made.identify(0, 1)[32] == 0x80


def test_a_reset_in_the_middle_leaves_it_half_erased(tmp_path: Path) -> None:
    made = bench(tmp_path, Faults(format_seconds=60))
    answers: list[int] = []
    made.submit(0x80, lambda r: answers.append(r.status), nsid=1, cdw10=USER_DATA)
    time.sleep(0.3)
    with made.drive.lock:
        made.controller.reset()
    assert made.read(0, 4096) == bytes(4096)
    assert made.read(SIZE // 2 - 4096, 4096) == SECRET
    assert answers == []
    assert not made.drive.formatter.busy
    (logged,) = made.commands("format_nvm")
    assert logged.status is None
