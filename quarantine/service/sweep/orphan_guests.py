"""Ghosts: guests that may use a drive although Placement says that nobody does.

A server that is deleted while its host is down runs on; so does one that was evacuated from a host
that comes back; and allocations can be deleted by hand. Before a drive is touched Nova's own
records must agree with Placement, and an answer that cannot be had counts as a ghost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final, Protocol

from eraser.protocol.identity import Slot
from quarantine.cloud.novafacts import BUILDING, SOFT_DELETED, ComputeService, Migration, Server
from quarantine.errors import QuarantineError, UnavailableError
from quarantine.record.words.facts import SlotRecord
from quarantine.service.sweep.service_hosts import ServiceHosts, UnsaidError

LOG = logging.getLogger(__name__)

KEEP_SECONDS: Final = 5.0
"""Answers about a host are kept so long: 24 slots that are released at once cost one round. They
count for drives that were let go of before we asked."""

AWAY_SECONDS: Final = 20.0
"""A Nova that did not answer is not asked again for so long, about whatever host."""

LEFT_OVER_SECONDS: Final = 3600.0
"""After so long Nova is asked anew about who holds something and was no server."""

_AWAY: Final = "Nova or Placement does not answer the question for ghosts"


@dataclass(frozen=True)
class HostFacts:
    """What Nova and Placement say of one compute host at about one moment."""

    node: str
    service: ComputeService | None
    """As it stood before the lists and after them: down where it was down once."""
    servers: tuple[Server, ...]
    migrations: tuple[Migration, ...]
    """The unfinished ones, from here or to here."""
    devices: frozenset[str]
    """The providers in the host's tree that stand for PCI devices."""
    drives: frozenset[str]
    """Those of them that stand for drives."""
    held: Mapping[str, Mapping[str, int]]
    """What servers with devices, and both consumers of each migration, have in the host's tree:
    units by provider."""
    needs: Mapping[str, int | None]
    """How many devices the flavor of a moving server asks for, where the move keeps the flavor;
    None where Nova does not show it."""
    others: Mapping[str, int] = field(default_factory=dict)
    """How many of the devices that a server's flavor asks for need be no drives."""
    unlisted: str | None = None
    """One that Placement has on the host, and Nova too, but not in its lists."""


def ghosts(facts: HostFacts, consumer: str | None) -> tuple[str, ...]:
    """Why a drive of the host must not be touched now, each reason one sentence; empty: nothing.

    ``consumer`` had the drive last.
    """
    return tuple(dict.fromkeys(_ghosts(facts, consumer)))


def _ghosts(facts: HostFacts, consumer: str | None) -> Iterator[str]:
    service = facts.service
    if service is None:
        yield f"Nova has no compute service for {facts.node}: its guests may run on"
    # Nova deletes a server's records although its nova-compute is down, and the guest runs on.
    elif not service.up:
        how = "forced down" if service.forced_down else "down"
        yield f"the compute service of {facts.node} is {how}: deleted guests may run on there"
    if facts.unlisted is not None:
        # Each list is a question of its own to all cells, and one that fails is left out of it.
        yield f"{facts.unlisted} is on {facts.node}, and Nova's lists are without it"
    for server in facts.servers:
        if server.vm_state == "error" and not server.launched:
            continue  # its guest never ran, and Nova has given up its allocation
        if server.vm_state == SOFT_DELETED and server.uuid == consumer:
            yield f"server {server.uuid}, which had the drive, may still be restored"
            continue
        # While a server moves, what it has on its old host is its migration's.
        moves = (m.uuid for m in facts.migrations if m.server == server.uuid)
        lacks = _lacks(facts, server.uuid, server.devices, (server.uuid, *moves))
        if lacks:
            yield f"server {server.uuid} is on {facts.node}, and Placement has {lacks} for it there"
    for migration in facts.migrations:
        both: tuple[str, ...] = (migration.uuid, migration.server)
        if migration.may_return:
            # What the server has is its new drives; those that a revert wants back are these.
            both = (migration.uuid,)
        if migration.server in facts.needs:
            lacks = _lacks(facts, migration.server, facts.needs[migration.server], both)
        else:
            # Its server may be gone or get another flavor: then anything that it holds will do.
            lacks = "" if any(facts.held.get(each) for each in both) else "nothing"
        if lacks:
            yield (
                f"{migration.kind or 'migration'} {migration.uuid} of server {migration.server} is "
                f"{migration.status}, and Placement has {lacks} for it on {facts.node}"
            )


