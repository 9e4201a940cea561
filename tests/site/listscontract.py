"""What the lists of hosts promise to the intake, as cases for Redis and for the simulated ones.

``tests/site/test_lists.py`` runs them on the simulated lists, ``tests/services`` on Redis.
"""

from __future__ import annotations

from typing import Final, Protocol

import pytest

from eraser.protocol.inbound import BOUNDS, MessageKind, key
from quarantine.service.inbound.intake import ReadsLists

HOST: Final = "cmp1"
REPORT, BELL = key(MessageKind.REPORT, HOST), key(MessageKind.BELL, HOST)


class Door(Protocol):
    """Both ends of the lists."""

    @property
    def lists(self) -> ReadsLists:
        """The control plane's end."""

    def push(self, kind: MessageKind, text: str) -> None:
        """As ``HOST`` does."""

    def let_pass(self, seconds: float) -> None:
        """So much time goes by."""


class ListsContract:
    """Subclass it with a fixture ``door`` to lists that are empty."""

    def say(self, door: Door, *texts: str) -> None:
        for text in texts:
            door.push(MessageKind.REPORT, text)

    def left(self, door: Door, name: str) -> list[bytes]:
        """What is in a list, which is empty afterwards."""
        found = []
        while (entry := door.lists.head(name)) is not None:
            found.append(entry)
            door.lists.remove(name, entry)
        return found

    def test_who_was_first_is_at_the_head(self, door: Door) -> None:
        self.say(door, "a", "b", "c")
        assert (door.lists.head(REPORT), door.lists.tail(REPORT)) == (b"a", b"c")
        assert self.left(door, REPORT) == [b"a", b"b", b"c"]
        assert (door.lists.head(REPORT), door.lists.tail(REPORT)) == (None, None)

    def test_full_are_those_in_which_something_is(self, door: Door) -> None:
        door.push(MessageKind.BELL, "")
        self.say(door, "a")
        asked = [key(kind, HOST) for kind in MessageKind]
        assert door.lists.full([*asked, key(MessageKind.REPORT, "cmp2")]) == [REPORT, BELL]
        assert door.lists.head(BELL) == b""
        self.left(door, BELL)
        assert door.lists.full(asked) == [REPORT]
        assert (door.lists.length(REPORT), door.lists.length(BELL)) == (1, 0)

    def test_of_two_that_are_alike_one_is_removed(self, door: Door) -> None:
        self.say(door, "a", "b", "a")
        door.lists.remove(REPORT, b"a")
        door.lists.remove(REPORT, b"z")
        assert self.left(door, REPORT) == [b"b", b"a"]

    @pytest.mark.parametrize(
        ("keep", "oldest", "left"),
        [(2, True, [b"a", b"b"]), (2, False, [b"b", b"c"]), (9, False, [b"a", b"b", b"c"])],
    )
    def test_a_list_that_is_cut_keeps_one_end(
        self, door: Door, keep: int, oldest: bool, left: list[bytes]
    ) -> None:
        self.say(door, "a", "b", "c")
        door.lists.cut(REPORT, keep, oldest=oldest)
        assert self.left(door, REPORT) == left

    def test_what_is_dropped_is_gone(self, door: Door) -> None:
        self.say(door, "a", "b")
        door.lists.drop(REPORT)
        assert door.lists.full([REPORT]) == []

    @pytest.mark.parametrize("kind", MessageKind)
    def test_a_host_keeps_the_newest_of_what_it_says_again(
        self, door: Door, kind: MessageKind
    ) -> None:
        bound = BOUNDS[kind]
        for number in range(bound.keep + 3):
            door.push(kind, str(number))
        cut = bound.seconds is not None
        assert door.lists.length(key(kind, HOST)) == bound.keep + 3 * (not cut)
        assert door.lists.head(key(kind, HOST)) == (b"3" if cut else b"0")

    @pytest.mark.parametrize("kind", MessageKind)
    def test_what_is_said_again_is_stale_some_time_after_the_last_word(
        self, door: Door, kind: MessageKind
    ) -> None:
        seconds = BOUNDS[kind].seconds
        for _ in range(2):
            door.push(kind, "a")
            door.let_pass(0.75 * (seconds or 86400))
        assert door.lists.length(key(kind, HOST)) == 2
        door.let_pass(0.5 * (seconds or 86400))
        assert door.lists.length(key(kind, HOST)) == 2 * (seconds is None)
