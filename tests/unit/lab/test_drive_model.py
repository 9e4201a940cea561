"""Identity, counters, features, I/O, media errors, the command log."""

from __future__ import annotations

import copy
import gc
import json
import os
import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme.commandlog import log_path, read_commands
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.faults import HEALTHY, Faults, MediaError, MediaErrorOp
from tests.lab.nvme.fill import Fill, FillKind
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.presetkind import Expected
from tests.lab.nvme.presets import PRESETS, preset
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.lab.nvme.server import DriveServer
from tests.lab.nvme.spec import AdminOp
from tests.lab.nvme.state import DriveState, factory_state, state_path
from tests.unit.lab.model import SIZE, Bench, Memory

PROFILE = DriveProfile(serial="SER123", size=SIZE)
UNITS_WRITTEN, UNITS_READ, READS, WRITES, CYCLES, UNSAFE = 48, 32, 64, 80, 112, 144
MEDIA_ERRORS, ERROR_ENTRIES = 160, 176


@pytest.fixture
def made(tmp_path: Path) -> Bench:
    return Bench(tmp_path, PROFILE)


def smart(made: Bench, offset: int) -> int:
    """A 128-bit counter of log 02h."""
    return int.from_bytes(made.log(2)[offset : offset + 16], "little")


# Identity


def test_identify_controller(made: Bench) -> None:
    raw = made.identify(1)
    assert struct.unpack_from("<HH", raw) == (0x144D, 0x144D)
    assert raw[4:24] == b"SER123".ljust(20)
    assert raw[24:64].rstrip() == b"NVMe Lab Drive"
    assert raw[64:72] == b"GDC5602Q"
    assert struct.unpack_from("<I", raw, 80)[0] == 0x10400
    assert struct.unpack_from("<I", raw, 328)[0] == 0x80000007  # crypto, block, overwrite
    assert raw[768:1024].startswith(b"nqn.2014-08.org.nvmexpress:uuid:")
    assert raw[512:514] == b"\x66\x44"


