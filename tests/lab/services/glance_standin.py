"""A stand-in for Glance: whatever image is asked for or made is one of one byte. It is not Glance.

nova-api looks the image up before it boots a server and makes one when it shelves
(``nova/image/glance.py``); the fake compute driver never reads or writes one.
"""

from __future__ import annotations

from typing import Any, Final

from tests.lab.services.http_standin import JsonStandIn

IMAGE: Final = "11111111-2222-3333-4444-555555555555"

_IMAGE: Final[dict[str, Any]] = {
    "id": IMAGE,
    "name": "lab",
    "status": "active",
    "visibility": "public",
    "size": 1,
    "virtual_size": 1,
    "disk_format": "qcow2",
    "container_format": "bare",
    "min_ram": 0,
    "min_disk": 0,
    "owner": "admin",
    "created_at": "2026-01-01T00:00:00Z",
    "updated_at": "2026-01-01T00:00:00Z",
    "tags": [],
    "checksum": "0" * 32,
    "protected": False,
    "os_hidden": False,
    "self": f"/v2/images/{IMAGE}",
    "file": f"/v2/images/{IMAGE}/file",
    "schema": "/v2/schemas/image",
}


class GlanceStandIn(JsonStandIn):
    """Serves the Image API v2 as far as a boot goes."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, method: str, path: str) -> Any:
        if "/schemas/" in path:
            # Nova's client holds what it sends against this: anything will do.
            properties: dict[str, Any] = {name: {} for name in _IMAGE}
            return {"name": "image", "properties": properties, "additionalProperties": {}}
        if "/images" in path:
            return _IMAGE
        links = [{"rel": "self", "href": f"{self.url}/v2/"}]
        return {"versions": [{"id": "v2.9", "status": "CURRENT", "links": links}]}
