"""The standard's words for what is sent to a drive.

NIST SP 800-88 calls Clear, Purge and Destroy *methods*, and what carries one out a *technique*. Its
second revision could not be read here as a primary text (docs/decisions/certificates.md), so no
section of it is cited anywhere.
"""

from __future__ import annotations

from eraser.protocol.policy import Method

TECHNIQUES: dict[str, str] = {
    Method.SANITIZE_CRYPTO: "cryptographic erase",
    Method.SANITIZE_BLOCK: "block erase",
    Method.FORMAT_USER_DATA: "user data erase by Format NVM",
    Method.FORMAT_CRYPTO: "cryptographic erase by Format NVM",
}
"""By the command's name."""

CRYPTOGRAPHIC = frozenset({Method.SANITIZE_CRYPTO, Method.FORMAT_CRYPTO})
"""These change a key and touch no medium."""