def _lacks(facts: HostFacts, server: str, devices: int | None, consumers: Iterable[str]) -> str:
    """What is too little, in words; empty where nothing is missing.

    A server that has lost one of its two drives in Placement may still run with both. Without a
    number of devices one drive will do: CPUs are no sign of it.
    """
    held = [facts.held.get(each, {}) for each in consumers]
    drives = sum(units for each in held for uuid, units in each.items() if uuid in facts.drives)
    if devices is None:
        return "" if drives else "no drive (nor does Nova show us the extra specs of its flavor)"
    rest = facts.devices - facts.drives
    others = sum(units for each in held for uuid, units in each.items() if uuid in rest)
    # The device of a neutron port is in no flavor; Nova has an allocation for it all the same where
    # its physical_network is null (``_add_dev`` of pci_placement_translator).
    has = drives + min(others, facts.others.get(server, 0))
    if has >= devices:
        return ""
    uncounted = drives + others - has
    odd = f", beside {uncounted} that count for none ([compute]drive_aliases)" if uncounted else ""
    return f"{has} of {devices} devices{odd}"


@dataclass(frozen=True)
class _Answer:
    """What came of a round of questions."""

    asked: float
    """When it began."""
    given: float
    facts: HostFacts | str
    """Or why nobody can say."""

    def clears(self, record: SlotRecord) -> bool:
        """Nothing in it speaks against an erase of the slot's drive."""
        return not isinstance(self.facts, str) and not ghosts(self.facts, record.consumer)

    def has_user(self, provider: str) -> bool:
        """A server had the drive then."""
        facts = self.facts
        return not isinstance(facts, str) and any(provider in has for has in facts.held.values())


class HostNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def service_host(self, node: str) -> str | None:
        """The service host of a hypervisor."""

    def compute_services(self, host: str) -> list[ComputeService]:
        """Its nova-compute."""

    def servers(self, host: str) -> list[Server]:
        """Its servers."""

    def migrations(self, host: str) -> list[Migration]:
        """Its migrations."""

    def server(self, server: str) -> Server | None:
        """A server; None where Nova has it no more."""


class Tree(Protocol):
    """What is asked of :class:`quarantine.cloud.placement.Placement`."""

    def tree(self, host: str) -> Mapping[str, Slot | None]:
        """All providers of a host, and the slots that they stand for."""

    def users(self, host: str) -> frozenset[str]:
        """Who has CPUs or memory of a host."""

    def burning(self, near: str) -> frozenset[str]:
        """The one-time-use providers in the tree of that one."""

    def held(self, consumer: str) -> Mapping[str, int]:
        """Units that a consumer has of each provider."""


