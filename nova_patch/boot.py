"""Waits in every Python of Nova's environment for nova-compute; loaded by the ``.pth`` file.

Every program there pays for this module and for two comparisons per import, so it imports nothing
else before it is needed. Nothing depends on how nova-compute was started: its entry module is asked
for the release before anything of Nova runs, and the manager, which no other service imports
(``nova/service.py`` SERVICE_MANAGERS), is where the patch is put in. After the manager's import, so
that Nova has chosen between eventlet and threads by then; before it is used.
"""

from __future__ import annotations

import sys

TYPE_CHECKING = False
"""As ``typing`` has it, which takes longer to import than all of this module."""

if TYPE_CHECKING:
    from collections.abc import Callable
    from importlib.machinery import ModuleSpec
    from types import ModuleType
    from typing import Any

ENTRY = "nova.cmd.compute"
MANAGER = "nova.compute.manager"


class Finder:
    """First on ``sys.meta_path``; finds nothing itself."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """None for all but the manager, whose loader puts the patch in once it has run."""
        if name == ENTRY:
            _or_refuse(_admit)
        elif name == MANAGER:
            return self._with_patch(name, path, target)
        return None

    def _with_patch(self, name: str, path: Any, target: Any) -> ModuleSpec | None:
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _put_after(spec.loader)
                return spec
        return None


def _put_after(loader: Any) -> None:
    # On this one loader object: what else is asked of it (source, bytecode) stays as it was.
    original = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        original(module)
        _or_refuse(_apply)

    loader.exec_module = exec_module


def _admit() -> None:
    from . import start

    start.admit()


def _apply() -> None:
    from . import start

    start.apply()


def _or_refuse(step: Callable[[], None]) -> None:
    """Any failure, our own mistakes and damaged files included, ends the process with one line."""
    try:
        step()
    except Exception as error:
        text = " ".join(str(error).split()) or repr(error)
        if type(error).__name__ != "PatchError":
            text = f"the patch failed with {type(error).__name__}: {text}; install it again"
        refuse(text)


def refuse(reason: str) -> None:
    """Ends the process with exit code 1, one line on stderr and in Nova's log."""
    line = f"nova-compute must not start (nvme-quarantine patch): {reason}"
    logging = sys.modules.get("logging")
    # Of the root, or of Nova alone where the operator has a logging.conf. Those of syslog and of
    # the journal have no stream. What goes to stderr is there as the process's last line anyway.
    loggers = (logging.root, logging.getLogger("nova")) if logging else ()
    handlers = [each for logger in loggers for each in logger.handlers]
    if logging and any(getattr(each, "stream", each) is not sys.stderr for each in handlers):
        logging.getLogger("nova.nvme_quarantine_patch").critical(line)
    sys.exit(line)


def wait() -> None:
    """Called by the ``.pth`` file, which ``site`` runs twice in a virtual environment."""
    if not any(isinstance(finder, Finder) for finder in sys.meta_path):
        sys.meta_path.insert(0, Finder())
