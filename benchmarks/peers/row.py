"""What one tool made of one drive."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Row:
    """One tool on one drive. ``released``: the tool calls it a success."""

    tool: str
    preset: str
    expected: str
    released: bool
    leaked_blocks: int
    left_blocks: int
    seconds: float
    said: str
    version: str = ""
    """Of the code that decides the results."""

    @property
    def key(self) -> str:
        """What a result is kept under."""
        return f"{self.tool}/{self.preset}"
