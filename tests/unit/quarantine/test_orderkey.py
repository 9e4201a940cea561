"""Orders and tickets under a key of their own: each key is worth its own messages alone."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.order import ORDER_TYPE
from eraser.protocol.ticket import TICKET_TYPE
from eraser.protocol.transport import signing
from eraser.protocol.transport.signing import PrivateKey
from quarantine.errors import BadInputError
from quarantine.evidence import certificate, testimony
from quarantine.evidence.certificate import SignedCertificate
from quarantine.evidence.sheet import page
from quarantine.evidence.testimony import TestimonyStanding
from quarantine.record.facts import SignedTestimony
from quarantine.service.container import Assembly
from tests.unit.quarantine.test_cli import Cli, conf, ready, refused, run
from tests.unit.quarantine.test_foreign_verifier import stranger
from tests.unit.quarantine.test_inbox import Plane, plane

__all__ = ["conf", "plane", "ready", "run"]

ORDERS = PrivateKey.generate()


@pytest.fixture
def two(plane: Plane) -> tuple[Plane, PrivateKey]:
    """A control plane whose orders have a key of their own, and the key of its certificates."""
    certificates = plane.controller
    plane.dispatcher.key = plane.tickets.key = ORDERS
    plane.inbox.controller = ORDERS.public
    plane.inbox.registrar.order_key = ORDERS
    return replace(plane, controller=ORDERS), certificates


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
    for token, typ in ((given.order, ORDER_TYPE), (ticket, TICKET_TYPE)):
        assert signing.verify(token, ORDERS.public, typ, "x")
        with pytest.raises(BadWireError, match="expected a signature by key"):
            signing.verify(token, key.public, typ, "x")
    with pytest.raises(BadInputError):
        certificate.verify(signed.token, [ORDERS.public], "x")


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


def test_by_configuration(conf: Path, ready: Cli, tmp_path: Path) -> None:
    assert ready("key", "show", "--orders")[1] == ready("key", "show")[1]
    conf.write_text(conf.read_text() + f"[erase]\norder_key = {tmp_path}/orders.pem\n")
    refused(ready("key", "show", "--orders"), 2, "order key")
    made = json.loads(ready("key", "create", "--output", tmp_path / "orders.pem")[1])
    assert json.loads(ready("key", "show", "--orders")[1]) == made
    assert json.loads(ready("key", "show")[1]) != made
    parts = Assembly([conf])
    keys = {parts.dispatcher.key.public, parts.order_key.public}
    assert keys == {parts.tickets.key.public} != {parts.key.public}
