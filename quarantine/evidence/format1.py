"""Certificates of format 1, which had other names for what format 2 has.

Its "label" is the standard's *method*, its "method" a *technique*. Everything else in it stands
where it stands today, and what came with format 2 is left at its default.
"""

from __future__ import annotations

from typing import Any

from quarantine.errors import BadInputError
from quarantine.evidence import terms

_SANITIZATION = {"label": "method", "label_meaning": "meaning", "methods": "techniques"}
_TECHNIQUE = {"method": "command", "command": "sent"}


def raised(value: Any, what: str) -> Any:
    """A parsed payload with today's names where it is of format 1; anything else as it is.

    What has another shape is left for the decoder to refuse. Raises :class:`BadInputError` for one
    of format 1 that has a name of today's.
    """
    if not isinstance(value, dict) or value.get("format") != 1:
        return value
    return {**value, "sanitization": _sanitization(value.get("sanitization"), what)}


def _sanitization(value: Any, what: str) -> Any:
    if not isinstance(value, dict):
        return value
    found = _renamed(value, _SANITIZATION, what)
    if isinstance(found.get("techniques"), list):
        found["techniques"] = [_technique(item, what) for item in found["techniques"]]
    return found


def _technique(value: Any, what: str) -> Any:
    if not isinstance(value, dict):
        return value
    # The empty name renames nothing: it only forbids a "technique", which is added below.
    found = _renamed(value, {**_TECHNIQUE, "": "technique"}, what)
    name = found.get("command")
    technique = terms.TECHNIQUES.get(name) if isinstance(name, str) else None
    return {**found, "technique": technique.name if technique else ""}


def _renamed(value: dict[str, Any], names: dict[str, str], what: str) -> dict[str, Any]:
    # What format 1 does not have in this place. A technique's "command" is in both, for two things.
    if today := sorted((set(names.values()) - set(names)) & set(value)):
        raise BadInputError(f"{what}: expected no member {today[0]!r} in format 1")
    return {names.get(name, name): item for name, item in value.items()}
