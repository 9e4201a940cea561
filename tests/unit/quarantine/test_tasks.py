"""What the worker does with messages that fail, and the contract with the hosts' workers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from eraser.wire import messaging
from quarantine import tasks
from quarantine.errors import BadInputError, ConflictError, RefusedError, UnavailableError


class AgainError(Exception):
    """Celery's Retry, without Celery."""


class FakeInbox:
    """Raises what it is told to, or notes what it was given."""

    def __init__(self, error: Exception | None = None, wait: float = 0.0) -> None:
        self.error = error
        self.wait = wait
        self.heard: list[Any] = []

    def _take(self, *given: Any) -> float:
        self.heard.append(given)
        if self.error is not None:
            raise self.error
        return self.wait

    report = progress = hello = receipt = bell = bell_server = _take


class FakeTask:
    """A bound task that can ask for another try."""

    name = "quarantine.task"

    def retry(self, countdown: float) -> AgainError:
        assert countdown > 0
        return AgainError()


class FakeApp:
    """Keeps the functions that are registered."""

    def __init__(self) -> None:
        self.functions: dict[str, Callable[..., None]] = {}

    def task(self, *, name: str, **options: Any) -> Callable[[Callable[..., None]], None]:
        assert options.get("max_retries", 1) is None, "a message is never given up"

        def keep(function: Callable[..., None]) -> None:
            function_name = name.rpartition(".")[2]
            self.functions[function_name] = function

        return keep


def deliver(
    name: str, payload: Any, error: Exception | None = None, wait: float = 0.0
) -> FakeInbox:
    app, inbox = FakeApp(), FakeInbox(error, wait)
    tasks.register(app, inbox)  # type: ignore[arg-type]
    app.functions[name](FakeTask(), payload)
    return inbox


@pytest.mark.parametrize("name", ["report", "ticket_receipt"])
@pytest.mark.parametrize("error", [ConflictError("busy"), UnavailableError("away")])
def test_a_report_that_met_a_busy_record_comes_again(name: str, error: Exception) -> None:
    with pytest.raises(AgainError):
        deliver(name, "token", error)


@pytest.mark.parametrize("name", ["progress", "hello", "bell"])
def test_what_is_said_again_anyway_is_dropped(name: str) -> None:
    payload = {"host": "cmp1"} if name == "bell" else "token"
    assert deliver(name, payload, UnavailableError("away")).heard


@pytest.mark.parametrize("name", ["report", "progress", "hello", "ticket_receipt"])
@pytest.mark.parametrize("error", [RefusedError("no"), BadInputError("no")])
def test_a_refused_message_is_finished(name: str, error: Exception) -> None:
    assert deliver(name, "token", error).heard == [("token",)]


def test_a_bell_is_heard_whatever_it_says() -> None:
    assert deliver("bell", {"host": "cmp1", "address": "0000:01:00.0"}).heard == [
        ("cmp1", "0000:01:00.0")
    ]
    assert deliver("bell", {"host": "cmp1", "address": 7}).heard == [("cmp1", None)]
    assert deliver("bell", {"server": "a-uuid"}).heard == [("a-uuid",)]
    assert deliver("bell", {"server": "a-uuid", "host": "h"}).heard == [("h", None), ("a-uuid",)]
    for nonsense in (None, "cmp1", {}, {"host": 1}, []):
        assert deliver("bell", nonsense).heard == []


@pytest.mark.parametrize("hint", [{"host": "cmp1"}, {"server": "a-uuid"}])
def test_a_bell_in_a_row_comes_again_for_all_of_them(hint: dict[str, str]) -> None:
    with pytest.raises(AgainError):
        deliver("bell", hint, wait=0.7)


def test_settings_lose_no_message_and_share_no_keys() -> None:
    ours = messaging.settings("redis://x", messaging.CONTROL_QUEUE)
    theirs = messaging.settings("redis://x", messaging.host_queue("cmp1"))
    for settings in (ours, theirs):
        assert settings["task_acks_late"] is True
        assert settings["task_reject_on_worker_lost"] is True
        assert settings["worker_prefetch_multiplier"] == 1
        assert settings["accept_content"] == ["json"]
        assert settings["worker_enable_remote_control"] is False
        assert settings["worker_cancel_long_running_tasks_on_connection_loss"] is False
    mine = ours["broker_transport_options"]
    other = theirs["broker_transport_options"]
    for key in ("unacked_key", "unacked_index_key", "unacked_mutex_key"):
        assert mine[key] != other[key]
    assert mine["visibility_timeout"] == other["visibility_timeout"]
