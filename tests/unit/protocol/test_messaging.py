"""The way to Redis by its URL, without a Redis."""

from __future__ import annotations

import ssl

import pytest

from eraser.protocol.transport import messaging


@pytest.mark.parametrize("scheme", ["rediss", "Rediss", "REDISS"])
def test_a_certificate_is_verified_however_the_scheme_is_written(scheme: str) -> None:
    with messaging.make_app(f"{scheme}://a:secret@redis.example:6379/0", "q") as app:
        connection = app.connection_for_write()
        assert connection.transport_cls == messaging.TRANSPORT
        assert connection.ssl == {"ssl_cert_reqs": ssl.CERT_REQUIRED, "ssl_check_hostname": True}


def test_our_transport_is_taken_however_the_scheme_is_written() -> None:
    with messaging.make_app("REDIS://redis.example:6379/0", "q") as app:
        assert app.connection_for_write().transport_cls == messaging.TRANSPORT
