"""What happens in nova-compute: admit the release, compare its sources, patch it, say so."""

from __future__ import annotations

import importlib
from pathlib import Path

from . import VERSION, compat, presence, replacements, tree
from .said import LOG

EVERYWHERE = ("keep_absent", "allocated", "left_behind", "rings")
"""The mechanisms that every release needs."""


def admit() -> compat.Release:
    """The table's row of the Nova that is installed.

    Raises ``PatchError`` when the release is unknown or the patch's own files are damaged.
    """
    tree.check(Path(__file__).parent)
    return compat.release(compat.installed_version())


def apply() -> None:
    """Patches the running Nova, or raises ``PatchError`` before anything was changed."""
    row = admit()
    found = compat.installed_version()
    compat.check_sources(row, compat.installed_top())
    # Not before: they import Nova.
    names = (row.mechanism, *EVERYWHERE)
    mechanisms = [importlib.import_module(f".{name}", __package__) for name in names]
    replacements.put([made for mechanism in mechanisms for made in mechanism.replacements()])
    presence.announce(found)
    if warning := compat.untested(row, found):
        LOG.warning("%s", warning)
    LOG.info("nvme-quarantine patch %s is in Nova %s: %s", VERSION, found, ", ".join(names))
