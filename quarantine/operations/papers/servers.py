"""What a server's owner may know: the state of its drives, and digests of their certificates."""

from __future__ import annotations

from dataclasses import dataclass

from quarantine.errors import UnknownError
from quarantine.operations.plane import Plane
from quarantine.record.pages import SlotLine, SlotQuery
from quarantine.record.servers import ServerLine as ServerLine
from quarantine.record.words.facts import ServerOwner as ServerOwner
from quarantine.record.words.states import CASE_OPEN, State

MOST = 1000
"""Drives, and certificates, in one answer. A server has a handful of them."""

_BETWEEN = CASE_OPEN | {State.RELEASED, State.HELD}
"""States of a drive that one server let go of and no other can have got."""


@dataclass(frozen=True)
class ServersDrive:
    """A drive that a server has, or that waits for its erase after it. Not which, and not where."""

    state: str
    certificate: str | None
    """Digest of the one under which the server got it; None once the server let go of it."""


@dataclass(frozen=True)
class ServerDrives:
    """A server and its drives."""

    server: str
    drives: tuple[ServersDrive, ...]
    certificates: tuple[str, ...]
    """Digests of those that say how its drives were erased after it, in the chain's order."""


def page(
    plane: Plane, *, limit: int, after: str = "", project: str | None = None
) -> tuple[ServerLine, ...]:
    """Servers that were seen with a drive; a project's, or all. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.server_page(project=project, limit=limit, after=after))


def owner(plane: Plane, server: str) -> ServerOwner:
    """Whose a server is.

    Raises ``UnknownError`` for one that was not seen with a drive since this is kept.
    """
    with plane.parts() as parts:
        found = parts.store.server(server)
    if found is None:
        raise UnknownError(f"server {server[:36]}: expected one that was seen with a drive")
    return found


def show(plane: Plane, server: str) -> ServerDrives:
    """A server's drives; none for one that nobody knows. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        slots = parts.store.slot_page(SlotQuery(server=server), limit=MOST)
        # Not by a host's word for its last owner: a rogue one could name anybody's server.
        certificates = parts.store.certificate_page(user=server, limit=MOST)
    return ServerDrives(
        server,
        tuple(_drive(one) for one in slots if _concerns_it(one)),
        tuple(one.digest for one in certificates),
    )


def _drive(slot: SlotLine) -> ServersDrive:
    # In every other state the record names the certificate of the erase after the server.
    return ServersDrive(slot.state, slot.certificate if slot.state == State.IN_USE else None)


def _concerns_it(slot: SlotLine) -> bool:
    """Not from its next certificate on: the drive can be handed out again, and whoever had it
    before would see in this list when another tenant takes it."""
    if slot.state == State.IN_USE:
        return True
    # The record keeps the last server's name until the next one gets the drive.
    return slot.state in _BETWEEN and slot.certificate is None
