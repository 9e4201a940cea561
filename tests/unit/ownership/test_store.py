"""The gate's file: whole or refused, one writer at a time, of one incarnation."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import hashlib
import json
import os
import signal
import stat
import time
from pathlib import Path

import pytest

from eraser.errors import BusyError
from eraser.ownership import audit
from eraser.ownership import store as books
from eraser.ownership.model import MAX_ALLOWANCES, Book, SlotEntry
from eraser.ownership.store import BookError
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.ticket import AllowanceUsed, TicketState
from eraser.state.hostcard import CARD_FILE
from tests.unit.ownership.parts import (
    ADDRESS,
    ALLOWED,
    EMPTY,
    INCARNATION,
    KEPT,
    OTHER_ADDRESS,
    OWNER,
    kept,
)

FULL = EMPTY.with_entry(SlotEntry(OTHER_ADDRESS, owner=OWNER, ticket=KEPT)).with_entry(
    SlotEntry(ADDRESS, owner=OWNER, ticket=KEPT, allowance=ALLOWED)
)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    register(tmp_path, INCARNATION)
    return tmp_path


def register(directory: Path, incarnation: str) -> None:
    card = HostCard("compute-1", incarnation, {})
    (directory / CARD_FILE).write_bytes(codec.canonical(card))


def write(state: Path, book: Book) -> None:
    with books.opened(state) as found:
        found.write(book)


def test_what_was_written_is_read(state: Path) -> None:
    assert not books.exists(state)
    assert books.load(state) == EMPTY
    write(state, FULL)
    assert books.exists(state)
    assert books.load(state) == FULL
    assert books.book_file(state).stat().st_mode & 0o777 == 0o600
    assert books.directory(state).stat().st_mode & 0o777 == 0o700


def test_one_byte_of_damage_is_noticed_wherever_it_is(state: Path) -> None:
    write(state, FULL)
    path = books.book_file(state)
    raw = path.read_bytes()
    for place in range(0, len(raw), 7):
        path.write_bytes(raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :])
        with pytest.raises(books.BookError, match="gate adopt --renew"):
            books.load(state)
    for cut in (0, 1, len(raw) // 2, len(raw) - 1):
        path.write_bytes(raw[:cut])
        with pytest.raises(books.BookError):
            books.load(state)
    assert path.read_bytes() == raw[:-1], "never mended by itself"


def test_a_book_of_a_newer_release_is_not_called_damaged(state: Path) -> None:
    """Whoever goes back a release is not told to put its tickets aside."""
    write(state, FULL)
    path = books.book_file(state)
    line = codec.canonical(json.loads(path.read_bytes().splitlines()[0]) | {"later": 1})
    path.write_bytes(line + b"\n" + hashlib.sha256(line).hexdigest().encode() + b"\n")
    with pytest.raises(books.BookError, match="install the release that wrote it") as found:
        books.load(state)
    assert "damaged" not in str(found.value)


def test_a_slot_that_an_earlier_release_took_by_another_spelling_hides_no_other(
    state: Path,
) -> None:
    """'gate allow --pci 00000000:01:00.0' of then: the word helped nobody, nor does it now."""
    write(state, FULL)
    before = json.loads(books.book_file(state).read_bytes().partition(b"\n")[0])
    odd = {**before["entries"][0], "address": f"0000{ADDRESS}", "owner": None, "ticket": None}
    line = codec.canonical({**before, "entries": [odd, *before["entries"]]})
    mark = hashlib.sha256(line).hexdigest().encode()
    books.book_file(state).write_bytes(line + b"\n" + mark + b"\n")
    assert [books.load(state).entry(each.address) for each in FULL.entries] == list(FULL.entries)


@pytest.mark.parametrize("spelt", ["00000000:01:00.0", "0000:01:00.0", "00000000:0A:00.0"])
def test_an_exemption_is_of_the_slot_that_its_address_names_however_it_is_spelt(
    state: Path, spelt: str
) -> None:
    path = audit.exempt_file(state)
    path.parent.mkdir()
    one = {"address": spelt, "reason": "scratch", "by": "ada", "at": "now"}
    path.write_text(json.dumps({"exemptions": [one]}))
    address = "0000:0a:00.0" if "A" in spelt else "0000:01:00.0"
    assert audit.exemptions(state).addresses == {address}
    path.write_text(json.dumps({"exemptions": [{**one, "address": "1:00.0"}]}))
    with pytest.raises(BookError, match=r"exempt.json: expected a PCI address such as .*'1:00.0'"):
        audit.exemptions(state)


def test_another_incarnation_keeps_owners_and_nothing_that_lets_in(state: Path) -> None:
    write(state, FULL)
    register(state, "2" * 32)
    found = books.load(state)
    assert found.incarnation == "2" * 32
    for entry in found.entries:
        assert entry.owner == OWNER, "its drive is still its drive"
        assert entry.owner.incarnation != found.incarnation, "and it is not let in by it"
        assert (entry.ticket, entry.allowance) == (None, None)


def test_one_writer_at_a_time(state: Path) -> None:
    late = books.opened(state, seconds=0.05)
    with books.opened(state), pytest.raises(BusyError, match=r"book\.lock"), late:
        pass
    with books.opened(state):
        pass


def later(state: Path, seconds: float) -> int:
    """A process of its own that holds the lock for so long; it does by now."""
    ready, theirs = os.pipe()
    pid = os.fork()
    if not pid:
        with books.locked(state):
            os.write(theirs, b"x")
            time.sleep(seconds)
        os._exit(0)
    os.read(ready, 1)
    os.close(ready)
    os.close(theirs)
    return pid


@pytest.mark.parametrize("start", ["plain", "ignored", "blocked"])
def test_the_lock_is_waited_for_however_we_were_started(state: Path, start: str) -> None:
    """Longer than the two seconds that many guests at once once had."""
    before = signal.getsignal(signal.SIGALRM)
    if start == "ignored":
        signal.signal(signal.SIGALRM, signal.SIG_IGN)
    mask = {signal.SIGALRM} if start == "blocked" else set()
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, mask)
    try:
        pid = later(state, 2.3 if start == "plain" else 0.3)
        with books.opened(state):
            pass
        os.waitpid(pid, 0)
        pid = later(state, 0.5)
        with pytest.raises(BusyError), books.opened(state, seconds=0.1):
            pass
        os.waitpid(pid, 0)
        assert signal.pthread_sigmask(signal.SIG_BLOCK, set()) == blocked | mask
        kept = signal.SIG_IGN if start == "ignored" else before
        assert signal.getsignal(signal.SIGALRM) == kept
        assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, blocked)
        signal.signal(signal.SIGALRM, before)


@pytest.fixture
def synced(state: Path, monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, bool]]:
    """Every fsync from here on: of a file or a directory, and whether the book's lock was held."""
    write(state, EMPTY)
    found: list[tuple[str, bool]] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        with open(books.directory(state) / "book.lock") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                held = False
            except BlockingIOError:
                held = True
        kind = "directory" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "file"
        found.append((kind, held))
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return found


