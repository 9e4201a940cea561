"""Small facts that a host keeps beside its books, each in a file of its own and replaced whole.

In files of their own, because an earlier release refuses a book with members that it does not know.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, TypeVar

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.state.journal import make_directory, replace_durably

T = TypeVar("T")


def save(path: Path, note: Any) -> None:
    """Writes a dataclass: it is on the disk, whole, when this returns. Raises ``OSError``."""
    make_directory(path.parent)
    replace_durably(path, codec.canonical(note) + b"\n")


def load(path: Path, missing: T) -> T:
    """What was saved there, of the class of ``missing``; that itself where nothing was.

    Raises :class:`BadInputError`.
    """
    kind = type(missing)
    try:
        value = codec.parse(path.read_bytes(), str(path))
    except FileNotFoundError:
        return missing
    except OSError as error:
        raise BadInputError(f"expected to read {path}, found {error.strerror}") from error
    # A later release may have more to say.
    return codec.decode(kind, codec.known(kind, value), str(path))
