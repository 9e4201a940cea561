"""Direct reads: every block once, in order, and exactly the bad ones named."""

from __future__ import annotations

import errno
import gc
import mmap
import os
import platform
import random
import resource
from collections.abc import Iterator
from pathlib import Path

import pytest

from eraser.errors import DriveError
from eraser.media import aio
from eraser.media.reader import BATCH, WINDOW, BlockDevice
from tests.unit.conftest import Image

BLOCK = 4096


def _stamp(index: int) -> bytes:
    return index.to_bytes(8, "big") * 512


def _content(blocks: int, tail: int = 0) -> bytes:
    return b"".join(_stamp(n) for n in range(blocks)) + _stamp(blocks)[:tail]


@pytest.fixture(params=["aio", "one by one"])
def queue(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Both ways to read; the second is what a kernel without AIO for us leaves."""
    if request.param == "one by one":

        def refuse(*_arguments: object) -> None:
            raise OSError(errno.EAGAIN, "aio-max-nr")

        monkeypatch.setattr(aio, "AioQueue", refuse)
    return str(request.param)


def test_aio_is_what_is_used_here(image: Image) -> None:
    """Otherwise the parametrised tests would test one way twice."""
    fd = os.open(image(bytes(BLOCK)), os.O_RDONLY | os.O_DIRECT)
    try:
        found = aio.open_queue(fd, 1, 1, BLOCK)
        assert isinstance(found, aio.AioQueue)
        found.close()
    finally:
        os.close(fd)


def test_a_kernel_without_huge_pages(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mmap, "MADV_HUGEPAGE", 12345)  # EINVAL, as such a kernel answers
    content = _content(WINDOW // BLOCK + 1)
    with BlockDevice(image(content)) as device:
        found = [bytes(w) for _, w in device.read_sequential(0, device.blocks) if w is not None]
    assert b"".join(found) == content


@pytest.mark.parametrize("tail", [0, 512, 3584])
@pytest.mark.usefixtures("queue")
def test_blocks(image: Image, tail: int) -> None:
    with BlockDevice(image(_content(700, tail))) as device:
        assert device.size == 700 * BLOCK + tail
        assert device.blocks == 700 + bool(tail)
        wanted = sorted(random.Random(tail).sample(range(device.blocks), 300))
        if wanted[-1] != device.blocks - 1:
            wanted.append(device.blocks - 1)
        found = [(n, bytes(b or b"")) for n, b in device.read_blocks(wanted)]
        assert [n for n, _ in found] == wanted
        for index, block in found:
            last_short = tail and index == 700
            assert block == (_stamp(index)[:tail] if last_short else _stamp(index))


@pytest.mark.parametrize("tail", [0, 512])
@pytest.mark.parametrize("start", [0, 1, 255, 256])
@pytest.mark.usefixtures("queue")
def test_sequential(image: Image, tail: int, start: int) -> None:
    content = _content(3 * WINDOW // BLOCK + 7, tail)
    with BlockDevice(image(content)) as device:
        read, at = b"", start
        for first, window in device.read_sequential(start, device.blocks):
            assert window is not None
            assert first == at
            read += bytes(window)
            at = -(-(start * BLOCK + len(read)) // BLOCK)
        assert read == content[start * BLOCK :]
        part = [bytes(w or b"") for _, w in device.read_sequential(2, 5)]
        assert b"".join(part) == content[2 * BLOCK : 5 * BLOCK]


@pytest.mark.usefixtures("queue")
def test_unreadable_blocks_are_named_and_no_other(image: Image) -> None:
    """Cut off behind the device's back, so that the reads come short; the kernel says so itself."""
    path = image(_content(600))
    with BlockDevice(path) as device:
        os.truncate(path, 400 * BLOCK)
        found = dict(device.read_blocks(range(0, 600, 3)))
        assert {n for n, b in found.items() if b is None} == set(range(402, 600, 3))
        bad: set[int] = set()
        good: set[int] = set()
        for first, window in device.read_sequential(0, 600):
            if window is None:
                bad.add(first)
            else:
                good.update(range(first, first + len(window) // BLOCK))
        assert bad == set(range(400, 600))
        assert good == set(range(400))


def test_a_passing_fault_is_read_again(image: Image, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "AioQueue", _no_aio)
    calls: list[int] = []
    real = os.preadv

    def preadv(fd: int, buffers: list[memoryview], offset: int) -> int:
        calls.append(offset)
        if offset == 5 * BLOCK and calls.count(offset) == 1:
            raise OSError(errno.EIO, "once")
        if offset == 9 * BLOCK:
            raise OSError(errno.ENODATA, "always")
        return real(fd, buffers, offset)

    monkeypatch.setattr(os, "preadv", preadv)
    with BlockDevice(image(_content(20))) as device:
        found = {n: b and bytes(b) for n, b in device.read_blocks(range(20))}
    assert [n for n, b in found.items() if b is None] == [9]
    assert found[5] == _stamp(5)
    assert calls.count(9 * BLOCK) == 2


def _no_aio(*_arguments: object) -> None:
    raise OSError(errno.ENOSYS, "none")


@pytest.mark.parametrize("writable", [False, True])
def test_neither_cache_is_trusted(image: Image, writable: bool) -> None:
    """O_DIRECT passes the kernel's cache, O_DSYNC (FUA) the drive's own."""
    with BlockDevice(image(_content(4)), writable=writable) as device:
        info = Path(f"/proc/self/fdinfo/{device._fd}").read_text()
    flags = int(info.split("flags:")[1].split()[0], 8)
    assert flags & os.O_DIRECT
    assert bool(flags & os.O_DSYNC) == writable


@pytest.mark.usefixtures("queue")
def test_a_reader_that_is_dropped_half_way(image: Image) -> None:
    with BlockDevice(image(_content(2000))) as device:
        reader = device.read_blocks(range(2000))
        for _ in range(BATCH + 1):
            next(reader)
        windows = device.read_sequential(0, 2000)
        next(windows)
    # Both generators outlive their device: nothing may be in flight, nothing may raise.
    reader.close()
    windows.close()


def test_many_verifications_leave_no_descriptor_and_no_memory(image: Image) -> None:
    path = image(_content(300))
    gc.collect()  # what other tests left to it is no descriptor of this one
    before = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with BlockDevice(path) as device:
            for _pair in device.read_blocks(range(0, 300, 7)):
                pass
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for _ in range(50):
        with BlockDevice(path) as device:
            for _window in device.read_sequential(0, 300):
                pass
    assert len(os.listdir("/proc/self/fd")) <= before
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - peak < 16 << 10  # KiB


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """The numbers of the system calls that are sent from now on, with no context kept."""
    found: list[int] = []
    real = aio.AioQueue._call

    def call(queue: aio.AioQueue, number: int, *arguments: object) -> int:
        found.append(number)
        return real(queue, number, *arguments)

    monkeypatch.setattr(aio.AioQueue, "_call", call)
    kept = aio._IDLE[:]
    aio._IDLE.clear()
    yield found
    aio._IDLE.extend(kept)


def test_nothing_is_torn_down_between_two_readings(image: Image, calls: list[int]) -> None:
    """Ending a context takes a grace period of the kernel, in which a drive reads 90 MB."""
    setup, destroy, _submit, _getevents = aio._CALLS[platform.machine()]
    path = image(_content(300))
    for _ in range(3):
        with BlockDevice(path) as device:
            for index, block in device.read_blocks(range(299, -1, -7)):
                assert block == _stamp(index)
            for _window in device.read_sequential(0, 300):
                pass
    assert (calls.count(setup), calls.count(destroy)) == (1, 0)


def test_what_is_in_flight_is_waited_for(image: Image, calls: list[int]) -> None:
    """Its buffer goes, and the next reading must not be told of the last one's reads."""
    _setup, destroy, _submit, _getevents = aio._CALLS[platform.machine()]
    with BlockDevice(image(_content(3 * WINDOW // BLOCK))) as device:
        next(device.read_sequential(0, device.blocks))
    assert calls.count(destroy) == 1
    assert aio._IDLE == []


def test_a_context_is_no_child_s(image: Image, calls: list[int]) -> None:
    path = image(_content(300))
    with BlockDevice(path) as device:
        list(device.read_blocks([7]))
    assert len(aio._IDLE) == 1
    assert calls
    child = os.fork()
    if not child:
        good = False
        try:
            with BlockDevice(path) as device:
                found = dict(device.read_blocks([7]))
                good = found[7] == _stamp(7)
        finally:
            os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("tail", [0, 512])
def test_write(image: Image, tail: int) -> None:
    path = image(_content(9, tail))
    with BlockDevice(path, writable=True) as device:
        device.write_block(3, b"\x11" * BLOCK)
        last = device.blocks - 1
        device.write_block(last, b"\x22" * (tail or BLOCK))
        assert {n: bytes(b or b"")[:1] for n, b in device.read_blocks([3, last])} == {
            3: b"\x11",
            last: b"\x22",
        }
        for index, size in ((last, BLOCK + 512), (last + 1, BLOCK), (-1, BLOCK)):
            with pytest.raises(ValueError, match="expected"):
                device.write_block(index, bytes(size))
    assert os.path.getsize(path) == 9 * BLOCK + tail


def test_writing_where_only_reading_was_asked_for(image: Image) -> None:
    with (
        BlockDevice(image(bytes(BLOCK))) as device,
        pytest.raises(DriveError, match="to be written"),
    ):
        device.write_block(0, bytes(BLOCK))


def test_what_is_no_device(image: Image, tmp_path: Path) -> None:
    with pytest.raises(DriveError, match="past the page cache"):
        BlockDevice(str(tmp_path / "absent"))
    with pytest.raises(DriveError, match="found 0 bytes"):
        BlockDevice(image(b""))
    with pytest.raises(DriveError, match="whole sectors"):
        BlockDevice(image(bytes(100)))


def test_no_fallback_to_the_page_cache() -> None:
    """procfs cannot do O_DIRECT: an error, not a buffered read."""
    with pytest.raises(DriveError, match="O_DIRECT"):
        BlockDevice("/proc/self/status")


def test_indexes_beyond_the_end_are_a_mistake(image: Image) -> None:
    with BlockDevice(image(_content(3))) as device:
        with pytest.raises(ValueError, match="below 3"):
            list(device.read_blocks([0, 3]))
        with pytest.raises(ValueError, match="expected blocks"):
            list(device.read_sequential(0, 4))
