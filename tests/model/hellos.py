"""What a host of the model says of itself, truthfully."""

from __future__ import annotations

from eraser.ownership.model import SlotEntry
from eraser.protocol.report import AcceptedOrder, Hello, SeenDrive
from eraser.protocol.ticket import (
    Defence,
    DefenceSeen,
    DefenceStanding,
    DomainSeen,
    GateTestimony,
    TicketSeen,
)
from tests.model.papers import (
    ADDRESS,
    ENTRIES,
    identity,
    incarnation,
    order,
)
from tests.model.world import NOWHERE, Place, World, ghost, server


def hello(world: World, p: int) -> Hello:
    """What a host says of itself, truthfully."""
    here = world.places[p]
    held = here.instance == "on" or here.ghost == "on"
    seen: tuple[SeenDrive, ...] = ()
    if here.drive != NOWHERE:
        readable = not held and here.case not in ("open", "running")
        who = identity(here.drive) if readable else None
        seen = (SeenDrive(ADDRESS, "vfio-pci" if held else "nvme", who),)
    accepted: tuple[AcceptedOrder, ...] = ()
    cases: tuple[str, ...] = ()
    if here.accepted is not None:
        asked = order(p, here.accepted)
        accepted = (AcceptedOrder(ADDRESS, asked.order_id, asked.generation),)
        cases = (asked.order_id,) if here.case in ("open", "running") else ()
    return Hello(
        host=f"host{p}",
        incarnation=incarnation(True),
        sequence=1,
        version="",
        drives=seen,
        cases=cases,
        accepted=accepted,
        gate=_gate(here, p),
    )


def _gate(here: Place, p: int) -> GateTestimony:
    domains = []
    # A suspended instance's domain no longer names the drive.
    if here.instance in ("on", "off"):
        domains.append(DomainSeen(_uuid_of(server(p)), "", (ADDRESS,), here.instance == "on", True))
    if here.ghost:
        domains.append(DomainSeen(_uuid_of(ghost(p)), "", (ADDRESS,), here.ghost == "on", True))
    seen: tuple[TicketSeen, ...] = ()
    entry = SlotEntry(ADDRESS) if here.entry == NOWHERE else ENTRIES[here.entry]
    if entry.ticket is not None:
        kept = entry.ticket.ticket
        seen = (TicketSeen(ADDRESS, kept.order_id, kept.generation, entry.ticket.state, ""),)
    defences = tuple(DefenceSeen(each, DefenceStanding.PRESENT, "") for each in Defence)
    return GateTestimony(defences, tuple(domains), seen, ())


def _uuid_of(domain: int) -> str:
    """An instance's domain has its uuid; the ghost's is of one that Placement no longer names."""
    return f"instance-{domain}"
