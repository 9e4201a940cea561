"""Files that people hand us, read whole."""

from __future__ import annotations

import stat
from pathlib import Path

from quarantine.errors import BadInputError

MAX_FILE_BYTES = 8 << 20
"""No file that an operator hands us comes near this."""


def read_file(path: Path, what: str) -> bytes:
    """A whole file. Raises :class:`BadInputError` with one line that names it."""
    try:
        with path.open("rb") as handle:
            raw = handle.read(MAX_FILE_BYTES + 1)
    except OSError as error:
        raise BadInputError(f"{what}: expected a file at {path}: {error.strerror}") from error
    if len(raw) > MAX_FILE_BYTES:
        raise BadInputError(f"{what}: expected at most {MAX_FILE_BYTES} bytes in {path}")
    return raw


def read_found(path: Path, what: str) -> bytes:
    """A file that lay in, or beside, what we were handed. Raises ``BadInputError``.

    Whoever packed a directory may have put a pipe into it, and whoever opens that waits for ever;
    one that a person names is theirs, as in ``<(command)``.
    """
    try:
        mode = path.stat().st_mode
    except OSError as error:
        raise BadInputError(f"{what}: expected a file at {path}: {error.strerror}") from error
    if not stat.S_ISREG(mode):
        raise BadInputError(f"{what}: expected a regular file at {path}, found something else")
    return read_file(path, what)
