"""A bare client of the real nova-api, for tests: no openstacksdk, no retries."""

from __future__ import annotations

import http.client
import json
from typing import Any, Final
from urllib.parse import urlsplit

from tests.lab.errors import LabError
from tests.lab.services.glance_standin import IMAGE
from tests.lab.services.nova_conf import ALIAS
from tests.lab.services.process import wait_until

MICROVERSION: Final = "2.90"
"""2.74 names a host at boot, 2.37 boots without networks."""


class NovaApi:
    """One connection per request: it survives restarts of the server."""

    def __init__(self, url: str) -> None:
        """``url`` ends with ``/v2.1``."""
        parts = urlsplit(url)
        self.token = "admin"
        """Whose act each call is (:mod:`tests.lab.nova.noauth`)."""
        self._netloc, self._path = parts.netloc, parts.path

    def call(
        self, method: str, path: str, body: object = None, *, version: str = MICROVERSION
    ) -> tuple[int, Any]:
        """Status and decoded body. Raises ``OSError`` when nobody answers."""
        connection = http.client.HTTPConnection(self._netloc, timeout=60)
        headers = {
            "X-Auth-Token": self.token,
            "Content-Type": "application/json",
            "OpenStack-API-Version": f"compute {version}",
        }
        try:
            encoded = None if body is None else json.dumps(body)
            connection.request(method, self._path + path, body=encoded, headers=headers)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, json.loads(text) if text else None
        finally:
            connection.close()

    def ask(self, method: str, path: str, body: object = None, **options: str) -> Any:
        """As :meth:`call`; a refusal is a ``LabError``."""
        status, found = self.call(method, path, body, **options)
        if status >= 400:
            raise LabError(f"expected nova-api to do {method} {path}, found {status}: {found}")
        return found

    def flavor(self, name: str, drives: int) -> str:
        """A flavor with that many drives; its id."""
        body = {"flavor": {"name": name, "id": name, "ram": 64, "vcpus": 1, "disk": 0}}
        self.ask("POST", "/flavors", body)
        if drives:
            specs = {"extra_specs": {"pci_passthrough:alias": f"{ALIAS}:{drives}"}}
            self.ask("POST", f"/flavors/{name}/os-extra_specs", specs)
        return name

    def boot(self, flavor: str, *, name: str = "vm", host: str | None = None) -> str:
        """Ask for a server; its uuid. It is not waited for."""
        server = {"name": name, "flavorRef": flavor, "imageRef": IMAGE, "networks": "none"}
        if host is not None:
            server["host"] = host
        return str(self.ask("POST", "/servers", {"server": server})["server"]["id"])

    def server(self, uuid: str) -> dict[str, Any] | None:
        """The server as nova-api shows it; ``None`` once it is deleted."""
        status, found = self.call("GET", f"/servers/{uuid}")
        return dict(found["server"]) if status == 200 else None

    def action(self, uuid: str, name: str, value: object = None) -> None:
        """One of the server's actions (``confirmResize``, ``shelveOffload`` ...)."""
        self.ask("POST", f"/servers/{uuid}/action", {name: value})

    def delete(self, uuid: str) -> None:
        """Ask for its deletion. It is not waited for."""
        self.ask("DELETE", f"/servers/{uuid}")

    def wait(self, uuid: str, *statuses: str, seconds: float = 180.0) -> str:
        """Until the server has one of the statuses and no task; ``DELETED`` once it is gone."""
        seen = ""

        def there() -> bool:
            nonlocal seen
            found = self.server(uuid)
            seen = found["status"] if found else "DELETED"
            # What is in ERROR may well become DELETED.
            if seen == "ERROR" and not {"ERROR", "DELETED"} & set(statuses) and found:
                raise LabError(f"expected {uuid} to become {statuses}: {found.get('fault')}")
            return seen in statuses and not (found and found["OS-EXT-STS:task_state"])

        wait_until(there, f"server {uuid} to be {' or '.join(statuses)}", seconds, every=0.1)
        return seen

    def servers(self) -> list[str]:
        """The uuids of all servers of all projects."""
        found = self.ask("GET", "/servers?all_tenants=1")["servers"]
        return [str(each["id"]) for each in found]

    def compute_states(self) -> dict[str, str]:
        """``up`` or ``down`` of each nova-compute, by host."""
        return {each["host"]: each["state"] for each in self._computes()}

    def compute_reports(self) -> dict[str, str]:
        """When each nova-compute was last heard of through the message bus, by host."""
        return {each["host"]: each["updated_at"] for each in self._computes()}

    def force_down(self, host: str, *, down: bool) -> None:
        """Tell Nova that a nova-compute is fenced, or that it is not any more."""
        (service,) = (each for each in self._computes() if each["host"] == host)
        self.ask("PUT", f"/os-services/{service['id']}", {"forced_down": down})

    def _computes(self) -> list[dict[str, Any]]:
        return list(self.ask("GET", "/os-services?binary=nova-compute")["services"])
