"""What a drive should look like: proposed from one, held against others. Pure.

A profile that is older than a kind of fact does not name it, and then it is not compared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from eraser.drive import bootlocks, hostmetadata, manage, personality
from eraser.drive.features import differing
from eraser.drive.inquiry import LOCKS
from eraser.drive.inspect import DETACHED
from eraser.drive.reservations import REFUSED
from eraser.errors import BadInputError
from eraser.protocol.condition import (
    BootPartitions,
    Condition,
    ExpectedCondition,
    FirmwareSlots,
    FlexibleResources,
    Lockdown,
    SecurityState,
)
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.profile import FeatureRule, Profile, layout_differences
from eraser.protocol.report import ControllerFacts

PERMANENT = 3
"""Feature 84h: write protected for ever."""
_UNTIL_POWER_CYCLE = 2
_ELSEWHERE = frozenset({DETACHED, REFUSED})
"""What has a line of its own, and what is disclosed: older profiles do not say whether drives of
the model ever told of it."""


def propose(
    identity: ControllerIdentity,
    facts: ControllerFacts,
    features: tuple[FeatureRule, ...],
    name: str = "",
) -> Profile:
    """A profile that this drive fits; a person approves it. Raises :class:`BadInputError`."""
    if not facts.namespaces:
        raise BadInputError(
            "profile: expected a drive with an active namespace, found none; "
            "create the namespaces that drives of this model should have, then inspect again"
        )
    # A profile with such a namespace would fit no drive, nor could any layout be made after it.
    if sizeless := [str(each.nsid) for each in facts.namespaces if not each.blocks]:
        raise BadInputError(
            "profile: expected namespaces that describe themselves, found none of that in "
            f"{', '.join(sizeless)}; delete them, or take another drive"
        )
    if facts.detached:
        names = ", ".join(str(namespace.nsid) for namespace in facts.detached)
        raise BadInputError(
            f"profile: expected no detached namespaces, found {names}; what a profile does not "
            "name is deleted: attach them or delete them, then inspect again"
        )
    found = facts.condition or Condition()
    # The first problem is enough: what one drive was left with must not become the model's norm.
    for problem in obstacles(facts):
        raise BadInputError(
            f"{problem}; a profile is proposed from a drive that nobody has used so: "
            "mend it, or take another"
        )
    slots = () if found.firmware is None else found.firmware.revisions
    return Profile(
        name=name or f"{identity.model} {facts.firmware}".strip()[:128] or "unnamed",
        vendor_id=identity.vendor_id,
        device_id=identity.device_id,
        model=identity.model,
        firmware=(facts.firmware,),
        namespaces=facts.namespaces,
        features=features,
        total_bytes=facts.total_bytes,
        condition=ExpectedCondition(
            slot_firmware=tuple(sorted({held for held in slots if held} - {facts.firmware})),
            controllers=found.controllers,
            # ``owner_untold`` says what cannot be read; a profile expects only what can.
            security=replace(found.security or SecurityState(), owner_untold=False),
            boot=found.boot,
            lockdown=found.lockdown or Lockdown(),
            unreadable=found.unreadable,
            flexible=found.flexible,
        ),
    )


def compare(
    profile: Profile,
    identity: ControllerIdentity,
    facts: ControllerFacts,
    features: tuple[FeatureRule, ...],
) -> tuple[str, ...]:
    """Every difference as ``profile: expected X, found Y``; empty where the drive fits."""
    return tuple(_differences(profile, identity, facts, features))


def is_of(profile: Profile, identity: ControllerIdentity, facts: ControllerFacts) -> bool:
    """Whether the profile is of such a drive at all: no layout is made after another's."""
    return (
        (profile.vendor_id, profile.device_id, profile.model)
        == (identity.vendor_id, identity.device_id, identity.model)
    ) and profile.total_bytes in (0, facts.total_bytes)


def unmendable(facts: ControllerFacts) -> tuple[str, ...]:
    """What no order can ever mend, a line each: such a drive is retired."""
    protected = () if facts.condition is None else facts.condition.protected
    return tuple(
        _protection(entry.nsid, entry.state) for entry in protected if entry.state == PERMANENT
    )


def obstacles(facts: ControllerFacts) -> Iterator[str]:
    """What keeps a drive from its erase, or from being handed out whatever its profile says."""
    yield from _locks(facts)
    # Sanitize is refused while an activation by reset is pending (Base 2.0, 5.24).
    if facts.condition is not None:
        yield from _pending(facts.condition.firmware)


