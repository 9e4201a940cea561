"""By which names we are asked. A site of somebody else may have its own name lead to our address
(DNS rebinding): then its script is of our origin, as the browser of an operator sees it."""

from __future__ import annotations

import ipaddress
from collections.abc import Collection, Iterable
from typing import Final

from oslo_config import cfg

from quarantine.api.auth import Answer, Application, Environ, StartResponse
from quarantine.api.faults import Fault
from quarantine.errors import BadInputError

_SHOWN: Final = 80
"""Characters of a name that is refused."""


def guarded(
    conf: cfg.ConfigOpts, application: Application, answer: Answer, public: Collection[str]
) -> Application:
    """``application`` for those only who ask by an address, as localhost, or by a name of
    ``[api]allowed_hosts``. ``public`` paths are answered by whatever name.

    With Keystone and no names configured, by any: who has no token gets nothing, and a browser
    takes the page's own to no other name. Raises :class:`BadInputError`.
    """
    names = frozenset(_configured(conf))
    if conf.api.auth_strategy == "keystone" and not names:
        return application

    def known(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        given = environ.get("HTTP_HOST")
        # Browsers always send it; a health check in HTTP/1.0 does not.
        if given is None or environ["PATH_INFO"] in public or is_ours(given, names):
            return application(environ, start)
        return answer(environ, start, _refused(given))

    return known


def is_ours(given: str, names: Collection[str]) -> bool:
    """Whether what stands in the header Host is an address, localhost, or one of ``names``."""
    # A final dot is the same name, fully qualified.
    name = _without_port(given.strip().lower()).removesuffix(".")
    return name == "localhost" or name in names or _is_address(name)


def _without_port(given: str) -> str:
    # An IPv6 address has colons of its own, and stands in brackets (RFC 3986, 3.2.2).
    if given.startswith("["):
        return given[1:].partition("]")[0]
    return given.partition(":")[0]


def _is_address(name: str) -> bool:
    """No name of anybody's: whoever asks by an address knows where he asks."""
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


def _configured(conf: cfg.ConfigOpts) -> Iterable[str]:
    for one in conf.api.allowed_hosts:
        name = one.strip().lower().removesuffix(".")
        if not name or not all(sign.isalnum() or sign in "-._" for sign in name):
            raise BadInputError(
                "[api]allowed_hosts: expected names as nvme.example.org, without a scheme and "
                f"without a port, found {one[:_SHOWN]!r}"
            )
        yield name


def _refused(given: str) -> Fault:
    return Fault(
        403,
        "host",
        f"expected to be asked by an address, as localhost, or by a name of [api]allowed_hosts, "
        f"found {given[:_SHOWN]!r}",
    )
