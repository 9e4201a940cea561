"""Nova, its tenants, the people with hands on the drives: everything that moves without asking us.

After facts that were measured on Nova 34 and libvirt 9: what creates and deletes a provider, when
``reserved`` is burned, what a delete leaves behind, which starts pass libvirt's hook and which not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tests.model.books import renamed
from tests.model.search import Slip
from tests.model.system import REFUSED
from tests.model.world import CLEAN, GONE, NOWHERE, World, ghost, server

Start = Callable[[World, int, int], World | None]
"""The last gate: lets a domain start on a place's drive (the world after), or refuses (None)."""

Steps = Iterator[tuple[str, World]]


def written(world: World, place: int, domain: int) -> World:
    """A guest that runs writes: its data is on the drive, and every counter has moved."""
    drive = world.places[place].drive
    data = world.drives[drive].data
    if data not in (CLEAN, domain):
        raise Slip(f"domain {domain} started on a drive with the data of domain {data}")
    return touched(world, drive, domain)


def touched(world: World, drive: int, data: int) -> World:
    """The same after writes to a drive, wherever it is."""
    return world.wrote(drive, data, sealed=False).stale(drive)


def nova(world: World, p: int, start: Start, *, born_reserved: bool = True) -> Steps:
    """What Nova and an ordinary tenant do, again and again; costs no misfortune."""
    here = world.places[p]
    present = here.drive != NOWHERE
    if present and not here.provider:
        yield (
            f"nova-compute {p} starts: a provider appears",
            world.at(p, provider="other", reserved=born_reserved, holder=""),
        )
    if here.provider and not here.reserved and not here.holder and not here.instance:
        yield f"claim on {p}", world.at(p, holder="server", instance="claimed")
    if here.instance == "claimed":
        yield f"burn on {p}", world.at(p, reserved=True, instance="burned")
    if here.instance in ("burned", "off") and _startable(world, p):
        yield from _starting(world, p, server(p), start)
    elif here.instance == "burned":
        yield f"libvirt cannot start the new instance on {p}", world.at(p, instance="", holder="")
    if here.ghost == "off" and here.instance not in ("starting", "on") and present:
        after = start(world, p, ghost(p))
        if after is not None:
            after = written(after, p, ghost(p)).at(p, ghost="on")
            yield f"the deleted instance's domain starts again on {p}", after
    if here.instance == "starting":
        yield f"instance on {p} runs", written(world, p, server(p)).at(p, instance="on")
    if here.instance == "suspended" and _startable(world, p):
        # Free of cost, or it would stay so for ever where one misfortune may happen.
        after = written(world, p, server(p)).at(p, instance="on")
        yield f"instance on {p} is resumed, past the hook", after
    if here.instance in ("starting", "on"):
        yield f"instance on {p} is shut off", world.at(p, instance="off")
    if here.instance in ("starting", "on", "off", "suspended"):
        yield f"delete on {p}", world.at(p, instance="", holder="")
    if here.ghost:
        yield f"nova-compute {p} removes the domain that it forgot", world.at(p, ghost="")


def _startable(world: World, p: int) -> bool:
    """libvirt itself refuses a drive that another guest runs on, and one that is not there."""
    here = world.places[p]
    return here.drive != NOWHERE and here.ghost != "on"


def _starting(world: World, p: int, domain: int, start: Start) -> Steps:
    here = world.places[p]
    after = start(world, p, domain)
    if after is not None:
        # A moment passes before libvirt's files name it, and before it writes.
        yield f"the gate lets the instance start on {p}", after.at(p, instance="starting")
    elif here.instance == "burned":
        yield f"{REFUSED} the new instance on {p}", world.at(p, instance="", holder="")
    else:
        # It stays shut off: nothing changes.
        yield f"{REFUSED} the instance on {p}", world


def misfortunes(world: World, p: int, kinds: frozenset[str]) -> Steps:
    """What costs one of the budget, each kind only where it was asked for."""
    for kind, steps in _MISFORTUNES.items():
        if kind in kinds:
            for name, after in steps(world, p):
                yield name, after._replace(budget=world.budget - 1)


def _ghosts(world: World, p: int) -> Steps:
    here = world.places[p]
    if here.instance in ("on", "off") and not here.ghost:
        after = world.renamed(server(p), ghost(p))
        # The gate knows the domain as it did: it is still the drive's owner.
        entry = renamed(here, server(p), ghost(p)).entry
        after = after.at(p, instance="", ghost=here.instance, holder="", entry=entry)
        yield f"instance on {p} deleted while its host is down: the domain stays", after


def _suspends(world: World, p: int) -> Steps:
    """Nova detaches the drive before it suspends and attaches it after, past libvirt's hook."""
    here = world.places[p]
    if here.instance == "on":
        yield f"instance on {p} is suspended", world.at(p, instance="suspended")


def _absences(world: World, p: int) -> Steps:
    here = world.places[p]
    running = here.instance in ("starting", "on") or here.ghost == "on"
    if here.drive != NOWHERE and not running:
        yield f"the drive in {p} vanishes", world.at(p, drive=NOWHERE)
    if here.drive == NOWHERE and here.provider and not here.holder:
        yield (
            f"nova-compute {p} starts without the drive: its provider is deleted",
            world.at(p, provider="", reserved=False),
        )


def _moves(world: World, p: int) -> Steps:
    """A drive goes from one host straight into another's empty slot."""
    here = world.places[p]
    running = here.instance in ("starting", "on") or here.ghost == "on"
    for q, there in enumerate(world.places):
        if here.drive != NOWHERE and not running and q != p and there.drive == NOWHERE:
            after = world.at(p, drive=NOWHERE).at(q, drive=here.drive)
            yield f"the drive in {p} is put into {q}", after


def _returns(world: World, p: int) -> Steps:
    """Putting a drive back where there is room: free, or nothing would ever come back."""
    inside = {place.drive for place in world.places}
    if world.places[p].drive == NOWHERE:
        for drive in range(len(world.drives)):
            if drive not in inside and _resumable(world, drive, p):
                yield f"drive {drive} is put into {p}", world.at(p, drive=drive)


def _resumable(world: World, drive: int, p: int) -> bool:
    """A suspended server gets what is in its slot past every hook: whoever puts a drive with other
    data there has given it away (docs/decisions/gate.md, Given up)."""
    return world.places[p].instance != "suspended" or world.drives[drive].data in (CLEAN, server(p))


def returns(world: World, p: int) -> Steps:
    """Free of cost."""
    return _returns(world, p)


def _elsewhere(world: World, p: int) -> Steps:
    if p:
        return
    inside = {place.drive for place in world.places}
    for drive in range(len(world.drives)):
        if drive not in inside:
            yield f"drive {drive} serves somebody elsewhere", touched(world, drive, GONE)


def _typos(world: World, p: int) -> Steps:
    here = world.places[p]
    if here.provider and not here.holder:
        yield (
            f"device_spec of {p} no longer matches, or the compute service is deleted",
            world.at(p, provider="", reserved=False),
        )


def _operators(world: World, p: int) -> Steps:
    here = world.places[p]
    if here.provider and here.reserved:
        yield f"somebody sets reserved of {p} to 0 by hand", world.at(p, reserved=False)
    if here.holder and here.holder != "server":
        yield f"somebody deletes our allocation on {p} by hand", world.at(p, holder="")


_MISFORTUNES = {
    "ghost": _ghosts,
    "suspend": _suspends,
    "absence": _absences,
    "move": _moves,
    "elsewhere": _elsewhere,
    "typo": _typos,
    "operator": _operators,
}
