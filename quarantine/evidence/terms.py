"""The standards' words for what is sent to a drive.

NIST SP 800-88 calls Clear, Purge and Destroy *methods*, and what carries one out a *technique*. Its
second revision could not be read here as a primary text (docs/decisions/certificates.md), so no
section of it is cited anywhere.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eraser.protocol.policy import Method


@dataclass(frozen=True)
class TechniqueWords:
    """One technique in words."""

    name: str
    operation: str
    """The command, and the setting that makes it this technique."""
    does: str
    """What NVM Express says that it does (Base 2.0, 8.21; 5.14)."""
    cryptographic: bool
    """It changes a key and touches no medium."""


TECHNIQUES: Final[Mapping[str, TechniqueWords]] = {
    Method.SANITIZE_CRYPTO: TechniqueWords(
        "cryptographic erase",
        "Sanitize, crypto erase",
        "changes the media encryption keys",
        cryptographic=True,
    ),
    Method.SANITIZE_BLOCK: TechniqueWords(
        "block erase",
        "Sanitize, block erase",
        "erases all media that can hold user data",
        cryptographic=False,
    ),
    Method.FORMAT_USER_DATA: TechniqueWords(
        "user data erase by Format NVM",
        "Format NVM, secure erase setting 1",
        "erases the user data",
        cryptographic=False,
    ),
    Method.FORMAT_CRYPTO: TechniqueWords(
        "cryptographic erase by Format NVM",
        "Format NVM, secure erase setting 2",
        "changes the media encryption key",
        cryptographic=True,
    ),
}
"""By the command's name."""

CRYPTOGRAPHIC: Final = frozenset(name for name, each in TECHNIQUES.items() if each.cryptographic)
