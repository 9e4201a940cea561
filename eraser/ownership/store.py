"""The gate's memory on disk (:mod:`eraser.ownership.model`).

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
import signal
from collections.abc import Iterator
from pathlib import Path

from eraser.errors import BadInputError, BusyError, EraserError
from eraser.ownership.model import Book
from eraser.protocol import codec
from eraser.protocol.ticket import TicketSeen
from eraser.state import hostcard
from eraser.state.case_dir import is_there
from eraser.state.journal import replace_whole, sync_directory

LOCK_SECONDS = 10.0
"""That a change waits for those before it. Each writes and syncs one small file: of 24 that come
at once on a disk that takes 60 ms for it the last one waits 1.5 s. A start waits longer, as long as
its guest may."""


_ASIDE = (
    "'nvme-eraser gate adopt --renew' puts it aside and records the owners anew from libvirt's "
    "files"
)


class BookError(EraserError):
    """The gate's book cannot be trusted. No guest with an NVMe drive starts until it is mended."""


def directory(state_dir: Path) -> Path:
    """Where the gate keeps its files."""
    return state_dir / "gate"


def book_file(state_dir: Path) -> Path:
    """The book's path."""
    return directory(state_dir) / "book.json"


def exists(state_dir: Path) -> bool:
    """Whether this host has a book at all. Raises ``OSError`` where nobody can tell."""
    return is_there(book_file(state_dir))


def encode(book: Book) -> bytes:
    """The file's bytes: one line of JSON, one with its digest."""
    line = codec.canonical(book)
    return line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n"


def decode(raw: bytes, name: str) -> Book:
    """The file's bytes to a book. Raises :class:`BookError` for any damage."""
    line, _, mark = raw.partition(b"\n")
    # Damage must not pass for an empty book: that is what a new host has.
    if mark != hashlib.sha256(line).hexdigest().encode() + b"\n":
        raise BookError(
            f"{name} is damaged: expected the digest of its first line on its second, found none; "
            f"{_ASIDE}"
        )
    try:
        return codec.load(Book, line, "book")
    except BadInputError as error:
        # As it was written: whoever puts it aside for a rollback loses the tickets in it.
        raise BookError(
            f"{name} is whole, and this release cannot read it ({error}); install the release that "
            f"wrote it again; else {_ASIDE}"
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
    # Tickets and words were given to the host as it was; an owner's data is on its drive all the
    # same.
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
        """Replaces the book; :func:`opened` has it on the disk when that ends. Raises
        ``OSError``."""
        book = book.settled()
        if book != self.book:
            replace_whole(self._path, encode(book))
        self.book = book


@contextlib.contextmanager
def opened(
    state_dir: Path, *, renew: bool = False, seconds: float = LOCK_SECONDS
) -> Iterator[OpenBook]:
    """The book for a change, waited for at most ``seconds`` long; ``renew`` as :class:`OpenBook`.

    What was read or written in it is on the disk when this ends. Its name is synced after the lock
    is free, so that those who wait do so for one sync each and not for two. Nobody acts on what is
    not on the disk yet: whoever read it under the lock syncs the same directory before it goes on.
    Raises :class:`BookError`, :class:`BusyError`, ``OSError``.
    """
    with contextlib.ExitStack() as after, locked(state_dir, seconds):
        book = OpenBook(state_dir, renew=renew)
        # Registered outside of the lock, so it runs when the lock is free; also after an error.
        after.callback(sync_directory, directory(state_dir))
        yield book


@contextlib.contextmanager
def locked(state_dir: Path, seconds: float = LOCK_SECONDS) -> Iterator[None]:
    """The lock of all of the gate's files, for a process's main thread: an alarm ends its wait.

    Raises :class:`BusyError`, ``OSError``.
    """
    place = directory(state_dir)
    # The directory's own name must be durable before anything in it can be.
    if not place.is_dir():
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        sync_directory(state_dir)
    path = place / "book.lock"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        _flock(descriptor, path, seconds)
        yield
    finally:
        os.close(descriptor)


def _flock(descriptor: int, path: Path, seconds: float) -> None:
    """Waits in the kernel: many who looked again and again would keep the holder from its end."""
    before = signal.signal(signal.SIGALRM, _late)
    # Whoever started us may have left it blocked.
    blocked = signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    try:
        try:
            # 0 would switch the timer off, and the wait would have no end.
            signal.setitimer(signal.ITIMER_REAL, max(0.001, seconds))
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        finally:
            # Off before anything else: an alarm after the lock would break into the caller's work.
            signal.setitimer(signal.ITIMER_REAL, 0)
    except _LateError as error:
        raise BusyError(
            f"{path}: expected the lock within {seconds:.1f} s, found it held; "
            "see 'fuser -v' for by whom"
        ) from error
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGALRM, before)


class _LateError(Exception):
    """The time to wait for the lock is over."""


def _late(_signal: int, _frame: object) -> None:
    raise _LateError


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
