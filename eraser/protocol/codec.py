"""Frozen dataclasses to canonical JSON and back, strictly.

What comes from outside is hostile until it has passed :func:`decode`: unknown or missing members,
wrong types, huge documents and non-finite numbers are refused with one line that names the member.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import hashlib
import json
import math
import reprlib
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from eraser.protocol.errors import BadInputError

MAX_DOCUMENT_BYTES = 4 << 20
"""No order, report, profile or policy comes near this; what does is not one of ours."""

MAX_NUMBER = 1 << 128
"""NVMe counts in 128 bits at most (TNVMCAP, data units); larger numbers break arithmetic."""

LATE = types.MappingProxyType({"late": True})
"""``field(default=..., metadata=LATE)``: a member that came after the first readers did. It is left
out where it has its default, so that they take every message that makes no use of it."""

T = TypeVar("T")


def plain(value: Any) -> Any:
    """A dataclass (or a value of one) as plain JSON values; enums become their strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        members = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {
            f.name: plain(held)
            for f, held in members
            if held != f.default or not f.metadata.get("late")
        }
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


def canonical(value: Any) -> bytes:
    """The one byte form of a value: sorted keys, no spaces, UTF-8. Signed and digested as such."""
    # NaN and infinity are refused: they are no JSON, and other readers would not take them.
    return json.dumps(
        plain(value), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    ).encode()


def digest(value: Any) -> str:
    """SHA-256 of the canonical form, 64 hexadecimal digits: safe as a file name."""
    return hashlib.sha256(canonical(value)).hexdigest()


def parse(raw: bytes | str, what: str) -> Any:
    """JSON text to plain values. Raises :class:`BadInputError` naming ``what``."""
    data = raw.encode() if isinstance(raw, str) else raw
    if len(data) > MAX_DOCUMENT_BYTES:
        raise BadInputError(
            f"{what}: expected at most {MAX_DOCUMENT_BYTES} bytes, found {len(data)}"
        )
    try:
        # Of a member that stands twice, two readers may take different ones. Deep nesting ends in
        # RecursionError.
        # Of bytes the library would guess UTF-16 and UTF-32 as well, which no other reader does.
        text = data.decode()
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_no_duplicates)
    except (ValueError, RecursionError) as error:
        raise BadInputError(f"{what}: expected JSON, found something else ({error})") from error


def decode(cls: type[T], value: Any, what: str) -> T:
    """Plain JSON values to ``cls``, every member checked.

    Members with a default may be absent; unknown members are refused, because a member that one
    side ignores is a decision that one side did not make. Raises :class:`BadInputError`.
    """
    return typing.cast(T, _convert(cls, value, what))


def load(cls: type[T], raw: bytes | str, what: str) -> T:
    """:func:`parse` and :func:`decode` in one."""
    return decode(cls, parse(raw, what), what)


def load_part(cls: type[T], raw: bytes | str, what: str) -> T:
    """Some members of a document that was checked as a whole when it was written.

    For files of this machine only: what ``cls`` does not name is not looked at. Raises
    :class:`BadInputError`.
    """
    value = parse(raw, what)
    if isinstance(value, dict):
        names = [f.name for f in dataclasses.fields(cls)]  # type: ignore[arg-type]
        # Absent members are left to decode(), which takes defaults or refuses.
        value = {name: value[name] for name in names if name in value}
    return decode(cls, value, what)


def known(cls: Any, value: Any) -> Any:
    """Plain JSON values without the members that ``cls`` and what is in it do not name.

    For what we stored ourselves and have checked before: another release may know more members.
    Never for what comes from outside.
    """
    if isinstance(value, list) and typing.get_origin(cls) is tuple:
        return [known(typing.get_args(cls)[0], item) for item in value]
    if not isinstance(value, dict):
        return value
    if typing.get_origin(cls) is dict:
        return {key: known(typing.get_args(cls)[1], item) for key, item in value.items()}
    # The class itself, or the arm of X | None that is one.
    for arm in (cls, *typing.get_args(cls)):
        if dataclasses.is_dataclass(arm) and isinstance(arm, type):
            members = _members(arm)
            return {
                name: known(members[name][0], item)
                for name, item in value.items()
                if name in members
            }
    return value


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not a number")


def _no_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise ValueError(f"member {shown(key)} stands twice")
        found[key] = value
    return found


@functools.cache
def _members(cls: type) -> dict[str, tuple[Any, bool]]:
    hints = typing.get_type_hints(cls)
    return {
        f.name: (
            hints[f.name],
            f.default is dataclasses.MISSING and f.default_factory is dataclasses.MISSING,
        )
        for f in dataclasses.fields(cls)
        if f.init
    }


