"""Codes of what is stored with a hold and with an alarm. What they mean stands in
:mod:`quarantine.rules.holds` and :mod:`quarantine.rules.alarmcodes`.

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


@dataclass(frozen=True)
class HoldReason:
    """Why a slot is held. Made by :func:`quarantine.rules.holds.because`."""

    code: HoldCode
    text: str
    """This case's particulars, in one line."""
    remedy: str
    """What would return the drive; the first thing to do comes first."""
