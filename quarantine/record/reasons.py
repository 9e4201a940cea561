"""Codes of holds, which are stored, and of alarms, which are logged. What they mean stands in
:mod:`quarantine.rules.holds` and :mod:`quarantine.rules.alarmbook`.

The strings are in databases and in operators' scripts: none is ever renamed, or used for another
reason. A code that this release does not know is one all the same: nothing that keeps a drive out
of the pool asks which code it is.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass

CODE_LENGTH = 48
"""Characters of the columns."""


class HoldCode(enum.StrEnum):
    """Why a slot is held; the text beside it has the particulars."""

    # What the host's report of an erase shows.
    DATA_LEFT = "data-left"
    NOT_ERASED = "not-erased"
    UNREADABLE = "unreadable"
    READS_DIFFER = "reads-differ"
    LOCKED = "locked"
    COMMAND_FAILED = "command-failed"
    NAMESPACE_UNREAD = "namespace-unread"
    UNPROVED = "unproved"
    DOWNGRADED = "downgraded"
    CAPACITY_UNREAD = "capacity-unread"
    MEMORY_UNREAD = "memory-unread"
    HEALTH = "health"
    FIRMWARE_LOADED = "firmware-loaded"
    NOT_AS_PROFILE = "not-as-profile"
    UNFIT = "unfit"
    REPORT_CONTRADICTS = "report-contradicts"
    NO_METHOD = "no-method"
    NO_CONTROLLER = "no-controller"
    ANOTHER_DRIVE = "another-drive"
    # What the host says of its drives, and of the ticket.
    NO_SERIAL = "no-serial"
    SERIAL_TWICE = "serial-twice"
    TWO_PLACES = "two-places"
    RETIRED_DRIVE = "retired-drive"
    UNSAFE_SLOT = "unsafe-slot"
    TICKET_REFUSED = "ticket-refused"
    TICKET_CONTRADICTS = "ticket-contradicts"
    # What Placement shows, and our own record.
    PROVIDER_REPLACED = "provider-replaced"
    CLAIMED = "claimed"
    NOT_GIVEN_BACK = "not-given-back"
    NOT_CLEAN = "not-clean"
    STRANGE_CUSTODY = "strange-custody"
    NO_ONE_TIME_USE = "no-one-time-use"
    ORDER_CAME_BACK = "order-came-back"
    RECORD_DAMAGED = "record-damaged"
    # The rest.
    BY_PERSON = "by-person"
    OTHER = "other"


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
    TICKET_DAMAGED = "ticket-damaged"
    DRIVE_ODD = "drive-odd"
    MOVED_OFTEN = "moved-often"
    MOVED_MANY = "moved-many"
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


@dataclass(frozen=True)
class HoldReason:
    """Why a slot is held. Made by :func:`quarantine.rules.holds.because`."""

    code: HoldCode
    text: str
    """This case's particulars, in one line."""
    remedy: str
    """What would return the drive; the first thing to do comes first."""