class OrphanGuestCheck:
    """Asks Nova and Placement about one host, at most once in :data:`KEEP_SECONDS`."""

    def __init__(
        self,
        nova: HostNova,
        placement: Tree,
        monotonic: Callable[[], float] = time.monotonic,
        *,
        drive_aliases: Container[str] | None = None,
        enrolled: Callable[[str], Collection[str]] = lambda _host: (),
    ) -> None:
        """``drive_aliases`` of flavors ask for drives, and others may ask for other devices; None:
        every one asks for drives. ``enrolled`` gives the providers of a host's enrolled slots."""
        self._nova = nova
        self._hosts = ServiceHosts(nova, monotonic)
        self._placement = placement
        self._now = monotonic
        self._drive_aliases = drive_aliases
        self._enrolled = enrolled
        self._known: dict[str, _Answer] = {}
        self._no_servers: dict[str, Mapping[str, float]] = {}
        """By node, who holds something there and is no server, or is one no more; and when Nova
        said so."""
        self._away_until = -float("inf")

    def of(self, record: SlotRecord, unchanged: float) -> tuple[str, ...]:
        """Why nothing may be sent to the slot's drive now. A Nova that is away is a reason.

        For so many seconds nobody got the drive: who had it had it before.
        """
        kept = self._known.get(record.slot.host)
        if kept is not None and kept.clears(record):
            # Its user was in order then, and may be a ghost by now: the allocation alone may be
            # gone. Reasons to wait are good enough for as long as they are kept.
            late = self._now() - kept.asked > unchanged
            if late or kept.has_user(record.provider):
                del self._known[record.slot.host]
        facts = self._facts(record.slot.host)
        return (facts,) if isinstance(facts, str) else ghosts(facts, record.consumer)

    def _facts(self, node: str) -> HostFacts | str:
        kept = self._known.get(node)
        asked = self._now()
        # Kept from its end: a timeout may be longer than what is kept.
        if kept is not None and asked - kept.given < KEEP_SECONDS:
            return kept.facts
        if asked < self._away_until:
            return _AWAY
        facts: HostFacts | str
        try:
            facts = self._ask(node)
        except (QuarantineError, LookupError, TypeError, ValueError) as error:
            # Also an answer without what Nova's reference promises: it must not end each look.
            # The words of an error change from try to try; what stands on the record must not.
            what = error if isinstance(error, QuarantineError) else repr(error)
            LOG.warning("%s: ghosts cannot be looked for: %s", node, what)
            facts = "Nova or Placement refuses the question for ghosts; the log says why"
            if isinstance(error, UnsaidError):
                # Of other hosts Nova may have said it, and that is enough to ask for them.
                facts = _AWAY
            elif isinstance(error, UnavailableError):
                # Each try may cost a timeout, and all other slots wait for this one.
                self._away_until = self._now() + AWAY_SECONDS
                return _AWAY
        self._known[node] = _Answer(asked, self._now(), facts)
        return facts

    def _ask(self, node: str) -> HostFacts:
        host = self._hosts.of(node)
        if host is None:
            return HostFacts(node, None, (), (), frozenset(), frozenset(), {}, {})
        # Before the lists too: while it was down, servers may have been deleted whose guests run
        # on.
        service = self._service(host)
        # Without a node: building, or its instance was never claimed; it may get one at any moment.
        listed = self._nova.servers(host)
        servers = tuple(s for s in listed if s.node in (node, None))
        moves = self._nova.migrations(host)
        # Not the migrations' servers: one that came here long ago is named by none of the lists.
        unlisted, no_servers = self._unlisted(
            node, host, {m.uuid for m in moves} | {s.uuid for s in listed}
        )
        moving = [m for m in moves if m.unfinished]
        # An evacuation counts at the host that it left. Nova names no hosts to who may not see them
        # (os-migrations:index:host).
        moving = [m for m in moving if not m.evacuated or m.source in (host, None)]
        if service is not None and service.up:
            # The lists leave out, with a 200, what is in a cell whose database is down; its
            # compute services are then shown without a state (2.69).
            service = self._service(host)
        # Where that is down a 404 is its cell's, and no word about whom we asked for.
        if service is not None and service.up:
            self._no_servers[node] = no_servers
        tree = self._placement.tree(node)
        # None counts too: a flavor whose extra specs are not shown may ask for devices.
        consumers = {s.uuid for s in servers if s.devices != 0}
        consumers |= {each for m in moving for each in (m.uuid, m.server)}
        held = {each: self._held(each, tree) for each in sorted(consumers)}
        moved = {m.server: self._nova.server(m.server) for m in moving}
        migrations = tuple(
            m for m in moving if held[m.uuid] or held[m.server] or _matters(m, moved[m.server])
        )
        return HostFacts(
            node=node,
            service=service,
            servers=servers,
            migrations=migrations,
            devices=frozenset(uuid for uuid, slot in tree.items() if slot is not None),
            drives=self._drives(node, tree),
            held=held,
            needs=_needs(migrations, moved),
            others={s.uuid: self._others(s) for s in (*servers, *moved.values()) if s is not None},
            unlisted=unlisted,
        )

    def _unlisted(
        self, node: str, host: str, listed: Container[str]
    ) -> tuple[str | None, Mapping[str, float]]:
        """One consumer of the host that ``listed`` should have had; and those that are none.

        Not one whose allocation was left over, nor one that begins: it has no node, or no guest.
        """
        missing = {each for each in self._placement.users(node) if each not in listed}
        # Nova is asked seldom about what is left over: it may be there for ever.
        now, kept = self._now(), self._no_servers.get(node, {})
        known = {
            each: at
            for each, at in kept.items()
            if each in missing and now - at < LEFT_OVER_SECONDS
        }
        new: dict[str, float] = {}
        for each in sorted(missing - known.keys()):
            server = self._nova.server(each)
            if server is None:
                new[each] = now
                continue
            begins = server.vm_state == BUILDING and not server.launched
            if not server.readable or (server.node == node and not begins):
                return f"server {each}", known
        late = {m.uuid for m in self._nova.migrations(host)} & new.keys() if new else set()
        found = f"migration {min(late)}" if late else None
        return found, known | {each: at for each, at in new.items() if each not in late}

    def _drives(self, node: str, tree: Collection[str]) -> frozenset[str]:
        """One whose trait was lost is a drive as well, and its server holds it."""
        burning = self._placement.burning(next(iter(tree))) if tree else frozenset()
        return burning | frozenset(self._enrolled(node))

    def _others(self, server: Server) -> int:
        if self._drive_aliases is None:
            return 0
        wanted = server.aliases.items()
        return sum(count for name, count in wanted if name not in self._drive_aliases)

    def _service(self, host: str) -> ComputeService | None:
        return next(iter(self._nova.compute_services(host)), None)

    def _held(self, consumer: str, tree: Container[str]) -> Mapping[str, int]:
        found = self._placement.held(consumer)
        return {uuid: units for uuid, units in found.items() if uuid in tree}


def _matters(migration: Migration, server: Server | None) -> bool:
    """Whether a migration that holds nothing here may have to do with a drive.

    Not that of a deleted server: Nova keeps its row for ever where a nova-compute died with it,
    and what is left of its guest is cleaned up as any deleted server's. Nor a live migration, which
    keeps the flavor, of a server without devices.
    """
    if server is None:
        return False
    return migration.kind != "live-migration" or server.devices != 0


def _needs(
    migrations: Iterable[Migration], moved: Mapping[str, Server | None]
) -> Mapping[str, int | None]:
    """Where no migration of the server is a resize: that one has another flavor on either side."""
    resized = {m.server for m in migrations if m.kind == "resize"}
    found = {m.server: moved[m.server] for m in migrations if m.server not in resized}
    return {uuid: s.devices for uuid, s in found.items() if s is not None and s.devices != 0}
