"""The grammar as tables in Markdown, for ``docs/composed.md``."""

from __future__ import annotations

from collections.abc import Sequence

from tests.lab.nvme.composed.kept import SOURCES, Kept, What
from tests.lab.nvme.composed.oddities import ODDITIES, Odd
from tests.lab.nvme.composed.words import WORDS, Word


def tables() -> dict[str, str]:
    """Each by its name."""
    return {
        "kept": _table(
            ("part", "keeps", "source"),
            [(what.value, _part(what), SOURCES[what]) for what in What],
        ),
        "words of a read": _words([word for word in WORDS if word.of_read]),
        "words of what happened": _words(
            [word for word in WORDS if not word.of_read and not word.undetectable]
        ),
        "undetectable": _table(
            ("word", "shows it", "numbers", "why no eraser can be asked", "source"),
            [
                (word.name, word.says[choice], _numbers(word), word.undetectable, word.source)
                for word in WORDS
                if word.undetectable
                for choice in word.choices
            ],
        ),
        "oddities": _table(
            ("oddity", "the drive", "numbers", "must end", "source"),
            [
                (
                    one.name,
                    one.says if one.name != "small-transfers" else Odd(one.name, 5).sentence,
                    ", ".join(map(str, one.numbers)) if "{n}" in one.says else "",
                    one.expected.value,
                    one.source,
                )
                for one in ODDITIES
            ],
        ),
    }


def _part(what: What) -> str:
    drawn = {
        What.STRIPE: Kept(what, 7, 65536),
        What.SCATTERED: Kept(what, 100),
        What.SECTORS: Kept(what, 2),
        What.HEAD: Kept(what, unit=65536),
        What.TAIL: Kept(what, unit=65536),
        What.RECENT: Kept(what, 64),
        What.OLD: Kept(what, 64),
    }
    return drawn.get(what, Kept(what)).sentence + (", as an example" if what in drawn else "")


def _words(words: list[Word]) -> str:
    rows = []
    for word in words:
        for choice in word.choices:
            numbers = _numbers(word) if "{n}" in word.says[choice] else ""
            source = word.source if choice == word.choices[0] else ""
            rows.append((f"{word.name} {choice}".rstrip(), word.says[choice], numbers, source))
    return _table(("word", "shows it", "numbers", "source"), rows)


def _numbers(word: Word) -> str:
    return ", ".join(str(number) for number in sorted(set(word.numbers)))


def _table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
    lines = [head, tuple("---" for _ in head), *rows]
    text = "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"
    return text.replace("{n}", "N")
