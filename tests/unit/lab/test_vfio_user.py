"""The drive as QEMU sees it: messages, registers, queues, DMA."""

from __future__ import annotations

import os
import socket
import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.nvme.commandlog import log_path, read_commands, read_events
from tests.lab.nvme.faults import Faults
from tests.lab.nvme.formatting import Answer
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.server import DriveServer
from tests.lab.nvme.spec import OK, Command
from tests.unit.lab.guest import DATA, ENTRIES, RAM_AT, TinyGuest

SIZE = 16 << 20


@pytest.fixture
def server(tmp_path: Path) -> Iterator[DriveServer]:
    profile = DriveProfile(serial="WIRE01", size=SIZE)
    sockets = [tmp_path / "a.sock", tmp_path / "b.sock"]
    with DriveServer(profile, tmp_path / "d.raw", sockets) as running:
        yield running


@pytest.fixture
def guest(server: DriveServer, tmp_path: Path) -> Iterator[TinyGuest]:
    with TinyGuest(tmp_path / "a.sock") as connected:
        connected.enable()
        yield connected


def test_regions_and_interrupts_are_those_of_a_pci_function(guest: TinyGuest) -> None:
    assert struct.unpack("<IIII", guest.request(4, struct.pack("<IIII", 16, 0, 0, 0)))[1] == 3
    info = guest.request(5, struct.pack("<IIIIQQ", 32, 0, 0, 0, 0, 0))
    assert struct.unpack("<IIIIQQ", info)[4] == 0x4000
    _, flags, index, count = struct.unpack(
        "<IIII", guest.request(7, struct.pack("<IIII", 16, 0, 2, 0))
    )
    assert (flags & 1, index) == (1, 2)
    assert count >= 2


def test_an_unknown_message_is_refused_and_the_connection_lives(guest: TinyGuest) -> None:
    with pytest.raises(OSError, match="not supported"):
        guest.request(14, b"\0" * 16)
    assert guest.register(0x08) == 0x10400


def test_config_space_names_an_nvme_controller_with_flr(guest: TinyGuest) -> None:
    config = guest.read_region(7, 0, 256)
    assert struct.unpack_from("<HH", config) == (0x144D, 0xA824)
    assert config[9:12] == b"\x02\x08\x01"
    found, at = {}, config[0x34]
    while at:
        found[config[at]] = at
        at = config[at + 1]
    assert set(found) == {0x11, 0x10}
    assert struct.unpack_from("<I", config, found[0x10] + 4)[0] & 1 << 28


def test_bar_sizing_answers_the_size(guest: TinyGuest) -> None:
    guest.write_region(7, 0x10, b"\xff" * 4)
    assert guest.read_region(7, 0x10, 4) == struct.pack("<I", 0xFFFFC004)


def test_flr_resets_the_controller(guest: TinyGuest) -> None:
    config = guest.read_region(7, 0, 256)
    express = config[0x34]
    while config[express] != 0x10:
        express = config[express + 1]
    guest.write_region(7, express + 8, struct.pack("<H", 1 << 15))
    assert guest.register(0x1C) & 1 == 0
    assert guest.register(0x14) == 0
    guest.enable()
    assert guest.admin(6, cdw10=1).code == 0


def test_identify_through_real_queues(guest: TinyGuest) -> None:
    done = guest.admin(6, cdw10=1)
    assert (done.code, done.sq_id) == (0, 0)
    assert guest.data(24)[4:24] == b"WIRE01".ljust(20)


def test_the_admin_ring_wraps_many_times(guest: TinyGuest) -> None:
    for _ in range(3 * ENTRIES):
        assert guest.admin(0x18).code == 0


def test_write_and_read_through_a_prp_list(guest: TinyGuest, tmp_path: Path) -> None:
    guest.create_io_queues()
    content = os.urandom(10 * 4096)
    first = DATA + 512  # a transfer that begins inside a page needs one page more
    scattered = [DATA + 0x40000 + 0x3000 * n for n in range(10)]
    guest.put(content[:3584], first)
    for index, at in enumerate(scattered):
        guest.put(content[3584 + 4096 * index : 3584 + 4096 * (index + 1)], at)
    list_at = guest.prp_list([RAM_AT + at for at in scattered])
    done = guest.io(1, nsid=1, prp1=RAM_AT + first, prp2=list_at, cdw10=8, cdw12=79)
    assert done.code == 0
    assert (tmp_path / "d.raw").read_bytes()[4096 : 4096 + len(content)] == content

    whole = DATA + 0x200000
    list_at = guest.prp_list([RAM_AT + whole + 4096 * n for n in range(1, 10)])
    done = guest.io(2, nsid=1, prp1=RAM_AT + whole, prp2=list_at, cdw10=8, cdw12=79)
    assert done.code == 0
    assert guest.data(len(content), whole) == content


