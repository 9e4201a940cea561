"""Errors as OpenStack's services write them
(https://specs.openstack.org/openstack/api-sig/guidelines/errors.html)."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from http import HTTPStatus
from typing import Any, Final

from quarantine.errors import (
    BadInputError,
    ConflictError,
    CrowdedError,
    IllegalTransitionError,
    OwnSetupError,
    QuarantineError,
    StaleError,
    UnavailableError,
    UnfinishedError,
    UnknownError,
    UnreadableError,
    UnreadOutcomeError,
)

LOG = logging.getLogger(__name__)

PREFIX: Final = "nvme-quarantine"

MAX_DETAIL: Final = 2000
"""Characters of a detail: it may quote what a drive, a host or a caller said."""


class Fault(Exception):
    """An answer that says what is wrong."""

    def __init__(
        self, status: int, code: str, detail: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = dict(headers or {})


_KINDS: Final[tuple[tuple[type[QuarantineError], int, str], ...]] = (
    (UnknownError, 404, "unknown"),
    (BadInputError, 400, "bad-input"),
    (StaleError, 412, "stale"),
    (ConflictError, 409, "conflict"),
    (IllegalTransitionError, 409, "not-now"),
)
"""The first that fits: what is unknown is bad input too, and what is stale a conflict."""

AWAY: Final = (
    "the record, or a service behind it, does not answer; nothing was decided. The log has the "
    "reason under this request's id, /healthcheck says what is away"
)
SETUP: Final = (
    "the control plane lacks something of its own, such as a key or its rights at the cloud; "
    "nothing was decided. The log has the reason under this request's id"
)
DECIDED: Final = (
    "the decision is on record, and the service acts on it; what came of it cannot be read now. "
    "Look at it before it is decided again"
)
UNFINISHED: Final = (
    "the record, or a service behind it, did not answer in the middle of it, or said no: some of "
    "it may be done, and nothing is undone. Look again, and go on from what is there then"
)
DAMAGED: Final = (
    "a row of the record cannot be read; what it guards stays out of the pool. The log has the "
    "reason under this request's id"
)


def of(error: Exception) -> Fault:
    """What an error of an operation is to a caller.

    Of an outage, and of what nobody expected, only the log has the text: it may name addresses.
    """
    if isinstance(error, Fault):
        return error
    # Bad input too, and none of the caller's: it would look for a mistake in his request.
    if isinstance(error, OwnSetupError):
        LOG.error("%s", error)
        return Fault(503, "unavailable", SETUP)
    if isinstance(error, ConflictError) and error.told:
        LOG.warning("%s", error)
        return Fault(409, "conflict", error.told)
    for kind, status, code in _KINDS:
        if isinstance(error, kind):
            return Fault(status, code, str(error))
    # The next three are UnavailableErrors too, and say more than that: they come before it.
    if isinstance(error, UnreadOutcomeError):
        LOG.warning("%s", error)
        return Fault(503, "outcome-unread", DECIDED, {"Retry-After": "10"})
    if isinstance(error, UnfinishedError):
        LOG.warning("%s", error)
        return Fault(503, "unfinished", error.told or UNFINISHED, {"Retry-After": "10"})
    if isinstance(error, CrowdedError):
        return Fault(503, "crowded", str(error), {"Retry-After": "10"})
    if isinstance(error, UnavailableError):
        LOG.warning("%s", error)
        return Fault(503, "unavailable", AWAY, {"Retry-After": "10"})
    if isinstance(error, UnreadableError):
        LOG.error("%s", error)
        return Fault(500, "record-damaged", DAMAGED)
    LOG.error("unexpected", exc_info=error)
    return Fault(500, "unexpected", "an error of ours; the log has it under this request's id")


def body(status: int, code: str, detail: str, request_id: str) -> dict[str, Any]:
    """The document."""
    try:
        title = HTTPStatus(status).phrase
    except ValueError:
        # A status that Python has no words for, from a library.
        title = "Error"
    return {
        "errors": [
            {
                "request_id": request_id,
                "code": f"{PREFIX}.{code}",
                "status": status,
                "title": title,
                "detail": detail[:MAX_DETAIL],
            }
        ]
    }
