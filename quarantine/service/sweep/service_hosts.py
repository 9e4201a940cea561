"""Which nova-compute a hypervisor belongs to, also while Nova cannot say it.

``GET /os-hypervisors/detail?hypervisor_hostname_pattern=`` walks all cells and skips none
(``compute_node_search_by_hypervisor``, ``nova/compute/api.py`` of Nova 34): one cell whose database
is away makes it a 500 for the hosts of every cell. What Nova said before is believed as long; it
names a service to be asked for, no more, and that must still say that it is up.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Final, Protocol

from quarantine.errors import UnavailableError

LOG = logging.getLogger(__name__)

AWAY_SECONDS: Final = 20.0
"""After a question without an answer none is put for so long: each may cost a timeout."""


class UnsaidError(UnavailableError):
    """Nova does not say it of this hypervisor, and never did. It may answer everything else."""


class HypervisorsNova(Protocol):
    """What is asked of :class:`quarantine.cloud.compute.Compute`."""

    def service_host(self, node: str) -> str | None:
        """The service host of a hypervisor."""


class ServiceHosts:
    """Asks Nova each time, and remembers its answers for when there is none. For one thread."""

    def __init__(
        self, nova: HypervisorsNova, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._nova = nova
        self._now = monotonic
        self._known: dict[str, str] = {}
        self._away_until = -float("inf")

    def of(self, node: str) -> str | None:
        """None where Nova has no such hypervisor. Raises :class:`UnsaidError`."""
        if self._now() >= self._away_until:
            try:
                host = self._nova.service_host(node)
            except UnavailableError as error:
                self._away_until = self._now() + AWAY_SECONDS
                LOG.warning("Nova does not say which service a hypervisor is of: %s", error)
            else:
                self._known.pop(node, None)
                if host is not None:
                    self._known[node] = host
                return host
        if node not in self._known:
            raise UnsaidError(f"Nova does not say which service the hypervisor {node} is of")
        return self._known[node]
