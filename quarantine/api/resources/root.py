"""What everybody may ask: the versions, and whether all is well."""

from __future__ import annotations

from typing import Any, Final

from quarantine.api import schemas
from quarantine.api.operation import Ask, Operation, Reply, moment
from quarantine.operations.overview import health

_ROOTS: Final = ("/healthcheck", "/v1/openapi.json", "/v1/", "/v1", "/")


def prefix(ask: Ask) -> str:
    """What stands before the application."""
    # The longest first: a shorter one may be the end of it.
    end = next((end for end in _ROOTS if ask.path.endswith(end)), "")
    return ask.path.removesuffix(end)


def versions(ask: Ask) -> Reply:
    """The versions."""
    return Reply({"versions": [_version(prefix(ask))]})


def version(ask: Ask) -> Reply:
    """This version."""
    return Reply({"version": _version(prefix(ask))})


def _version(before: str) -> dict[str, Any]:
    links = [
        {"rel": "self", "href": f"{before}/v1"},
        {"rel": "describedby", "href": f"{before}/v1/openapi.json"},
    ]
    return {"id": "v1.0", "status": "CURRENT", "links": links}


def healthcheck(ask: Ask) -> Reply:
    """503 with what is wrong, where something is that the API needs."""
    found = health.shared_look(ask.plane)
    checks = [
        {
            "name": one.name,
            "status": "failing" if one.problem else "ok",
            "problem": one.problem,
            "age_seconds": one.seconds,
        }
        for one in found.checks
    ]
    said = {
        "status": found.status,
        "at": moment(found.at),
        "checks": checks,
    }
    return Reply(said, status=200 if found.good else 503)


OPERATIONS: Final = (
    Operation("GET", "/", "List versions of the API", versions, response=schemas.VERSIONS),
    Operation("GET", "/v1", "Show this version", version, response=schemas.ONE_VERSION),
    Operation(
        "GET",
        "/healthcheck",
        "Say whether all is well, with 503 where it is not",
        healthcheck,
        response=schemas.HEALTH,
    ),
)
