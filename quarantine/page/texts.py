"""Words, numbers and times for eyes; what a drive, a host or a person chose is hostile."""

from __future__ import annotations

import re
import shlex
from datetime import UTC, datetime
from typing import Any, Final
from urllib.parse import quote

from markupsafe import Markup, escape

from quarantine.operations.overview.capacity import minutes
from quarantine.operations.papers.certificates import printable as printable

LONGEST: Final = 600
"""Characters of one text in a list."""

_CODE: Final = re.compile(r"`([^`<>]{1,200})`")
_LINK: Final = re.compile(r"\[([^\]<>]{1,80})\]\([^)<>]{1,200}\)")
_REFERENCE: Final = re.compile(rf"\s*\({_LINK.pattern}\)")
"""A link in parentheses: the sentence is whole without it."""

STATES: Final = {
    "in_use": "in use",
    "released": "let go",
    "quarantined": "waits for its erase",
    "erasing": "erasing",
    "verifying": "reading back",
    "certified": "certified, not on offer yet",
    "available": "on offer",
    "held": "held",
    "retired": "retired",
}
"""The states of the record, as people say them."""

SIGNS: Final = {
    "in_use": "■",
    "released": "◇",
    "quarantined": "◷",
    "erasing": "◔",
    "verifying": "◑",
    "certified": "◕",
    "available": "●",
    "held": "▲",
    "retired": "✕",
}
"""A shape beside each word: no state is told by its colour alone."""


def visible(words: str) -> str:
    """With every character that hides or turns text spelt out; most texts have none."""
    return words if words.isprintable() else printable(words)


def shown(value: Any) -> Any:
    """What a template prints: texts with every character that hides or turns text spelt out."""
    if value is None:
        return ""
    if isinstance(value, str) and not hasattr(value, "__html__"):
        return visible(value)
    return value


def marked(words: str) -> Markup:
    """A remedy of ours: its commands as code, its links as their words.

    For our own texts alone: what a host wrote would be shown as a command of ours.
    """
    plain = _REFERENCE.sub("", visible(" ".join(words.split())))
    plain = _LINK.sub(r"\1", plain)
    # Escaped first: the only tags in it are those that are put in here.
    return Markup(_CODE.sub(r"<code>\1</code>", str(escape(plain))))  # noqa: S704  escaped before


def short(words: str, limit: int = LONGEST) -> str:
    """Cut, where it is longer than a list has room for."""
    clean = visible(" ".join(words.split()))
    return clean if len(clean) <= limit else f"{clean[: limit - 1]}…"


def state(name: str) -> str:
    """A state in words; one of another release as it is."""
    return STATES.get(name, name)


def sign(name: str) -> str:
    """Its shape."""
    return SIGNS.get(name, "?")


def moment(at: datetime | None) -> str:
    """In UTC."""
    return "never" if at is None else f"{at.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"


def iso(at: datetime) -> str:
    """For programs."""
    return f"{at.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ}"


def ago(at: datetime | None, now: datetime) -> str:
    """How long ago, in minutes."""
    if at is None:
        return "never"
    seconds = (now - at).total_seconds()
    return "just now" if seconds < 60 else f"{minutes(seconds)} ago"


def age(at: datetime | None, now: datetime) -> str:
    """For how long."""
    if at is None:
        return "a time that is not known"
    seconds = (now - at).total_seconds()
    return "less than a minute" if seconds < 60 else minutes(seconds)


def until(at: datetime | None, now: datetime) -> str:
    """In how long, about; empty where nobody can say."""
    if at is None:
        return ""
    seconds = (at - now).total_seconds()
    return "in a minute" if seconds < 60 else f"in {minutes(seconds)}"


STEPS: Final = {
    "waiting": "waiting",
    "asked": "with a server until it lets go",
    "erasing": "being erased again",
    "done": "certified since",
    "skipped": "left alone",
    "failed": "held after the erase",
}
"""How far a slot of a campaign is, as people say it."""

STEP_SIGNS: Final = {
    "waiting": ("◇", "quiet"),
    "asked": ("■", "quiet"),
    "erasing": ("◔", "erasing"),
    "done": ("●", "available"),
    "skipped": ("○", "quiet"),
    "failed": ("▲", "held"),
}
"""The shape and the class of each."""


def step(name: str) -> str:
    """A step in words; one of another release as it is."""
    return STEPS.get(name, name)


def step_sign(name: str) -> str:
    """Its shape."""
    return STEP_SIGNS.get(name, ("?", ""))[0]


def step_class(name: str) -> str:
    """Its class."""
    return STEP_SIGNS.get(name, ("", "quiet"))[1]


def span(seconds: float | None) -> str:
    """So long; empty where nobody can say."""
    return "" if seconds is None else minutes(seconds) if seconds else "no time"


def quoted(words: str) -> str:
    """One word of a shell, whatever is in it."""
    return shlex.quote(visible(words))


def in_path(name: str) -> str:
    """A name as a part of a path, also of one in a header."""
    return quote(name, safe=":")


def read_time(words: str) -> datetime | None:
    """What a browser's field for a time sends; in UTC where no zone is named. None where it is
    no time."""
    try:
        found = datetime.fromisoformat(words.strip())
        return (found if found.tzinfo else found.replace(tzinfo=UTC)).astimezone(UTC)
    except (ValueError, OverflowError):
        return None
