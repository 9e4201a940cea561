"""A hello that says nothing new of slots that nothing happened to is not compared again."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta

import pytest

from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record.words.facts import HostRecord
from quarantine.service.inbound.repeated_hellos import FULL_SECONDS, SameHellos
from tests.unit.quarantine.testimony import IDENTITY, RECORD, SLOT

DRIVE = SeenDrive(SLOT.address, "nvme", IDENTITY)
HELLO = Hello(SLOT.host, "incarnation-00001", 7, "0.1.0", (DRIVE,), ())
HEARD = RECORD.entered_at + timedelta(minutes=2)
HOST = HostRecord(
    SLOT.host, PrivateKey.generate().public, HELLO.incarnation, 7, HELLO, HEARD, HEARD
)


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


def test_what_nothing_followed_from_is_known_again(hellos: SameHellos, clock: Clock) -> None:
    assert hellos.again(HELLO) is None
    hellos.quiet(HOST, HELLO, [RECORD])
    for sequence in (8, 9):
        known = hellos.again(replace(HELLO, sequence=sequence))
        assert known is not None
        assert known.hello.sequence == sequence - 1
        assert (known.key, known.slots) == (HOST.key, ((RECORD.id, RECORD.revision),))
        hellos.heard(known, replace(HELLO, sequence=sequence))
    assert hellos.again(replace(HELLO, version="0.2.0")) is None
    assert hellos.again(replace(HELLO, incarnation="incarnation-00002")) is None
    assert hellos.again(replace(HELLO, host="cmp2")) is None
    clock.now = FULL_SECONDS
    assert hellos.again(replace(HELLO, sequence=10)) is None


def test_what_counts_differently_in_a_minute_is_not_known(hellos: SameHellos) -> None:
    hellos.quiet(HOST, HELLO, [RECORD])
    soon = replace(HOST, heard_at=RECORD.entered_at + timedelta(seconds=60))
    hellos.quiet(soon, HELLO, [RECORD])
    assert hellos.again(HELLO) is None


def test_what_was_not_compared_is_not_known(hellos: SameHellos) -> None:
    hellos.quiet(HOST, HELLO, [replace(RECORD, revision=RECORD.revision + 1)])
    assert hellos.again(HELLO) is None
    naming = replace(HELLO, cases=("order-0000000001",))
    hellos.quiet(HOST, naming, [RECORD])
    assert hellos.again(naming) is None
