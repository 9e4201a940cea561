"""The last gate, as this host describes it with each hello.

It never raises: what could not be looked at is told as unknown, and the hello goes out.
"""

from __future__ import annotations

import dataclasses
import functools
import logging
from collections.abc import Iterator
from pathlib import Path

from eraser.agent.bounded_probes import BoundedProbes
from eraser.defences import assessment, facts, hostrules, setup, sightings, withoutrules
from eraser.errors import EraserError
from eraser.host import domains
from eraser.host.sysfs import NVME_CLASS, Host
from eraser.ownership import audit, turned_away
from eraser.ownership import store as books
from eraser.ownership.model import Book
from eraser.protocol.ticket import (
    MAX_DOMAINS,
    MAX_EXEMPTIONS,
    MAX_REFUSED,
    Defence,
    DefenceSeen,
    DefenceStanding,
    DomainSeen,
    Exemption,
    GateTestimony,
    OwnerRefused,
)

LOG = logging.getLogger(__name__)

LOOK_SECONDS = 10.0
"""For all of /proc: milliseconds on a host at rest. Not less, because what is told as unknown costs
the host its free slots; and while a look is stuck the next hellos do not wait for it at all."""

MAX_REASON = 120
"""Characters of a person's reason in a hello; the host's file has all of it."""

MAX_NAME = 64
"""Characters of a person's name, and of a time."""

MAX_FOUND = 400
"""Characters of why the gate refused an owner; the syslog has all of it."""


