"""Clients at once, each with a connection of its own."""

from __future__ import annotations

import http.client
import itertools
import statistics
import threading
import time
from collections.abc import Mapping, Sequence
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