_SHORT = reprlib.Repr()
_SHORT.maxlevel = 3
_SHORT.maxstring = _SHORT.maxother = _SHORT.maxlong = 200


def shown(value: Any) -> str:
    """The beginning of a value from outside, for an error's one line.

    Not ``repr``: that fails for lists in lists that are a little deeper than JSON was read.
    """
    text = _SHORT.repr(value)
    return text if len(text) <= 60 else f"{text[:60]}..."


def _wrong(what: str, expected: str, value: Any) -> BadInputError:
    return BadInputError(f"{what}: expected {expected}, found {shown(value)}")


def _convert(kind: Any, value: Any, what: str) -> Any:
    return _rule(kind)(kind, value, what)


@functools.cache
def _rule(kind: Any) -> Callable[[Any, Any, str], Any]:
    """What converts values of a kind; found once, for a report may have thousands of them."""
    origin = typing.get_origin(kind)
    if origin in (types.UnionType, typing.Union):
        return _convert_union
    if origin is tuple:
        return _convert_tuple
    if origin is dict:
        return _convert_dict
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return _convert_dataclass
    if isinstance(kind, type) and issubclass(kind, enum.Enum):
        return _convert_enum
    return _convert_scalar


def _convert_enum(kind: type[enum.Enum], value: Any, what: str) -> enum.Enum:
    try:
        return kind(value)
    except ValueError as error:
        names = ", ".join(str(member.value) for member in kind)
        raise _wrong(what, f"one of {names}", value) from error


def _convert_scalar(kind: Any, value: Any, what: str) -> Any:
    # type() and not isinstance(): in Python True is an int, and it must not pass for a number.
    if kind is str:
        if type(value) is str:
            return _text(value, what)
    elif kind is bool:
        if type(value) is bool:
            return value
    elif kind is int:
        if type(value) is int and abs(value) <= MAX_NUMBER:
            return value
    elif kind is float:
        # The bound first: isfinite() raises for an integer of hundreds of digits.
        if type(value) in (int, float) and abs(value) <= MAX_NUMBER and math.isfinite(value):
            return float(value)
    else:
        raise TypeError(f"{what}: the codec has no rule for {kind!r}")
    raise _wrong(what, {str: "a string", bool: "true or false"}.get(kind, "a number"), value)


def _text(value: str, what: str) -> str:
    try:
        value.encode()
    except UnicodeEncodeError as error:
        # JSON can spell half a surrogate pair; nothing that is signed or stored can hold it.
        raise _wrong(what, "text that UTF-8 can hold", value) from error
    return value


def _convert_union(kind: Any, value: Any, what: str) -> Any:
    arms = typing.get_args(kind)
    if value is None and type(None) in arms:
        return None
    rest = [arm for arm in arms if arm is not type(None)]
    if len(rest) != 1:
        raise TypeError(f"{what}: the codec knows X | None only, not {kind!r}")
    return _convert(rest[0], value, what)


def _convert_tuple(kind: Any, value: Any, what: str) -> tuple[Any, ...]:
    item, ellipsis = typing.get_args(kind)
    if ellipsis is not Ellipsis:
        raise TypeError(f"{what}: the codec knows tuple[X, ...] only, not {kind!r}")
    if not isinstance(value, list):
        raise _wrong(what, "a list", value)
    return tuple(_convert(item, entry, f"{what}[{n}]") for n, entry in enumerate(value))


def _convert_dict(kind: Any, value: Any, what: str) -> dict[str, Any]:
    _key, item = typing.get_args(kind)
    if not isinstance(value, dict):
        raise _wrong(what, "an object", value)
    return {
        _text(key, what): _convert(item, entry, f"{what}.{key}") for key, entry in value.items()
    }


def _convert_dataclass(kind: type, value: Any, what: str) -> Any:
    if not isinstance(value, dict):
        raise _wrong(what, "an object", value)
    members = _members(kind)
    unknown = sorted(set(value) - set(members))
    if unknown:
        raise BadInputError(
            f"{what}: expected no member {shown(unknown[0])}; known: {sorted(members)}"
        )
    missing = sorted(
        name for name, (_hint, required) in members.items() if required and name not in value
    )
    if missing:
        raise BadInputError(f"{what}: expected a member {missing[0]!r}, found none")
    arguments = {
        name: _convert(members[name][0], item, f"{what}.{name}") for name, item in value.items()
    }
    try:
        # What types cannot say, the class checks in its own __post_init__.
        return kind(**arguments)
    except ValueError as error:
        raise BadInputError(f"{what}: {error}") from error
