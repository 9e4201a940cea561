"""A file on a FUSE mount that was taken off lazily, whose server has stopped to answer."""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import struct
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

_LIBC = ctypes.CDLL(None, use_errno=True)
_NOSUID_NODEV, _DETACH = 2 | 4, 2
_HEADER = struct.Struct("<IIQQIIII")
"""struct fuse_in_header (linux/fuse.h)."""
_LOOKUP, _GETATTR, _OPEN, _INIT, _OPENDIR = 1, 3, 14, 26, 27
_FORGET, _FLUSH, _RELEASE, _RELEASEDIR = 2, 25, 18, 29
_ENOSYS = -38


class _Server:
    """Answers until it is told to be silent; then it keeps what it is asked until :meth:`wake`."""

    def __init__(self, descriptor: int, owner: int) -> None:
        self._descriptor, self._owner = descriptor, owner
        self._kept: list[bytes] = []
        self._lock = threading.Lock()
        self.silent = False

    def run(self) -> None:
        while True:
            try:
                request = os.read(self._descriptor, 1 << 17)
            except OSError:
                return  # the last file is closed, and the mount is gone
            with self._lock:
                if self.silent:
                    self._kept.append(request)
                else:
                    self._reply(request)

    def wake(self) -> None:
        with self._lock:
            self.silent = False
            for request in self._kept:
                self._reply(request)

    def _reply(self, request: bytes) -> None:
        _length, opcode, unique, node, *_rest = _HEADER.unpack_from(request)
        if opcode == _FORGET:
            return
        answer = self._answer(opcode, node)
        error, data = (_ENOSYS, b"") if answer is None else (0, answer)
        with contextlib.suppress(OSError):  # who asked was killed
            os.write(self._descriptor, struct.pack("<IiQ", 16 + len(data), error, unique) + data)

    def _answer(self, opcode: int, node: int) -> bytes | None:
        if opcode == _INIT:
            return struct.pack("<4I2H2I2H", 7, 31, 1 << 16, 0, 12, 9, 1 << 16, 1, 0, 0).ljust(
                64, b"\0"
            )
        if opcode == _LOOKUP:
            return struct.pack("<QQQQII", 2, 0, 3600, 0, 0, 0) + self._attributes(2, 0o100644)
        if opcode == _GETATTR:
            mode = 0o40755 if node == 1 else 0o100644
            return struct.pack("<QII", 0, 0, 0) + self._attributes(node, mode)
        if opcode in (_OPEN, _OPENDIR):
            return struct.pack("<QII", 1, 0, 0)
        return b"" if opcode in (_FLUSH, _RELEASE, _RELEASEDIR) else None

    def _attributes(self, inode: int, mode: int) -> bytes:
        times = [0] * 5
        return struct.pack(
            "<6Q10I", inode, *times, 0, 0, 0, mode, 1, self._owner, self._owner, 0, 4096, 0
        )


@contextlib.contextmanager
def silent_file(directory: Path, owner: int) -> Iterator[int]:
    """The process that has the file open; ``owner`` is who mounted it, for nobody else to see."""
    try:
        descriptor = os.open("/dev/fuse", os.O_RDWR)
    except OSError as error:
        pytest.skip(f"expected /dev/fuse, found {error.strerror}")
    point = directory / "mount"
    point.mkdir()
    options = f"fd={descriptor},rootmode=40000,user_id={owner},group_id={owner}".encode()
    if _LIBC.mount(b"x", os.fsencode(point), b"fuse.sshfs", _NOSUID_NODEV, options):
        os.close(descriptor)
        pytest.skip(f"expected to mount, found {os.strerror(ctypes.get_errno())}; run as root")
    server = _Server(descriptor, owner)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    told, tell = os.pipe()
    # Nobody but the owner may look into it, or come here past our own directories.
    root = os.open(point, os.O_PATH)
    holder = os.fork()
    if not holder:
        try:
            if owner:
                os.setgroups([])
                os.setresgid(owner, owner, owner)
                os.setresuid(owner, owner, owner)
            os.open("file", os.O_RDONLY, dir_fd=root)
            os.close(descriptor)
            os.write(tell, b"x")
            signal.pause()
        finally:
            os._exit(1)
    os.close(tell)
    opened = os.read(told, 1)
    os.close(told)
    os.close(root)
    _LIBC.umount2(os.fsencode(point), _DETACH)
    server.silent = True
    try:
        assert opened, "the holder could not open its file"
        yield holder
    finally:
        server.wake()
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        thread.join(5)
        os.close(descriptor)
