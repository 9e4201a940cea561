"""Reading commands by a child: what comes back, and what a drive that is mute can hold up."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eraser.controller import adminqueue, probe_process
from eraser.controller.adminqueue import AdminQueue
from eraser.controller.lock import SlotLock
from eraser.controller.passthru import (
    FORMAT_NVM,
    GET_FEATURES,
    GET_LOG_PAGE,
    IDENTIFY,
    SANITIZE,
    SECURITY_RECEIVE,
    SET_FEATURES,
    CommandError,
    result_of,
)
from eraser.controller.probe_process import Asker, ReadCommand
from eraser.errors import BusyError, DriveError
from eraser.host import answerer
from eraser.host.sysfs import Host
from tests.unit.host.fakehost import ADDRESS

Submit = Callable[..., tuple[int, int, bytes]]
LOG = ReadCommand(GET_LOG_PAGE, 0xFFFF_FFFF, 0x007F_8002, 1, 2, 512, 5.0)


@pytest.fixture
def descriptor() -> Iterator[int]:
    """Stands in for /dev/nvmeN's, which no call of these tests reaches."""
    found = os.open(os.devnull, os.O_RDONLY)
    yield found
    os.close(found)


@pytest.fixture
def kernel(monkeypatch: pytest.MonkeyPatch) -> Callable[[Submit], None]:
    """Puts a function in the place of the ioctl, for every child forked from then on."""
    return lambda submit: monkeypatch.setattr(probe_process, "submit", submit)


def told(
    _host: Host, _fd: int, opcode: int, length: int, **words: object
) -> tuple[int, int, bytes]:
    """Answers with what was asked."""
    if opcode == IDENTIFY:
        raise OSError(errno.ENODEV, "no")
    if opcode == GET_FEATURES:
        return 0x10B, 0, bytes(length)
    return 0, 0xFFFF_FFFF, repr((opcode, sorted(words.items()))).encode()[:length]


@pytest.fixture
def queue(descriptor: int, kernel: Callable[[Submit], None]) -> Iterator[AdminQueue]:
    kernel(told)
    made = AdminQueue(Host(nvme="/no/nvme-cli"), ADDRESS, "/dev/nvme5", timeout=5.0)
    made.asker = Asker(Host(), descriptor)
    yield made
    made.asker.close()


def test_what_is_asked_arrives_and_what_is_answered_comes_back(queue: AdminQueue) -> None:
    words: dict[str, Any] = {"cdw10": 0x82, "cdw11": 1, "cdw12": 2, "cdw13": 3, "nsid": 3}
    record, data = queue.admin(GET_LOG_PAGE, **words, data_len=512, timeout=2.5, note="a log")
    assert data.decode() == repr((GET_LOG_PAGE, sorted({**words, "timeout": 2.5}.items())))
    assert (record.argv, record.opcode, record.status, record.exit_code) == ((), 2, 0, 0)
    assert (record.nsid, record.cdw10, record.cdw11, record.cdw12) == (3, 0x82, 1, 2)
    assert record.message.startswith("a log: ")
    assert result_of(record.message) == 0xFFFF_FFFF
    assert queue.records == [record]


def test_a_refusal_of_the_drive_and_one_of_the_kernel_are_told_apart(queue: AdminQueue) -> None:
    with pytest.raises(CommandError, match="status 0x10b") as refused:
        queue.read(GET_FEATURES, 8, "a feature")
    assert refused.value.status == 0x10B
    with pytest.raises(CommandError, match=r"no completion .*No such device") as failed:
        queue.read(IDENTIFY, 4096, "Identify")
    assert failed.value.status is None
    assert [record.exit_code for record in queue.records] == [1, 1]


def test_one_child_serves_all_and_polls_are_listed_once(queue: AdminQueue) -> None:
    assert queue.asker is not None
    queue.admin(GET_LOG_PAGE, cdw10=2, data_len=8, timeout=5)
    child = queue.asker.pid
    queue.admin(GET_LOG_PAGE, cdw10=2, data_len=8, timeout=5)
    queue.admin(GET_LOG_PAGE, cdw10=2, cdw12=1, data_len=8, timeout=5)
    assert queue.asker.pid == child > 0
    assert len(queue.records) == 2
    queue.asker.close()
    assert queue.asker.pid == 0
    with pytest.raises(ChildProcessError):
        os.waitpid(child, os.WNOHANG)


