"""A stand-in for Neutron: a cloud without networks, ports or extensions. It is not Neutron.

Servers boot with ``networks: none``; nova still lists ports and extensions
(``nova/network/neutron.py``), and each list is empty.
"""

from __future__ import annotations

from typing import Any

from tests.lab.services.http_standin import JsonStandIn


class NeutronStandIn(JsonStandIn):
    """Answers every list with an empty one, under the name that the path asks for."""

    def __init__(self) -> None:
        super().__init__(self._answer)

    def _answer(self, method: str, path: str) -> Any:
        name = path.partition("?")[0].rstrip("/").rpartition("/")[2]
        return {name.removesuffix(".json").replace("-", "_"): []}
