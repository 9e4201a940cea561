"""Certificates of later releases, as this one reads them: the counterpart of ``format1``. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from eraser.protocol import codec
from quarantine.evidence import format1
from quarantine.evidence.sections import FORMAT, RESERVED, Certificate


def understood(signed: Any, what: str) -> tuple[Certificate, tuple[str, ...]]:
    """What a payload whose signature holds says to this release, and what else is in it.

    A later release may sign further members in this format, and its certificates are true for
    whoever verifies them with this one. Of another format everything has to be known. Raises
    ``eraser.protocol.errors.BadInputError`` for what this release cannot read.
    """
    value = format1.raised(signed, what)
    if not isinstance(signed, dict) or signed.get("format") != FORMAT:
        return codec.decode(Certificate, value, what), ()
    known = codec.known(Certificate, value)
    # What a later release writes there is shown where it is texts by name. The rest is taken out
    # and named with the other members that are not understood.
    for name in RESERVED:
        if isinstance(said := known.get(name), dict):
            known[name] = {each: text for each, text in said.items() if isinstance(text, str)}
        elif said is not None:
            del known[name]
    return codec.decode(Certificate, known, what), tuple(_beyond(value, known))


def _beyond(value: Any, known: Any, path: str = "") -> Iterator[str]:
    """The paths of members that are in ``value`` alone."""
    if isinstance(value, dict) and isinstance(known, dict):
        for name, item in value.items():
            where = f"{path}.{name}" if path else name
            if name in known:
                yield from _beyond(item, known[name], where)
            else:
                yield where
    elif isinstance(value, list) and isinstance(known, list):
        for number, (item, other) in enumerate(zip(value, known, strict=True)):
            yield from _beyond(item, other, f"{path}[{number}]")
