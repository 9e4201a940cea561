"""A thousand slow clients before the API, as docs/api.md has it served: gunicorn behind nginx."""

from __future__ import annotations

import contextlib
import http.client
import resource
import selectors
import shutil
import socket
import ssl
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.importorskip("gunicorn", reason="tox env api has it")

from tests.lab.record import migrated_file
from tests.lab.services import certificate
from tests.lab.services.gunicorn import Gunicorn
from tests.lab.services.process import ServiceProcess, free_port, wait_until

pytestmark = pytest.mark.api

_SAMPLE: Final = Path(__file__).parents[2] / "docs" / "samples" / "nginx.conf"
_ADDRESSES: Final = 20
_BODIES, _HEADERS, _READERS = 600, 200, 200
_FRAME: Final = """\
worker_processes 1;
daemon off;
user root;
pid {top}/nginx.pid;
error_log {top}/error.log;
events {{ worker_connections 8192; }}
http {{
    access_log off;
    {temporary}
    include {top}/sample.conf;
}}
"""
_BODY: Final = (
    b"POST /v1/slots/cmp1_0000:01:00.0/hold HTTP/1.1\r\nHost: localhost\r\n"
    b'If-Match: "x"\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n'
)
_HEADER: Final = b"GET /v1/slots HTTP/1.1\r\nHost: localhost\r\nX-Slow: "
_READER: Final = b"GET /v1/openapi.json HTTP/1.1\r\nHost: localhost\r\n\r\n"


