"""Keystone, for people with a browser: a token for a name and its password, and the token's end."""

from __future__ import annotations

import logging
import re
from dataclasses import dataclass, field
from typing import Any, Final

from oslo_config import cfg

from quarantine.api.faults import Fault

LOG = logging.getLogger(__name__)

SECONDS: Final = 10.0
"""For an answer, where ``[keystone_authtoken]http_connect_timeout`` says nothing."""

LONGEST: Final = 3500
"""Characters of a token: browsers keep cookies of 4,096 with all that belongs to them."""

_GROUP: Final = "keystone_authtoken"
_TOKEN: Final = re.compile(rf"[A-Za-z0-9_.~+/=-]{{1,{LONGEST}}}", re.ASCII)
_AWAY: Final = "Keystone does not answer as expected"


@dataclass(frozen=True)
class Login:
    """What somebody typed."""

    user: str
    password: str = field(repr=False)
    domain: str
    """Of the user; of the project too, where no other is named."""
    project: str = ""
    """Empty: the whole system."""
    project_domain: str = ""


class Keystone:
    """The one of ``[keystone_authtoken]``, which is read when it is needed first: the middleware
    that guards the API brings these options along."""

    def __init__(self, conf: cfg.ConfigOpts) -> None:
        self._conf = conf

    def token(self, login: Login) -> str:
        """Raises :class:`Fault`: 401 where Keystone lets nobody in by that, 503 where it does not
        answer. No text of either tells more than Keystone does."""
        from keystoneauth1 import exceptions
        from keystoneauth1.identity import v3

        scope: dict[str, str] = {"system_scope": "all"}
        if login.project:
            domain = login.project_domain or login.domain
            scope = {"project_name": login.project, "project_domain_name": domain}
        plugin = v3.Password(
            auth_url=self._url(),
            username=login.user,
            password=login.password,
            user_domain_name=login.domain,
            include_catalog=False,  # of a large cloud it is longer than the rest of the answer
            **scope,
        )
        try:
            token = str(plugin.get_access(self._session()).auth_token)
        except (
            exceptions.Unauthorized,
            exceptions.Forbidden,
            exceptions.BadRequest,
            exceptions.MissingAuthMethods,
        ) as error:
            # Neither the name, in whose place a password is typed now and then, nor Keystone's
            # words are written down: Keystone's own log has both, under its id.
            LOG.info("a login was refused by Keystone: %s", type(error).__name__)
            raise unknown() from None
        except exceptions.ClientException as error:
            LOG.warning("a login: Keystone: %s", type(error).__name__)
            raise Fault(503, "unavailable", _AWAY, {"Retry-After": "10"}) from None
        # A longer cookie is thrown away by the browser: the login would seem to go well and nobody
        # would be known.
        if not is_token(token):
            LOG.error("a login: expected a token of at most %d characters of a cookie", LONGEST)
            raise Fault(503, "unavailable", "the token of this Keystone fits in no cookie")
        return token

    def revoke(self, token: str) -> bool:
        """Ends it for everybody. False where Keystone does not say so: it counts till its time."""
        from keystoneauth1 import exceptions

        try:
            self._session().delete(
                f"{_v3(self._url())}/auth/tokens",
                # The token ends itself: no account of ours takes part, so authenticated is off.
                headers={"X-Auth-Token": token, "X-Subject-Token": token},
                authenticated=False,
                log=False,
            )
        except (exceptions.Unauthorized, exceptions.NotFound):
            return True  # it is over already
        except (exceptions.ClientException, Fault) as error:
            LOG.warning("a logout: the token was not revoked: %s", type(error).__name__)
            return False
        return True

    def _url(self) -> str:
        from keystoneauth1 import loading

        plugin = loading.load_auth_from_conf_options(self._conf, _GROUP)
        found = getattr(plugin, "auth_url", None)
        if not found:
            LOG.error("[%s]auth_url: expected an address for logins, found none", _GROUP)
            raise Fault(503, "unavailable", _AWAY)
        return str(found)

    def _session(self) -> Any:
        from keystoneauth1 import session

        said = self._conf[_GROUP]
        cert = (said.certfile, said.keyfile) if said.certfile and said.keyfile else said.certfile
        return session.Session(
            verify=said.cafile or not said.insecure,
            cert=cert or None,
            timeout=said.http_connect_timeout or SECONDS,
            user_agent="nvme-quarantine",
        )


def is_token(text: str) -> bool:
    """Whether it can be one that is in a cookie."""
    return bool(_TOKEN.fullmatch(text))


def unknown() -> Fault:
    """The same for each thing that may be wrong."""
    return Fault(
        401,
        "unauthorized",
        "Keystone lets nobody in by this name, password, domain and project",
    )


def _v3(url: str) -> str:
    base = url.rstrip("/")
    return base if base.endswith("/v3") else f"{base.removesuffix('/v2.0')}/v3"
