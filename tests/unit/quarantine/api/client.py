"""A caller of the API who holds each answer against what the API says of itself."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import bcrypt
from falcon import testing
from jsonschema import Draft202012Validator, FormatChecker

from eraser.protocol.identity import ControllerIdentity, Slot
from quarantine.api import application, schemas
from quarantine.api.operation import Operation
from quarantine.api.routes import OPERATIONS
from quarantine.operations.papers import keys
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotChanges
from tests.lab.record import migrated_file

SLOTS: Final = [Slot(f"cmp{host}", f"0000:0{bus}:00.0") for host in (1, 2) for bus in (1, 2, 3)]
NAMES: Final = [f"{slot.host}_{slot.address}" for slot in SLOTS]
ADMIN, READER = ("ada", "secret-of-ada"), ("rita", "secret-of-rita")
SERVER: Final = "11111111-2222-3333-4444-555555555555"
DRIVE: Final = ControllerIdentity(
    0x144D, 0xA80A, 0x144D, 0xA801, "S1", "<script>alert(1)</script>\x1b[2J", "nqn.2014.test:1"
)


def provider(number: int) -> str:
    """The uuid of a slot's resource provider."""
    return f"00000000-0000-0000-0000-{number:012d}"


@dataclass
class Site:
    """A control plane with six slots, whose cloud is nowhere."""

    path: Path
    options: str = ""
    strategy: str = "http_basic"
    file: Path = field(init=False)

    def __post_init__(self) -> None:
        path = self.path
        self.file = path / "nvme-quarantine.conf"
        users = path / "users"
        digests = (
            f"{name}:{bcrypt.hashpw(word.encode(), bcrypt.gensalt(4)).decode()}\n"
            for name, word in (ADMIN, READER)
        )
        users.write_text("".join(digests))
        self.file.write_text(
            f"[database]\nurl = {migrated_file(path / 'record.db')}\n"
            f"[evidence]\nsigning_key = {path}/controller.pem\n"
            f"certificates_dir = {path}/certificates\nheads_dir = {path}/heads\n"
            "[placement]\ncloud = no-such-cloud\n"
            f"[api]\nauth_strategy = {self.strategy}\nhttp_basic_file = {users}\n"
            f"http_basic_admins = ada\nallowed_hosts = falconframework.org\n{self.options}"
        )
        keys.create(Plane([self.file]))
        with self.store() as store:
            for number, slot in enumerate(SLOTS):
                record = store.enrol(
                    slot,
                    provider=provider(number),
                    resource_class="CUSTOM_NVME",
                    in_use=False,
                    profile="x",
                    policy="purge",
                )
                if number == 0:
                    store.amend(record, SlotChanges(identity=DRIVE, consumer=SERVER))

    def store(self) -> _Opened:
        """The record, for what people and hosts do beside the API."""
        return _Opened(f"sqlite:///{self.path}/record.db")

    def client(self) -> Client:
        """A caller without a name."""
        return Client(application.make(ServingPlane([self.file])))


class _Opened:
    def __init__(self, url: str) -> None:
        self._store = Store.open(url)

    def __enter__(self) -> Store:
        return self._store

    def __exit__(self, *_: object) -> None:
        self._store.close()


@dataclass(frozen=True)
class Client:
    """Asks, and checks every answer: ids, headers, and the schema of that very operation."""

    app: Any
    headers: Mapping[str, str] = field(default_factory=dict)

    def as_user(self, user: tuple[str, str]) -> Client:
        """With a name and its password."""
        token = base64.b64encode(":".join(user).encode()).decode()
        return Client(self.app, {"Authorization": f"Basic {token}"})

    def ask(
        self,
        method: str,
        path: str,
        body: Any = None,
        raw: bytes | None = None,
        **headers: str,
    ) -> testing.Result:
        """One request. Underscores in names of headers are hyphens."""
        said = {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items()}}
        data = raw if raw is not None else None if body is None else json.dumps(body)
        if data is not None:
            said.setdefault("Content-Type", "application/json")
        where, _, query = path.partition("?")
        found = testing.simulate_request(
            self.app, method, where, query_string=query, headers=said, body=data or ""
        )
        _check(method, where, found)
        return found

    def get(self, path: str, **headers: str) -> testing.Result:
        """One that reads."""
        return self.ask("GET", path, **headers)


def _check(method: str, path: str, found: testing.Result) -> None:
    assert re.fullmatch(r"req-[0-9a-f-]{36}", found.headers["X-Openstack-Request-Id"])
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    assert b"<script" not in found.content
    assert found.content.isascii()
    if found.status_code >= 400 and path != "/healthcheck":
        assert found.headers["Content-Type"] == "application/json"
        _validate(found.json, schemas.ERRORS)
        (error,) = found.json["errors"]
        assert error["status"] == found.status_code
        assert error["request_id"] == found.headers["X-Openstack-Request-Id"]
        assert error["code"].startswith("nvme-quarantine.")
        assert "Traceback" not in error["detail"]
        return
    operation = operation_of(method, path)
    if operation.response is not None:
        _validate(found.json, operation.response)


def operation_of(method: str, path: str) -> Operation:
    """What a request asks for."""
    for one in OPERATIONS:
        pattern = re.sub(r"\\{\w+\\}", "[^/]+", re.escape(one.path))
        if one.method == method and re.fullmatch(pattern, path):
            return one
    raise LookupError(f"{method} {path}")


def _validate(value: Any, schema: Any) -> None:
    # By its text: to look at a schema takes a hundred times as long as to look at an answer.
    _validator(json.dumps(schema, sort_keys=True)).validate(value)


@functools.cache
def _validator(text: str) -> Draft202012Validator:
    schema = json.loads(text)
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema, format_checker=FormatChecker())


def code(found: testing.Result) -> str:
    """What a program reads of an error."""
    said: str = found.json["errors"][0]["code"]
    return said.removeprefix("nvme-quarantine.")
