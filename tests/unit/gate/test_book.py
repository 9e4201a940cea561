"""The gate's file: whole or refused, one writer at a time, of one incarnation."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import pytest

from eraser.errors import BusyError
from eraser.gate import book as books
from eraser.gate.records import MAX_USED_ALLOWANCES, Book, Entry
from eraser.hostcard import CARD_FILE, HostCard
from eraser.wire import codec
from eraser.wire.ticket import AllowanceUsed, TicketState
from tests.unit.gate.parts import (
    ADDRESS,
    ALLOWED,
    EMPTY,
    INCARNATION,
    KEPT,
    OTHER_ADDRESS,
    OWNER,
    kept,
)

FULL = EMPTY.with_entry(Entry(OTHER_ADDRESS, owner=OWNER, ticket=KEPT)).with_entry(
    Entry(ADDRESS, owner=OWNER, ticket=KEPT, allowance=ALLOWED)
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


def test_another_incarnation_keeps_owners_and_nothing_that_lets_in(state: Path) -> None:
    write(state, FULL)
    register(state, "2" * 32)
    found = books.load(state)
    assert found.incarnation == "2" * 32
    for entry in found.entries:
        assert entry.owner == OWNER, "its drive is still its drive"
        assert entry.owner.incarnation != found.incarnation, "and it is not let in by it"
        assert (entry.ticket, entry.allowance) == (None, None)


def test_one_writer_at_a_time(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(books, "LOCK_PATIENCE", 0.05)
    with books.opened(state), pytest.raises(BusyError, match=r"book\.lock"), books.opened(state):
        pass
    with books.opened(state):
        pass


def test_a_book_that_did_not_change_is_not_written(state: Path) -> None:
    write(state, FULL)
    before = books.book_file(state).stat().st_ino
    write(state, books.load(state))
    assert books.book_file(state).stat().st_ino == before


def test_tickets_as_a_hello_tells_them() -> None:
    book = EMPTY.with_entry(Entry(ADDRESS, ticket=kept(state=TicketState.VOID, reason="why")))
    (seen,) = books.seen_tickets(book.with_entry(Entry(OTHER_ADDRESS, owner=OWNER)))
    assert (seen.address, seen.generation, seen.state, seen.reason) == (
        ADDRESS,
        5,
        TicketState.VOID,
        "why",
    )


def test_used_words_do_not_pile_up() -> None:
    book = EMPTY
    for number in range(MAX_USED_ALLOWANCES + 5):
        book = book.with_used(AllowanceUsed(ADDRESS, "d", "by", str(number), "at"))
    assert len(book.used_allowances) == MAX_USED_ALLOWANCES
    assert book.used_allowances[-1].reason == str(MAX_USED_ALLOWANCES + 4)


def test_a_slot_stands_once() -> None:
    with pytest.raises(ValueError, match="twice"):
        dataclasses.replace(EMPTY, entries=(Entry(ADDRESS), Entry(ADDRESS)))
