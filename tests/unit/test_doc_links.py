"""Pages name what is there: files and headings that links lead to, and tests."""

from __future__ import annotations

import re
from collections import Counter
from functools import cache
from pathlib import Path
from urllib.parse import unquote

import pytest

TOP = Path(__file__).resolve().parents[2]
PAGES = sorted(
    path
    for path in (*TOP.glob("*.md"), *TOP.glob("*/**/*.md"))
    if not any(
        part.startswith(".") or part == "node_modules" for part in path.parts[len(TOP.parts) :]
    )
)
_FENCE = re.compile(r"^(```|~~~).*?^\1", re.MULTILINE | re.DOTALL)
_CODE = re.compile(r"`[^`\n]*`")
_LINK = re.compile(r"(?<!\\)\[(?:[^\[\]]|\[[^\]]*\])*\]\(\s*<?([^)\s>]+)>?[^)]*\)")
_HEADING = re.compile(r"^#{1,6}\s+(.+?)\s*#*$", re.MULTILINE)
_NAMED = re.compile(r"<a\s+(?:id|name)=\"([^\"]+)\"")


def links(text: str) -> list[str]:
    """Where a page leads, but for examples in code."""
    return _LINK.findall(_CODE.sub("``", _FENCE.sub("", text)))


def anchors(text: str) -> frozenset[str]:
    """What a page's headings are called in links, as GitHub does it."""
    found: list[str] = []
    times: Counter[str] = Counter()
    for heading in _HEADING.findall(_FENCE.sub("", text)):
        words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "")
        name = re.sub(r"[^\w\- ]", "", words.lower()).replace(" ", "-")
        found.append(f"{name}-{times[name]}" if times[name] else name)
        times[name] += 1
    return frozenset(found) | frozenset(_NAMED.findall(text))


@cache
def _anchors_of(page: Path) -> frozenset[str]:
    return anchors(page.read_text())


def broken(page: Path, text: str) -> list[str]:
    """The page's links that lead nowhere."""
    found = []
    for link in links(text):
        if re.match(r"[a-z][a-z0-9+.-]*:", link):
            continue
        name, _, anchor = unquote(link).partition("#")
        there = (page.parent / name).resolve() if name else page
        inside = there == TOP or TOP in there.parents
        if not inside or not there.exists():
            found.append(f"{link}: there is no such file")
        elif anchor and there.suffix == ".md":
            known = anchors(text) if there == page else _anchors_of(there)
            if anchor not in known:
                found.append(f"{link}: there is no such heading")
    return found


@cache
def known_tests() -> frozenset[str]:
    """Modules and functions by which a page may name a test; Nova's are in the list of those that
    differ with the patch."""
    files = list((TOP / "tests").rglob("test_*.py"))
    ours = (re.findall(r"def (test_\w+)", file.read_text()) for file in files)
    novas = re.findall(r"\.(test_\w+)", (TOP / "tests/novasuites/compare.py").read_text())
    return frozenset(file.stem for file in files).union(novas, *ours)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_link_leads_somewhere(page: Path) -> None:
    assert broken(page, page.read_text()) == []


def test_a_link_that_leads_nowhere_is_seen() -> None:
    page = TOP / "docs" / "operators.md"
    text = (
        "# A `heading` (of two)\n## Twice\n## Twice\n"
        "[a](#a-heading-of-two) [b](#twice-1) [c](design.md) [d](https://x/y) [e](../README.md)\n"
        "[f](#twice-2) [g](no-such-page.md) [h](design.md#no-such-heading) [i](../../outside.md)\n"
        "`[j](code.md)`\n```\n[k](fenced.md)\n```\n"
    )
    assert [found.partition(":")[0] for found in broken(page, text)] == [
        "#twice-2",
        "no-such-page.md",
        "design.md#no-such-heading",
        "../../outside.md",
    ]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(TOP)))
def test_every_test_that_a_page_names_is_there(page: Path) -> None:
    named = set(re.findall(r"`(?:\w+[/.])*(test_\w+)(?:\.py)?`", page.read_text()))
    assert named - known_tests() == set()
