"""What came of each drive, where it is kept, and whether it is as it should be. Little I/O."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from tests.lab.guest.payload import REPOSITORY
from tests.lab.nvme.presetkind import Expected

JUDGED = ("eraser", "tests/lab/guest", "tests/lab/nvme", "tests/lab/rack", "benchmarks/zoo")


@dataclass(frozen=True)
class Result:
    """One drive. ``commands`` counts the admin commands that the drive was sent.

    ``leaked_blocks`` are those of 4 KiB that the next tenant could read: the tenant's blocks found
    on the backing file where the drive is handed out. ``left_blocks`` are those on the drive in
    any case; a drive that is held may keep them.
    """

    preset: str
    about: str
    expected: str
    verdict: str
    fit: bool
    seconds: float
    commands: int
    leaked_blocks: int
    left_blocks: int
    tenant_blocks: int
    outcome: str
    achieved: str
    resumed: int
    hung: bool
    steps: dict[str, float] = field(default_factory=dict)
    """Seconds of the last call's steps, as the eraser reports them."""
    destructive: list[str] = field(default_factory=list)
    reasons: list[str] = field(default_factory=list)
    version: str = ""

    @property
    def released(self) -> bool:
        """Whether the drive would be handed out."""
        return self.verdict == "erased" and self.fit

    @property
    def wrong(self) -> str:
        """What is not as it should be, or nothing."""
        if self.leaked_blocks:
            return f"{self.leaked_blocks} blocks leaked"
        if self.hung:
            return "it hung"
        if self.expected == Expected.ERASED and not self.released:
            return "an honest drive was held: " + "; ".join(self.reasons)
        if self.expected == Expected.HELD and self.released:
            return "a drive that must be held was released"
        return ""


def version(judged: Sequence[str] = JUDGED) -> str:
    """A digest of the code that decides the results: what another version found is not kept."""
    digest = hashlib.blake2b(digest_size=8)
    for part in judged:
        # Not Python alone: the guest's programs and the portraits of drives decide too.
        for path in sorted((REPOSITORY / part).rglob("*")):
            if path.is_file() and path.parent.name != "__pycache__":
                digest.update(path.read_bytes())
    return digest.hexdigest()


def code(versions: Collection[str]) -> str:
    """The sentence that says of which code a page's results are."""
    found = ", ".join(f"`{one}`" for one in sorted(versions) if one) or "unknown"
    if len(versions) > 1:
        return f"**Not of one code**: digests {found}."
    return f"All of one code, whose digest is {found} (`benchmarks.zoo.result.version`)."


def load(path: Path, *, only: str | None = None) -> dict[str, Result]:
    """Kept results by preset; with ``only``, those of one version of the code.

    A line that a kill tore is as if it had not been written.
    """
    found: dict[str, Result] = {}
    if not path.exists():
        return found
    for line in path.read_text().splitlines():
        try:
            one = Result(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if only is None or one.version == only:
            found[one.preset] = one
    return found


def append(path: Path, result: Result) -> None:
    """Keep a result; a whole line or nothing that ``load`` would read."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("a") as stream:
        stream.write(json.dumps(asdict(result)) + "\n")


def summary(results: Sequence[Result]) -> dict[str, int]:
    """The figures that matter."""
    honest = [one for one in results if one.expected == Expected.ERASED]
    return {
        "presets": len(results),
        "expected_erased": len(honest),
        "honest_held": sum(not one.released for one in honest),
        "wrongly_released": sum(one.released for one in results if one.expected == Expected.HELD),
        "leaked_blocks": sum(one.leaked_blocks for one in results),
        "hangs": sum(one.hung for one in results),
    }


def table(results: Iterable[Result]) -> str:
    """For people."""
    lines = [
        f"{'preset':22} {'expected':8} {'verdict':10} {'fit':5} {'seconds':>7} {'commands':>8} "
        f"{'leaked':>6} {'left':>6}"
    ]
    for one in results:
        lines.append(
            f"{one.preset:22} {one.expected:8} {one.verdict:10} {'yes' if one.fit else 'no':5} "
            f"{one.seconds:7.1f} {one.commands:8} {one.leaked_blocks:6} {one.left_blocks:6}"
            + (f"  WRONG: {one.wrong}" if one.wrong else "")
        )
    return "\n".join(lines)
