"""What happens in nova-compute: admit the release, compare its sources, patch it, say so."""

from __future__ import annotations

import importlib
from pathlib import Path

from . import compat, plug, presence, tree


def admit() -> compat.Release:
    """The table's row of the Nova that is installed.

    Raises ``PatchError`` when the release is unknown or the patch's own files are damaged.
    """
    tree.check(Path(__file__).parent)
    return compat.release(compat.installed_version())


def apply() -> None:
    """Patches the running Nova, or raises ``PatchError`` before anything was changed."""
    row = admit()
    compat.check_sources(row, compat.installed_top())
    mechanism = importlib.import_module(f".{row.mechanism}", __package__)
    plug.put(mechanism.replacements())
    presence.announce(row.version)
