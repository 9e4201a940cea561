"""One site, built from a script, and one run of it."""

from __future__ import annotations

import contextlib
import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

import sqlalchemy as sa

from eraser.protocol.identity import Slot
from quarantine.cloud.facts import CONSUMER_TYPE
from quarantine.errors import QuarantineError
from quarantine.operations.enrol import EnrolmentTerms, carry_out
from quarantine.operations.survey import survey
from quarantine.record.database import models
from quarantine.record.words.facts import Initiator
from quarantine.record.words.states import Event, State
from tests.site.broker import Broker
from tests.site.hosts import Drive, Host, identity, seeded_key
from tests.site.line import Connection, Proxy, Weather
from tests.site.nova import RESOURCE_CLASS, Life, Nova, slots_of
from tests.site.observer import AlarmHandler, Finding, Observer
from tests.site.placement import Placement
from tests.site.plane import Plane
from tests.site.script import Deed, Script
from tests.site.world import World
from tests.unit.quarantine.testimony import PROFILE

_OPERATOR_SECONDS: Final = 600.0
_ABSENCE: Final = "ALARM late "
"""How the one alarm begins that an absence of Placement has to raise."""

_DOWN_SECONDS: Final = 60.0
"""``service_down_time``: so long nova-api calls a dead nova-compute up."""


@dataclass(frozen=True)
class Result:
    """How a run ended. ``history`` is for people, oldest first."""

    script: Script
    findings: tuple[Finding, ...]
    history: tuple[str, ...]
    lifecycles: int
    counts: Counter[str]
    longest: float
    requests: int
    cpu: float

    @property
    def kind(self) -> str:
        """The first finding's kind; empty for a clean run."""
        return self.findings[0].kind if self.findings else ""


