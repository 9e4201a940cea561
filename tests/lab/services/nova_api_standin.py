"""A stand-in for nova-api as the ghost checks ask it: it is not Nova, it shows what it is told.

Rows have the members of Nova's own samples (``nova/tests/functional/api_sample_tests/api_samples``
of Nova 34: ``os-hypervisors/v2.53``, ``os-services/v2.69``, ``servers/v2.73``,
``os-migrations/v2.59``, ``os-instance-actions/v2.62``), and filters do what
``nova/db/main/api.py`` does: without ``deleted`` the soft-deleted are left out, ``host`` is either
end of a migration. ``tests/daemons`` and ``tests/nova`` hold the same questions against the real
one.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, Self
from urllib.parse import parse_qsl, urlsplit

_ROOT: Final = "/v2.1"
PCI_FLAVOR: Final = {"vcpus": 1, "extra_specs": {"pci_passthrough:alias": "nvme:1"}}
"""A flavor as it stands in a server (2.47)."""

Row = dict[str, Any]


class NovaApiStandIn:
    """``url`` is the compute endpoint; the lists are what it shows, ``requests`` what was asked."""

    def __init__(self, *, page: int = 1000) -> None:
        """``page`` is Nova's ``[api]max_limit``."""
        self.hypervisors: list[Row] = []
        self.services: list[Row] = []
        self.servers: list[Row] = []
        self.migrations: list[Row] = []
        self.actions: dict[str, list[Row]] = {}
        """By server, the newest first."""
        self.requests: list[str] = []
        self.status = 200
        """Anything else is the answer to everything."""
        self.refuses: dict[str, int] = {}
        """Statuses of single paths. /os-hypervisors/detail walks all cells: without the database of
        one it is a 500, while lists leave that cell out (``nova/compute/api.py``)."""
        self.admin = True
        """Else lists are granted by policy, and servers are shown to their own project alone
        (``_build_instance_get`` of ``nova/db/main/api.py``: ``project_only``)."""
        self._page = page
        stand_in = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, body = stand_in._answer(self.path)
                text = json.dumps(body).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(text)))
                self.end_headers()
                self.wfile.write(text)

            def log_message(self, format: str, *args: object) -> None:
                """Nobody reads it."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}{_ROOT}"
        self._thread = threading.Thread(
            target=self._server.serve_forever, args=(0.02,), daemon=True
        )

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def start(self) -> None:
        """Answer, until :meth:`stop`."""
        self._thread.start()

    def stop(self) -> None:
        """Also for one that was never started."""
        if self._thread.is_alive():
            self._server.shutdown()
        self._server.server_close()

    def add_host(self, node: str, service: str | None = None) -> Row:
        """A hypervisor and its nova-compute, up; the service's row, to be changed."""
        host = service or node
        self.hypervisors.append(
            {
                "hypervisor_hostname": node,
                "state": "up",
                "status": "enabled",
                "service": {"host": host, "id": "1", "disabled_reason": None},
            }
        )
        row: Row = {
            "binary": "nova-compute",
            "host": host,
            "state": "up",
            "status": "enabled",
            "forced_down": False,
        }
        self.services.append(row)
        return row

    def add_server(self, uuid: str, node: str, **members: Any) -> Row:
        """A running server with a device; ``members`` replace or add."""
        row: Row = {
            "id": uuid,
            "status": "ACTIVE",
            "updated": "2026-11-20T12:00:00Z",
            "flavor": PCI_FLAVOR,
            "OS-EXT-SRV-ATTR:host": self._host_of(node),
            "OS-EXT-SRV-ATTR:hypervisor_hostname": node,
            "OS-EXT-STS:vm_state": "active",
            "OS-SRV-USG:launched_at": "2026-11-20T11:00:00.000000",
            "deleted": False,
        } | members
        self.servers.append(row)
        return row

    def add_action(self, server: str, action: str, started: str, updated: str) -> None:
        """What was done to a server; times as Nova writes them here, UTC without saying so."""
        row = {"action": action, "start_time": started, "updated_at": updated}
        self.actions.setdefault(server, []).insert(0, row)

    def add_migration(self, uuid: str, server: str, **members: Any) -> Row:
        """A migration; ``members`` say from where, to where, of what kind, and how it stands."""
        row: Row = {
            "uuid": uuid,
            "instance_uuid": server,
            "migration_type": "migration",
            "status": "finished",
            "source_compute": None,
            "dest_compute": None,
        } | members
        self.migrations.append(row)
        return row

    def _host_of(self, node: str) -> str:
        found = (h["service"]["host"] for h in self.hypervisors if h["hypervisor_hostname"] == node)
        return str(next(found, node))

    def _answer(self, target: str) -> tuple[int, Any]:
        if target.removeprefix(_ROOT) in ("", "/"):
            return 200, {"version": self._version()}  # asked by openstacksdk, not by us
        self.requests.append(target.removeprefix(_ROOT))
        if self.status != 200:
            return self.status, {"error": {"code": self.status, "message": "told to"}}
        parts = urlsplit(target.removeprefix(_ROOT))
        if parts.path in self.refuses:
            return self.refuses[parts.path], {"computeFault": {"message": "told to"}}
        query = dict(parse_qsl(parts.query))
        if parts.path == "/os-hypervisors/detail":
            pattern = query["hypervisor_hostname_pattern"]
            rows = [h for h in self.hypervisors if pattern in h["hypervisor_hostname"]]
            return (200, {"hypervisors": rows}) if rows else (404, {"itemNotFound": {}})
        if parts.path == "/os-services":
            wanted = query.get("binary")
            rows = [s for s in self.services if s["host"] == query["host"]]
            rows = [s for s in rows if wanted in (None, s["binary"])]
            return 200, {"services": rows}
        if parts.path == "/servers/detail":
            return 200, {"servers": self._paged(self._servers(query), query, "id")}
        if parts.path == "/os-migrations":
            ends = ("source_compute", "dest_compute")
            if "instance_uuid" in query:
                rows = [m for m in self.migrations if m["instance_uuid"] == query["instance_uuid"]]
            else:
                rows = [m for m in self.migrations if query["host"] in [m[end] for end in ends]]
            return 200, {"migrations": self._paged(rows, query, "uuid")}
        for row in self.servers:
            if parts.path == f"/servers/{row['id']}/os-instance-actions":
                return 200, {"instanceActions": self.actions.get(row["id"], [])[:1]}
            if parts.path == f"/servers/{row['id']}" and self.admin and not row["deleted"]:
                return 200, {"server": row}
        return 404, {"itemNotFound": {}}

    def _version(self) -> Row:
        links = [{"rel": "self", "href": f"{self.url}/"}]
        known = {"id": "v2.1", "status": "CURRENT", "min_version": "2.1", "links": links}
        return {**known, "version": "2.104"}

    def _servers(self, query: Mapping[str, str]) -> list[Row]:
        if query.get("all_tenants") != "true":
            # Each server is a tenant's: who does not ask for all sees those of his own project.
            return []
        found = []
        for row in self.servers:
            if row["status"] == "UNKNOWN":
                continue  # in a cell that is down
            soft = row["OS-EXT-STS:vm_state"] == "soft-delete"
            gone = row["deleted"] or soft
            if gone != (query.get("deleted") == "true"):
                continue
            if query.get("uuid", row["id"]) != row["id"]:
                continue
            if query.get("host", row["OS-EXT-SRV-ATTR:host"]) != row["OS-EXT-SRV-ATTR:host"]:
                continue
            # Nova asks its database for the vm_state, and shows the status of what it then finds.
            if "status" in query and not (soft and query["status"] == "SOFT_DELETED"):
                continue
            if row["updated"] >= query.get("changes-since", ""):
                found.append(row)
        if "sort_key" not in query:
            return found
        # Nova's own direction is the other one.
        backward = query.get("sort_dir") != "asc"
        return sorted(found, key=lambda row: str(row["updated"]), reverse=backward)

    def _paged(self, rows: list[Row], query: Mapping[str, str], key: str) -> list[Row]:
        names = [row[key] for row in rows]
        start = names.index(query["marker"]) + 1 if "marker" in query else 0
        return rows[start : start + min(self._page, int(query.get("limit", self._page)))]
