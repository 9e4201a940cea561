"""Maintenance of a host or a slot: for a time nobody is called because it is silent or late.

Nothing else changes by it: no step of a slot, no gate, no right to be on offer. It ends by itself.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import datetime
from typing import Final

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine.errors import BadInputError, ConflictError, StaleError, UnknownError
from quarantine.operations.plane import Plane
from quarantine.record.store import Store
from quarantine.record.words.facts import Initiator as Initiator
from quarantine.record.words.facts import Maintenance as Maintenance
from quarantine.record.words.facts import Subject as Subject
from quarantine.record.words.texts import storable
from quarantine.rules import maintenance
from quarantine.rules.maintenance import Maintenances as Maintenances

_TRIES: Final = 5
"""How often it is written behind somebody else's word, where that does not matter."""


def begin(
    plane: Plane,
    subject: Subject,
    *,
    until: datetime,
    reason: str,
    by: Initiator,
    behind: Collection[int] | None = None,
) -> Maintenance:
    """Begins one, or gives the present one another end and reason.

    ``behind``: the version in effect has to be one of these, 0 for none; None: as it is now. Raises
    ``BadInputError`` for an end that is over or too far away, ``UnknownError`` for a host or a slot
    that nobody knows, ``StaleError``, ``UnavailableError``.
    """
    _require_words(reason, by)
    with plane.parts() as parts:
        longest = float(parts.conf.detection.longest_maintenance)
        seconds = (until - parts.doors.now()).total_seconds()
        if not 0 < seconds <= longest:
            raise BadInputError(
                f"until: expected a time to come, at most {longest:g} s from now "
                f"([detection]longest_maintenance), found {until.isoformat()[:40]}"
            )
        _require_known(parts.store, subject)
        return _put(parts.store, subject, until, reason, by, behind)


def end(
    plane: Plane,
    subject: Subject,
    *,
    reason: str,
    by: Initiator,
    behind: Collection[int] | None = None,
) -> Maintenance:
    """Ends one before its time.

    Raises ``UnknownError`` where none is in effect, ``StaleError``, ``UnavailableError``.
    """
    _require_words(reason, by)
    with plane.parts() as parts:
        present = parts.store.maintenance(subject)
        if present is None:
            raise _none(subject)
        return _put(parts.store, subject, None, reason, by, behind)


def show(plane: Plane, subject: Subject) -> Maintenance:
    """That of this very host or slot. Raises ``UnknownError`` where none is in effect."""
    with plane.parts() as parts:
        found = parts.store.maintenance(subject)
    if found is None:
        raise _none(subject)
    return found


def page(
    plane: Plane, *, limit: int, host: str | None = None, after: Subject | None = None
) -> tuple[Maintenance, ...]:
    """Those in effect by host and address, of all hosts or of one. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.maintenance_page(host=host, limit=limit, after=after))


def in_effect(plane: Plane, hosts: Collection[str]) -> Maintenances:
    """Those of now of some hosts and of their slots, to hold these slots against. Raises
    ``UnavailableError``."""
    with plane.parts() as parts:
        return Maintenances.of(parts.store.maintenances_on(hosts))


def history(
    plane: Plane, subject: Subject, *, limit: int, after: int = 0
) -> tuple[Maintenance, ...]:
    """All that was ever said of a subject's, oldest first, behind a version."""
    with plane.parts() as parts:
        return tuple(parts.store.maintenance_history(subject, limit=limit, after=after))


def newest(plane: Plane, subject: Subject, limit: int) -> tuple[Maintenance, ...]:
    """What was said of a subject last, the newest first."""
    with plane.parts() as parts:
        return tuple(parts.store.newest_maintenances(subject, limit))


def words(*found: Maintenance | None) -> str:
    """For people: until when, and why."""
    return maintenance.words(*found)


def _put(
    store: Store,
    subject: Subject,
    until: datetime | None,
    reason: str,
    by: Initiator,
    behind: Collection[int] | None,
) -> Maintenance:
    # True in the last try alone.
    for last in (*(False,) * (_TRIES - 1), True):
        try:
            return store.put_maintenance(subject, until=until, reason=reason, by=by, behind=behind)
        except StaleError:
            # A StaleError is a ConflictError too, and no retry makes it right: the version is
            # another one.
            raise
        except ConflictError:
            # A slot's progress, say, or another's word: the next try sees which.
            if last:
                raise
    raise AssertionError("unreachable")


def _require_words(reason: str, by: Initiator) -> None:
    if not reason.strip() or not by.user.strip():
        raise BadInputError(
            "maintenance: expected a reason and the name of who decides, found none"
        )


def _require_known(store: Store, subject: Subject) -> None:
    if subject.address:
        if store.slot(Slot(subject.host, subject.address)) is not None:
            return
        raise UnknownError(f"{subject}: expected an enrolled slot")
    host = storable(subject.host)
    # A host may have enrolled slots before it is registered: its delays can be expected too.
    if store.host(host) is None and not store.slots(host=host):
        raise UnknownError(
            f"host {codec.shown(subject.host)}: expected a registered host, or one with enrolled "
            "slots, found neither"
        )


def _none(subject: Subject) -> UnknownError:
    return UnknownError(f"{subject}: expected it in maintenance, found that it is not")
