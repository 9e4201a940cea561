"""Oddities of honest drives: each is what it says, and none of them keeps anything."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed.audit import audit, bench, erase
from tests.lab.nvme.composed.description import Abilities, Description, formats
from tests.lab.nvme.composed.oddities import ODDITIES, Odd
from tests.lab.nvme.nature import Method
from tests.lab.nvme.presetkind import Expected
from tests.unit.lab.composed.lab import SIZE, Lab, lab

BLOCK = Method.SANITIZE_BLOCK


def odd(name: str, number: int = 1, **able: bool) -> Description:
    """An honest drive with one oddity."""
    return Description("odd", Abilities(**able), (), (Odd(name, number),))


@pytest.mark.parametrize("oddity", ODDITIES, ids=lambda oddity: oddity.name)
def test_it_is_filled_erased_and_gives_nothing(tmp_path: Path, oddity: object) -> None:
    (one,) = [each for each in ODDITIES if each is oddity]
    drive = odd(one.name, one.numbers[-1])
    found = audit(drive, tmp_path, size=1 << 20, rounds=1, method=BLOCK)
    assert found.erased is (one.name not in ("stuck", "fails"))
    assert found.loot.empty
    assert found.kept == 0
    assert drive.expected is one.expected
    assert formats(drive.abilities.methods)


def test_not_ready_is_said_for_a_time_after_each_reset(tmp_path: Path) -> None:
    with lab(odd("not-ready", 20), tmp_path, erased=False) as made:
        for _ in range(2):
            made.host.reset(Reset.CONTROLLER)
            answer = made.host.command(1, 0x02, nsid=1, receive=512)
            assert (answer.code, answer.again) == (0x82, True)
            made.clock.wait(19)
            assert made.host.command(1, 0x02, nsid=1, receive=512).code == 0x82
            made.clock.wait(1)
            assert made.host.command(1, 0x02, nsid=1, receive=512).code == 0
            assert made.host.command(0, 0x06, receive=4096, cdw10=1).code == 0


def test_media_that_is_not_ready_is_for_some_admin_commands(tmp_path: Path) -> None:
    with lab(odd("media-not-ready", 10), tmp_path, erased=False) as made:
        made.host.reset(Reset.CONTROLLER)
        answer = made.host.command(0, 0x84, cdw10=2)
        assert (answer.code, answer.again) == (0x24, True)
        assert made.sees()
        made.clock.wait(10)
        assert erase(made.host, BLOCK)


def test_every_so_many_commands_are_interrupted(tmp_path: Path) -> None:
    with lab(odd("interrupted", 17), tmp_path, erased=False) as made:
        answers = [made.host.command(1, 0x02, nsid=1, receive=512) for _ in range(34)]
        assert [one.code for one in answers].count(0x21) == 2
        assert all(one.again for one in answers if one.code)


def test_a_page_fails_once_and_may_be_asked_again(tmp_path: Path) -> None:
    with lab(odd("read-retry", 50), tmp_path, erased=False) as made:

        def sweep() -> list[tuple[int, bool]]:
            found = []
            for first in range(0, made.where.size, 8):
                answer = made.host.command(1, 0x02, nsid=1, receive=4096, cdw10=first, cdw12=7)
                if answer.code:
                    found.append((answer.code, answer.again))
            return found

        first = sweep()
        assert set(first) == {(0x281, True)}
        assert 5 < len(first) < 60
        assert sweep() == []


def test_progress_may_stand_still_until_the_end(tmp_path: Path) -> None:
    what = odd("flat-progress", 655)
    with bench(what, tmp_path, size=SIZE) as (drive, host, _clock):
        made = Lab(drive, host, _clock)
        assert drive.nature.progress(30000) == 655
        assert erase(made.host, BLOCK)
        assert struct.unpack_from("<H", made.host.log(0x81))[0] == 0xFFFF


def test_values_by_die_and_by_range(tmp_path: Path) -> None:
    for name, turn in (("by-die", 64 << 10), ("by-range", 4 << 20)):
        directory = tmp_path / name
        directory.mkdir()
        with bench(odd(name), directory, size=8 << 20) as (drive, host, clock):
            made = Lab(drive, host, clock)
            made.fill()
            made.erase(BLOCK)
            whole = b"".join(
                made.host.read(made.where, first, 1024).data
                for first in range(0, made.where.size, 1024)
            )
            turns = [whole[at : at + turn] for at in range(0, len(whole), turn)]
            assert set(turns) == {bytes(turn), b"\xff" * turn}
            assert turns[0] != turns[1]
            made.write(0, 1)
            assert made.host.read(made.where, 0, 8).data == b"\x55" * 512 + bytes(3584)


def test_reads_of_deallocated_blocks_fail_as_a_tenant_saved(tmp_path: Path) -> None:
    with lab(odd("deallocated-error"), tmp_path, erased=False) as made:
        assert made.sees()
        made.erase(BLOCK)
        assert made.host.read(made.where, 0, 8).code == 0x287
        made.write(0)
        assert made.host.read(made.where, 0, 8).code == 0


def test_a_hint_that_is_not_taken(tmp_path: Path) -> None:
    with lab(odd("keeps-deallocated"), tmp_path, erased=False) as made:
        assert made.host.deallocate(made.where, 0, 64).code == 0
        assert made.sees()
        made.erase(BLOCK)
        assert not made.sees()


def test_odd_but_legal_identify(tmp_path: Path) -> None:
    drive = Description(
        "odd",
        Abilities(),
        (),
        tuple(
            Odd(name)
            for name in ("no-ids", "no-nqn", "old", "capacity-unreported", "no-write-zeroes")
        ),
    )
    with lab(drive, tmp_path, erased=False) as made:
        raw, namespace = made.host.identify(1), made.host.identify(0, 1)
        assert struct.unpack_from("<I", raw, 80) == (0x10300,)
        assert raw[280:312] == bytes(32)
        assert raw[768:1024] == bytes(256)
        assert not struct.unpack_from("<H", raw, 520)[0] & 1 << 3
        assert namespace[104:128] == bytes(24)
        assert made.host.identify(3, 1)[:5] == b"\x04\x01\x00\x00\x00"
        assert made.host.command(1, 0x08, nsid=1, cdw12=7).code == 0x01


def test_how_they_must_end() -> None:
    held = {oddity.name for oddity in ODDITIES if oddity.expected is Expected.HELD}
    assert held == {"stuck", "fails", "unreadable"}
