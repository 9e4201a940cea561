"""The gate's memory on disk (:mod:`eraser.gate.records`).

One durable file for all slots, so that all drives of a guest are given in one write. What it holds
is good for one incarnation of the host: under another nobody is let in by it, but its owners still
keep their drives from being erased.
"""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import os
import time
from collections.abc import Iterator
from pathlib import Path

from eraser import hostcard
from eraser.errors import BadInputError, BusyError, EraserError
from eraser.gate.records import Book
from eraser.journal import replace_durably, sync_directory
from eraser.wire import codec
from eraser.wire.ticket import TicketSeen

LOCK_PATIENCE = 2.0
"""Seconds. A holder writes one small file and lets go."""

_POLL = 0.01


class BookError(EraserError):
    """The gate's book cannot be trusted. No guest with an NVMe drive starts until it is mended."""


def directory(state_dir: Path) -> Path:
    """Where the gate keeps its files."""
    return state_dir / "gate"


def book_file(state_dir: Path) -> Path:
    """The book's path."""
    return directory(state_dir) / "book.json"


def exists(state_dir: Path) -> bool:
    """Whether this host has a book at all."""
    return book_file(state_dir).exists()


def encode(book: Book) -> bytes:
    """The file's bytes: one line of JSON, one with its digest."""
    line = codec.canonical(book)
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def decode(raw: bytes, name: str) -> Book:
    """The file's bytes to a book. Raises :class:`BookError` for any damage."""
    line, _, mark = raw.partition(b"\n")
    try:
        if mark != hashlib.sha256(line).hexdigest().encode() + b"\n":
            raise BadInputError("expected the digest of its first line on its second, found none")
        return codec.load(Book, line, "book")
    except BadInputError as error:
        raise BookError(
            f"{name} is damaged: {error}; 'nvme-eraser gate adopt --renew' puts it aside and "
            "records the owners anew from libvirt's files"
        ) from error


def load_raw(state_dir: Path) -> Book | None:
    """The book as it stands, whatever incarnation's; None where there is none.

    Raises :class:`BookError`.
    """
    path = book_file(state_dir)
    try:
        return decode(path.read_bytes(), str(path))
    except FileNotFoundError:
        return None
    except OSError as error:
        raise BookError(f"expected to read {path}, found {error.strerror}; run as root") from error


def of_incarnation(book: Book | None, incarnation: str) -> Book:
    """``book`` as it counts under an incarnation: owners alone outlive their own."""
    if book is None:
        return Book(incarnation)
    if book.incarnation == incarnation:
        return book
    entries = (dataclasses.replace(each, ticket=None, allowance=None) for each in book.entries)
    return Book(incarnation, tuple(entries), used_allowances=book.used_allowances)


def load(state_dir: Path) -> Book:
    """The book under the host's present incarnation; empty where there is none.

    Raises :class:`BookError`, and :class:`BadInputError` where the host's card is damaged.
    """
    return of_incarnation(load_raw(state_dir), hostcard.incarnation(state_dir))


class OpenBook:
    """The book under its lock: read, and replaced as a whole. Made by :func:`opened`."""

    def __init__(self, state_dir: Path, *, renew: bool = False) -> None:
        """With ``renew`` a damaged book counts as none; a sound one is not to be renewed.

        Raises :class:`BookError` and :class:`BadInputError`.
        """
        self._path = book_file(state_dir)
        self.damage = ""
        """What was wrong with the book that is renewed."""
        try:
            self.book = load(state_dir)
            """As it counts under the present incarnation."""
        except BookError as error:
            if not renew:
                raise
            self.damage = str(error)
            self.book = Book(hostcard.incarnation(state_dir))
        if renew and not self.damage:
            raise BadInputError(
                f"expected a damaged book at {self._path}, found a sound one or none; "
                "leave out --renew"
            )

    def write(self, book: Book) -> None:
        """Replaces the book; it is on the disk when this returns. Raises ``OSError``."""
        if book != self.book:
            replace_durably(self._path, encode(book))
        self.book = book


@contextlib.contextmanager
def opened(state_dir: Path) -> Iterator[OpenBook]:
    """The book for a change. Raises :class:`BookError`, :class:`BusyError`, ``OSError``."""
    with locked(state_dir):
        yield OpenBook(state_dir)


@contextlib.contextmanager
def locked(state_dir: Path) -> Iterator[None]:
    """The lock of all of the gate's files. Raises :class:`BusyError`, ``OSError``."""
    place = directory(state_dir)
    if not place.is_dir():
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(state_dir)
    path = place / "book.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _flock(descriptor, path)
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, path: Path) -> None:
    deadline = time.monotonic() + LOCK_PATIENCE
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except BlockingIOError as error:
            if time.monotonic() >= deadline:
                raise BusyError(
                    f"{path}: expected the lock within {LOCK_PATIENCE:g} s, found it held; "
                    "see 'fuser -v' for by whom"
                ) from error
        time.sleep(_POLL)


def seen_tickets(book: Book) -> tuple[TicketSeen, ...]:
    """The newest ticket of each slot, as a hello tells it."""
    return tuple(
        TicketSeen(
            entry.address,
            entry.ticket.ticket.order_id,
            entry.ticket.ticket.generation,
            entry.ticket.state,
            entry.ticket.reason,
        )
        for entry in book.entries
        if entry.ticket is not None
    )
