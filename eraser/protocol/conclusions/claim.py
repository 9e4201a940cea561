"""What a certificate, or a report, claims of a drive's blocks: enough to read it once more.

Read by :mod:`eraser.protocol.transport.claims`, which can check a signature.
"""

from __future__ import annotations

from dataclasses import dataclass

from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Verification, VerificationMode
from eraser.protocol.report import NamespaceVerification

CERTIFICATE_TYPE = "nvme-quarantine.certificate+json"
"""The JWS ``typ`` of a certificate."""

_SEED = 16
"""Bytes that a seed has at least."""


@dataclass(frozen=True)
class Claim:
    """What was read on which drive, and how to find the very same places again."""

    source: str
    """``certificate`` or ``report``."""
    signature: str
    """``verified``, or why it was not looked at."""
    identity: ControllerIdentity
    done: VerificationMode
    seed: str
    confidence: float
    residual: float
    expected: str
    namespaces: tuple[NamespaceVerification, ...]
    log_after: str
    """Base64 of log 81h after the last method; empty for Format."""
    issued_at: str
    """UTC, for people."""

    def __post_init__(self) -> None:
        try:
            long_enough = len(bytes.fromhex(self.seed)) >= _SEED
        except ValueError:
            long_enough = False
        if not long_enough:
            raise ValueError(f"expected a seed of {_SEED} bytes or more, found {self.seed[:40]!r}")
        # The codec bounds numbers only by what can be stored; these choose how much is read.
        Verification(confidence=self.confidence, residual=self.residual)
        if not self.namespaces or len({n.nsid for n in self.namespaces}) != len(self.namespaces):
            raise ValueError("expected namespaces, each once")
        for n in self.namespaces:
            if not (1 <= n.nsid < 0xFFFFFFFF and 0 < n.blocks < 1 << 52):
                raise ValueError(f"expected a possible namespace, found {n.nsid} of {n.blocks}")
