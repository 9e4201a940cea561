"""Was a drive written to between two readings of its own counters? Pure.

The reasoning, for honest drives and for ones that were used elsewhere: docs/decisions/gate.md.
"""

from __future__ import annotations

from eraser.protocol.ticket import Counters, units_of


def since_report(then: Counters, now: Counters, own_writes: int) -> str:
    """Why the drive was written to since its erase was reported; empty where it was not.

    Its counters may lag behind what the case wrote. A drive that only lost the seal
    (Global Data Erased), as some do with a reset, and counted nothing was not written to.
    """
    if back := _went_back(then, now):
        return back
    # The case resets the controller after the last log that it reports, and some drives lose the
    # seal by that: before the intake its loss alone proves nothing.
    if _seal_lost(then, now) and _grown(then, now):
        return f"Global Data Erased is gone and {_shown(then, now)}"
    return _too_much(then, now, own_writes)


def since_intake(then: Counters, now: Counters, own_writes: int) -> str:
    """Why the drive was written to since its ticket was taken in; empty where it was not.

    Only the seal vouches for counters that lag; without it they must stand still.
    """
    if back := _went_back(then, now):
        return back
    if _seal_lost(then, now):
        return f"Global Data Erased is gone ({_shown(then, now) or 'the counters stand still'})"
    # The case's own writes may be counted late, and only the seal tells that they are its own.
    sealed = then.global_data_erased is True
    return _too_much(then, now, own_writes if sealed else 0)


def since_rest(then: Counters, now: Counters) -> str:
    """Why the drive was written to since it was read while its owner was off; empty where not.

    The seal means nothing here: the owner's data is on the drive.
    """
    return _went_back(then, now) or _too_much(then, now, 0)


def _seal_lost(then: Counters, now: Counters) -> bool:
    return then.global_data_erased is True and now.global_data_erased is not True


def _grown(then: Counters, now: Counters) -> bool:
    return (now.host_write_commands, now.data_units_written) != (
        then.host_write_commands,
        then.data_units_written,
    )


def _went_back(then: Counters, now: Counters) -> str:
    for name, before, after in _pairs(then, now):
        if after < before:
            return f"{name} went back from {before} to {after}"
    return ""


def _pairs(then: Counters, now: Counters) -> tuple[tuple[str, int, int], ...]:
    return (
        ("Host Write Commands", then.host_write_commands, now.host_write_commands),
        ("Data Units Written", then.data_units_written, now.data_units_written),
        ("Power Cycles", then.power_cycles, now.power_cycles),
    )


def _too_much(then: Counters, now: Counters, own_writes: int) -> str:
    more = now.host_write_commands - then.host_write_commands > own_writes
    units = now.data_units_written - then.data_units_written
    return _shown(then, now) if more or units > units_of(own_writes) else ""


def _shown(then: Counters, now: Counters) -> str:
    return ", ".join(
        f"{name} went from {before} to {after}"
        # Power cycles may grow: hosts reboot.
        for name, before, after in _pairs(then, now)[:2]
        if after != before
    )
