"""What people read of a run: seed and commit, how to replay it, and its history."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.site.site import Result

_HISTORY = 60


def commit() -> str:
    """The checkout's, with a plus where something in it is changed; ``unknown`` without git."""
    here = Path(__file__).parent
    try:
        words = ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12"]
        return subprocess.run(words, check=True, capture_output=True, text=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def failure(result: Result, arguments: str) -> str:
    """A run with a finding. ``arguments`` repeat how it was drawn."""
    script = result.script
    lines = [
        f"{result.findings[0]}",
        f"seed {script.seed}, commit {commit()}; again: "
        f"python -m tests.site.replay {script.seed} --mode {script.mode}{arguments}",
        f"{script.hosts} hosts with {script.slots} slots, gate {script.gate}, patched "
        f"{script.patched}, {script.latency * 1000:g} ms a request",
        f"deeds ({len(script.deeds)}):",
        *(f"  {deed}" for deed in script.deeds[-_HISTORY:]),
        "history:",
        *(f"  {line}" for line in result.history[-_HISTORY:]),
    ]
    return "\n".join(lines)
