"""Asking a drive for what it may not have: an absent capability is an answer, not an error.

Every function raises ``DriveError`` where the drive does not answer at all, or answers nonsense.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import TypeVar

from eraser.controller import spec
from eraser.controller.nvme import Controller
from eraser.controller.passthru import (
    ALL_NAMESPACES,
    CNS_CONTROLLERS,
    CNS_PRIMARY_CAPABILITIES,
    GET_LOG_PAGE,
    IDENTIFY,
    LOG_BOOT_PARTITION,
    LOG_LOCKDOWN,
    SECURITY_RECEIVE,
    CommandError,
)
from eraser.controller.registers import Registers
from eraser.controller.spec import IdentifyController, IdentifyNamespace
from eraser.drive import atasecurity, firmware, hostidentifier, optionalquestions, statelogs, tcg
from eraser.drive.reservations import reservations
from eraser.errors import DriveError
from eraser.protocol.condition import (
    BootPartitions,
    Condition,
    FirmwareSlots,
    FlexibleResources,
    Lockdown,
    SecurityState,
    WriteProtection,
)

FEATURE_WRITE_PROTECTION = 0x84

UNTOLD = 0
"""A number of controllers that nobody knows."""

_SECURITY, _RESERVATIONS, _PROTECTION = "TCG security", "reservations", "write protection"
LOCKS = frozenset({_SECURITY, _RESERVATIONS, _PROTECTION})
"""Answers that say whether somebody keeps the next user from the drive, by name."""

_LOCKDOWN_PROHIBITED = 1 << 4
"""Log 14h, log specific parameter bits 5:4: list what is prohibited now. Bits 3:0 are the scope."""
_SCOPE_OPCODES, _SCOPE_FEATURES = 0x0, 0x2

_VERSION_2 = 2 << 16
_BOOT_LOG = "the Boot Partition log (15h)"
_BOOT_PART = 64 << 10
"""Bytes in one command, where the drive's MDTS allows as many."""
BOOT_READ_MOST = 4 << 20
"""Bytes of a boot partition that are worth a second of every look."""
_LPA_OFFSET = 1 << 2
"""LPA bit 2: Get Log Page takes an offset."""

_RPMB_UNITS = 0x7
"""RPMBS bits 2:0 (Base 2.0, figure 275, bytes 315:312)."""
_LPA_TELEMETRY, _LPA_PERSISTENT_EVENTS = 1 << 3, 1 << 4
"""LPA (byte 261)."""


def condition(
    controller: Controller,
    identify: IdentifyController,
    namespaces: tuple[tuple[int, IdentifyNamespace], ...],
    name: hostidentifier.Namer | None = hostidentifier.name,
) -> Condition:
    """Everything that a tenant may have left beside data and layout.

    ``namespaces`` are the active ones; ``name`` as for
    :func:`~eraser.drive.reservations.reservation`. Raises ``DriveError`` where the drive does not
    answer.
    """
    nonsense: list[str] = []
    # Registers are read once: boot partitions and buffers are told by the same look.
    told = controller.registers()
    boot = sensible(
        "boot partitions", lambda: boot_partitions(controller, identify, told), None, nonsense
    )
    return Condition(
        firmware=sensible(
            "firmware slots", lambda: firmware_slots(controller, identify), None, nonsense
        ),
        controllers=sensible(
            "controllers", lambda: controllers(controller, identify), UNTOLD, nonsense
        ),
        security=sensible(_SECURITY, lambda: security(controller, identify), None, nonsense),
        boot=boot,
        # It is unknown only where a register would have told it, and nobody could read that one.
        boot_untold=boot is None and _tells_by_register(identify) and told is None,
        lockdown=sensible("lockdown", lambda: lockdown(controller, identify), None, nonsense),
        reservations=sensible(
            _RESERVATIONS,
            lambda: reservations(controller, identify, namespaces, nonsense, name),
            (),
            nonsense,
        ),
        protected=sensible(
            _PROTECTION, lambda: protected(controller, identify, namespaces), (), nonsense
        ),
        rpmb_units=identify.rpmbs & _RPMB_UNITS,
        logs=logs(identify),
        unreadable=tuple(nonsense),
        buffers=controller.buffers_by_driver() if told is None else told.buffers,
        buffers_untold=told is None,
        # Nonsense about it is named nowhere: older profiles expect sense of all that is named.
        flexible=sensible("flexible resources", lambda: flexible(controller, identify), None, []),
    )