def _locks(facts: ControllerFacts) -> Iterator[str]:
    """What no drive is handed out with, whatever its profile says."""
    found = facts.condition
    if found is None:
        return
    if DETACHED in found.unreadable:
        yield "profile: expected a list of all namespaces, also detached ones, found none"
    for entry in found.protected:
        yield _protection(entry.nsid, entry.state)
    for held in found.reservations:
        kind = f"a reservation of type {held.kind}" if held.kind else "no reservation"
        yield (
            f"profile: expected no host registered with namespace {held.nsid}, found {kind} and "
            f"{held.registrants} registrants"
            f"{', kept over a power loss' if held.persistent else ''}"
        )
    if found.security is not None and found.security.locked:
        yield (
            "profile: expected an unlocked drive, found it locked by its owner's password (TCG); "
            "revert it with the PSID from its label"
        )
    if found.security is not None:
        yield from _password(found.security)


def _password(found: SecurityState) -> Iterator[str]:
    if not (found.password_set or found.password_locked):
        return
    now = "and locked by it" if found.password_locked else "which locks it at the next power cycle"
    yield (
        "profile: expected no user password of ATA (security protocol EFh), found one set, "
        f"{now}; take it off with the drive's master password or its maker's tool, else retire it"
    )


def _differences(
    profile: Profile,
    identity: ControllerIdentity,
    facts: ControllerFacts,
    features: tuple[FeatureRule, ...],
) -> Iterator[str]:
    for what, expected, found in (
        ("vendor", f"{profile.vendor_id:#06x}", f"{identity.vendor_id:#06x}"),
        ("device", f"{profile.device_id:#06x}", f"{identity.device_id:#06x}"),
        ("model", profile.model, identity.model),
    ):
        if expected != found:
            yield f"profile: expected {what} {expected!r}, found {found!r}"
    if facts.firmware not in profile.firmware:
        yield (
            f"profile: expected firmware {' or '.join(map(repr, profile.firmware))}, "
            f"found {facts.firmware!r}"
        )
    # 0 in a profile names no capacity: it is older than this fact, or its drive told of none.
    if profile.total_bytes and facts.total_bytes != profile.total_bytes:
        yield (f"profile: expected {profile.total_bytes} bytes in total, found {facts.total_bytes}")
    for line in layout_differences(profile.namespaces, facts.namespaces, profile.size_tolerance):
        yield f"profile: {line}"
    for rule, other in differing(profile.features, features):
        # Write protection has a line of its own, whatever the profile says.
        where = f" of namespace {rule.nsid}" if rule.nsid else ""
        expected, found = value_of(rule), "none" if other is None else value_of(other)
        yield (
            f"profile: expected feature {rule.fid:#04x} ({rule.name}){where} {expected}, "
            f"found {found}{_advice(rule, other)}"
        )
    yield from _locks(facts)
    if facts.condition is None:
        return
    yield from _nonsense(profile.condition, facts.condition.unreadable)
    if profile.condition is not None:
        yield from _condition(profile, profile.condition, facts.condition, facts.firmware)


def _advice(rule: FeatureRule, other: FeatureRule | None) -> str:
    if other is not None and rule.fid == bootlocks.FEATURE:
        return bootlocks.advice(other.value)
    if other is not None and rule.fid == personality.FEATURE:
        return personality.advice(rule.value, other.value)
    return ""


def value_of(rule: FeatureRule) -> str:
    """A feature's value for people: of text that was left, which types there are."""
    if not rule.digest:
        return f"{rule.value:#x}"
    held = f" ({hostmetadata.types(rule.content)})" if rule.complete else ""
    return f"data {rule.digest[:16]}{held}"


def _protection(nsid: int, state: int) -> str:
    then = {
        _UNTIL_POWER_CYCLE: " until the next power cycle; power-cycle the slot and order again",
        PERMANENT: " for ever: nothing can erase it any more; pull the drive",
    }.get(state, "")
    return (
        f"profile: expected namespace {nsid} to be writable, found it write protected "
        f"(state {state}){then}"
    )


def _pending(firmware: FirmwareSlots | None) -> Iterator[str]:
    if firmware is not None and firmware.pending:
        revisions = firmware.revisions
        held = revisions[firmware.pending - 1] if firmware.pending <= len(revisions) else ""
        yield (
            f"profile: expected no firmware waiting for a reset, found slot {firmware.pending} "
            f"({held!r}) to be activated by the next one; power-cycle the slot and order again"
        )


