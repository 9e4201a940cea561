"""Notes beside the books: what was saved is read, and none is none."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.errors import BadInputError
from eraser.state import notes


@dataclass(frozen=True)
class Fact:
    """A note of this test."""

    words: tuple[str, ...] = ()


def test_what_was_saved_is_read_and_replaced_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "fact.json"
    assert notes.load(path, Fact()) == Fact()
    for said in (Fact(("a", "b")), Fact(("c",))):
        notes.save(path, said)
        assert notes.load(path, Fact()) == said
    assert [each.name for each in path.parent.iterdir()] == ["fact.json"]


def test_a_later_release_may_have_more_to_say(tmp_path: Path) -> None:
    path = tmp_path / "fact.json"
    path.write_text('{"words": ["a"], "since": 5}')
    assert notes.load(path, Fact()) == Fact(("a",))


@pytest.mark.parametrize("damaged", ["", "{", "[]", '{"words": 5}', '{"words": ["a"', "\0"])
def test_a_damaged_one_is_not_taken_for_none(tmp_path: Path, damaged: str) -> None:
    path = tmp_path / "fact.json"
    path.write_text(damaged)
    with pytest.raises(BadInputError, match=r"fact\.json"):
        notes.load(path, Fact())


def test_one_that_cannot_be_read_is_not_taken_for_none(tmp_path: Path) -> None:
    with pytest.raises(BadInputError, match="found Is a directory"):
        notes.load(tmp_path, Fact())
