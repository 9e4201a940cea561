"""The vfio-user protocol, server side, for one function: what QEMU's ``vfio-user-pci`` speaks.

Message layout as in QEMU's ``docs/interop/vfio-user.rst``: a header of message id, command,
size, flags and error, then the structures of Linux's ``vfio.h``. One thread per socket does
everything, commands included, so that no mapping goes away under a running transfer.
"""

from __future__ import annotations

import array
import contextlib
import json
import logging
import os
import socket
import struct
import threading
from collections.abc import Callable
from enum import IntEnum
from pathlib import Path

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.drive import Drive
from tests.lab.nvme.errors import WireError
from tests.lab.nvme.function import VECTORS, Function
from tests.lab.nvme.pci import (
    BAR0_BYTES,
    BUFFER_BAR,
    CONFIG_BYTES,
    MSIX_BAR,
    MSIX_BAR_BYTES,
    ConfigSpace,
)

LOG = logging.getLogger(__name__)


class Message(IntEnum):
    """Commands that QEMU sends."""

    VERSION = 1
    DMA_MAP = 2
    DMA_UNMAP = 3
    GET_INFO = 4
    GET_REGION_INFO = 5
    GET_IRQ_INFO = 7
    SET_IRQS = 8
    REGION_READ = 9
    REGION_WRITE = 10
    RESET = 13
    REGION_WRITE_MULTI = 15


HEADER = struct.Struct("<HHIII")
_FLAG_REPLY, _FLAG_NO_REPLY, _FLAG_ERROR = 0x1, 0x10, 0x20
_MAX_MESSAGE = 1 << 20
_MAX_FDS = 16  # QEMU refuses a server that wants more in one message
_ENOTSUP, _EINVAL = 95, 22

_REGION_CONFIG = 7
_REGIONS = {0: BAR0_BYTES, MSIX_BAR: MSIX_BAR_BYTES, _REGION_CONFIG: CONFIG_BYTES}
_IRQ_INTX, _IRQ_MSIX = 0, 2
_IRQ_SET_NONE, _IRQ_SET_EVENTFD = 1 << 0, 1 << 2
_MAP_WRITABLE = 1 << 1
_UNMAP_ALL = 1 << 1
_REGION_ACCESS = struct.Struct("<QII")
_MULTI_WRITE = struct.Struct("<QII8s")


