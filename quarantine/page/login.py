"""Logging in with Keystone and out again: the token is in a cookie that no script and no other site
reads, and that counts for the page alone."""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import falcon
from oslo_config import cfg

from quarantine.api.auth import Environ
from quarantine.api.faults import Fault
from quarantine.api.keystone import Keystone, Login, is_token
from quarantine.operations.plane import ServingPlane
from quarantine.page import forms, render
from quarantine.page.patience import LoginPatience, address_of, key
from quarantine.page.policy import HEADERS

COOKIE: Final = "__Host-nvme-quarantine-token"
"""The prefix is a promise of browsers: set by this very host, over TLS (or on this machine)."""

LOGIN: Final = "/page/login"
LOGOUT: Final = "/page/logout"

OFFERED: Final = "nvme_quarantine.login"
"""In the environment of a request: who is unknown is shown the form."""
BY_COOKIE: Final = "nvme_quarantine.by_cookie"
"""There too: the caller's token came from our cookie. No header can set either of the two."""

REFUSED_SECONDS: Final = 1.0
"""A login that is refused takes as long as this at least, while not too many sleep."""

_MAX: Final = 255
"""Characters of a field."""
_BACK: Final = re.compile(r"/page(?:[/?][A-Za-z0-9._~:/?&=%+,@-]*)?", re.ASCII)
_FIELDS: Final = ("user", "domain", "project", "project_domain")


def offered(conf: cfg.ConfigOpts) -> bool:
    """Whether there is a form."""
    return bool(conf.api.auth_strategy == "keystone" and conf.api.login_form)


def enter(conf: cfg.ConfigOpts, environ: Environ) -> None:
    """Takes the token out of the cookie, for a request of the page. One in a header comes first:
    a proxy knows better who it let in."""
    environ.pop(OFFERED, None)
    environ.pop(BY_COOKIE, None)
    if not offered(conf):
        return
    environ[OFFERED] = True
    token = forms.cookie_of(environ, COOKIE)
    # What cannot be a token never reaches Keystone.
    if is_token(token) and not environ.get("HTTP_X_AUTH_TOKEN"):
        environ["HTTP_X_AUTH_TOKEN"] = token
        environ[BY_COOKIE] = True


def form(
    environ: Environ,
    *,
    well: str = "",
    said: str = "",
    detail: str = "",
    fields: Mapping[str, str] | None = None,
    back: str = "",
    leaving: bool = False,
) -> tuple[bytes, list[str]]:
    """The page with the form, and cookies for it; ``leaving`` for the one to log out."""
    req = falcon.Request(environ)
    root = req.root_path
    opened = forms.opened(req, "")
    words = {
        **render.nobody(root),
        "token": opened.token,
        "well": well,
        "said": said,
        "detail": detail,
        "fields": fields or {"domain": "Default"},
        "back": inside(back),
        "again": f"{root}{inside(back)}",
        "leaving": leaving,
    }
    cookie = opened.headers.get("Set-Cookie")
    return render.page("login.html", words), [cookie] if cookie else []


def unknown_caller(environ: Environ) -> tuple[bytes, list[str]]:
    """The form, in place of what somebody wanted to see who is not known, or not any more."""
    req = falcon.Request(environ)
    # A form that was sent without a login is not sent again: its way back is the first page.
    back = req.relative_uri.removeprefix(req.root_path) if req.method in ("GET", "HEAD") else ""
    said = ""
    if environ.get(BY_COOKIE):
        said = "Your login is over: log in again."
    return form(environ, said=said, back=back)


def inside(back: str) -> str:
    """Where to go on: a place of the page, whatever is asked for."""
    if not _BACK.fullmatch(back) or back.startswith((LOGIN, LOGOUT)):
        return "/page"
    return back


