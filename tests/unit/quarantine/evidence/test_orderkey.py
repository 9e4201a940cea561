"""Orders, tickets and certificates under keys of their own: each is worth its own alone."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest

from eraser.agent.hoststate import (
    CONTROLLER_FILE,
    TICKETS_FILE,
    HostState,
    OrderRefusedError,
    TicketRefusedError,
    keygen,
)
from eraser.ownership import pending
from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.order import ORDER_TYPE, EraseOrder
from eraser.protocol.report import REPORT_TYPE, EraseReport
from eraser.protocol.ticket import RECEIPT_TYPE, TICKET_TYPE, Ticket, TicketReceipt, TicketState
from eraser.protocol.transport import believed, signing
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import BadInputError, RefusedError
from quarantine.evidence import certificate, testimony
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.sheet import page
from quarantine.evidence.testimony import TestimonyStanding
from quarantine.record.words.facts import SignedTestimony, SlotChanges
from quarantine.service.assembly import Assembly
from tests.unit.quarantine.cli.test_cli import Cli, conf, ready, refused, run
from tests.unit.quarantine.evidence.test_foreign_verifier import stranger
from tests.unit.quarantine.service.inbound.plane import Plane, host_of, plane
from tests.unit.quarantine.testimony import REPORT

__all__ = ["conf", "plane", "ready", "run"]

ORDERS, TICKETS, NEXT_ORDERS, NEXT_TICKETS = (PrivateKey.generate() for _ in range(4))


def given(plane: Plane, orders: list[PrivateKey], tickets: list[PrivateKey]) -> Plane:
    """The control plane with those keys, today's first, as ``Assembly`` puts it together."""
    own = Believed(tuple(k.public for k in orders), tuple(k.public for k in tickets))
    plane.dispatcher.key, plane.dispatcher.former = orders[0], own.orders[1:]
    plane.tickets.key, plane.tickets.former = tickets[0], own.tickets[1:]
    plane.inbox.believed = own
    registrar = plane.inbox.registrar
    registrar.ticket_key, registrar.order_keys = tickets[0], own.orders
    return replace(plane, controller=orders[0])


@pytest.fixture
def two(plane: Plane) -> tuple[Plane, PrivateKey]:
    """A control plane with three keys, and that of its certificates."""
    return given(plane, [ORDERS], [TICKETS]), plane.controller


def certified(plane: Plane, key: PrivateKey) -> tuple[SignedCertificate, SignedTestimony]:
    plane.ordered()
    plane.inbox.report(plane.report())
    stored = plane.store.last_certificate()
    assert stored is not None
    given = plane.store.testimony(stored.digest)
    assert given is not None
    return certificate.verify(stored.token, [key.public], "x"), given


def test_each_key_signs_its_own(two: tuple[Plane, PrivateKey]) -> None:
    plane, key = two
    signed, given = certified(plane, key)
    assert signed.certificate.case.order_key == ORDERS.public.x
    assert ORDERS.public.x in page.render(signed)
    ticket = plane.record().ticket_token
    assert ticket is not None
    for token, typ, own in ((given.order, ORDER_TYPE, ORDERS), (ticket, TICKET_TYPE, TICKETS)):
        assert signing.verify(token, own.public, typ, "x")
        others = [other.public for other in (key, ORDERS, TICKETS) if other is not own]
        with pytest.raises(BadWireError, match="expected a signature by key"):
            signing.verify_any(token, others, typ, "x")
    with pytest.raises(BadInputError):
        certificate.verify(signed.token, [ORDERS.public, TICKETS.public], "x")


def test_an_auditor_needs_the_certificates_key_alone(
    two: tuple[Plane, PrivateKey], tmp_path: Path
) -> None:
    plane, key = two
    signed, given = certified(plane, key)
    assert (
        testimony.weigh(signed.certificate, given, [key.public]).standing
        is TestimonyStanding.AGREES
    )
    file = tmp_path / "controller.jwk"
    file.write_text(json.dumps(key.public.jwk()))
    code, said = stranger("--key", file, plane.directory / f"{signed.digest}.json")
    assert (code, [one["testimony"] for one in said["results"]]) == (0, ["agrees"])


@pytest.mark.parametrize(
    "named", ["", "nothing", PrivateKey.generate().public.x], ids=["empty", "nothing", "another"]
)
def test_another_key_than_the_certificate_names_signed_no_order(
    two: tuple[Plane, PrivateKey], named: str
) -> None:
    plane, key = two
    signed, given = certified(plane, key)
    case = replace(signed.certificate.case, order_key=named)
    found = testimony.weigh(replace(signed.certificate, case=case), given, [key.public])
    assert found.standing is TestimonyStanding.CONTRADICTS


