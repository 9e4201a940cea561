"""Which of Nova's versioned notifications may mean that a drive was let go, and of whom they speak.

No notification names a PCI address. Event types are those of Nova 34
(``nova/notifications/objects/*.py``); nothing here is believed, it only says where to look.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

_RELEASING: Final = frozenset(
    {
        # Also a soft-deleted instance that is reclaimed, and a delete while the host is down.
        "instance.delete.end",
        "instance.shelve_offload.end",
        "instance.resize_confirm.end",
        "instance.resize_revert.end",
        "instance.rebuild.end",
        "instance.evacuate",
        "instance.live_migration_post.end",
        "instance.live_migration_post_dest.end",
        "instance.live_migration_rollback.end",
        "instance.live_migration_rollback_dest.end",
    }
)
_TASK_FAILED: Final = ("compute_task.", ".error")
_SERVICES: Final = frozenset({"service.create", "service.update", "service.delete"})
_COMPUTE: Final = "nova-compute"


@dataclass(frozen=True)
class Hint:
    """Where to look: a compute host, or an instance wherever it was. One of the two is set."""

    host: str = ""
    server: str = ""

    def plain(self) -> dict[str, str]:
        """What the task ``quarantine.bell`` takes."""
        return {"host": self.host} if self.host else {"server": self.server}


class Reader:
    """Reads notifications, and learns from them how hypervisors are called.

    Slots are named after the hypervisor (``node``), while who sends a notification names itself
    after ``[DEFAULT]host`` of nova.conf, which may be the short form. A confirmed resize is told
    with the new host in it; the old one, which let go, is known as its sender only.
    """

    def __init__(self) -> None:
        self._nodes: dict[str, str] = {}

    def hints(self, publisher: str, event: str, payload: object) -> tuple[Hint, ...]:
        """Where to look after this notification, whatever it holds; empty where nowhere."""
        data = _inner(payload)
        if event in _SERVICES:
            host = _text(data, "host") if _text(data, "binary") == _COMPUTE else ""
            return self._of(host)
        host, node = _text(data, "host"), _text(data, "node")
        if host and node:
            self._nodes[host] = node
        if not _releases(event):
            return ()
        service, _, sender = publisher.partition(":")
        hosts = self._of(node, host, sender if service == _COMPUTE else "")
        server = _text(data, "uuid") or _text(data, "instance_uuid")
        return (*hosts, Hint(server=server)) if server else hosts

    def _of(self, *names: str) -> tuple[Hint, ...]:
        known = dict.fromkeys(self._nodes.get(name, name) for name in names if name)
        return tuple(Hint(host=name) for name in known)


def _releases(event: str) -> bool:
    first, last = _TASK_FAILED
    failed = event.startswith((first, "instance.")) and event.endswith(last)
    return event in _RELEASING or failed


def _inner(payload: object) -> Mapping[str, Any]:
    """The fields of a versioned object as it is sent (oslo.versionedobjects)."""
    data = payload.get("nova_object.data") if isinstance(payload, Mapping) else None
    return data if isinstance(data, Mapping) else {}


def _text(data: Mapping[str, Any], name: str) -> str:
    value = data.get(name)
    return value if isinstance(value, str) else ""
