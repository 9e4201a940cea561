"""Drives, wherever they are or were: how each stands, and the life of one."""

from __future__ import annotations

import re
from typing import Any, Final
from urllib.parse import quote

from quarantine.api import faults, schemas
from quarantine.errors import BadInputError, OwnSetupError, UnknownError
from quarantine.operations import drives
from quarantine.operations.drives import DriveLine, DriveQuery, DriveView
from quarantine.operations.papers import certificates
from quarantine.operations.papers.keys import TrustedKeys
from quarantine.page.view import PageView, Shown, Visit

PAGE: Final = 100
LIFE: Final = 500
"""Certificates of one drive on one page."""

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)


def find(visit: Visit) -> Shown:
    """A page of a list, in the order of the digests."""
    asked, size = visit.query, visit.most(PAGE)
    chosen = {name: asked[name] for name in _FILTERS if name in asked}
    query = DriveQuery(asked.get("model"), asked.get("serial"), asked.get("firmware"))
    found = drives.page(visit.plane, query, limit=size, after=asked.get("marker", ""))
    following = ""
    if len(found) == size:
        following = visit.url("/drives", {**chosen, "marker": found[-1].digest})
    words = {
        "rows": [(one, visit.url(f"/drives/{one.digest}"), _place(visit, one)) for one in found],
        "chosen": chosen,
        "first": visit.url("/drives", chosen) if "marker" in asked else "",
        "following": following,
    }
    return Shown("drives.html", words)


def show(visit: Visit) -> Shown:
    """Its life: who had it, and how it was erased each time.

    Raises ``UnknownError`` where its name is no digest.
    """
    digest = visit.names["digest"]
    if not _DIGEST.fullmatch(digest):
        raise UnknownError("drive: expected the digest of its identity, 64 hexadecimal digits")
    after, size = visit.query.get("marker", 0), visit.most(LIFE)
    found = certificates.page(visit.plane, limit=size, after=after, drive=digest)
    known, problem = _known(visit, digest), ""
    identity = known.identity if known else None
    # The drive's row is gone, and its certificates are not: they say which drive it was.
    if known is None and found:
        identity, problem = _identity(visit, found)
    words = {
        "digest": digest,
        "known": known,
        "identity": identity,
        "problem": problem,
        "rows": found,
        "following": visit.url(f"/drives/{digest}", {"marker": found[-1].number})
        if len(found) == size
        else "",
    }
    return Shown("drive.html", words)


def _known(visit: Visit, digest: str) -> DriveView | None:
    try:
        return drives.show(visit.plane, digest)
    except UnknownError:
        return None


def _identity(visit: Visit, found: tuple[Any, ...]) -> tuple[Any, str]:
    """What its last certificate calls it."""
    # The identity comes out of a certificate here, so its rule decides.
    if not visit.allows("certificates:get"):
        return None, ""
    try:
        shown = certificates.show(visit.plane, found[-1].digest, TrustedKeys())
    except OwnSetupError as error:
        # It names our files, and nothing is wrong with the certificate.
        return None, faults.of(error).detail
    except BadInputError as error:
        return None, str(error)
    return shown.signed.certificate.drive.identity, ""


def _place(visit: Visit, one: DriveLine) -> str:
    name = f"{one.host}_{one.address.upper()}"
    return visit.url(f"/slots/{quote(name, safe=':')}")


_FILTERS: Final = {"serial": schemas.NAME, "model": schemas.NAME, "firmware": schemas.NAME}

VIEWS: Final = (
    PageView("/drives", "drives:list", find, query={**_FILTERS, "marker": schemas.MARKER}),
    PageView(
        "/drives/{digest}",
        "drives:get",
        show,
        query={"marker": {"type": "integer", "minimum": 0, "maximum": 2**62}},
    ),
)
