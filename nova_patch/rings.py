"""Rings the host's bell as soon as nova-compute has let go of drives in Placement.

Whoever erases them learns of it at once, and not when it next looks. A bell is a hint: one that is
lost costs the time until that look. So Nova never waits for one (a datagram that nobody takes is
gone), and whatever fails here is said once and stays here.

An allocation goes in three ways, all through the report client: deleted (server deleted, shelved;
migration confirmed), taken off one host's providers (evacuated host back), overwritten by the one
of the migration (reverted). The last is done by the host where the server came from; the host that
it leaves dropped its claim before that, asks Placement from then on, and rings when it is done.
"""

from __future__ import annotations

import functools
import inspect
import re
import socket
import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from nova.compute import resource_tracker
from nova.scheduler.client import report

from .born_reserved import ONE_TIME_USE
from .replacements import Replacement, unbroken
from .said import LOG, once

BELL = "/run/nvme-quarantine/bell.sock"
"""As ``eraser.bell`` makes it, and ``run_dir`` of nvme-eraser says."""

LOOK = 0.1
"""Seconds between two questions to Placement whether another host has removed an allocation, or a
tenth of the time that it has taken so far. Bells on suspicion would not do: whoever hears one too
early hears the next a second later (``eraser.bell.PAUSE``)."""

WAITER = "nvme-quarantine-bell"
"""The name of the thread that asks."""

PATIENCE = 300.0
"""Seconds after which nobody asks any more, some 70 questions; the regular look finds the rest."""

_AT_ONCE = 32
"""Addresses in one datagram, which ``eraser.bell`` takes up to 1024 bytes of."""

_ADDRESS = re.compile(r"[0-9a-f]{4}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]")

_held: dict[str, frozenset[str]] = {}
"""The providers of each consumer, as nova-compute last read them from Placement. It reads them at
the end of every server, just before it removes its allocation."""

_names: dict[str, str] = {}
"""Providers that Nova asked for by name before it has drawn its tree: at a start."""


def ring(addresses: Iterable[str]) -> None:
    """Rings for some slots. Raises ``OSError`` where nobody listens, or its queue is full."""
    wanted = sorted(addresses)
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.setblocking(False)
        for first in range(0, len(wanted), _AT_ONCE):
            bell.sendto(" ".join(wanted[first : first + _AT_ONCE]).encode(), BELL)


def _quietly(step: Callable[..., None], *args: Any) -> None:
    """Nothing that happens here is Nova's trouble."""
    try:
        step(*args)
    except Exception as error:
        once("a drive was let go and nobody heard the bell: %s: %s", type(error).__name__, error)


def _values(original: Callable[..., Any], args: Any, kwargs: Any) -> tuple[Any, ...]:
    """What Nova gave, in the order in which its function names it: callers may use names."""
    return tuple(inspect.signature(original).bind(*args, **kwargs).arguments.values())


def _ring_for(client: Any, providers: Iterable[str]) -> None:
    addresses = {found for uuid in providers if (found := _address(client, uuid))}
    if addresses:
        LOG.debug("let go, ringing for %s", ", ".join(sorted(addresses)))
        ring(addresses)


def _address(client: Any, provider: str) -> str | None:
    """Of a one-time-use device of this host; nova-compute calls its provider HOST_ADDRESS."""
    try:
        data = client._provider_tree.data(provider)
    except ValueError:
        name = _names.get(provider, "")
    else:
        name = "" if ONE_TIME_USE.isdisjoint(data.traits) else data.name
    address = name.rpartition("_")[2].lower()
    return address if _ADDRESS.fullmatch(address) else None


# What Nova reads


def _remember(consumer: str, answer: Any) -> None:
    _held[consumer] = frozenset(answer["allocations"])


def _remember_all(answer: Any) -> None:
    found = {consumer: frozenset(has["allocations"]) for consumer, has in answer.items()}
    for gone in set(_held) - set(found):
        _held.pop(gone, None)
    _held.update(found)


def _remember_names(answer: Any) -> None:
    _names.update({row["uuid"]: row["name"] for row in answer})


def _wrap_get_consumer(original: Callable[..., Any]) -> Callable[..., Any]:
    """``get_allocs_for_consumer`` that remembers. Nova changes the answer later: we copy."""

    @functools.wraps(original)
    def get_allocs_for_consumer(*args: Any, **kwargs: Any) -> Any:
        answer = original(*args, **kwargs)
        # The third, after the client itself and the context.
        _quietly(lambda: _remember(_values(original, args, kwargs)[2], answer))
        return answer

    return get_allocs_for_consumer


