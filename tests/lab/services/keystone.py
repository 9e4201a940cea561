"""A real Keystone (PyPI, SQLite) on loopback as its own process, and what people of it hold."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
import venv
from pathlib import Path
from typing import Any, Final

from tests.lab.errors import LabError
from tests.lab.guest.cache import Cache, digest
from tests.lab.guest.payload import REPOSITORY
from tests.lab.services.process import ServiceProcess, free_port

PASSWORD: Final = "bootstrapped"
SYSTEM: Final[dict[str, Any]] = {"system": {"all": True}}
DOMAIN: Final[dict[str, Any]] = {"domain": {"id": "default"}}
_WANTED: Final = REPOSITORY / "tools" / "requirements-api.txt"

_CONF: Final = """\
[DEFAULT]
log_file = {directory}/keystone.log
[database]
connection = sqlite:///{directory}/keystone.db
[fernet_tokens]
key_repository = {directory}/fernet
[credential]
key_repository = {directory}/credential
[identity]
password_hash_rounds = 4
"""

_EXPIRE: Final = """\
import sys, time
import msgpack
from cryptography.fernet import Fernet
key, token = Fernet(open(sys.argv[1], "rb").read()), sys.argv[2]
said = msgpack.unpackb(key.decrypt((token + "=" * (-len(token) % 4)).encode()))
then = time.time() + float(sys.argv[3])
said = [then if isinstance(each, float) else each for each in said]
print(key.encrypt_at_time(msgpack.packb(said), int(then) - 3600).decode().rstrip("="))
"""
"""A token is Fernet over MessagePack (keystone/token/token_formatters.py); its one float is when it
ends."""


def project(name: str) -> dict[str, Any]:
    """The scope of a project."""
    return {"project": {"name": name, "domain": {"id": "default"}}}


class Keystone(ServiceProcess):
    """``url`` stays the same over restarts, and so does the database in ``directory``."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        self._python = keystone_python()
        conf = directory / "keystone.conf"
        conf.write_text(_CONF.format(directory=directory))
        super().__init__(
            "Keystone",
            [str(self._python), "-m", "tests.lab.services.keystone_main", str(port)],
            directory / "process.log",
            self._answers,
            env={
                **os.environ,
                "OS_KEYSTONE_CONFIG_FILES": str(conf),
                "PYTHONPATH": str(REPOSITORY),
            },
        )

    def start(self) -> None:
        """As any service; at the first time its database, keys and administrator are made."""
        if not (self.directory / "fernet").exists():
            self._bootstrap()
        super().start()

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

    def admin(self) -> str:
        """A token of the administrator's."""
        return self.token("admin", PASSWORD, project("admin"))

    def reissued(self, token: str, ends_in: float) -> str:
        """The same token, made an hour before its end, which is in so many seconds from now."""
        keys = self.directory / "fernet"
        primary = max(keys.iterdir(), key=lambda file: int(file.name))
        words = [str(self._python), "-c", _EXPIRE, str(primary), token, str(ends_in)]
        return subprocess.run(words, capture_output=True, text=True, check=True).stdout.strip()

    def roles(self) -> dict[str, str]:
        """The id of each role by its name."""
        found = self.ask("GET", "/v3/roles", token=self.admin())[0]["roles"]
        return {role["name"]: role["id"] for role in found}

    def add_project(self, name: str) -> str:
        """A project of the default domain; its id."""
        said = {"project": {"name": name, "domain_id": "default"}}
        return str(self.ask("POST", "/v3/projects", said, self.admin())[0]["project"]["id"])

    def add_user(self, name: str, password: str) -> str:
        """A user of the default domain, with no role anywhere; the id."""
        user = {"name": name, "password": password, "domain_id": "default"}
        return str(self.ask("POST", "/v3/users", {"user": user}, self.admin())[0]["user"]["id"])

    def grant(self, where: str, user: str, role: str) -> None:
        """A role for a user, both by id: in ``projects/ID``, ``domains/ID`` or ``system``."""
        self.ask("PUT", f"/v3/{where}/users/{user}/roles/{role}", token=self.admin())

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

    def _answers(self) -> bool:
        with contextlib.suppress(urllib.error.URLError, OSError):
            return bool(self.ask("GET", "/v3"))
        return False

    def _bootstrap(self) -> None:
        for name in ("fernet", "credential"):
            (self.directory / name).mkdir(mode=0o700)
        owner = ["--keystone-user", str(os.geteuid()), "--keystone-group", str(os.getegid())]
        where = (f"--bootstrap-{kind}-url={self.url}/v3" for kind in ("public", "internal"))
        self._manage("db_sync")
        self._manage("fernet_setup", *owner)
        self._manage(
            *("bootstrap", "--bootstrap-password", PASSWORD, "--bootstrap-region-id", "one", *where)
        )

    def _manage(self, *words: str) -> None:
        # The script by its path beside the Python: its own first line may name another.
        program = str(self._python.with_name("keystone-manage"))
        conf = str(self.directory / "keystone.conf")
        _run([str(self._python), program, "--config-file", conf, *words])


def keystone_python(cache: Cache | None = None) -> Path:
    """A Python with Keystone: this one, or one that is made once. Raises ``LabError``."""
    here = Path(sys.executable)
    if importlib.util.find_spec("keystone") and here.with_name("keystone-manage").exists():
        return here
    wanted = [line for line in _WANTED.read_text().splitlines() if line.startswith("keystone")]

    def build(part: Path) -> None:
        venv.create(part, with_pip=True)
        python = str(part / "bin" / "python")
        _run([python, "-m", "pip", "install", "-q", "--disable-pip-version-check", *wanted])

    key = digest([*wanted, sys.version])
    return (cache or Cache()).entry("keystone", key, build) / "bin" / "python"


def _run(argv: list[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    if done.returncode:
        raise LabError(f"{' '.join(argv)} ended with {done.returncode}: {done.stderr.strip()}")
