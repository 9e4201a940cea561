"""What makes a compute host this host: its key, its incarnation, the orders it accepted.

The incarnation is random and made with the key: a host that lost its state directory is a new
incarnation, and every older order is void there (promise 7). Nothing registers itself: a person
carries ``host.json`` to ``nvme-quarantine host register``.
"""

from __future__ import annotations

import dataclasses
import json
import logging
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from eraser.errors import BadInputError, EraserError
from eraser.ownership import pending
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.identity import Slot, host_name
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import AcceptedOrder
from eraser.protocol.ticket import TICKET_TYPE, Ticket
from eraser.protocol.transport import believed
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey, verify_any
from eraser.state import answers, hostcard
from eraser.state.case_dir import is_there, names
from eraser.state.hostcard import CARD_FILE, OrderHead
from eraser.state.journal import alone, make_directory, replace_durably

LOG = logging.getLogger(__name__)

KEY_FILE = "host.key"
CONTROLLER_FILE = "controller.jwk"
"""Who signs orders; and tickets too, where the next file is not there."""
TICKETS_FILE = "tickets.jwk"
"""Who signs tickets."""


class OrderRefusedError(EraserError):
    """An order is not for this host as it is now. It was recorded, nothing was touched."""

    exit_code = 9


class TicketRefusedError(EraserError):
    """A ticket is not our control plane's, not for this host, or older than the one we have."""

    exit_code = 9


def keygen(directory: Path, host: str, chance: Callable[[int], bytes] = os.urandom) -> HostCard:
    """Makes the host's key and incarnation. Refuses where one exists: that would void its cases.

    A key without a card, which alone is registered, is of a run that was cut off: it gets its card.
    Raises :class:`BadInputError`.
    """
    try:
        host_name(host)
    except ValueError as error:
        raise BadInputError(f"keygen: {error}") from error
    if is_there(directory / CARD_FILE):
        raise BadInputError(
            f"keygen: expected no {CARD_FILE} in {directory}, found one; a new one is a new "
            "incarnation: move the old state directory away first, then register the host again "
            "with --replace"
        )
    make_directory(directory)
    try:
        key = PrivateKey.from_pem((directory / KEY_FILE).read_bytes(), KEY_FILE)
    except FileNotFoundError:
        key = PrivateKey.generate()
        # The key first: there is never a card, which a person registers, without its key.
        replace_durably(directory / KEY_FILE, key.pem())
    card = HostCard(host, chance(16).hex(), key.public.jwk())
    replace_durably(directory / CARD_FILE, codec.canonical(card) + b"\n", 0o644)
    return card


@dataclass(frozen=True)
class _UnreadOrder:
    """What each release reads of an order: which it is, and whose."""

    order_id: str
    generation: int
    slot: Slot


def _same_case(one: EraseOrder, other: EraseOrder) -> bool:
    return dataclasses.replace(one, look=0) == dataclasses.replace(other, look=0)


