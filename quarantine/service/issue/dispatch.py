"""Orders to hosts: built from what people approved, signed, stored, and only then sent.

No Placement credential and no record of another host is in an order: a host gets what it needs to
erase one drive.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.policy import MAX_LIMIT, Policy
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey, PublicKey
from quarantine.doors import Clock, new_uuid, utc_now
from quarantine.errors import ConflictError
from quarantine.record.store import Store
from quarantine.record.words.facts import HostRecord, SlotChanges, SlotRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.record.words.states import WORKING, Event, State
from quarantine.rules.alarmbook import alarm
from quarantine.rules.sale import pace
from quarantine.service.issue import drive_inventory
from quarantine.service.issue.post import Post

LOG = logging.getLogger(__name__)


LEAD = 65_536
"""Cases that a record may be behind its host: a restored backup is behind by a few. A slot's
generation never gets smaller again, so nobody may use up all that there are."""


@dataclass(frozen=True)
class _Wait:
    """Why no order can be given yet; nothing is wrong."""

    reason: str


@dataclass
class Dispatcher:
    """Gives orders. Calling it again for the same case sends the same order again."""

    store: Store
    key: PrivateKey
    post: Post
    seconds_allowed: int = 172800
    built_in: Policy = field(default_factory=Policy)
    """The policy that needs no approval of its own: the service's configuration names it."""
    clock: Clock = utc_now
    uuid: Callable[[], str] = new_uuid
    token: Callable[[int], str] = secrets.token_hex
    """That many random bytes, hexadecimal: the order's nonce, by which it is used up once."""
    former: tuple[PublicKey, ...] = ()
    """Keys that ``key`` followed, whose orders are still good."""

    def order(self, record: SlotRecord) -> SlotRecord:
        """Sends the case's order, or notes what it waits for; returns the record as it is then.

        For a quarantined slot, and for one whose order is out (sent once more). The token is in
        the store before it is sent: a crash in between sends it twice, never two of them. Raises
        :class:`BrokerAwayError` when the broker does not take it (nothing lost: call again) and
        :class:`ConflictError` when the record moved on.
        """
        if record.state is not State.QUARANTINED and record.state not in WORKING:
            raise ConflictError(
                f"{record.slot}: expected a slot in quarantine to give an order for, "
                f"found it {record.state}"
            )
        host = self.store.host(record.slot.host)
        # A slot that was enrolled after its host's hello: the hello that is kept names its drive.
        # What it names may hold the slot.
        if record.identity is None and host is not None and host.hello is not None:
            record = drive_inventory.learn(self.store, record, host.hello)
            if record.state is not State.QUARANTINED:
                return record
        above = self._above(record, host)
        if isinstance(above, _Wait):
            return self._note_wait(record, above.reason)
        record = self._readable(self._signed(above), host)
        order = self._prepare(record, host)
        if isinstance(order, _Wait):
            return self._note_wait(record, order.reason)
        fresh = record.order_id != order.order_id or record.order_token is None
        look = _look(record, order, host, fresh=fresh)
        if fresh or look != order.look:
            order = replace(order, look=look)
            token = self.key.sign(codec.canonical(order), ORDER_TYPE)
            record = self.store.amend(
                record,
                SlotChanges(order_id=order.order_id, nonce=order.nonce, order_token=token),
            )
        assert record.order_token is not None
        # After the record and before its next state: who dies here leaves a quarantined slot with
        # an order, and the next look sends the very same one.
        self.post(record.slot.host, record.order_token)
        return self._sent(record)

    def _above(self, record: SlotRecord, host: HostRecord | None) -> SlotRecord | _Wait:
        """The case with a generation that its host still takes.

        A host that accepted an order which this record does not know, of the same generation or a
        greater one, would refuse ours for ever: the record was lost, or is a backup's.
        """
        # An order of this slot that the host took, and that is not the one on record.
        accepted = next(
            (
                order
                for order in (host.hello.accepted if host and host.hello else ())
                if order.address == record.slot.address and order.order_id != record.order_id
            ),
            None,
        )
        if accepted is None or accepted.generation < record.generation:
            return record
        if accepted.generation - record.generation > LEAD:
            return _Wait(
                f"waiting for a host that can be believed: it says that it accepted generation "
                f"{accepted.generation} of this slot, where {record.generation} is on record; "
                "install it anew and register it with --replace"
            )
        reason = (
            f"the host accepted order {accepted.order_id}, generation {accepted.generation}, which "
            f"is not in this record: was the database lost or restored? Going on above it"
        )
        # Another may have had the drive in a case that is not on record: a certificate names nobody
        # rather than the wrong one.
        changes = SlotChanges(new_case=True, above=accepted.generation, consumer=None)
        # Refused where a look beside this one gave that order: then nothing was lost.
        after = self.store.amend(record, changes, note=reason)
        alarm(record.slot, AlarmCode.RECORD_BEHIND, reason)
        return after

    def _signed(self, record: SlotRecord) -> SlotRecord:
        """The case in another generation where no key of ours signed its order: the key was
        replaced, and hosts take one order per generation. Nothing was forgotten: its user stays."""
        if record.order_token is None:
            return record
        try:
            self._payload(record.order_token)
        except BadWireError as error:
            reason = (
                f"no key of ours signed order {record.order_id}: was the key replaced, and the "
                "former one not named? The host gets another order"
            )
            LOG.warning("%s: %s (%s)", record.slot, reason, error)
            return self.store.amend(record, SlotChanges(new_case=True), note=reason)
        return record

    def _payload(self, token: str) -> bytes:
        keys = (self.key.public, *self.former)
        return signing.verify_any(token, keys, ORDER_TYPE, "order")[1]

    def _readable(self, record: SlotRecord, host: HostRecord | None) -> SlotRecord:
        """The case in another generation where its host was set back to a release that cannot read
        the order. It may have taken it before, and takes one order per generation."""
        order = None if host is None else self._present(record, host)
        if host is None or order is None or _reads(host, order):
            return record
        reason = (
            f"the host's release cannot read order {order.order_id}: was it set back to a former "
            "one? It gets another order"
        )
        after = self.store.amend(record, SlotChanges(new_case=True), note=reason)
        # Each time: a host that says so of each order has one made after the other.
        alarm(record.slot, AlarmCode.ORDER_UNREAD, reason)
        return after

    def _prepare(self, record: SlotRecord, host: HostRecord | None) -> EraseOrder | _Wait:
        if host is None:
            return _Wait(f"waiting for host {record.slot.host} to be registered")
        present = self._present(record, host)
        if present is not None:
            return present
        if record.identity is None:
            return _Wait("waiting for the host's hello, which names the drive in the slot")
        profile = self.store.profile(record.profile)
        if profile is None:
            return _Wait(f"waiting for profile {record.profile!r} to be approved")
        policy = self.policy(record.policy)
        if policy is None:
            return _Wait(f"waiting for policy {record.policy!r} to be approved")
        return EraseOrder(
            order_id=self.uuid(),
            slot=record.slot,
            identity=record.identity,
            profile=profile.content,
            policy=policy,
            generation=record.generation,
            nonce=self.token(16),
            incarnation=host.incarnation,
            seconds_allowed=self.seconds_allowed,
            stuck=self._stuck(record.identity.model, policy, host),
        )

    def _stuck(self, model: str, policy: Policy, host: HostRecord) -> float:
        if not _reads_stuck(host):
            return 0.0  # a host of a former release refuses an order with what it does not know
        newest = self.store.last_erases(model, pace.SAMPLES)
        return min(pace.stuck_after(newest, policy.limits.stuck), MAX_LIMIT)

    def _present(self, record: SlotRecord, host: HostRecord) -> EraseOrder | None:
        """The case's order where it still holds: hosts take one order per generation.

        A host that lost its state is another incarnation; it gets a new order, and the old one's
        nonce is never asked for again.
        """
        if record.order_token is None:
            return None
        try:
            order = codec.load(EraseOrder, self._payload(record.order_token), "order")
        except BadWireError as error:
            LOG.warning("%s: giving a new order, the stored one is no good: %s", record.slot, error)
            return None
        same = (
            order.order_id == record.order_id
            and order.nonce == record.nonce
            and order.slot == record.slot
            and order.generation == record.generation
            and order.identity == record.identity
            and order.incarnation == host.incarnation
        )
        return order if same else None

    def policy(self, name: str) -> Policy | None:
        """An approved policy, or the configured one under its own name."""
        approved = self.store.policy(name)
        if approved is not None:
            return approved.content
        return self.built_in if name == self.built_in.name else None

    def _note_wait(self, record: SlotRecord, reason: str) -> SlotRecord:
        if record.detail != reason:
            LOG.warning("%s: %s", record.slot, reason)
        elif record.state not in WORKING:
            return record
        # Where the order is out its repetition is due again after a while, and not with each look.
        changes = self._tried() if record.state in WORKING else SlotChanges()
        return self.store.amend(record, replace(changes, detail=reason))

    def _tried(self) -> SlotChanges:
        """The order was sent, or could not be: the one place that says when."""
        return SlotChanges(ordered_at=self.clock(), detail="")

    def _sent(self, record: SlotRecord) -> SlotRecord:
        sent = replace(self._tried(), attempts=record.attempts + 1)
        try:
            if record.state is State.QUARANTINED:
                record = self.store.transition(record, Event.ORDERED, changes=sent)
            else:
                # A repetition of the same order is no new attempt.
                record = self.store.amend(record, self._tried())
        except ConflictError:
            # The host was quicker: its answer is recorded already.
            return self.store.slot(record.slot) or record
        LOG.info("%s: order %s sent", record.slot, record.order_id)
        return record