def test_one_key_for_all_is_named_nowhere(plane: Plane) -> None:
    signed, _given = certified(plane, plane.controller)
    assert signed.certificate.case.order_key == ""
    assert b"order_key" not in certificate.document(signed)


def host_state(directory: Path, own: Believed) -> HostState:
    """A host's, with the files of keys that it is given."""
    (directory / CONTROLLER_FILE).write_bytes(codec.canonical(believed.document(own.orders)))
    (directory / TICKETS_FILE).write_bytes(codec.canonical(believed.document(own.tickets)))
    return HostState(directory)


@pytest.mark.parametrize("signer", ["certificates", "tickets"])
def test_only_the_orders_key_makes_an_order(
    two: tuple[Plane, PrivateKey], tmp_path: Path, signer: str
) -> None:
    """On the host, and of what lies in the record: a thief of the database is none of that key."""
    plane, key = two
    plane.ordered()
    state = host_of(plane, tmp_path / "host")
    state = host_state(state.directory, plane.inbox.believed)
    order = plane.dispatcher.order(plane.record())
    assert order.order_token is not None
    forged = (key if signer == "certificates" else TICKETS).sign(
        signing.unverified_payload(order.order_token, "x"), ORDER_TYPE
    )
    with pytest.raises(OrderRefusedError, match=f"by key {ORDERS.public.thumbprint}"):
        state.accept(forged)
    assert state.accept(order.order_token)
    plane.store.amend(plane.record(), SlotChanges(order_token=forged))
    with pytest.raises(RefusedError, match="stored order: order: expected a signature"):
        plane.inbox.report(plane.signed(report_of(order.order_token), REPORT_TYPE, state.key))
    assert plane.dispatcher.order(plane.record()).order_id != order.order_id


@pytest.mark.parametrize("signer", ["certificates", "orders"])
def test_only_the_tickets_key_makes_a_ticket(
    two: tuple[Plane, PrivateKey], tmp_path: Path, signer: str
) -> None:
    """Whoever steals the orders' key lets no guest start, and puts no drive back on offer."""
    plane, key = two
    certified(plane, key)
    keygen(tmp_path / "host", "cmp1")
    state = host_state(tmp_path / "host", plane.inbox.believed)
    ticket = plane.record().ticket_token
    assert ticket is not None
    forged = (key if signer == "certificates" else ORDERS).sign(
        signing.unverified_payload(ticket, "x"), TICKET_TYPE
    )
    with pytest.raises(TicketRefusedError, match=f"by key {TICKETS.public.thumbprint}"):
        state.take_ticket(forged)
    assert pending.everything(state.directory) == ()
    made = state.take_ticket(ticket)
    plane.store.amend(plane.record(), SlotChanges(ticket_token=forged))
    with pytest.raises(BadInputError, match="stored ticket: expected a signature"):
        plane.inbox.receipt(plane.signed(receipt_of(made), RECEIPT_TYPE))
    with pytest.raises(BadInputError, match="stored ticket: expected a signature"):
        plane.tickets.send(plane.record())
    assert (plane.record().ticket_ready, plane.posted_tickets.tokens) == (False, [])


def test_a_host_without_the_file_believes_the_orders_key_as_before(
    two: tuple[Plane, PrivateKey], tmp_path: Path
) -> None:
    """And none that it was not given: until it has the file, its slots wait."""
    plane, key = two
    certified(plane, key)
    keygen(tmp_path / "host", "cmp1")
    state = host_state(tmp_path / "host", plane.inbox.believed)
    (state.directory / TICKETS_FILE).unlink()
    state = HostState(state.directory)
    ticket = plane.record().ticket_token
    assert ticket is not None
    with pytest.raises(TicketRefusedError, match=f"by key {ORDERS.public.thumbprint}"):
        state.take_ticket(ticket)
    by_orders = ORDERS.sign(signing.unverified_payload(ticket, "x"), TICKET_TYPE)
    assert state.take_ticket(by_orders)


@pytest.mark.parametrize(
    "damage", [b"", b"{}", b'{"keys":[]}', b'{"keys":{}}', b'{"keys":[{"kty":"OKP"}]}', None]
)
def test_a_damaged_file_of_keys_is_none_that_is_not_there(
    tmp_path: Path, damage: bytes | None
) -> None:
    """Else the orders' key would sign tickets again. None: a link to nothing."""
    keygen(tmp_path, "cmp1")
    state = host_state(tmp_path, Believed((ORDERS.public,), (TICKETS.public,)))
    file = state.directory / TICKETS_FILE
    file.unlink()
    if damage is None:
        file.symlink_to(tmp_path / "nothing")
    else:
        file.write_bytes(damage)
    with pytest.raises(BadWireError, match=r"tickets\.jwk"):
        HostState(state.directory)


