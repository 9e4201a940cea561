"""Compute hosts: whose word is believed, and their accounts at the broker."""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.hostcard import HostCard
from eraser.protocol.identity import Slot
from eraser.protocol.report import SeenDrive
from eraser.protocol.ticket import DefenceSeen, Exemption
from eraser.protocol.transport.signing import PublicKey
from quarantine.errors import BadInputError, UnknownError, UnreadableError
from quarantine.operations.documents import load
from quarantine.operations.plane import Plane
from quarantine.record.pages import HostLine as HostLine
from quarantine.record.words.facts import HostRecord
from quarantine.record.words.states import FREE_TO_SCHEDULE
from quarantine.rules import defences as rules
from quarantine.rules import maintenance
from quarantine.rules.action import ServiceLimits
from quarantine.rules.maintenance import Maintenances

LOG = logging.getLogger(__name__)

_HOSTS_AT_ONCE: Final = 100
"""Each with the hello that it said last."""


@dataclass(frozen=True)
class HostView:
    """One registered host and what it said last. Times are UTC."""

    host: str
    incarnation: str
    key: str
    """Thumbprint."""
    registered_at: datetime
    heard_at: datetime | None
    version: str | None
    drives: tuple[SeenDrive, ...]
    cases: tuple[str, ...]
    """Orders of its open cases."""
    maintenance: str = ""
    """Until when its silence calls nobody, and why; empty where it does."""
    defences: tuple[DefenceSeen, ...] = ()
    """How those stand that ``[gate]required_defences`` asks for."""
    lacks: str = ""
    """What it lacks of them: no drive is given back to it. Empty where nothing, or where it never
    said anything."""
    exemptions: tuple[Exemption, ...] = ()
    """NVMe functions that its gate leaves to any guest, by a person's word."""


@dataclass(frozen=True)
class HostRemoval:
    """A host that is believed no more."""

    host: str
    taken_back: tuple[Slot, ...]
    """Its slots on offer: the running service takes them back with its next sweep."""


def find(plane: Plane, *, silent: bool = False, limit: int | None = None) -> Iterator[HostView]:
    """All registered hosts, or those that were not heard for ``[detection]silent_after``, some
    read at a time; at most so many.

    One that cannot be read is left out, and the log says so. Raises ``UnavailableError``, also on
    the way.
    """
    left, after = limit, ""
    while left is None or left > 0:
        most = _HOSTS_AT_ONCE if left is None else min(_HOSTS_AT_ONCE, left)
        names = [line.name for line in page(plane, limit=most, after=after, silent=silent or None)]
        if not names:
            return
        with plane.parts() as parts:
            records, unread = parts.store.every_host(names)
            quiet = Maintenances.of(parts.store.maintenances_on(names))
            limits = ServiceLimits.from_conf(parts.conf)
        for line in unread:
            LOG.warning("not all of the list can be read: %s", line)
        yield from (_view(record, quiet, limits) for record in records)
        left, after = None if left is None else left - len(names), names[-1]


def page(
    plane: Plane, *, limit: int, after: str = "", silent: bool | None = None
) -> tuple[HostLine, ...]:
    """Registered hosts by name, those behind ``after``, without what they said. ``silent``: of
    those alone that were not heard for ``[detection]silent_after``, or that were."""
    with plane.parts() as parts:
        since = parts.doors.now() - timedelta(seconds=parts.conf.detection.silent_after)
        return tuple(
            parts.store.host_page(
                limit=limit,
                after=after,
                heard_since=since if silent is False else None,
                not_since=since if silent else None,
            )
        )


def show(plane: Plane, host: str) -> HostView:
    """One host and what it sees. Raises ``UnknownError`` where it is not registered."""
    with plane.parts() as parts:
        record = parts.store.host(host)
        if record is None:
            raise _unknown(host)
        quiet = Maintenances.of(parts.store.maintenances(host))
        return _view(record, quiet, ServiceLimits.from_conf(parts.conf))


