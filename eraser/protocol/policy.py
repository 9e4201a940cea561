"""What an operator wants done to a drive: methods, proof, limits. Data, decided once, printed."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace
from typing import Final

from eraser.protocol.codec import LATE
from eraser.protocol.fitness import Health


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
    and the statistical sample beside it. Policies and certificates of old name it; whoever asks
    for it now has everything read."""
    FULL = "full"
    """Every block of every namespace."""


NIST_IS_FULL: Final = (
    "verification 'nist', which is gone: every block is read, as in 'full'; let the policy say so"
)
"""What whoever asks for the layout is told, in the worker's log and by hand."""


class Unallocated(enum.StrEnum):
    """What is done about capacity that belongs to no namespace (docs/decisions/unallocated.md)."""

    PRINT = "print"
    """A temporary namespace is made over it, erased and read with the others, and deleted. Where
    the drive refuses that: printed under Purge, held under Clear."""
    HOLD = "hold"
    """The same, and what could not be read is held under Purge too."""
    SKIP = "skip"
    """No namespace is made, and none is detached between two methods: printed."""


class Buffers(enum.StrEnum):
    """What becomes of a drive with memory that a host can map, where Format was all that erased it
    (docs/decisions/buffers.md)."""

    HOLD = "hold"
    """Format does not reach it, and nobody has read it: the drive is held."""
    PRINT = "print"
    """It is handed out, and its certificate says so."""


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
    visit: int = field(default=256, metadata=LATE)
    """Blocks of 4 KiB for each of the next tenant's first acts: ways of reading after the last
    method, and of writing too between two methods; 0 does none of them."""
    settle: float = field(default=30.0, metadata=LATE)
    """Seconds without a command before the last of these acts, after the last method: a drive may
    show what it kept once it was left alone for a while. 0, and without a visit: none."""
    unallocated: Unallocated = field(default=Unallocated.PRINT, metadata=LATE)
    """Capacity that belongs to no namespace: how much of a proof is asked for."""
    buffers: Buffers = field(default=Buffers.HOLD, metadata=LATE)
    """A controller memory buffer or a persistent memory region that no sanitize has reached."""
    bus_reset: bool = field(default=False, metadata=LATE)
    """Among the next tenant's first acts, resets of the bus that the drive is alone on. A kernel
    may take such a slot down and up again (before Linux 6.15): try a host of each kind first."""
    subsystem_reset: bool = field(default=False, metadata=LATE)
    """Among those acts, resets of the NVM subsystem. They may take the PCI Express link down, and
    the standard warns of hosts that crash then (Base 1.4, 10.5): try a host of each kind first."""

    def __post_init__(self) -> None:
        if not 0.5 <= self.confidence < 1:
            raise ValueError(f"expected 0.5 <= confidence < 1, found {self.confidence}")
        if not 1e-7 <= self.residual <= 0.1:
            raise ValueError(f"expected 1e-7 <= residual <= 0.1, found {self.residual}")
        if not 0 <= self.canaries <= 1 << 20:
            raise ValueError(f"expected 0 to 1048576 canaries, found {self.canaries}")
        if not 0 <= self.visit <= 1 << 16:
            raise ValueError(f"expected 0 to 65536 blocks for each act, found {self.visit}")
        if not 0 <= self.settle <= 3600:
            raise ValueError(f"expected to settle for 0 to 3600 s, found {self.settle}")
        if not 0 <= self.reread <= 1 << 20:
            raise ValueError(f"expected 0 to 1048576 blocks to reread, found {self.reread}")


MAX_LIMIT = 30 * 86400.0


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
    ready: float = 180.0
    """A controller after a reset or a driver change, until it is live with its namespaces. A drive
    may ask for up to 127.5 s (CAP.TO; Base 2.1, 3.1.4.1), and the kernel waits as long."""

    def __post_init__(self) -> None:
        for name in self.__dataclass_fields__:
            if not 0 < getattr(self, name) <= MAX_LIMIT:
                raise ValueError(
                    f"expected 0 < {name} <= {MAX_LIMIT:.0f} seconds, found {getattr(self, name)}"
                )


@dataclass(frozen=True)
class LimitOverrides:
    """The :class:`Limits` that a quirk changes, in seconds; None leaves the policy's."""

    command: float | None = None
    format: float | None = None
    sanitize: float | None = None
    stuck: float | None = None
    poll: float | None = None
    ready: float | None = None

    def __post_init__(self) -> None:
        # An override that Limits does not take is refused as it is read, and not in the middle of a
        # case.
        self.over(Limits())

    def over(self, limits: Limits) -> Limits:
        """``limits`` with what is given here. Raises ``ValueError`` for what :class:`Limits` does
        not take."""
        given = {
            name: value
            for name in self.__dataclass_fields__
            if (value := getattr(self, name)) is not None
        }
        return replace(limits, **given)


