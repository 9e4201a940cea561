"""One request through openstacksdk, and its answers and exceptions as this project's own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Self

from quarantine.cloud.cloudsfile import believed
from quarantine.errors import (
    BadInputError,
    ConflictError,
    OwnSetupError,
    QuarantineError,
    UnavailableError,
)


class NotFoundError(QuarantineError):
    """The service has no such thing."""


class Service:
    """A door to one service of a cloud. Not thread safe: one per thread."""

    def __init__(self, connection: Any) -> None:
        """``connection`` is openstacksdk's; the service's endpoint is looked up on first use."""
        self._connection = connection

    @classmethod
    def connect(cls, cloud: str, *, region: str | None = None, timeout: float = 30.0) -> Self:
        """Use the cloud of that name in ``clouds.yaml``; ``timeout`` is in seconds per request.

        Nothing is sent yet. Raises ``BadInputError`` when there is no such cloud.
        """
        # openstacksdk takes half a second to import: only those who talk to a cloud pay.
        import openstack.connection
        from openstack.config import OpenStackConfig, loader

        # As openstack.connect does it, but for the files. The first place is the working directory.
        here = loader.CONFIG_SEARCH_PATH[0]
        try:
            config = OpenStackConfig(
                config_files=believed(loader.CONFIG_FILES, here),
                secure_files=believed(loader.SECURE_FILES, here),
                vendor_files=believed(loader.VENDOR_FILES, here),
            ).get_one(cloud=cloud, region_name=region, api_timeout=timeout)
            return cls(openstack.connection.Connection(config=config))
        except Exception as error:
            raise translated("The cloud", error, f"the cloud {cloud!r} of clouds.yaml") from error

    def close(self) -> None:
        """Gives back what requests were sent by; a later one opens it anew."""
        try:
            session = self._connection.session
        except Exception:
            return  # of a configuration that no session can be made of
        # connection.close() leaves open what its proxies have opened.
        session.session.close()


def call(
    service: str,
    adapter: Callable[[], Any],
    method: str,
    path: str,
    *,
    microversion: str,
    roles: str,
    body: Mapping[str, Any] | None = None,
) -> Mapping[str, Any]:
    """One request; the decoded JSON object, empty for an answer without one.

    ``adapter`` gives openstacksdk's proxy of the service (which may already ask the catalogue),
    ``roles`` completes the sentence of a refused one. A 409 to a write is a ``ConflictError``: look
    again and decide again. A service that answers 5xx, slowly or not at all is an
    ``UnavailableError``: whether a write happened is then unknown. Raises ``NotFoundError`` for a
    404, and ``BadInputError`` for what else is refused.
    """
    what = f"{method} {path}"
    extra = {} if body is None else {"json": body}
    try:
        send: Callable[..., Any] = adapter().request
        # Without openstacksdk's cache, which clouds.yaml may turn on: a look is of this moment.
        answer = send(path, method, microversion=microversion, skip_cache=True, **extra)
    except Exception as error:
        raise translated(service, error, what, roles) from error
    status = int(answer.status_code)
    if status == 204 or (200 <= status < 300 and not answer.content):
        return {}
    if 200 <= status < 300:
        return _decoded(service, answer, what)
    if status == 404:
        # Both services say "no such thing" in JSON. A proxy that has no way to them says it in
        # HTML, and then nobody knows what is there.
        _decoded(service, answer, what)
    if status == 409 and method == "GET":
        # Nothing was asked to change: a conflict here is no verdict on a generation of ours.
        raise UnavailableError(f"{service} answered 409 to {what}; look again later")
    raise _failure(service, status, str(answer.text), what, roles)


def translated(service: str, error: Exception, what: str, roles: str = "") -> QuarantineError:
    """openstacksdk's and keystoneauth's exceptions as ours.

    Raises ``error`` again when it is neither: a mistake in our own code must stay visible.
    """
    from keystoneauth1 import exceptions as keystone
    from openstack import exceptions as sdk

    text = " ".join(str(error).split())[:300]
    if isinstance(error, sdk.ConfigException):
        return OwnSetupError(f"expected {what} to be configured: {text}")
    if isinstance(error, keystone.ConnectionError):
        return UnavailableError(f"{service} does not answer ({what}): {text}")
    # Without a status nobody knows what became of the request: as after a 500.
    status = 0
    if isinstance(error, keystone.HttpError):
        status = int(error.http_status or 500)
    elif isinstance(error, sdk.HttpException):
        status = int(error.status_code or 500)
    # An answer of the service itself is returned and never raised: this one is of whoever was asked
    # before it, for a token, and its 404 or 409 says nothing of a server, a slot or a generation.
    if status and status not in (404, 409):
        return _failure(service, status, text, what, roles)
    if isinstance(error, keystone.ClientException | sdk.SDKException):
        return UnavailableError(f"{service} cannot be asked ({what}): {text}")
    raise error


def _decoded(service: str, answer: Any, what: str) -> Mapping[str, Any]:
    try:
        decoded = answer.json()
    except ValueError as error:
        raise UnavailableError(
            f"expected JSON from {service} for {what}, found something else; is a proxy in between?"
        ) from error
    if not isinstance(decoded, dict):
        raise UnavailableError(f"expected a JSON object from {service} for {what}")
    return decoded


def _failure(service: str, status: int, text: str, what: str, roles: str) -> QuarantineError:
    detail = " ".join(text.split())[:300]
    if status == 409:
        return ConflictError(f"{service} refused {what}: something changed first ({detail})")
    if status == 404:
        return NotFoundError(f"{service} knows no such thing: {what} ({detail})")
    if status in (408, 429) or status >= 500:
        return UnavailableError(f"{service} answered {status} to {what}: {detail}")
    if status in (401, 403):
        return OwnSetupError(
            f"{service} answered {status} to {what}: the cloud's user needs {roles}: {detail}"
        )
    return BadInputError(f"{service} answered {status} to {what}: {detail}")
