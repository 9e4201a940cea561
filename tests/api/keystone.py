"""A real Keystone on loopback with SQLite, and what people of it hold."""

from __future__ import annotations

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

PASSWORD = "bootstrapped"

_SERVE = """
import sys
from socketserver import ThreadingMixIn
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from keystone.server.wsgi import initialize_public_application

PORT = int(sys.argv.pop())  # Keystone reads the command line too

class Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True

class Quiet(WSGIRequestHandler):
    def log_message(self, *words):
        pass

make_server(
    "127.0.0.1", PORT, initialize_public_application(), Server, Quiet
).serve_forever()
"""


@dataclass
class Keystone:
    """One that runs."""

    url: str
    process: subprocess.Popen[bytes]

    def stop(self) -> None:
        """As a power cut would."""
        self.process.kill()
        self.process.wait()

    def ask(
        self, method: str, path: str, body: Any = None, token: str = ""
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """The answer's document and headers. Raises ``HTTPError``."""
        headers = {"Content-Type": "application/json", "X-Auth-Token": token, "X-Subject-Token": ""}
        if method == "DELETE" and path.endswith("/tokens"):
            headers["X-Subject-Token"] = body
            body = None
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(  # noqa: S310
            f"{self.url}{path}", data, {k: v for k, v in headers.items() if v}, method=method
        )
        with urllib.request.urlopen(request, timeout=60) as answer:  # noqa: S310
            raw = answer.read()
            return json.loads(raw) if raw else {}, dict(answer.headers)

    def token(self, user: str, password: str, scope: dict[str, Any] | None = None) -> str:
        """Of a user of the default domain; ``scope`` None: without any."""
        who = {"name": user, "password": password, "domain": {"id": "default"}}
        auth: dict[str, Any] = {
            "identity": {"methods": ["password"], "password": {"user": who}},
            "scope": scope or "unscoped",
        }
        _said, headers = self.ask("POST", "/v3/auth/tokens", {"auth": auth})
        return headers["X-Subject-Token"]

    def options(self) -> str:
        """What a service that believes it has in its configuration."""
        return (
            "[keystone_authtoken]\nauth_type = password\nusername = admin\n"
            f"password = {PASSWORD}\nproject_name = admin\nuser_domain_id = default\n"
            f"project_domain_id = default\nauth_url = {self.url}/v3\n"
            f"www_authenticate_uri = {self.url}/v3\nhttp_request_max_retries = 0\n"
            # Else a token counts for five minutes more after it was revoked.
            "token_cache_time = -1\n"
        )

    def admin(self) -> str:
        """A token of the administrator's."""
        return self.token("admin", PASSWORD, project("admin"))


def project(name: str) -> dict[str, Any]:
    """The scope of a project."""
    return {"project": {"name": name, "domain": {"id": "default"}}}


SYSTEM = {"system": {"all": True}}
DOMAIN = {"domain": {"id": "default"}}


def start(directory: Path) -> Keystone:
    """Makes and starts one below ``directory``; takes some seconds."""
    for name in ("fernet", "credential"):
        (directory / name).mkdir(mode=0o700)
    with socket.socket() as door:
        door.bind(("127.0.0.1", 0))
        port = door.getsockname()[1]
    conf = directory / "keystone.conf"
    conf.write_text(
        f"[DEFAULT]\nlog_file = {directory}/keystone.log\n"
        f"[database]\nconnection = sqlite:///{directory}/keystone.db\n"
        f"[fernet_tokens]\nkey_repository = {directory}/fernet\n"
        f"[credential]\nkey_repository = {directory}/credential\n"
        "[identity]\npassword_hash_rounds = 4\n"
    )
    url = f"http://127.0.0.1:{port}"
    owner = ["--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid())]
    for words in (
        ["db_sync"],
        ["fernet_setup", *owner],
        [
            *("bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", "one"),
            *("--bootstrap-public-url", f"{url}/v3", "--bootstrap-internal-url", f"{url}/v3"),
        ],
    ):
        _manage(conf, words)
    environment = {**os.environ, "OS_KEYSTONE_CONFIG_FILES": str(conf)}
    argv = [sys.executable, "-c", _SERVE, str(port)]
    process = subprocess.Popen(argv, env=environment, cwd=directory)
    found = Keystone(url, process)
    deadline = time.monotonic() + 120
    while True:
        try:
            found.ask("GET", "/v3")
        except (urllib.error.URLError, OSError):
            if process.poll() is not None or time.monotonic() > deadline:
                found.stop()
                raise
            time.sleep(0.2)
        else:
            return found


def _manage(conf: Path, words: list[str]) -> None:
    beside = Path(sys.executable).with_name("keystone-manage")
    program = str(beside) if beside.exists() else shutil.which("keystone-manage")
    assert program, "expected keystone-manage, found none: pip install keystone"
    subprocess.run(
        [sys.executable, program, "--config-file", str(conf), *words],
        check=True,
        capture_output=True,
        timeout=300,
    )
