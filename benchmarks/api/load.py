"""Clients at once, each with a connection of its own."""

from __future__ import annotations

import contextlib
import http.client
import itertools
import json
import statistics
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

CHUNK = 1 << 20


@dataclass
class Asked:
    """Requests of one kind. Times are seconds."""

    times: list[float] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    longest: int = 0
    """Bytes of the longest answer."""

    def quantile(self, share: float) -> float:
        """Of the times."""
        ordered = sorted(self.times)
        return ordered[min(int(share * len(ordered)), len(ordered) - 1)]

    @property
    def median(self) -> float:
        """Of the times."""
        return statistics.median(self.times)


def ask(
    port: int,
    paths: Sequence[str],
    *,
    clients: int,
    requests: int,
    seconds: float,
    headers: Mapping[str, str],
) -> Asked:
    """``requests`` in all, but no new one after ``seconds``; each path in its turn."""
    asked, lock, turns = Asked(), threading.Lock(), itertools.count()
    end = time.monotonic() + seconds

    def client() -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        try:
            while (turn := next(turns)) < requests and time.monotonic() < end:
                path = paths[turn % len(paths)]
                begun = time.monotonic()
                try:
                    connection.request("GET", path, headers=dict(headers))
                    answer = connection.getresponse()
                    size, problem = 0, "" if answer.status == 200 else f"{path}: {answer.status}"
                    while part := answer.read(CHUNK):
                        size += len(part)
                except (OSError, http.client.HTTPException) as error:
                    connection.close()
                    size, problem = 0, f"{path}: {type(error).__name__} {error}"
                with lock:
                    asked.times.append(time.monotonic() - begun)
                    asked.longest = max(asked.longest, size)
                    if problem:
                        asked.problems.append(problem)
        finally:
            connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return asked


@dataclass(frozen=True)
class Act:
    """What is asked for of one thing, and the path of what it is decided about."""

    method: str
    path: str
    looked_at: str
    body: Mapping[str, object]


def act(
    port: int,
    things: Sequence[Iterator[Act]],
    *,
    requests: int,
    seconds: float,
    headers: Mapping[str, str],
) -> Asked:
    """A client for each thing does its acts, each by the version that it has just seen: as people
    do. Only the acts are timed; ends as :func:`ask` does."""
    asked, lock, turns = Asked(), threading.Lock(), itertools.count()
    end = time.monotonic() + seconds

    def client(acts: Iterator[Act]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=600)
        with contextlib.closing(connection):
            while next(turns) < requests and time.monotonic() < end:
                one = next(acts)
                begun, text, problem = time.monotonic(), b"", ""
                try:
                    connection.request("GET", one.looked_at, headers=dict(headers))
                    seen = connection.getresponse()
                    seen.read()
                    tag = seen.headers.get("ETag")
                    named = {"If-Match": tag} if tag else {"If-None-Match": "*"}
                    said = {**headers, **named, "Content-Type": "application/json"}
                    begun = time.monotonic()
                    connection.request(one.method, one.path, json.dumps(one.body), said)
                    answer = connection.getresponse()
                    text = answer.read()
                    if answer.status not in (200, 201):
                        problem = f"{answer.status} {text!r}"
                except (OSError, http.client.HTTPException) as error:
                    # A client that ended here would take its acts out of the figures, unsaid.
                    connection.close()
                    problem = f"{type(error).__name__} {error}"
                with lock:
                    asked.times.append(time.monotonic() - begun)
                    asked.longest = max(asked.longest, len(text))
                    if problem:
                        asked.problems.append(f"{one.method} {one.path}: {problem}")

    threads = [threading.Thread(target=client, args=(acts,)) for acts in things]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return asked
