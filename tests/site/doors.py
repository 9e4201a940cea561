"""The doors to time, threads and chance, swapped in the control plane's modules while a site runs.

The production code stays as it is: wherever one of its modules names ``time``, ``threading``,
``uuid``, ``secrets``, ``random`` or ``datetime``, it finds the simulated ones, also where it took a
clock as the default of an argument. All of it goes back at the end of :func:`swapped`.
"""

from __future__ import annotations

import contextlib
import datetime as real_datetime
import importlib
import pkgutil
import random as real_random
import secrets as real_secrets
import sys
import threading as real_threading
import time as real_time
import uuid as real_uuid
from collections.abc import Callable, Iterator
from random import Random
from types import FunctionType, SimpleNamespace
from typing import Any, Final

from eraser.protocol import codec
from tests.site.world import Killed, Process, World

PREFIXES: Final = ("quarantine", "tests.lab.services.nova_standin")
_KEPT: Final = (
    "quarantine.cli",
    "quarantine.record.engine",
    "quarantine.record.migrations",
    "quarantine.upgrade",
)
"""What serves people is not run here; an engine waits for real locks."""

_REMEMBERED: Final = 5000


class Event:
    """``threading.Event``."""

    def __init__(self, world: Callable[[], World]) -> None:
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
        process = self._world().current
        if not self._set and process is not None:
            self._waiting.append(process.wait(timeout))
            process.pause()
        return self._set


class Lock:
    """``threading.Lock`` and ``RLock``; who finds it taken looks again a moment later."""

    def __init__(self, world: Callable[[], World], *, again: bool = False) -> None:
        self._world = world
        self._again = again
        self._owner: Process | None = None
        self._depth = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me, waited = self._world().current, 0.0
        while self._depth and not (self._again and self._owner is me):
            if not blocking or me is None or 0 <= timeout <= waited:
                return False
            self._world().sleep(0.001)
            waited += 0.001
        self._owner, self._depth = me, self._depth + 1
        return True

    def release(self) -> None:
        self._depth -= 1

    def locked(self) -> bool:
        return self._depth > 0

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Thread:
    """``threading.Thread``: a process that dies with the one that started it."""

    def __init__(
        self,
        world: Callable[[], World],
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
        world = self._world()
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
            self._world().sleep(0.05)
            waited += 0.05


def _fakes(world: Callable[[], World], chance: Callable[[], Random]) -> dict[int, Any]:
    """By the identity of the real thing."""

    class Clock(real_datetime.datetime):
        @classmethod
        def now(cls, tz: real_datetime.tzinfo | None = None) -> Any:
            return world().wall().astimezone(tz)

    def moment() -> float:
        return world().monotonic()

    def token(size: int = 16) -> str:
        return f"{chance().getrandbits(size * 8):0{size * 2}x}"

    def uuid4() -> real_uuid.UUID:
        return real_uuid.UUID(int=chance().getrandbits(128), version=4)

    time = SimpleNamespace(
        monotonic=moment,
        perf_counter=moment,
        monotonic_ns=lambda: int(moment() * 1e9),
        time=lambda: world().wall().timestamp(),
        time_ns=lambda: int(world().wall().timestamp() * 1e9),
        sleep=lambda seconds: world().sleep(seconds),
    )
    threading = SimpleNamespace(
        Event=lambda: Event(world),
        Lock=lambda: Lock(world),
        RLock=lambda: Lock(world, again=True),
        Thread=lambda *args, **named: Thread(world, *args[1:], **named),
        local=SimpleNamespace,
        current_thread=lambda: world().current,
        Condition=real_threading.Condition,
    )
    random = SimpleNamespace(
        random=lambda: chance().random(),
        uniform=lambda low, high: chance().uniform(low, high),
        Random=real_random.Random,
    )
    secrets = SimpleNamespace(
        token_hex=token,
        token_bytes=lambda size=16: bytes.fromhex(token(size)),
        randbits=lambda bits: chance().getrandbits(bits),
        compare_digest=real_secrets.compare_digest,
    )
    return {
        id(real_time): time,
        id(real_time.monotonic): moment,
        id(real_time.sleep): time.sleep,
        id(real_threading): threading,
        id(real_secrets): secrets,
        id(real_random): random,
        id(real_uuid): SimpleNamespace(UUID=real_uuid.UUID, uuid4=uuid4),
        id(real_datetime.datetime): Clock,
    }


@contextlib.contextmanager
def swapped(world: World) -> Iterator[None]:
    """The control plane lives in ``world`` until the end of this."""
    chance = world.chance("ids")
    fakes = _fakes(lambda: world, lambda: chance)
    undo: list[Callable[[], None]] = []
    try:
        for reader in filter(None, (codec, _stored())):
            load = reader.load
            reader.load = _remembering(load)  # type: ignore[assignment]
            undo.append(lambda r=reader, old=load: setattr(r, "load", old))
        for module in _modules():
            for name, value in list(vars(module).items()):
                if id(value) in fakes:
                    setattr(module, name, fakes[id(value)])
                    undo.append(lambda m=module, n=name, v=value: setattr(m, n, v))
                for function in _functions(module.__name__, value):
                    old = function.__defaults__, function.__kwdefaults__
                    if _swap_defaults(function, fakes):
                        undo.append(lambda f=function, o=old: _put_back(f, o))
        yield
    finally:
        for step in reversed(undo):
            step()


def _stored() -> Any:
    """How the record reads its documents; None in a release where the codec itself does."""
    with contextlib.suppress(ImportError):
        return importlib.import_module("quarantine.record.stored")
    return None


def _remembering(load: Callable[..., Any]) -> Callable[..., Any]:
    """The same text was read before: what it says is frozen, and a third of all work is reading."""
    known: dict[tuple[Any, ...], Any] = {}

    def remembered(cls: Any, raw: Any, what: str, *args: Any, **named: Any) -> Any:
        key = (cls, raw, *args, *sorted(named.items()))
        if key not in known:
            if len(known) > _REMEMBERED:
                known.clear()
            known[key] = load(cls, raw, what, *args, **named)
        return known[key]

    return remembered


def _put_back(function: FunctionType, old: tuple[Any, Any]) -> None:
    function.__defaults__, function.__kwdefaults__ = old


def _swap_defaults(function: FunctionType, fakes: dict[int, Any]) -> bool:
    plain, named = function.__defaults__ or (), function.__kwdefaults__ or {}
    if not any(id(value) in fakes for value in (*plain, *named.values())):
        return False
    function.__defaults__ = tuple(fakes.get(id(v), v) for v in plain) or None
    function.__kwdefaults__ = {n: fakes.get(id(v), v) for n, v in named.items()} or None
    return True


def _functions(module: str, value: object) -> Iterator[FunctionType]:
    if getattr(value, "__module__", None) != module:
        return
    if isinstance(value, FunctionType):
        yield value
    elif isinstance(value, type):
        yield from (f for f in vars(value).values() if isinstance(f, FunctionType))


def _modules() -> Iterator[Any]:
    _import_all()
    for name, module in sorted(sys.modules.items()):
        ours = any(name == prefix or name.startswith(f"{prefix}.") for prefix in PREFIXES)
        if ours and module is not None and not name.startswith(_KEPT):
            yield module


def _import_all() -> None:
    """What is imported late must be swapped too."""
    import quarantine

    for found in pkgutil.walk_packages(quarantine.__path__, "quarantine."):
        if not found.name.startswith(_KEPT) and found.name not in sys.modules:
            with contextlib.suppress(ImportError):
                importlib.import_module(found.name)