@pytest.mark.parametrize("opcode", [SANITIZE, FORMAT_NVM, SET_FEATURES, SECURITY_RECEIVE, 0xC0])
def test_everything_else_goes_by_nvme_cli(queue: AdminQueue, opcode: int) -> None:
    assert queue.asker is not None
    with pytest.raises(DriveError, match="/no/nvme-cli"):
        queue.admin(opcode, timeout=5)
    with pytest.raises(DriveError, match="reading command"):
        queue.asker.ask(ReadCommand(opcode, 0, 0, 0, 0, 0, 5.0), 5.0)
    with pytest.raises(DriveError, match="/no/nvme-cli"):
        queue.admin(GET_LOG_PAGE, io="/dev/nvme5n1", timeout=5)


def test_a_mute_drive_holds_up_nobody_and_the_next_command_has_another_child(
    queue: AdminQueue, kernel: Callable[[Submit], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    def mute(*_given: object, **_words: object) -> tuple[int, int, bytes]:
        time.sleep(60)
        raise AssertionError

    monkeypatch.setattr(adminqueue, "EXIT_GRACE", 0.2)
    kernel(mute)
    began = time.monotonic()
    record, data = queue.admin(GET_LOG_PAGE, data_len=512, timeout=0.1, note="a log")
    assert (record.status, record.exit_code, data) == (None, None, b"")
    assert record.message == "a log: no answer"
    assert time.monotonic() - began < 5
    kernel(told)
    assert queue.admin(GET_LOG_PAGE, data_len=512, timeout=0.1)[0].status == 0


def test_a_child_that_dies_is_no_answer(
    queue: AdminQueue, kernel: Callable[[Submit], None]
) -> None:
    def die(*_given: object, **_words: object) -> tuple[int, int, bytes]:
        os._exit(1)

    kernel(die)
    began = time.monotonic()
    assert queue.admin(GET_LOG_PAGE, data_len=512, timeout=30)[0].status is None
    assert time.monotonic() - began < 5


def test_the_child_holds_the_drive_and_nothing_else(
    descriptor: int, kernel: Callable[[Submit], None], tmp_path: Path
) -> None:
    """Left behind with the slot's lock it would keep the slot from everybody."""

    def links(*_given: object, **_words: object) -> tuple[int, int, bytes]:
        found = []
        for name in os.listdir("/proc/self/fd"):
            try:
                found.append(os.readlink(f"/proc/self/fd/{name}"))
            except OSError:
                continue
        return 0, 0, "\n".join(sorted(found)).encode()

    kernel(links)
    other = os.open("/proc/self/stat", os.O_RDONLY)
    asking = Asker(Host(), descriptor)
    try:
        with SlotLock(ADDRESS, tmp_path):
            answer = asking.ask(LOG, 5.0)
        assert answer is not None
        found = answer.data.decode().splitlines()
        assert found.count("/dev/null") == 4, "its standard streams, and the drive's stand-in"
        assert [link for link in found if link.startswith("socket:")] == found[-1:]
        assert len(found) == 5
    finally:
        asking.close()
        os.close(other)


def test_it_ends_with_whoever_asked(
    descriptor: int, kernel: Callable[[Submit], None], tmp_path: Path
) -> None:
    """A case that is killed leaves no process that has the drive open."""
    kernel(told)
    parent = os.fork()
    if not parent:
        try:
            asking = Asker(Host(), descriptor)
            asking.ask(LOG, 5.0)
            (tmp_path / "child").write_text(str(asking.pid))
        finally:
            os._exit(0)  # as after SIGKILL: nothing is closed in good order
    os.waitpid(parent, 0)
    child = int((tmp_path / "child").read_text())
    deadline = time.monotonic() + 10
    while Path(f"/proc/{child}/fd").exists() and time.monotonic() < deadline:
        if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
            break  # whoever takes orphans in here does not reap them
        time.sleep(0.01)
    assert time.monotonic() < deadline


def test_a_slot_is_free_while_a_stuck_child_is_left_behind(
    queue: AdminQueue,
    kernel: Callable[[Submit], None],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def mute(*_given: object, **_words: object) -> tuple[int, int, bytes]:
        time.sleep(60)
        raise AssertionError

    monkeypatch.setattr(adminqueue, "EXIT_GRACE", 0.1)
    monkeypatch.setattr(answerer, "KILL_GRACE", 0.1)
    ended: list[int] = []
    monkeypatch.setattr(os, "kill", lambda pid, _number: ended.append(pid))
    kernel(mute)
    with SlotLock(ADDRESS, tmp_path):
        queue.admin(GET_LOG_PAGE, data_len=8, timeout=0.1)
        with pytest.raises(BusyError):
            SlotLock(ADDRESS, tmp_path).acquire()
    monkeypatch.undo()
    try:
        with SlotLock(ADDRESS, tmp_path):
            assert Path(f"/proc/{ended[0]}").exists(), "it cannot be killed, and is still there"
    finally:
        os.kill(ended[0], 9)
        os.waitpid(ended[0], 0)
