"""Every alarm: how bad, what it means, what to do; and the one door to the log. No other I/O.

A line reads ``ALARM CODE SUBJECT: text``. The subject is a slot, ``host NAME``, or a part of the
service. The operators' table is generated from :data:`ALARMS` (``tools/samples``).
"""

from __future__ import annotations

import contextlib
import enum
import logging
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from quarantine.errors import UnfinishedError
from quarantine.record.words.reasons import AlarmCode

LOG = logging.getLogger(__name__)

CALLED: Final = "ALARM %s %s: %s"
OVER: Final = "over: %s %s: %s"
"""The two lines. Their first two arguments are the code and the subject."""


@dataclass(frozen=True)
class SlotInState:
    """A slot as an alarm's subject, with the state in which it was found."""

    slot: object
    state: object

    def __str__(self) -> str:
        return f"{self.slot} ({self.state})"


class Severity(enum.StrEnum):
    """How soon somebody has to look."""

    CRITICAL = "critical"
    """A drive may be, or may have been, in wrong hands; what we could do was done."""
    WARNING = "warning"
    """Something waits, or nobody would see what goes wrong from here on."""


@dataclass(frozen=True)
class Alarm:
    """One kind, for people. The texts are Markdown without line breaks."""

    severity: Severity
    summary: str
    remedy: str
    silenced: bool = False
    """A maintenance of its host or slot silences it: it tells of silence or delay alone."""


_BAD, _SOON = Severity.CRITICAL, Severity.WARNING