def test_a_doorbell_for_several_commands_completes_them_all(guest: TinyGuest) -> None:
    guest.create_io_queues()
    for index in range(ENTRIES - 1):
        guest.submit(1, 2, False, nsid=1, cdw10=8 * index, cdw12=7)
    guest.ring(1)
    assert sorted(guest.wait(1).cid for _ in range(ENTRIES - 1)) == list(range(ENTRIES - 1))


def test_answers_wait_while_the_completion_queue_is_full(guest: TinyGuest) -> None:
    guest.create_io_queues(completions=4)
    for index in range(20):
        guest.submit(1, 2, False, nsid=1, cid=index, cdw12=0)
    guest.ring(1)
    assert [guest.wait(1).cid for _ in range(20)] == list(range(20))
    assert guest.poll(1) is None


@pytest.mark.parametrize(
    ("prp1", "prp2", "blocks"),
    [
        (0x10_0000_0000, 0, 8),
        (RAM_AT + DATA, 0x10_0000_0000, 16),
        (RAM_AT + DATA, 0x10_0000_0000, 64),
        (RAM_AT + DATA, RAM_AT + DATA + 0x100000, 64),  # a list full of address 0
        (0xFFFF_FFFF_FFFF_F000, 0, 8),
    ],
)
@pytest.mark.parametrize("opcode", [1, 2])
def test_bad_prps_give_data_transfer_error(
    guest: TinyGuest, opcode: int, prp1: int, prp2: int, blocks: int
) -> None:
    guest.create_io_queues()
    done = guest.io(opcode, nsid=1, prp1=prp1, prp2=prp2, cdw12=blocks - 1)
    assert done.code == 0x04
    assert guest.io(2, nsid=1, cdw12=0).code == 0


def test_a_prp_list_that_loops_ends(guest: TinyGuest) -> None:
    guest.create_io_queues()
    at = RAM_AT + 0x8FF8  # the last entry of its page points to itself
    guest.put(struct.pack("<Q", at), 0x8FF8)
    assert guest.io(2, nsid=1, prp2=at, cdw12=63).code == 0x04


def test_unmapped_memory_is_out_of_reach(guest: TinyGuest) -> None:
    guest.create_io_queues()
    guest.unmap_memory()
    guest.submit(1, 2, nsid=1, cdw12=0)
    assert guest.register(0x1C) & 2, "a queue that vanished is a fatal status"
    assert guest.poll(1) is None


def test_removal_reads_all_ones_and_return_needs_a_reset(
    guest: TinyGuest, server: DriveServer
) -> None:
    server.drive.set_faults(Faults(gone=True))
    assert guest.register(0x1C) == 0xFFFFFFFF
    assert guest.read_region(7, 0, 4) == b"\xff" * 4
    server.drive.set_faults(Faults())
    guest.disable()
    guest.enable()
    assert guest.admin(6, cdw10=1).code == 0


def test_two_functions_are_one_drive(guest: TinyGuest, server: DriveServer, tmp_path: Path) -> None:
    guest.create_io_queues()
    guest.put(b"from the first guest".ljust(4096, b"."))
    assert guest.io(1, nsid=1, cdw12=7).code == 0
    with TinyGuest(tmp_path / "b.sock") as tenant:
        tenant.enable()
        tenant.create_io_queues()
        assert tenant.io(2, nsid=1, cdw12=7).code == 0
        assert tenant.data(20) == b"from the first guest"
    assert guest.admin(6, cdw10=1).code == 0, "the first guest does not notice the other"
    vias = {record.via for record in read_commands(log_path(tmp_path / "d.raw"))}
    assert vias == {"a.sock", "b.sock"}


def test_a_client_that_vanishes_leaves_a_reset_function(
    server: DriveServer, tmp_path: Path
) -> None:
    for _ in range(3):
        with TinyGuest(tmp_path / "a.sock") as guest:
            assert guest.register(0x14) == 0
            guest.enable()
            assert guest.admin(6, cdw10=1).code == 0


