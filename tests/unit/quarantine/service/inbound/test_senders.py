"""A message counts as the word of whoever's list it lay in, whatever name it has in it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.report import HELLO_TYPE, PROGRESS_TYPE, REPORT_TYPE, Hello, Step
from eraser.protocol.ticket import RECEIPT_TYPE, TicketState
from eraser.protocol.transport.signing import PrivateKey
from quarantine.record.words.states import State
from quarantine.service.inbound.intake import REST, URGENT, Lane
from tests.unit.quarantine.service.inbound.plane import (
    INCARNATION,
    Plane,
    certified,
    plane,
    receipt_of,
)
from tests.unit.quarantine.service.inbound.test_intake import FakeLists
from tests.unit.quarantine.testimony import SLOT

__all__ = ["plane"]

ROOTED = "cmp2"


def take(plane: Plane, lists: FakeLists) -> None:
    lane = Lane((*URGENT, *REST), plane.inbox, lists, plane.store.host_names)
    while lane.turn():
        pass


def test_a_rooted_host_says_nothing_in_the_name_of_another_one(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    """Else its forgeries are alarms about the other host, and use up the refusals that are kept of
    it: the ones that it has itself would be heard by nobody."""
    lists, forger = FakeLists(), PrivateKey.generate()
    ticket = certified(plane)
    progress = plane.progress(1, Step.ERASE)
    for number in range(8):
        hello = Hello(SLOT.host, INCARNATION, number + 1, "0.1.0", (), ())
        for kind, message, typ in (
            (MessageKind.REPORT, plane.answer(reasons=(str(number),)), REPORT_TYPE),
            (MessageKind.RECEIPT, receipt_of(ticket, TicketState.VOID, str(number)), RECEIPT_TYPE),
            (MessageKind.HELLO, hello, HELLO_TYPE),
            (MessageKind.PROGRESS, replace(progress, sequence=number + 1), PROGRESS_TYPE),
        ):
            lists.push(kind, ROOTED, plane.signed(message, typ, forger))
            take(plane, lists)
    assert plane.store.refusals(host=SLOT.host) == []
    assert {one.kind for one in plane.store.refusals(host=ROOTED)} == {
        *("report", "receipt", "hello", "progress")
    }
    assert f"ALARM message-refused host {SLOT.host}" not in caplog.text
    assert f"ALARM message-refused host {ROOTED}" in caplog.text
    assert lists.lists[key(MessageKind.REPORT, ROOTED)] == []
    assert plane.record().state is State.CERTIFIED


def test_what_is_no_message_at_all_is_of_whoever_sent_it(
    plane: Plane, caplog: pytest.LogCaptureFixture
) -> None:
    lists = FakeLists()
    lists.push(MessageKind.REPORT, ROOTED, "{}")
    take(plane, lists)
    assert [one.host for one in plane.store.refusals()] == [ROOTED]
    assert f"ALARM message-refused host {ROOTED}" in caplog.text


def test_a_hello_that_another_host_repeats_is_no_word_of_the_first_one(plane: Plane) -> None:
    """Whoever got hold of it: the host that said it counts as alive by its own word alone."""
    lists = FakeLists()
    token = plane.signed(Hello(SLOT.host, INCARNATION, 1, "0.1.0", (), ()), HELLO_TYPE)
    lists.push(MessageKind.HELLO, ROOTED, token)
    take(plane, lists)
    host = plane.store.host(SLOT.host)
    assert host is not None
    assert host.heard_at is None
    lists.push(MessageKind.HELLO, SLOT.host, token)
    take(plane, lists)
    host = plane.store.host(SLOT.host)
    assert host is not None
    assert host.heard_at is not None