ALARMS: Final[Mapping[AlarmCode, Alarm]] = {
    AlarmCode.ON_OFFER: Alarm(
        _BAD,
        "A slot was on offer, or free, without a right to it; it was reserved first.",
        "It is erased again: nothing to do but settle the cause, which the text names.",
    ),
    AlarmCode.RESERVE_LOWERED: Alarm(
        _BAD,
        "Somebody lowered `reserved` of a drive that is in use, erased or held; it is put back.",
        "Find out who changes Placement by hand: the service needs nobody's help there.",
    ),
    AlarmCode.CLAIMED_UNERASED: Alarm(
        _BAD,
        "A server claimed the drive before it was erased.",
        "Was a nova-compute without nova_patch started? The gate refuses its guest; delete it.",
    ),
    AlarmCode.USED_AGAIN: Alarm(
        _BAD,
        "Another server holds the drive than before, and Nova knows of no migration.",
        "The drive may have been used again without an erase: find out how.",
    ),
    AlarmCode.STRANGER_RUNS: Alarm(
        _BAD,
        "A domain runs with the drive that should not.",
        "A ghost, a guest plugged by hand, one that came past the gate, or one whose migration "
        "ended and left it running: find out who started it before you stop it.",
    ),
    AlarmCode.CUSTODY_GONE: Alarm(
        _BAD,
        "Our allocation vanished from Placement, or stands where we gave the drive back.",
        "Somebody changed Placement by hand: find out who. The case begins again by itself.",
    ),
    AlarmCode.NOT_ENROLLED: Alarm(
        _BAD,
        "Placement offered a slot that nobody enrolled; it was reserved.",
        "`slot enrol` it, or take its address out of device_spec.",
    ),
    AlarmCode.HELD: Alarm(
        _SOON,
        "A slot is held.",
        "See [when a slot is held](#when-a-slot-is-held).",
    ),
    AlarmCode.RETIRED: Alarm(
        _SOON,
        "A drive came to its end by the policy's table of health, or cannot be mended.",
        "Pull it ([replacing a drive](#replacing-a-drive)); the text says whether it was erased.",
    ),
    AlarmCode.PROVIDER_REPLACED: Alarm(
        _SOON,
        "Another resource provider, or resource class, stands in Placement for the slot.",
        "Find out who deleted the provider; the drive is reserved, and erased first.",
    ),
    AlarmCode.CUSTODY_STRANGE: Alarm(
        _SOON,
        "The custody in Placement is of a case that the record does not know.",
        "Was the database restored from a backup? The drive is erased again.",
    ),
    AlarmCode.UNGUARDED: Alarm(
        _SOON,
        "A host lacks a defence, or cannot say how it stands for `[gate]unknown_grace`.",
        "See [what the self-check says](#what-the-self-check-says); nothing is given back there "
        "meanwhile. A host that says nothing of its last gate: upgrade nvme-eraser there, or "
        "`[gate]required = false` for the time of a rollout.",
    ),
    AlarmCode.OVERDUE: Alarm(
        _SOON,
        "A slot took no step, or its host said nothing of its order, for `[erase]overdue_after`; "
        "or its host has not finished the order so long after `[erase]order_seconds`.",
        "Its detail says what for ([waits](#tickets-waits-and-alarms)); without one look into the "
        "log: a role that Placement misses (the reshaper), a broker that is away, a worker that "
        "is down. Where its host does not finish the order: its progress (`slot show`), or "
        "`runner.log` in the case's directory there, says why it ends each time (`grep -l ORDER_ID "
        "/var/lib/nvme-eraser/cases/*/request.json` names that directory).",
        silenced=True,
    ),
    AlarmCode.RECORD_UNREADABLE: Alarm(
        _SOON,
        "A row of the record cannot be read: nothing is done but to keep its drive out of the "
        "pool.",
        "Was it written by a newer release? Run that one, or restore the database. A campaign goes "
        "on without such a line, or not at all: `slot release` what stays held in its name.",
    ),
    AlarmCode.RECORD_BEHIND: Alarm(
        _SOON,
        "A host took an order that the record does not know.",
        "Was the database lost or restored? The next order goes above it by itself.",
    ),
    AlarmCode.ORDER_UNREAD: Alarm(
        _SOON,
        "A host cannot read the order of a slot, and gets another one.",
        "Was it set back to a former release? Then once for each slot that is erased there. A host "
        "that says so again and again of one slot lies, or is broken: look at it.",
    ),
    AlarmCode.TICKET_DAMAGED: Alarm(
        _SOON,
        "The stored ticket of a case is damaged, or of a former key.",
        "Nothing to do: the drive is erased again.",
    ),
    AlarmCode.DRIVE_ODD: Alarm(
        _SOON,
        "Something is wrong with a drive that a server has, so that it is not held now.",
        "The text says what; it is held when the server lets go of it and it is still so.",
    ),
    AlarmCode.MOVED_OFTEN: Alarm(
        _SOON,
        "The provider of a slot on offer moved three times in a day without a reason.",
        "Find out who writes to it (Placement's access log), or `slot hold` the slot.",
    ),
    AlarmCode.MOVED_MANY: Alarm(
        _SOON,
        "The providers of very many drives on offer moved without a reason. Only where no gate is "
        "required.",
        "Each may have had a user whom Nova did not burn the drive for "
        "([why](decisions/moved.md)): they are erased in turn. A script that writes to all "
        "providers, a restored Placement, or a nova-compute that heals an allocation (it logs "
        "'inventory and allocation data migration') does it too.",
    ),
    AlarmCode.ALLOCATION_LEFT: Alarm(
        _SOON,
        "A slot is in use by a consumer that Nova has forgotten, and would be so for ever.",
        "Nova left its allocation over. See that no guest of it runs on the host; then `openstack "
        "resource provider allocation delete` the consumer, and the drive is erased.",
    ),
    AlarmCode.GATE_NEWS: Alarm(
        _SOON,
        "A host says for the first time what its last gate saw, or what a person allowed there.",
        "Read it: an allowance that nobody here knows of is to be asked about. A guest that was "
        "refused its own drive waits for a person: see [the watcher](#the-watcher).",
    ),
    AlarmCode.HOST_SILENT: Alarm(
        _SOON,
        "A host says nothing while something waits for it, or for `[erase]overdue_after`.",
        "Its worker, or its way to the broker; one that is gone: [a host that "
        "goes](#a-host-that-goes). Its slots on "
        "offer stay on offer: what became of its gate meanwhile is not known. Those of a removed "
        "host are taken back.",
        silenced=True,
    ),
    AlarmCode.HOSTS_SILENT: Alarm(
        _SOON,
        "Very many hosts are silent, or were together and some still are.",
        "The broker, the control plane's own worker, or what those hosts share: it is not each of "
        "them. Those whose erases wait are named first; who falls silent later is named by "
        "itself, and when most are back, those that are not are named.",
        silenced=True,
    ),
    AlarmCode.HOST_DISBELIEVED: Alarm(
        _SOON,
        "A host claims drives of very many other hosts' slots: no further one is held on its word.",
        "Look at the host. Where it was broken into: `host remove` it, and take its account at the "
        "broker away ([a host that goes](#a-host-that-goes), step 2).",
    ),
    AlarmCode.MESSAGE_REFUSED: Alarm(
        _SOON,
        "A message of a host was refused.",
        "The text says why; [a host that lost its state](#a-host-that-was-installed-anew) is "
        "registered again.",
    ),
    AlarmCode.MESSAGE_TOO_LONG: Alarm(
        _SOON,
        "A host sends messages that are longer than any honest one's; they are dropped.",
        "Look at the host. Was it a report, its slot stays `erasing`, or `verifying`: `slot hold` "
        "and `slot release` have the drive erased anew, and its namespaces are put back by then.",
    ),
    AlarmCode.QUEUE_ODD: Alarm(
        _SOON,
        "Something else than a message of ours lay in a queue; it was removed.",
        "Who else writes to this Redis? See [Redis in production](#redis-in-production).",
    ),
    AlarmCode.SLOTS_ABSENT: Alarm(
        _SOON,
        "Placement has shown slots of a host no more for a while.",
        "Drives absent, not in device_spec, or the compute service was deleted. Nothing is held "
        "for it: what Placement does not show is not on offer, and what comes back goes on or is "
        "erased first. For good: `slot retire` the slots, which gives up their drives too; of "
        "drives that are to be used elsewhere see [a host that goes](#a-host-that-goes) first.",
        silenced=True,
    ),
    AlarmCode.LISTING_DOUBTED: Alarm(
        _SOON,
        "Placement shows very many slots no more, which is not believed.",
        "The wrong region in clouds.yaml, a database of Placement that was restored: see that "
        "first. Nothing is changed, running erases go on. `over:` says that it is believed again; "
        "a deliberate loss of so many (a tenth of the cloud at once): `slot hold` and `slot "
        "retire` them, as [a host that goes](#a-host-that-goes).",
    ),
    AlarmCode.LATE: Alarm(
        _BAD,
        "A part of the service has not done its work for longer than its bound.",
        "The warnings before it say why: see Placement and the database.",
    ),
    AlarmCode.CHAIN_CUT: Alarm(
        _BAD,
        "A certificate that a signed head names is not in the record.",
        "Was the database set back? `nvme-quarantine ledger verify --heads DIRECTORY` names what "
        "is missing.",
    ),
    AlarmCode.HEAD_MISSING: Alarm(
        _SOON,
        "The signed head of the chain, or its time stamp, could not be made.",
        "It is tried again every ten minutes and nothing waits for it; the text says what is "
        "wrong.",
    ),
    AlarmCode.KEY_UNREADABLE: Alarm(
        _SOON,
        "A file that a `former` option names cannot be read: nothing of that key is believed.",
        "Put the file back and restart, or take it out of the option: orders and tickets of that "
        "key are void until then, and such drives are erased again.",
    ),
}


