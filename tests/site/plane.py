"""The control plane: the real parts, put together by the real assembly, as processes of a world.

What differs from release to release of the control plane is looked for here and nowhere else: the
loop's process, the worker's, and the bound that is promised for a dirty drive on offer.
"""

from __future__ import annotations

import contextlib
import logging
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any, Final

from eraser.protocol import inbound
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.compute import Compute
from quarantine.cloud.placement import Placement as Door
from quarantine.conf import load
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import Event
from quarantine.rules.action import ServiceLimits
from quarantine.service.assembly import Assembly
from quarantine.service.inbound import intake
from quarantine.service.safety import Safety
from tests.site import doors
from tests.site.broker import Broker
from tests.site.line import Connection
from tests.site.lists import Lists
from tests.site.memory import READS, Memory, remembering
from tests.site.world import Killed, Process, World

_FOR_EVER: Final = 1e9
_MEMORY: Final = Path("/dev/shm")
_IDLE_SECONDS: Final = 5.0
Moved = Callable[[SlotRecord, Event, str], None]


@dataclass
class Marks:
    """Places in the store's own doors where the rare may be made to happen."""

    crash: int = 0
    """The process that commits next dies right after its commit; counts down."""
    crashed: Callable[[], None] = lambda: None
    """Called when that has happened: somebody starts it again."""


class SimulatedStore(Store):
    """The real store, which tells of each step, and may die after a commit."""

    marks: Marks
    moved: Moved
    world: World
    memory: Memory

    @contextlib.contextmanager
    def _writing(self) -> Iterator[Any]:
        if self.world.among_the_dead:
            raise Killed
        try:
            with super()._writing() as db:
                yield db
        finally:
            # Again: what was read in between was still without it.
            self.memory.ended()
        if self.marks.crash and self.world.current is not None:
            self.marks.crash -= 1
            self.world.say(f"{self.world.current.name} dies after a commit")
            # All of its threads with it, before time goes on.
            self.world.current.whole.doom()
            self.world.at(0.0, self.world.current.whole.kill)
            self.marks.crashed()
            raise Killed

    def transition(self, record: SlotRecord, event: Event, **named: Any) -> SlotRecord:
        after = super().transition(record, event, **named)
        self.moved(after, event, named.get("reason", ""))
        return after


for _method in READS:
    if hasattr(Store, _method):
        setattr(SimulatedStore, _method, remembering(getattr(Store, _method)))


class Post:
    """The way to the hosts' queues."""

    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self.app = None

    def __call__(self, host: str, token: str) -> None:
        self._broker.to_host(host, "eraser.order", token)

    def ticket(self, host: str, token: str) -> None:
        """A signed ticket."""
        self._broker.to_host(host, "eraser.ticket", token)


class SimulatedAssembly(Assembly):
    """One process's parts: the real assembly with other doors."""

    def __init__(self, plane: Plane) -> None:
        super().__init__(doors=plane.doors)
        self._plane = plane
        self._stores: list[Store] = []

    @cached_property
    def conf(self) -> Any:
        return self._plane.conf

    def close(self) -> None:
        """All that is open to the record: a dead process has no connections."""
        for store in self._stores:
            store.close()

    def _open_store(self) -> Store:
        plane = self._plane
        store = SimulatedStore.open(f"sqlite:///{plane.database}", clock=plane.world.wall)
        assert isinstance(store, SimulatedStore)
        store.marks, store.moved, store.world = plane.marks, plane.moved, plane.world
        store.memory = plane.memory
        plane.memory.listen(store._engine)
        self._stores.append(store)
        return store

    @cached_property
    def key(self) -> PrivateKey:
        return self._plane.key

    def _connect_placement(self) -> Door:
        return Door(self._plane.connection)

    def _connect_compute(self) -> Compute:
        return Compute(self._plane.connection)

    @cached_property
    def post(self) -> Any:
        return Post(self._plane.broker)

    @cached_property
    def lists(self) -> Any:
        return self._plane.lists

    @cached_property
    def safety(self) -> Safety:
        """The one whose bound is held against what happens."""
        self._plane.safety = super().safety
        return self._plane.safety

    @cached_property
    def inbox(self) -> Any:
        inbox = super().inbox
        # Pages are not what is tried here, and cost more than all the rest.
        inbox.registrar.directory = None
        return inbox


class _Doorbell:
    """A stop that never comes; who waits a little for messages waits until there are some."""

    def __init__(self, world: World, broker: Broker) -> None:
        self._world = world
        self._broker = broker

    def is_set(self) -> bool:
        return False

    def wait(self, seconds: float) -> bool:
        if seconds > intake.IDLE_SECONDS:
            self._world.sleep(seconds)
            return False
        self._broker.arrived.clear()
        self._broker.arrived.wait(_IDLE_SECONDS)
        return False