class LoginPlace:
    """``/page/login``, for everybody."""

    def __init__(
        self,
        plane: ServingPlane,
        keystone: Keystone,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._keystone = keystone
        self._now = plane.doors.monotonic
        self._patience = LoginPatience(plane.doors.monotonic)
        self._sleep = sleep

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        back = req.get_param("back") or ""
        out = req.get_param("out")
        well = "You are logged out." if out == "1" else ""
        said = _NOT_REVOKED if out == "2" else ""
        _send(resp, 200, *form(req.env, well=well, said=said, back=back))

    on_head = on_get

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        fields = forms.read(req)
        forms.check(req, fields, "")
        typed = {name: fields.get(name, "").strip() for name in _FIELDS}
        back = fields.get("back", "")
        try:
            token = self._token(
                typed, fields.get("password", ""), address_of(req.env.get("REMOTE_ADDR"))
            )
        except Fault as fault:
            shown = form(req.env, said="Nobody was logged in.", detail=fault.detail,
                         fields=typed, back=back)  # fmt: skip
            _send(resp, fault.status, *shown)
            for name, value in fault.headers.items():
                resp.set_header(name, value)
            return
        former = forms.cookie_of(req.env, COOKIE)
        if is_token(former) and former != token:
            # The browser forgets it now, so nobody else could end it.
            self._keystone.revoke(former)
        # A new secret too: what was made for the page before the login is of nobody's use after it.
        cookies = [_cookie(token), forms.set_cookie(forms.new_secret())]
        _send(resp, 303, b"", cookies)
        resp.set_header("Location", f"{req.root_path}{inside(back)}")

    def _token(self, typed: Mapping[str, str], password: str, address: str) -> str:
        """Raises :class:`Fault`."""
        if not (typed["user"] and typed["domain"] and password):
            raise Fault(400, "bad-input", "expected a name, its domain and its password")
        if max(map(len, (password, *typed.values()))) > _MAX:
            raise Fault(400, "bad-input", f"expected at most {_MAX} characters of each")
        name = key(typed["domain"], typed["user"])
        with self._patience.turn(address) as got:
            # Before the try is counted: whoever is sent away for others' sake has tried nothing.
            if not got:
                raise _later("others are logging in", 2)
            if wait := self._patience.tried(name, address):
                raise _later("too many logins of this name from this address were refused", wait)
            begun = self._now()
            try:
                token = self._keystone.token(Login(password=password, **typed))
            except Fault as fault:
                # Keystone said nothing of the password.
                if fault.status != 401:
                    self._patience.give_back(name, address)
                    raise
                refused = fault
            else:
                self._patience.forget(name, address)
                return token
        # Without the turn: it is for who comes next, who may be right.
        with self._patience.sleeper() as free:
            if free:
                self._sleep(max(0.0, REFUSED_SECONDS - (self._now() - begun)))
        raise refused


class LogoutPlace:
    """``/page/logout``, for everybody: who is not known any more has a cookie all the same."""

    def __init__(self, keystone: Keystone) -> None:
        self._keystone = keystone

    def on_get(self, req: falcon.Request, resp: falcon.Response) -> None:
        _send(resp, 200, *form(req.env, leaving=True))

    on_head = on_get

    def on_post(self, req: falcon.Request, resp: falcon.Response) -> None:
        forms.check(req, forms.read(req), "")
        token = forms.cookie_of(req.env, COOKIE)
        # Asked first, for the cookie has the token. It is forgotten whatever Keystone says.
        ended = not is_token(token) or self._keystone.revoke(token)
        _send(resp, 303, b"", [_cookie("", "; Max-Age=0"), forms.set_cookie(forms.new_secret())])
        resp.set_header("Location", f"{req.root_path}{LOGIN}?out={'1' if ended else '2'}")


_NOT_REVOKED: Final = (
    "You are logged out of this browser. Keystone did not say that the token is over: it counts "
    "until its time."
)


def _later(why: str, seconds: float) -> Fault:
    whole = int(seconds) + 1
    words = f"{why}: try again in {whole} s"
    return Fault(429, "later", words, {"Retry-After": str(whole)})


def _cookie(token: str, more: str = "") -> str:
    """The header: always for TLS only, for a proxy that ends it may not say that it did."""
    return f"{COOKIE}={token}{more}; Path=/; Secure; HttpOnly; SameSite=Strict"


def _send(resp: falcon.Response, status: int, raw: bytes, cookies: Iterable[str]) -> None:
    resp.status = status
    for name, value in {**HEADERS, "Cache-Control": "no-store, private"}.items():
        resp.set_header(name, value)
    for cookie in cookies:
        resp.append_header("Set-Cookie", cookie)
    resp.content_type = "text/html; charset=utf-8"
    resp.data = raw


def words(req: falcon.Request) -> dict[str, Any]:
    """For the head of each page: who came by a cookie can log out."""
    if not req.env.get(BY_COOKIE):
        return {"logout": None}
    secret = forms.secret_of(req)
    return {"logout": {"token": forms.token(secret, "") if secret else ""}}
