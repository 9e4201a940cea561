"""The door to files that we write: each is there whole, or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

PRIVATE: Final = 0o600
"""Of a file for nobody but its owner."""

_FOR_ALL: Final = 0o666
"""Less what the process's umask takes away."""


def make_directory(path: Path, mode: int = 0o755) -> None:
    """One that is there stays as it is. Raises ``OSError``."""
    path.mkdir(parents=True, exist_ok=True, mode=mode)


def replace(path: Path, data: bytes, *, mode: int = _FOR_ALL, synced: bool = True) -> None:
    """Puts ``data`` in the place of what may be there.

    ``synced``: it has reached the disk when this returns. Raises ``OSError``.
    """
    with _beside(path, data, mode, synced=synced) as temporary:
        temporary.replace(path)


def create(
    path: Path, data: bytes, *, mode: int = _FOR_ALL, before: Callable[[], None] | None = None
) -> None:
    """Puts ``data`` where nothing is yet; it has reached the disk when this returns.

    ``before`` is called when the data is on the disk and has no name yet. Raises
    ``FileExistsError`` for a path that is taken, and ``OSError``.
    """
    with _beside(path, data, mode, synced=True) as temporary:
        if before is not None:
            before()
        # A link replaces nothing, not even what came up since somebody looked.
        path.hardlink_to(temporary)


@contextlib.contextmanager
def _beside(path: Path, data: bytes, mode: int, *, synced: bool) -> Iterator[Path]:
    """A file with another name beside ``path``; gone afterwards."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        with os.fdopen(os.open(temporary, flags, mode), "wb") as handle:
            handle.write(data)
            if synced:
                handle.flush()
                os.fsync(handle.fileno())
        yield temporary
        if synced:
            _sync(path.parent)
    finally:
        temporary.unlink(missing_ok=True)


def _sync(directory: Path) -> None:
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
