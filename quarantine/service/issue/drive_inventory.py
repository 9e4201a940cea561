"""What a host's hello says about the drives in its slots, held against what we know.

A slot whose drive changed is held, naming both. A drive in two places is held in both: with one
serial twice, nobody can say which one was erased (promise 3). A slot that knows no drive yet learns
it here, from the registered host's own word, and only once. A slot that is held already, mostly by
a person, stays held as it is; its history says what it would have been held for.
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from dataclasses import dataclass

from eraser.protocol.identity import ControllerIdentity, Slot, pci_address
from eraser.protocol.report import Hello, SeenDrive
from quarantine.doors import Clock
from quarantine.errors import ConflictError, UnreadableError
from quarantine.record.store import Store
from quarantine.record.words import lifecycle
from quarantine.record.words.facts import SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode, HoldCode, HoldReason
from quarantine.record.words.states import WORKING, Event, State
from quarantine.record.words.texts import storable
from quarantine.rules.alarmbook import SlotInState, alarm, calling_for_hold
from quarantine.rules.alarms import is_round
from quarantine.rules.holds import because

LOG = logging.getLogger(__name__)

LEARNING = frozenset({State.RELEASED, State.QUARANTINED})
"""States in which a slot without a drive learns it: nobody has it, nothing was sent to it."""

ACCUSATIONS = 32
"""Slots of other hosts that one host's word holds at a time. So many drives move with a chassis; a
host that claims more is lying or broken, and must not empty the pool of the whole cloud."""

NOTED = 1024
"""Drives that are kept on record as last seen in one host, beside those of its enrolled slots. It
is 256 at a time, and drives that moved on are another host's; one that claims more makes them up,
and must not fill the database of the whole cloud."""

TOLD = 8
"""Lines that the history of a slot gets of other drives in it while it is held: a host that names a
new one each time must not fill it."""

_NEWEST = 64
"""Lines of history among which those are, beside what else was noted."""

_SEEN_IN = " was seen in "


@dataclass(frozen=True)
class InventoryChange:
    """What a hello led to."""

    changed: tuple[Slot, ...]
    """The slots that deserve a look at once."""
    whole: bool
    """Nobody else wrote meanwhile; else the next hello says the same again."""


def take(store: Store, hello: Hello, clock: Clock) -> InventoryChange:
    """Compares and records."""
    seen, twice = _drives(hello)
    _note_all(store, hello.host, seen)
    wrong = _misplaced(hello)
    changed: list[Slot] = []
    whole = True
    for record in store.slots(host=hello.host):
        try:
            if record.state in WORKING and record.order_id in hello.cases:
                record = store.amend(record, SlotChanges(heard_at=clock()))
            found = seen.get(record.slot.address)
            why = wrong.get(record.slot.address, "")
            if found is not None and _compare(store, record, found, found in twice, why):
                changed.append(record.slot)
        except (ConflictError, UnreadableError) as error:
            whole = False
            LOG.info("hello of %s: %s", hello.host, error)
    held, alone = _elsewhere(store, hello, seen)
    return InventoryChange(tuple(dict.fromkeys([*changed, *held])), whole and alone)


def learn(store: Store, record: SlotRecord, hello: Hello) -> SlotRecord:
    """The same for one slot that was enrolled after its host had greeted; the record after it."""
    seen, twice = _drives(hello)
    identity = seen.get(record.slot.address)
    why = _misplaced(hello).get(record.slot.address, "")
    if identity is None or not _compare(store, record, identity, identity in twice, why):
        return record
    return store.slot(record.slot) or record


def misplaced(seen: SeenDrive) -> str:
    """Why no guest may have the drive where it sits; empty where nothing speaks against it."""
    if seen.system:
        return "the host runs from this drive: take it out of device_spec"
    if seen.group:
        return (
            f"expected the drive alone in its IOMMU group, found {', '.join(seen.group)} with it: "
            "they would go to the guest too; move it to another slot or enable ACS"
        )
    return ""


def _misplaced(hello: Hello) -> dict[str, str]:
    return {seen.address: misplaced(seen) for seen in hello.drives}


def _drives(hello: Hello) -> tuple[dict[str, ControllerIdentity], frozenset[ControllerIdentity]]:
    """The readable drives by address, and those that are there more than once."""
    seen = {drive.address: drive.identity for drive in hello.drives if drive.identity is not None}
    counts = Counter(seen.values())
    return seen, frozenset(identity for identity, count in counts.items() if count > 1)


def _note_all(store: Store, host: str, seen: dict[str, ControllerIdentity]) -> None:
    """Where each drive is now, also one in a slot that nobody enrolled; written when it moved."""
    room: int | None = None
    for address, identity in seen.items():
        slot = Slot(host, address)
        try:
            known = store.drive(identity.digest)
        except UnreadableError as error:
            # Its row is there: whether it moved nobody can say, and the host's other drives wait.
            LOG.info("hello of %s: %s", host, error)
            continue
        if known is not None and known.slot == slot:
            continue
        # Of a drive that is known elsewhere the row stays the same one.
        if known is None:
            room = NOTED - store.drives_seen_in(host) if room is None else room
            if room <= 0:
                reason = (
                    f"expected at most {NOTED} drives in one host over the years, it names more"
                )
                _disbelieve(store, host, f"{reason}: no further one is noted; look at the host")
                return
            room -= 1
        store.note_drive(identity, slot, False, "seen by its host")


def _compare(
    store: Store, record: SlotRecord, identity: ControllerIdentity, twice: bool, wrong: str
) -> bool:
    """Whether the slot's state or drive changed."""
    # First what makes an identity worth nothing: drives without a serial would all look alike
    # below.
    if not identity.serial.strip():
        return _hold_or_tell(
            store,
            record,
            because(
                HoldCode.NO_SERIAL, "the drive has an empty serial number: it cannot be told apart"
            ),
        )
    if twice:
        text = f"two drives of this host call themselves {_name(identity)}"
        return _hold_or_tell(store, record, because(HoldCode.SERIAL_TWICE, text))
    if record.identity is None:
        return _learn(store, record, identity, wrong)
    if record.identity == identity:
        return False
    differences = "; ".join(record.identity.differences(identity))
    text = (
        f"the drive in the slot changed ({differences}); if that was on purpose, release the slot "
        "with --new-drive"
    )
    return _hold_or_tell(store, record, because(HoldCode.ANOTHER_DRIVE, text))


