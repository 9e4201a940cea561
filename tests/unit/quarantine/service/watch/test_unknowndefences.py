"""When a host that does not know how its defences stand is worth a call."""

from __future__ import annotations

from quarantine.service.unknowndefences import UnknownDefences

GRACE = 300.0


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_a_rolling_restart_calls_nobody() -> None:
    """A thousand hosts, each unknown in a hello or two."""
    clock = Clock()
    unknown_defences = UnknownDefences(GRACE, clock)
    for number in range(1000):
        for said, doubtful in enumerate((True, True, False)):
            clock.now += 60
            assert unknown_defences.is_young(f"cmp{number}", doubtful, said) is doubtful


def test_a_doubt_that_lasts_is_old_and_one_that_comes_again_is_young() -> None:
    clock = Clock()
    unknown_defences = UnknownDefences(GRACE, clock)
    young = []
    for said in range(7):
        young.append(unknown_defences.is_young("cmp1", True, said))
        clock.now += 60
    assert young == [True] * 5 + [False] * 2
    assert not unknown_defences.is_young("cmp1", False, 7)
    assert unknown_defences.is_young("cmp1", True, 8)
    # Others' words are no word of this one; and what went to another process in between neither.
    clock.now += GRACE + 1
    assert unknown_defences.is_young("cmp2", True, 8)
    assert unknown_defences.is_young("cmp1", True, 13)


def test_a_doubt_of_two_hellos_an_hour_apart_is_old() -> None:
    """Where ``hello_interval`` is longer than ``unknown_grace`` no two looks are near."""
    clock = Clock()
    unknown_defences = UnknownDefences(GRACE, clock)
    assert unknown_defences.is_young("cmp1", True, 7)
    clock.now += 3600
    assert not unknown_defences.is_young("cmp1", True, 8)
    clock.now += 3600
    assert not unknown_defences.is_young("cmp1", True, 9)


def test_hellos_that_are_months_apart_begin_a_new_doubt() -> None:
    """A start of nova-compute now and then; the certain words between led to no look."""
    clock = Clock()
    unknown_defences = UnknownDefences(GRACE, clock)
    for said in range(1, 1000, 100):
        clock.now += 100 * 3600
        assert unknown_defences.is_young("cmp1", True, said)
