"""Certificates, their testimony and their chain; and all of them, line by line."""

from __future__ import annotations

import itertools
import logging
import re
from collections.abc import Iterator
from typing import Any, Final

from eraser.protocol import codec
from quarantine.api import documents, policies, schemas
from quarantine.api.faults import Fault
from quarantine.api.operation import Ask, Operation, Reply, damaged, moment, read_moment
from quarantine.api.resources import slots
from quarantine.errors import BadInputError, OwnSetupError, UnknownError
from quarantine.operations import maintenance
from quarantine.operations import slots as slot_operations
from quarantine.operations.papers import certificates, ledger
from quarantine.operations.papers.certificates import CertificateLine, StoredCertificate
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.operations.plane import Plane
from quarantine.operations.slots import SlotQuery

LOG = logging.getLogger(__name__)

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)

COUNT: Final = "X-Total-Count"
"""Of an export: how many lines follow. Whoever gets fewer has not got all."""

SOME: Final = 500
"""Slots of an export for whose hosts it is asked at once what is in maintenance."""


def find(ask: Ask) -> Reply:
    """A page."""
    words = ask.query
    # Its certificates are rows of their own, which can be read where the slot's cannot.
    slot = None if "slot" not in words else slot_operations.placed(ask.plane, words["slot"])
    found = certificates.page(
        ask.plane,
        limit=ask.limit,
        after=words.get("marker", 0),
        slot=slot,
        server=words.get("server"),
        drive=words.get("drive"),
    )
    if slot is not None and not found and "marker" not in words:
        slot_operations.require_enrolled(ask.plane, slot)
    said: dict[str, Any] = {"certificates": [line(one) for one in found]}
    if len(found) == ask.limit:
        following = ask.link({"marker": found[-1].number})
        said["certificates_links"] = [{"rel": "next", "href": following}]
    return Reply(said)


def show(ask: Ask) -> Reply:
    """One, checked: its signature, its chain's place, and against its testimony.

    Raises :class:`Fault`: 409 where it does not hold; and ``OwnSetupError`` where we lack a key
    that it is checked with.
    """
    digest = _digest(ask)
    # First whether it is there: an UnknownError is a BadInputError too, and would be taken below
    # for one that does not hold.
    stored = certificates.stored(ask.plane, digest)
    try:
        shown = certificates.show(ask.plane, digest, TrustedKeys())
    except OwnSetupError:
        raise  # 503: nobody knows whether it holds
    except BadInputError as error:
        LOG.error("%s", error)
        words = f"certificate {digest}: it does not hold; the log says more"
        raise Fault(409, "does-not-hold", words) from error
    return Reply(
        {
            **_line(stored),
            "headline": shown.headline,
            "key": shown.signed.key,
            "testimony": shown.weighed.standing.value,
            "contradictions": list(shown.contradictions),
            "problems": [*shown.contradictions, *shown.problems],
            "certificate": codec.plain(shown.signed.certificate),
        }
    )


def signed(ask: Ask) -> Reply:
    """Its text as it was signed; nothing of it is checked."""
    stored = certificates.stored(ask.plane, _digest(ask))
    return Reply(stored.token.encode(), media_type="application/jose")


def testimony(ask: Ask) -> Reply:
    """What it rests on; nothing of it is checked."""
    found = certificates.testimony_of(ask.plane, _digest(ask))
    return Reply({"order": found.order, "report": found.report, "host_key": found.host_key.jwk()})


def export(ask: Ask) -> Reply:
    """All of a time, in the form that 'ledger verify' reads."""
    since, until = (ask.query.get(name) for name in ("since", "until"))
    found = certificates.lines(
        ask.plane,
        None if since is None else read_moment(since, "query.since"),
        None if until is None else read_moment(until, "query.until"),
    )
    return Reply(lines=_told(found.lines), headers={COUNT: str(found.count)})


def export_slots(ask: Ask) -> Reply:
    """All that fit, as they are in lists, and a last line that says how many they were."""
    query = slots.query_of(ask)
    # The first one now: a record that is away is an error, and no empty file.
    slot_operations.page(ask.plane, query, limit=1)
    return Reply(lines=_told(_slot_lines(ask.plane, query)))


