"""JSON in and out: strict on the way in, and on the way out nothing that a browser would run."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any, Final, Protocol

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError
from quarantine.api.faults import MAX_DETAIL, Fault

MEDIA_TYPE: Final = "application/json"
LINES: Final = "application/x-ndjson"

MAX_BODY: Final = 1 << 20
"""Bytes. A profile is the longest, with some kilobytes."""

MAX_DEPTH: Final = 12
"""A policy, the deepest, has four."""

MAX_QUOTED: Final = 60


UNSEEN: Final = "expected something that the caller may see, found none"
"""The same words for what is not there and for what is another's."""


class Readable(Protocol):
    """A request's body."""

    def read(self, size: int, /) -> bytes:
        """At most so many bytes."""


def read(stream: Readable, length: int | None, media_type: str | None) -> Any:
    """The document in a request. Raises :class:`Fault`."""
    if (media_type or "").partition(";")[0].strip().lower() != MEDIA_TYPE:
        raise Fault(415, "media-type", f"expected a body of {MEDIA_TYPE}")
    if length is not None and length > MAX_BODY:
        raise Fault(413, "too-large", f"expected at most {MAX_BODY} bytes, found {length}")
    # A length need not be given, and need not be true: one byte more shows what is too long.
    raw = stream.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise Fault(413, "too-large", f"expected at most {MAX_BODY} bytes, found more")
    return parse(raw)


def parse(raw: bytes) -> Any:
    """Plain values of JSON, all of which can be stored. Raises :class:`Fault`."""
    try:
        found = codec.parse(_text(raw), "body")
    except BadInputError as error:
        raise Fault(400, "not-json", str(error)[:MAX_DETAIL]) from error
    _check_texts(found)
    return found


def _text(raw: bytes) -> bytes:
    """What is UTF-8, as RFC 8259 wants it: whoever else reads it, a proxy say, reads the same. The
    library would look for UTF-16 and UTF-32, by a mark or by NUL. Raises :class:`Fault`."""
    try:
        text = raw.decode("utf-8", "strict")
    except UnicodeDecodeError as error:
        raise Fault(400, "not-json", f"body: expected UTF-8, found {error.reason}") from error
    if text.startswith("\ufeff") or "\0" in text:
        raise Fault(400, "not-json", "body: expected JSON in UTF-8 without a mark, found another")
    return raw


def _check_texts(value: Any) -> None:
    """Not too deep, no number beyond all, no half of a surrogate pair. Raises :class:`Fault`."""
    # A stack of our own: how deep the document is the caller decides.
    waiting = [(value, 1)]
    while waiting:
        one, level = waiting.pop()
        if level > MAX_DEPTH:
            raise Fault(400, "too-deep", f"expected at most {MAX_DEPTH} levels")
        if isinstance(one, dict):
            # Names of members are texts from the caller too.
            waiting += ((part, level + 1) for pair in one.items() for part in pair)
        elif isinstance(one, list):
            waiting += ((part, level + 1) for part in one)
        elif isinstance(one, float) and not math.isfinite(one):
            raise Fault(400, "number", "expected numbers that a double can hold")
        elif isinstance(one, str) and not _storable(one):
            raise Fault(400, "text", "expected text that UTF-8 can hold")


def _storable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def check_names(names: Mapping[str, str]) -> None:
    """Of a path: none has a NUL, which PostgreSQL cannot even be asked for. Raises
    :class:`Fault`."""
    if any("\0" in value for value in names.values()):
        raise Fault(404, "unknown", UNSEEN)


def check(value: Any, validator: Draft202012Validator, what: str) -> None:
    """Raises :class:`Fault` naming the first thing that is wrong."""
    # One error, for a line of a command: of several the one that is nearest to the top.
    wrong = best_match(validator.iter_errors(value))
    if wrong is not None:
        where = ".".join([what, *map(str, wrong.absolute_path)])
        words = wrong.message
        # The library quotes the whole value, which may be as long as the body.
        if len(words) > 3 * MAX_QUOTED:
            words = f"{words[: 3 * MAX_QUOTED]}..."
        raise Fault(400, "schema", f"{where}: {words}")


def dump(value: Any) -> bytes:
    """ASCII, and without characters that begin a tag: drives and hosts chose some of the texts."""
    # JSON has no NaN: it would be an answer that strict readers cannot take.
    text = json.dumps(value, separators=(",", ":"), allow_nan=False)
    for sign in "<>&":
        text = text.replace(sign, f"\\u{ord(sign):04x}")
    return text.encode()