def _look(record: SlotRecord, order: EraseOrder, host: HostRecord | None, *, fresh: bool) -> int:
    """The number of the look that is asked for now: a host begins an order that came back "in use"
    anew for a greater one alone, so nobody can have it begun by repeating what we sent once."""
    if host is None or not _counts_looks(host):
        return order.look
    came_back = record.state is State.QUARANTINED and not fresh
    look = max(order.look, record.attempts + 1) if fresh or came_back else order.look
    # A record from a backup is behind its host, which answers with what was counted long ago. Its
    # attempts stay behind: where the case came back, the look that the host took is used up too.
    least = order.look if came_back else order.look + 1
    taken = [
        each.look
        for each in (host.hello.accepted if host.hello is not None else ())
        if each.order_id == order.order_id and least <= each.look <= order.look + LEAD
    ]
    return max([look, *(known + 1 for known in taken)])


def _counts_looks(host: HostRecord) -> bool:
    """Whether the host's release knows an order's member ``look``."""
    return host.hello is not None and host.hello.counts_looks


def _reads_stuck(host: HostRecord) -> bool:
    """Whether the host's release knows an order's member ``stuck``."""
    return host.hello is not None and host.hello.reads_stuck


def _reads(host: HostRecord, order: EraseOrder) -> bool:
    """Whether the host's release can read the order, by its own word where it has it."""
    taken = host.hello.accepted if host.hello is not None else ()
    for each in taken:
        if each.order_id == order.order_id:
            return not each.unread
    return (not order.stuck or _reads_stuck(host)) and (not order.look or _counts_looks(host))
