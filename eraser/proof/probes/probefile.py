"""A small file that outlives a power cut, or is known to be damaged."""

from __future__ import annotations

import hmac
from pathlib import Path

from eraser.errors import BadInputError, EraserError
from eraser.state.journal import replace_durably

_MAGIC = b"NVMEQ-PROBES-1\n\0"
_SEAL = 32
KEY_BYTES = 32


def check_key(key: bytes) -> bytes:
    """The key itself. Raises :class:`BadInputError` unless it has :data:`KEY_BYTES`."""
    if len(key) != KEY_BYTES:
        raise BadInputError(f"probe key: expected {KEY_BYTES} bytes, found {len(key)}")
    return key


def save(path: str, key: bytes, payload: bytes) -> None:
    """Replace ``path`` by ``payload`` and its seal in one step; on the medium on return.

    Raises :class:`EraserError` where the directory cannot be written.
    """
    # The seal tells damage and another case's key alike: either way the content is no witness.
    sealed = _MAGIC + payload + hmac.digest(key, _MAGIC + payload, "sha256")
    try:
        replace_durably(Path(path), sealed)
    except OSError as error:
        raise EraserError(f"{path}: expected to write it, found {error.strerror}") from error


def load(path: str, key: bytes) -> bytes:
    """The payload. Raises :class:`BadInputError` where the file is absent, damaged or sealed with
    another key."""
    try:
        with open(path, "rb") as file:
            raw = file.read()
    except OSError as error:
        raise BadInputError(f"{path}: expected probes, found {error.strerror}") from error
    body, seal = raw[:-_SEAL], raw[-_SEAL:]
    if not body.startswith(_MAGIC) or not hmac.compare_digest(
        seal, hmac.digest(key, body, "sha256")
    ):
        raise BadInputError(
            f"{path}: expected probes sealed with this case's key, found something else;"
            " they are lost, the case goes on without them"
        )
    return body[len(_MAGIC) :]
