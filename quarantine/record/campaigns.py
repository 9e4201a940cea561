"""Campaigns: which slots are to be erased again, and what became of each."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable, Iterator
from dataclasses import fields, replace
from datetime import datetime, timedelta

import sqlalchemy as sa

from quarantine.errors import (
    ConflictError,
    IllegalTransitionError,
    StaleError,
    UnknownError,
    UnreadableError,
)
from quarantine.record.database import models, rows
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import (
    UNREADABLE,
    counted,
    fits,
    of_the_row,
    readable,
    separately,
    told,
)
from quarantine.record.database.lines import named_page
from quarantine.record.database.rows import Row
from quarantine.record.words.campaign_facts import (
    ENDED,
    Campaign,
    CampaignActLine,
    CampaignSlot,
    CampaignSlotLine,
    CampaignState,
    CampaignStep,
)
from quarantine.record.words.facts import Initiator
from quarantine.record.words.states import State
from quarantine.record.words.texts import storable

LOG = logging.getLogger(__name__)

_TABLE, _SLOTS, _ACTS = models.campaigns, models.campaign_slots, models.campaign_acts
_LINE = tuple(_SLOTS.c[field.name] for field in fields(CampaignSlotLine)[:-1])
_ACT = (
    *(_ACTS.c.version, _ACTS.c.at, _ACTS.c.state, _ACTS.c.reason),
    *(_ACTS.c.by_user, _ACTS.c.by_project, _ACTS.c.by_request),
)
_CHUNK = 500

_OPEN = _SLOTS.c.step.not_in([step.value for step in ENDED])
"""Without a result; a step that another release wrote is none."""

_BACK = (State.AVAILABLE.value, State.IN_USE.value)
"""States of a drive that the pool has again."""


class CampaignRepository(Repository):
    """What the store knows about campaigns."""

    def begin_campaign(
        self,
        name: str,
        *,
        query: str,
        reason: str,
        keep: float,
        by: Initiator,
        slots: Iterable[tuple[str, str, str | None]],
    ) -> Campaign:
        """A new one, of slots by host, address and drive; or the one of this very id, where that
        was asked for in the same words.

        Raises :class:`StaleError` where the id is of another one.
        """
        now = self._clock()
        with self._writing() as db:
            known = _find(db, name)
            if known is not None:
                if (known.query, known.keep, known.reason) == (query, keep, storable(reason)):
                    return known
                raise StaleError(
                    f"campaign {name}: expected an id that is new, or the campaign of this id in "
                    "the same words, found another one"
                )
            db.execute(
                sa.insert(_TABLE).values(
                    id=name,
                    version=1,
                    state=CampaignState.RUNNING.value,
                    query=query,
                    reason=storable(reason),
                    keep=keep,
                    created_at=now,
                    changed_at=now,
                    **{"by_project": "", "by_request": "", **rows.initiator_columns(by)},
                )
            )
            lines = [
                {
                    "campaign": name,
                    "host": host,
                    "address": address,
                    "step": CampaignStep.WAITING.value,
                    "drive": drive,
                    "generation": 0,
                    "was_free": False,
                    "result": "",
                    "certificate": None,
                    "changed_at": now,
                }
                for host, address, drive in slots
            ]
            for at in range(0, len(lines), _CHUNK):
                db.execute(sa.insert(_SLOTS), lines[at : at + _CHUNK])
            made = _find(db, name)
            assert made is not None
            _note(db, made, reason, by)
            return made

    def campaign(self, name: str) -> Campaign | None:
        """By its id. Raises :class:`UnreadableError`."""
        with self._reading() as db:
            return _find(db, storable(name))

    def campaign_list(self, *, limit: int, after: str = "") -> list[Campaign]:
        """By id, those behind ``after``; the log names each that cannot be read."""
        query = sa.select(_TABLE.c.id).where(_TABLE.c.id > storable(after)).order_by(_TABLE.c.id)
        found: list[Campaign] = []
        taken = 0
        with self._reading() as db:
            while more := limit - len(found):
                page = list(separately(db, query.limit(more).offset(taken), _TABLE.c.id))
                for _id, row, _why in page:
                    try:
                        if row is not None and (known := _find(db, row["id"])) is not None:
                            found.append(known)
                    except UnreadableError as error:
                        LOG.warning("%s", error)
                if len(page) < more:
                    break
                # Counted: the last id may be what cannot be read.
                taken += len(page)
        return found

    def open_campaigns(self) -> list[str]:
        """Ids of those that somebody has to work on: they run, or have slots without a result."""
        waits = sa.exists().where(_SLOTS.c.campaign == _TABLE.c.id, _OPEN)
        # Whatever state and step another release wrote: what it took may be held.
        query = sa.select(_TABLE.c.id).where(
            sa.or_(
                _TABLE.c.state == CampaignState.RUNNING.value,
                (_TABLE.c.state != CampaignState.DONE.value) & waits,
            )
        )
        with self._reading() as db:
            found = readable(db, query.order_by(_TABLE.c.id), (_TABLE.c.id,), _TABLE.c.id)
        return [row[0] for row in found]

    def is_campaign_open(self, name: str) -> bool:
        """Whether some slot of it has no result."""
        query = sa.select(sa.literal(1)).where(_SLOTS.c.campaign == name, _OPEN).limit(1)
        with self._reading() as db:
            return db.execute(query).first() is not None

    def campaign_counts(self, name: str) -> dict[str, int]:
        """Its slots by step. Raises :class:`UnreadableError`."""
        step = _SLOTS.c.step
        query = sa.select(step, sa.func.count()).where(_SLOTS.c.campaign == name).group_by(step)
        with self._reading() as db, told(f"campaign {name}"):
            return {row[0]: row[1] for row in db.execute(query)}

    def campaign_slots(
        self, name: str, *, limit: int, after: tuple[str, str] = ("", ""), open_only: bool = False
    ) -> tuple[list[CampaignSlot], list[CampaignSlotLine]]:
        """Its slots by host and address, those behind ``after``, or of these those without a
        result; beside them the lines that cannot be read, or are another release's.

        Raises :class:`UnreadableError` where not even their names can be read.
        """
        with told(f"campaign {name}"):
            page = self.campaign_lines(name, limit=limit, after=after, open_only=open_only)
        found = [(line, _slot(line)) for line in page]
        return (
            [slot for _line, slot in found if slot is not None],
            [line for line, slot in found if slot is None],
        )

    def campaign_lines(
        self, name: str, *, limit: int, after: tuple[str, str] = ("", ""), open_only: bool = False
    ) -> list[CampaignSlotLine]:
        """The same for a list, each as it is stored."""
        query = sa.select(*_LINE).where(*_of(name, after))
        if open_only:
            query = query.where(_OPEN)
        query = query.order_by(_SLOTS.c.host, _SLOTS.c.address)
        key = (_SLOTS.c.campaign, _SLOTS.c.host, _SLOTS.c.address)
        with self._reading() as db:
            return named_page(db, CampaignSlotLine, query, _LINE, key, limit, "host", "address")

    def taken_from_the_pool(
        self, name: str | None = None, *, claimed: bool = False
    ) -> dict[str, int]:
        """How many drives a campaign, or all together, have taken that were on offer, and are not
        back, by class; one that is held now, or whose host takes no ticket, is not. With
        ``claimed`` also those that are on offer and about to be held."""
        slots = models.slots
        of = slots.c.resource_class
        out: sa.ColumnElement[bool] = slots.c.state.not_in(_BACK)
        if claimed:
            waiting = _SLOTS.c.step == CampaignStep.WAITING.value
            out = sa.or_(out, sa.and_(slots.c.state == State.AVAILABLE.value, waiting))
        query = (
            sa.select(of, sa.func.count(slots.c.id.distinct()))
            .select_from(
                _SLOTS.join(
                    slots,
                    sa.and_(slots.c.host == _SLOTS.c.host, slots.c.address == _SLOTS.c.address),
                )
            )
            .where(
                _SLOTS.c.was_free,
                _SLOTS.c.step != CampaignStep.SKIPPED.value,
                # Back, and let go of by another server since: the pool lacks it without us too.
                sa.or_(
                    _SLOTS.c.step != CampaignStep.DONE.value,
                    slots.c.certificate == _SLOTS.c.certificate,
                ),
                out,
            )
            .group_by(of)
        )
        if name is not None:
            query = query.where(_SLOTS.c.campaign == name)
        with self._reading() as db:
            return dict(counted(db, query, of))

    def write_campaign_slot(self, old: CampaignSlot, new: CampaignSlot) -> CampaignSlot:
        """The line, if it is still at ``old``'s step. Raises :class:`ConflictError`."""
        now = self._clock()
        with self._writing() as db:
            # By the step alone: the lease keeps a second worker away, and where that one came all
            # the same (clocks apart, a turn that hung) the step is what must not be taken twice.
            done = db.execute(
                sa.update(_SLOTS)
                .where(
                    _SLOTS.c.campaign == old.campaign,
                    _SLOTS.c.host == old.host,
                    _SLOTS.c.address == old.address,
                    _SLOTS.c.step == old.step.value,
                )
                .values(
                    step=new.step.value,
                    drive=new.drive,
                    generation=new.generation,
                    was_free=new.was_free,
                    result=storable(new.result),
                    certificate=new.certificate,
                    changed_at=now,
                )
            )
            if done.rowcount != 1:
                raise ConflictError(
                    f"campaign {old.campaign}: {old.host}/{old.address} is not {old.step} any more"
                )
        return replace(new, changed_at=now)

    def set_campaign(
        self,
        name: str,
        state: CampaignState,
        behind: Collection[int] = (),
        *,
        reason: str,
        by: Initiator | None = None,
    ) -> Campaign:
        """Another state, from one that is not over. ``behind``: its version has to be one of these.

        Raises :class:`UnknownError`, :class:`StaleError`, :class:`ConflictError`, and
        :class:`IllegalTransitionError` where it is over.
        """
        over = (CampaignState.DONE, CampaignState.STOPPED)
        name = storable(name)
        with self._writing() as db:
            known = _find(db, name)
            if known is None:
                raise UnknownError(f"campaign {name}: expected one of this id, found none")
            if behind and known.version not in behind:
                raise StaleError(f"campaign {name}: it has changed; look at it again")
            if known.state is state:
                return known
            if known.state in over:
                raise IllegalTransitionError(f"campaign {name}: it is {known.state}, for good")
            done = db.execute(
                sa.update(_TABLE)
                .where(_TABLE.c.id == name, _TABLE.c.version == known.version)
                .values(state=state.value, version=known.version + 1, changed_at=self._clock())
            )
            if done.rowcount != 1:
                raise ConflictError(f"campaign {name}: it has changed; look at it again")
            found = _find(db, name)
            assert found is not None
            _note(db, found, reason, by)
            return found

    def campaign_acts(self, name: str) -> list[CampaignActLine]:
        """Who decided what of it, the newest hundred, the oldest first; what cannot be read is
        left out."""
        query = sa.select(*_ACT).where(_ACTS.c.campaign == name)
        query = query.order_by(_ACTS.c.version.desc()).limit(100)
        with self._reading() as db, told(f"campaign {name}"):
            found = readable(db, query, _ACT, _ACTS.c.version)
        return [_act(*row) for row in reversed(found)]

    def lease_campaign(self, name: str, seconds: float) -> datetime | None:
        """Until when the caller alone works on it, or until it gives it back; None where somebody
        else does."""
        now = self._clock()
        until = now + timedelta(seconds=seconds)
        free = sa.or_(
            _TABLE.c.leased_until.is_(None),
            _TABLE.c.leased_until < now,
            # Written before our clock was set back. Up to ten times its length it is believed: a
            # machine's clock that is ahead, or ours set back by minutes, costs no more than a wait.
            _TABLE.c.leased_until > now + timedelta(seconds=10 * seconds),
        )
        with self._writing() as db:
            done = db.execute(
                sa.update(_TABLE)
                .where(_TABLE.c.id == name, _TABLE.c.state != CampaignState.DONE.value, free)
                .values(leased_until=until)
            )
            return until if done.rowcount == 1 else None

    def unlease_campaign(self, name: str, until: datetime) -> None:
        """Somebody else may go on at once, and who went on already is not disturbed."""
        own = sa.and_(_TABLE.c.id == name, _TABLE.c.leased_until == until)
        with self._writing() as db:
            db.execute(sa.update(_TABLE).where(own).values(leased_until=None))


