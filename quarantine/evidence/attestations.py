"""What the operator states about the encryption of a model, from a file of theirs."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from quarantine.errors import BadInputError


@dataclass(frozen=True)
class Attestation:
    """One statement, for models and firmware revisions that match both patterns (``*``, ``?``)."""

    model: str
    firmware: str
    statement: str
    """Cipher and strength, since when, and whose word it is."""

    def __post_init__(self) -> None:
        if not (self.model and self.firmware and self.statement.strip()):
            raise ValueError("expected a model, a firmware and a statement, found one empty")


@dataclass(frozen=True)
class _File:
    attestations: tuple[Attestation, ...]


def read(raw: bytes, what: str) -> tuple[Attestation, ...]:
    """``{"attestations": [...]}``. Raises :class:`BadInputError` with one line."""
    try:
        return codec.load(_File, raw, what).attestations
    except BadWireError as error:
        raise BadInputError(str(error)) from error


def statement(known: Sequence[Attestation], model: str, firmware: str) -> str:
    """The first that matches; empty where none does."""
    # Case counts on every platform, which fnmatch() leaves to the system.
    for found in known:
        if fnmatch.fnmatchcase(model, found.model) and fnmatch.fnmatchcase(
            firmware, found.firmware
        ):
            return found.statement
    return ""
