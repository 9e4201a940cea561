"""What to send to a drive: decided from the policy and the drive's own capabilities, without I/O.

Numbers: NVM Express Base 2.0, figure 275 (Identify Controller: OACS, FNA, SANICAP), 5.14 (Format
NVM), 5.24 (Sanitize).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from eraser.controller.spec import IdentifyController, IdentifyNamespace
from eraser.protocol.conclusions.applied import Applied
from eraser.protocol.policy import Label, Method, Policy

OPCODE_FORMAT = 0x80
OPCODE_SANITIZE = 0x84
BROADCAST = 0xFFFFFFFF

OACS_FORMAT = 1 << 1
"""Format NVM is supported (Identify Controller bytes 257:256, bit 1)."""
OACS_MANAGEMENT = 1 << 3
"""Namespace Management and Attachment are supported (bit 3)."""
FNA_ERASE_ALL = 1 << 1
"""A secure erase of one namespace erases all of them (byte 524, bit 1)."""
FNA_CRYPTO = 1 << 2
"""Format NVM can erase cryptographically (bit 2)."""
FNA_NO_BROADCAST = 1 << 3
"""Set when NSID FFFFFFFFh is *not* supported by Format NVM (bit 3)."""
SANICAP_CRYPTO = 1 << 0
SANICAP_BLOCK = 1 << 1
SANICAP_PURGE = 1 << 5
"""It can be asked to purge as IEEE Std 2883 defines that, and reports whether it did (SPRRS; after
Base 2.0, docs/decisions/certificates.md)."""
PURGE_REQUIRED = 1 << 11
"""PREQ in dword 10 of Sanitize: purge so, or fail."""


@dataclass(frozen=True)
class MethodSpec:
    """What one method is in a command, and which bits of Identify Controller offer it."""

    opcode: int
    cdw10: int
    """Sanitize: SANACT, bits 2:0; AUSE (bit 3), NDAS (bit 9) and EMVS (bit 10) stay 0: after a
    failure only a new sanitize may free the drive, and deallocated blocks read as DLFEAT says.
    Format: SES, bits 11:9; SES 0 erases nothing and is never sent."""
    sanicap: int = 0
    oacs: int = 0
    fna: int = 0


METHODS: Final[Mapping[Method, MethodSpec]] = {
    Method.SANITIZE_CRYPTO: MethodSpec(OPCODE_SANITIZE, 0b100, sanicap=SANICAP_CRYPTO),
    Method.SANITIZE_BLOCK: MethodSpec(OPCODE_SANITIZE, 0b010, sanicap=SANICAP_BLOCK),
    Method.FORMAT_CRYPTO: MethodSpec(OPCODE_FORMAT, 0b010 << 9, oacs=OACS_FORMAT, fna=FNA_CRYPTO),
    Method.FORMAT_USER_DATA: MethodSpec(OPCODE_FORMAT, 0b001 << 9, oacs=OACS_FORMAT),
}
"""All that a host has to know of a method; what the control plane believes of one stands in
``quarantine/evidence/checks/methods.py``, on purpose a second time."""


@dataclass(frozen=True)
class Capabilities:
    """The part of Identify Controller that decides what can be sent."""

    oacs: int
    fna: int
    sanicap: int

    @classmethod
    def of(cls, controller: IdentifyController) -> Capabilities:
        """What ``controller`` says of itself."""
        return cls(controller.oacs, controller.fna, controller.sanicap)

    @property
    def formats(self) -> bool:
        """Whether Format NVM is there."""
        return bool(self.oacs & OACS_FORMAT)

    @property
    def manages(self) -> bool:
        """Whether namespaces can be deleted and created."""
        return bool(self.oacs & OACS_MANAGEMENT)


@dataclass(frozen=True)
class FormatTarget:
    """One active namespace, as Format NVM has to name it so that its layout stays as it is."""

    nsid: int
    lba_format: int
    extended_metadata: bool = False
    protection: int = 0
    """DPS: bits 2:0 the type, bit 3 whether it stands first in the metadata."""

    @classmethod
    def of(cls, nsid: int, namespace: IdentifyNamespace) -> FormatTarget:
        """From Identify Namespace."""
        return cls(
            nsid, namespace.lba_format, namespace.extended_metadata, namespace.protection & 0xF
        )


@dataclass(frozen=True)
class PlannedCommand:
    """One destructive command, complete."""

    method: Method
    opcode: int
    nsid: int
    cdw10: int


@dataclass(frozen=True)
class ErasePlan:
    """What will be done; empty ``commands`` with a ``refusal`` where the policy allows nothing.

    Empty without one: Format it will be, and there is no namespace yet that it could erase.
    """

    commands: tuple[PlannedCommand, ...]
    achieved: Label | None
    downgraded: bool
    refusal: str = ""


def offers(method: Method, caps: Capabilities) -> bool:
    """Whether the drive says that it can do ``method``."""
    spec = METHODS[method]
    # A mask of 0 asks for nothing, so it is always fulfilled.
    has = ((spec.sanicap, caps.sanicap), (spec.oacs, caps.oacs), (spec.fna, caps.fna))
    return all(found & wanted == wanted for wanted, found in has)


def sanitize_cdw10(method: Method, caps: Capabilities) -> int:
    """Sanitize command dword 10 (Base 2.0, 5.24)."""
    return METHODS[method].cdw10 | (PURGE_REQUIRED if caps.sanicap & SANICAP_PURGE else 0)


def format_cdw10(method: Method, target: FormatTarget) -> int:
    """Format NVM command dword 10 (Base 2.0, 5.14; NVM Command Set 1.0, 5.3).

    The LBA format's index (0 to 63) has its bits 3:0 in 3:0 and 5:4 in 13:12. MSET, PI and PIL
    repeat what is set now: an erase changes no layout. Raises ``ValueError`` for another index.
    """
    if not 0 <= target.lba_format <= 63:
        raise ValueError(f"expected an LBA format of 0 to 63, found {target.lba_format}")
    return (
        target.lba_format & 0xF
        | int(target.extended_metadata) << 4
        | (target.protection & 0b111) << 5
        | (target.protection >> 3 & 1) << 8
        | METHODS[method].cdw10
        | (target.lba_format >> 4) << 12
    )


def _format_one(method: Method, target: FormatTarget, nsid: int) -> PlannedCommand:
    return PlannedCommand(method, OPCODE_FORMAT, nsid, format_cdw10(method, target))


def format_commands(
    method: Method, targets: tuple[FormatTarget, ...], caps: Capabilities
) -> tuple[PlannedCommand, ...]:
    """One Format for each namespace, or one for all where the drive erases all anyway.

    NSID and the LBA format always stand in the command. One command for all is used only when
    FNA bit 1 says that any secure erase erases all, and all namespaces have the same format,
    because a broadcast sets one format for everything.
    """
    each = tuple(_format_one(method, target, target.nsid) for target in targets)
    # Dword 10 has the LBA format, metadata and protection: equal ones mean an equal layout.
    alike = len({command.cdw10 for command in each}) == 1
    if len(each) > 1 and alike and caps.fna & FNA_ERASE_ALL:
        # FNA bit 1 makes a Format of any one namespace erase all, so one is enough where there is
        # no broadcast.
        nsid = targets[0].nsid if caps.fna & FNA_NO_BROADCAST else BROADCAST
        return (_format_one(method, targets[0], nsid),)
    return each


def _purge(methods: tuple[Method, ...], caps: Capabilities) -> tuple[PlannedCommand, ...]:
    return tuple(
        PlannedCommand(method, OPCODE_SANITIZE, 0, sanitize_cdw10(method, caps))
        for method in methods
        if offers(method, caps)
    )


def _clear(
    methods: tuple[Method, ...], caps: Capabilities, targets: tuple[FormatTarget, ...]
) -> tuple[PlannedCommand, ...]:
    for method in methods:
        if offers(method, caps):
            return format_commands(method, targets, caps)
    return ()


def make_plan(
    policy: Policy,
    caps: Capabilities,
    targets: tuple[FormatTarget, ...],
    applied: Applied | None = None,
) -> ErasePlan:
    """The ordered commands that ``policy`` wants and the drive offers.

    For Purge: every purge method that is offered. Where some are not, only if ``allow_fewer``.
    Where none is, the first clear method that is offered, if ``allow_clear``, as a named
    downgrade. For Clear: the first clear method; where the drive offers none, purge methods, which
    do more than was asked. ``applied`` is the policy with the quirks of this drive.
    """
    applied = applied or Applied.plain(policy)
    purge = _purge(applied.purge_methods, caps)
    if policy.label is Label.PURGE and purge:
        # Nothing is sent then: a person decides whether fewer methods are enough.
        if len(purge) < len(applied.purge_methods) and not policy.allow_fewer:
            return _refused(policy, applied, caps, "it offers only some of them (allow_fewer)")
        return ErasePlan(purge, Label.PURGE, downgraded=False)
    clear = _clear(applied.clear_methods, caps, targets)
    # Not whether ``clear`` has commands: a drive without a namespace offers Format and has no
    # target.
    can_clear = any(offers(method, caps) for method in applied.clear_methods)
    if policy.label is Label.CLEAR:
        if can_clear:
            return ErasePlan(clear, Label.CLEAR, downgraded=False)
        if purge:
            return ErasePlan(purge, Label.PURGE, downgraded=False)
    elif policy.allow_clear and can_clear:
        return ErasePlan(clear, Label.CLEAR, downgraded=True)
    # What would have been possible is named, so that the operator sees which permission is missing.
    hint = ""
    if policy.label is Label.PURGE and can_clear:
        hint = "it could do Clear, which the policy does not allow (allow_clear)"
    return _refused(policy, applied, caps, hint)


def _refused(policy: Policy, applied: Applied, caps: Capabilities, hint: str) -> ErasePlan:
    found = f"SANICAP {caps.sanicap:#x}, OACS {caps.oacs:#x}, FNA {caps.fna:#x}"
    wanted = applied.purge_methods if policy.label is Label.PURGE else applied.clear_methods
    offered = [method for method in wanted if offers(method, caps)]
    joint = " and " if not policy.allow_fewer and policy.label is Label.PURGE else " or "
    text = (
        f"policy {policy.name!r} wants {policy.label} by {joint.join(wanted) or 'nothing'}, "
        f"the drive offers {' and '.join(offered) or 'none'} ({found})"
    )
    if applied.skipped:
        text += f"; quirks for its model skip {', '.join(applied.skipped)}"
    if hint:
        text += f"; {hint}"
    return ErasePlan((), None, downgraded=False, refusal=text)
