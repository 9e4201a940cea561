"""A few seeds of each mode, and that a seed is a run: what the long campaigns rest on."""

from __future__ import annotations

import logging
from dataclasses import replace
from random import Random

import pytest

from eraser.protocol.identity import Slot
from quarantine.service.watch.lateness import Lateness
from tests.site.hosts import identity
from tests.site.observer import AlarmHandler
from tests.site.script import FAULTS, Deed, Mode, Script, draw
from tests.site.shrink import shrink
from tests.site.site import Result, Site, run
from tests.site.world import World

WITHSTOOD = (
    "broker_down",
    "broker_lost",
    "backlog",
    "duplicates",
    "reorder",
    "crash",
    "crash_commit",
    "reboot",
    "silence",
    "lost_answers",
    "migration",
    "race",
    "reserve",
)
"""Faults that the seeds here are drawn from and withstand. Of the others nothing is said but what
:func:`test_each_fault_can_be_played` asks; the campaign takes all of them."""


def short(seed: int, mode: Mode, seconds: float = 900.0) -> Script:
    script = draw(seed, mode, faults=WITHSTOOD, small=True)
    busy = min(script.busy, seconds)
    deeds = tuple(deed for deed in script.deeds if deed.at < busy)
    rest = {"swarm": 60.0, "ordinary": 300.0, "liveness": 5400.0}[mode]
    return replace(script, deeds=deeds, busy=busy, end=busy + rest, erase=(20.0, 120.0))


def shown(result: Result) -> str:
    return "\n".join([*map(str, result.findings), *result.history[-20:]])


def test_a_seed_is_a_run() -> None:
    script = short(1, "swarm", 400.0)
    first, second = run(script), run(script)
    assert first.history == second.history
    assert first.counts == second.counts
    assert first.lifecycles > 0


@pytest.mark.parametrize("seed", [1, 2])
def test_whatever_goes_wrong_nothing_wrong_is_done(seed: int) -> None:
    result = run(short(seed, "swarm"))
    assert not result.findings, shown(result)


def test_what_can_end_ends_once_the_faults_are_over() -> None:
    result = run(short(2, "liveness", 900.0))
    assert not result.findings, shown(result)


def test_ordinary_work_alarms_holds_and_leaks_nothing() -> None:
    result = run(short(3, "ordinary"))
    assert not result.findings, shown(result)
    assert result.counts["alarms"] == 0


def away(seconds: float) -> Script:
    """Ordinary work in which Placement does not answer for so long."""
    script = short(3, "ordinary", 600.0)
    deeds = (*script.deeds, Deed(200.0, "placement_503", (0.0, seconds)))
    return replace(script, deeds=deeds, hosts=1, slots=1, end=script.busy + 1200.0)


def test_an_absence_of_placement_rings_once() -> None:
    result = run(away(900.0))
    assert not result.findings, shown(result)
    assert result.counts["alarms"] == 1


