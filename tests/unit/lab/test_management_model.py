"""Namespaces, reservations, locks, firmware slots and boot partitions of the drive model.

Offsets and numbers are those of libnvme's ``types.h``, written again.
"""

from __future__ import annotations

import struct
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme import leftovers
from tests.lab.nvme.faults import Faults
from tests.lab.nvme.leftovers import Leftovers
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile, SecurityProfile
from tests.lab.nvme.state import FirmwareState, SecurityState
from tests.unit.lab.model import SIZE, Bench, Memory

FULL = DriveProfile(
    size=SIZE,
    namespace_management=True,
    reservations=True,
    security=SecurityProfile(),
    boot_partition_units=1,
    lockdown=True,
)
MANAGE, ATTACH, LOCKDOWN, SEND, RECEIVE = 0x0D, 0x15, 0x24, 0x81, 0x82
REGISTER, REPORT, ACQUIRE, RELEASE = 0x0D, 0x0E, 0x11, 0x15
INVALID_FIELD, INVALID_NS, CONFLICT, DENIED = 0x02, 0x0B, 0x83, 0x286


@pytest.fixture
def made(tmp_path: Path) -> Bench:
    return Bench(tmp_path, FULL)


def status(reply_status: int) -> int:
    """Without Do Not Retry."""
    return reply_status & 0x7FF


def create(
    made: Bench, blocks: int, flbas: int = 0, capacity: int | None = None
) -> tuple[int, int]:
    """Status and DW0 of a Namespace Management create."""
    data = bytearray(4096)
    struct.pack_into("<QQ", data, 0, blocks, blocks if capacity is None else capacity)
    data[26] = flbas
    reply = made.admin(MANAGE, bytes(data))
    return status(reply.status), reply.dw0


def attach(made: Bench, nsid: int, select: int = 0, cntlid: int = 1) -> int:
    """Status of an attachment (0) or a detachment (1)."""
    data = struct.pack("<HH", 1, cntlid).ljust(4096, b"\0")
    return status(made.admin(ATTACH, data, nsid=nsid, cdw10=select).status)


def ids(raw: bytes) -> list[int]:
    """A list of namespaces."""
    return [nsid for (nsid,) in struct.iter_unpack("<I", raw) if nsid]


def test_capabilities_are_announced(made: Bench) -> None:
    raw = made.identify(1)
    assert struct.unpack_from("<H", raw, 256)[0] == 1 << 0 | 1 << 1 | 1 << 3 | 1 << 10
    assert struct.unpack_from("<H", raw, 520)[0] & 1 << 5
    assert struct.unpack_from("<I", raw, 516)[0] == 16
    assert made.identify(0, 1)[31] == 0x7F
    plain = DriveProfile(size=SIZE)
    (made.backing.parent / "plain").mkdir()
    bare = Bench(made.backing.parent / "plain", plain)
    assert struct.unpack_from("<H", bare.identify(1), 256)[0] == 1 << 1
    assert status(bare.admin(6, cdw10=0x10).status) == INVALID_FIELD
    assert status(bare.io(REPORT, nsid=1).status) == 0x01
    for lid in (0x14, 0x15):
        assert status(bare.admin(2, cdw10=lid).status) == 0x109


