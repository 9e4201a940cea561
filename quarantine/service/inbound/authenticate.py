"""Opening what hosts send: whose it is, whether that host signed it, and refusals on record."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable
from typing import Final, NoReturn, TypeVar

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.identity import host_name
from eraser.protocol.report import EraseReport, Hello, Progress
from eraser.protocol.ticket import TicketReceipt
from eraser.protocol.transport import signing
from quarantine.errors import RefusedError
from quarantine.record.store import Store
from quarantine.record.words.facts import HostRecord
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import alarm
from quarantine.rules.alarms import is_round

LOG = logging.getLogger(__name__)

EXCERPT = 200
"""Characters of a refused message that are kept."""

QUIET_SECONDS: Final = 3600.0
"""After which a refusal is a new trouble."""

_MOST: Final = 10_000
"""Hosts and kinds that are remembered."""

STRANGERS: Final = "unknown senders"
"""The one subject of all whose name is not registered, or cannot be read: they make names up, and
each would be a line of its own in the list of alarms."""

Message = TypeVar("Message", EraseReport, Progress, Hello, TicketReceipt)


class Authenticator:
    """Verified on arrival; what is refused is recorded and alarmed, and changes nothing."""

    def __init__(self, store: Store, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._store = store
        self._now = monotonic
        self._refused: dict[tuple[str, str], tuple[int, float]] = {}
        """How often, and when last, each kind of message of a host was refused."""

    def open(
        self,
        token: str,
        cls: type[Message],
        typ: str,
        kind: str,
        claims: Callable[[Message], str],
        sender: str = "",
    ) -> tuple[HostRecord, Message, bytes]:
        """The verified message, its sender, whose registered key signed it, and its bytes.

        ``claims`` reads the sender's name off a message; ``sender``: it lay in that host's list,
        empty where that is not known. What a life of the host said that is not the registered one
        is refused too. Raises :class:`RefusedError` (recorded).
        """
        name, seen = "", b""
        try:
            seen = signing.unverified_payload(token, kind)
            message = codec.load(cls, seen, kind)
            name = host_name(claims(message))
        except (BadWireError, ValueError) as error:
            self.refuse(kind, sender, str(error), seen or repr(token)[:EXCERPT].encode())
        # Before the signature, whose refusal would be the named host's: it said nothing.
        if sender and name != sender:
            reason = f"expected a word of host {sender} in its list, found one as of host {name}"
            self.refuse(kind, sender, reason, seen)
        host = self._store.host(name)
        if host is None:
            self.refuse(kind, name, f"{name}: expected a registered host", seen, known=False)
        try:
            # The same part of the token that was read: it is not read twice.
            raw = signing.verify(token, host.key, typ, kind)
        except BadWireError as error:
            self.refuse(kind, name, str(error), seen)
        if message.incarnation != host.incarnation:
            self.refuse(
                kind,
                name,
                f"expected incarnation {host.incarnation}, found {message.incarnation}: the host "
                "lost its state or was installed anew; register it again",
                raw,
            )
        return host, message, raw

    def refuse(
        self, kind: str, host: str, reason: str, raw: bytes, *, known: bool = True
    ) -> NoReturn:
        """Records what was refused, with an alarm; ``known``: the host is registered.

        Raises :class:`RefusedError`, always.
        """
        excerpt = raw[:EXCERPT].decode("utf-8", "backslashreplace")
        self._store.record_refusal(kind, host, reason, hashlib.sha256(raw).hexdigest(), excerpt)
        times = self._counted(kind, host if known else "")
        if is_round(times):
            text = f"{kind} refused ({times} times): {reason}"
            subject = f"host {host}" if known and host else STRANGERS
            alarm(subject, AlarmCode.MESSAGE_REFUSED, text)
        else:
            LOG.warning("%s of host %r refused: %s", kind, host, reason)
        raise RefusedError(f"{kind} refused: {reason}")

    def _counted(self, kind: str, host: str) -> int:
        times, last = self._refused.get((kind, host), (0, 0.0))
        times = times + 1 if self._now() - last < QUIET_SECONDS else 1
        if len(self._refused) >= _MOST:
            self._refused.clear()
        self._refused[kind, host] = times, self._now()
        return times