def test_an_alarm_that_should_have_rung_and_did_not_is_found(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(Lateness, "check", lambda self: "")
    result = run(away(900.0))
    assert result.kind == "alarm", shown(result)
    assert "none rang" in result.findings[0].text


def test_a_use_that_left_nothing_but_a_generation_is_erased() -> None:
    """Never burned, over before a list could show it, and no gate that tells of the guest."""
    boots = tuple(Deed(400.0 + 90.0 * n, "boot", (1.0, 1.0, 0.0)) for n in range(4))
    script = replace(short(4, "swarm"), used=0.0, hosts=1, slots=4, gate=False, deeds=boots)
    script = replace(script, bells=False, busy=900.0, end=1200.0)
    result = run(script, frozenset({"offer", "unlocked", "held"}))
    assert not result.findings, shown(result)
    assert result.counts["erases"] > result.counts["erases of drives without data"] == 0


def test_who_takes_a_drive_by_hand_while_placement_answers_us_nothing_leaks_it_himself() -> None:
    """No release could see it: the absence is not counted against the bound (swarm, seed 12)."""
    boots = tuple(Deed(at, "boot", (1.0, 60.0, 1.0)) for at in (400.0, 840.0))
    # No order reaches the host, so that its drive stays as the first tenant left it.
    away = Deed(420.0, "broker_down", (0.0, 600.0)), Deed(780.0, "placement_503", (0.0, 130.0))
    deeds = (*boots, *away, Deed(790.0, "freed", (0.0,)))
    script = replace(short(4, "swarm"), used=0.0, hosts=1, slots=1, gate=False, deeds=deeds)
    script = replace(script, patched=True, busy=1000.0, end=1200.0)
    result = run(script, frozenset({"leak"}))
    assert not result.findings, shown(result)
    assert result.counts["leaks within the bound"] == 1, "\n".join(result.history)


def test_the_observer_sees_a_leak_and_a_shrunk_run_still_does(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def begin_and_soil(site: Site) -> None:
        begin(site)
        site.world.at(590.0, lambda: soil(site))

    def soil(site: Site) -> None:
        for host in site.hosts.values():
            for drive in host.drives.values():
                drive.blocks = "another tenant"

    begin = Site.begin
    monkeypatch.setattr(Site, "begin", begin_and_soil)
    boots = tuple(Deed(600.0 + 5.0 * n, "boot", (1.0, 60.0, 1.0)) for n in range(4))
    script = replace(short(4, "swarm"), used=0.0, hosts=1, slots=2, deeds=boots)
    result = run(script)
    assert result.kind == "leak", shown(result)
    smaller = shrink(result, seconds=5.0)
    assert smaller.kind == "leak"
    assert len(smaller.script.deeds) < len(boots)


def test_a_crash_takes_every_thread_of_its_process_and_it_is_started_again() -> None:
    """Whoever of them committed: a thread that died alone would leave a process that nobody
    starts again and that hears nothing more."""
    script = replace(short(1, "swarm", 0.0), hosts=1, slots=1)
    world = World(script.seed)
    site = Site(script, world, frozenset())
    try:
        site.begin()
        world.run(100.0)
        before = (site.plane.loop, site.plane.worker)
        site.plane.marks.crash = 1
        while not any("dies after a commit" in line for line in world.log):
            world.run(world.now + 1.0)
        dead = [process for process in before if process and not process.alive]
        assert len(dead) == 1
        assert dead[0].children
        assert not any(thread.alive for thread in dead[0].children)
        world.run(world.now + 31.0)
        assert site.plane.alive
    finally:
        site.close()


def test_a_process_that_is_killed_does_nothing_more() -> None:
    """As after SIGKILL: what stands in its ``finally`` and ``except BaseException`` asks nobody,
    writes nothing, and nobody is called by it."""
    script = replace(short(1, "swarm", 0.0), hosts=1, slots=1)
    world = World(script.seed)
    site = Site(script, world, frozenset())
    try:
        site.begin()
        done, store = list[str](), site.plane.assembly().store
        strange, slot = identity("cmp1", "nowhere"), Slot("cmp1", "0000:81:00.0")

        def work() -> None:
            try:
                world.sleep(100.0)
            except BaseException:
                logging.getLogger("quarantine").warning("ALARM by the dead")
                raise
            finally:
                try:
                    store.note_drive(strange, slot, dirty=True, reason="dead")
                finally:
                    world.sleep(1.0)
                    done.append("slept")

        handler = AlarmHandler(site.observer)
        logging.getLogger("quarantine").addHandler(handler)
        process = world.spawn("work", work)
        world.run(10.0)
        process.kill()
        world.run(20.0)
        logging.getLogger("quarantine").removeHandler(handler)
        assert not process.alive
        assert store.drive(strange.digest) is None
        assert done == []
        assert "ALARM by the dead" not in site.observer.alarms
    finally:
        site.close()


def test_a_host_that_is_switched_on_twice_erases_no_faster() -> None:
    """``reboot`` and ``absent`` may switch on one host, each in its own time."""
    script = replace(short(1, "swarm", 0.0), hosts=1, slots=1)
    world = World(script.seed)
    site = Site(script, world, frozenset())
    try:
        site.begin()
        (host,) = site.hosts.values()
        while not host.cases:
            world.run(world.now + 0.5)
        (case,) = host.cases.values()
        begun, left = world.now, case.left
        host.power_on()
        while case in host.cases.values():
            world.run(world.now + 0.5)
        assert world.now - begun >= left - 0.5
    finally:
        site.close()


def test_after_a_power_cut_a_guest_is_still_defined_and_its_drive_not_idle() -> None:
    """libvirt keeps a persistent domain, and whoever starts it finds its drive as it was."""
    script = replace(short(1, "swarm", 0.0), hosts=1, slots=1, gate=False)
    world = World(script.seed)
    site = Site(script, world, frozenset())
    try:
        (host,) = site.hosts.values()
        ((address, drive),) = host.drives.items()
        assert host.start_guest("server-1", (address,)) == ""
        host.power_off()
        host.power_on()
        assert drive.user is None
        site.begin()
        world.run(300.0)
        assert drive.blocks is not None, "nobody erases the drive of a guest that is off"
        told = site.plane.assembly().store.host(host.name)
        assert told is not None
        assert told.hello is not None
        assert told.hello.gate is not None
        (domain,) = told.hello.gate.domains
        assert (domain.uuid, domain.addresses, domain.running) == ("server-1", (address,), False)
        host.stop_guest("server-1")
        world.run(900.0)
        assert drive.blocks is None
    finally:
        site.close()


def test_each_fault_can_be_played() -> None:
    chance = Random(1)
    deeds = tuple(
        Deed(20.0 + 40.0 * number, name, FAULTS[name][1](chance))
        for number, name in enumerate(sorted(FAULTS))
    )
    script = replace(short(5, "swarm"), hosts=1, slots=2, deeds=deeds, end=860.0, busy=860.0)
    result = run(script, frozenset({"leak", "erased_in_use"}))
    assert not result.findings, shown(result)
    assert {name for name in FAULTS if result.counts[name]} == set(FAULTS)
