"""The door to a time stamping authority: RFC 3161 over HTTP (3.4)."""

from __future__ import annotations

import http.client
import threading
import urllib.request
from dataclasses import dataclass, field

from cryptography import x509

from quarantine.errors import BadInputError, TimeStampError
from quarantine.evidence.chain import stamps

SECONDS = 15.0
"""For each step of the conversation."""

DEADLINE = 60.0
"""Seconds for all of it: a byte now and then is in time for each step. Nothing waits for long."""

MAX_ANSWER_BYTES = 1 << 20
"""A stamp with its chain of certificates has a few kilobytes."""


@dataclass(frozen=True)
class TimeStampAuthority:
    """One authority, by its URL (http or https)."""

    url: str
    roots: tuple[x509.Certificate, ...] = ()
    _asking: list[threading.Thread] = field(default_factory=list, compare=False, repr=False)
    """The conversation that was given up and has not ended: one at most."""

    def stamp(self, data: bytes) -> bytes:
        """A TimeStampResp (DER) over ``data`` that was checked. Raises :class:`TimeStampError`."""
        question = stamps.ask(data)
        answer = self._answer(question.der)
        try:
            stamps.check(answer, data, self.roots, question.nonce)
        except BadInputError as error:
            raise TimeStampError(f"{self.url}: {error}") from error
        return answer

    def _answer(self, question: bytes) -> bytes:
        """What comes within the deadline."""
        self._asking[:] = [each for each in self._asking if each.is_alive()]
        if self._asking:
            raise TimeStampError(f"{self.url}: expected an answer, found one that it still sends")
        found: list[bytes | TimeStampError] = []
        asking = threading.Thread(
            target=lambda: found.append(self._asked(question)), name="time-stamp", daemon=True
        )
        asking.start()
        asking.join(DEADLINE)
        if asking.is_alive():
            self._asking.append(asking)
        if not found:
            raise TimeStampError(f"{self.url}: expected a whole answer within {DEADLINE:g} seconds")
        if isinstance(found[0], TimeStampError):
            raise found[0]
        return found[0]

    def _asked(self, question: bytes) -> bytes | TimeStampError:
        request = urllib.request.Request(  # noqa: S310 - the configuration takes http(s) alone
            self.url,
            data=question,
            headers={"Content-Type": "application/timestamp-query"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
                return bytes(response.read(MAX_ANSWER_BYTES))
        except (OSError, http.client.HTTPException, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            return TimeStampError(f"{self.url}: expected an answer, found {text}")
