"""Who a host says it is: made on the host, registered by a person. Signs and holds nothing."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class HostCard:
    """``host.json``, as ``nvme-eraser keygen`` writes it and ``host register`` reads it."""

    host: str
    incarnation: str
    """A life of the host: another one after its state was lost (promise 7)."""
    key: dict[str, str]
    """The public half of what signs its reports (JWK, RFC 8037)."""
