"""What docs/model.md says of the guards is what their books have."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path

TOP = Path(__file__).parents[2]


def book(name: str) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = json.loads((TOP / "tests/model" / name).read_text())
    return found


def test_the_guards_are_as_many_as_the_page_says() -> None:
    page = (TOP / "docs/model.md").read_text()
    witnessed, others = book("witnesses.json"), book("unwitnessed.json")
    said = re.search(r"\((\d+) of them\)[^(]*has for (\d+) of them", page)
    assert said is not None
    assert [int(each) for each in said.groups()] == [len(witnessed) + len(others), len(witnessed)]
    reasons = Counter(each["reason"] for each in others.values())
    line = next(line for line in page.splitlines() if line.startswith("There are "))
    assert {name: int(n) for n, name in re.findall(r"(\d+) of `(\w+)`", line)} == reasons
