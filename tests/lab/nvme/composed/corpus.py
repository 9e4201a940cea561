"""Descriptions that are kept: one JSON object a line, in ``corpus.jsonl``."""

from __future__ import annotations

import json
from pathlib import Path

from tests.lab.nvme.composed.description import Description, description

PATH = Path(__file__).with_name("corpus.jsonl")


def read(path: Path = PATH) -> list[Description]:
    """All of them, in order. Raises DriveError or ValueError for a line that is none."""
    return [description(json.loads(line)) for line in path.read_text().splitlines() if line]


def add(drive: Description, path: Path = PATH) -> bool:
    """Keep one; False where there is one like it already, whatever its name."""
    known = read(path) if path.exists() else []
    parts = (drive.abilities, drive.lies, drive.odd)
    if any((one.abilities, one.lies, one.odd) == parts for one in known):
        return False
    with path.open("a") as stream:
        stream.write(json.dumps(drive.to_json(), separators=(",", ":")) + "\n")
    return True