@dataclass
class Plane:
    """The control plane. ``start`` and ``stop`` as often as it dies."""

    world: World
    connection: Connection
    broker: Broker
    key: PrivateKey
    options: dict[tuple[str, str], Any]
    moved: Moved
    marks: Marks = field(default_factory=Marks)
    loop: Process | None = None
    worker: Process | None = None
    lists: Lists | None = None
    memory: Memory = field(default_factory=Memory)
    safety: Safety | None = None
    """The safety pass of the newest loop."""
    _made: list[SimulatedAssembly] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.doors = doors.of(self.world, "ids")
        base = str(_MEMORY) if _MEMORY.is_dir() else None
        self.directory = Path(tempfile.mkdtemp(prefix="nvme-site-", dir=base))
        self.database = self.directory / "record.db"
        self.database.write_bytes(_template())

        self.lists = Lists(
            self.broker, lambda name, host: inbound.key(inbound.MessageKind(name), host)
        )

    @cached_property
    def conf(self) -> Any:
        """Read once: it takes longer than a crash should."""
        conf = load()
        for (group, name), value in self.options.items():
            conf.set_override(name, value, group=group)
        return conf

    def assembly(self) -> SimulatedAssembly:
        """The parts of one more process."""
        made = SimulatedAssembly(self)
        self._made.append(made)
        return made

    @property
    def limits(self) -> ServiceLimits:
        """As configured."""
        return ServiceLimits.from_conf(self.conf)

    def promised(self, latency: float, *, unseen: bool) -> float:
        """Seconds that a drive with somebody's data may stand on offer: the bound that is shown.

        Where the use may have left no mark (``unseen``), the slot's right to be on offer goes when
        a list shows it: a list is due, the round before it ends, it is read, and the slot is
        looked at.
        """
        listed = self.limits.list_interval + self.limits.sweep_interval + 15 * latency
        if self.safety is None:
            return listed
        bound = float(self.safety.bound)
        return max(bound, listed) if unseen else bound

    @property
    def alive(self) -> bool:
        """Both processes run."""
        return all(p is not None and p.alive for p in (self.loop, self.worker))

    def start(self) -> None:
        """Start what does not run."""
        if self.loop is None or not self.loop.alive:
            self.loop = self.world.spawn("loop", self._loop)
        if self.worker is None or not self.worker.alive:
            self.worker = self.world.spawn("worker", self._worker)

    def kill(self, which: str) -> None:
        """``loop`` or ``worker``, wherever it stands."""
        process = self.loop if which == "loop" else self.worker
        if process is not None:
            process.kill()

    def close(self) -> None:
        """End it, and forget its database."""
        for which in ("loop", "worker"):
            self.kill(which)
        for made in self._made:
            made.close()
        shutil.rmtree(self.directory, ignore_errors=True)

    def _loop(self) -> None:
        with self._assembled() as assembly:
            reconciler, stop = assembly.reconciler, doors.Event(self.world)
            safety = assembly.safety
            doors.Thread(self.world, safety.run_forever, "safety", (stop,)).start()
            reconciler.run_forever(stop)

    def _worker(self) -> None:
        """As ``nvme-quarantine worker``: a thread for each lane of the intake."""
        stop = _Doorbell(self.world, self.broker)
        shared = intake.TooLong(), intake.Wanted()
        for name, kinds in intake.LANES.items():
            doors.Thread(self.world, self._lane, name, (kinds, stop, name, *shared)).start()
        while True:
            self.world.sleep(_FOR_EVER)

    def _lane(
        self, kinds: Any, stop: Any, name: str, too_long: intake.TooLong, wanted: intake.Wanted
    ) -> None:
        with self._assembled() as assembly:
            intake.run(assembly.lane(kinds, too_long, wanted), stop, name)

    @contextlib.contextmanager
    def _assembled(self) -> Iterator[SimulatedAssembly]:
        assembly = self.assembly()
        try:
            yield assembly
        except Killed:
            raise
        except Exception:
            # A process that ends by itself is a finding: it must never.
            logging.getLogger("quarantine").exception("ALARM: a process ended")
            raise
        finally:
            self._made.remove(assembly)
            assembly.close()


@cache
def _template() -> bytes:
    """A database with this release's schema, made once."""
    with tempfile.TemporaryDirectory(prefix="nvme-site-template-") as directory:
        path = Path(directory) / "record.db"
        store = Store.open(f"sqlite:///{path}")
        store.migrate()
        store.close()
        return path.read_bytes()
