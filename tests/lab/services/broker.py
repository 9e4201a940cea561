"""A redis-server with the accounts of ``nvme-quarantine broker acl`` and no others."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

import redis

from quarantine.service.issue import brokeracl
from tests.lab.services.redis import RedisServer


class Broker(RedisServer):
    """One account for each of ``hosts``, one for the control plane, one for a person."""

    def __init__(
        self, directory: Path, hosts: Sequence[str], certificate: Path | None = None
    ) -> None:
        super().__init__(directory, accounts=True, certificate=certificate)
        self.passwords = brokeracl.passwords(directory / "passwords.json", hosts)
        self.acl_file.write_text(brokeracl.render(hosts, self.passwords))

    def url_for(self, account: str) -> str:
        """What stands in the configuration of who has the account."""
        return self.url_of(account, self.passwords[account])

    def as_(self, account: str = brokeracl.ADMIN) -> redis.Redis:
        """A client; the caller closes it."""
        return self.client(account, self.passwords[account])

    def denials(self) -> list[str]:
        """What was asked for and refused, with who asked."""
        with self.as_() as client:
            return denials(client)


def denials(client: redis.Redis) -> list[str]:
    """The same of any server, asked by a person's account."""
    log = cast(list[dict[str, Any]], client.acl_log())
    return [f"{each['username']}: {each['reason']} {each['object']}" for each in log]
