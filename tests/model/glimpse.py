"""A slot's record as other hosts' slots get to know it: its drive and its state, nothing else."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, NoReturn

from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import State
from tests.model.papers import RECORDS, identity, slot
from tests.model.world import NOWHERE


class UnseenError(BaseException):
    """A decision depends on more than it was thought to. No ``Exception``: the inbox holds a slot
    for one of these as for a mistake of its own, and the search would leave out what follows."""


class Unseen:
    """Stands where something is that nobody may look at: any use of it is an error."""

    def _used(self, *_: object) -> NoReturn:
        raise UnseenError

    __bool__ = __eq__ = __lt__ = __gt__ = __add__ = __sub__ = __index__ = _used
    __str__ = __repr__ = __iter__ = __len__ = __getattr__ = _used
    __hash__ = object.__hash__


UNSEEN: Any = Unseen()


class Glimpse(SlotRecord):
    """Only ``slot``, and as far as they were shown ``state``, ``identity`` and ``reason``."""


@functools.cache
def glimpse(place: int, state: State, drive: int) -> int:
    """The number of such a record. Its reason is empty, as all are in the model."""
    who = None if drive == NOWHERE else identity(drive)
    return _record(slot=slot(place), state=state, identity=who, reason="")


@functools.cache
def hidden(place: int) -> int:
    """The number of a record of which nothing is shown."""
    return _record(slot=slot(place))


def _record(**shown: Any) -> int:
    nothing = {each.name: UNSEEN for each in dataclasses.fields(SlotRecord)}
    return RECORDS.number(Glimpse(**(nothing | shown)))