T = TypeVar("T")


def sensible(what: str, ask: Callable[[], T], default: T, nonsense: list[str]) -> T:
    """The answer, or ``default`` for one that cannot be: no drive goes unerased for its firmware's
    nonsense. Raises ``DriveError`` where the drive does not answer at all."""
    try:
        return ask()
    except CommandError as error:
        # Without a completion the drive is silent, which is no nonsense: the case must not go on.
        if error.status is None:
            raise
    except DriveError:
        pass
    nonsense.append(what)
    return default


def _ask(
    controller: Controller,
    opcode: int,
    length: int,
    what: str,
    *,
    nsid: int = 0,
    cdw10: int,
    cdw11: int = 0,
    cdw12: int = 0,
) -> bytes | None:
    """The bytes; None where the drive refused the command with a status."""
    try:
        return controller.read(
            opcode, length, what, nsid=nsid, cdw10=cdw10, cdw11=cdw11, cdw12=cdw12
        )
    except CommandError as error:
        # A status is the drive's refusal, which is an answer. Without one nothing was answered.
        if not error.status:
            raise
        return None


def _log(
    controller: Controller,
    lid: int,
    length: int,
    what: str,
    parameter: int = 0,
    offset: int = 0,
) -> bytes | None:
    """A log page from ``offset`` on (dword 12), with its log specific parameter (dword 10 bits
    14:8; Base 2.0, 5.16)."""
    cdw10 = (length // 4 - 1) << 16 | parameter << 8 | lid
    return _ask(
        controller, GET_LOG_PAGE, length, what, nsid=ALL_NAMESPACES, cdw10=cdw10, cdw12=offset
    )


def firmware_slots(controller: Controller, identify: IdentifyController) -> FirmwareSlots | None:
    """Log 03h. Mandatory, and yet refused by some."""
    try:
        return firmware.parse(controller.firmware_log(), identify.frmw)
    except CommandError as error:
        if not error.status:
            raise
        return None


def controllers(controller: Controller, identify: IdentifyController) -> int:
    """How many controllers the subsystem has (CNS 13h): 1 where it says that it has only one,
    :data:`UNTOLD` where it says that there may be more and does not list them, or lists none."""
    if not identify.many_controllers:
        return 1
    what = "the controllers of the subsystem"
    raw = _ask(controller, IDENTIFY, spec.IDENTIFY_BYTES, what, cdw10=CNS_CONTROLLERS)
    # At least the one that was asked is there, so an empty list tells of none.
    return UNTOLD if raw is None else len(statelogs.controller_list(raw)) or UNTOLD


def flexible(controller: Controller, identify: IdentifyController) -> FlexibleResources | None:
    """CNS 14h, on a drive with Virtualization Management; dword 10 bits 31:16 name the primary
    controller."""
    if not identify.can_virtualize:
        return None
    what = "the capabilities of the primary controller"
    cdw10 = identify.controller_id << 16 | CNS_PRIMARY_CAPABILITIES
    length = spec.IDENTIFY_BYTES
    raw = optionalquestions.ask(
        controller, what, lambda: _ask(controller, IDENTIFY, length, what, cdw10=cdw10)
    )
    return None if raw is None else statelogs.flexible(raw)


def security(controller: Controller, identify: IdentifyController) -> SecurityState | None:
    """Level 0 Discovery and the password of ATA, on a drive with Security Receive."""
    if not identify.can_secure:
        return None
    raw = _security(
        controller, tcg.PROTOCOL, tcg.COMID, tcg.DISCOVERY_BYTES, "TCG Level 0 Discovery"
    )
    found = None if raw is None else tcg.parse(raw)
    password = _password(controller)
    if password == atasecurity.Password():
        return found
    return replace(
        found or SecurityState(), password_set=password.enabled, password_locked=password.locked
    )


def _password(controller: Controller) -> atasecurity.Password:
    """Of a drive that does not end one of these questions nobody knows of any."""

    def ask(protocol: int, length: int, what: str) -> bytes | None:
        return optionalquestions.ask(
            controller, what, lambda: _security(controller, protocol, 0, length, what)
        )

    what = "the list of security protocols"
    protocols = ask(atasecurity.INFORMATION, atasecurity.LIST_BYTES, what)
    # Many drives have none of it, and a question that is refused is an entry in their error log.
    if protocols is None or not atasecurity.listed(protocols):
        return atasecurity.Password()
    raw = ask(atasecurity.PROTOCOL, atasecurity.STATE_BYTES, "ATA security information")
    return atasecurity.Password() if raw is None else atasecurity.parse(raw)


def _security(
    controller: Controller, protocol: int, specific: int, length: int, what: str
) -> bytes | None:
    """Dword 10 (Base 2.0, 5.25): SECP 31:24, SPSP 23:8; dword 11: allocation length."""
    return _ask(
        controller,
        SECURITY_RECEIVE,
        length,
        what,
        cdw10=protocol << 24 | specific << 8,
        cdw11=length,
    )


def boot_partitions(
    controller: Controller, identify: IdentifyController, told: Registers | None
) -> BootPartitions | None:
    """Log 15h, with digests of both partitions where they are small enough to be read; their size
    alone on a drive that is older than this log."""
    raw = _log(controller, LOG_BOOT_PARTITION, statelogs.BOOT_BYTES, _BOOT_LOG)
    # Log 15h came with NVMe 2.0; older drives have the same header in the register BPINFO.
    if raw is None and _tells_by_register(identify):
        return None if told is None else statelogs.boot_info(told.boot_info)
    found = None if raw is None else statelogs.boot_partitions(raw)
    if found is None or found.size > BOOT_READ_MOST or not identify.lpa & _LPA_OFFSET:
        return found
    # MDTS is a power of two in units of the smallest page, taken for 4 KiB here; 0 means no limit.
    piece = min(_BOOT_PART, 4096 << identify.mdts) if identify.mdts else _BOOT_PART
    # One digest without the other would let a change of the other go unseen.
    digests = tuple(_boot_digest(controller, number, found.size, piece) for number in (0, 1))
    return replace(found, digests=digests if all(digests) else ())


def _tells_by_register(identify: IdentifyController) -> bool:
    """A drive without firmware commands cannot write a boot partition."""
    return identify.version < _VERSION_2 and identify.can_manage_firmware


def _boot_digest(controller: Controller, number: int, size: int, piece: int) -> str:
    """SHA-256 of a boot partition, read in pieces; empty where the drive does not show it."""
    digest = hashlib.sha256()
    for offset in range(0, size, piece):
        raw = _log(
            controller,
            LOG_BOOT_PARTITION,
            min(piece, size - offset),
            _BOOT_LOG,
            number,
            # The partition's data follows the log's header.
            statelogs.BOOT_BYTES + offset,
        )
        if raw is None:
            return ""
        digest.update(raw)
    return digest.hexdigest()


def lockdown(controller: Controller, identify: IdentifyController) -> Lockdown | None:
    """What the drive refuses now, on one with Command and Feature Lockdown."""
    if not identify.can_lock_down:
        return None
    what = "the Lockdown log (14h)"
    found: list[tuple[int, ...]] = []
    for scope in (_SCOPE_OPCODES, _SCOPE_FEATURES):
        raw = _log(controller, LOG_LOCKDOWN, spec.LOG_BYTES, what, _LOCKDOWN_PROHIBITED | scope)
        # Refused counts as nothing locked, as on a drive without the log: a tenant can prohibit Get
        # Log Page, which ends the look, and no single log (Base 2.0, 5.16.1.20).
        found.append(() if raw is None else statelogs.prohibited(raw))
    return Lockdown(found[0], found[1])


def protected(
    controller: Controller,
    identify: IdentifyController,
    namespaces: tuple[tuple[int, IdentifyNamespace], ...],
) -> tuple[WriteProtection, ...]:
    """Namespaces that cannot be written: by feature 84h, or by NSATTR where there is none."""
    found: list[WriteProtection] = []
    for nsid, namespace in namespaces:
        state = int(namespace.write_protected)
        if identify.nwpc & 1:
            try:
                # NWPC bit 0: only then is there a feature 84h. NSATTR counts where the feature says
                # 0.
                state = controller.get_feature(FEATURE_WRITE_PROTECTION, nsid) & 7 or state
            except CommandError as error:
                if not error.status:
                    raise
        if state:
            found.append(WriteProtection(nsid, state))
    return tuple(found)


def logs(identify: IdentifyController) -> tuple[str, ...]:
    """Logs that an erase leaves as they are, as far as the drive says that it has them."""
    found = ["error log", "SMART counters"]
    if identify.lpa & _LPA_TELEMETRY:
        found.append("telemetry")
    if identify.lpa & _LPA_PERSISTENT_EVENTS:
        found.append("persistent event log")
    return tuple(found)
