"""Every reason to hold a slot: why its drive is not handed out, and what would return it. Pure.

The operators' table is generated from :data:`HOLDS` (``tools/samples``).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from quarantine.record.facts import HistoryRow, SlotRecord
from quarantine.record.reasons import HoldCode, HoldReason
from quarantine.record.states import State

OLDER: Final = "older"
"""Shown where none is stored: the slot was held by a release that had no codes. Never stored."""


@dataclass(frozen=True)
class Hold:
    """One reason, for people. Both are Markdown without line breaks."""

    why: str
    """Why the drive is not handed out."""
    remedy: str
    """What would return it, or end it."""


HOLDS: Final[Mapping[HoldCode, Hold]] = {
    HoldCode.DATA_LEFT: Hold(
        "Canaries, or blocks of the last owner, were still there after the erase.",
        "The drive lies or is broken: `slot retire`, pull it and destroy it.",
    ),
    HoldCode.NOT_ERASED: Hold(
        "What was read shows that the drive is not erased.",
        "The drive lies or is broken: `slot retire`, pull it and destroy it.",
    ),
    HoldCode.UNREADABLE: Hold(
        "Blocks could not be read, so nobody knows what is on them.",
        "`slot release` once. Again: the status in the text says whether it is the medium (`281h`: "
        "`slot retire`), a locked range (`286h`: revert Opal by the PSID) or DULBE (`287h`).",
    ),
    HoldCode.READS_DIFFER: Hold(
        "Blocks read otherwise after another reset, or when they were asked for otherwise: the "
        "drive answers from something else than its medium.",
        "`slot retire`, pull it.",
    ),
    HoldCode.LOCKED: Hold(
        "A lock, a reservation or a write protection kept the erase from the drive.",
        "Revert a locked drive with the PSID from its label, or take the reservation or the "
        "protection off with nvme-cli, then `slot release`. A protection that is permanent: "
        "`slot retire`.",
    ),
    HoldCode.COMMAND_FAILED: Hold(
        "An erase command failed, was refused or got stuck, by the drive's own word.",
        "Power-cycle the slot, `slot release` once; again: `slot retire`. A sanitize that failed "
        "twice by "
        "the drive's own log retires it by itself.",
    ),
    HoldCode.NAMESPACE_UNREAD: Hold(
        "A namespace is there that is not attached: nobody has read it.",
        "It could not be attached or deleted, and the text says why: do that, then `slot release`.",
    ),
    HoldCode.UNPROVED: Hold(
        "What was read does not tell whether the drive is erased.",
        "`slot release` once: too few probes are often a short case. Again: order it with a policy "
        "that plants more, or `slot retire`.",
    ),
    HoldCode.DOWNGRADED: Hold(
        "The policy asks for Purge, Clear was done, and it does not allow that.",
        "`allow_clear` in the policy, approve it, then `slot release`; or `slot retire`.",
    ),
    HoldCode.CAPACITY_UNREAD: Hold(
        "Capacity belongs to no namespace, and nobody has read it.",
        "Delete and create namespaces over it as its profile says, then `slot release`; or "
        "permit it "
        "in the policy ([why](decisions/unallocated.md)).",
    ),
    HoldCode.MEMORY_UNREAD: Hold(
        "The drive has memory that Format does not reach (CMB or PMR), and nobody has read it.",
        "Order it with a policy of label `Purge` where it has Sanitize, or permit it "
        "([why](decisions/buffers.md)), then `slot release`.",
    ),
    HoldCode.HEALTH: Hold(
        "Erased, but its health is worse than the policy's table allows.",
        "Reseat the drive, `slot retire` it, or change the policy's table knowingly and `slot "
        "release`; its "
        "certificate says that it was erased.",
    ),
    HoldCode.FIRMWARE_LOADED: Hold(
        "Somebody loaded an image into a firmware slot since the last certificate.",
        "If it was you: name the revision in the profile's `condition.slot_firmware` (or "
        "`firmware`), approve that, then `slot release`; else `slot retire`.",
    ),
    HoldCode.NOT_AS_PROFILE: Hold(
        "Erased, but the drive is not as its profile says.",
        "What could be put back was ([profiles](profiles.md)). Mend the rest, or approve a new "
        "profile, then `slot release`. A status 0x115: the drive gives less than the profile wants "
        "(`size_tolerance`). A feature that it refuses to have back: `nvme get-feature` and "
        "`set-feature` (flexible data placement, 1Dh, is set while there are no namespaces). More "
        "controllers than the profile names: where nobody can use the other "
        "port, approve a profile of such a drive.",
    ),
    HoldCode.UNFIT: Hold(
        "Its host calls the drive not fit to be handed out.",
        "Do what the text says, then `slot release`; where writes were called done and not "
        "stored, the "
        "drive is broken: `slot retire`.",
    ),
    HoldCode.REPORT_CONTRADICTS: Hold(
        "The host's signed report contradicts itself, the order or the approved profile.",
        "Look at the host first: is its eraser of this release, was it broken into? Then "
        "`slot release`; the drive is erased again.",
    ),
    HoldCode.NO_METHOD: Hold(
        "The policy allows no method that the drive offers. Nothing was sent.",
        "The drive has no Sanitize: `allow_clear` in the policy, approve it, then `slot "
        "release`; or "
        "`slot retire`.",
    ),
    HoldCode.NO_CONTROLLER: Hold(
        "No NVMe controller answers in the slot.",
        "Reseat the drive or power-cycle the slot, then `slot release`; a drive that is dead: "
        "`slot retire`.",
    ),
    HoldCode.ANOTHER_DRIVE: Hold(
        "Another drive is in the slot than the record expects.",
        "Find out who swapped it; if on purpose `slot release --new-drive`.",
    ),
    HoldCode.NO_SERIAL: Hold(
        "The drive has an empty serial number: it cannot be told from another one.",
        "`slot retire`, and give it back to its vendor.",
    ),
    HoldCode.SERIAL_TWICE: Hold(
        "Two drives of one host have the same model and serial number.",
        "Pull one of the two, then `slot release --new-drive` for both slots.",
    ),
    HoldCode.TWO_PLACES: Hold(
        "The drive is expected in another slot, or was seen in one.",
        "Find where it is (`host show`), then `slot release --new-drive` for the slot that it "
        "left, "
        "and `slot release` for the one that has it.",
    ),
    HoldCode.RETIRED_DRIVE: Hold(
        "The drive was given up before: it is never handed out again.",
        "Put another drive in, then `slot release --new-drive`.",
    ),
    HoldCode.UNSAFE_SLOT: Hold(
        "The slot is none that may be passed to guests, by its host's word.",
        "The text says why (IOMMU group, the host's own system, virtual functions): mend that, "
        "then `slot release`; or `slot retire`.",
    ),
    HoldCode.TICKET_REFUSED: Hold(
        "The host calls the ticket of this case void or used.",
        "Somebody wrote to the drive, pulled it, or started a guest on it between its certificate "
        "and its return: find out who, then `slot release`.",
    ),
    HoldCode.TICKET_CONTRADICTS: Hold(
        "The host calls the ticket valid, and the drive's own counters say otherwise.",
        "Find out who wrote to the drive since its certificate, then `slot release`.",
    ),
    HoldCode.PROVIDER_REPLACED: Hold(
        "Another resource provider, or resource class, stands in Placement for the slot: the "
        "drive may have been used meanwhile.",
        "Find out who deleted the provider (a compute service that was removed does it), then "
        "`slot release`.",
    ),
    HoldCode.CLAIMED: Hold(
        "A server holds the drive in Placement although it was under our custody.",
        "Somebody changed Placement by hand: find out who. When that server is gone, `slot "
        "release`.",
    ),
    HoldCode.NOT_GIVEN_BACK: Hold(
        "Our custody is gone from Placement, and we did not give the drive back.",
        "Somebody changed Placement by hand: find out who, then `slot release`.",
    ),
    HoldCode.NOT_CLEAN: Hold(
        "Certified, but the drive is not clean by that certificate any more.",
        "The text says what happened to it since: settle that, then `slot release`.",
    ),
    HoldCode.STRANGE_CUSTODY: Hold(
        "The custody in Placement is of a case that the record does not know.",
        "Was the database restored from a backup? `slot release`: the drive is erased again.",
    ),
    HoldCode.NO_ONE_TIME_USE: Hold(
        "Nova would not reserve the drive at its next use, and hand it on unerased.",
        "Restore `one_time_use` in device_spec, restart nova-compute, then `slot release`.",
    ),
    HoldCode.ORDER_CAME_BACK: Hold(
        "The order came back several times without an erase: the drive is in use.",
        "A shut-off or defined domain still names the address; the text says which. When it is "
        "gone, `slot release`.",
    ),
    HoldCode.RECORD_DAMAGED: Hold(
        "Our own record of the drive is damaged, so its certificate could not be judged.",
        "Restore the database ([backup](#backup-and-restore)), then `slot release`.",
    ),
    HoldCode.BY_PERSON: Hold(
        "A person held it; the text is theirs.",
        "Ask them (`slot history` has the time), then `slot release`.",
    ),
    HoldCode.OTHER: Hold(
        "A reason that has no code of its own.",
        "Do what the text says, then `slot release`.",
    ),
}

_OLDER: Final = Hold(
    "A former release held it, which had no codes; its words say why.",
    "Do what the text says, then `slot release`.",
)
_UNKNOWN: Final = Hold(
    "A newer release held it, for a reason that this one does not know.",
    "Do what the text says, then `slot release`.",
)


def table() -> str:
    """All reasons as a Markdown table, for the operators' guide."""
    rows = (f"| `{code}` | {hold.why} | {hold.remedy} |" for code, hold in HOLDS.items())
    return "\n".join(("| code | why the drive is not handed out | do |", "|---|---|---|", *rows))


