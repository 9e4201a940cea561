"""A browser without a script: keeps its cookie, reads forms, and checks every answer."""

from __future__ import annotations

import base64
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from html.parser import HTMLParser
from typing import Any
from urllib.parse import urlencode

from falcon import testing

from quarantine.api import application
from quarantine.operations.plane import ServingPlane
from quarantine.page import forms
from quarantine.page.application import MOUNT
from tests.unit.quarantine.api.client import Site

ORIGIN = "http://falconframework.org"
"""Of falcon's test client."""


class Page(HTMLParser):
    """What is on a page: links, fields of forms by action, text, and what a policy forbids."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.forms: dict[str, dict[str, str]] = {}
        self.words: list[str] = []
        self.ids: list[str] = []
        self.forbidden: list[str] = []
        self._form: dict[str, str] | None = None
        self.feed(text)

    @property
    def text(self) -> str:
        """As it is read."""
        return " ".join(" ".join(self.words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        words = {name: value or "" for name, value in attrs}
        if "id" in words:
            self.ids.append(words["id"])
        if tag in ("a", "link") and "href" in words:
            self.links.append(words["href"])
        if tag == "form":
            self._form = self.forms.setdefault(words.get("action", ""), {})
        if tag in ("input", "textarea", "select") and self._form is not None and "name" in words:
            self._form[words["name"]] = words.get("value", "")
        if tag == "style" or "style" in words or any(name.startswith("on") for name in words):
            self.forbidden.append(f"{tag} {words}")
        if tag == "script":
            src = words.get("src", "")
            self.links.append(src)
            if not src.startswith("/page/static/"):
                self.forbidden.append(f"script {words}")

    def handle_data(self, data: str) -> None:
        self.words.append(data)


@dataclass
class Visitor:
    """Somebody at a site's page."""

    app: Any
    headers: Mapping[str, str] = field(default_factory=dict)
    cookie: str = ""
    address: str = "192.0.2.1"

    def as_user(self, user: tuple[str, str]) -> Visitor:
        """With a name and its password."""
        token = base64.b64encode(":".join(user).encode()).decode()
        return Visitor(self.app, {"Authorization": f"Basic {token}"})

    def ask(self, method: str, path: str, body: str = "", **headers: str) -> testing.Result:
        """One request."""
        said = {**self.headers, **{k.replace("_", "-"): v for k, v in headers.items() if v}}
        if self.cookie:
            said.setdefault("Cookie", self.cookie)
        where, _, query = path.partition("?")
        found = testing.simulate_request(
            self.app,
            method,
            where,
            query_string=query,
            headers=said,
            body=body,
            remote_addr=self.address,
        )
        for name, one in found.cookies.items():
            assert (one.path, one.secure, one.http_only) == ("/", True, True)
            assert (one.same_site, one.domain) == ("Strict", None)
            if name == forms.COOKIE:
                self.cookie = f"{name}={one.value}"
        _check(found)
        return found

    def get(self, path: str, **headers: str) -> testing.Result:
        """One that reads."""
        return self.ask("GET", path, **headers)

    def page(self, path: str, status: int = 200) -> Page:
        """A whole page."""
        found = self.get(path)
        assert found.status_code == status, found.text
        return Page(found.text)

    def send(self, action: str, fields: Mapping[str, str], **headers: str) -> testing.Result:
        """A form, as a browser sends it."""
        said = {
            "Content_Type": "application/x-www-form-urlencoded",
            "Origin": ORIGIN,
            **headers,
        }
        return self.ask("POST", action, urlencode(fields), **said)

    def act(self, slot: str, act: str, **typed: str) -> testing.Result:
        """Opens the slot, fills the form in, and sends it."""
        action = f"{slot}/{act}"
        fields = {**self.page(slot).forms[action], **typed}
        if not typed.get("new_drive"):
            fields.pop("new_drive", None)
        return self.send(action, fields)


def visitor(site: Site) -> Visitor:
    """Nobody yet."""
    return Visitor(application.make(ServingPlane([site.file]), MOUNT))


def _check(found: testing.Result) -> None:
    policy = found.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "frame-ancestors 'none'" in policy
    assert "unsafe" not in policy
    assert found.headers["X-Content-Type-Options"] == "nosniff"
    kind = found.headers.get("Content-Type", "")
    if not kind.startswith("text/html") or not found.text or "<style>" in found.text:
        return
    page = Page(found.text)
    assert not page.forbidden, page.forbidden
    assert len(page.ids) == len(set(page.ids))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f\u202a-\u202e\u2066-\u2069]", found.text)