@dataclass(frozen=True)
class HostDefences:
    """How what keeps guests from an unerased drive stands on a host, by its own word."""

    seen: tuple[DefenceSeen, ...]
    """Of those that ``[gate]required_defences`` asks for."""
    lacking: str
    """In words; empty where nothing is. Of a row that cannot be read, that."""


def defences(plane: Plane, names: Collection[str]) -> Mapping[str, HostDefences]:
    """Of each of these hosts that is registered, and was heard. Raises ``UnavailableError``."""
    found = {}
    with plane.parts() as parts:
        limits = ServiceLimits.from_conf(parts.conf)
        read = {record.name: record for record in parts.store.hosts(names)}
        for name in names:
            try:
                record = read.get(name) or parts.store.host(name)
            except UnreadableError as error:
                found[name] = HostDefences((), str(error))
                continue
            if record is not None and record.heard_at is not None:
                found[name] = HostDefences(
                    rules.stand(record, limits), rules.lacking(record, limits)
                )
    return found


def maintained(plane: Plane, names: Collection[str]) -> Mapping[str, str]:
    """Of each of these hosts that is in maintenance, until when and why. Raises
    ``UnavailableError``."""
    with plane.parts() as parts:
        quiet = Maintenances.of(parts.store.maintenances_on(names))
    return {name: maintenance.words(quiet.of_host(name)) for name in quiet.hosts}


def register(plane: Plane, raw: bytes, where: str, *, replace: bool = False) -> HostView:
    """Believes the key of a host card (JSON) from now on; ``where`` names it in errors.

    With ``replace`` the host was installed anew: its older orders and reports are void. Raises
    ``BadInputError``, and ``ConflictError`` where the host has another key and ``replace`` is not.
    """
    card = load(HostCard, raw, where)
    try:
        key = PublicKey.from_jwk(card.key, where)
    except BadWireError as error:
        raise BadInputError(str(error)) from error
    if not 16 <= len(card.incarnation) <= 64 or not card.incarnation.replace("-", "").isalnum():
        raise BadInputError(
            f"{where}: expected an incarnation of 16 to 64 letters and digits, "
            f"found {card.incarnation[:70]!r}"
        )
    with plane.parts() as parts:
        record = parts.store.register_host(card.host, key, card.incarnation, replace=replace)
        quiet = Maintenances.of(parts.store.maintenances(card.host))
        return _view(record, quiet, ServiceLimits.from_conf(parts.conf))


def remove(plane: Plane, host: str) -> HostRemoval:
    """Believes a host no more. Raises ``UnknownError`` where it is not registered."""
    with plane.parts() as parts:
        if not parts.store.remove_host(host):
            raise _unknown(host)
        offered = []
        if parts.conf.gate.required:  # else it needs no word of its host, and stays
            offered = parts.store.slots(host=host, states=FREE_TO_SCHEDULE)
    return HostRemoval(host, tuple(record.slot for record in offered))


def accounts(plane: Plane, passwords: Path, *, others: Collection[str] = ()) -> str:
    """The accounts of Redis for its ``aclfile``: of each host, of ``others``, and our own.

    Passwords that the file does not have yet are made and written. Raises ``BadInputError``.
    """
    from quarantine.service.issue import brokeracl

    with plane.parts() as parts:
        hosts = sorted({*parts.store.host_names(), *others})
    return brokeracl.render(hosts, brokeracl.passwords(passwords, hosts))


def _unknown(host: str) -> UnknownError:
    return UnknownError(f"host {host}: expected a registered host, found none")


def _view(record: HostRecord, quiet: Maintenances, limits: ServiceLimits) -> HostView:
    hello = record.hello
    gate = hello.gate if hello else None
    return HostView(
        host=record.name,
        incarnation=record.incarnation,
        key=record.key.thumbprint,
        registered_at=record.registered_at,
        heard_at=record.heard_at,
        version=hello.version if hello else None,
        drives=hello.drives if hello else (),
        cases=hello.cases if hello else (),
        maintenance=maintenance.words(quiet.of_host(record.name)),
        defences=rules.stand(record, limits),
        lacks=rules.lacking(record, limits),
        exemptions=gate.exemptions if gate else (),
    )
