"""What a person sends: the form, and that it is of a page of ours that this very person was shown.

A decision is believed when three things say so: the browser, which names the page's origin; a
secret in a cookie that no other site can have sent along; and a word in the form that only this
secret and this caller make.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import parse_qsl, urlsplit

import falcon

from quarantine.api.faults import Fault

COOKIE: Final = "__Host-nvme-quarantine"
"""The prefix is a promise of browsers: set by this very host, over TLS (or on this machine), for
all of its paths."""

TYPE: Final = "application/x-www-form-urlencoded"
MAX_BODY: Final = 16384
MAX_FIELDS: Final = 20

_SECRET: Final = 32
"""Bytes."""


def cookie_of(environ: Mapping[str, str], name: str) -> str:
    """What the caller's cookie of this name says; empty where there is none, or several."""
    # Cookies of others may be written in any way: each stands for itself.
    pairs = (one.strip(" \t").partition("=") for one in environ.get("HTTP_COOKIE", "").split(";"))
    found = [value for called, _, value in pairs if called == name]
    return found[0] if len(found) == 1 else ""


def secret_of(req: falcon.Request) -> str:
    """Of the caller's cookie; empty where there is none."""
    given = cookie_of(req.env, COOKIE)
    whole = len(given) == 2 * _SECRET and given.isascii() and given.isalnum()
    return given if whole else ""


def new_secret() -> str:
    """For a caller without one."""
    return secrets.token_hex(_SECRET)


def set_cookie(secret: str) -> str:
    """The header: no script reads it, and no other site's request carries it."""
    return f"{COOKIE}={secret}; Path=/; Secure; HttpOnly; SameSite=Strict"


def token(secret: str, user: str) -> str:
    """What the form carries: of this session, and of this caller."""
    return hmac.new(secret.encode(), f"act\0{user}".encode(), hashlib.sha256).hexdigest()


@dataclass(frozen=True)
class Opened:
    """What a page with forms carries: the token of each, and headers of the page's answer."""

    token: str
    headers: Mapping[str, str]


NOTHING: Final = Opened("", {})
"""Of a page on which the caller can decide nothing."""


def opened(req: falcon.Request, user: str) -> Opened:
    """For a page on which this caller may decide something."""
    # Not for a disk, nor for who comes after.
    headers = {"Cache-Control": "no-store, private"}
    secret = secret_of(req)
    if not secret:
        secret = new_secret()
        headers["Set-Cookie"] = set_cookie(secret)
    return Opened(token(secret, user), headers)


def read(req: falcon.Request) -> dict[str, str]:
    """The fields. Raises :class:`Fault`."""
    kind = (req.content_type or "").partition(";")[0].strip().lower()
    if kind != TYPE:
        raise Fault(415, "media-type", f"expected a form ({TYPE})")
    if (req.content_length or 0) > MAX_BODY:
        raise Fault(413, "too-large", f"expected at most {MAX_BODY} bytes")
    raw = req.bounded_stream.read(MAX_BODY + 1)
    if len(raw) > MAX_BODY:
        raise Fault(413, "too-large", f"expected at most {MAX_BODY} bytes")
    try:
        pairs = parse_qsl(
            raw.decode("ascii"),
            keep_blank_values=True,
            errors="strict",
            max_num_fields=MAX_FIELDS,
        )
    except ValueError:
        raise Fault(400, "bad-input", "expected a form of this page, in UTF-8") from None
    # Of two fields with one name nobody knows which the person saw.
    if len(dict(pairs)) != len(pairs):
        raise Fault(400, "bad-input", "expected each field once")
    # A text area ends its lines as mail does.
    return {name: value.replace("\r\n", "\n") for name, value in pairs}


def check(req: falcon.Request, fields: Mapping[str, str], user: str) -> None:
    """Whether a decision is this caller's own; ``user`` is empty before a login. That our origin is
    nobody else's is seen to before (:mod:`quarantine.api.hostnames`).

    Raises :class:`Fault`.
    """
    if not _same_origin(req):
        raise _refused("the browser says that it did not come from a page of this site")
    secret, given = secret_of(req), fields.get("token", "")
    expected = token(secret, user)
    # Without a secret the token would be one that anybody can compute. In constant time, over
    # bytes: a text with other characters than ASCII would raise.
    if not secret or not hmac.compare_digest(given.encode(), expected.encode()):
        raise _refused(
            "its form was made for another session or another caller, or the browser kept no "
            "cookie (it takes them over https, and from this machine)"
        )


def _same_origin(req: falcon.Request) -> bool:
    # No script can set it: names that begin with Sec- are the browser's.
    site = req.get_header("Sec-Fetch-Site")
    if site is not None:
        return site == "same-origin"
    # Browsers leave it out where there is no TLS.
    origin = req.get_header("Origin") or req.get_header("Referer") or ""
    try:
        return bool(origin) and urlsplit(origin).netloc.lower() == req.netloc.lower()
    except ValueError:
        return False


def _refused(why: str) -> Fault:
    return Fault(403, "forged", f"nothing was done: {why}. Open the page again and decide there.")
