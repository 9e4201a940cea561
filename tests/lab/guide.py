"""The commands of a page of docs, as they stand there: played by a unit test, run in guests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

GUIDE: Final = Path(__file__).parents[2] / "docs" / "operators.md"
"""What operators install by."""


def blocks(page: Path, section: str = "", language: str = "") -> Iterator[list[str]]:
    """The lines of each fenced block of a language, of one section or of all."""
    found: list[str] | None = None
    here = spoken = ""
    for line in page.read_text().splitlines():
        text = line.strip()
        if text.startswith("```"):
            if found is None:
                # Of any language: the end of one block is not the beginning of another.
                found, spoken = [], text.removeprefix("```")
                continue
            lines = "\n".join(found).replace("\\\n", "").splitlines()
            if spoken == language and (not section or here == section):
                yield lines
            found = None
        elif found is not None:
            found.append(text)
        elif line.startswith("## "):
            here = line.removeprefix("## ")
