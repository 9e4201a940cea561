"""Results read back from files: somebody else's, perhaps, so each value is checked."""

from __future__ import annotations

import json
import types
import typing
from dataclasses import MISSING, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from qualify.errors import BadInputError
from qualify.results.result import SCHEMA, Result

MAX_BYTES: Final = 16 * 2**20
_MAX_CELLS: Final = 4096
_MAX_ROUNDS: Final = 1000
_MAX_TEXT: Final = 4096
_LEAST: Final = 1e-300
"""Nearer to 0 lie floats that no logarithm of a picture can be taken of."""


def read(path: Path) -> Result:
    """Raises :class:`BadInputError` for what is no result."""
    try:
        with path.open("rb") as file:
            # One byte beyond the limit tells that there is more; the rest is not read.
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"expected a result in {path}, found {error.strerror}") from error
    try:
        return parse(data)
    except BadInputError as error:
        raise BadInputError(f"{path}: {error}") from error


def parse(data: bytes) -> Result:
    """A result from its JSON. Raises :class:`BadInputError`."""
    if len(data) > MAX_BYTES:
        raise BadInputError(f"expected at most {MAX_BYTES} bytes, found more")
    try:
        plain = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BadInputError("expected a result as JSON, found something else") from error
    if not isinstance(plain, dict) or plain.get("schema") != SCHEMA:
        raise BadInputError(f"expected a result of the form {SCHEMA}, found another object")
    result = _build(Result, plain, "result")
    if not isinstance(result, Result):
        raise BadInputError("expected a result")
    if not 0 < len(result.cells) <= _MAX_CELLS:
        raise BadInputError(f"expected 1 to {_MAX_CELLS} cells, found {len(result.cells)}")
    seen = set()
    for cell in result.cells:
        if cell.block <= 0 or cell.reads > 100 or cell.cell in seen:
            raise BadInputError(f"expected each cell once, with a real size, found {cell.cell}")
        if len(cell.rounds) > _MAX_ROUNDS or (cell.read is None and cell.write is None):
            raise BadInputError(f"expected reads or writes in rounds for {cell.cell}")
        seen.add(cell.cell)
    return result


def _build(kind: Any, value: object, name: str) -> object:
    """``value`` as ``kind``, or an error that names the place."""
    if is_dataclass(kind):
        return _dataclass(kind, value, name)
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        if value is None and type(None) in inner:
            return None
        # A result has no other unions than of one kind and None.
        return _build(next(i for i in inner if i is not type(None)), value, name)
    if origin is tuple:
        if not isinstance(value, list):
            raise _wrong("a list", value, name)
        if inner[-1] is Ellipsis:
            return tuple(_build(inner[0], item, f"{name}[{i}]") for i, item in enumerate(value))
        if len(value) != len(inner):
            raise _wrong(f"{len(inner)} items", value, name)
        return tuple(_build(k, item, name) for k, item in zip(inner, value, strict=True))
    return _scalar(kind, value, name)


def _dataclass(kind: Any, value: object, name: str) -> object:
    if not isinstance(value, dict):
        raise _wrong("an object", value, name)
    hints, found = typing.get_type_hints(kind), {}
    for field in fields(kind):
        if field.name in value:
            found[field.name] = _build(hints[field.name], value[field.name], f"{name}.{field.name}")
        elif field.default is MISSING:
            raise BadInputError(f"expected {name}.{field.name}, found none")
    return kind(**found)


_SIGNED: Final = ("result.steady.state.slope",)


def _scalar(kind: Any, value: object, name: str) -> object:
    if kind is bool:
        if isinstance(value, bool):
            return value
    elif kind is str:
        if isinstance(value, str) and len(value) <= _MAX_TEXT:
            return value
    # Python counts True as 1; a result does not.
    elif isinstance(value, int | float) and not isinstance(value, bool):
        if kind is int and isinstance(value, int) and 0 <= value < 2**64:
            return value
        known = value == 0 or _LEAST < abs(value) < 1e18
        if kind is float and known and (value >= 0 or name in _SIGNED):
            return float(value)
    raise _wrong(f"a {kind.__name__} in its range", value, name)


def _wrong(expected: str, value: object, name: str) -> BadInputError:
    return BadInputError(f"expected {expected} for {name}, found {str(value)[:60]!r}")