def test_identity_stays_and_differs_between_drives(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one, two = (
        Bench(tmp_path / "one", PROFILE),
        Bench(tmp_path / "two", replace(PROFILE, serial="B")),
    )
    assert one.identify(1) == one.reborn().identify(1)
    assert one.identify(3, 1) != two.identify(3, 1)
    assert one.identify(1)[768:] != two.identify(1)[768:]


def test_another_piece_of_hardware_may_have_the_same_serial(tmp_path: Path) -> None:
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    one = Bench(tmp_path / "one", PROFILE)
    two = Bench(tmp_path / "two", replace(PROFILE, salt="twin"))
    assert one.identify(1)[4:64] == two.identify(1)[4:64]
    assert one.identify(1)[768:1024] != two.identify(1)[768:1024]
    assert one.identify(3, 1) != two.identify(3, 1)


def test_namespace_descriptors_agree_with_identify_namespace(made: Bench) -> None:
    raw, listed = made.identify(0, 1), made.identify(3, 1)
    found, at = {}, 0
    while listed[at]:
        found[listed[at]] = listed[at + 4 : at + 4 + listed[at + 1]]
        at += 4 + listed[at + 1]
    assert found == {1: raw[120:128], 2: raw[104:120], 4: b"\0"}


def test_namespaces_are_listed_and_absent_ones_are_empty(tmp_path: Path) -> None:
    parts = (NamespaceProfile(1, 0.5), NamespaceProfile(3, 0.25, lba_format=1))
    made = Bench(tmp_path, replace(PROFILE, namespaces=parts))
    assert struct.unpack_from("<3I", made.identify(2, 0)) == (1, 3, 0)
    assert struct.unpack_from("<2I", made.identify(2, 1)) == (3, 0)
    assert made.identify(0, 2) == bytes(4096)
    assert made.admin(6, nsid=9).status & 0x7FF == 0x0B
    assert int.from_bytes(made.identify(0, 3)[:8], "little") == SIZE // 4 // 4096
    secret = os.urandom(4096)
    made.write(0, secret, nsid=3)
    assert made.read(0, 4096, nsid=1) == bytes(4096)
    assert made.stored()[SIZE // 2 : SIZE // 2 + 4096] == secret


@pytest.mark.parametrize("opcode", [0x0D, 0x10, 0x14, 0x81, 0x82, 0xC0])
def test_what_it_does_not_have_is_an_invalid_opcode(made: Bench, opcode: int) -> None:
    assert made.admin(opcode).status == 0x4001


# Counters


def test_smart_counts_what_the_host_did(made: Bench) -> None:
    made.write(0, bytes(512 * 1000))
    made.write(0, bytes(512))
    made.read(0, 512)
    assert smart(made, UNITS_WRITTEN) == 2  # thousands of sectors, rounded up
    assert smart(made, WRITES) == 2
    assert (smart(made, UNITS_READ), smart(made, READS)) == (1, 1)
    made.io(8, nsid=1, cdw12=7)
    assert smart(made, WRITES) == 3


def test_counters_survive_a_kill(made: Bench) -> None:
    made.write(0, bytes(4096))
    again = made.reborn()
    assert smart(again, WRITES) == 1
    assert smart(again, CYCLES) == smart(made, CYCLES) == 2


def test_refused_commands_are_not_counted_but_logged(made: Bench) -> None:
    assert made.read_status(lba=SIZE) == 0x80
    assert smart(made, READS) == 0
    assert smart(made, ERROR_ENTRIES) == 1
    entry = made.log(1, 64)
    assert struct.unpack_from("<Q", entry)[0] == 1
    assert struct.unpack_from("<H", entry, 12)[0] >> 1 & 0x7FF == 0x80
    assert struct.unpack_from("<Q", entry, 16)[0] == SIZE


# I/O


def test_deallocate_and_its_error(made: Bench) -> None:
    made.write(0, b"x" * 8192)
    descriptor = struct.pack("<IIQ", 0, 8, 0)
    assert made.io(9, Memory(descriptor), nsid=1, cdw11=4).status == 0
    assert made.read(0, 8192) == bytes(4096) + b"x" * 4096
    assert made.admin(9, nsid=1, cdw10=5, cdw11=1 << 16).status == 0  # DULBE on
    assert made.read_status(0) == 0x287
    assert made.read_status(8) == 0
    made.controller.reset()
    assert made.read_status(0) == 0, "DULBE was not saved"


def test_part_of_a_chunk_can_be_deallocated(made: Bench) -> None:
    made.write(0, b"x" * 4096)
    made.io(9, Memory(struct.pack("<IIQ", 0, 2, 1)), nsid=1, cdw11=4)
    assert made.read(0, 4096) == b"x" * 512 + bytes(1024) + b"x" * 2560


def test_deallocated_blocks_may_read_as_ones(tmp_path: Path) -> None:
    profile = replace(PROFILE, dlfeat=2, deallocated_reads=Fill(FillKind.ONES))
    made = Bench(tmp_path, profile)
    assert made.read(0, 4096) == b"\xff" * 4096
    made.write(1024, b"x" * 512)
    assert made.read(0, 4096) == b"\xff" * 1024 + b"x" * 512 + b"\xff" * 2560
    made.io(8, nsid=1, cdw10=0, cdw12=7)
    assert made.read(0, 8192) == bytes(4096) + b"\xff" * 4096
    assert made.reborn().read(0, 8192) == bytes(4096) + b"\xff" * 4096


def test_compare(made: Bench) -> None:
    made.write(0, b"x" * 512)
    assert made.io(5, Memory(b"x" * 512), nsid=1).status == 0
    assert made.io(5, Memory(b"y" * 512), nsid=1).status & 0x7FF == 0x285


def test_more_than_mdts_is_refused(made: Bench) -> None:
    assert made.io(2, nsid=1, cdw12=1023).status == 0
    assert made.io(2, nsid=1, cdw12=1024).status & 0x7FF == 0x02


def test_media_errors_hit_their_range_and_direction(tmp_path: Path) -> None:
    bad = [MediaError(10, 11), MediaError(20, 20, MediaErrorOp.WRITE)]
    made = Bench(tmp_path, PROFILE, Faults(media_errors=bad))
    assert [made.read_status(lba) for lba in (9, 10, 11, 12, 20)] == [0, 0x281, 0x281, 0, 0]
    assert made.write(20 * 512, bytes(512)) & 0x7FF == 0x280
    assert made.write(10 * 512, bytes(512)) == 0
    assert made.io(2, nsid=1, cdw10=8, cdw12=7).status & 0x7FF == 0x281
    assert smart(made, MEDIA_ERRORS) == 4


# Features


def test_saved_features_come_back_and_others_do_not(made: Bench) -> None:
    assert made.admin(9, cdw10=2, cdw11=3).status == 0
    assert made.admin(9, cdw10=1 | 1 << 31, cdw11=7).status == 0
    assert made.admin(10, cdw10=2).dw0 == 3
    again = made.reborn()
    assert again.admin(10, cdw10=2).dw0 == 0
    assert again.admin(10, cdw10=1).dw0 == 7
    assert again.admin(10, cdw10=1 | 1 << 8).dw0 == 0  # the default
    assert again.admin(10, cdw10=1 | 2 << 8).dw0 == 7  # the saved value


def test_features_with_data(made: Bench) -> None:
    content = b"\x01\0\x0a\0\x09\0" + os.urandom(9) + bytes(4096 - 15)
    assert made.admin(9, content, cdw10=0x7E).status == 0
    assert made.reborn().admin(10, cdw10=0x7E).data == content


def test_feature_refusals(made: Bench) -> None:
    assert made.admin(9, cdw10=7 | 1 << 31).status & 0x7FF == 0x10D
    assert made.admin(9, cdw10=0x55).status & 0x7FF == 0x02
    assert made.admin(9, nsid=1, cdw10=2).status & 0x7FF == 0x10F
    assert made.admin(9, nsid=4, cdw10=5).status & 0x7FF == 0x0B


def test_a_drive_without_a_volatile_write_cache_has_no_feature_of_it(tmp_path: Path) -> None:
    able = DriveProfile(size=SIZE, volatile_write_cache=False, many_features=True)
    made = Bench(tmp_path, able)
    assert made.identify(1)[525] == 0
    for command in (made.admin(9, cdw10=6), made.admin(10, cdw10=6), made.admin(10, cdw10=0x306)):
        assert command.status & 0x7FF == 0x02
    assert made.log(0x12, 1024)[4 * 6] == 0
    assert made.log(0x12, 1024)[4 * 5] == 1


def test_write_protection_until_power_cycle(made: Bench) -> None:
    assert made.admin(9, nsid=1, cdw10=0x84, cdw11=2).status == 0
    assert made.write(0, bytes(512)) & 0x7FF == 0x20
    assert made.admin(9, nsid=1, cdw10=0x84, cdw11=0).status & 0x7FF == 0x10E
    made.drive.power_cycle()
    assert made.write(0, bytes(512)) == 0


# Faults, log, presets, files


def test_admin_faults(made: Bench) -> None:
    made.drive.set_faults(Faults(admin_status={6: 0x4006}, admin_hang=[0x18]))
    assert made.admin(6, cdw10=1).status == 0x4006
    assert made.submit(0x18, lambda reply: None) is None


def test_the_command_log_holds_each_command_once(made: Bench) -> None:
    made.read(0, 512)
    made.admin(0x84, cdw10=4)
    made.admin(0x80, nsid=1, cdw10=1 << 9)
    logged = [c for c in read_commands(log_path(made.backing)) if c.name != "identify"]
    assert [(c.name, c.cdws[0], c.status) for c in logged] == [
        ("sanitize", 4, 0),
        ("format_nvm", 1 << 9, 0x1D),
    ]
    assert [c.seq for c in logged] == sorted({c.seq for c in logged})
    assert all(c.ended is not None and c.ended >= c.begun for c in logged)


def test_the_log_goes_on_after_a_kill_and_ignores_a_torn_line(made: Bench) -> None:
    made.admin(0x84, cdw10=4)
    with log_path(made.backing).open("ab") as log:
        log.write(b'{"kind":"command","seq":')
    (only,) = made.commands("sanitize")
    assert only.power_cycle == 1


def test_a_begun_command_without_answer_has_no_status(made: Bench) -> None:
    made.drive.set_faults(Faults(admin_hang=[0x84]))
    made.submit(0x84, lambda reply: None, cdw10=2)
    (logged,) = made.commands("sanitize")
    assert (logged.status, logged.ended, logged.succeeded) == (None, None, False)


def test_reads_and_writes_are_logged_on_request(made: Bench) -> None:
    made.write(0, bytes(512))
    made.drive.set_faults(Faults(log_io=True))
    made.write(4096, bytes(512))
    (logged,) = made.commands("write")
    assert (logged.queue, logged.cdws[0]) == ("io", 8)


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_makes_a_drive_that_identifies(tmp_path: Path, name: str) -> None:
    chosen = preset(name)
    made = Bench(tmp_path, replace(chosen.profile, size=SIZE), chosen.faults)
    assert len(made.identify(1)) == 4096
    assert made.identify(2)[:4] == b"\1\0\0\0"
    assert made.reborn().identify(0, 1) == made.identify(0, 1)


def test_an_honest_preset_has_no_erase_fault() -> None:
    for chosen in PRESETS.values():
        faults = chosen.faults
        allowed = Faults(
            media_errors=faults.media_errors,
            cached_reads=faults.cached_reads,
            pulled_at=faults.pulled_at,
            pulled_seconds=faults.pulled_seconds,
        )
        if chosen.honest:
            # One has a habit that a careful eraser gets around.
            assert faults == allowed or chosen.name == "skips-detached", chosen.name
            assert faults.pulled_at is None or faults.pulled_seconds is not None
        else:
            # The one lie that is not a fault but a habit.
            assert faults != HEALTHY or chosen.name == "dlfeat-lies", chosen.name


def test_there_are_enough_drives_of_each_kind() -> None:
    kinds = [chosen.expected for chosen in PRESETS.values()]
    assert len(kinds) >= 30
    assert kinds.count(Expected.ERASED) * 3 >= len(kinds)


@pytest.mark.parametrize("name", [one.name for one in PRESETS.values() if one.left.names])
def test_what_a_tenant_left_is_done_to_a_new_drive_alone(tmp_path: Path, name: str) -> None:
    chosen, backing = preset(name), tmp_path / "drive.raw"
    profile = replace(chosen.profile, size=SIZE)

    def served(left: Leftovers) -> DriveState:
        with DriveServer(profile, backing, [], left=left) as server:
            return copy.deepcopy(server.drive.state)

    new = served(chosen.left)
    assert new != factory_state(profile)
    again = served(Leftovers(features={1: 99}))
    assert "01/0/0" not in again.features


def test_an_unknown_preset_is_named_with_those_there_are() -> None:
    with pytest.raises(DriveError, match=r"no drive preset 'nope'; there are: honest,"):
        preset("nope")


@pytest.mark.parametrize("content", ["", "[]", '{"size": "big"}', '{"bogus": 1}'])
def test_a_foreign_state_file_is_refused(tmp_path: Path, content: str) -> None:
    state_path(tmp_path / "drive.raw").write_text(content)
    with pytest.raises(DriveError):
        Bench(tmp_path, PROFILE)


def test_a_backing_file_of_another_size_is_refused(tmp_path: Path) -> None:
    (tmp_path / "drive.raw").write_bytes(bytes(4096))
    with pytest.raises(DriveError, match="should be 8388608 bytes, is 4096"):
        Bench(tmp_path, PROFILE)


def test_the_state_file_is_json_that_others_can_read(made: Bench) -> None:
    made.drive.save()
    assert json.loads(state_path(made.backing).read_text())["namespaces"][0]["nsid"] == 1


def test_the_effects_log_agrees_with_what_is_supported(made: Bench) -> None:
    raw = made.log(5, 4096)
    supported = {n for n in range(256) if raw[4 * n] & 1}
    refused = {n for n in supported if made.admin(n).status & 0x7FF == 0x01}
    assert supported >= {0x80, 0x84, 0x06}
    # Queues and events are the function's business, not the model's.
    own = {AdminOp.CREATE_SQ, AdminOp.DELETE_SQ, AdminOp.CREATE_CQ, AdminOp.DELETE_CQ}
    assert refused == own | {AdminOp.ASYNC_EVENT}


def test_a_drive_that_nobody_closes_keeps_no_descriptor(tmp_path: Path) -> None:
    """A run makes thousands of them."""

    def held() -> list[str]:
        gc.collect()
        links = (Path("/proc/self/fd", name) for name in os.listdir("/proc/self/fd"))
        return [to for link in links if (to := _target(link)).startswith(str(tmp_path))]

    made = Bench(tmp_path, PROFILE)
    assert len(held()) > 1
    del made
    assert held() == []


def _target(link: Path) -> str:
    try:
        return os.readlink(link)
    except OSError:  # the listing's own
        return ""
