"""Certificates: lists, one checked, its sheet to print."""

from __future__ import annotations

import base64
import hashlib
import re
from typing import Final

from quarantine.api import schemas
from quarantine.api.faults import Fault
from quarantine.errors import BadInputError, OwnSetupError, UnknownError
from quarantine.operations import slots
from quarantine.operations.papers import certificates
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.page.policy import POLICY
from quarantine.page.view import PageView, Shown, Visit

PAGE: Final = 100
_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_STYLE: Final = re.compile(r"<style>(.*?)</style>", re.DOTALL)


def find(visit: Visit) -> Shown:
    """A page of a list, in the chain's order."""
    words = visit.query
    slot = None if "slot" not in words else slots.placed(visit.plane, words["slot"])
    size = visit.most(PAGE)
    found = certificates.page(
        visit.plane,
        limit=size,
        after=words.get("marker", 0),
        slot=slot,
        server=words.get("server"),
        drive=words.get("drive"),
    )
    if slot is not None and not found and "marker" not in words:
        slots.require_enrolled(visit.plane, slot)
    kept = {name: value for name, value in words.items() if name != "marker"}
    following = ""
    if len(found) == size:
        following = visit.url("/certificates", {**kept, "marker": found[-1].number})
    first = visit.url("/certificates", kept) if words.get("marker") else ""
    said = {"rows": found, "words": words, "following": following, "first": first}
    return Shown("certificates.html", said)


def show(visit: Visit) -> Shown:
    """One, checked as the API and the command check it."""
    digest = _digest(visit)
    stored = certificates.stored(visit.plane, digest)
    shown, problem = None, ""
    try:
        shown = certificates.show(visit.plane, digest, TrustedKeys())
    except (UnknownError, OwnSetupError):
        # They are BadInputErrors, and mean 404 and 503: nothing of this name does not hold, nor
        # does one that we lack a key for.
        raise
    except BadInputError as error:
        problem = str(error)
    words = {
        "stored": stored,
        "shown": shown,
        "body": shown.signed.certificate if shown else None,
        "problem": problem,
        "contradictions": shown.contradictions if shown else (),
        # Of rotations of the key, and of what a later release signed: its testimony may agree.
        "problems": shown.problems if shown else (),
    }
    return Shown("certificate.html", words, status=409 if problem else 200)


def sheet(visit: Visit) -> Shown:
    """Its printable sheet, whose one style is let in by its digest.

    Raises ``UnknownError``, and :class:`Fault`: 409 where it does not hold.
    """
    try:
        text = certificates.render(visit.plane, _digest(visit), TrustedKeys())
    except (UnknownError, OwnSetupError):
        # As above: 404 and 503, and not 409.
        raise
    except BadInputError as error:
        raise Fault(409, "does-not-hold", f"nothing to print: {error}") from error
    # The sheet is one file for printing, with its style in it. The policy lets in this very text
    # and no other.
    found = _STYLE.search(text)
    digest = hashlib.sha256((found[1] if found else "").encode()).digest()
    style = f"style-src 'sha256-{base64.b64encode(digest).decode()}'"
    return Shown(
        raw=text.encode("utf-8", "backslashreplace"),
        media_type="text/html; charset=utf-8",
        headers={"Content-Security-Policy": POLICY.replace("style-src 'self'", style)},
    )


def _digest(visit: Visit) -> str:
    digest = visit.names["digest"]
    if not _DIGEST.fullmatch(digest):
        raise UnknownError("certificate: expected its whole digest, 64 hexadecimal digits")
    return digest


_MARKER: Final = {"type": "integer", "minimum": 0, "maximum": 2**62}

VIEWS: Final = (
    PageView(
        "/certificates",
        "certificates:list",
        find,
        query={
            "slot": schemas.NAME,
            "server": schemas.UUID,
            "drive": schemas.DIGEST,
            "marker": _MARKER,
        },
    ),
    PageView("/certificates/{digest}", "certificates:get", show),
    PageView("/certificates/{digest}/sheet", "certificates:get", sheet),
)