class GateStatus:
    """Looks at the gate of one host, again and again."""

    def __init__(self, state_dir: Path, run_dir: Path, host: Host) -> None:
        self._state_dir = state_dir
        self._run_dir = run_dir
        self._host = host
        self._apart = facts.Apart()
        self._blind = False
        self._looks: BoundedProbes[tuple[DefenceSeen, ...]] = BoundedProbes(
            clock=host.clock.monotonic
        )

    def gate(self) -> GateTestimony:
        """Everything, as it is now."""
        seen = self.defences()
        try:
            book = books.load(self._state_dir)
            exemptions = audit.exemptions(self._state_dir)
        except (EraserError, OSError) as error:
            LOG.error("the gate refuses every guest with a drive: %s", error)
            why = f"the gate refuses all guests with drives: {error}"
            return GateTestimony(_not_known(seen, why), (), (), ())
        domains_seen: tuple[DomainSeen, ...] = ()
        try:
            domains_seen = self._domains(book, exemptions.addresses)
        except (EraserError, OSError) as error:
            LOG.error("the hello names no domains: %s", error)
            # No domains is also what a host without guests says: whoever got past the gate would
            # be missed.
            seen = _not_known(seen, f"which guests have drives cannot be told: {error}")
        return GateTestimony(
            defences=seen,
            domains=domains_seen,
            tickets=books.seen_tickets(book),
            allowances=book.used_allowances,
            exemptions=tuple(self._exempt(book, exemptions)),
            refused=tuple(self._refused(book, exemptions.addresses)),
        )

    def defences(self) -> tuple[DefenceSeen, ...]:
        """How each defence stands."""
        found = self._looks.take({"defences": self._defences}, LOOK_SECONDS)
        return found.get("defences") or tuple(
            assessment.unknown(defence, f"no answer within {LOOK_SECONDS:g} s")
            for defence in Defence
        )

    def _defences(self) -> tuple[DefenceSeen, ...]:
        try:
            made = setup.load(self._state_dir)
        except EraserError as error:
            return tuple(assessment.unknown(defence, error) for defence in Defence)
        seen = self._sightings()
        slots = () if made is None else made.slots
        drift = functools.partial(self._drift, slots)
        return facts.defences_seen(self._host, self._run_dir, made, drift, self._apart, seen)

    def _sightings(self) -> sightings.Sightings:
        """None where they cannot be read: they are one proof more that a daemon calls the hook, and
        without them it is shown as it was before there were any."""
        try:
            found = sightings.load(self._state_dir)
        except EraserError as error:
            # Once: each hello looks, and host-setup's next run writes them anew.
            if not self._blind:
                LOG.warning("host-setup's sightings of the hook do not count: %s", error)
            self._blind = True
            return facts.NO_SIGHTINGS
        self._blind = False
        return found

    def _drift(self, slots: tuple[str, ...]) -> tuple[str, ...]:
        missing = hostrules.check(slots, self._host.root)
        line = withoutrules.find(self._host, self._state_dir, slots).line
        return (*missing, line) if line else missing

    def _domains(self, book: Book, exempt: frozenset[str]) -> tuple[DomainSeen, ...]:
        """Raises ``EraserError`` and ``OSError`` where they cannot be read."""
        listed = domains.listed(self._host)
        known = {entry.address for entry in book.entries}
        # The control plane takes no longer list; the running ones stand first in it.
        return tuple(self._seen(listed, book, known, exempt))[:MAX_DOMAINS]

    def _seen(
        self,
        listed: tuple[domains.ListedDomain, ...],
        book: Book,
        known: set[str],
        exempt: frozenset[str],
    ) -> Iterator[DomainSeen]:
        # Running ones first: what they have counts. A definition adds what the next start gets.
        shown: dict[str, set[str]] = {}
        for each in sorted(listed, key=lambda each: not each.running):
            named = each.named
            before = shown.setdefault(named.uuid or named.domain, set())
            new = {
                # Each further definition of a domain tells only of what those before did not.
                address
                for address in named.addresses - before
                if address in known or (address not in exempt and self._is_nvme(address))
            }
            before.update(new)
            # Apart: nobody let it in on an exempt one, and that says nothing of the others.
            for addresses in filter(None, (new - exempt, new & exempt)):
                owners = {
                    # Recorded means that the gate let this very domain in on each of them.
                    owner.domain if (owner := book.entry(address).owner) is not None else ""
                    for address in addresses
                }
                yield DomainSeen(
                    uuid=named.uuid,
                    name=named.domain,
                    addresses=tuple(sorted(addresses)),
                    running=each.running,
                    recorded=bool(named.uuid) and owners == {named.uuid},
                )

    def _exempt(self, book: Book, exemptions: audit.Exemptions) -> Iterator[Exemption]:
        """In short, and not too many: whatever stands in the file, a hello must not grow too long
        to be taken. Those that are or were slots first: they may be on offer."""
        known = {entry.address for entry in book.entries}
        given = {each.address: each for each in exemptions.exemptions}
        # False sorts first: those that the book knows come before all others.
        order = sorted(given, key=lambda address: (address not in known, address))
        for each in sorted(order[:MAX_EXEMPTIONS]):
            yield dataclasses.replace(
                given[each],
                reason=_short(given[each].reason, MAX_REASON),
                by=_short(given[each].by, MAX_NAME),
                at=_short(given[each].at, MAX_NAME),
            )

    def _refused(self, book: Book, exempt: frozenset[str]) -> Iterator[OwnerRefused]:
        """In short: names and texts are the guests' and the drives'. On an exempt address its
        guest starts unasked, and the book never tells that it did."""
        kept = turned_away.standing(self._state_dir, book)
        for each in [one for one in kept if one.address not in exempt][:MAX_REFUSED]:
            yield dataclasses.replace(
                each, name=_short(each.name, MAX_NAME), found=_short(each.found, MAX_FOUND)
            )

    def _is_nvme(self, address: str) -> bool:
        try:
            return self._host.text(f"/sys/bus/pci/devices/{address}/class") == NVME_CLASS
        except OSError:
            return False


def _short(text: str, limit: int) -> str:
    """At most so many characters of one byte in JSON each, or of two to four where they are no
    ASCII; a control character would be six."""
    return "".join(each if each.isprintable() else "?" for each in text[:limit])


def _not_known(seen: tuple[DefenceSeen, ...], why: str) -> tuple[DefenceSeen, ...]:
    """A gate that lets nobody in is no defence to offer drives behind, nor is one of which nobody
    can tell who got past it."""
    return tuple(
        assessment.unknown(Defence.HOOK, why)
        if each.defence is Defence.HOOK and each.standing is DefenceStanding.PRESENT
        else each
        for each in seen
    )
