"""What an operator wants done to a drive: methods, proof, limits. Data, decided once, printed."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


class Method(enum.StrEnum):
    """One destructive command, by what the standard calls it (NVM Express Base 2.0, 5.14, 5.24)."""

    SANITIZE_CRYPTO = "sanitize-crypto"
    """Sanitize, SANACT 100b: change the media encryption keys of all namespaces."""
    SANITIZE_BLOCK = "sanitize-block"
    """Sanitize, SANACT 010b: block erase of all media that can hold user data."""
    FORMAT_CRYPTO = "format-crypto"
    """Format NVM, SES 010b: change the media encryption key."""
    FORMAT_USER_DATA = "format-user-data"
    """Format NVM, SES 001b: erase all user data; content is indeterminate afterwards."""

    @property
    def is_sanitize(self) -> bool:
        """Sanitize runs in the background and survives power loss; Format does neither."""
        return self in (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)


class Label(enum.StrEnum):
    """The operator's name for a class of methods (NIST SP 800-88, IEEE 2883 words)."""

    PURGE = "Purge"
    """Sanitize of the whole NVM subsystem, with success in its log."""
    CLEAR = "Clear"
    """Format NVM with a secure erase setting."""


class VerificationMode(enum.StrEnum):
    """How much is read back."""

    STATISTICAL = "statistical"
    """Stratified random 4 KiB reads to a stated bound; all, where that is cheaper."""
    NIST = "nist"
    """The layout of NIST SP 800-88r1 4.7.3 (withdrawn in 2025): a tenth of the media in windows,
    and the statistical sample beside it, because bytes are not confidence."""
    FULL = "full"
    """Every block of every namespace."""


@dataclass(frozen=True)
class Verification:
    """The proof asked for.

    ``confidence`` C and ``residual`` f: if more than the fraction f of blocks still held old data,
    the check would have found some with probability C; n = ln(1-C)/ln(1-f) blocks are read.
    """

    mode: VerificationMode = VerificationMode.STATISTICAL
    confidence: float = 0.999
    residual: float = 0.0001
    canaries: int = 1024
    """Blocks of 4 KiB written at secret places before the erase, that must be gone after it."""
    reread: int = 4096
    """Blocks of 4 KiB at random places that are read again, with every probe, after another
    controller reset; 0 reads nothing again and resets no second time."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"expected 0.5 <= confidence < 1, found {self.confidence}")
        if not 1e-7 <= self.residual <= 0.1:
            raise ValueError(f"expected 1e-7 <= residual <= 0.1, found {self.residual}")
        if not 0 <= self.canaries <= 1 << 20:
            raise ValueError(f"expected 0 to 1048576 canaries, found {self.canaries}")
        if not 0 <= self.reread <= 1 << 20:
            raise ValueError(f"expected 0 to 1048576 blocks to reread, found {self.reread}")


@dataclass(frozen=True)
class Limits:
    """Durations in seconds, each on the host's own clock. A slow drive needs larger ones."""

    command: float = 30.0
    """One ordinary admin command (Identify, Get Log Page, Get Features)."""
    format: float = 3600.0
    """One Format NVM. Sent as the command's own timeout, past the kernel's admin_timeout."""
    sanitize: float = 86400.0
    """One Sanitize, from the command to its end in log 81h."""
    stuck: float = 900.0
    """A Sanitize whose SPROG does not move for this long is stuck."""
    poll: float = 0.5
    """Between two looks at log 81h."""
    ready: float = 60.0
    """A controller after a reset or a driver change, until it is live with its namespaces."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not 0 < getattr(self, name) <= 30 * 86400:
                raise ValueError(
                    f"expected 0 < {name} <= 2592000 seconds, found {getattr(self, name)}"
                )


@dataclass(frozen=True)
class Health:
    """Beyond these a drive is erased all the same, but not handed out."""

    max_percentage_used: int = 100
    """SMART log 02h byte 5; 100 is the vendor's rated endurance."""
    allow_critical_warning: bool = False
    """SMART log 02h byte 0 not zero: spare low, read only, too hot, unreliable."""


@dataclass(frozen=True)
class Policy:
    """How drives of an operator are erased.

    For Purge every method of ``purge_methods`` that the drive offers is run, in this order, the
    last one being the one that is verified. A drive that offers none is held, unless
    ``allow_clear`` permits the first of ``clear_methods`` that it offers; the certificate then
    says Clear and names the downgrade (promise 5).
    """

    name: str = "purge"
    label: Label = Label.PURGE
    allow_clear: bool = False
    purge_methods: tuple[Method, ...] = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
    clear_methods: tuple[Method, ...] = (Method.FORMAT_USER_DATA, Method.FORMAT_CRYPTO)
    verification: Verification = field(default_factory=Verification)
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=Health)

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 64:
            raise ValueError(f"expected a policy name of 1 to 64 characters, found {self.name!r}")
        if any(not m.is_sanitize for m in self.purge_methods):
            raise ValueError("expected only sanitize methods among purge_methods: Format is Clear")
        if any(m.is_sanitize for m in self.clear_methods):
            raise ValueError("expected only format methods among clear_methods")
        if self.label is Label.PURGE and not self.purge_methods:
            raise ValueError("expected at least one purge method for the label Purge")
