"""Whose last hello says nothing any more: who fell silent while others were heard."""

from __future__ import annotations

import random
from datetime import UTC, datetime, timedelta

import pytest

from quarantine.service.watch.silence import DAY, Silence

AFTER = 420.0
HELLO = 60.0
PASS = 10.0


class Cloud:
    """Hosts that say hello each minute, each at a second of its own, and a pass now and then."""

    def __init__(self, hosts: int, seed: int) -> None:
        rng = random.Random(seed)
        self.now = 0.0
        self.offset = {f"cmp{n}": rng.uniform(0, HELLO) for n in range(hosts)}
        self.heard: dict[str, datetime] = {}
        self.wall = datetime(2026, 11, 26, tzinfo=UTC)
        self.silence = Silence(AFTER, lambda: self.now)
        self.pace = rng.uniform(0.5, 2) * PASS

    def run(
        self,
        seconds: float,
        *,
        dead: frozenset[str] = frozenset(),
        deaf: bool = False,
        hello: float = HELLO,
    ) -> set[str]:
        """Who was called silent at any pass."""
        found = set[str]()
        end = self.now + seconds
        while self.now < end:
            before, self.now = self.now, self.now + self.pace
            for name, offset in self.offset.items():
                spoke = (self.now - offset) // hello > (before - offset) // hello
                if name not in self.heard or (spoke and name not in dead and not deaf):
                    self.heard[name] = self.wall + timedelta(seconds=self.now)
            found |= self.silence.of(self.heard)
        return found


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("hosts", [2, 6, 12, 300])
def test_no_outage_makes_anybody_silent_and_who_is_dead_is_so_in_time(
    hosts: int, seed: int
) -> None:
    cloud = Cloud(hosts, seed)
    assert not cloud.run(1800)
    outage = random.Random(seed).choice([60, 200, 300, 430, 1000, 7200])
    assert not cloud.run(outage, deaf=True)
    assert not cloud.run(1800)
    dead = frozenset(f"cmp{n}" for n in range(max(1, min(hosts // 10, 3))))
    assert not cloud.run(AFTER - HELLO - 3 * cloud.pace, dead=dead)
    cloud.run(2 * HELLO + 6 * cloud.pace, dead=dead)
    for _ in range(2):  # also after another outage
        assert cloud.run(120, dead=dead) == set(dead)
        cloud.run(1000, dead=dead, deaf=True)
    cloud.run(2 * HELLO)
    assert not cloud.run(600)


def test_a_clock_that_is_set_changes_nothing() -> None:
    cloud = Cloud(6, 1)
    for step in (timedelta(hours=-6), timedelta(hours=12)):
        assert not cloud.run(900)
        cloud.wall += step
    dead = frozenset({"cmp3"})
    cloud.run(AFTER + HELLO, dead=dead)
    cloud.wall -= timedelta(days=1)
    assert cloud.run(600, dead=dead) == {"cmp3"}


def test_who_was_never_heard_is_silent_and_who_was_removed_is_forgotten() -> None:
    cloud = Cloud(4, 1)
    cloud.run(AFTER + 2 * HELLO, dead=frozenset({"cmp0"}))
    assert cloud.run(60, dead=frozenset({"cmp0"})) == {"cmp0"}
    del cloud.heard["cmp0"], cloud.offset["cmp0"]
    assert not cloud.run(60)


@pytest.mark.parametrize("cut", [8, 10, 19])
def test_many_that_are_cut_off_at_once_are_believed_for_a_day(cut: int) -> None:
    """A rack's uplink: each honest device there would be reserved, and nobody gives it back."""
    cloud = Cloud(20, 3)
    cloud.pace = 60.0
    assert not cloud.run(1800)
    off = frozenset(f"cmp{n}" for n in range(cut))
    assert not cloud.run(DAY - 3600, dead=off)
    assert not cloud.run(1800)
    cloud.run(DAY + 600, dead=off)
    assert cloud.run(600, dead=off) == off
    # One more beside them is not the network.
    one = off | {"cmp19"} if cut < 19 else off
    cloud.run(AFTER + 3 * HELLO, dead=one)
    assert cloud.run(120, dead=one) == one


def test_a_host_that_is_alone_is_silent_after_a_day() -> None:
    cloud = Cloud(1, 1)
    cloud.pace = 60.0
    assert not cloud.run(1800)
    assert not cloud.run(DAY - 300, deaf=True)
    assert cloud.run(600, deaf=True) == {"cmp0"}
    cloud.run(2 * HELLO)
    assert not cloud.run(600)


@pytest.mark.parametrize("pace", [10.0, 200.0, 300.0, 3600.0])
def test_passes_may_be_far_apart(pace: float) -> None:
    """``[detection]safety_interval`` may be an hour, and a pass may take minutes."""
    cloud = Cloud(50, 2)
    cloud.pace = pace
    assert not cloud.run(6 * pace)
    cloud.run(6 * max(pace, AFTER), dead=frozenset({"cmp7"}))
    assert cloud.run(pace, dead=frozenset({"cmp7"})) == {"cmp7"}


def test_two_hosts_that_seldom_speak() -> None:
    """``[worker]hello_interval`` of 240 s."""
    cloud = Cloud(2, 4)
    cloud.run(1800, hello=240.0)
    cloud.run(3600, hello=240.0, dead=frozenset({"cmp1"}))
    assert cloud.run(300, hello=240.0, dead=frozenset({"cmp1"})) == {"cmp1"}


@pytest.mark.parametrize("pace", [2.0, 10.0, 30.0])
@pytest.mark.parametrize(("hosts", "cut"), [(20, 10), (20, 19), (100, 40)])
def test_many_are_late_and_come_back_one_by_one(hosts: int, cut: int, pace: float) -> None:
    """Not the first of them, before it is seen that they are many, nor the last to speak again."""
    cloud = Cloud(hosts, 3)
    cloud.pace = pace
    assert not cloud.run(1800)
    off = frozenset(f"cmp{n}" for n in range(cut))
    assert not cloud.run(3600, dead=off)
    assert not cloud.run(900)
    one = frozenset({"cmp0"})
    cloud.run(2 * AFTER + 3 * HELLO, dead=one)
    assert cloud.run(60, dead=one) == one


def test_a_control_plane_that_was_stopped_for_days_has_listened_to_nobody() -> None:
    cloud = Cloud(20, 1)
    assert not cloud.run(1800)
    cloud.now += 3 * DAY
    assert not cloud.silence.of(cloud.heard)
    assert not cloud.run(1800)


def test_who_is_registered_while_nobody_can_speak_has_not_spoken() -> None:
    cloud = Cloud(3, 1)
    assert not cloud.run(1800)
    for number in range(8):
        assert not cloud.run(300, deaf=True)
        cloud.offset[f"new{number}"] = 1.0
    assert not cloud.run(900)


def test_hosts_that_are_long_dead_hide_nobody_from_a_service_that_is_often_restarted() -> None:
    cloud = Cloud(34, 2)
    cloud.pace = 60.0
    buried = frozenset(f"cmp{n}" for n in range(4))
    assert not cloud.run(600)
    for name in buried:
        cloud.heard[name] -= timedelta(days=90)
    for _ in range(3):
        cloud.silence = Silence(AFTER, lambda: cloud.now)
        found = cloud.run(3600, dead=buried | {"cmp7"})
        assert found == buried | {"cmp7"}


def test_nobody_is_silent_sooner_than_was_asked_for() -> None:
    cloud = Cloud(20, 1)
    cloud.silence = Silence(7 * DAY, lambda: cloud.now)
    cloud.pace = 600.0
    assert not cloud.run(3 * DAY, dead=frozenset({"cmp3"}))


@pytest.mark.parametrize("spoke", [1, 5])
def test_a_control_plane_that_starts_as_an_outage_of_days_ends(spoke: int) -> None:
    """The first hosts have spoken by its first look: the others are not long dead."""
    cloud = Cloud(20, 2)
    assert not cloud.run(600)
    early = [f"cmp{n}" for n in range(spoke)]
    for name in cloud.heard.keys() - set(early):
        cloud.heard[name] -= timedelta(days=2)
    cloud.silence = Silence(AFTER, lambda: cloud.now)
    assert not cloud.run(3600, dead=cloud.heard.keys() - set(early))
    assert not cloud.run(1800)


def test_a_host_that_was_heard_in_the_future_once_makes_nobody_long_dead() -> None:
    cloud = Cloud(20, 2)
    assert not cloud.run(600)
    cloud.heard["cmp0"] += timedelta(days=2)
    cloud.silence = Silence(AFTER, lambda: cloud.now)
    off = frozenset(f"cmp{n}" for n in range(12))
    assert not cloud.run(3600, dead=off)


def test_hosts_that_start_anew_one_after_the_other_hide_nobody() -> None:
    """Seven of sixty at a time, eight minutes each: one that is dead meanwhile is not of them."""
    cloud = Cloud(60, 3)
    assert not cloud.run(1800)
    found = set[str]()
    for turn in range(9):
        down = {f"cmp{1 + (7 * turn + n) % 59}" for n in range(7)}
        found |= cloud.run(480, dead=frozenset(down | {"cmp0"}))
    assert found == {"cmp0"}


@pytest.mark.parametrize("hello", [340.0, 400.0])
def test_hosts_that_seldom_speak_hide_nobody(hello: float) -> None:
    cloud = Cloud(40, 3)
    cloud.run(3600, hello=hello)
    dead = frozenset({"cmp0"})
    cloud.run(3600, hello=hello, dead=dead)
    assert "cmp0" in cloud.run(600, hello=hello, dead=dead)


def test_who_died_at_other_times_is_no_network_after_a_restart() -> None:
    """Four of thirty, two hours apart, all named; the service starts anew and names them again."""
    cloud = Cloud(30, 3)
    cloud.pace = 30.0
    assert not cloud.run(1800)
    for number in range(4):
        dead = frozenset(f"cmp{n}" for n in range(number + 1))
        cloud.run(7200, dead=dead)
    assert cloud.run(120, dead=dead) == dead
    cloud.silence = Silence(AFTER, lambda: cloud.now)
    cloud.run(1800, dead=dead)
    assert cloud.run(120, dead=dead) == dead


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("down", [220, 300, 400, 600])
@pytest.mark.parametrize("up", [30, 45])
def test_a_broker_that_comes_and_goes_makes_nobody_silent(
    down: float, up: float, seed: int
) -> None:
    cloud = Cloud(50, seed)
    cloud.pace = PASS
    assert not cloud.run(1800)
    for _ in range(4):
        assert not cloud.run(down, deaf=True)
        assert not cloud.run(up)
    assert not cloud.run(900)


@pytest.mark.parametrize("gap", [100, 200, 300, 600, 1800])
@pytest.mark.parametrize(("hosts", "cut"), [(20, 7), (50, 10), (200, 40), (200, 30)])
@pytest.mark.parametrize("through", [1, 3])
def test_a_network_that_comes_back_for_a_moment(
    hosts: int, cut: int, gap: int, through: int
) -> None:
    """In which some get a word through: they are of those that are cut off, as before. The others
    have to be many without them for as long as they are heard."""
    cloud = Cloud(hosts, 3)
    assert not cloud.run(1800)
    off = frozenset(f"cmp{n}" for n in range(cut))
    some = frozenset(f"cmp{n}" for n in range(through))
    found = cloud.run(gap, dead=off)
    for _ in range(2):
        found |= cloud.run(70, dead=off - some)
        found |= cloud.run(900, dead=off)
    assert not found
    assert not cloud.run(1800)  # all are back
    dead = frozenset({"cmp0"})  # and one of them dies by itself
    assert cloud.run(1800, dead=dead) == dead


def test_the_long_dead_are_so_to_a_service_that_is_often_restarted() -> None:
    """It never looks for as long as a host may be silent; the record has been looking all along."""
    cloud = Cloud(12, 5)
    assert not cloud.run(1800)
    dead = frozenset({"cmp0"})
    assert cloud.run(DAY + 1800, dead=dead) == dead
    for _ in range(3):
        cloud.silence = Silence(AFTER, lambda: cloud.now)
        assert cloud.run(0.75 * AFTER, dead=dead) == dead


def test_a_service_that_starts_in_the_midst_of_a_return_waits_for_the_last() -> None:
    """After days in which nobody was heard most have spoken, and the others do within a minute."""
    cloud = Cloud(12, 5)
    assert not cloud.run(1800)
    cloud.now += 2 * DAY
    late = frozenset({"cmp0", "cmp1", "cmp2"})
    cloud.run(2 * HELLO, dead=late)
    cloud.silence = Silence(AFTER, lambda: cloud.now)
    assert not cloud.run(HELLO, dead=late)
    assert not cloud.run(1800)
