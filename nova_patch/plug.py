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
    code = getattr(function, "__code__", None)
    home = sys.modules[owner.__module__].__file__
    if code is None or code.co_filename != home:
        raise PatchError(
            f"expected Nova's own {owner.__module__}.{owner.__name__}.{name}, found another one: "
            "some other patch is loaded; remove that one"
        )
    method: Callable[..., Any] = vars(owner)[name]
    return method


def put(replacements: Iterable[Replacement]) -> None:
    """Makes them, all or the exception's reader knows that nova-compute must not start."""
    for replacement in replacements:
        setattr(replacement.owner, replacement.name, replacement.value)
