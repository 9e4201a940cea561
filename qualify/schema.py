"""The schema of a result, from its dataclasses: ``python -m qualify.schema`` prints it.

JSON Schema, draft 2020-12. What is checked in as ``result.schema.json`` is what this makes.
"""

from __future__ import annotations

import json
import types
import typing
from dataclasses import fields, is_dataclass
from typing import Any, Final

from qualify.results.result import SCHEMA, Result
from qualify.rounds.steady import Steady

_SIGNED: Final = ((Steady, "slope"),)
"""All other numbers are 0 or more."""


def schema() -> dict[str, object]:
    """The whole document."""
    found = _of(Result)
    found["$schema"] = "https://json-schema.org/draft/2020-12/schema"
    found["title"] = "Result of nvme-bench"
    properties: Any = found["properties"]
    properties["schema"] = {"const": SCHEMA}
    properties["cells"]["minItems"] = 1
    return found


def _of(kind: Any) -> dict[str, object]:
    if is_dataclass(kind):
        hints = typing.get_type_hints(kind)
        properties = {field.name: _of(hints[field.name]) for field in fields(kind)}
        for owner, name in _SIGNED:
            if owner is kind:
                del properties[name]["minimum"]
        # These docstrings are published: whoever changes one changes result.schema.json.
        doc = (kind.__doc__ or "").replace("\n    ", " ").strip()
        return {
            "description": doc,
            "type": "object",
            "properties": properties,
            "required": [field.name for field in fields(kind)],
            "additionalProperties": False,
        }
    origin, inner = typing.get_origin(kind), typing.get_args(kind)
    if origin is types.UnionType:
        return {"anyOf": [{"type": "null"} if i is type(None) else _of(i) for i in inner]}
    if origin is tuple and inner[-1] is Ellipsis:
        return {"type": "array", "items": _of(inner[0])}
    if origin is tuple:
        return {"type": "array", "prefixItems": [_of(i) for i in inner], "minItems": len(inner)}
    names = {bool: "boolean", str: "string", int: "integer", float: "number"}
    found: dict[str, object] = {"type": names[kind]}
    if kind in (int, float):
        found["minimum"] = 0
    return found


if __name__ == "__main__":
    print(json.dumps(schema(), indent=1))
