"""The accounts of the broker: who may do what in Redis, from the template ``broker.acl``.

Accounts are named as hosts are. Passwords are made once and kept in a file of their own; the ACL
has their hashes.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from collections.abc import Iterable, Mapping
from importlib import resources
from pathlib import Path
from typing import Final

from eraser.protocol.identity import host_name
from quarantine import outputfile
from quarantine.errors import BadInputError

CONTROL: Final = "nvme-quarantine"
"""The control plane's account."""

ADMIN: Final = "admin"
"""A person's."""

_HOST: Final = "HOST"
_TAKEN: Final = frozenset({CONTROL, ADMIN, "default"})


def passwords(file: Path, hosts: Iterable[str]) -> dict[str, str]:
    """The password of every account; those that the file does not have yet are made and written.

    Raises :class:`BadInputError`.
    """
    before = _read(file)
    made = {name: secrets.token_hex(24) for name in (ADMIN, CONTROL, *hosts)}
    # Those of hosts that are gone stay in the file: one that comes back has its password still.
    known = {**made, **before}
    if known == before:
        return known
    text = json.dumps(known, indent=1, sort_keys=True) + "\n"
    try:
        outputfile.replace(file, text.encode(), mode=outputfile.PRIVATE)
    except OSError as error:
        raise BadInputError(f"passwords: expected to write {file}: {error.strerror}") from error
    return known


def render(hosts: Iterable[str], known: Mapping[str, str]) -> str:
    """The file for Redis' ``aclfile``. Raises :class:`BadInputError` for a host's bad name."""
    text = (resources.files(__package__ or "") / "broker.acl").read_text()
    lines = [line for line in text.splitlines() if line and not line.startswith("#")]
    (each,) = (line for line in lines if line.startswith(f"user {_HOST} "))
    lines.remove(each)
    for host in sorted(set(hosts)):
        try:
            host_name(host)
        except ValueError as error:
            raise BadInputError(f"host: {error}") from error
        if host in _TAKEN:
            raise BadInputError(
                f"host {host}: expected another name than {', '.join(sorted(_TAKEN))}, which are "
                "accounts of the broker's own"
            )
        lines.append(each.replace(_HOST, host))
    for name in (ADMIN, CONTROL, *hosts):
        digest = hashlib.sha256(known[name].encode()).hexdigest()
        lines = [line.replace(f"{{{name}}}", f"#{digest}") for line in lines]
    return "\n".join(lines) + "\n"


def _read(file: Path) -> dict[str, str]:
    try:
        found = json.loads(file.read_text())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise BadInputError(f"passwords: expected to read {file}, found: {error}") from error
    if not isinstance(found, dict) or not all(
        isinstance(value, str) and value for value in found.values()
    ):
        raise BadInputError(f"passwords: expected an object of names to passwords in {file}")
    return found