def _nonsense(wanted: ExpectedCondition | None, unreadable: tuple[str, ...]) -> Iterator[str]:
    """An older profile names nothing of it; behind nonsense about locks may stand one all the same,
    and no drive is handed out with that."""
    for what in unreadable:
        named = what not in LOCKS if wanted is None else what in wanted.unreadable
        if not named and what not in _ELSEWHERE:
            yield f"profile: expected a sensible answer about {what}, found nonsense"


def _condition(
    profile: Profile, wanted: ExpectedCondition, found: Condition, running: str
) -> Iterator[str]:
    trusted = {*profile.firmware, *wanted.slot_firmware}
    yield from _firmware(trusted, found.firmware, running)
    security = found.security or SecurityState()
    # What this host's kernel lets nobody read is disclosed: no profile can name that.
    boot = found.boot if not found.boot_untold else wanted.boot
    for what, expected, other in (
        ("controllers in the subsystem", _many(wanted.controllers), _many(found.controllers)),
        ("security feature sets", wanted.security.sets, security.sets),
        ("locking enabled", wanted.security.locking_enabled, security.locking_enabled),
        ("a shadow MBR", wanted.security.shadow_mbr, security.shadow_mbr),
        ("a changed owner's password", wanted.security.sid_changed, security.sid_changed),
        ("boot partitions", _boot(wanted.boot, wanted), _boot(boot, wanted)),
        ("locked opcodes", wanted.lockdown.opcodes, (found.lockdown or Lockdown()).opcodes),
        ("locked features", wanted.lockdown.features, (found.lockdown or Lockdown()).features),
    ):
        if expected != other:
            yield f"profile: expected {what} {_shown(expected)}, found {_shown(other)}"
    for kind, number, other_number in allocations(wanted.flexible, found.flexible):
        # Only the number of a command that the drive refused, or that no reset of the function
        # followed, is still another one here.
        yield (
            f"profile: expected {number} flexible {_FLEXIBLE[kind]} of the physical function, "
            f"found {other_number}; power-cycle the slot and order again, where that does not do: "
            f"nvme virt-mgmt -c CNTLID -a 1 -r {kind} -n {number}, and power-cycle it once more"
        )


_FLEXIBLE = {
    manage.QUEUES: "queues (VQ resources)",
    manage.INTERRUPTS: "interrupts (VI resources)",
}


def allocations(
    wanted: FlexibleResources | None, found: FlexibleResources | None
) -> Iterator[tuple[int, int, int]]:
    """Type of resource, number of the profile, and number found, where the two differ; nothing
    where either side does not tell."""
    if wanted is None or found is None:
        return
    if wanted.queues != found.queues:
        yield manage.QUEUES, wanted.queues, found.queues
    if wanted.interrupts != found.interrupts:
        yield manage.INTERRUPTS, wanted.interrupts, found.interrupts


def _firmware(trusted: set[str], found: FirmwareSlots | None, running: str) -> Iterator[str]:
    """An image that waits for a reset, announced or in the place of the one that runs.

    What lies in another slot runs only when somebody commits it: the control plane compares it
    with the drive's last certificate.
    """
    yield from _pending(found)
    # Some drives name no active slot, or one that they do not show: then there is nothing to
    # compare.
    if found is None or not 1 <= found.active <= len(found.revisions):
        return
    held = found.revisions[found.active - 1]
    if held not in ("", running, *trusted):
        yield (
            f"profile: expected in the active firmware slot {found.active} one of "
            f"{', '.join(map(repr, sorted(trusted)))}, found {held!r}"
        )


def _boot(boot: BootPartitions | None, wanted: ExpectedCondition) -> str:
    """What is compared of it: the content only where the profile names it."""
    if boot is None:
        return "none"
    named = wanted.boot is not None and wanted.boot.digests
    held = " and ".join(digest[:16] for digest in boot.digests) or "unread data"
    return f"of {boot.size} bytes{f' with {held}' if named else ''}, {boot.active} active"


def _many(controllers: int) -> str:
    # 0 is inquiry.UNTOLD.
    return str(controllers) if controllers else "more than one, unlisted"


def _shown(value: object) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, tuple):
        return ", ".join(f"{n:#04x}" if isinstance(n, int) else str(n) for n in value) or "none"
    return str(value)
