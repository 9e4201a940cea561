"""Guests that the gate refused their own drive: only a person can help them, so hellos tell of it.

Beside the book, and not in it: a release that does not know of this reads the book all the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from eraser.errors import EraserError
from eraser.ownership import store
from eraser.ownership.model import Book, SteadyTime
from eraser.protocol import codec
from eraser.protocol.ticket import OwnerRefused
from eraser.state.journal import replace_whole


@dataclass(frozen=True)
class _Kept:
    refused: OwnerRefused
    let_in: SteadyTime | None
    """The owner's newest start then: with the next one it is over."""


@dataclass(frozen=True)
class _AllKept:
    kept: tuple[_Kept, ...] = ()


def note(state_dir: Path, book: Book, refused: Iterable[OwnerRefused]) -> None:
    """Keeps them, and those of before that still are. Needs the gate's lock; raises nothing: the
    guest hears why in any case, and a lost note is written anew with its next start."""
    new = {each.address: each for each in refused}
    kept = [each for each in _standing(state_dir, book) if each.refused.address not in new]
    for address, each in new.items():
        owner = book.entry(address).owner
        kept.append(_Kept(each, None if owner is None else owner.let_in))
    _write(state_dir, kept)


def forget(state_dir: Path, address: str) -> None:
    """Drops the one at an address that needs no admission any more: its guest may start, and the
    book will not tell that it did. Needs the gate's lock; raises nothing."""
    kept = _kept(state_dir)
    if any(each.refused.address == address for each in kept):
        _write(state_dir, [each for each in kept if each.refused.address != address])


def standing(state_dir: Path, book: Book) -> tuple[OwnerRefused, ...]:
    """Who has such a drive still and was not let in since. Raises nothing."""
    return tuple(each.refused for each in _standing(state_dir, book))


def _standing(state_dir: Path, book: Book) -> tuple[_Kept, ...]:
    return tuple(each for each in _kept(state_dir) if _still(each, book))


def _kept(state_dir: Path) -> tuple[_Kept, ...]:
    path = _file(state_dir)
    try:
        return codec.load(_AllKept, path.read_bytes(), str(path)).kept
    except (OSError, EraserError):
        # It guards nothing: a damaged one is as good as none.
        return ()


def _write(state_dir: Path, kept: Iterable[_Kept]) -> None:
    try:
        replace_whole(_file(state_dir), codec.canonical(_AllKept(tuple(kept))) + b"\n")
    except OSError:
        return


def _still(kept: _Kept, book: Book) -> bool:
    owner = book.entry(kept.refused.address).owner
    return owner is not None and owner.domain == kept.refused.domain and owner.let_in == kept.let_in


def _file(state_dir: Path) -> Path:
    return store.directory(state_dir) / "turned-away.json"