class VfioUserServer:
    """Serves one function on one listening socket, to one client at a time."""

    def __init__(self, drive: Drive, path: Path) -> None:
        """Listen on ``path``; a stale socket file of an earlier run is replaced."""
        self._drive = drive
        self._path = path
        self._interrupts: dict[int, int] = {}
        self._client: socket.socket | None = None
        self._closing = threading.Event()
        self.function = Function(drive, path.name, self._interrupt)
        buffer_bytes = drive.profile.buffer.size if drive.profile.buffer else 0
        self._regions = _REGIONS | {BUFFER_BAR: buffer_bytes}
        self._config = ConfigSpace(
            drive.profile.pci,
            VECTORS,
            lambda: self.function.hard_reset("function level reset"),
            buffer_bytes,
        )
        self._handlers: dict[int, Callable[[bytes, list[int]], bytes]] = {
            Message.VERSION: self._version,
            Message.DMA_MAP: self._dma_map,
            Message.DMA_UNMAP: self._dma_unmap,
            Message.GET_INFO: self._get_info,
            Message.GET_REGION_INFO: self._get_region_info,
            Message.GET_IRQ_INFO: self._get_irq_info,
            Message.SET_IRQS: self._set_irqs,
            Message.REGION_READ: self._region_read,
            Message.RESET: self._reset,
        }
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(1)
        self._thread = threading.Thread(target=self._serve, name=path.name, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Stop serving: the client, if any, sees the connection end."""
        self._closing.set()
        for end in (self._client, self._listener):
            if end is not None:
                with contextlib.suppress(OSError):  # not connected, or gone already
                    end.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        self._path.unlink(missing_ok=True)

    # Connection

    def _serve(self) -> None:
        while not self._closing.is_set():
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            self._client = client
            if self._closing.is_set():  # close() did not see this client
                client.close()
                return
            with client:
                try:
                    while self._message(client):
                        pass
                except (ConnectionError, WireError) as error:
                    if not self._closing.is_set():
                        LOG.warning("%s: client dropped: %s", self._path, error)
            self._client = None
            with self._drive.lock:
                self.function.hard_reset("client gone")
                self.function.memory.clear()
                self._drop_interrupts(range(VECTORS))

    def _message(self, client: socket.socket) -> bool:
        fds: list[int] = []
        try:
            header = _receive(client, HEADER.size, fds)
            if header is None:
                return False
            number, kind, size, flags, _ = HEADER.unpack(header)
            if not HEADER.size <= size <= _MAX_MESSAGE:
                raise WireError(f"message {kind} should have at most {_MAX_MESSAGE}, has {size}")
            body = _receive(client, size - HEADER.size, fds) if size > HEADER.size else b""
            if body is None:
                return False
            wants_reply = not flags & _FLAG_NO_REPLY
            if kind in (Message.REGION_WRITE, Message.REGION_WRITE_MULTI):
                # Posted: the guest's processor need not wait until the drive has done the work.
                if wants_reply:
                    _reply(client, number, kind, body[: _REGION_ACCESS.size])
                with self._drive.lock:
                    self._region_write(kind, body)
                return True
            code, answer = self._dispatch(kind, body, fds)
            if wants_reply:
                _reply(client, number, kind, answer, code)
            return True
        except struct.error as error:
            raise WireError(f"a message should have its full length: {error}") from error
        finally:
            for fd in fds:
                os.close(fd)

    def _dispatch(self, kind: int, body: bytes, fds: list[int]) -> tuple[int, bytes]:
        handler = self._handlers.get(kind)
        if handler is None:
            return _ENOTSUP, b""
        try:
            with self._drive.lock:
                return 0, handler(body, fds)
        except (struct.error, ValueError, OSError) as error:
            LOG.warning("%s: %s refused: %s", self._path, Message(kind).name, error)
            return _EINVAL, b""

    # Messages; each gets the body and the descriptors, and may take some out of the list

    def _version(self, body: bytes, fds: list[int]) -> bytes:
        capabilities = {
            "max_msg_fds": _MAX_FDS,
            "max_data_xfer_size": 1 << 20,
            "max_dma_maps": 65535,
            "pgsizes": 4096,
            "write_multiple": True,
        }
        return body[:4] + json.dumps({"capabilities": capabilities}).encode() + b"\0"

    def _dma_map(self, body: bytes, fds: list[int]) -> bytes:
        _, flags, offset, address, size = struct.unpack_from("<IIQQQ", body)
        if fds:  # memory without a descriptor is no guest RAM: never a target of DMA
            writable = bool(flags & _MAP_WRITABLE)
            self.function.memory.map(address, size, fds[0], offset, writable=writable)
        return b""

    def _dma_unmap(self, body: bytes, fds: list[int]) -> bytes:
        _, flags, address, size = struct.unpack_from("<IIQQ", body)
        if flags & _UNMAP_ALL:
            self.function.memory.clear()
        else:
            self.function.memory.unmap(address, size)
        return body[:24]

    def _get_info(self, body: bytes, fds: list[int]) -> bytes:
        return struct.pack("<IIII", 16, 0x3, 9, 5)  # can reset, is PCI; regions, interrupt kinds

    def _get_region_info(self, body: bytes, fds: list[int]) -> bytes:
        (index,) = struct.unpack_from("<I", body, 8)
        size = self._regions.get(index, 0)
        return struct.pack("<IIIIQQ", 32, 0x3 if size else 0, index, 0, size, 0)

    def _get_irq_info(self, body: bytes, fds: list[int]) -> bytes:
        (index,) = struct.unpack_from("<I", body, 8)
        count = {_IRQ_INTX: 1, _IRQ_MSIX: VECTORS}.get(index, 0)
        flags = 0x9 if index == _IRQ_MSIX else 0x1  # eventfd, no resizing
        return struct.pack("<IIII", 16, flags, index, count)

    def _set_irqs(self, body: bytes, fds: list[int]) -> bytes:
        _, flags, index, start, count = struct.unpack_from("<IIIII", body)
        if index != _IRQ_MSIX:
            return b""
        if flags & _IRQ_SET_EVENTFD and fds:
            self._drop_interrupts(range(start, start + len(fds)))
            for vector, fd in enumerate(fds, start):
                self._interrupts[vector] = fd
            fds.clear()
        elif flags & _IRQ_SET_EVENTFD:
            self._drop_interrupts(range(start, start + count))
        elif flags & _IRQ_SET_NONE and count == 0:
            self._drop_interrupts(range(VECTORS))
        return b""

    def _region_read(self, body: bytes, fds: list[int]) -> bytes:
        offset, region, count = _REGION_ACCESS.unpack_from(body)
        if count > _MAX_MESSAGE // 2:
            raise ValueError(f"a read should be short, wants {count} bytes")
        if region == 0:
            data = self.function.read(offset, count)
        elif region == BUFFER_BAR:
            data = self.function.read_buffer(offset, count)
        elif region == _REGION_CONFIG:
            gone = self.function.absent
            data = b"\xff" * count if gone else self._config.read(offset, count)
        else:
            data = bytes(count)
        return body[: _REGION_ACCESS.size] + data

    def _region_write(self, kind: int, body: bytes) -> None:
        if kind == Message.REGION_WRITE:
            offset, region, count = _REGION_ACCESS.unpack_from(body)
            self._write(region, offset, body[16 : 16 + count])
            return
        (writes,) = struct.unpack_from("<Q", body)
        for index in range(writes):
            at = 8 + index * _MULTI_WRITE.size
            offset, region, count, data = _MULTI_WRITE.unpack_from(body, at)
            self._write(region, offset, data[:count])

    def _write(self, region: int, offset: int, data: bytes) -> None:
        if region == 0:
            self.function.write(offset, data)
        elif region == BUFFER_BAR:
            self.function.write_buffer(offset, data)
        elif region == _REGION_CONFIG and not self.function.absent:
            self._config.write(offset, data)

    def _reset(self, body: bytes, fds: list[int]) -> bytes:
        # What a reset of the bus above comes as, and QEMU's own when its machine starts.
        self.function.hard_reset("device reset", Reset.BUS)
        return b""

    # Interrupts

    def _interrupt(self, vector: int) -> None:
        fd = self._interrupts.get(vector)
        if fd is not None:
            with contextlib.suppress(BlockingIOError):  # counter full: it is raised anyway
                os.eventfd_write(fd, 1)

    def _drop_interrupts(self, vectors: range) -> None:
        for vector in vectors:
            fd = self._interrupts.pop(vector, None)
            if fd is not None:
                os.close(fd)


def _receive(client: socket.socket, size: int, fds: list[int]) -> bytes | None:
    """Exactly ``size`` bytes and the descriptors that came along; None at the end."""
    data = b""
    space = socket.CMSG_SPACE(_MAX_FDS * 4)
    while len(data) < size:
        part, ancillary, _, _ = client.recvmsg(size - len(data), space, socket.MSG_CMSG_CLOEXEC)
        for level, kind, content in ancillary:
            if level == socket.SOL_SOCKET and kind == socket.SCM_RIGHTS:
                received = array.array("i")
                received.frombytes(content[: len(content) - len(content) % received.itemsize])
                fds.extend(received)
        if not part:
            return None
        data += part
    return data


def _reply(client: socket.socket, number: int, kind: int, body: bytes, error: int = 0) -> None:
    flags = _FLAG_REPLY | (_FLAG_ERROR if error else 0)
    client.sendall(HEADER.pack(number, kind, HEADER.size + len(body), flags, error) + body)