def test_both_keys_change_and_no_case_starts_anew(
    two: tuple[Plane, PrivateKey], tmp_path: Path
) -> None:
    """Hosts first, then the service: what is out under the former keys ends as it would have."""
    plane, key = two
    state = host_of(plane, tmp_path / "host")
    state = host_state(state.directory, plane.inbox.believed)
    plane = replace(plane, host=state.key)
    order = ordered_by(plane, state)
    both = Believed((NEXT_ORDERS.public, ORDERS.public), (NEXT_TICKETS.public, TICKETS.public))
    state = host_state(state.directory, both)
    # The service does not know of it yet.
    assert state.accept(plane.dispatcher.order(plane.record()).order_token or "") == order
    plane = given(plane, [NEXT_ORDERS, ORDERS], [NEXT_TICKETS, TICKETS])
    again = plane.dispatcher.order(plane.record())
    assert state.accept(again.order_token or "") == order
    plane.inbox.report(plane.signed(report_of(again.order_token or ""), REPORT_TYPE))
    stored = plane.store.last_certificate()
    assert stored is not None
    signed = certificate.verify(stored.token, [key.public], "x")
    assert signed.certificate.case.order_key == ORDERS.public.x, "the one that signed it"
    testified = plane.store.testimony(stored.digest)
    assert testified is not None
    found = testimony.weigh(signed.certificate, testified, [key.public])
    assert found.standing is TestimonyStanding.AGREES
    ticket = plane.record().ticket_token or ""
    assert signing.verify(ticket, NEXT_TICKETS.public, TICKET_TYPE, "x")
    made = state.take_ticket(ticket)
    plane.inbox.receipt(plane.signed(receipt_of(made), RECEIPT_TYPE))
    assert plane.record().ticket_ready


def test_a_ticket_that_is_out_outlives_a_change_of_its_key(
    two: tuple[Plane, PrivateKey], tmp_path: Path
) -> None:
    """The drive is certified and not yet returned: it needs no second erase."""
    plane, key = two
    certified(plane, key)
    plane = given(plane, [ORDERS], [NEXT_TICKETS, TICKETS])
    plane.tickets.send(plane.record())
    keygen(tmp_path / "host", "cmp1")
    state = host_state(tmp_path / "host", plane.inbox.believed)
    ((_host, token),) = plane.posted_tickets.tokens
    plane.inbox.receipt(plane.signed(receipt_of(state.take_ticket(token)), RECEIPT_TYPE))
    assert plane.record().ticket_ready
    # Where the former key was stolen it is not named: its tickets are void at once.
    plane = given(plane, [ORDERS], [NEXT_TICKETS])
    with pytest.raises(BadInputError, match="the drive is erased again"):
        plane.tickets.send(plane.record())


def ordered_by(plane: Plane, state: HostState) -> EraseOrder:
    """An order that its host accepted."""
    plane.ordered()
    return state.accept(plane.record().order_token or "")


def report_of(order_token: str) -> EraseReport:
    """What an honest host answers."""
    order = codec.load(EraseOrder, signing.unverified_payload(order_token, "x"), "x")
    return replace(
        REPORT, order_id=order.order_id, nonce=order.nonce, generation=order.generation,
        incarnation=order.incarnation,
    )  # fmt: skip


def receipt_of(ticket: Ticket) -> TicketReceipt:
    return TicketReceipt(
        ticket.order_id, ticket.slot, ticket.generation, ticket.incarnation,
        TicketState.VALID, "", ticket.counters,
    )  # fmt: skip