def test_who_waits_for_the_lock_waits_for_one_sync_each(
    state: Path, synced: list[tuple[str, bool]]
) -> None:
    write(state, FULL)
    assert synced == [("file", True), ("directory", False)]


def test_what_another_wrote_is_on_the_disk_before_anybody_goes_on_with_it(
    state: Path, synced: list[tuple[str, bool]]
) -> None:
    """Whoever wrote it may have died before it synced the name."""
    write(state, EMPTY)
    assert synced == [("directory", False)]
    synced.clear()
    with contextlib.suppress(BusyError), books.opened(state) as book:
        book.write(FULL)
        raise BusyError("refused all the same")
    assert synced[-1] == ("directory", False)


def test_a_book_that_did_not_change_is_not_written(state: Path) -> None:
    write(state, FULL)
    before = books.book_file(state).stat().st_ino
    write(state, books.load(state))
    assert books.book_file(state).stat().st_ino == before


def test_a_doubt_ends_with_the_last_owner_whose_drive_nobody_read(state: Path) -> None:
    """And the file is one that the former release reads."""
    unread = dataclasses.replace(OWNER, identity=None)
    doubted = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=KEPT, doubted=True))
    write(state, doubted.with_entry(SlotEntry(OTHER_ADDRESS, owner=unread)))
    assert books.load(state).entry(ADDRESS).doubted
    for settled in (SlotEntry(OTHER_ADDRESS, owner=OWNER), SlotEntry(OTHER_ADDRESS)):
        write(state, doubted.with_entry(settled))
        assert not books.load(state).entry(ADDRESS).doubted
        assert b"doubted" not in books.book_file(state).read_bytes()


def test_tickets_as_a_hello_tells_them() -> None:
    book = EMPTY.with_entry(SlotEntry(ADDRESS, ticket=kept(state=TicketState.VOID, reason="why")))
    (seen,) = books.seen_tickets(book.with_entry(SlotEntry(OTHER_ADDRESS, owner=OWNER)))
    assert (seen.address, seen.generation, seen.state, seen.reason) == (
        ADDRESS,
        5,
        TicketState.VOID,
        "why",
    )


def test_used_words_do_not_pile_up() -> None:
    book = EMPTY
    for number in range(MAX_ALLOWANCES + 5):
        book = book.with_used(AllowanceUsed(ADDRESS, "d", "by", str(number), "at"))
    assert len(book.used_allowances) == MAX_ALLOWANCES
    assert book.used_allowances[-1].reason == str(MAX_ALLOWANCES + 4)


def test_a_slot_stands_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        dataclasses.replace(EMPTY, entries=(SlotEntry(ADDRESS), SlotEntry(ADDRESS)))
