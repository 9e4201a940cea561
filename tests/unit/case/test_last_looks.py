"""Somebody who comes, or another drive that is put in, between one act of a case and the next: no
more is sent to the drive than what only reads (promises 2 and 3)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from eraser.case.entries import Entry, Inspected, MethodDone, Planted, Revoked, Sent, Verified
from eraser.protocol.policy import Limits, Policy
from tests.lab.nvme.faults import HEALTHY
from tests.lab.nvme.leftovers import NOTHING, TENANT_HOST, Leftovers
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.lab.nvme.spec import AdminOp
from tests.lab.nvme.state import Registrant, ReservationState
from tests.unit.case.bed import Bed
from tests.unit.case.test_latecomers import changed, opened
from tests.unit.case.test_resources import SHARED, TAKEN
from tests.unit.case.test_restore import (
    DETACHED,
    DRIVE,
    FORMAT_ONLY,
    PLAIN,
    POLICY,
    TWO,
    make_bed,
)
from tests.unit.case.test_temporary import MOST_OF_IT

QUICK = Limits(ready=5)
"""They stay: nobody waits for long that they go."""
LOCKED = Leftovers(reservation=1, write_protect={1: 1})
OTHERS = Leftovers(namespaces=[NamespaceProfile(2, 0.25), NamespaceProfile(3, 0.25)])
UNPROVED = replace(PLAIN, verification=replace(PLAIN.verification, canaries=0))
TWO_OF_IT = replace(FORMAT_ONLY, namespaces=TWO)
VISITED = replace(PLAIN, verification=replace(PLAIN.verification, visit=1))
VISITED_TOO = replace(POLICY, verification=replace(POLICY.verification, visit=1))


def opens(made: Bed) -> None:
    opened(made.kernel.root)


def swaps(made: Bed) -> None:
    made.drive.profile = replace(made.drive.profile, serial="ANOTHER1")


def after(kind: type[Entry]) -> Callable[[Entry], bool]:
    """As soon as the journal has an entry of this kind."""
    return lambda entry: isinstance(entry, kind)


def ended(opcode: int, ses: int = 0) -> Callable[[Entry], bool]:
    """As soon as it has the end of this command; ``ses`` is a Format's."""

    def is_it(entry: Entry) -> bool:
        if not isinstance(entry, Sent):
            return False
        return (entry.command.opcode, entry.command.cdw10 >> 9 & 7) == (opcode, ses)

    return is_it


@dataclass(frozen=True)
class Case:
    """A drive, what its last owner left, and when they come: at an entry, or before a command."""

    at: Callable[[Entry], bool] | int
    drive: DriveProfile = DRIVE
    policy: Policy = PLAIN
    left: Leftovers = NOTHING
    registered: bool = False
    """Also a host with its first namespace, whatever that is attached to."""


CASES = {
    "canaries": Case(after(Inspected)),
    "a sanitize": Case(after(Planted)),
    "a sanitize without canaries": Case(after(Inspected), policy=UNPROVED),
    "a Format": Case(after(Planted), FORMAT_ONLY),
    "a Format without canaries": Case(after(Inspected), FORMAT_ONLY, UNPROVED),
    "unlocking": Case(after(Inspected), left=LOCKED),
    "unlocking what was attached": Case(
        ended(AdminOp.NAMESPACE_ATTACHMENT), FORMAT_ONLY, left=DETACHED, registered=True
    ),
    "queues and interrupts": Case(after(Inspected), SHARED, left=TAKEN),
    "attaching": Case(after(Inspected), FORMAT_ONLY, left=DETACHED),
    "a temporary namespace": Case(after(Inspected), replace(DRIVE, namespaces=MOST_OF_IT), POLICY),
    "deleting it": Case(after(Verified), replace(DRIVE, namespaces=MOST_OF_IT), POLICY),
    "a step of the layout": Case(ended(AdminOp.NAMESPACE_MANAGEMENT), left=OTHERS),
    "the exit from a verification": Case(after(Revoked), left=Leftovers(verifying=True)),
    "detaching": Case(after(MethodDone), policy=VISITED_TOO),
    "a visit's writes": Case(AdminOp.ABORT, policy=VISITED),
    "a second Format": Case(ended(AdminOp.FORMAT_NVM, 1), TWO_OF_IT),
    "a second Format without an erase": Case(ended(AdminOp.FORMAT_NVM), TWO_OF_IT, VISITED),
}


@pytest.mark.parametrize(
    ("come", "why"),
    [(opens, "expected an unused drive"), (swaps, "expected the drive of this case")],
    ids=["opens", "swaps"],
)
@pytest.mark.parametrize("before", CASES)
def test_nothing_is_changed_once_somebody_came_or_another_drive_is_there(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    before: str,
    come: Callable[[Bed], None],
    why: str,
) -> None:
    case = CASES[before]
    made = make_bed(tmp_path, monkeypatch, case.drive)
    made.policy = replace(case.policy, limits=QUICK)
    made.leave(case.left)
    if case.registered:
        first = made.drive.state.namespaces[0]
        first.reservation = ReservationState(1, registrants=[Registrant(TENANT_HOST, 7)])
    made.drive.set_faults(replace(HEALTHY, log_io=True))
    known: list[list[str]] = []

    def here() -> None:
        if not known:
            known.append(changed(made.drive))
            come(made)

    def noted(entry: Entry) -> None:
        if callable(case.at) and case.at(entry):
            here()

    def meanwhile(opcode: int) -> None:
        if opcode == case.at:
            here()

    made.noted, made.meanwhile = noted, meanwhile
    report = made.run()
    assert known, "they came"
    assert changed(made.drive)[len(known[0]) :] == []
    assert not report.fit
    assert why in report.reasons[0]
