"""Everything around the decisions, as small as it can be: two hosts with one slot each, two drives.

What only has to be told apart is named canonically, so that the state space is finite: domains by
their place and role, generations by their order, consumers and certificates by whose they are.
"""

from __future__ import annotations

from typing import Any, NamedTuple

CLEAN = 0
"""No data: erased, and nobody wrote since."""

GONE = 9
"""Data of somebody who has no domain any more, or who was served elsewhere."""

NOWHERE = -1


def server(place: int) -> int:
    """The domain of the instance that Nova has, or had last, on a place."""
    return 1 + 2 * place


def ghost(place: int) -> int:
    """The domain of an instance that Nova deleted while its host was down."""
    return 2 + 2 * place


class Drive(NamedTuple):
    """A drive's own truth."""

    data: int = GONE
    """The domain that wrote last, or CLEAN."""
    sealed: bool = False
    """Global Data Erased: no write since the last sanitize."""


class Mail(NamedTuple):
    """A message that was sent once, and that the network may deliver now, later, twice or never."""

    kind: str
    """order, ticket, report or receipt."""
    generation: int
    drive: int
    present: bool
    """Of the host's present incarnation."""
    says: str = ""
    """Of a report: erased, in_use, failed or wrong; of a receipt: valid, used or void."""


class Place(NamedTuple):
    """One host with one slot: what Placement, Nova, libvirt and the host's own files say."""

    drive: int = NOWHERE
    # Placement
    provider: str = ""
    """Empty, ``known`` (the uuid in our record) or ``other``."""
    reserved: bool = False
    holder: str = ""
    """Empty, ``server`` or the uuid of one of our consumers."""
    # Nova and libvirt
    instance: str = ""
    """Empty, claimed, burned, starting (let in by the gate, not in libvirt's files yet), on, off or
    suspended: the instance that Nova has here."""
    ghost: str = ""
    """Empty, on, off: a domain that Nova forgot."""
    # The host's own files
    registered: bool = True
    """The control plane knows this incarnation of the host."""
    accepted: Mail | None = None
    """The newest order."""
    case: str = ""
    """Of that order: empty, open, running (the slot is locked), or as Mail.says how it ended."""
    fresh: bool = False
    """Nobody wrote since the counters in the case's report were read."""
    entry: int = NOWHERE
    """The gate's entry for the slot, by its number in :class:`Names`."""
    ticket_drive: int = NOWHERE
    """The drive of the gate's ticket."""
    ticket_fresh: bool = False
    """Nobody wrote since the counters in that ticket were read."""
    rest_drive: int = NOWHERE
    """The drive of the gate's owner."""
    rest_fresh: bool = False
    """Nobody wrote since the counters of the owner's drive at rest were read."""
    # The control plane
    record: int = NOWHERE
    """The slot's record, by its number in :class:`Names`."""
    hello: int = NOWHERE
    """The newest hello that was heard, likewise."""
    heard: bool = False
    """It came after the slot's last step."""
    mail: frozenset[Mail] = frozenset()


class Known(NamedTuple):
    """What the control plane holds of a drive."""

    dirty: bool = True
    certificate: int = NOWHERE
    """The place whose record names the drive's last certificate; GONE when none does any more."""
    seen: int = NOWHERE
    """The place where it was last spoken of."""


class World(NamedTuple):
    """One state of everything."""

    drives: tuple[Drive, ...]
    places: tuple[Place, ...]
    known: tuple[Known | None, ...]
    budget: int
    """How many misfortunes may still happen."""

    def at(self, place: int, **changes: Any) -> World:
        """The same with another place."""
        places = list(self.places)
        places[place] = places[place]._replace(**changes)
        return self._replace(places=tuple(places))

    def wrote(self, drive: int, data: int, sealed: bool) -> World:
        """The same after a write: whoever compares the drive's counters sees that they moved."""
        drives = list(self.drives)
        drives[drive] = Drive(data, sealed)
        return self._replace(drives=tuple(drives))

    def stale(self, drive: int) -> World:
        """The same, with every note of this drive's counters out of date."""
        places = []
        for place in self.places:
            if place.accepted is not None and place.accepted.drive == drive:
                place = place._replace(fresh=False)
            if place.ticket_drive == drive:
                place = place._replace(ticket_fresh=False)
            if place.rest_drive == drive:
                place = place._replace(rest_fresh=False)
            places.append(place)
        return self._replace(places=tuple(places))

    def renamed(self, before: int, after: int) -> World:
        """The drives with another number for a domain; the gate's entry is ``books.renamed``."""
        drives = tuple(
            drive._replace(data=after) if drive.data == before else drive for drive in self.drives
        )
        return self._replace(drives=drives)
