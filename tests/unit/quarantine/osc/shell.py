"""The commands as the ``openstack`` program runs them, on an API in this process."""

from __future__ import annotations

import argparse
import io
from collections.abc import Callable
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any
from urllib.parse import urlsplit

import pytest
import requests
from cliff.app import App
from cliff.commandmanager import CommandManager
from falcon import testing
from keystoneauth1.http_basic import HTTPBasicAuth
from keystoneauth1.session import Session
from requests.adapters import BaseAdapter
from requests.structures import CaseInsensitiveDict

from quarantine.cli.app import Commands
from quarantine.osc.client import Api
from quarantine.osc.source import ApiSource
from tests.unit.quarantine.api.client import ADMIN

URL = "http://nvme.test"


@dataclass
class Wire(BaseAdapter):
    """Carries requests of ``requests`` to a WSGI application, and keeps what it carried."""

    app: Any
    carried: list[str] = field(default_factory=list)
    before: Callable[[Any], requests.Response | None] = lambda _request: None
    """What happens, or is answered, before one arrives."""

    def __post_init__(self) -> None:
        super().__init__()

    def send(self, request: Any, *_words: Any, **_more: Any) -> requests.Response:  # type: ignore[override]
        self.carried.append(f"{request.method} {request.url}")
        instead = self.before(request)
        if instead is not None:
            instead.request = request
            return instead
        parts = urlsplit(request.url)
        found = testing.simulate_request(
            self.app,
            request.method,
            parts.path,
            query_string=parts.query,
            headers=dict(request.headers),
            body=request.body or "",
        )
        made = answer(found.status_code, found.content, **found.headers)
        made.request, made.url = request, request.url
        return made

    def close(self) -> None:
        pass


def answer(status: int, content: bytes, **headers: str) -> requests.Response:
    """An answer from anywhere."""
    made = requests.Response()
    made.status_code, made._content = status, content
    made.headers = CaseInsensitiveDict(headers)
    return made


@dataclass
class Program:
    """An ``openstack`` program whose words are of one person."""

    wire: Wire
    capsys: pytest.CaptureFixture[str]
    user: tuple[str, str] = ADMIN
    endpoint: str | None = URL

    def __call__(self, *words: object) -> tuple[int, str, str]:
        """One command of ours, without ``nvme``: exit code, stdout, stderr."""
        http = requests.Session()
        http.mount("http://", self.wire)
        session = Session(auth=HTTPBasicAuth(None, *self.user), session=http)
        source = ApiSource(Api(session, endpoint=self.endpoint))
        said = io.StringIO()
        shell = App("the openstack program", "1", CommandManager(None), stdout=said)
        vars(shell)["client_manager"] = SimpleNamespace(nvme=source)
        made, name, rest = Commands().find_command([str(word) for word in words])
        command = made(shell, argparse.Namespace(), cmd_name=f"nvme {name}")
        try:
            parsed = command.get_parser(f"openstack nvme {name}").parse_args(rest)
            code = command.run(parsed)
        except SystemExit as ended:
            code = int(ended.code or 0)
        return code, said.getvalue(), self.capsys.readouterr().err
