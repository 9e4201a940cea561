"""The case's memory: an append-only file of checksummed lines, each on the disk before it counts.

A line is written *before* a destructive command (an intent) and after it (a result). What a
power loss may leave is a last line without its end: its writer never saw it durable and so never
acted on it, and it is cut off. Any other damage is an error: a journal that lies about what was
sent is worse than none, and the drive is not touched.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from eraser.errors import BadInputError, EraserError
from eraser.protocol import codec

MAX_BYTES = 16 << 20
"""A case writes some dozens of lines; what comes near this is not one of ours."""

_SUM_DIGITS = 16

_START_OVER = "release the slot to start over; of an erase by hand move the case's directory away"


class JournalError(EraserError):
    """The journal is damaged beyond a torn last line. The drive was not touched."""


class UnknownEntryError(EraserError):
    """The journal is whole, and another release wrote what this one does not know. What it says may
    be that a command of its is under way."""


@dataclass(frozen=True)
class Line:
    """One entry: its place, what kind it is, and its payload as plain JSON values."""

    sequence: int
    kind: str
    payload: Any


def _sum(previous: str, sequence: int, kind: str, payload: Any) -> str:
    """Covers the line before as well, so that a lost or repeated line is seen."""
    body = codec.canonical([previous, sequence, kind, payload])
    return hashlib.sha256(body).hexdigest()[:_SUM_DIGITS]


def _encode(line: Line, mark: str) -> bytes:
    return codec.canonical([line.sequence, line.kind, line.payload, mark]) + b"\n"


def _decode(raw: bytes, number: int, previous: str, name: str) -> tuple[Line, str]:
    try:
        value = codec.parse(raw, f"{name} line {number}")
    except BadInputError as error:
        raise _damaged(name, number, "no JSON") from error
    if not isinstance(value, list) or len(value) != 4:
        raise _damaged(name, number, "no entry")
    sequence, kind, payload, mark = value
    # type() and not isinstance(): True is an int as well.
    if type(sequence) is not int or not isinstance(kind, str) or not isinstance(mark, str):
        raise _damaged(name, number, "no entry")
    try:
        expected = _sum(previous, sequence, kind, payload)
    except (ValueError, TypeError) as error:
        raise _damaged(name, number, "values that no entry has") from error
    if mark != expected or sequence != number:
        raise _damaged(name, number, "a wrong checksum")
    # The sum is over parsed values: this makes the bytes themselves the only spelling.
    if _encode(Line(sequence, kind, payload), mark) != raw + b"\n":
        raise _damaged(name, number, "another spelling of an entry")
    return Line(sequence, kind, payload), mark


def _damaged(name: str, number: int, found: str) -> JournalError:
    return JournalError(
        f"{name}: expected a sound entry on line {number}, found {found}; the drive was not "
        f"touched; {_START_OVER}"
    )


def parse(raw: bytes, name: str) -> tuple[tuple[Line, ...], str, int]:
    """All sound lines, the last checksum, and the bytes that they take.

    Raises :class:`JournalError` for anything but a torn last line.
    """
    if len(raw) > MAX_BYTES:
        raise JournalError(f"{name}: expected at most {MAX_BYTES} bytes, found {len(raw)}")
    lines: list[Line] = []
    mark, taken = "", 0
    # Bytes after the last line end are a torn line: they are not counted as taken.
    while (end := raw.find(b"\n", taken)) >= 0:
        line, mark = _decode(raw[taken:end], len(lines), mark, name)
        lines.append(line)
        taken = end + 1
    return tuple(lines), mark, taken


def read(path: Path) -> tuple[Line, ...]:
    """The entries of a journal that somebody else may be writing; none where there is no file.

    Raises :class:`JournalError`.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return ()
    return parse(raw, path.name)[0]


