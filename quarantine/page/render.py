"""Templates: every value escaped and made visible; and pieces of a page that change alone."""

from __future__ import annotations

import hashlib
import importlib.resources
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined, select_autoescape
from markupsafe import Markup

from quarantine.page import texts

TYPES: Final = {
    "page.css": "text/css; charset=utf-8",
    "page.js": "text/javascript; charset=utf-8",
    "icon.svg": "image/svg+xml",
}
"""What is served as it is."""


@dataclass(frozen=True)
class Piece:
    """A part of a page with a name: what changes alone, and is sent again alone."""

    id: str
    html: Markup

    @property
    def v(self) -> str:
        """Another one when the piece has changed."""
        return f"{zlib.crc32(self.html.encode()):08x}"

    def plain(self) -> tuple[str, str, str]:
        """For the script."""
        return self.id, self.v, str(self.html)


@dataclass(frozen=True)
class Live:
    """What of a view changes while it is open."""

    pieces: Sequence[Piece]
    lists: Mapping[str, Sequence[str]]
    """By the name of a list: ids of its pieces, in order."""
    version: str = ""
    """Of what can be decided about there."""

    def plain(self) -> dict[str, Any]:
        """For the script."""
        return {
            "pieces": [piece.plain() for piece in self.pieces],
            "lists": {name: list(ids) for name, ids in self.lists.items()},
            "version": self.version,
        }

    def by_id(self) -> dict[str, Piece]:
        """For templates."""
        return {piece.id: piece for piece in self.pieces}


def _read(name: str) -> bytes:
    return importlib.resources.files(__package__ or "").joinpath("static", name).read_bytes()


STATIC: Final = {name: _read(name) for name in TYPES}
MARKS: Final = {name: hashlib.sha256(raw).hexdigest()[:12] for name, raw in STATIC.items()}
"""By file, a digest of its text for its address: a browser asks for each text once."""


def _environment() -> Environment:
    made = Environment(
        loader=PackageLoader(__package__ or ""),
        autoescape=select_autoescape(default=True, default_for_string=True),
        # A name that is missing is an error of ours, and no empty text about a drive.
        undefined=StrictUndefined,
        finalize=texts.shown,
        trim_blocks=True,
        lstrip_blocks=True,
        auto_reload=False,
    )
    for one in (texts.marked, texts.short, texts.state, texts.sign, texts.moment, texts.iso):
        made.filters[one.__name__] = one
    for other in (
        *(texts.ago, texts.age, texts.until, texts.quoted, texts.span),
        *(texts.step, texts.step_sign, texts.step_class),
    ):
        made.filters[other.__name__] = other
    made.globals["marks"] = MARKS
    return made


_TEMPLATES: Final = _environment()


def page(name: str, words: Mapping[str, Any]) -> bytes:
    """A whole page."""
    # Half a surrogate pair, which JSON can bring along, has no UTF-8: it is spelt out.
    return _TEMPLATES.get_template(name).render(words).encode("utf-8", "backslashreplace")


def nobody(root: str) -> dict[str, Any]:
    """What each page says at its head where nobody is known; ``root`` stands before us all."""
    return {
        "url": lambda path, _words=None: f"{root}/page{path}",
        "user": "",
        "places": [],
        "here": "",
        "live": {},
        "logout": None,
    }


def piece(name: str, template: str, macro: str, *words: Any) -> Piece:
    """What a macro of a template makes."""
    return Piece(name, Markup(getattr(_module(template), macro)(*words)))  # noqa: S704  escaped there


def _module(template: str) -> Any:
    # Jinja keeps it with the template.
    return _TEMPLATES.get_template(template).module
