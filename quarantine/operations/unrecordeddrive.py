"""The drive of a slot whose record has not learned it: what its host's last hello names there.

That is one word of one host, which may be a lie, and a drive that is given up is given up for good.
So a slot that is retired takes it along only where nothing says that it is another's: no slot
expects it, no other host names it, and none had it. Where somebody moved it here in truth, a person
enrols the slot anew and retires it once more: by then the drive is in the record for them to see.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.errors import UnreadableError
from quarantine.record.store import Store
from quarantine.record.words.facts import DriveRecord, HostRecord


@dataclass(frozen=True)
class UnrecordedDrive:
    """What becomes of the drive when its slot is retired."""

    identity: ControllerIdentity | None
    """To be given up; None where none is."""
    says: str
    """The same in words, for the slot's reason."""


_NOBODY: Final = UnrecordedDrive(None, "no drive is known in the slot: none is given up")
_NOT_GIVEN_UP: Final = (
    "none is given up; if it is in this slot in truth, enrol the slot anew, and retire it when its "
    "record has that drive"
)


def named(host: HostRecord | None, slot: Slot) -> ControllerIdentity | None:
    """The drive that a host named in a slot last."""
    drives = host.hello.drives if host and host.hello else ()
    return next((drive.identity for drive in drives if drive.address == slot.address), None)


def unrecorded(store: Store, slot: Slot) -> UnrecordedDrive:
    """The drive in a slot whose record knows none. Raises ``UnavailableError``."""
    try:
        identity = named(store.host(slot.host), slot)
        if identity is None or not identity.serial.strip():
            return _NOBODY
        drive = store.drive(identity.digest)
        if drive is not None and drive.retired:
            before = f"was given up before: serial {identity.serial}"
            return UnrecordedDrive(None, f"the drive that its host names in {slot} {before}")
        whose = _whose(store, slot, identity, drive)
    except UnreadableError as error:
        return UnrecordedDrive(
            None, f"expected to read whose drive is named there, found {error}: {_NOT_GIVEN_UP}"
        )
    if not whose:
        # Whoever meets the drive elsewhere reads this, too.
        found = f"the drive that its host names in {slot}: serial {identity.serial}"
        return UnrecordedDrive(identity, found)
    return UnrecordedDrive(
        None,
        f"expected a drive that is in this slot alone, found serial {identity.serial}, which "
        f"{whose}: {_NOT_GIVEN_UP}",
    )


def _whose(
    store: Store, here: Slot, identity: ControllerIdentity, drive: DriveRecord | None
) -> str:
    """What says that the drive is, or was, elsewhere; empty where nothing does.

    Raises :class:`UnreadableError` where that cannot be read.
    """
    for slot in sorted(store.places(identity=identity)):
        return f"is expected in {slot}"
    hosts, unread = store.every_host()
    for host in hosts:
        for seen in host.hello.drives if host.hello else ():
            there = Slot(host.name, seen.address)
            if seen.identity == identity and there != here:
                return f"is also named in {there}"
    # Where it was seen last is any host's newest word; the other two are of its first, and of its
    # last use and erase.
    places = (drive.slot, drive.dirty_slot, drive.certified_slot) if drive is not None else ()
    # Another place on the same host is no other host's word: it is this one that names the drive.
    for place in places:
        if place is not None and place.host != here.host:
            return f"was in {place}"
    # Last: what was found above is enough to say no, and only a yes needs every host's word.
    if unread:
        raise UnreadableError(unread[0])
    return ""
