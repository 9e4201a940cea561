"""Guests that the gate refused their own drive: only a person can help them, so hellos tell of it.

Beside the book, and not in it: a release that does not know of this reads the book all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path

from eraser.errors import EraserError
from eraser.ownership import store
from eraser.ownership.model import Book, SteadyTime
from eraser.protocol.codec import LATE
from eraser.protocol.ticket import OwnerRefused
from eraser.state import notes

PASSES_WITHIN = 300.0
"""Seconds. Counters that a drive does not tell for so long are told of: it may be busy after a
reset, and its log (02h) fail for some minutes. After another boot it had that time."""


@dataclass(frozen=True)
class _Kept:
    refused: OwnerRefused
    let_in: SteadyTime | None
    """The owner's newest start then: with the next one it is over."""
    since: SteadyTime | None = field(default=None, metadata=LATE)
    """Not told yet: it may pass, and this was the first of its refusals."""


@dataclass(frozen=True)
class _AllKept:
    kept: tuple[_Kept, ...] = ()


@dataclass(frozen=True)
class Untold:
    """Those whose drive did not tell its counters, which may pass by itself, and when that was."""

    refused: tuple[OwnerRefused, ...]
    now: SteadyTime


def note(
    state_dir: Path, book: Book, refused: Iterable[OwnerRefused], untold: Untold | None = None
) -> None:
    """Keeps them, and those of before that still are. Needs the gate's lock; raises nothing: the
    guest hears why in any case, and a lost note is written anew with its next start."""
    kept = {each.refused.address: each for each in _standing(state_dir, book)}
    for each in refused:
        kept[each.address] = _Kept(each, _let_in(book, each))
    if untold is not None:
        for each in untold.refused:
            before = kept.get(each.address)
            if before is None:
                kept[each.address] = _Kept(each, _let_in(book, each), untold.now)
            # What is told already may say more than this: the drive was used.
            elif before.since is not None and not untold.now.within(PASSES_WITHIN, before.since):
                kept[each.address] = replace(before, refused=each, since=None)
    _write(state_dir, kept.values())


def _let_in(book: Book, refused: OwnerRefused) -> SteadyTime | None:
    owner = book.entry(refused.address).owner
    return None if owner is None else owner.let_in


def forget(state_dir: Path, address: str) -> None:
    """Drops the one at an address that needs no admission any more: its guest may start, and the
    book will not tell that it did. Needs the gate's lock; raises nothing."""
    kept = _kept(state_dir)
    if any(each.refused.address == address for each in kept):
        _write(state_dir, [each for each in kept if each.refused.address != address])


def standing(state_dir: Path, book: Book) -> tuple[OwnerRefused, ...]:
    """Who has such a drive still, was not let in since, and needs a person. Raises nothing."""
    return tuple(each.refused for each in _standing(state_dir, book) if each.since is None)


def _standing(state_dir: Path, book: Book) -> tuple[_Kept, ...]:
    return tuple(each for each in _kept(state_dir) if _still(each, book))


def _kept(state_dir: Path) -> tuple[_Kept, ...]:
    try:
        return notes.load(_file(state_dir), _AllKept()).kept
    except EraserError:
        # It guards nothing: a damaged one is as good as none.
        return ()


def _write(state_dir: Path, kept: Iterable[_Kept]) -> None:
    try:
        notes.save(_file(state_dir), _AllKept(tuple(kept)))
    except OSError:
        return


def _still(kept: _Kept, book: Book) -> bool:
    owner = book.entry(kept.refused.address).owner
    return owner is not None and owner.domain == kept.refused.domain and owner.let_in == kept.let_in


def _file(state_dir: Path) -> Path:
    return store.directory(state_dir) / "turned-away.json"
