"""Who a caller is. Whatever the way, what comes out is one :class:`RequestContext`, made here."""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from collections.abc import Callable, Collection, Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import bcrypt
from oslo_config import cfg
from oslo_context.context import RequestContext

from quarantine.api import faults
from quarantine.api.faults import Fault
from quarantine.errors import BadInputError

LOG = logging.getLogger(__name__)

Environ = dict[str, Any]
StartResponse = Callable[..., Any]
Application = Callable[[Environ, StartResponse], Iterable[bytes]]
Answer = Callable[[Environ, StartResponse, Fault], Iterable[bytes]]

CONTEXT: Final = "nvme_quarantine.context"
"""Where the context is, in the environment of a request. No header reaches that."""

_SAID: Final = (
    *("HTTP_X_ROLES", "HTTP_X_ROLE", "HTTP_X_USER_ID", "HTTP_X_USER_NAME", "HTTP_X_USER"),
    *("HTTP_X_PROJECT_ID", "HTTP_X_PROJECT_NAME", "HTTP_X_TENANT_ID", "HTTP_X_TENANT"),
    *("HTTP_X_TENANT_NAME", "HTTP_X_DOMAIN_ID", "HTTP_X_USER_DOMAIN_ID"),
    *("HTTP_X_PROJECT_DOMAIN_ID", "HTTP_X_IDENTITY_STATUS", "HTTP_X_IS_ADMIN_PROJECT"),
    *("HTTP_OPENSTACK_SYSTEM_SCOPE", "HTTP_X_SERVICE_ROLES", "HTTP_X_SERVICE_TOKEN"),
)
"""What a caller may not say of himself."""

_MAX_USER_FILE: Final = 1 << 20
_NOBODY: Final = b"R9h/cIPz0gi.URNNX3kh2OPST9/PgBkqquzi.Ss7KIUgO2t0jWMUW"
"""Salt and digest that are compared with where a name is unknown, so that this takes as long."""
_COSTS: Final = range(4, 13)
"""Of bcrypt: a check at 13 takes a second of a processor, and anybody can ask for one."""
_CHECKS: Final = 2
"""Passwords that are checked at a time."""
_TURN: Final = 5.0
"""Seconds for its turn: whoever waits has one of the API's threads."""


def guarded(conf: cfg.ConfigOpts, application: Application, answer: Answer) -> Application:
    """``application`` for those only who show who they are, as ``[api]auth_strategy`` says.

    Raises :class:`BadInputError`.
    """
    match conf.api.auth_strategy:
        case "keystone":
            return _keystone(conf, application, answer)
        case "http_basic":
            return HttpBasic(
                Path(conf.api.http_basic_file), conf.api.http_basic_admins, application, answer
            )
        case _:
            LOG.warning("[api]auth_strategy is noauth: everybody is an administrator")
            return _NoAuth(application)


