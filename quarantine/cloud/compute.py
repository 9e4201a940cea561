"""The one door to Nova's API (the compute API reference of Nova 34 names the requests)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import quote, urlencode

from quarantine.cloud import novafacts, sdk
from quarantine.cloud.novafacts import ComputeService, InstanceAction, Migration, Server
from quarantine.errors import OwnSetupError, UnavailableError

MICROVERSION: Final = "2.79"
"""2.61: flavors show their extra specs; 2.79 is Train's, far below every Nova that we work with."""

_ROLES: Final = "the admin role"

_PATHS: Final = {
    "flavors": "/flavors/detail",
    "servers": "/servers/detail",
    "migrations": "/os-migrations",
}

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


class Compute(sdk.Service):
    """Nova as this project needs it."""

    def newest_microversion(self) -> tuple[int, int]:
        """``GET /`` of the v2.1 endpoint: the newest that nova-api offers, which dates it.

        Raises ``UnavailableError``, also where the answer names no version.
        """
        # The catalogue's endpoint ends with /v2.1: its root is the version itself.
        shown = self._call("GET", "/").get("version")
        text = str(shown.get("version", "")) if isinstance(shown, dict) else ""
        major, _dot, minor = text.partition(".")
        if not (major.isdigit() and minor.isdigit()):
            raise UnavailableError(f"expected nova-api to name its version, found {text[:40]!r}")
        return int(major), int(minor)

    def flavors(self) -> list[Flavor]:
        """Every flavor, public or not: ``GET /flavors/detail``."""
        return [_flavor(row) for row in self._pages("flavors", "id", {"is_public": "None"})]

    def service_host(self, node: str) -> str | None:
        """The name that nova-compute has for the hypervisor ``node``; None where Nova has none.

        ``GET /os-hypervisors/detail?hypervisor_hostname_pattern=`` (2.53), 404 without a match.
        """
        query = urlencode({"hypervisor_hostname_pattern": node})
        try:
            rows = self._call("GET", f"/os-hypervisors/detail?{query}")["hypervisors"]
        except sdk.NotFoundError:
            return None
        # The pattern is a part of a name.
        return next(
            (str(r["service"]["host"]) for r in rows if r["hypervisor_hostname"] == node), None
        )

    def compute_services(self, host: str) -> list[ComputeService]:
        """``GET /os-services`` of one service host: no row, or one."""
        query = urlencode({"host": host, "binary": "nova-compute"})
        rows = self._call("GET", f"/os-services?{query}")["services"]
        return [novafacts.compute_service(row) for row in rows]

    def servers(self, host: str) -> list[Server]:
        """Every server of a service host, those included that are deleted and may be restored.

        ``GET /servers/detail``, twice: without ``deleted`` Nova leaves out the soft-deleted
        (``instance_get_all_by_filters``).
        """
        here = {"all_tenants": "true", "host": host}
        restorable = {"deleted": "true", "status": "SOFT_DELETED"}
        rows = [
            *self._pages("servers", "id", here),
            *(
                row
                for row in self._pages("servers", "id", here | restorable)
                # A local delete leaves vm_state at soft-delete; only the status tells that the
                # server is gone for good (seen on Nova 34).
                if row.get("status") == "SOFT_DELETED"
            ),
        ]
        return [novafacts.server(row) for row in rows]

    def server(self, server: str) -> Server | None:
        """``GET /servers/{id}``; None where there is none, or it is deleted for good.

        Raises ``OwnSetupError`` where it is only hidden from our user.
        """
        try:
            answer = self._call("GET", f"/servers/{quote(server, safe='')}")
        except sdk.NotFoundError:
            if self._lists(server):
                raise OwnSetupError(
                    f"expected Nova to show server {server}, which its list has: the cloud's user "
                    f"needs {_ROLES} (context_is_admin), no policy opens servers of other projects"
                ) from None
            return None
        return novafacts.server(answer["server"])

    def _lists(self, server: str) -> bool:
        """A policy may grant lists of all projects; ``instance_get_by_uuid`` shows who is no
        administrator those of his own (``project_only``)."""
        query = {"all_tenants": "true", "uuid": server}
        try:
            # Who may not filter by uuid is shown them all, in pages.
            return any(row["id"] == server for row in self._pages("servers", "id", query))
        except sdk.NotFoundError:
            return False

    def migrations(self, host: str) -> list[Migration]:
        """Every migration from or to a service host, ended or not: ``GET /os-migrations``."""
        rows = self._pages("migrations", "uuid", {"host": host})
        return [novafacts.migration(row) for row in rows]

    def migrations_of(self, server: str) -> list[Migration]:
        """Every migration of a server: ``GET /os-migrations?instance_uuid=``, empty without one."""
        try:
            rows = list(self._pages("migrations", "uuid", {"instance_uuid": server}))
        except sdk.NotFoundError:
            return []
        return [novafacts.migration(row) for row in rows]

    def deleted_since(self, since: str) -> list[Server]:
        """Servers deleted since then, oldest first, at most one page.

        ``since`` is ISO 8601 on Nova's clock. ``GET /servers/detail?deleted&changes-since``.
        """
        query = {
            "all_tenants": "true",
            "deleted": "true",
            "changes-since": since,
            "sort_key": "updated_at",
            "sort_dir": "asc",
            "limit": str(_PAGE),
        }
        rows = self._call("GET", f"/servers/detail?{urlencode(query)}")["servers"]
        return [novafacts.server(row) for row in rows]

    def deleted_at(self, server: str) -> datetime | None:
        """When a server was deleted for good, with whole seconds; None where it was not.

        ``GET /servers/detail?deleted&uuid=``. One that may be restored still has its drives.
        """
        query = urlencode({"all_tenants": "true", "deleted": "true", "uuid": server, "limit": "1"})
        rows = self._call("GET", f"/servers/detail?{query}")["servers"]
        gone = [row for row in rows if row.get("status") == "DELETED"]
        return novafacts.changed(gone[0]) if gone else None

    def last_action(self, server: str) -> InstanceAction | None:
        """``GET /servers/{id}/os-instance-actions?limit=1`` (2.58), the newest first; None where
        Nova has no such server."""
        try:
            path = f"/servers/{quote(server, safe='')}/os-instance-actions?limit=1"
            rows = self._call("GET", path)["instanceActions"]
        except sdk.NotFoundError:
            return None
        return novafacts.action(rows[0]) if rows else None

    def _pages(self, kind: str, key: str, query: Mapping[str, str]) -> Iterator[Mapping[str, Any]]:
        """All rows of a list that is given out in pages; ``key`` names the member to go on from."""
        marker = ""
        while True:
            asked = {**query, "limit": str(_PAGE)} | ({"marker": marker} if marker else {})
            rows = self._call("GET", f"{_PATHS[kind]}?{urlencode(asked)}")[kind]
            # A short page is no end: Nova's own limit may be lower than the one asked for.
            if not rows:
                return
            yield from rows
            # Else a server that does not heed the marker would be asked for ever.
            if str(rows[-1][key]) == marker:
                raise UnavailableError(f"expected {kind} after {marker}, Nova repeats itself")
            marker = str(rows[-1][key])

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
