"""The one door to Nova's API (the compute API reference of Nova 34 names the requests)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote, urlencode

from quarantine.cloud import sdk
from quarantine.errors import UnavailableError

MICROVERSION: Final = "2.79"
"""2.61: flavors show their extra specs; 2.79 is Train's, far below every Nova that we work with."""

_ROLES: Final = "the admin role"

_PAGE: Final = 1000
"""Nova's own ``[api]max_limit`` by default; it answers fewer where that is smaller."""


@dataclass(frozen=True)
class Flavor:
    """A flavor as Nova has it; memory in MiB, disk in GiB."""

    id: str
    name: str
    vcpus: int
    ram: int
    disk: int
    extra_specs: Mapping[str, str]


class Compute:
    """Nova as this project needs it. Not thread safe: one per thread."""

    def __init__(self, connection: Any) -> None:
        """``connection`` is openstacksdk's; its compute endpoint is looked up on first use."""
        self._connection = connection

    @classmethod
    def connect(cls, cloud: str, *, region: str | None = None, timeout: float = 30.0) -> Compute:
        """Use the cloud of that name in ``clouds.yaml``; ``timeout`` is in seconds per request.

        Nothing is sent yet. Raises ``BadInputError`` when there is no such cloud.
        """
        return cls(sdk.connect(cloud, region=region, timeout=timeout))

    def newest_microversion(self) -> tuple[int, int]:
        """``GET /`` of the v2.1 endpoint: the newest that nova-api offers, which dates it."""
        shown = self._call("GET", "/").get("version")
        text = str(shown.get("version", "")) if isinstance(shown, dict) else ""
        major, _dot, minor = text.partition(".")
        if not (major.isdigit() and minor.isdigit()):
            raise UnavailableError(f"expected nova-api to name its version, found {text[:40]!r}")
        return int(major), int(minor)

    def flavors(self) -> list[Flavor]:
        """Every flavor, public or not: ``GET /flavors/detail``."""
        found: list[Flavor] = []
        marker = ""
        while True:
            query = {"is_public": "None", "limit": str(_PAGE)} | (
                {"marker": marker} if marker else {}
            )
            rows = self._call("GET", f"/flavors/detail?{urlencode(query)}")["flavors"]
            if not rows:
                return found
            found += [_flavor(row) for row in rows]
            if found[-1].id == marker:
                raise UnavailableError(f"expected flavors after {marker}, Nova repeats itself")
            marker = found[-1].id

    def create_flavor(self, name: str, *, vcpus: int, ram: int, disk: int) -> Flavor:
        """``POST /flavors``: a public one without extra specs yet; ram in MiB, disk in GiB.

        Raises ``ConflictError`` where the name is taken.
        """
        body = {"flavor": {"name": name, "vcpus": vcpus, "ram": ram, "disk": disk}}
        return _flavor(self._call("POST", "/flavors", body)["flavor"])

    def put_extra_specs(self, flavor: str, specs: Mapping[str, str]) -> None:
        """``POST /flavors/{id}/os-extra_specs``: all of them in one request."""
        path = f"/flavors/{quote(flavor, safe='')}/os-extra_specs"
        self._call("POST", path, {"extra_specs": dict(specs)})

    def _call(
        self, method: str, path: str, body: Mapping[str, Any] | None = None
    ) -> Mapping[str, Any]:
        return sdk.call(
            "Nova",
            lambda: self._connection.compute,
            method,
            path,
            microversion=MICROVERSION,
            roles=_ROLES,
            body=body,
        )


def _flavor(row: Mapping[str, Any]) -> Flavor:
    return Flavor(
        id=str(row["id"]),
        name=str(row["name"]),
        vcpus=int(row["vcpus"]),
        ram=int(row["ram"]),
        disk=int(row["disk"]),
        extra_specs=dict(row.get("extra_specs") or {}),
    )
