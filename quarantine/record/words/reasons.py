"""Codes of holds, which are stored, with their texts for people, and codes of alarms, which are
logged (their texts: :mod:`quarantine.rules.alarmbook`).

The strings are in databases and in operators' scripts: none is ever renamed, or used for another
reason. A code that this release does not know is one all the same: nothing that keeps a drive out
of the pool asks which code it is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass
from typing import Final, Self

CODE_LENGTH = 48
"""Characters of the columns."""

OLDER: Final = "older"
"""Shown, and asked for, where none is stored: the slot was held by a release that had no codes.
Never stored."""


class HoldCode(enum.StrEnum):
    """Why a slot is held: the code, why its drive is not handed out, and what would return it.

    A new reason is one more member, and the decision that gives it. Both texts are Markdown
    without line breaks; the text that is stored beside a code has a case's particulars.
    """

    why: str
    remedy: str

    def __new__(cls, code: str, why: str = "", remedy: str = "") -> Self:
        """A member is its code with two texts; ``HoldCode(code)`` finds it by its code alone."""
        member = str.__new__(cls, code)
        member._value_ = code
        member.why = why
        member.remedy = remedy
        return member

    # What the host's report of an erase shows.
    DATA_LEFT = (
        "data-left",
        "Canaries, or blocks of the last owner, were still there after the erase.",
        "The drive lies or is broken: `slot retire`, pull it and destroy it.",
    )
    NOT_ERASED = (
        "not-erased",
        "What was read shows that the drive is not erased.",
        "The drive lies or is broken: `slot retire`, pull it and destroy it.",
    )
    UNREADABLE = (
        "unreadable",
        "Blocks could not be read, so nobody knows what is on them.",
        "`slot release` once. Again: the status in the text says whether it is the medium (`281h`: "
        "`slot retire`), a locked range (`286h`: revert Opal by the PSID) or DULBE (`287h`).",
    )
    READS_DIFFER = (
        "reads-differ",
        "Blocks read otherwise after another reset, or when they were asked for otherwise: the "
        "drive answers from something else than its medium.",
        "`slot retire`, pull it.",
    )
    LOCKED = (
        "locked",
        "A lock, a password, a reservation or a write protection keeps the drive from us, or would "
        "keep it from its next user.",
        "Revert a locked drive with the PSID from its label, take an ATA password off with the "
        "master password or the maker's tool, the reservation or the protection with nvme-cli, "
        "then `slot release`. A protection that is permanent, a password that nothing takes off: "
        "`slot retire`.",
    )
    COMMAND_FAILED = (
        "command-failed",
        "An erase command failed, was refused or got stuck, by the drive's own word.",
        "Power-cycle the slot, `slot release` once; again: `slot retire`. A sanitize that failed "
        "twice by the drive's own log retires it by itself.",
    )
    NAMESPACE_UNREAD = (
        "namespace-unread",
        "A namespace is there that is not attached: nobody has read it.",
        "It could not be attached or deleted, and the text says why: do that, then `slot release`.",
    )
    UNPROVED = (
        "unproved",
        "What was read does not tell whether the drive is erased.",
        "`slot release` once: too few probes are often a short case. Again: approve a new version "
        "of its policy with more `canaries` (it counts for all slots of that policy), then `slot "
        "release`; or `slot retire`.",
    )
    DOWNGRADED = (
        "downgraded",
        "The policy asks for Purge, Clear was done, and it does not allow that.",
        "`allow_clear` in the policy, approve it, then `slot release`; or `slot retire`.",
    )
    CAPACITY_UNREAD = (
        "capacity-unread",
        "Capacity belongs to no namespace, and nobody has read it.",
        "Delete and create namespaces over it as its profile says, then `slot release`; or "
        "permit it "
        "in the policy ([why](decisions/unallocated.md)).",
    )
    MEMORY_UNREAD = (
        "memory-unread",
        "The drive has memory that Format does not reach (CMB or PMR), and nobody has read it.",
        "Approve a new version of its policy (it counts for all slots of that policy): of label "
        "`Purge`, where the drive has Sanitize, or one that permits it "
        "([why](decisions/buffers.md)). Then `slot release`.",
    )
    HEALTH = (
        "health",
        "Erased, but its health is worse than the policy's table allows.",
        "Reseat the drive, `slot retire` it, or change the policy's table knowingly and `slot "
        "release`; its "
        "certificate says that it was erased.",
    )
    FIRMWARE_LOADED = (
        "firmware-loaded",
        "Somebody loaded an image into a firmware slot since the last certificate.",
        "If it was you: name the revision in the profile's `condition.slot_firmware` (or "
        "`firmware`), approve that, then `slot release`; else `slot retire`.",
    )
    NOT_AS_PROFILE = (
        "not-as-profile",
        "Erased, but the drive is not as its profile says.",
        "What could be put back was ([profiles](profiles.md)). Mend the rest, or approve a new "
        "profile, then `slot release`. A status 0x115: the drive gives less than the profile wants "
        "(`size_tolerance`). A feature that it refuses to have back: `nvme get-feature` and "
        "`set-feature` (flexible data placement, 1Dh, is set while there are no namespaces). More "
        "controllers than the profile names: where nobody can use the other "
        "port, approve a profile of such a drive.",
    )
    UNFIT = (
        "unfit",
        "Its host calls the drive not fit to be handed out.",
        "Do what the text says, then `slot release`; where writes were called done and not "
        "stored, the "
        "drive is broken: `slot retire`.",
    )
    REPORT_CONTRADICTS = (
        "report-contradicts",
        "The host's signed report contradicts itself, the order or the approved profile.",
        "Look at the host first: is its eraser of this release, was it broken into? Then "
        "`slot release`; the drive is erased again.",
    )
    NO_METHOD = (
        "no-method",
        "The policy allows no method that the drive offers. Nothing was sent.",
        "The drive has no Sanitize: `allow_clear` in the policy, approve it, then `slot "
        "release`; or "
        "`slot retire`.",
    )
    NO_CONTROLLER = (
        "no-controller",
        "No NVMe controller answers in the slot.",
        "Reseat the drive or power-cycle the slot, then `slot release`; a drive that is dead: "
        "`slot retire`.",
    )
    ANOTHER_DRIVE = (
        "another-drive",
        "Another drive is in the slot than the record expects.",
        "Find out who swapped it; if on purpose `slot release --new-drive`, else put the expected "
        "one back, then `slot release`. (`slot retire` gives up the expected one.)",
    )
    # What the host says of its drives, and of the ticket.
    NO_SERIAL = (
        "no-serial",
        "The drive has an empty serial number: it cannot be told from another one.",
        "Put another drive in, then `slot release --new-drive`; give this one back to its vendor. "
        "(`slot retire` gives up the drive that the slot had before.)",
    )
    SERIAL_TWICE = (
        "serial-twice",
        "Two drives of one host have the same model and serial number.",
        "Pull one of the two, then `slot release --new-drive` for both slots; for the one that "
        "says that its own drive is still named, `slot release`.",
    )
    TWO_PLACES = (
        "two-places",
        "The drive is expected in another slot, or was seen in one.",
        "Find where it is (`host show`), then `slot release --new-drive` for the slot that it "
        "left, and `slot release` for the one that has it. `host remove` first where the host that "
        "it left is gone for good: its last word still names the drive there.",
    )
    RETIRED_DRIVE = (
        "retired-drive",
        "The drive was given up before: it is never handed out again.",
        "Put another drive in, then `slot release --new-drive`.",
    )
    UNSAFE_SLOT = (
        "unsafe-slot",
        "The slot is none that may be passed to guests, by its host's word.",
        "The text says why (its IOMMU group, or the host's own system is on it): mend that, then "
        "`slot release`; or `slot retire`. A slot is held for it only when its drive becomes "
        "known; what changes later `upgrade check` tells (`iommu-group`, `system-drive`).",
    )
    TICKET_REFUSED = (
        "ticket-refused",
        "The host calls the ticket of this case void or used.",
        "Somebody wrote to the drive, pulled it, or started a guest on it between its certificate "
        "and its return: find out who, then `slot release`.",
    )
    TICKET_CONTRADICTS = (
        "ticket-contradicts",
        "The host calls the ticket valid, and the drive's own counters say otherwise.",
        "Find out who wrote to the drive since its certificate, then `slot release`.",
    )
    # What Placement shows, and our own record.
    PROVIDER_REPLACED = (
        "provider-replaced",
        "Another resource provider, or resource class, stands in Placement for the slot: the "
        "drive may have been used meanwhile.",
        "Find out who deleted the provider (a compute service that was removed does it), then "
        "`slot release`.",
    )
    CLAIMED = (
        "claimed",
        "A server holds the drive in Placement although it was under our custody.",
        "Somebody changed Placement by hand: find out who. When that server is gone, `slot "
        "release`.",
    )
    NOT_GIVEN_BACK = (
        "not-given-back",
        "Our custody is gone from Placement, and we did not give the drive back.",
        "Somebody changed Placement by hand: find out who, then `slot release`.",
    )
    NOT_CLEAN = (
        "not-clean",
        "Certified, but the drive is not clean by that certificate any more.",
        "The text says what happened to it since: settle that, then `slot release`.",
    )
    STRANGE_CUSTODY = (
        "strange-custody",
        "The custody in Placement is of a case that the record does not know.",
        "Was the database restored from a backup? `slot release`: the drive is erased again.",
    )
    NO_ONE_TIME_USE = (
        "no-one-time-use",
        "Nova would not reserve the drive at its next use, and hand it on unerased.",
        "Restore `one_time_use` in device_spec, restart nova-compute, then `slot release`.",
    )
    ORDER_CAME_BACK = (
        "order-came-back",
        "The order came back several times without an erase: the drive is in use.",
        "A shut-off or defined domain still names the address; the text says which. When it is "
        "gone, `slot release`.",
    )
    RECORD_DAMAGED = (
        "record-damaged",
        "Our own record of the drive is damaged, so its certificate could not be judged.",
        "Restore the database ([backup](#backup-and-restore)), then `slot release`.",
    )
    UNJUDGED = (
        "unjudged",
        "A mistake of this program's kept the report of its erase from being judged.",
        "The service's log has the traceback, at the time of the hold: report it, upgrade to a "
        "release that mends it, then `slot release`: the drive is erased again.",
    )
    # The rest.
    BY_PERSON = (
        "by-person",
        "A person held it; the text is theirs.",
        "Ask them (`slot history` has the time), then `slot release`.",
    )
    OTHER = (
        "other",
        "A reason that has no code of its own.",
        "Do what the text says, then `slot release`.",
    )


class AlarmCode(enum.StrEnum):
    """What people are called for; the text beside it has the particulars."""

    # A drive may be in wrong hands.
    ON_OFFER = "on-offer"
    RESERVE_LOWERED = "reserve-lowered"
    CLAIMED_UNERASED = "claimed-unerased"
    USED_AGAIN = "used-again"
    STRANGER_RUNS = "stranger-runs"
    CUSTODY_GONE = "custody-gone"
    NOT_ENROLLED = "not-enrolled"
    # A slot stays out of the pool, or may be used without a mark.
    HELD = "held"
    RETIRED = "retired"
    PROVIDER_REPLACED = "provider-replaced"
    CUSTODY_STRANGE = "custody-strange"
    UNGUARDED = "unguarded"
    OVERDUE = "overdue"
    RECORD_UNREADABLE = "record-unreadable"
    RECORD_BEHIND = "record-behind"
    ORDER_UNREAD = "order-unread"
    TICKET_DAMAGED = "ticket-damaged"
    DRIVE_ODD = "drive-odd"
    MOVED_OFTEN = "moved-often"
    MOVED_MANY = "moved-many"
    ALLOCATION_LEFT = "allocation-left"
    # A host, the service, or what it rests on.
    GATE_NEWS = "gate-news"
    HOST_SILENT = "host-silent"
    HOSTS_SILENT = "hosts-silent"
    HOST_DISBELIEVED = "host-disbelieved"
    MESSAGE_REFUSED = "message-refused"
    MESSAGE_TOO_LONG = "message-too-long"
    QUEUE_ODD = "queue-odd"
    SLOTS_ABSENT = "slots-absent"
    LISTING_DOUBTED = "listing-doubted"
    LATE = "late"
    CHAIN_CUT = "chain-cut"
    HEAD_MISSING = "head-missing"
    KEY_UNREADABLE = "key-unreadable"


LASTING: Final = frozenset(
    {
        AlarmCode.RECORD_UNREADABLE,
        AlarmCode.STRANGER_RUNS,
        AlarmCode.UNGUARDED,
        AlarmCode.OVERDUE,
    }
)
"""What stands on a slot's record as its alarm until it is over."""


@dataclass(frozen=True)
class HoldReason:
    """Why a slot is held. Made by :func:`quarantine.rules.holds.because`."""

    code: HoldCode
    text: str
    """This case's particulars, in one line."""
    remedy: str
    """What would return the drive; the first thing to do comes first."""