def test_by_configuration(conf: Path, ready: Cli, tmp_path: Path) -> None:
    assert ready("key", "show", "--orders")[1] == ready("key", "show")[1]
    assert ready("key", "show", "--tickets")[1] == ready("key", "show")[1]
    conf.write_text(conf.read_text() + f"[erase]\norder_key = {tmp_path}/orders.pem\n")
    refused(ready("key", "show", "--orders"), 2, "order key")
    made = json.loads(ready("key", "create", "--output", tmp_path / "orders.pem")[1])
    for what in ("--orders", "--tickets"):
        assert json.loads(ready("key", "show", what)[1]) == made
    assert json.loads(ready("key", "show")[1]) != made
    parts = Assembly([conf])
    keys = {parts.dispatcher.key.public, parts.order_key.public}
    assert keys == {parts.tickets.key.public} != {parts.key.public}
    conf.write_text(conf.read_text() + f"ticket_key = {tmp_path}/tickets.pem\n")
    refused(ready("key", "show", "--tickets"), 2, "ticket key")
    own = json.loads(ready("key", "create", "--output", tmp_path / "tickets.pem")[1])
    assert json.loads(ready("key", "show", "--tickets")[1]) == own
    assert json.loads(ready("key", "show", "--orders")[1]) == made
    parts = Assembly([conf])
    vars(parts)["reconciler"] = None  # which wants a cloud
    registrar = parts.inbox.registrar
    assert parts.tickets.key.public.jwk() == own == parts.ticket_key.public.jwk()
    assert registrar.ticket_key is not None
    assert registrar.ticket_key.public.jwk() == own
    assert parts.inbox.believed == parts.believed
    assert parts.believed == Believed((parts.order_key.public,), (parts.ticket_key.public,))
    refused(ready("key", "show", "--tickets", "--orders"), 2, "not allowed with")


@pytest.mark.parametrize("orders", ["", "orders.pem"])
@pytest.mark.parametrize("copied", [False, True])
def test_a_tickets_key_that_is_the_orders_key_is_refused(
    conf: Path, ready: Cli, tmp_path: Path, orders: str, copied: bool
) -> None:
    """It would be no key of its own: who has the one has the other."""
    pem = tmp_path / (orders or "controller.pem")
    if orders:
        assert ready("key", "create", "--output", pem)[0] == 0
        conf.write_text(conf.read_text() + f"[erase]\norder_key = {pem}\n")
    else:
        conf.write_text(conf.read_text() + "[erase]\n")
    named = tmp_path / "tickets.pem" if copied else tmp_path / "." / pem.name
    if copied:
        named.write_bytes(pem.read_bytes())
        named.chmod(0o600)
    conf.write_text(conf.read_text() + f"ticket_key = {named}\n")
    for use in ("--tickets", "--orders"):
        refused(
            ready("key", "show", use), 2, f"[erase]ticket_key: expected a key of its own in {named}"
        )
    parts = Assembly([conf])
    with pytest.raises(BadInputError, match="expected a key of its own"):
        _ = parts.tickets
    assert ready("key", "show")[0] == 0, "certificates are not concerned"


def test_former_keys_by_configuration(conf: Path, ready: Cli, tmp_path: Path) -> None:
    """As the guide has it: what is believed today is what was believed before, tomorrow."""
    for kind, known in (("order", 4), ("ticket", 7)):
        file = tmp_path / f"former-{kind}s.jwk"
        for number in range(3):
            file.write_text(ready("key", "show", f"--{kind}s")[1])
            pem = tmp_path / f"{kind}-{number}.pem"
            assert ready("key", "create", "--output", pem)[0] == 0
            text = f"[erase]\n{kind}_key = {pem}\nformer_{kind}_keys = {file}\n"
            conf.write_text(conf.read_text() + text)
        assert len(json.loads(ready("key", "show", f"--{kind}s")[1])["keys"]) == known
    parts = Assembly([conf])
    # Tickets had the orders' keys before they had one of their own.
    assert parts.believed.tickets[3] == parts.order_key.public
    assert parts.dispatcher.former == parts.believed.orders[1:]
    assert parts.tickets.former == parts.believed.tickets[1:]
    vars(parts)["reconciler"] = None
    assert parts.inbox.registrar.order_keys == parts.believed.orders
    (tmp_path / "former-orders.jwk").write_text("{}")
    refused(ready("key", "show", "--orders"), 2, "former-orders.jwk")


@pytest.mark.parametrize("damage", ["gone", "empty", "a pipe"])
def test_a_former_key_that_cannot_be_read_stops_nothing(
    conf: Path, ready: Cli, tmp_path: Path, damage: str, caplog: pytest.LogCaptureFixture
) -> None:
    """It is a public key of yesterday; without the service nobody watches what is on offer."""
    file = tmp_path / "former.jwk"
    conf.write_text(conf.read_text() + f"[erase]\nformer_order_keys = {file}\n")
    if damage == "empty":
        file.write_text("")
    elif damage == "a pipe":
        os.mkfifo(file)
    parts = Assembly([conf])
    assert parts.believed.orders == (parts.order_key.public,)
    assert parts.dispatcher.former == ()
    assert "ALARM key-unreadable keys: " in caplog.text
    # Hosts are to believe all that are named: what is printed for them is whole or nothing.
    refused(ready("key", "show", "--orders"), 2, "former.jwk")
