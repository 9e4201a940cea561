"""``rediss://`` as the guide writes it: nothing is said in the clear, nor to a stranger."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from celery.app.base import Celery

from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.transport.messaging import BrokerRedis, host_queue, make_app
from quarantine.errors import UnavailableError
from quarantine.service.issue import brokeracl, celery_app
from tests.lab.services import certificate
from tests.lab.services.broker import Broker

pytestmark = pytest.mark.services

HOST = "cmp1.example"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With accounts, and TLS alone."""
    directory = tmp_path_factory.mktemp("redis")
    own = certificate.write(directory / "own.pem", "localhost")
    with Broker(directory, [HOST], own) as server:
        yield server


def trust(monkeypatch: pytest.MonkeyPatch, file: Path) -> None:
    """What the system's list of authorities would be."""
    monkeypatch.setenv("SSL_CERT_FILE", str(file))
    monkeypatch.setenv("SSL_CERT_DIR", str(file.parent / "no-others"))


def said(app: Celery) -> None:
    """One message of the host."""
    BrokerRedis(app).push(MessageKind.HELLO, HOST, "a-signed-token")


def test_both_sides_speak_by_the_urls_of_the_guide(
    server: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trust(monkeypatch, server.directory / "own.pem")
    assert server.url_for(HOST).startswith(f"rediss://{HOST}:")
    with make_app(server.url_for(HOST), host_queue(HOST)) as host:
        said(host)
    with celery_app.make_app(server.url_for(brokeracl.CONTROL)) as control:
        celery_app.CeleryPost(control)(HOST, "an-order")
        assert BrokerRedis(control).client().llen(key(MessageKind.HELLO, HOST)) == 1
    assert server.denials() == []


def test_an_authority_of_ones_own_stands_in_the_url(
    server: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trust(monkeypatch, certificate.write(tmp_path / "other.pem", "localhost"))
    url = f"{server.url_for(HOST)}?ssl_ca_certs={server.directory / 'own.pem'}"
    with make_app(url, host_queue(HOST)) as host:
        said(host)


def test_a_stranger_is_told_nothing(
    server: Broker, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    trust(monkeypatch, certificate.write(tmp_path / "other.pem", "localhost"))
    with (
        make_app(server.url_for(HOST), host_queue(HOST)) as host,
        pytest.raises(OSError, match="certificate verify failed"),
    ):
        said(host)
    with (
        # Of another database: kombu's pool keeps connections of the URL that was used before.
        celery_app.make_app(server.url_for(brokeracl.CONTROL)[:-1] + "1") as control,
        pytest.raises(UnavailableError, match="certificate verify failed"),
    ):
        celery_app.CeleryPost(control)(HOST, "an-order")


def test_a_certificate_for_another_name_is_a_strangers(
    server: Broker, monkeypatch: pytest.MonkeyPatch
) -> None:
    trust(monkeypatch, server.directory / "own.pem")
    url = server.url_for(HOST).replace("localhost", "127.0.0.1")
    with make_app(url, host_queue(HOST)) as host, pytest.raises(OSError, match="IP address mism"):
        said(host)


def test_the_first_word_is_no_password() -> None:
    """Whoever listens in the clear hears the beginning of TLS (RFC 8446, 5.1: type 22)."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def listen() -> None:
            connection, _ = listener.accept()
            with connection:
                heard.append(connection.recv(4096))

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        url = f"rediss://{HOST}:a-password@localhost:{listener.getsockname()[1]}/0"
        with make_app(url, host_queue(HOST)) as host, pytest.raises(OSError, match="broker"):
            said(host)
        thread.join(60)
    assert heard[0][0] == 22
    assert b"a-password" not in heard[0]
