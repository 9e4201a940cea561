"""The trace as a page, with what the visit has for each act. Pure but for :func:`load`."""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path
from typing import Any, Final

from tests.lab.firstacts.answers import answer, drivers

_DOCS: Final = Path(__file__).parents[3] / "docs"
TRACE: Final = _DOCS / "first-acts.json"
PAGE: Final = _DOCS / "first-acts.md"
_HEAD: Final = """\
# What a next tenant does first with a drive

Made by `python -m tests.lab.firstacts`: a compute host of the lab hands three drives over to a
guest, real programs work on them, and the drives' own logs say what they were told
([first-acts.json](first-acts.json) has the counts). A test holds each kind of act against the
[visit](decisions/visit.md), by the log of a drive that an eraser's own case had: it is done there
on a sample, or the certificate prints that it was not, or the right column says why it can show
nothing. `--page` makes the page again from the trace that is kept.

"""


def load() -> dict[str, Any]:
    """The trace that is kept."""
    found: dict[str, Any] = json.loads(TRACE.read_text())
    return found


def render(trace: dict[str, Any], ours: Collection[str]) -> str:
    """The page; ``ours`` is what an eraser's own case does."""
    driver = drivers(trace)
    lines = [f"Guest: Linux {trace['kernel']}; {', '.join(trace['programs'])}.", ""]
    lines += ["## What was done", "", "| what | how |", "| --- | --- |"]
    lines += [f"| {each['what']} | {_code(each['how'])} |" for each in trace["activities"]]
    lines += ["", "## What the drives saw", ""]
    lines += ["| act | seen in | the visit's, or why there is none |", "| --- | --- | --- |"]
    seen: dict[str, list[str]] = {}
    for each in trace["activities"]:
        for act in each["acts"]:
            seen.setdefault(act, []).append(each["what"])
    lines += [
        f"| {act} | {_some(where)} | {answer(act, ours, driver).words} |"
        for act, where in sorted(seen.items())
    ]
    return _HEAD + "\n".join(lines) + "\n"


def _code(how: str) -> str:
    return "`" + how.replace("|", "\\|") + "`" if ";" in how or "$" in how else how


def _some(where: list[str]) -> str:
    shown = ", ".join(where[:3])
    return f"{shown} and {len(where) - 3} more" if len(where) > 3 else shown