def _learn(store: Store, record: SlotRecord, identity: ControllerIdentity, wrong: str) -> bool:
    if record.state not in LEARNING:
        return False
    if wrong:
        # Enrolment refuses it; this slot was enrolled before its host had spoken.
        return _hold(store, record, because(HoldCode.UNSAFE_SLOT, wrong))
    drive = store.drive(identity.digest)
    if drive is not None and drive.retired:
        text = f"{_name(identity)} was retired: {drive.reason}"
        return _hold(store, record, because(HoldCode.RETIRED_DRIVE, text))
    others = _expecting(store, identity, record.slot)
    there = [_placed(*each) for each in others.items() if not _is_retired(each[1])]
    if there:
        # _elsewhere holds the other slot, with this one's name.
        text = f"{_name(identity)} is known in slot {there[0]}"
        return _hold(store, record, because(HoldCode.TWO_PLACES, text))
    store.amend(
        record,
        SlotChanges(identity=identity, detail=""),
        note=f"identity learned from the host's hello: {_name(identity)}",
    )
    LOG.info("%s: holds %s", record.slot, _name(identity))
    return True


def _elsewhere(
    store: Store, hello: Hello, seen: dict[str, ControllerIdentity]
) -> tuple[list[Slot], bool]:
    """Records of other slots that expect a drive which this host sees; whether all were held."""
    held: list[Slot] = []
    whole = True
    accused: set[Slot] | None = None
    too_many = False
    for address, identity in seen.items():
        here = Slot(hello.host, address)
        try:
            others = _expecting(store, identity, here)
        except UnreadableError as error:
            whole = False
            LOG.info("hello of %s: %s", hello.host, error)
            continue
        for slot, other in others.items():
            # A host may harm its own drives as much as it likes (promise 7): only what it says of
            # others' has a bound.
            believed = True
            if other is not None and slot.host != hello.host:
                accused = _accused(store, hello.host) if accused is None else accused
                if len(accused | {slot}) > ACCUSATIONS:
                    too_many, believed = True, False
            why = f"{_name(identity)} is expected here, and{_SEEN_IN}{here}"
            try:
                if (
                    other is not None
                    and believed
                    and _hold(store, other, because(HoldCode.TWO_PLACES, why), by=hello.host)
                ):
                    held.append(slot)
                    if accused is not None:
                        accused.add(slot)
                mine = store.slot(here)
                if not _is_retired(other) and mine is not None:
                    there = _placed(slot, other)
                    why = f"{_name(identity)} was seen here, and is expected in {there}"
                    if _hold(store, mine, because(HoldCode.TWO_PLACES, why)):
                        held.append(here)
            except (ConflictError, UnreadableError) as error:
                whole = False
                LOG.info("hello of %s: %s", hello.host, error)
    if too_many:
        _disbelieve(
            store,
            hello.host,
            f"expected at most {ACCUSATIONS} drives of other hosts in this one, it claims more: no "
            "further slot is held on its word; look at the host, and 'nvme-quarantine host remove' "
            "it",
        )
    return held, whole


