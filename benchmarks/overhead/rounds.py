"""One hand-out and one case after the other, and how long each stretch between two facts took.

All times are of this machine: the store's rows, the drives' own logs and the benchmark itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Final

from eraser.protocol.identity import Slot
from quarantine.record.words.states import Event, State
from tests.lab.errors import LabError
from tests.lab.rack.drive import RackDrive
from tests.lab.services.placement_http import PlacementHttp
from tests.lab.services.process import wait_until
from tests.lab.site import Site

PATIENCE: Final = 600.0

TO_COMMAND: Final = "release visible to first command"
TO_POOL: Final = "last command to schedulable"
DETECTION: Final = "release visible to release seen"

_STAGES: Final = (
    (Event.RELEASE_SEEN, "release visible to release seen"),
    (Event.CUSTODY_TAKEN, "release seen to custody taken"),
    (Event.ORDERED, "custody taken to order sent"),
)
"""Rows of the slot's history in their order, each with the stretch that it ends."""


def hand_out(site: Site, drives: int, *, bell: bool) -> list[Mapping[str, float]]:
    """A server comes, is deleted, and its slots come back; seconds by stretch, for each slot."""
    server = site.nova.boot(drives)
    used = [drive for drive in site.rack.drives if drive.address in server.addresses]
    site.bell(server.host)
    site.wait(used, [State.IN_USE], seconds=PATIENCE)
    seen = {drive.serial: len(site.history(drive)) for drive in used}
    last = {drive.serial: drive.commands()[-1].seq for drive in used}
    site.nova.delete(server)
    visible = time.time()
    if bell:
        site.bell(server.host)
    site.wait(used, frozenset(State) - {State.IN_USE}, seconds=PATIENCE)
    site.wait(used, [State.AVAILABLE, State.HELD], seconds=PATIENCE)
    return [_stretches(site, d, visible, seen[d.serial], last[d.serial]) for d in used]


def _stretches(
    site: Site, drive: RackDrive, visible: float, rows: int, last: int
) -> Mapping[str, float]:
    record = site.slot(drive)
    if record.state is not State.AVAILABLE:
        raise LabError(f"expected {record.slot} to come back, it is held: {record.reason}")
    at = {row.event: row.at.timestamp() for row in site.history(drive)[rows:] if row.event}
    # Those of the case: its host looks at the drive once more when the ticket comes.
    certified = at[Event.CERTIFIED]
    new = (c for c in drive.commands() if c.seq > last and c.is_admin)
    commands = [c for c in new if c.wall <= certified]
    began, ended = commands[0].wall, commands[-1].wall
    found: dict[str, float] = {}
    before = visible
    for event, name in _STAGES:
        found[name] = at[event] - before
        before = at[event]
    return found | {
        "order sent to first command": began - before,
        TO_COMMAND: began - visible,
        "drive at work": ended - began,
        "last command to certified": certified - ended,
        "certified to returned": at[Event.RETURNED] - certified,
        TO_POOL: at[Event.RETURNED] - ended,
    }


def check_offered(site: Site, drives: Sequence[RackDrive]) -> None:
    """Placement itself offers the drives: "returned" is not only our own word."""
    placement = PlacementHttp(site.placement.url)
    for drive in drives:
        path = f"/resource_providers/{site.slot(drive).provider}"
        stock = placement("GET", f"{path}/inventories", "1.26").body["inventories"]
        held = placement("GET", f"{path}/allocations", "1.26").body["allocations"]
        if held or any(record["reserved"] for record in stock.values()):
            raise LabError(f"expected {Slot(drive.host, drive.address)} on offer: {stock} {held}")


def wait_known(site: Site, drives: Sequence[RackDrive]) -> None:
    """Until the host's hello has named every drive."""

    def known() -> bool:
        host = site.store.host(drives[0].host)
        if host is None or host.hello is None:
            return False
        return {d.address for d in host.hello.drives if d.identity} >= {d.address for d in drives}

    wait_until(known, "the host's hello", PATIENCE, every=0.1)