def because(code: HoldCode, text: str) -> HoldReason:
    """The reason with its remedy; ``text`` has the particulars."""
    return HoldReason(code, text, meaning(code).remedy)


def meaning(code: str) -> Hold:
    """What a stored code means; also of one that this release does not know."""
    try:
        return HOLDS[HoldCode(code)]
    except ValueError:
        return _OLDER if code == OLDER else _UNKNOWN


def shown(of: SlotRecord | HistoryRow) -> str:
    """The code of a slot, or of a line of its history, for people; empty where nothing is held."""
    state = of.state if isinstance(of, SlotRecord) else of.target
    if state is not State.HELD:
        return ""
    return of.hold_code or OLDER


def said(of: SlotRecord | HistoryRow) -> str:
    """The reason as people see it: with its code, where something is held."""
    return f"{code}: {of.reason}" if (code := shown(of)) else of.reason


def remedy(record: SlotRecord) -> str:
    """What would return a held slot's drive; empty for a slot that is not held."""
    code = shown(record)
    return meaning(code).remedy if code else ""


def counted(codes: Mapping[str | None, int]) -> dict[str, int]:
    """Held slots by code, as the record counts them, with a name for those without; most first."""
    named = {code or OLDER: count for code, count in codes.items()}
    return dict(sorted(named.items(), key=lambda each: (-each[1], each[0])))