class Nginx(ServiceProcess):
    """The sample, with its addresses and its certificate's path alone replaced."""

    def __init__(self, top: Path, api: int) -> None:
        self.port = free_port()
        self.pem = certificate.write(top / "nginx.pem", "localhost")
        text = _SAMPLE.read_text()
        for is_, becomes in (
            ("server 127.0.0.1:8779;", f"server 127.0.0.1:{api};"),
            ("listen 443 ssl;", f"listen 127.0.0.1:{self.port} ssl;"),
            ("/etc/nginx/nvme-quarantine.pem", str(self.pem)),
        ):
            assert is_ in text
            text = text.replace(is_, becomes)
        (top / "sample.conf").write_text(text)
        temporary = " ".join(
            f"{kind}_temp_path {top}/{kind};"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        (top / "nginx.conf").write_text(_FRAME.format(top=top, temporary=temporary))
        program = shutil.which("nginx", path="/usr/sbin:/usr/bin")
        assert program is not None, "expected nginx: apt-get install nginx-light"
        argv = [program, "-c", str(top / "nginx.conf"), "-e", str(top / "error.log")]
        super().__init__("nginx", argv, top / "nginx.log", self._answers)

    def connect(self, source: str = "127.0.0.1") -> ssl.SSLSocket:
        """A client's connection from an address of loopback."""
        context = ssl.create_default_context(cafile=str(self.pem))
        plain = socket.create_connection(("127.0.0.1", self.port), 60, (source, 0))
        return context.wrap_socket(plain, server_hostname="localhost")

    def ask(self, path: str) -> int:
        """An ordinary client's request; the status of its answer."""
        context = ssl.create_default_context(cafile=str(self.pem))
        context.check_hostname = False
        with contextlib.closing(
            http.client.HTTPSConnection("127.0.0.1", self.port, timeout=60, context=context)
        ) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            answer.read()
            return answer.status

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self.ask("/v1") == 200
        return False


@pytest.fixture
def workers() -> int:
    """As docs/api.md has it."""
    return 2


@pytest.fixture
def api(tmp_path: Path, workers: int) -> Iterator[Gunicorn]:
    conf = tmp_path / "nvme-quarantine.conf"
    url = migrated_file(tmp_path / "record.db")
    conf.write_text(f"[database]\nurl = {url}\n[api]\nauth_strategy = noauth\n")
    env = {"NVME_QUARANTINE_CONFIG": str(conf)}
    application = "quarantine.wsgi.api:application"
    with Gunicorn("api", application, tmp_path, env, workers=workers, threads=8) as server:
        yield server


class Crowd:
    """Slow clients, from several addresses."""

    def __init__(self, nginx: Nginx) -> None:
        self._nginx = nginx
        self.sockets: dict[ssl.SSLSocket, bytes] = {}

    def come(self, count: int, first: bytes, then: bytes) -> list[ssl.SSLSocket]:
        """So many more say ``first``, and later ``then`` again and again."""
        came = []
        for number in range(count):
            one = self._nginx.connect(f"127.0.1.{number % _ADDRESSES + 1}")
            one.sendall(first)
            self.sockets[one] = then
            came.append(one)
        return came

    def dribble(self) -> None:
        """Another byte of each."""
        for one, then in self.sockets.items():
            with contextlib.suppress(OSError):
                one.sendall(then)

    def ended(self) -> set[ssl.SSLSocket]:
        """Those whose connection the other side has closed, or answered and closed."""
        found = set()
        for one in self.sockets:
            one.settimeout(0.0)
            try:
                while data := one.recv(65536):
                    del data
                found.add(one)
            except (ssl.SSLWantReadError, BlockingIOError):
                pass
            except OSError:
                found.add(one)
        return found

    def leave(self) -> None:
        """All of them."""
        for one in self.sockets:
            one.close()


@pytest.fixture
def many_files() -> Iterator[None]:
    """As many as the clients need, and nginx, which is told of no other number."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    assert hard >= 4096, f"expected to be allowed 4096 open files, found {hard}"
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 4096), hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_whoever_tries_passwords_by_the_score_is_told_to_wait(
    api: Gunicorn, tmp_path: Path
) -> None:
    """Of one address ten at once and then one a second; all else is as quick as ever."""
    top = tmp_path / "nginx"
    top.mkdir()
    with Nginx(top, api.port) as nginx:
        found = [nginx.ask("/page/login") for _ in range(40)]
        assert 429 not in found[:10]
        assert 429 in found[10:]
        assert 429 not in [nginx.ask("/v1") for _ in range(40)]


@pytest.mark.usefixtures("many_files")
def test_a_thousand_slow_clients_keep_nobody_waiting(api: Gunicorn, tmp_path: Path) -> None:
    top = tmp_path / "nginx"
    top.mkdir()
    with Nginx(top, api.port) as nginx:
        crowd = Crowd(nginx)
        try:
            bodies = crowd.come(_BODIES, _BODY, b" ")
            crowd.dribble()
            crowd.come(_READERS, _READER, b"")
            crowd.come(_HEADERS, _HEADER, b"x")
            for _ in range(10):
                crowd.dribble()
                assert [nginx.ask("/v1/slots"), nginx.ask("/v1/hosts")] == [200, 200]
            assert not set(bodies) & crowd.ended(), "they were held all the time"
            # Who says nothing any more is let go, and is answered by nobody's thread.
            wait_until(lambda: len(crowd.ended()) == len(crowd.sockets), "their end", 120, 0.5)
            assert nginx.ask("/v1/slots") == 200
        finally:
            crowd.leave()


def test_one_address_gets_so_many_connections_and_no_more(api: Gunicorn, tmp_path: Path) -> None:
    top = tmp_path / "nginx"
    top.mkdir()
    with Nginx(top, api.port) as nginx:
        held = [nginx.connect("127.0.2.1") for _ in range(101)]
        try:
            for one in held[:100]:
                one.sendall(_BODY)
            time.sleep(0.5)
            held[100].sendall(_READER)
            assert b" 429 " in held[100].recv(100)
            assert nginx.ask("/v1/slots") == 200, "from another address"
        finally:
            for one in held:
                one.close()


@pytest.mark.parametrize("workers", [1])
def test_without_a_proxy_a_few_would_be_enough(api: Gunicorn) -> None:
    """Why docs/api.md asks for one: as many as gunicorn has threads. Of two workers the kernel may
    give one nearly all of them."""
    held = [socket.create_connection(("127.0.0.1", api.port), 60) for _ in range(32)]
    try:
        for one in held:
            one.sendall(_BODY)
        time.sleep(1)
        with socket.create_connection(("127.0.0.1", api.port), 60) as ordinary:
            ordinary.sendall(_READER)
            with selectors.DefaultSelector() as waits:
                waits.register(ordinary, selectors.EVENT_READ)
                assert not waits.select(5)
    finally:
        for one in held:
            one.close()
