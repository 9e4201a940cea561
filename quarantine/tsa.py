"""The door to a time stamping authority: RFC 3161 over HTTP (3.4)."""

from __future__ import annotations

import http.client
import urllib.request
from dataclasses import dataclass

from cryptography import x509

from quarantine.errors import BadInputError, TimeStampError
from quarantine.evidence import stamps

SECONDS = 15.0
"""For each step of the conversation. Nothing waits for a stamp."""

MAX_ANSWER_BYTES = 1 << 20
"""A stamp with its chain of certificates has a few kilobytes."""


@dataclass(frozen=True)
class Authority:
    """One authority, by its URL (http or https)."""

    url: str
    roots: tuple[x509.Certificate, ...] = ()

    def stamp(self, data: bytes) -> bytes:
        """A TimeStampResp (DER) over ``data`` that was checked. Raises :class:`TimeStampError`."""
        question = stamps.ask(data)
        request = urllib.request.Request(  # noqa: S310 - the configuration takes http(s) alone
            self.url,
            data=question.der,
            headers={"Content-Type": "application/timestamp-query"},
        )
        try:
            with urllib.request.urlopen(request, timeout=SECONDS) as response:  # noqa: S310
                answer = bytes(response.read(MAX_ANSWER_BYTES))
        except (OSError, http.client.HTTPException, ValueError) as error:
            text = " ".join(str(error).split())[:200]
            raise TimeStampError(f"{self.url}: expected an answer, found {text}") from error
        try:
            stamps.check(answer, data, self.roots, question.nonce)
        except BadInputError as error:
            raise TimeStampError(f"{self.url}: {error}") from error
        return answer