def _expecting(
    store: Store, identity: ControllerIdentity, here: Slot
) -> dict[Slot, SlotRecord | None]:
    """The other slots that expect the drive; None of one whose row cannot be read, so that nobody
    knows who has it there. Raises :class:`UnreadableError` where not even its place can."""
    found: dict[Slot, SlotRecord | None] = {}
    for slot in sorted(store.places(identity=identity) - {here}):
        try:
            record = store.slot(slot)
        except UnreadableError:
            found[slot] = None
            continue
        if record is not None and record.identity == identity:
            found[slot] = record
    return found


def _is_retired(record: SlotRecord | None) -> bool:
    return record is not None and record.state is State.RETIRED


def _placed(slot: Slot, record: SlotRecord | None) -> str:
    return f"{slot}, whose row cannot be read" if record is None else str(slot)


def seen_in(reason: str) -> Slot | None:
    """Where the drive of a held slot was seen, where that is the reason."""
    host, _, address = reason.rpartition(_SEEN_IN)[2].partition("/")
    try:
        return Slot(host, pci_address(address))
    except ValueError:
        return None


def _accused(store: Store, host: str) -> set[Slot]:
    """Other hosts' slots that are held on this host's word: our own reasons end with its slot."""
    return {
        record.slot
        for record in store.slots(states=[State.HELD])
        if record.slot.host != host
        and record.reason.rpartition(_SEEN_IN)[2].partition("/")[0] == host
    }


def _disbelieve(store: Store, host: str, reason: str) -> None:
    times = store.record_refusal("drive", host, reason, "", "").count
    if is_round(times):
        alarm(f"host {host}", AlarmCode.HOST_DISBELIEVED, f"{reason} ({times} times)")


def _hold_or_tell(store: Store, record: SlotRecord, why: HoldReason) -> bool:
    """As :func:`_hold`, by a word of the slot's own host: it may say anything in the history of its
    slots, and in nobody else's."""
    if record.state is State.HELD:
        _tell(store, record, why)
        return False
    return _hold(store, record, why)


def _tell(store: Store, record: SlotRecord, why: HoldReason) -> None:
    """Notes in its history what a slot would be held for, were it not: once while it is held.

    Nobody is called: a drive is exchanged in a slot that was held for that. Once it is released the
    next hello is compared as ever.
    """
    text = storable(why.text)
    lines = reversed(store.newest_history(record.slot, _NEWEST))
    since = itertools.takewhile(lambda line: line.became is None, lines)
    told = [line.reason for line in since if line.hold_code is not None]
    if text not in (record.reason, *told) and len(told) < TOLD:
        store.amend(record, SlotChanges(), note=text, code=why.code)


def _hold(store: Store, record: SlotRecord, why: HoldReason, *, by: str = "") -> bool:
    """Holds where the table allows it; a tenant's slot is left alone, with an alarm. ``by``: the
    host whose word that is, where it may be another one than the slot's."""
    if record.state in (State.HELD, State.RETIRED):
        return False
    if Event.HELD not in lifecycle.events(record.state):
        text = why.text
        if by not in ("", record.slot.host):
            # Without the place, which it may change with each hello: people would hear of each.
            text = f"its drive was seen in host {by}"
        host = by or record.slot.host
        said = store.record_refusal("drive", host, f"{record.slot}: {text}", "", "")
        if is_round(said.count):
            alarm(SlotInState(record.slot, record.state), AlarmCode.DRIVE_ODD, why.text)
        return False
    with calling_for_hold(record.slot, f"held: {why.code}: {why.text}"):
        store.hold(record, why)
    return True


def _name(identity: ControllerIdentity) -> str:
    """A drive in words; ``repr`` keeps twenty hostile bytes on one line."""
    return f"{identity.model!r} serial {identity.serial!r}"