def _keystone(conf: cfg.ConfigOpts, application: Application, answer: Answer) -> Application:
    # It takes a second to load.
    from keystonemiddleware import auth_token

    def known(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        context = RequestContext.from_environ(environ)
        if environ.get("HTTP_X_IDENTITY_STATUS") != "Confirmed" or not context.user_id:
            # With delay_auth_decision the middleware would leave this to us.
            return answer(environ, start, unknown_caller())
        environ[CONTEXT] = context
        return application(environ, start)

    # Our own configuration: the middleware would else look for files of its own.
    options = {"oslo_config_config": conf, "log_name": __name__}
    guard: Application = auth_token.AuthProtocol(known, options)
    return guard


class _NoAuth:
    """Everybody is an administrator."""

    def __init__(self, application: Application) -> None:
        self._application = application

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        environ[CONTEXT] = _context(environ, "noauth", ["admin", "reader"])
        return self._application(environ, start)


class HttpBasic:
    """Names and passwords of a file."""

    def __init__(
        self, file: Path, admins: Collection[str], application: Application, answer: Answer
    ) -> None:
        """Raises :class:`BadInputError` for a file that cannot be read now."""
        self._file = file
        self._admins = frozenset(admins)
        self._application = application
        self._answer = answer
        self._lock = threading.Lock()
        self._checking = threading.BoundedSemaphore(_CHECKS)
        self._read: tuple[tuple[int, int, int], Mapping[str, bytes]] | None = None
        self._users()

    def __call__(self, environ: Environ, start: StartResponse) -> Iterable[bytes]:
        try:
            # Taken out: nothing behind this needs the password, and nothing can log it.
            user = self._user(environ.pop("HTTP_AUTHORIZATION", ""))
        except Fault as fault:
            return self._answer(environ, start, fault)
        except BadInputError as error:
            LOG.error("%s", error)
            return self._answer(environ, start, Fault(503, "unavailable", faults.AWAY))
        roles = ["admin", "reader"] if user in self._admins else ["nvme_reader"]
        environ[CONTEXT] = _context(environ, user, roles)
        return self._application(environ, start)

    def _user(self, header: str) -> str:
        """Raises :class:`Fault`."""
        refused = Fault(
            401,
            "unauthorized",
            "expected a name and its password",
            {"WWW-Authenticate": 'Basic realm="nvme-quarantine", charset="UTF-8"'},
        )
        kind, _, token = header.partition(" ")
        if kind.lower() != "basic":
            raise refused
        try:
            pair = base64.b64decode(token.strip(), validate=True)
            name, colon, password = pair.decode().partition(":")
        except (binascii.Error, ValueError):
            raise refused from None
        users = self._users()
        known = users.get(name)
        # bcrypt looks at 72 bytes, and raises for more of them.
        # Who sends more is known by the first 72, as by htpasswd, which cuts them off too.
        given = password.encode()[:72]
        # The check is made for unknown names too, and two at a time: it costs a processor's time,
        # which anybody can ask for.
        if not self._checking.acquire(timeout=_TURN):
            words = "too many passwords are checked now, and this one was not: try again"
            raise Fault(503, "crowded", words, {"Retry-After": "10"})
        try:
            same = b"\0" not in given and bcrypt.checkpw(given, known or _nobody(users))
        except ValueError:
            # What is no digest of bcrypt fits no password.
            same = False
        finally:
            self._checking.release()
        if not (same and known and colon):
            # A name that nobody has may be a password, typed in its place.
            LOG.info("a password was refused, of %r", name if known else "an unknown name")
            raise refused
        return name

    def _users(self) -> Mapping[str, bytes]:
        with self._lock:
            try:
                # In each request: users are taken away while this runs. Mode before content: a file
                # that others can write says nothing.
                state = self._file.stat()
                if state.st_mode & 0o022:
                    raise BadInputError(
                        f"[api]http_basic_file: expected {self._file} to be writable by its owner "
                        f"alone, found mode {state.st_mode & 0o777:o}: whoever writes it decides "
                        "who an administrator is; chmod go-w"
                    )
                mark = (state.st_ino, state.st_mtime_ns, state.st_size)
                # Another file in its place, or another content: only then it is read again.
                if self._read is None or self._read[0] != mark:
                    text = self._file.read_bytes()[:_MAX_USER_FILE].decode()
                    self._read = mark, dict(_entries(text, self._file))
            except (OSError, UnicodeDecodeError) as error:
                raise BadInputError(
                    f"[api]http_basic_file: expected a file to read at {self._file}: {error}"
                ) from error
            return self._read[1]


def _entries(text: str, file: Path) -> Iterable[tuple[str, bytes]]:
    for number, line in enumerate(text.splitlines(), 1):
        name, _, digest = line.strip().partition(":")
        if not name or name.startswith("#"):
            continue
        if not digest.startswith(("$2a$", "$2b$", "$2y$")):
            raise BadInputError(
                f"{file}, line {number}: expected NAME:DIGEST with a bcrypt digest "
                "('htpasswd -B'), found another"
            )
        cost = digest[4:6]
        if not cost.isdecimal() or int(cost) not in _COSTS:
            raise BadInputError(
                f"{file}, line {number}: expected a cost of bcrypt from {_COSTS[0]} to "
                f"{_COSTS[-1]}, found {cost!r}; 'htpasswd -B -C 10' has one"
            )
        yield name, digest.encode()


def _nobody(users: Mapping[str, bytes]) -> bytes:
    """What no password fits, at the highest cost of the file."""
    return b"$2b$%s$%s" % (max((digest[4:6] for digest in users.values()), default=b"10"), _NOBODY)


def without_claims(application: Application) -> Application:
    """What a caller says of himself is taken away before anybody could believe it."""

    def clean(environ: Environ, start: StartResponse) -> Iterable[bytes]:
        for name in _SAID:
            environ.pop(name, None)
        environ.pop(CONTEXT, None)
        return application(environ, start)

    return clean


def unknown_caller() -> Fault:
    """No token, or none that counts."""
    return Fault(401, "unauthorized", "expected a token of Keystone in X-Auth-Token")


def _context(environ: Environ, user: str, roles: list[str]) -> RequestContext:
    return RequestContext(
        user_id=user,
        user_name=user,
        roles=roles,
        request_id=environ.get("openstack.request_id"),
        global_request_id=environ.get("openstack.global_request_id"),
        overwrite=False,
    )
