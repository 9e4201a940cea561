"""Signatures, in the model: they say by themselves what they stand for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from eraser.protocol.errors import BadInputError
from eraser.protocol.ticket import Ticket
from eraser.protocol.transport.believed import Believed
from eraser.protocol.transport.signing import PublicKey
from tests.model.papers import (
    drive_of,
    incarnation,
    order_token,
    spoken,
)
from tests.model.world import Mail


class Signing:
    """Signatures that hold: forging one is not what the model asks about."""

    @staticmethod
    def verify(token: str, key: object, typ: str, what: str) -> bytes:
        if not token:
            raise BadInputError(f"{what}: expected a signed message")
        return token.encode()

    @staticmethod
    def verify_any(token: str, keys: Sequence[object], typ: str, what: str) -> tuple[object, bytes]:
        return keys[0], Signing.verify(token, keys[0], typ, what)

    @staticmethod
    def unverified_payload(token: str, what: str) -> bytes:
        return token.encode()


class Codec:
    """Messages are passed as what they are; their JSON has tests of its own."""

    @staticmethod
    def canonical(value: Any) -> Any:
        return value

    @staticmethod
    def load(cls: type, raw: bytes, what: str) -> Any:
        found = spoken(raw.decode())
        if not isinstance(found, cls):
            raise BadInputError(f"{what}: expected a {cls.__name__}")
        return found

    @staticmethod
    def parse(_raw: bytes, _what: str) -> Any:
        """As much of an order as its reader asks about: none of an earlier release is about."""
        return {"policy": {"verification": {"reread": 0}}}


class Key:
    """Signs orders and tickets by spelling them out."""

    public = PublicKey(b"\0" * 32)

    def sign(self, payload: Any, typ: str) -> str:
        kind = "ticket" if isinstance(payload, Ticket) else "order"
        present = payload.incarnation == incarnation(True)
        mail = Mail(kind, payload.generation, drive_of(payload.identity), present)
        return order_token(int(payload.slot.host[-1]), mail)


BELIEVED = Believed.both(Key.public)


class _Counting:
    """Ids that differ within a step; afterwards the order's own are written instead."""

    def __init__(self) -> None:
        self._number = 0

    def uuid4(self) -> str:
        self._number += 1
        return f"newly-made-id-{self._number:06d}"

    def token_hex(self, _size: int) -> str:
        return self.uuid4()


IDS = _Counting()
