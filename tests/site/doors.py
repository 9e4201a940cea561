"""A site's own time, chance and threads, as the control plane's doors have them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable
from typing import Any

from quarantine.doors import Doors
from tests.site.world import Killed, Process, World


def of(world: World, purpose: str) -> Doors:
    """Doors into ``world`` with a source of chance of their own; two with one ``purpose`` would
    draw the same."""
    chance = world.chance(purpose)
    return Doors(
        monotonic=world.monotonic,
        now=world.wall,
        uuid=lambda: str(uuid.UUID(int=chance.getrandbits(128), version=4)),
        token=lambda size: f"{chance.getrandbits(size * 8):0{size * 2}x}",
    )


class Event:
    """``threading.Event``."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._set = False
        self._waiting: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        self._set = True
        waiting, self._waiting = self._waiting, []
        for wake in waiting:
            wake()

    def clear(self) -> None:
        self._set = False

    def wait(self, timeout: float | None = None) -> bool:
        process = self._world.current
        if not self._set and process is not None:
            self._waiting.append(process.wait(timeout))
            process.pause()
        return self._set


class Thread:
    """``threading.Thread``: a process that dies with the one that started it."""

    def __init__(
        self,
        world: World,
        target: Callable[..., object],
        name: str = "thread",
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
        daemon: bool | None = None,
    ) -> None:
        self._world = world
        self.name = name
        self.daemon = daemon
        self._run = lambda: target(*args, **(kwargs or {}))
        self._process: Process | None = None

    def start(self) -> None:
        world = self._world
        parent = world.current

        def run() -> None:
            with contextlib.suppress(Killed):
                self._run()

        self._process = world.spawn(self.name, run)
        if parent is not None:
            parent.children.append(self._process)
            self._process.parent = parent

    def is_alive(self) -> bool:
        return self._process is not None and self._process.alive

    def join(self, timeout: float | None = None) -> None:
        waited = 0.0
        while self.is_alive() and (timeout is None or waited < timeout):
            self._world.sleep(0.05)
            waited += 0.05