@dataclass(frozen=True)
class Quirk:
    """What is known of one model, and how its drives are erased otherwise than the others.

    An explicit decision of the operator: what it skips needs no other permission, and it is
    printed with its reason on every certificate that it was used for.
    """

    model: str
    """Identify Controller's model number; a ``*`` at the end stands for any rest."""
    reason: str
    """Why, for whoever reads a certificate in years: the fault seen, a vendor's notice."""
    firmware: str = "*"
    """Revision, as ``model``."""
    vendor_id: int = 0
    """PCI vendor id; 0 for any."""
    skip: tuple[Method, ...] = ()
    """Methods that are not sent to it, though it offers them."""
    purge_methods: tuple[Method, ...] = ()
    """In place of the policy's, where another order or choice works; empty leaves them."""
    clear_methods: tuple[Method, ...] = ()
    """As ``purge_methods``."""
    limits: LimitOverrides = field(default_factory=LimitOverrides)

    def __post_init__(self) -> None:
        for name in ("model", "firmware"):
            text = getattr(self, name)
            # 40 characters are the longest model number; one more is the star.
            if not text or "*" in text[:-1] or len(text) > 41:
                raise ValueError(
                    f"expected a quirk's {name} as text of at most 40 characters with at most one "
                    f"* at its end, found {text!r}"
                )
        if not self.reason.strip() or len(self.reason) > 300:
            raise ValueError(
                f"expected a reason of 1 to 300 characters for the quirk of {self.model!r}: it is "
                f"printed on certificates; found {len(self.reason)}"
            )
        _check_methods(self.purge_methods, self.clear_methods)
        if not (self.skip or self.purge_methods or self.clear_methods or self.limits != _NO_LIMITS):
            raise ValueError(f"expected the quirk of {self.model!r} to change something")

    def fits(self, vendor_id: int, model: str, firmware: str) -> bool:
        """Whether it is about such a drive."""
        return (
            self.vendor_id in (0, vendor_id)
            and _fits(self.model, model)
            and _fits(self.firmware, firmware)
        )


def _fits(pattern: str, text: str) -> bool:
    if pattern.endswith("*"):
        return text.startswith(pattern[:-1])
    return text == pattern


_NO_LIMITS = LimitOverrides()

MAX_QUIRKS = 256
"""Of one policy: it travels with every order."""


def _check_methods(purge: tuple[Method, ...], clear: tuple[Method, ...]) -> None:
    if any(not m.is_sanitize for m in purge):
        raise ValueError("expected only sanitize methods among purge_methods: Format is Clear")
    if any(m.is_sanitize for m in clear):
        raise ValueError("expected only format methods among clear_methods")
    for methods in (purge, clear):
        if len(set(methods)) != len(methods):
            raise ValueError(f"expected each method once, found {', '.join(methods)}")


@dataclass(frozen=True)
class Policy:
    """How drives of an operator are erased.

    For Purge every method of ``purge_methods`` that the drive offers is run, in this order, the
    last one being the one that is verified. A drive that offers none is held, unless
    ``allow_clear`` permits the first of ``clear_methods`` that it offers; the certificate then
    says Clear and names the downgrade (promise 5). Each downgrade has a permission of its own.
    """

    name: str = "purge"
    label: Label = Label.PURGE
    allow_clear: bool = False
    """A drive that offers no purge method is cleared by Format instead."""
    allow_fewer: bool = True
    """A drive that offers some of ``purge_methods`` is purged by those: each of them alone is a
    Purge. False holds it, and nothing is sent."""
    allow_failed: bool = False
    """A purge method that the drive refused, or said to have failed, holds it no more where the
    last one of the plan ended well."""
    purge_methods: tuple[Method, ...] = (Method.SANITIZE_CRYPTO, Method.SANITIZE_BLOCK)
    clear_methods: tuple[Method, ...] = (Method.FORMAT_USER_DATA, Method.FORMAT_CRYPTO)
    verification: Verification = field(default_factory=Verification)
    limits: Limits = field(default_factory=Limits)
    health: Health = field(default_factory=Health)
    quirks: tuple[Quirk, ...] = ()
    """By model; where several fit a drive, what later ones say counts."""

    def __post_init__(self) -> None:
        if not self.name or len(self.name) > 64:
            raise ValueError(f"expected a policy name of 1 to 64 characters, found {self.name!r}")
        _check_methods(self.purge_methods, self.clear_methods)
        if self.label is Label.PURGE and not self.purge_methods:
            raise ValueError("expected at least one purge method for the label Purge")
        if len(self.quirks) > MAX_QUIRKS:
            raise ValueError(f"expected at most {MAX_QUIRKS} quirks, found {len(self.quirks)}")
