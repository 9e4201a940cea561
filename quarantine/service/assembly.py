"""Puts the rooms together from the configuration; each part is made when it is first asked for."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.inbound import MessageKind
from eraser.protocol.transport.messaging import BrokerRedis
from quarantine.cloud.compute import Compute
from quarantine.cloud.placement import Placement
from quarantine.errors import BadInputError
from quarantine.evidence import attestations
from quarantine.evidence.attestations import Attestation
from quarantine.evidence.chain import stamps
from quarantine.evidence.sections import Issuer
from quarantine.inputfile import read_file
from quarantine.record.words.states import State
from quarantine.rules.action import ServiceLimits
from quarantine.service.handovers import Handovers
from quarantine.service.inbound.intake import Lane, TooLong, Wanted
from quarantine.service.inbound.lists import Lists
from quarantine.service.inbound.messages import Inbox
from quarantine.service.issue.celery_app import CeleryPost, make_app
from quarantine.service.issue.dispatch import Dispatcher
from quarantine.service.issue.heads import HeadDirectory
from quarantine.service.issue.registrar import Registrar
from quarantine.service.issue.tickets import Tickets
from quarantine.service.issue.tsa import TimeStampAuthority
from quarantine.service.parts import Parts
from quarantine.service.reconciler import Reconciler, told_again, worst_case_detection
from quarantine.service.safety import PASS, Safety
from quarantine.service.sweep.deleted_servers import DeletedServers
from quarantine.service.sweep.left_allocations import LeftAllocations
from quarantine.service.sweep.leftovers import OF_WORKER, Leftovers
from quarantine.service.sweep.orphan_guests import OrphanGuestCheck
from quarantine.service.watch.delays import DelayMeter
from quarantine.service.watch.lateness import Lateness


class Assembly(Parts):
    """One process's parts. Not thread safe, as the Placement client in it is not."""

    @cached_property
    def placement(self) -> Placement:
        """The door to Placement."""
        return self._connect_placement()

    def _connect_placement(self) -> Placement:
        options = self.conf.placement
        return Placement.connect(
            options.cloud, region=options.region, timeout=options.request_timeout
        )

    @cached_property
    def post(self) -> CeleryPost:
        """The way to the hosts' queues."""
        broker = self.conf.broker
        return CeleryPost(make_app(broker.url, timeout=broker.timeout))

    def close(self) -> None:
        """As :meth:`Parts.close`, those to the broker, Placement and Nova too."""
        super().close()
        # By the instance's dictionary: asking for the property would make what is to be closed.
        for name in ("placement", "compute"):
            if name in self.__dict__:
                getattr(self, name).close()
        if "post" in self.__dict__:
            self.post.app.close()

    @cached_property
    def lists(self) -> Lists:
        """What hosts say."""
        return Lists(BrokerRedis(self.post.app))

    @cached_property
    def dispatcher(self) -> Dispatcher:
        """Gives orders."""
        return Dispatcher(
            self.store,
            self.order_key,
            self.post,
            seconds_allowed=self.conf.erase.order_seconds,
            built_in=self.policy,
            clock=self.doors.now,
            uuid=self.doors.uuid,
            token=self.doors.token,
            # The first is today's key.
            former=self.believed.orders[1:],
        )

    @cached_property
    def tickets(self) -> Tickets:
        """Sends tickets."""
        former = self.believed.tickets[1:]
        return Tickets(self.store, self.ticket_key, self.post.ticket, self.doors.now, former)

    @cached_property
    def reconciler(self) -> Reconciler:
        """Moves slots."""
        # Our own files first: their mistakes are found without a cloud.
        dispatcher, limits = self.dispatcher, ServiceLimits.from_conf(self.conf)
        nova, doors = self.conf.compute, self.doors
        guests = handovers = deleted = left = None
        if nova.ghost_checks:
            guests = OrphanGuestCheck(
                self.compute,
                self.placement,
                doors.monotonic,
                drive_aliases=frozenset(nova.drive_aliases),
                enrolled=lambda host: {r.provider for r in self.store.slots(host=host)},
            )
            handovers = Handovers(
                self.compute,
                limits.unknown_grace,
                doors.monotonic,
                doors.now,
                note=self.store.note_move,
            )
            left = LeftAllocations(self.store, self.compute, doors.now, doors.monotonic)
        if nova.deleted_interval:
            deleted = DeletedServers(
                self.compute, nova.deleted_interval, doors.monotonic, doors.now
            )
        return Reconciler(
            self.store,
            self.placement,
            dispatcher,
            limits,
            doors.now,
            tickets=self.tickets,
            orphan_guests=guests,
            deleted_servers=deleted,
            left_allocations=left,
            lateness=self.lateness,
            handovers=handovers,
            monotonic=doors.monotonic,
            uuid=doors.uuid,
        )

    def detection(self) -> tuple[int, float]:
        """Slots in use, and seconds until a release of one is seen without a bell, at worst."""
        used = len(self.store.slots(states=[State.IN_USE]))
        return used, worst_case_detection(ServiceLimits.from_conf(self.conf), used)

    @cached_property
    def lateness(self) -> Lateness:
        """What has to be done again and again; the safety pass matters most."""
        return Lateness(self.doors.monotonic)

    @cached_property
    def safety(self) -> Safety:
        """For a thread of its own: with its own connections to Placement and to the record."""
        safety = Safety(
            self._open_store(),
            self._connect_placement(),
            ServiceLimits.from_conf(self.conf),
            lateness=self.lateness,
            monotonic=self.doors.monotonic,
        )
        self.lateness.expect(PASS, lambda: safety.bound)
        return safety

    @cached_property
    def leftovers_of_worker(self) -> Leftovers:
        """Tells what ended while no worker ran, of what workers alone remember."""
        after, doors = told_again(ServiceLimits.from_conf(self.conf)), self.doors
        return Leftovers(self.store, after, doors.now, doors.monotonic, codes=OF_WORKER)

    @cached_property
    def heads(self) -> HeadDirectory:
        """For a thread of its own: with its own connections to the record.

        Raises :class:`BadInputError` where time stamps are configured that cannot work.
        """
        words, store = self.conf.evidence, self._open_store()
        store.require_schema()
        heads = HeadDirectory(
            store, self.key, Path(words.heads_dir), words.organisation, clock=self.doors.now
        )
        if words.tsa_url is not None:
            stamps.library()
            file = words.tsa_ca
            roots = stamps.roots_of(read_file(Path(file), "tsa_ca"), file) if file else ()
            heads.stamp = TimeStampAuthority(words.tsa_url, roots).stamp
        return heads

    @cached_property
    def delay_meter(self) -> DelayMeter | None:
        """For a thread of its own: with its own connections. None where Nova is not asked, or
        where nobody can read what it finds."""
        nova = self.conf.compute
        if not self.conf.metrics.listen or not (nova.ghost_checks or nova.deleted_interval):
            return None
        return DelayMeter(self._open_store(), self._connect_compute(), self.doors.now)

    @cached_property
    def compute(self) -> Compute:
        """The door to Nova."""
        return self._connect_compute()

    def _connect_compute(self) -> Compute:
        options, placement = self.conf.compute, self.conf.placement
        return Compute.connect(
            options.cloud or placement.cloud,
            region=options.region or placement.region,
            timeout=options.request_timeout,
        )

    @cached_property
    def issuer(self) -> Issuer:
        """The operator's words for certificates."""
        words = self.conf.evidence
        return Issuer(
            organisation=words.organisation,
            person=words.person,
            title=words.title,
            location=words.location,
            contact=words.contact,
            confidentiality_before=words.confidentiality_before,
            confidentiality_after=words.confidentiality_after,
            destination=words.destination,
            verifier_person=words.verifier_person,
            verifier_title=words.verifier_title,
            verifier_location=words.verifier_location,
            verifier_contact=words.verifier_contact,
            backup=words.backup,
        )

    @cached_property
    def property_numbers(self) -> dict[str, str]:
        """Property numbers by serial number. Raises :class:`BadInputError`."""
        return self._texts("property_numbers", "serial numbers")

    @cached_property
    def chassis_numbers(self) -> dict[str, str]:
        """Numbers of the machines by host. Raises :class:`BadInputError`."""
        return self._texts("chassis_numbers", "hosts")

    @cached_property
    def attestations(self) -> tuple[Attestation, ...]:
        """What the operator states of models. Raises :class:`BadInputError`."""
        file = self.conf.evidence.attestations
        if file is None:
            return ()
        return attestations.read(read_file(Path(file), "attestations"), str(file))

    def _texts(self, option: str, keys: str) -> dict[str, str]:
        file = self.conf.evidence[option]
        if file is None:
            return {}
        raw = read_file(Path(file), option)
        try:
            found = codec.parse(raw, str(file))
        except BadWireError as error:
            raise BadInputError(str(error)) from error
        if not isinstance(found, dict) or not all(
            isinstance(number, str) and 0 < len(number) <= 128 for number in found.values()
        ):
            raise BadInputError(
                f"[evidence]{option}: expected an object of {keys} to texts of 1 to 128 characters "
                f"in {file}, found something else"
            )
        return found

    @cached_property
    def inbox(self) -> Inbox:
        """Takes messages."""
        registrar = Registrar(
            self.store,
            self.key,
            self.issuer,
            self.certificates_dir,
            numbers=self.property_numbers,
            chassis=self.chassis_numbers,
            attestations=self.attestations,
            former=self.former_keys,
            ticket_key=self.ticket_key,
            order_keys=self.believed.orders,
            clock=self.doors.now,
        )
        return Inbox(
            self.store,
            self.believed,
            registrar,
            self.reconciler,
            bells=self.conf.detection.bells,
            limits=ServiceLimits.from_conf(self.conf),
            clock=self.doors.now,
            monotonic=self.doors.monotonic,
        )

    def lane(self, kinds: Sequence[MessageKind], too_long: TooLong, wanted: Wanted) -> Lane:
        """Takes some kinds of messages; the lanes of a process share the other two."""
        self.inbox.later = wanted.add
        return Lane(
            kinds,
            self.inbox,
            self.lists,
            self.store.host_names,
            self.doors.monotonic,
            too_long,
            wanted,
        )