def _wrap_get_tree(original: Callable[..., Any]) -> Callable[..., Any]:
    """``get_allocations_for_provider_tree`` that remembers, and forgets who is gone."""

    @functools.wraps(original)
    def get_allocations_for_provider_tree(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        _quietly(_remember_all, answer)
        return answer

    return get_allocations_for_provider_tree


def _wrap_get_names(original: Callable[..., Any]) -> Callable[..., Any]:
    """``get_providers_in_tree`` that remembers names."""

    @functools.wraps(original)
    def get_providers_in_tree(self: Any, *args: Any, **kwargs: Any) -> Any:
        answer = original(self, *args, **kwargs)
        _quietly(_remember_names, answer)
        return answer

    return get_providers_in_tree


# What Nova removes


def _gone(client: Any, consumer: str) -> None:
    known = _held.pop(consumer, None)
    if known is None:
        # A migration since Nova last looked: it has what its server had, or another one.
        known = frozenset().union(*_held.values())
    _ring_for(client, known)


def _moved(client: Any, source: str, target: str) -> None:
    kept = _held.pop(source, frozenset())
    if kept:
        lost = _held.get(target, frozenset()) - kept
        _held[target] = kept
        _ring_for(client, lost)


def _wrap_remove(original: Callable[..., Any]) -> Callable[..., Any]:
    """``delete_allocation_for_instance`` and ``remove_provider_tree_from_instance_allocation``:
    each takes the consumer and answers whether it removed something."""

    def after(client: Any, _context: Any, consumer: str, *_: Any) -> None:
        _gone(client, consumer)

    @functools.wraps(original)
    def remove(*args: Any, **kwargs: Any) -> Any:
        done = original(*args, **kwargs)
        if done:
            _quietly(lambda: after(*_values(original, args, kwargs)))
        return done

    return remove


def _wrap_move(original: Callable[..., Any]) -> Callable[..., Any]:
    """``move_allocations``: what the target had is let go."""

    def after(client: Any, _context: Any, source: str, target: str, *_: Any) -> None:
        _moved(client, source, target)

    @functools.wraps(original)
    def move_allocations(*args: Any, **kwargs: Any) -> Any:
        done = original(*args, **kwargs)
        if done:
            _quietly(lambda: after(*_values(original, args, kwargs)))
        return done

    return move_allocations


def _wrap_drop(original: Callable[..., Any]) -> Callable[..., Any]:
    """``ResourceTracker.drop_move_claim_at_dest``: another host removes the allocation soon."""

    def after(tracker: Any, context: Any, instance: Any, *_: Any) -> None:
        _wait_for_another(tracker.reportclient, context, instance.uuid)

    @functools.wraps(original)
    def drop_move_claim_at_dest(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        _quietly(lambda: after(*_values(original, args, kwargs)))
        return result

    return drop_move_claim_at_dest


def _wait_for_another(client: Any, context: Any, consumer: str) -> None:
    """Rings, from a thread, as soon as Placement shows the drives with that consumer no more."""
    held = frozenset(each for each in _held.get(consumer, ()) if _address(client, each))
    if not held:
        return

    def wait() -> None:
        left, began = held, time.monotonic()
        while left and (taken := time.monotonic() - began) < PATIENCE:
            time.sleep(max(LOOK, taken / 10))
            try:
                has = client.get_allocs_for_consumer(context, consumer)["allocations"]
            except Exception as error:
                # Placement or Keystone may be away for a moment: the next try may be answered.
                LOG.debug("asked for the allocations of %s: %s", consumer, error)
                continue
            _ring_for(client, left.difference(has))
            left = left.intersection(has)

    # A daemon: nova-compute's end does not wait for a hint.
    threading.Thread(target=_quietly, args=(wait,), name=WAITER, daemon=True).start()


def replacements() -> list[Replacement]:
    """What every release needs. Raises ``PatchError`` where another patch was first."""
    client = report.SchedulerReportClient
    wraps: list[tuple[Any, str, Callable[..., Any]]] = [
        (client, "get_allocs_for_consumer", _wrap_get_consumer),
        (client, "get_allocations_for_provider_tree", _wrap_get_tree),
        (client, "get_providers_in_tree", _wrap_get_names),
        (client, "delete_allocation_for_instance", _wrap_remove),
        (client, "remove_provider_tree_from_instance_allocation", _wrap_remove),
        (client, "move_allocations", _wrap_move),
        (resource_tracker.ResourceTracker, "drop_move_claim_at_dest", _wrap_drop),
    ]
    return [Replacement(owner, name, wrap(unbroken(owner, name))) for owner, name, wrap in wraps]
