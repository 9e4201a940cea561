"""A hello that says nothing new of slots that nothing happened to is not compared again."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.wire.report import Hello, SeenDrive
from quarantine.samehellos import FULL_SECONDS, SameHellos
from tests.unit.quarantine.testimony import IDENTITY, RECORD, SLOT

DRIVE = SeenDrive(SLOT.address, "nvme", IDENTITY)
HELLO = Hello(SLOT.host, "incarnation-00001", 7, "0.1.0", (DRIVE,), ())


class Clock:
    """Seconds that a test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def hellos(clock: Clock) -> SameHellos:
    """One was compared."""
    made = SameHellos(clock)
    assert not made.same(HELLO, [RECORD])
    made.compared(HELLO, [RECORD])
    return made


def test_the_next_one_says_the_same(hellos: SameHellos) -> None:
    assert hellos.same(replace(HELLO, sequence=8), [RECORD])


@pytest.mark.parametrize(
    "hello",
    [
        replace(HELLO, host="cmp2"),
        replace(HELLO, drives=()),
        replace(HELLO, drives=(replace(DRIVE, identity=None),)),
        replace(HELLO, drives=(replace(DRIVE, system=True),)),
        replace(HELLO, cases=("order-0000000001",)),
    ],
)
def test_what_is_new_is_compared(hellos: SameHellos, hello: Hello) -> None:
    assert not hellos.same(hello, [RECORD])


def test_a_slot_that_somebody_wrote_to_is_compared(hellos: SameHellos) -> None:
    assert not hellos.same(HELLO, [replace(RECORD, revision=RECORD.revision + 1)])
    assert not hellos.same(HELLO, [RECORD, replace(RECORD, id=RECORD.id + 1)])
    assert not hellos.same(HELLO, [])


def test_now_and_then_all_are(hellos: SameHellos, clock: Clock) -> None:
    clock.now = FULL_SECONDS
    assert not hellos.same(HELLO, [RECORD])