def test_a_hung_command_is_never_answered_but_a_reset_helps(
    guest: TinyGuest, server: DriveServer, tmp_path: Path
) -> None:
    server.drive.set_faults(Faults(admin_hang=[0x84]))
    guest.submit(0, 0x84, cdw10=4, cid=77)
    assert guest.admin(6, cdw10=1).cid != 77
    guest.disable()
    guest.enable()
    assert guest.admin(6, cdw10=1).code == 0
    (hung,) = [c for c in read_commands(log_path(tmp_path / "d.raw")) if c.opcode == 0x84]
    assert hung.status is None


def test_the_end_of_a_sanitize_raises_one_event(guest: TinyGuest, server: DriveServer) -> None:
    server.drive.set_faults(Faults(sanitize_seconds=0.05))
    guest.submit(0, 0x0C, cid=900)
    guest.submit(0, 0x0C, cid=901)
    assert guest.admin(0x84, cdw10=2).code == 0
    event = guest.wait(0)
    assert (event.cid, event.dw0) == (900, 0x810106)


def test_the_event_comes_again_only_after_the_log_was_read(
    guest: TinyGuest, server: DriveServer
) -> None:
    server.drive.set_faults(Faults(sanitize_seconds=0.05))
    for cid in (900, 901):
        guest.submit(0, 0x0C, cid=cid)
    assert guest.admin(0x84, cdw10=2, cid=5).cid == 5
    assert guest.wait(0).cid == 900
    assert guest.admin(0x84, cdw10=2, cid=6).cid == 6
    while server.drive.state.sanitize.running:
        time.sleep(0.005)
    assert guest.admin(2, cdw10=0x81 | 127 << 16, cid=7).cid == 7
    assert guest.admin(0x84, cdw10=2, cid=8).cid == 8
    assert guest.wait(0).cid == 901


def test_a_format_dies_with_its_own_function_only(
    guest: TinyGuest, server: DriveServer, tmp_path: Path
) -> None:
    server.drive.set_faults(Faults(format_seconds=600))
    guest.submit(0, 0x80, nsid=1, cdw10=1 << 9, cid=50)
    assert guest.admin(0x18).code == 0
    with TinyGuest(tmp_path / "b.sock") as other:
        other.enable()
        other.disable()
        assert other.register(0x14) == 0
    assert server.drive.formatter.busy
    guest.disable()
    assert guest.register(0x14) == 0
    assert not server.drive.formatter.busy


def test_an_answer_of_an_earlier_life_is_not_posted(guest: TinyGuest, server: DriveServer) -> None:
    answers = []
    original = server.drive.formatter.command

    def capture(command: Command, owner: object, answer: Answer) -> None:
        answers.append(answer)

    server.drive.formatter.command = capture  # type: ignore[method-assign]
    guest.submit(0, 0x80, nsid=1, cdw10=1 << 9, cid=50)
    assert guest.admin(0x18).code == 0
    guest.disable()
    guest.enable()
    server.drive.formatter.command = original  # type: ignore[method-assign]
    with server.drive.lock:
        answers[0](OK)
    assert guest.admin(0x18, cid=3).cid == 3


def test_connections_leak_no_descriptor(server: DriveServer, tmp_path: Path) -> None:
    def connect() -> None:
        with TinyGuest(tmp_path / "a.sock") as guest:
            guest.enable()

    before = _descriptors()
    for _ in range(5):
        connect()
    # The server notices a little later that its client left.
    deadline = time.monotonic() + 30
    while _descriptors() > before and time.monotonic() < deadline:
        time.sleep(0.01)
    assert _descriptors() <= before


def _descriptors() -> int:
    """Open descriptors of this process, in which the server runs as well."""
    return len(os.listdir("/proc/self/fd"))


def test_a_normal_shutdown_is_not_unsafe(guest: TinyGuest, tmp_path: Path) -> None:
    guest.write_region(0, 0x14, struct.pack("<I", 4 << 20 | 6 << 16 | 1 << 14 | 1))
    assert guest.register(0x1C) >> 2 & 3 == 2
    events = [event.event for event in read_events(log_path(tmp_path / "d.raw"))]
    assert events[-1] == "shutdown"


@pytest.mark.parametrize(
    "garbage", [b"\0" * 16, b"\xff" * 64, struct.pack("<HHIII", 1, 2, 17, 0, 0)]
)
def test_a_client_that_talks_nonsense_harms_nobody(
    server: DriveServer, tmp_path: Path, garbage: bytes
) -> None:
    with socket.socket(socket.AF_UNIX) as rude:
        rude.connect(str(tmp_path / "a.sock"))
        rude.sendall(garbage)
    with TinyGuest(tmp_path / "a.sock") as guest:
        guest.enable()
        assert guest.admin(6, cdw10=1).code == 0
