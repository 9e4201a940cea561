"""Dataclasses to JSON objects and back, strictly: an unknown or ill-typed field is an error."""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Mapping
from enum import Enum
from typing import Any, TypeVar

from tests.lab.nvme.errors import DriveError

T = TypeVar("T")


def to_json(value: object) -> Any:
    """Plain JSON values for a dataclass tree of the kinds that ``from_json`` reads."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {f.name: to_json(getattr(value, f.name)) for f in dataclasses.fields(value)}
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    return value


def from_json(kind: type[T], data: object, where: str = "") -> T:
    """Build dataclass ``kind`` from a JSON object; absent fields take their defaults.

    Raises DriveError that names the field.
    """
    where = where or kind.__name__
    if not isinstance(data, Mapping):
        raise DriveError(f"{where} should be a JSON object, found {data!r}")
    hints = typing.get_type_hints(kind)
    names = {f.name for f in dataclasses.fields(kind)}  # type: ignore[arg-type]
    if unknown := sorted(set(data) - names):
        raise DriveError(f"{where} has no field {unknown[0]!r}; it has {', '.join(sorted(names))}")
    values = {name: _value(hints[name], item, f"{where}.{name}") for name, item in data.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise DriveError(f"{where} lacks a field: {error}") from error


def _value(kind: Any, item: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if origin in (types.UnionType, typing.Union):
        if item is None:
            return None
        return _value(next(a for a in arguments if a is not type(None)), item, where)
    if origin in (list, tuple):
        if not isinstance(item, list | tuple):
            raise DriveError(f"{where} should be a list, found {item!r}")
        values = [_value(arguments[0], part, f"{where}[{i}]") for i, part in enumerate(item)]
        return values if origin is list else tuple(values)
    if origin is dict:
        if not isinstance(item, Mapping):
            raise DriveError(f"{where} should be an object, found {item!r}")
        key_kind, value_kind = arguments
        return {
            (int(key) if key_kind is int else key): _value(value_kind, part, f"{where}[{key}]")
            for key, part in item.items()
        }
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return item if isinstance(item, kind) else from_json(kind, item, where)
    if isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(item)
        except ValueError as error:
            choices = ", ".join(str(member.value) for member in kind)
            raise DriveError(f"{where} should be one of {choices}, found {item!r}") from error
    if kind is bytes and isinstance(item, str):
        return bytes.fromhex(item)
    if kind is float and isinstance(item, int) and not isinstance(item, bool):
        return float(item)
    if not isinstance(item, kind) or (kind is int and isinstance(item, bool)):
        raise DriveError(f"{where} should be {kind.__name__}, found {item!r}")
    return item