def test_a_namespace_is_deleted_and_made_again(made: Bench) -> None:
    old = made.identify(0, 1)
    assert status(made.admin(MANAGE, nsid=1, cdw10=1).status) == 0
    assert ids(made.identify(2)) == ids(made.identify(0x10)) == []
    unallocated = struct.unpack_from("<Q", made.identify(1), 296)[0]
    assert unallocated == SIZE
    assert create(made, SIZE // 4096, flbas=1) == (0, 1)
    assert ids(made.identify(0x10)) == [1]
    assert ids(made.identify(2)) == []
    assert made.identify(0, 1) == bytes(4096)
    assert struct.unpack_from("<Q", made.identify(0x11, 1))[0] == SIZE // 4096
    assert made.read_status(nsid=1) == INVALID_NS
    assert made.identify(0x12, 1)[:2] == b"\0\0"
    assert attach(made, 1) == 0
    assert made.identify(0x12, 1)[:4] == b"\x01\x00\x01\x00"
    assert attach(made, 1) == 0x118
    new = made.identify(0, 1)
    assert new[26] == 1
    assert new[104:128] != old[104:128], "a new namespace has ids of its own"
    assert attach(made, 1, select=1) == 0
    assert attach(made, 1, select=1) == 0x11A


def test_deleting_keeps_the_data_and_creating_forgets_it(made: Bench) -> None:
    made.write(0, b"x" * 4096)
    made.admin(MANAGE, nsid=0xFFFFFFFF, cdw10=1)
    assert made.stored()[:4096] == b"x" * 4096
    create(made, SIZE // 512)
    attach(made, 1)
    assert made.read(0, 4096) == bytes(4096)
    assert made.stored()[:4096] == bytes(4096)


def test_a_dirty_drive_gives_a_new_namespace_old_data(made: Bench) -> None:
    made.write(0, b"x" * 4096)
    made.drive.set_faults(Faults(creates_dirty=True))
    made.admin(MANAGE, nsid=1, cdw10=1)
    create(made, SIZE // 512)
    attach(made, 1)
    assert made.read(0, 4096) == b"x" * 4096


def test_what_cannot_be_made_is_refused(made: Bench) -> None:
    code, room = create(made, 8)
    assert (code, room) == (0x115, 0)
    made.admin(MANAGE, nsid=1, cdw10=1)
    assert create(made, SIZE // 512 + 8) == (0x115, SIZE)
    assert create(made, 16, capacity=8)[0] == 0x11B
    assert create(made, 16, flbas=7)[0] == 0x10A
    assert create(made, 0)[0] == INVALID_FIELD
    for wanted in range(1, 17):
        assert create(made, 8) == (0, wanted)
    assert create(made, 8)[0] == 0x116
    assert attach(made, 1, cntlid=9) == 0x11C
    assert status(made.admin(MANAGE, nsid=99, cdw10=1).status) == INVALID_NS


def test_a_second_controller_is_named(tmp_path: Path) -> None:
    made = Bench(tmp_path, replace(FULL, other_controllers=(2,)))
    assert made.identify(1)[76] & 2
    assert made.identify(0x13)[:6] == b"\x02\x00\x01\x00\x02\x00"
    reply = made.admin(6, cdw10=0x13 | 2 << 16)
    assert reply.data is not None
    assert reply.data[:4] == b"\x01\x00\x02\x00"
    assert attach(made, 1, select=1, cntlid=2) == 0
    assert ids(made.identify(2)) == [1]
    assert attach(made, 1, select=1, cntlid=3) == 0x11C


def test_a_broadcast_format_does_not_reach_a_detached_namespace(tmp_path: Path) -> None:
    parts = (NamespaceProfile(1, 0.5), NamespaceProfile(2, 0.5))
    made = Bench(tmp_path, replace(FULL, namespaces=parts))
    for nsid in (1, 2):
        made.write(0, b"x" * 4096, nsid=nsid)
    attach(made, 2, select=1)
    assert made.format(1 << 9, nsid=0xFFFFFFFF) == 0
    assert made.stored()[:4096] == bytes(4096)
    assert made.stored()[SIZE // 2 :][:4096] == b"x" * 4096
    assert made.sanitize(2) == 0
    assert made.wait_sanitize().outcome == 1
    assert b"x" not in made.stored()


def test_firmware_slots(made: Bench) -> None:
    assert made.log(3)[0] == 1
    left = Leftovers(firmware=FirmwareState(["GDC5602Q", "EVIL0001", ""], 1, 2))
    leftovers.apply(made.drive, left)
    log = made.log(3)
    assert log[0] == 1 | 2 << 4
    assert (log[8:16], log[16:24], log[24:32]) == (b"GDC5602Q", b"EVIL0001", bytes(8))
    assert made.identify(1)[64:72] == b"GDC5602Q"
    made.drive.power_cycle()
    assert made.identify(1)[64:72] == b"EVIL0001"
    assert made.log(3)[0] == 2


def test_firmware_that_waits_for_a_reset_of_the_subsystem_keeps_the_drive_from_sanitize(
    made: Bench,
) -> None:
    left = Leftovers(firmware=FirmwareState(["GDC5602Q", "EVIL0001", ""], 1, 2))
    leftovers.apply(made.drive, left)
    assert [made.sanitize(action) for action in (1, 2, 4)] == [0x110] * 3
    assert made.format(1 << 9) == 0, "Format asks for no activation"
    made.controller.reset()
    assert made.sanitize(2) == 0x110, "a reset of the controller is not enough"
    made.drive.subsystem_reset()
    assert made.log(3)[0] == 2
    assert made.sanitize(2) == 0
    assert made.wait_sanitize().outcome == 1


def test_firmware_that_a_reset_of_the_controller_activates_waits_no_longer_than_that(
    made: Bench,
) -> None:
    state = FirmwareState(["GDC5602Q", "GDC5603Q", ""], 1, 2, by_controller=True)
    leftovers.apply(made.drive, Leftovers(firmware=state))
    assert made.sanitize(2) == 0x111
    made.controller.reset()
    assert made.log(3)[0] == 2
    assert made.identify(1)[64:72] == b"GDC5603Q"
    assert made.reborn().log(3)[0] == 2
    assert made.sanitize(2) == 0


def test_protection_until_a_power_cycle_and_for_ever(made: Bench) -> None:
    def protect(state: int) -> int:
        return status(made.admin(9, nsid=1, cdw10=0x84, cdw11=state).status)

    assert protect(2) == 0
    assert made.identify(0, 1)[99] == 1
    assert protect(0) == 0x10E
    assert made.write(0, bytes(512)) & 0x7FF == 0x20
    assert made.reborn().admin(0x0A, nsid=1, cdw10=0x84).dw0 == 0
    again = made.reborn()
    assert status(again.admin(9, nsid=1, cdw10=0x84, cdw11=3).status) == 0
    assert again.reborn().admin(0x0A, nsid=1, cdw10=0x84).dw0 == 3
    assert status(again.admin(MANAGE, nsid=1, cdw10=1).status) == 0x20


# Reservations


def host(made: Bench, name: bytes) -> None:
    """Become this host."""
    assert made.admin(9, name.ljust(16, b"\0"), cdw10=0x81, cdw11=1).status == 0


def register(made: Bench, key: int, new: int, action: int = 0, persist: int = 0) -> int:
    return status(
        made.io(
            REGISTER, Memory(struct.pack("<QQ", key, new)), nsid=1, cdw10=action | persist << 30
        ).status
    )


def acquire(made: Bench, key: int, kind: int, other: int = 0, action: int = 0) -> int:
    data = Memory(struct.pack("<QQ", key, other))
    return status(made.io(ACQUIRE, data, nsid=1, cdw10=action | kind << 8).status)


def report(made: Bench) -> bytes:
    memory = Memory()
    assert made.io(REPORT, memory, nsid=1, cdw10=1023, cdw11=1).status == 0
    return bytes(memory.content)


def test_a_reservation_is_held_reported_and_cleared(made: Bench) -> None:
    host(made, b"tenant")
    assert acquire(made, 7, 1) == CONFLICT, "not registered"
    assert register(made, 0, 7, persist=3) == 0
    assert acquire(made, 8, 1) == CONFLICT, "another key"
    assert acquire(made, 7, 1) == 0
    assert made.write(0, bytes(512)) == 0
    made.controller.reset()  # a new host, without an identifier
    assert made.write(0, bytes(512)) & 0x7FF == CONFLICT
    assert made.read_status() == 0
    assert made.format(0) == made.sanitize(2) == CONFLICT
    raw = report(made)
    assert struct.unpack_from("<IBH", raw) == (1, 1, 1)
    assert raw[9] == 1
    assert struct.unpack_from("<HB5xQ", raw, 64) == (1, 1, 7)
    assert raw[80:96] == b"tenant".ljust(16, b"\0")
    assert status(made.io(REPORT, nsid=1, cdw10=15).status) == 0x18
    made.drive.power_cycle()
    assert report(made)[4] == 1, "it persists through a power loss"
    assert register(made, 0, 9) == 0
    assert status(made.io(RELEASE, Memory(struct.pack("<Q", 9)), nsid=1, cdw10=1).status) == 0
    assert report(made)[4:7] == bytes(3)
    assert made.write(0, bytes(512)) == 0


def test_a_reservation_without_persistence_ends_with_the_power(made: Bench) -> None:
    host(made, b"tenant")
    register(made, 0, 7)
    acquire(made, 7, 2)
    made.controller.reset()
    assert made.read_status() == CONFLICT
    made.drive.power_cycle()
    assert made.read_status() == 0


def test_a_holder_is_preempted(made: Bench) -> None:
    leftovers.apply(made.drive, Leftovers(reservation=2))
    assert made.read_status() == CONFLICT
    key = struct.unpack_from("<Q", report(made), 72)[0]
    assert register(made, 0, 9) == 0
    assert acquire(made, 9, 1, other=key, action=1) == 0
    assert made.read_status() == 0
    assert struct.unpack_from("<H", report(made), 5)[0] == 1


# Locks


def level0(made: Bench) -> dict[int, bytes]:
    """Feature descriptors of Level 0 discovery by code."""
    raw = made.admin(RECEIVE, cdw10=0x01 << 24 | 0x0001 << 8, cdw11=2048).data
    assert raw is not None
    end = struct.unpack_from(">I", raw)[0] + 4
    found, at = {}, 48
    while at < end:
        code, _version, length = struct.unpack_from(">HBB", raw, at)
        found[code] = raw[at + 4 : at + 4 + length]
        at += 4 + length
    assert at == end
    return found


def test_level_0_discovery_shows_the_locks(made: Bench) -> None:
    found = level0(made)
    assert found[0x0002][0] == 0b1001
    assert struct.unpack_from(">HH", found[0x0203]) == (0x07FE, 1)
    assert found[0x0402][0] == 0
    leftovers.apply(
        made.drive,
        Leftovers(security=SecurityState(owned=True, enabled=True, locked=True, shadowed=True)),
    )
    assert level0(made)[0x0002][0] == 0b11111
    assert level0(made)[0x0402][0] == 1
    assert made.read_status() == made.format(0) == made.sanitize(2) == DENIED
    supported = made.admin(RECEIVE, cdw10=0, cdw11=512).data
    assert supported is not None
    assert supported[6:10] == b"\0\x02\x00\x01"
    assert status(made.admin(RECEIVE, cdw10=0xEE << 24, cdw11=512).status) == INVALID_FIELD
    answer = made.admin(RECEIVE, cdw10=1 << 24 | 0x07FE << 8, cdw11=512).data
    assert answer is not None
    assert answer[16:20] == bytes(4), "no session can be opened here"
    assert made.admin(SEND, bytes(512), cdw10=1 << 24 | 0x07FE << 8, cdw11=512).status == 0


def test_pyrite_encrypts_nothing(tmp_path: Path) -> None:
    made = Bench(tmp_path, replace(FULL, security=SecurityProfile(ssc=0x0303)))
    found = level0(made)
    assert found[0x0002][0] == 1
    assert 0x0303 in found
    assert 0x0203 not in found


def test_lockdown_prohibits_until_power_goes(made: Bench) -> None:
    assert made.log(0x14)[:4] == bytes([0, 0, 0, 5])
    assert made.admin(LOCKDOWN, cdw10=0x84 << 8 | 1 << 4).status == 0
    assert made.sanitize(2) == 0x23
    reply = made.admin(2, cdw10=0x14 | 0x10 << 8 | 127 << 16)
    assert reply.data is not None
    assert reply.data[:5] == bytes([0x10, 0, 0, 1, 0x84])
    assert status(made.admin(LOCKDOWN, cdw10=0x06 << 8 | 1 << 4).status) == 0x128
    made.drive.power_cycle()
    assert made.sanitize(2) == 0


def test_lockdown_prohibits_a_feature_and_no_other_until_power_goes(made: Bench) -> None:
    """Scope 2: Set Features for it is refused, Get Features is not (Base 5.19)."""
    cache, identifier = 0x06, 0x81
    assert made.admin(LOCKDOWN, cdw10=cache << 8 | 1 << 4 | 2).status == 0
    reply = made.admin(2, cdw10=0x14 | 0x12 << 8 | 127 << 16)
    assert reply.data is not None
    assert reply.data[:5] == bytes([0x12, 0, 0, 1, cache])
    assert made.log(0x14)[3] == 5, "the other scope"
    assert status(made.admin(0x09, cdw10=cache, cdw11=0).status) == 0x23
    assert made.admin(0x0A, cdw10=cache).dw0 == 1
    assert status(made.admin(0x09, bytes(16), cdw10=identifier, cdw11=1).status) != 0x23
    assert status(made.admin(LOCKDOWN, cdw10=0x02 << 8 | 1 << 4 | 2).status) == 0x128
    made.drive.power_cycle()
    assert made.admin(0x09, cdw10=cache, cdw11=0).status == 0


def test_boot_partitions(made: Bench) -> None:
    log = made.log(0x15, 64 << 10)
    assert log[0] == 0x15
    assert struct.unpack_from("<I", log, 4)[0] == 1
    other = made.admin(2, cdw10=0x15 | 1 << 8 | 255 << 16).data
    assert other is not None
    assert other[16:] != log[16:1024]
    leftovers.apply(made.drive, Leftovers(boot=["evil", "vendor image 1"]))
    assert made.log(0x15, 64 << 10)[16:] != log[16:]


# Features


def test_saved_features_are_restored_by_a_value(made: Bench) -> None:
    def value(select: int) -> int:
        return made.admin(0x0A, cdw10=0x02 | select << 8).dw0

    leftovers.apply(made.drive, Leftovers(features={2: 3}))
    made.controller.reset()
    assert (value(0), value(1), value(2)) == (3, 0, 3)
    assert made.admin(9, cdw10=0x02 | 1 << 31, cdw11=0).status == 0
    made.controller.reset()
    assert (value(0), value(2)) == (0, 0)


def test_a_deleted_namespaces_features_go_with_it(made: Bench) -> None:
    assert made.admin(9, nsid=1, cdw10=0x05 | 1 << 31, cdw11=9).status == 0
    made.admin(MANAGE, nsid=1, cdw10=1)
    create(made, 16)
    attach(made, 1)
    assert made.admin(0x0A, nsid=1, cdw10=0x05 | 2 << 8).dw0 == 0


def test_host_metadata_takes_elements_by_their_actions(made: Bench) -> None:
    """Base 2.0, 5.27.1.23: EA is dword 11 bits 14:13; 00b is not for 7Dh, 10b for it alone."""

    def put(fid: int, action: int, *elements: tuple[int, bytes], nsid: int = 0, sv: int = 0) -> int:
        body = b"".join(struct.pack("<BBH", k, 0, len(v)) + v for k, v in elements)
        raw = (bytes([len(elements), 0]) + body).ljust(4096, b"\0")
        words = {"nsid": nsid, "cdw10": fid | sv << 31, "cdw11": action << 13}
        return status(made.admin(0x09, raw, **words).status)

    def get(fid: int, nsid: int = 0, select: int = 0) -> bytes:
        return (made.admin(0x0A, nsid=nsid, cdw10=fid | select << 8).data or b"").rstrip(b"\0")

    assert put(0x7D, 0, (1, b"a")) == put(0x7E, 2, (1, b"a")) == INVALID_FIELD
    assert put(0x7E, 1, (1, b"a")) == put(0x7E, 0, (1, b"a"), (1, b"b")) == INVALID_FIELD
    assert put(0x7E, 0, (1, b"a"), sv=1) == 0x10D
    assert [put(0x7D, 2, (1, b"a")), put(0x7D, 2, (1, b"b"))] == [0, 0]
    assert get(0x7D) == b"\x02\0\1\0\1\0a\1\0\1\0b"
    assert [put(0x7F, 0, (3, b"x"), nsid=1), put(0x7F, 0, (3, b"yz"), nsid=1)] == [0, 0]
    assert get(0x7F, 1) == b"\x01\0\3\0\2\0yz"
    assert get(0x7F, 1, select=2) == b"", "of what is not saveable the default"
    made.controller.reset()
    assert get(0x7F, 1) == b"\x01\0\3\0\2\0yz", "kept all the same"
    assert put(0x7D, 1, (1, b"")) == put(0x7D, 1, (9, b"")) == 0
    assert get(0x7D) == b""


def test_host_metadata_of_a_drive_that_goes_by_the_book(tmp_path: Path) -> None:
    made = Bench(tmp_path, replace(FULL, keeps_metadata=False))
    raw = b"\x01\0\1\0\1\0a".ljust(4096, b"\0")
    assert made.admin(0x09, raw, cdw10=0x7E).status == 0
    assert made.admin(0x0A, cdw10=0x7E).data == raw
    made.controller.reset()
    assert made.admin(0x0A, cdw10=0x7E).data == bytes(4096)