class Journal:
    """An open journal. Only the holder of the slot's lock may have one."""

    def __init__(self, path: Path) -> None:
        """Opens or makes the file and cuts off a torn last line. Raises :class:`JournalError`."""
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            raw = _read_all(self._descriptor)
            self._lines, self._mark, taken = parse(raw, path.name)
            if taken != len(raw):
                os.ftruncate(self._descriptor, taken)
            # The cut is durable before anything is appended.
            os.fsync(self._descriptor)
            os.lseek(self._descriptor, taken, os.SEEK_SET)
            sync_directory(path.parent)
        except BaseException:
            os.close(self._descriptor)
            raise
        self._taken = taken

    @property
    def lines(self) -> tuple[Line, ...]:
        """Every entry so far."""
        return self._lines

    def append(self, kind: str, payload: Any) -> Line:
        """Writes one entry; it is on the disk when this returns.

        Raises ``OSError``, and :class:`JournalError` for an entry that would take the journal past
        what :func:`parse` reads: a case whose next run cannot read its journal is lost.
        """
        # Through JSON and back: a line in memory is the same as one that is read after a crash.
        plain = json.loads(codec.canonical(payload))
        line = Line(len(self._lines), kind, plain)
        mark = _sum(self._mark, line.sequence, kind, plain)
        data = _encode(line, mark)
        if self._taken + len(data) > MAX_BYTES:
            raise JournalError(
                f"journal: expected at most {MAX_BYTES} bytes, found {self._taken} and an entry "
                f"({kind}) of {len(data)} more; it was not written, and what it announces was not "
                f"done; {_START_OVER}"
            )
        # An append that failed, or that a signal broke off, must not stand before this one.
        os.ftruncate(self._descriptor, self._taken)
        written = os.pwrite(self._descriptor, data, self._taken)
        if written != len(data):
            raise OSError(f"journal: expected to write {len(data)} bytes, wrote {written}")
        os.fsync(self._descriptor)
        # Only what is on the disk counts as a line: after an error the next append takes this
        # place.
        self._lines, self._mark = (*self._lines, line), mark
        self._taken += len(data)
        return line

    def close(self) -> None:
        """Lets go of the file."""
        os.close(self._descriptor)


def _read_all(descriptor: int) -> bytes:
    parts = []
    while part := os.read(descriptor, 1 << 20):
        parts.append(part)
        # parse() refuses it by its size; reading on would only take memory.
        if sum(map(len, parts)) > MAX_BYTES:
            break
    return b"".join(parts)


def sync_directory(directory: Path) -> None:
    """Makes the names in ``directory`` durable."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(directory: Path, mode: int = 0o700) -> None:
    """Makes ``directory``, and those above it, durably; fine where it is there. Raises ``OSError``.

    What is synced inside of a directory is lost all the same with the directory's own name.
    """
    if not directory.parent.is_dir():
        make_directory(directory.parent, mode)
    directory.mkdir(mode=mode, exist_ok=True)
    # Also where it was there: whoever made it may have died before this.
    sync_directory(directory.parent)


@contextlib.contextmanager
def alone(directory: Path) -> Iterator[None]:
    """Nobody else who asks so changes the files of ``directory``: what is read in it is what is
    replaced. Held for a read and a write, so it is waited for. Raises ``OSError``."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def replace_durably(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replaces ``path``: it is on the disk, whole, when this returns. Raises ``OSError``."""
    replace_whole(path, data, mode)
    sync_directory(path.parent)


def remove_durably(path: Path) -> None:
    """Removes ``path``, if it is there: it stays away once this returns. Raises ``OSError``."""
    path.unlink(missing_ok=True)
    sync_directory(path.parent)


def replace_whole(path: Path, data: bytes, mode: int = 0o600) -> None:
    """Replaces ``path`` so that after a power loss it holds the old or the new bytes, whole.

    Which of them, is sure once its directory is synced (:func:`sync_directory`). Raises
    ``OSError``.
    """
    # In the same directory, because a rename is one step only within a file system.
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, mode)
    try:
        with os.fdopen(descriptor, "wb") as handle:
            # The caller's umask has no say: what is replaced keeps the mode that it is to have.
            os.fchmod(handle.fileno(), mode)
            handle.write(data)
            handle.flush()
            # Before the rename, or after a power loss the name could lead to an empty file.
            os.fsync(handle.fileno())
        temporary.replace(path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