class Site:
    """All rooms, connected."""

    def __init__(self, script: Script, world: World, only: frozenset[str]) -> None:
        self.script = script
        self.world = world
        self.weather = Weather(latency=script.latency)
        self.placement = Placement()
        self.broker = Broker(world, world.chance("broker"))
        key = seeded_key(world.chance("controller"))
        self.hosts = {h.name: h for h in self._hosts(key.public)}
        self.nova = Nova(
            world=world,
            placement=self.placement,
            hosts=self.hosts,
            chance=world.chance("nova"),
            patched=script.patched,
            bells=script.bells,
        )
        self.connection = Connection(
            Proxy(world, self.placement, self.weather, world.chance("line")),
            Proxy(world, self.nova.api, Weather(latency=script.latency), world.chance("api")),
        )
        defences = ["hook", "loaded", "patch"] if script.patched else ["hook", "loaded"]
        options: dict[tuple[str, str], Any] = {
            ("gate", "required"): script.gate,
            ("gate", "required_defences"): defences,
        }
        self.plane = Plane(world, self.connection, self.broker, key, options, self._moved)
        self.plane.marks.crashed = lambda: self._restart(30.0)
        self.observer = Observer(
            world=world,
            placement=self.placement,
            hosts=self.hosts,
            limits=self.plane.limits,
            promised=self.plane.promised,
            ordinary=script.mode == "ordinary",
            gate=script.gate,
            only=only,
            latency=script.latency,
        )
        self.nova.claimed = self._claimed
        self.nova.refused = self.observer.refused
        self.faults: Counter[str] = Counter()

    def begin(self) -> None:
        """The day of the enrolment: a cloud that runs comes under care."""
        script = self.script
        for host in self.hosts.values():
            self.nova.begin(host)
            self.nova.start_compute(host.name, sorted(host.drives), born_reserved=script.patched)
        old = self.world.chance("old")
        for _ in range(int(script.used * script.hosts * script.slots)):
            burns = "never_burns" not in script.faults or old.random() < 0.5
            self.nova.order(Life(seconds=old.uniform(60, 1800), burns=burns))
        # Drives that were there before us, and that nobody has now, hold what nobody knows.
        claimed = {slot for server in self.nova.running.values() for slot in slots_of(server)}
        for host in self.hosts.values():
            for address, drive in host.drives.items():
                if host.slot(address) not in claimed:
                    drive.blocks = "somebody before us"
        assembly = self.plane.assembly()
        assembly.store.put_profile(PROFILE, Initiator("the simulator"))
        for host in self.hosts.values():
            assembly.store.register_host(host.name, host.key.public, host.life)
        planned = survey(assembly.store, assembly.placement, resource_class=RESOURCE_CLASS)
        terms = EnrolmentTerms(PROFILE.name, "purge")
        carry_out(assembly.store, assembly.placement, planned, terms)
        self.store = assembly.store
        self.observer.watch()
        for host in self.hosts.values():
            host.begin()
        for deed in script.deeds:
            self.world.at(deed.at, lambda d=deed: self._do(d))
        self.world.at(script.busy, self._calm)
        self.world.every(_OPERATOR_SECONDS, self._operator)
        self.plane.start()
        self.world.every(1.0, self._excuse)

    def judge(self) -> None:
        """At the end: what is lost, and what waits for nothing."""
        if self.script.mode == "swarm":
            return
        self.observer.missing()
        for record in self.store.slots():
            if record.state is State.AVAILABLE:
                continue
            if record.state is State.HELD and record.slot in self.observer.suspects:
                continue
            if self._goes_on(record.slot):
                continue
            text = f"{record.state} since {record.entered_at:%H:%M:%S}: {record.detail}"
            self.observer.found("stuck", record.slot, text[:300])

    def _goes_on(self, slot: Slot) -> bool:
        """A server has it still; in ordinary work also an eraser, which began an hour late."""
        if any(slot in slots_of(server) for server in self.nova.running.values()):
            return True
        return self.script.mode == "ordinary" and slot.address in self.hosts[slot.host].cases

    def close(self) -> None:
        """End all that runs."""
        self.world.close()
        self.plane.close()

    def _hosts(self, controller: Any) -> Iterator[Host]:
        script = self.script
        for number in range(script.hosts):
            name = f"cmp{number + 1}"
            addresses = [f"0000:{0x81 + n:02x}:00.0" for n in range(script.slots)]
            yield Host(
                name=name,
                drives={a: Drive(identity(name, a)) for a in addresses},
                world=self.world,
                broker=self.broker,
                controller=controller,
                key=seeded_key(self.world.chance(name)),
                chance=self.world.chance(f"{name} work"),
                gate=script.gate,
                patched=script.patched,
                erase_seconds=script.erase,
            )

    def _moved(self, record: Any, event: Event, reason: str) -> None:
        if hasattr(self, "observer"):
            self.observer.moved(record, event, reason)

    def _claimed(self, server: Any, burns: bool) -> None:
        self.faults["never_burns"] += not burns
        self.observer.claimed(server.uuid, burns=burns)

    def _excuse(self) -> None:
        if self.weather.away or not self.plane.alive:
            self.observer.excuse(1.0)

    def _operator(self) -> None:
        """A person settles holds whose cause is over."""
        for record in self.store.slots(states=[State.HELD]):
            host = self.hosts[record.slot.host]
            if record.slot in self.nova.lacking or record.slot.address not in host.drives:
                continue
            with contextlib.suppress(QuarantineError):
                self.store.transition(
                    record, Event.RELEASED_BY_OPERATOR, reason="the cause is over"
                )

    def _calm(self) -> None:
        """No more faults; in the modes that ask for an end, no more orders either."""
        if self.script.mode != "swarm":
            self.nova.open = False

    # Deeds.

    def _do(self, deed: Deed) -> None:
        getattr(self, f"_do_{deed.kind}")(deed)
        if deed.kind not in ("boot", "restart"):
            self.faults[deed.kind] += 1
            self.world.say(f"deed: {str(deed).strip()}")

    def _for(self, deed: Deed, begin: Callable[[], None], end: Callable[[], None]) -> None:
        """For as long as the deed's last figure says, but not longer than there are faults."""
        begin()
        self.world.at(min(deed.figures[-1], self._left(deed)), end)

    def _left(self, deed: Deed) -> float:
        ordinary = self.script.mode == "ordinary"
        return deed.figures[-1] if ordinary else max(0.0, self.script.busy - self.world.now)

    def _host(self, deed: Deed) -> Host:
        return list(self.hosts.values())[int(deed.figures[0]) % len(self.hosts)]

    def _slot(self, deed: Deed) -> Slot:
        slots = [
            Slot(name, f"0000:{0x81 + number:02x}:00.0")
            for name, number in itertools.product(self.hosts, range(self.script.slots))
        ]
        return slots[int(deed.figures[0]) % len(slots)]

    def _do_boot(self, deed: Deed) -> None:
        drives, seconds, burns = deed.figures
        move = deed.words[0] if deed.words else ""
        if move:
            self.faults["migration"] += 1
        self.nova.order(Life(min(int(drives), self.script.slots), seconds, bool(burns), move))

    def _do_restart(self, deed: Deed) -> None:
        host = self._host(deed)
        self.world.say(f"nova-compute of {host.name} starts again")
        self.nova.compute_starts(host)

    def _do_trait_dropped(self, deed: Deed) -> None:
        slot = self._slot(deed)
        self.observer.suspects.add(slot)
        self.nova.drop_trait(slot)
        self.world.say(f"one_time_use of {slot} is dropped")
        self.world.at(
            min(deed.figures[-1], self._left(deed)), lambda: self.nova.restore_trait(slot)
        )

    def _do_placement_empty(self, deed: Deed) -> None:
        self.weather.empty += int(deed.figures[0])
        self.observer.excuse(deed.figures[0] * self.observer.limits.list_interval)

    def _do_placement_503(self, deed: Deed) -> None:
        if self.script.mode == "ordinary":
            self.observer.expected.append(_ABSENCE)
        self.observer.excuse(self.observer.limits.list_interval)

        def begin() -> None:
            self.weather.away += 1

        def end() -> None:
            self.weather.away -= 1

        self._for(deed, begin, end)

    def _do_slow(self, deed: Deed) -> None:
        latency = deed.figures[0]
        self.observer.latency = max(self.observer.latency, latency)

        def begin() -> None:
            self.weather.latency = latency

        def end() -> None:
            self.weather.latency = self.script.latency

        self._for(deed, begin, end)

    def _do_broker_down(self, deed: Deed) -> None:
        def begin() -> None:
            self.broker.faults.down += 1

        def end() -> None:
            self.broker.faults.down -= 1
            for host in self.hosts:
                self.broker.flush(host)

        self._for(deed, begin, end)

    def _do_broker_lost(self, deed: Deed) -> None:
        self.broker.lose()

    def _do_backlog(self, deed: Deed) -> None:
        def begin() -> None:
            self.broker.faults.deaf += 1

        def end() -> None:
            self.broker.faults.deaf -= 1
            self.broker.arrived.set()

        self._for(deed, begin, end)

    def _do_duplicates(self, deed: Deed) -> None:
        self._share(deed, self.broker.faults, "twice")

    def _do_reorder(self, deed: Deed) -> None:
        self._share(deed, self.broker.faults, "late")

    def _do_lost_answers(self, deed: Deed) -> None:
        self._share(deed, self.weather, "lose")

    def _do_proxy_twice(self, deed: Deed) -> None:
        self._share(deed, self.weather, "twice")

    def _share(self, deed: Deed, faults: object, name: str) -> None:
        self._for(
            deed,
            lambda: setattr(faults, name, deed.figures[0]),
            lambda: setattr(faults, name, 0.0),
        )

    def _do_crash(self, deed: Deed) -> None:
        which = int(deed.figures[0])
        for name in ("loop", "worker"):
            if which in (2, ("loop", "worker").index(name)):
                self.plane.kill(name)
        self._restart(deed.figures[1])

    def _do_crash_commit(self, deed: Deed) -> None:
        self.plane.marks.crash += 1

    def _restart(self, seconds: float) -> None:
        # What a pass had begun is begun again.
        self.observer.excuse(self.observer.limits.sweep_interval)
        self.world.at(seconds, self.plane.start)
        self.world.at(seconds + 300.0, self.plane.start)

    def _do_other_release(self, deed: Deed) -> None:
        """A newer release wrote a row: it has a member that this one does not know."""
        slot = self._slot(deed)
        row = "json_set({}, '$.of_another_release', 1)"
        with self.store._writing() as db:
            if int(deed.figures[0]) % 2:
                table, where = models.hosts, models.hosts.c.name == slot.host
                change = {"hello": sa.text(row.format("hello"))}
                where = where & models.hosts.c.hello.is_not(None)
            else:
                table = models.slots
                where = (table.c.host == slot.host) & (table.c.address == slot.address)
                where = where & table.c.identity.is_not(None)
                change = {"identity": sa.text(row.format("identity"))}
            db.execute(sa.update(table).where(where).values(**change))

    def _do_reboot(self, deed: Deed) -> None:
        host = self._host(deed)
        if not host.up:
            return

        def on() -> None:
            host.power_on()
            self.nova.service_up(host, up=True)
            self.nova.compute_starts(host)
            self.nova.host_back(host)

        def down() -> None:
            if not host.up:
                self.nova.service_up(host, up=False)

        host.power_off()
        self.world.at(_DOWN_SECONDS, down)
        self.world.at(min(deed.figures[-1], self._left(deed)), on)

    def _do_absent(self, deed: Deed) -> None:
        """A drive is not there for one boot of its host."""
        slot, host = self._slot(deed), self.hosts[self._slot(deed).host]
        if not host.up:
            return
        self.observer.suspects.add(slot)
        host.power_off()

        def boot_without() -> None:
            host.pull(slot.address)
            host.power_on()
            self.nova.compute_starts(host)
            self.nova.host_back(host)

        def off() -> None:
            if host.up:
                host.power_off()
            self.world.at(60.0, on)

        def on() -> None:
            host.push(slot.address)
            host.power_on()
            self.nova.compute_starts(host)
            self.nova.host_back(host)

        self.world.at(60.0, boot_without)
        self.world.at(120.0 + min(deed.figures[-1], self._left(deed)), off)

    def _do_silence(self, deed: Deed) -> None:
        host = self._host(deed)

        def begin() -> None:
            host.cut += 1

        def end() -> None:
            host.cut -= 1
            if not host.cut:
                self.broker.flush(host.name)

        self._for(deed, begin, end)

    def _do_slip(self, deed: Deed) -> None:
        self.world.slip += deed.figures[0]

    def _do_reserve(self, deed: Deed) -> None:
        self._put_reserved(deed, 1)

    def _do_unreserve(self, deed: Deed) -> None:
        self.observer.suspects.add(self._slot(deed))
        self._put_reserved(deed, 0)

    def _do_freed(self, deed: Deed) -> None:
        """A person takes a drive from us, with all that kept it: ``openstack resource provider
        allocation delete``, and then its ``reserved``."""
        slot = self._slot(deed)
        self.observer.suspects.add(slot)
        provider = self.placement.named(f"{slot.host}_{slot.address.upper()}")
        if provider is None:
            return
        for consumer, held in self.placement.held(provider.uuid).items():
            if held.type != CONSUMER_TYPE:
                return
            self.placement("DELETE", f"/allocations/{consumer}", "1.39", None)
        self.observer.freed(slot)
        self._put_reserved(deed, 0)

    def _put_reserved(self, deed: Deed, reserved: int) -> None:
        """``openstack resource provider inventory set`` by a person."""
        slot = self._slot(deed)
        provider = self.placement.named(f"{slot.host}_{slot.address.upper()}")
        if provider is None:
            return
        body = {
            "resource_provider_generation": provider.generation,
            "total": 1,
            "max_unit": 1,
            "reserved": reserved,
        }
        path = f"/resource_providers/{provider.uuid}/inventories/{RESOURCE_CLASS}"
        self.placement("PUT", path, "1.39", body)


def run(script: Script, only: frozenset[str] = frozenset()) -> Result:
    """One run up to its end or its first finding of the kinds in ``only`` (empty: of any)."""
    started = time.process_time()
    world = World(script.seed)
    logger = logging.getLogger("quarantine")
    before = logger.level, logger.propagate
    site = Site(script, world, only)
    handler = AlarmHandler(site.observer)
    logger.setLevel(logging.WARNING)
    logger.propagate = False
    logger.addHandler(handler)
    try:
        site.begin()
        while world.now < script.end and not site.observer.findings:
            world.run(min(world.now + 5.0, script.end))
        if not site.observer.findings:
            site.judge()
    finally:
        logger.removeHandler(handler)
        logger.setLevel(before[0])
        logger.propagate = before[1]
        site.close()
    observer = site.observer
    return Result(
        script=script,
        findings=tuple(observer.findings),
        history=tuple(world.log),
        lifecycles=observer.lifecycles,
        counts=observer.counts + site.faults,
        longest=observer.longest,
        requests=site.connection.placement.requests + site.connection.compute.requests,
        cpu=time.process_time() - started,
    )
