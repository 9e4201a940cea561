"""What the drive was sent in a case, against what a ticket allows for as the case's own.

The lab's drive counts as the standard has it, Write Zeroes too. Where the case came to write more
than these figures, an honest drive that counts late would be refused.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from eraser.media.iocommand import WRITE_ZEROES
from eraser.protocol.conclusions import ownwrites
from eraser.protocol.policy import Policy, Verification
from eraser.protocol.report import EraseReport
from eraser.protocol.ticket import units_of
from tests.lab.nvme.counters import Counter
from tests.lab.nvme.presetkind import NO_SANITIZE
from tests.lab.nvme.profile import DriveProfile, NamespaceProfile
from tests.unit.case.bed import POLICY, Bed, mortal
from tests.unit.case.fakes import DRIVE, Crash

SOME = dataclasses.replace(
    POLICY,
    allow_clear=True,
    verification=Verification(residual=0.05, canaries=200, visit=50, settle=0, reread=0),
)
PLAIN = dataclasses.replace(DRIVE, size=8 << 20)
MANAGED = dataclasses.replace(
    PLAIN, namespace_management=True, namespaces=(NamespaceProfile(1, 0.5),)
)
KINDS: dict[str, tuple[DriveProfile, Policy]] = {
    "two methods": (PLAIN, SOME),
    "sectors of 4 KiB": (
        dataclasses.replace(PLAIN, namespaces=(NamespaceProfile(lba_format=1),)),
        SOME,
    ),
    "one method, twice": (
        PLAIN,
        dataclasses.replace(SOME, purge_methods=SOME.purge_methods[:1]),
    ),
    "Format": (dataclasses.replace(PLAIN, sanitize=NO_SANITIZE), SOME),
    "Format, and capacity in no namespace": (
        dataclasses.replace(MANAGED, sanitize=NO_SANITIZE),
        SOME,
    ),
    "capacity in no namespace": (MANAGED, SOME),
    "more places than canaries": (
        PLAIN,
        dataclasses.replace(
            SOME, verification=dataclasses.replace(SOME.verification, canaries=40, visit=100)
        ),
    ),
}
Make = Callable[[DriveProfile, Policy], Bed]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    made: list[Bed] = []

    def one(kind: DriveProfile, policy: Policy) -> Bed:
        made.append(Bed(tmp_path, kind, policy))
        mortal(monkeypatch, made[-1])
        return made[-1]

    yield one
    for each in made:
        each.close()


def written(bed: Bed) -> tuple[int, int]:
    """Commands and sectors of 512 bytes that the drive has counted."""
    counters = bed.drive.counters
    return counters[Counter.HOST_WRITES], counters[Counter.SECTORS_WRITTEN]


def since(bed: Bed, before: tuple[int, int], report: EraseReport) -> tuple[int, int]:
    """Commands of the case, and as many as its ticket allows for; its data units fit as well."""
    assert (report.fit, report.reasons) == (True, ())
    commands, sectors = (now - then for now, then in zip(written(bed), before, strict=True))
    most = ownwrites.at_most(bed.policy.verification, report)
    assert -(-sectors // 1000) < units_of(most)
    return commands, most


@pytest.mark.parametrize("name", KINDS)
def test_a_case_writes_no_more_than_the_figure_and_little_less(make: Make, name: str) -> None:
    bed = make(*KINDS[name])
    before = written(bed)
    commands, most = since(bed, before, bed.run())
    # Without what is kept for layouts that no report tells of.
    assert 0.95 * most * 16 / 17 <= commands <= most * 16 / 17


@pytest.mark.parametrize("entry", ["Planted", "Visited"])
def test_a_run_that_died_is_allowed_for(make: Make, entry: str) -> None:
    bed = make(PLAIN, SOME)
    before = written(bed)
    bed.crash_after(entry)
    commands, most = since(bed, before, bed.run())
    assert commands <= most


def test_a_visit_that_was_cut_off_is_allowed_for(make: Make) -> None:
    """It stands in no journal, and all of it is done once more."""
    bed = make(PLAIN, SOME)
    before, sent = written(bed), 0
    kernel_send = bed.kernel.send

    def send(opcode: int, **words: Any) -> Any:
        nonlocal sent
        sent += bool(words.get("io")) and opcode == WRITE_ZEROES
        # Nearly at the end of the second round.
        if sent == 90:
            sent += 1
            bed.plug.dead = True
            raise Crash
        return kernel_send(opcode, **words)

    bed.kernel.send = send  # type: ignore[method-assign]
    with pytest.raises(Crash):
        bed.run()
    commands, most = since(bed, before, bed.run())
    assert sent > 150
    assert commands <= most


@pytest.mark.parametrize("name", [name for name in KINDS if "capacity" in name])
def test_a_layout_that_was_restored_is_allowed_for(make: Make, name: str) -> None:
    """Canaries stood in all that the tenant left in no namespace, and then in the profile's."""
    bed = make(*KINDS[name])
    assert bed.bench.admin(0x0D, nsid=1, cdw10=1).status == 0
    bed.kernel.scan()
    before = written(bed)
    commands, most = since(bed, before, bed.run())
    assert "namespace_management" in bed.names()
    assert commands <= most


def test_no_hosts_word_of_its_interruptions_widens_the_figure_for_ever(make: Make) -> None:
    """The control plane computes it from a report that the host signed."""
    bed = make(PLAIN, SOME)
    report = bed.run()
    asked = bed.policy.verification

    def told(times: int) -> int:
        methods = tuple(dataclasses.replace(each, attempts=times) for each in report.methods)
        changed = dataclasses.replace(report, resumed=times, methods=methods)
        return ownwrites.at_most(asked, changed)

    assert told(1) < told(8) < told(10**6)
    assert told(100) == told(10**6) < 20 * ownwrites.at_most(asked, report)