class HostState:
    """The host's own identity and its memory of orders, in one directory."""

    def __init__(self, directory: Path) -> None:
        """Reads key, card and the controller's public keys. Raises :class:`BadInputError`."""
        self.directory = directory
        self.card = codec.load(HostCard, self._read(CARD_FILE), CARD_FILE)
        self.key = PrivateKey.from_pem(self._read(KEY_FILE), KEY_FILE)
        # Reports would be signed with another key than the card has, which is what was registered.
        if self.card.key.get("x") != self.key.public.x:
            raise BadInputError(
                f"{CARD_FILE}: expected the public half of {KEY_FILE}, found another"
            )
        orders = believed.read(self._read(CONTROLLER_FILE), CONTROLLER_FILE)
        tickets = orders
        # A file that cannot be read is none that is not there: else a damaged link to it would
        # have whoever signs orders sign tickets again.
        if self._named(TICKETS_FILE):
            tickets = believed.read(self._read(TICKETS_FILE), TICKETS_FILE)
        self.believed = Believed(orders, tickets)
        make_directory(directory / "orders")
        self.unread: dict[str, str] = {}
        """The files of orders that the last :meth:`orders` could not read, and why."""
        self._unread_orders: tuple[AcceptedOrder, ...] = ()
        """Those of them of which it is known whose they are."""

    def _named(self, name: str) -> bool:
        path = self.directory / name
        try:
            return is_there(path, as_link=True)
        except OSError as error:
            raise BadInputError(f"expected to look at {path}, found {error.strerror}") from error

    def _read(self, name: str) -> bytes:
        path = self.directory / name
        try:
            return path.read_bytes()
        except OSError as error:
            raise BadInputError(
                f"expected {path}, found none ({error.strerror}); run 'nvme-eraser keygen' and put "
                f"the controller's public key (nvme-quarantine key show --orders) at "
                f"{CONTROLLER_FILE}; {TICKETS_FILE} (--tickets) is for tickets with a key of their "
                "own"
            ) from error

    def accepted(self, address: str) -> EraseOrder | None:
        """The newest order that was accepted for the slot, done or not."""
        return hostcard.accepted(self.directory, address)

    def orders(self) -> tuple[EraseOrder, ...]:
        """The newest accepted order of every slot, in the order in which they came.

        A file that is damaged or cannot be read stops no other slot's case; :attr:`unread` names
        it. Raises ``OSError`` where the files cannot be listed, for then nothing is known of them.
        """
        found: list[tuple[int, EraseOrder]] = []
        unread: dict[str, str] = {}
        of_others: list[AcceptedOrder] = []
        for name in names(self.directory / "orders"):
            path = self.directory / "orders" / name
            # One that is just being written begins with a dot.
            if name.startswith(".") or path.suffix != ".json":
                continue
            try:
                # Replaced as a whole when it is accepted, and never after that.
                at = path.stat().st_mtime_ns
                raw = path.read_bytes()
                order = codec.load(EraseOrder, raw, str(path))
                # A copy that somebody put beside it would be carried out again once the slot has a
                # newer one.
                if path != hostcard.order_file(self.directory, order.slot.address):
                    raise BadInputError(f"{path}: expected an order's own file, found a copy")
                found.append((at, order))
            except FileNotFoundError:
                continue  # replaced or removed as we looked
            except (BadInputError, OSError) as error:
                unread[path.name] = str(error)
                # One that the disk did not give may be in flight, and is no other release's.
                if isinstance(error, BadInputError):
                    of_others += self._unread_order(path, raw)
                if self.unread.get(path.name) != str(error):
                    LOG.error("damaged: %s; remove the file, the order comes again", error)
        self.unread, self._unread_orders = unread, tuple(of_others)
        return tuple(order for _at, order in sorted(found, key=lambda each: each[0]))

    def _unread_order(self, path: Path, raw: bytes) -> list[AcceptedOrder]:
        """The order of a file that this release cannot read, where a newer one wrote it."""
        try:
            order = codec.load_part(_UnreadOrder, raw, str(path))
            address = order.slot.address
            if path != hostcard.order_file(self.directory, address):
                return []
            return [AcceptedOrder(address, order.order_id, order.generation, unread=True)]
        except (ValueError, BadInputError):
            return []  # damaged: nobody can tell what it was

    def newest(self) -> tuple[AcceptedOrder, ...]:
        """Which order each slot had last, as a hello tells it; also of one that this release cannot
        read: it keeps others of its generation away all the same. Raises as :meth:`orders`."""
        known = self.orders()
        return (
            *(AcceptedOrder(o.slot.address, o.order_id, o.generation, look=o.look) for o in known),
            *self._unread_orders,
        )

    def accept(self, token: str) -> EraseOrder:
        """Verifies an order and remembers it, durably, before anything acts on it.

        Accepting the same order twice is the same as once; of one whose controller looks again
        the newest look counts. Raises :class:`OrderRefusedError`
        for a bad signature, another host, another incarnation or an older generation.
        """
        try:
            _key, payload = verify_any(token, self.believed.orders, ORDER_TYPE, "order")
            order = codec.load(EraseOrder, payload, "order")
        except BadInputError as error:
            raise OrderRefusedError(str(error)) from error
        # A worker that is being replaced may take an older one meanwhile.
        with alone(self.directory / "orders"):
            return self._remember(order)

    def _remember(self, order: EraseOrder) -> EraseOrder:
        try:
            known = self._known(order.slot.address)
        except BadInputError as error:
            raise OrderRefusedError(str(error)) from error
        self._check(order, known)
        if isinstance(known, EraseOrder) and _same_case(known, order) and order.look < known.look:
            return known  # an older message of the same case
        if known != order:
            path = hostcard.order_file(self.directory, order.slot.address)
            # What was answered is this order's, or its look's, unless the one before it stands
            # here: a ticket may be of a still older one.
            follows = known is not None and is_there(path)
            if follows:
                # It would keep the case from its start. Before the order, for one that comes again
                # after our death follows none.
                answers.forget_damaged(self.directory, order.slot.address)
            # Written only where it differs: the time of the file is the order's place in line.
            replace_durably(path, codec.canonical(order))
            if follows and known is not None and known.order_id != order.order_id:
                answers.forget(self.directory, order.slot.address)
        return order

    def take_ticket(self, token: str) -> Ticket:
        """Verifies a ticket and remembers it, durably; what it is worth is found out later.

        Raises :class:`TicketRefusedError`: nothing is answered to a stranger.
        """
        try:
            _key, payload = verify_any(token, self.believed.tickets, TICKET_TYPE, "ticket")
            ticket = codec.load(Ticket, payload, "ticket")
        except BadInputError as error:
            raise TicketRefusedError(str(error)) from error
        if ticket.slot.host != self.card.host:
            raise TicketRefusedError(
                f"ticket: expected host {self.card.host}, found {ticket.slot.host}"
            )
        if not pending.put(self.directory, ticket):
            raise TicketRefusedError(
                f"ticket: found generation {ticket.generation} of {ticket.slot.address}, "
                "expected one as new as the slot's newest"
            )
        return ticket

    def _known(self, address: str) -> EraseOrder | OrderHead | None:
        """The slot's newest order; which it is, where this release cannot read it: what a newer one
        took, before the host was set back, keeps no later order away.

        Raises :class:`BadInputError` where its file is damaged.
        """
        try:
            found = self.accepted(address)
        except BadInputError:
            return hostcard.newest(self.directory, address)
        # A person removed its file, because it was damaged. The case that has a ticket is over, and
        # anybody at the broker may repeat its order, or an older one.
        ticket = None if found is not None else pending.get(self.directory, address)
        if ticket is not None and ticket.incarnation == self.card.incarnation:
            return OrderHead(ticket.order_id, ticket.generation)
        return found

    def _check(self, order: EraseOrder, known: EraseOrder | OrderHead | None) -> None:
        if order.slot.host != self.card.host:
            raise OrderRefusedError(
                f"order: expected host {self.card.host}, found {order.slot.host}"
            )
        # This host's state is younger than the order: nothing here tells what became of that case.
        if order.incarnation != self.card.incarnation:
            raise OrderRefusedError(
                f"order: expected incarnation {self.card.incarnation}, found {order.incarnation}; "
                "the order is older than this host's state: register the host again"
            )
        if known is None or (isinstance(known, EraseOrder) and _same_case(known, order)):
            return
        if order.generation <= known.generation:
            raise OrderRefusedError(
                f"order: expected a generation above {known.generation} for {order.slot.address}, "
                f"found {order.generation}: a newer case exists"
            )

    def next_sequence(self, name: str) -> int:
        """A number that only grows within this incarnation, whatever the clock does."""
        path = self.directory / f"{name}.sequence"
        # A worker that is being replaced counts in the same file.
        with alone(self.directory):
            try:
                last = int(json.loads(path.read_bytes()))
            except FileNotFoundError:
                last = 0
            except (ValueError, TypeError, OverflowError) as error:
                # No number is made up: one that was used would have what it counts passed over.
                raise BadInputError(
                    f"{path}: expected a number, found none ({error}); write one there that is "
                    "above all before, such as what 'date +%s' prints"
                ) from error
            replace_durably(path, str(last + 1).encode())
            return last + 1
