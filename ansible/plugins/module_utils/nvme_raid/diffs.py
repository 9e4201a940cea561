"""Steps as Ansible's diff mode and a terminal show them."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from .steps import Step, WriteFile


def of(steps: Sequence[Step]) -> list[dict[str, str]]:
    """One entry per file, and one for all that is no file, in Ansible's own form."""
    found = []
    others = [step.text for step in steps if not isinstance(step, WriteFile)]
    if others:
        found.append({"prepared": "".join(f"+ {text}\n" for text in others)})
    for step in steps:
        if isinstance(step, WriteFile):
            header = {"before_header": step.path, "after_header": step.path}
            found.append(
                {**header, "before": _shown(step.before or ""), "after": _shown(step.after)}
            )
    return found


def text(steps: Sequence[Step]) -> str:
    """The same as one unified diff."""
    parts = []
    for entry in of(steps):
        if "prepared" in entry:
            parts.append(entry["prepared"])
            continue
        before = entry["before"].splitlines(keepends=True)
        after = entry["after"].splitlines(keepends=True)
        path = entry["after_header"]
        parts += difflib.unified_diff(before, after, path, path, n=1)
    return "".join(part if part.endswith("\n") else part + "\n" for part in parts)


def _shown(content: str) -> str:
    # A file may hold bytes that are no text; JSON may not.
    return content.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
