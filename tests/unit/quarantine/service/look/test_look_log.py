"""What a look writes into the log: each thing that it does, and nothing again while it waits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NoReturn

import pytest

from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.facts import SWEEP
from quarantine.rules.action import ServiceLimits
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.smallcloud import (
    Clock,
    Cloud,
    NoTickets,
    NotingDispatcher,
    enrolled,
    greet,
    open_store,
    slot_at,
)

HOST = "cmp9"


def test_an_order_that_waits_for_its_host_is_told_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    clock = Clock()
    posted: list[Any] = []
    with open_store(tmp_path, clock) as store:
        cloud = Cloud(clock)
        slot = slot_at(1, HOST)
        enrolled(store, cloud, slot)
        loop = Reconciler(
            store,
            cloud,
            Dispatcher(
                store,
                PrivateKey.generate(),
                lambda *sent: posted.append(sent),
                clock=clock,
            ),
            ServiceLimits(),
            clock,
            tickets=NoTickets(),
            monotonic=clock.monotonic,
        )

        def looked(times: int) -> list[str]:
            caplog.clear()
            for _ in range(times):
                loop.look(slot)
                clock.forward(1)
            return [record.getMessage() for record in caplog.records]

        assert any("waiting for host" in line for line in looked(3))
        assert looked(5) == []
        greet(store, HOST)
        assert any("waiting for profile" in line for line in looked(3))
        assert looked(5) == []
        assert "order erase" not in caplog.text
    assert posted == []


def made(store: Store, cloud: Cloud, clock: Clock) -> Reconciler:
    """A loop that tells only of what it does itself."""
    return Reconciler(
        store,
        cloud,
        NotingDispatcher(store, clock),
        ServiceLimits(),
        clock,
        tickets=NoTickets(),
        monotonic=clock.monotonic,
    )


def test_people_hear_once_of_a_drive_that_placement_fails_to_reserve(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It reads and does not write, for hours: each look tries again."""

    def away(*_view: object, **_words: object) -> int:
        raise UnavailableError("Placement answered 503")

    clock = Clock()
    with open_store(tmp_path, clock) as store:
        cloud, slot = Cloud(clock), slot_at(1)
        enrolled(store, cloud, slot)
        loop = made(store, cloud, clock)
        for times in (1, 2):
            cloud.burn(slot, reserved=False)
            with monkeypatch.context() as patched:
                patched.setattr(cloud, "put_reserved", away)
                for _ in range(5):
                    with pytest.raises(UnavailableError):
                        loop.look(slot)
                    assert caplog.text.count("ALARM ") == times
            loop.look(slot)
            assert not cloud.on_offer(slot)
            assert caplog.text.count("ALARM ") == times, "what comes later is news again"


def test_what_stands_on_a_record_is_called_for_again_once_it_stands_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call about a slot that says nothing of it is written as one that is over."""

    def away(*_record: object, **_words: object) -> NoReturn:
        raise UnavailableError("the record does not answer")

    clock = Clock()
    with open_store(tmp_path, clock) as store:
        cloud, slot = Cloud(clock), slot_at(1)
        enrolled(store, cloud, slot)
        loop = made(store, cloud, clock)
        loop.look(slot)
        clock.forward(ServiceLimits().overdue_after + 1)
        store.note_pass(SWEEP, 270.0)  # the service went on meanwhile
        with monkeypatch.context() as patched:
            patched.setattr(store, "amend", away)
            for _ in range(3):
                with pytest.raises(UnavailableError):
                    loop.look(slot)
        assert caplog.text.count("ALARM overdue") == 1
        after = loop.look(slot)
        assert after is not None
        assert after.alarm
        assert caplog.text.count("ALARM overdue") == 2
