"""Shrinking: the smallest drive of which something is still true."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.lab.nvme.composed.description import Abilities, Buffer, Description, Layout, Lie
from tests.lab.nvme.composed.kept import Kept
from tests.lab.nvme.composed.triggers import Trigger
from tests.lab.nvme.errors import DriveError


def shrink(drive: Description, still: Callable[[Description], bool]) -> Description:
    """Make ``drive`` smaller as long as ``still`` says yes, one step at a time.

    ``still`` is asked about smaller and valid drives alone; that it says yes to ``drive`` itself
    is taken for granted. The result has no smaller neighbour of which it says yes.
    """
    while True:
        for smaller in sorted(_valid(drive), key=lambda one: one.size):
            if smaller.size < drive.size and still(smaller):
                drive = smaller
                break
        else:
            return drive


def _valid(drive: Description) -> Iterator[Description]:
    for one in smaller(drive):
        try:
            one.check()
        except DriveError:
            continue
        yield one


def smaller(drive: Description) -> Iterator[Description]:
    """Neighbours with one thing less; not all of them can be."""
    for index, lie in enumerate(drive.lies):
        rest = drive.lies[:index] + drive.lies[index + 1 :]
        yield replace(drive, lies=rest)
        for less in _lies(lie):
            yield replace(drive, lies=(*drive.lies[:index], less, *drive.lies[index + 1 :]))
    for index in range(len(drive.odd)):
        yield replace(drive, odd=drive.odd[:index] + drive.odd[index + 1 :])
    for able in _abilities(drive.abilities):
        kept = tuple(
            replace(lie, survives=tuple(m for m in lie.survives if m in able.methods))
            for lie in drive.lies
        )
        yield replace(drive, abilities=able, lies=kept)


def _lies(lie: Lie) -> Iterator[Lie]:
    if lie.stays:
        yield replace(lie, stays=False)
    for method in lie.survives:
        yield replace(lie, survives=tuple(m for m in lie.survives if m is not method))
    if lie.kept != Kept():
        yield replace(lie, kept=Kept())
    for trigger in _triggers(lie.trigger):
        yield replace(lie, trigger=trigger, stays=lie.stays and trigger.needs_read)


def _triggers(trigger: Trigger) -> Iterator[Trigger]:
    if trigger != Trigger():
        yield Trigger()
    yield from trigger.parts
    for number in sorted({1, trigger.number // 2, trigger.number - 1}):
        if 1 <= number < trigger.number:
            yield replace(trigger, number=number)
    for index, part in enumerate(trigger.parts):
        for less in _triggers(part):
            parts = (*trigger.parts[:index], less, *trigger.parts[index + 1 :])
            yield replace(trigger, parts=parts)


def _abilities(able: Abilities) -> Iterator[Abilities]:
    plain = Abilities()
    for method in able.methods:
        yield replace(able, methods=tuple(m for m in able.methods if m is not method))
    if able.layout is not Layout.ONE:
        yield replace(able, layout=Layout.ONE)
    if able.buffer is not Buffer.NONE:
        yield replace(able, buffer=Buffer.NONE)
    if able.management:
        yield replace(able, management=plain.management)
    if able.metadata:
        yield replace(able, metadata=plain.metadata)
    if able.subsystem_reset:
        yield replace(able, subsystem_reset=plain.subsystem_reset)
    if able.verify:
        yield replace(able, verify=plain.verify)