def _of(name: str, after: tuple[str, str]) -> Iterator[sa.ColumnElement[bool]]:
    yield _SLOTS.c.campaign == name
    # Behind the pair: on the same host with a greater address, or on a later host.
    yield _SLOTS.c.host >= after[0]
    yield sa.or_(_SLOTS.c.host > after[0], _SLOTS.c.address > after[1])


def _find(db: sa.Connection, name: str) -> Campaign | None:
    try:
        row = db.execute(sa.select(_TABLE).where(_TABLE.c.id == name)).mappings().first()
        if row is not None and (damaged := [c.name for c in _TABLE.c if not fits(c, row[c.name])]):
            raise UnreadableError(f"campaign {name}: it cannot be read: {', '.join(damaged)}")
        return None if row is None else _record(row)
    except UNREADABLE as error:
        if not of_the_row(error):
            raise
        why = str(error).partition("\n")[0]
        raise UnreadableError(f"campaign {name}: it cannot be read: {why}") from error


def _note(db: sa.Connection, now: Campaign, reason: str, by: Initiator | None) -> None:
    said = {"campaign": now.id, "version": now.version, "at": now.changed_at}
    said |= {"state": now.state.value, "reason": storable(reason)}
    db.execute(sa.insert(_ACTS).values(**said, **rows.initiator_columns(by)))


def _act(
    version: int,
    at: datetime,
    state: str,
    reason: str,
    user: str | None,
    project: str | None,
    request: str | None,
) -> CampaignActLine:
    by = None if user is None else Initiator(user, project or "", request or "")
    return CampaignActLine(version, at, state, reason, by)


def _record(row: Row) -> Campaign:
    return Campaign(
        id=row["id"],
        version=row["version"],
        state=CampaignState(row["state"]),
        query=row["query"],
        reason=row["reason"],
        keep=row["keep"],
        by=Initiator(row["by_user"], row["by_project"], row["by_request"]),
        created_at=row["created_at"],
        changed_at=row["changed_at"],
    )


def _slot(line: CampaignSlotLine) -> CampaignSlot | None:
    """None for a line that is damaged, or of another release."""
    if line.damaged or line.changed_at is None or line.step not in set(CampaignStep):
        return None
    words = {name: value for name, value in vars(line).items() if name != "damaged"}
    return CampaignSlot(**{**words, "step": CampaignStep(line.step)})