def table() -> str:
    """All kinds as a Markdown table, for the operators' guide."""
    quiet = " A [maintenance](#maintenance) silences it."
    rows = (
        f"| `{code}` | {kind.severity} | {kind.summary} | {kind.remedy}"
        f"{quiet if kind.silenced else ''} |"
        for code, kind in ALARMS.items()
    )
    return "\n".join(("| code | severity | what it says | do |", "|---|---|---|---|", *rows))


def alarm(subject: object, code: AlarmCode, text: str) -> None:
    """Calls people. ``subject``: a slot, ``host NAME``, or a part of the service."""
    LOG.error(CALLED, code, subject, text)


def over(subject: object, code: AlarmCode, text: str) -> None:
    """Tells that what people were called for is over, and how."""
    LOG.warning(OVER, code, subject, text)


def only(code: AlarmCode, when: object) -> AlarmCode | None:
    """``code`` where ``when`` is true. No step depends on it."""
    return code if when else None


@contextlib.contextmanager
def calling_for_hold(subject: object, text: str) -> Iterator[None]:
    """Alarms once the hold within is written. Also where nobody knows whether it was written: the
    next look may find the slot held already, and then calls nobody."""
    try:
        yield
    except UnfinishedError:
        alarm(subject, AlarmCode.HELD, text)
        raise
    alarm(subject, AlarmCode.HELD, text)


class StandingAlarms:
    """Alarms that last: each subject is told once for each code, until it is over."""

    def __init__(self) -> None:
        self._told: set[tuple[str, AlarmCode]] = set()
        self._hushed: set[tuple[str, AlarmCode]] = set()
        """Told once, and not told again yet."""

    def tell(self, subject: object, code: AlarmCode, text: str) -> None:
        """Alarms, unless that is known."""
        if (str(subject), code) not in self._told:
            self._told.add((str(subject), code))
            self._hushed.discard((str(subject), code))
            alarm(subject, code, text)

    def end(self, subject: object, code: AlarmCode, text: str) -> None:
        """Says that it is over, and how, where it was told."""
        if (str(subject), code) in self._told | self._hushed:
            self._told.discard((str(subject), code))
            self._hushed.discard((str(subject), code))
            over(subject, code, text)

    def hush(self, subjects: Iterable[object], code: AlarmCode) -> None:
        """Takes ``subjects`` as not told, and says nothing: a maintenance silences them. What still
        lasts when that ends is told again; what is over is said to be over as ever."""
        quiet = self._told & {(str(subject), code) for subject in subjects}
        self._told -= quiet
        self._hushed |= quiet

    def end_others(self, present: Iterable[object], code: AlarmCode, text: str) -> None:
        """Ends it for all subjects that are not ``present``."""
        named = {str(subject) for subject in present}
        known = self._told | self._hushed
        for subject in sorted(s for s, c in known if c is code and s not in named):
            self.end(subject, code, text)
