"""Results of composed drives in guests: kept a line each, counted, and held against the process."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Final

from tests.lab.nvme.composed.trial import Outcome

JUDGED: Final = ("eraser", "tests/lab/nvme", "tests/lab/rack", "benchmarks/composed")


@dataclass(frozen=True)
class Row:
    """One seed. ``outcome`` is of the guests, ``in_process`` of the same seed without any."""

    seed: int
    sentence: str
    honest: bool
    undetectable: str
    outcome: str
    verdict: str
    fit: bool
    hung: bool
    seconds: float
    reasons: list[str]
    kept: dict[str, int]
    guest_got: dict[str, int]
    host_got: dict[str, int]
    in_process: str
    in_process_got: list[str] = field(default_factory=list)
    """Stores that the second tenant got something of there."""
    in_process_reasons: list[str] = field(default_factory=list)
    version: str = ""

    @property
    def released(self) -> bool:
        """Whether the eraser would let it go."""
        return self.verdict == "erased" and self.fit

    @property
    def leaked(self) -> bool:
        """Whether the second tenant got something, by the guest or by the host after it."""
        return bool(self.guest_got or self.host_got)

    @property
    def differs(self) -> str:
        """How guests and process disagree, or nothing."""
        if self.outcome != self.in_process:
            return f"{self.outcome}, in process {self.in_process}"
        if self.leaked and not self.in_process_got:
            return "the second tenant got something, in process nothing"
        if self.in_process_got and not self.leaked:
            return "the second tenant got nothing, in process something"
        return ""


def load(path: Path, *, only: str | None = None) -> dict[int, Row]:
    """Kept rows by seed, with ``only`` those of one version; a torn line is as if not there."""
    found: dict[int, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if only is None or row.version == only:
            found[row.seed] = row
    return found


def append(path: Path, row: Row) -> None:
    """Keep one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(row)) + "\n")


def table(rows: Sequence[Row]) -> str:
    """Markdown: outcomes in guests, beside those of the same seeds in process."""
    lines = [
        "| outcome | in guests | in process | the second tenant's guest got data | "
        "the host after it too | the second tenant in process |",
        "|---|---|---|---|---|---|",
    ]
    for outcome in Outcome:
        mine = [row for row in rows if row.outcome == outcome]
        other = [row for row in rows if row.in_process == outcome]
        lines.append(
            f"| {outcome.value} | {len(mine)} | {len(other)} | "
            f"{_count(row.guest_got for row in mine)} | {_count(row.host_got for row in mine)} | "
            f"{_count(row.in_process_got for row in other)} |"
        )
    differing = [row for row in rows if row.differs]
    lines.append(f"\n{len(rows)} drives, of which {len(rows) - len(differing)} ended alike.")
    return "\n".join([*lines, *(f"- {row.seed}: {row.differs}" for row in differing)])


def through(rows: Sequence[Row]) -> list[str]:
    """What was released with something on it, a line each."""
    return [
        f"- {row.seed}: {row.sentence}"
        + (f" ({row.undetectable})" if row.undetectable else "")
        + "".join(f"; {act}: {count}" for act, count in (row.guest_got | row.host_got).items())
        for row in rows
        if row.outcome in (Outcome.LET_THROUGH, Outcome.HELD_FOR_NOTHING)
    ]


def _count(things: Iterable[object]) -> int:
    return sum(bool(thing) for thing in things)
