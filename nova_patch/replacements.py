"""Putting functions of ours in the place of Nova's."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from .errors import PatchError


@dataclass(frozen=True)
class Replacement:
    """``owner.name`` becomes ``value``."""

    owner: type
    name: str
    value: Any


def unbroken(owner: type, name: str) -> Callable[..., Any]:
    """The method ``owner.name`` as Nova defines it.

    Raises ``PatchError`` when something else that was loaded has replaced it already.
    """
    function = vars(owner).get(name)
    # Claims stand under Nova's lock, which keeps what it wraps.
    lock = sys.modules.get("oslo_concurrency.lockutils")
    inner = function
    if lock is not None and _source(function) == lock.__file__:
        inner = getattr(function, "__wrapped__", None)
    if _source(inner) != sys.modules[owner.__module__].__file__:
        raise PatchError(
            f"expected Nova's own {owner.__module__}.{owner.__name__}.{name}, found another one: "
            "some other patch is loaded; remove that one"
        )
    method: Callable[..., Any] = vars(owner)[name]
    return method


def _source(function: Any) -> str | None:
    return getattr(getattr(function, "__code__", None), "co_filename", None)


def put(replacements: Iterable[Replacement]) -> None:
    """Makes them, all or the exception's reader knows that nova-compute must not start."""
    for replacement in replacements:
        setattr(replacement.owner, replacement.name, replacement.value)