def _slot_lines(plane: Plane, query: SlotQuery) -> Iterator[bytes]:
    """The last one is the end: nobody knows beforehand how many slots will fit while they are sent,
    and behind a proxy that asks by HTTP/1.0 an answer that is cut off looks whole."""
    found, count = slot_operations.each(plane, query), 0
    # In portions: one question for the hosts of many slots, and not all of the fleet in memory.
    while some := list(itertools.islice(found, SOME)):
        quiet = maintenance.in_effect(plane, {one.host for one in some})
        silent = slot_operations.silences(plane, some)
        for one in some:
            yield documents.dump(slots.line(one, quiet, silent)) + b"\n"
        count += len(some)
    yield documents.dump({"slots": count}) + b"\n"


def end(ask: Ask) -> Reply:
    """Where the chain ends."""
    found = ledger.end(ask.plane)
    return Reply(
        {
            "position": found.position,
            "digest": found.digest,
            "issued_at": moment(found.issued_at),
        }
    )


def line(one: CertificateLine) -> dict[str, Any]:
    """A certificate in a list."""
    return {
        "digest": one.digest,
        "position": one.number,
        "slot": f"{one.host}_{one.address.upper()}",
        "generation": one.generation,
        "drive": one.drive,
        "server": one.server,
        "owner": one.owner,
        "issued_at": moment(one.created_at),
        "damaged": damaged(one.damaged),
    }


def _line(stored: StoredCertificate) -> dict[str, Any]:
    slot = stored.slot
    return line(
        CertificateLine(
            number=stored.number,
            digest=stored.digest,
            host=slot.host,
            address=slot.address,
            generation=stored.generation,
            drive=stored.drive,
            server=stored.server,
            owner=stored.owner,
            created_at=stored.created_at,
        )
    )


def _digest(ask: Ask) -> str:
    digest = ask.names["digest"]
    if not _DIGEST.fullmatch(digest):
        raise UnknownError("certificate: expected its whole digest, 64 hexadecimal digits")
    return digest


def _told(lines: Iterator[bytes]) -> Iterator[bytes]:
    """What ends a stream early is in the log; the caller's connection breaks."""
    try:
        yield from lines
    except Exception:
        LOG.exception("an export was cut off")
        raise


_ONE: Final = "/v1/certificates/{digest}"
_READ: Final[dict[str, Any]] = {"default": policies.READER}

OPERATIONS: Final = (
    Operation(
        "GET",
        "/v1/certificates",
        "List certificates in the chain's order",
        find,
        "certificates:list",
        query={
            "slot": {**schemas.NAME, "description": "Issued for this slot."},
            "server": {**schemas.UUID, "description": "Whose drives were erased after it."},
            "drive": {**schemas.DIGEST, "description": "Digest of the drive's identity."},
            "limit": schemas.LIMIT,
            "marker": {"type": "integer", "minimum": 0, "maximum": 2**62},
        },
        response=schemas.page("certificates", schemas.CERTIFICATE_LINE),
        **_READ,
    ),
    Operation(
        "GET",
        _ONE,
        "Show a certificate, checked",
        show,
        "certificates:get",
        response=schemas.CERTIFICATE,
        **_READ,
    ),
    Operation(
        "GET",
        f"{_ONE}/signed",
        "Get a certificate's signed text",
        signed,
        "certificates:get",
        media_type="application/jose",  # a compact JWS (RFC 7515, 9.2.1)
        **_READ,
    ),
    Operation(
        "GET",
        f"{_ONE}/testimony",
        "Get the signed order and report that a certificate rests on",
        testimony,
        "certificates:get",
        response=schemas.TESTIMONY,
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/exports/certificates",
        "Stream certificates of a time, a line each, as a ledger's file",
        export,
        "certificates:export",
        query={
            "since": {**schemas.TIME, "description": "Issued then or later."},
            "until": {**schemas.TIME, "description": "Issued before."},
        },
        media_type=documents.LINES,
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/exports/slots",
        "Stream slots, a line each, and in a last line how many",
        export_slots,
        "slots:export",
        query=slots.FILTERS,
        media_type=documents.LINES,
        **_READ,
    ),
    Operation(
        "GET",
        "/v1/ledger",
        "Show where the chain of certificates ends",
        end,
        "ledger:get",
        response=schemas.LEDGER,
        **_READ,
    ),
)
