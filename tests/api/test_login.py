"""The page's login with a real Keystone: in by a form, out by another, and the token's end."""

from __future__ import annotations

import logging
import re
import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

pytest.importorskip("keystone", reason="tox env api has it")
pytest.importorskip("selenium", reason="tox env api has it")

from selenium import webdriver
from selenium.common.exceptions import WebDriverException
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import WebDriverWait

from quarantine.page import login
from tests.api.browser import chromium, look, serving, violations
from tests.lab.services.keystone import PASSWORD, Keystone
from tests.unit.quarantine.api.client import NAMES, Site
from tests.unit.quarantine.page.visitor import Page, Visitor, visitor

pytestmark = pytest.mark.api

TYPED = {"user": "admin", "password": PASSWORD, "domain": "Default", "project": "admin"}
ONE = f"/page/slots/{NAMES[0]}"


@dataclass
class Cloud:
    """A site behind a Keystone."""

    keystone: Keystone
    site: Site

    def enter(self, **typed: str) -> tuple[Visitor, int, str]:
        """Somebody who sends the form: he, the answer's status and text."""
        guest = visitor(self.site)
        fields = guest.page(login.LOGIN).forms[login.LOGIN]
        found = guest.send(login.LOGIN, {**fields, **TYPED, **typed})
        if login.COOKIE in found.cookies:
            guest.cookie += f"; {login.COOKIE}={found.cookies[login.COOKIE].value}"
        return guest, found.status_code, Page(found.text).text

    def counts(self, token: str) -> bool:
        """Whether Keystone takes it."""
        try:
            self.keystone.ask("GET", "/v3/auth/projects", token=token)
        except urllib.error.HTTPError as error:
            if error.code != 401:
                raise
            return False
        return True


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with Keystone(tmp_path_factory.mktemp("keystone")) as one:
        site = Site(tmp_path_factory.mktemp("site"), options=one.options(), strategy="keystone")
        yield Cloud(one, site)


@pytest.fixture(scope="module")
def browser() -> Iterator[webdriver.Chrome]:
    with chromium() as driver:
        yield driver


def reads(browser: webdriver.Chrome, where: str, words: str) -> None:
    """Waits until it does."""
    waits = WebDriverWait(browser, 60, ignored_exceptions=[WebDriverException])
    waits.until(lambda _: words in browser.find_element(By.CSS_SELECTOR, where).text)


def token_of(guest: Visitor) -> str:
    found = re.search(rf"{login.COOKIE}=([^;]+)", guest.cookie)
    assert found
    return found[1]


def test_in_and_out_and_nothing_of_it_is_in_the_log(
    cloud: Cloud, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG):
        guest, status, _text = cloud.enter()
        assert status == 303
        page = guest.page(ONE)
        assert "as admin" in page.text
        assert guest.act(ONE, "hold", reason="noises").status_code == 303
        token = token_of(guest)
        assert cloud.counts(token)
        fields = page.forms["/page/logout"]
        assert "no-store" in guest.get(ONE).headers["Cache-Control"]
        stale = guest.cookie
        out = guest.send("/page/logout", fields)
        assert out.headers["Location"].endswith("?out=1")
        assert not cloud.counts(token)
        # Whoever kept the cookie has nothing by it.
        assert guest.get(ONE, Cookie=stale).status_code == 401
        assert "Your login is over" in guest.get(ONE, Cookie=stale).text
    said = "\n".join(str(one.__dict__) for one in caplog.records)
    assert PASSWORD not in said
    assert token not in said
    with cloud.site.store() as store:
        line = next(one for one in store.slots() if one.state.value == "held")
        by = [one.by for one in store.history(line.slot)][-1]
    assert by is not None
    assert len(by.user) == len(by.project) == 32


def test_the_whole_system_is_a_scope_too(cloud: Cloud) -> None:
    guest, status, _text = cloud.enter(project="")
    assert status == 303
    assert "hold" in str(guest.page(f"/page/slots/{NAMES[1]}").forms)


@pytest.mark.parametrize(
    "typed",
    [
        {"password": "wrong"},
        {"user": "nobody"},
        {"domain": "elsewhere"},
        {"project": "none"},
        {"project_domain": "elsewhere"},
        {"user": "\0"},
        {"user": "x" * 255},
    ],
)
def test_whatever_is_wrong_is_answered_in_the_same_words(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch, typed: dict[str, str]
) -> None:
    monkeypatch.setattr(login, "REFUSED_SECONDS", 0.0)
    _guest, status, text = cloud.enter(**typed)
    assert status == 401
    assert "lets nobody in by this name, password, domain and project" in text


def test_in_a_browser(cloud: Cloud, browser: webdriver.Chrome) -> None:
    """From the page that somebody wanted to see, to it, and out again; the API knows no cookie."""
    with serving(cloud.site.file) as address:
        look(browser)
        browser.get(f"{address}/slots/{NAMES[2]}")
        for name, words in TYPED.items():
            one = browser.find_element(By.NAME, name)
            one.clear()
            one.send_keys(words)
        problems = violations(browser)
        browser.find_element(By.NAME, "password").send_keys(Keys.ENTER)
        reads(browser, ".who", "as admin")
        assert browser.current_url.endswith(NAMES[2])
        cookie = browser.get_cookie(login.COOKIE)
        assert cookie is not None
        assert (cookie["httpOnly"], cookie["secure"], cookie["sameSite"]) == (True, True, "Strict")
        assert login.COOKIE not in browser.execute_script("return document.cookie")
        status = browser.execute_script(
            "return fetch('/v1/slots', {credentials: 'same-origin'}).then((a) => a.status)"
        )
        assert status == 401
        problems += violations(browser)
        look(browser, width=390, dark=True)
        problems += violations(browser)
        assert browser.execute_script("return document.documentElement.scrollWidth") <= 390
        browser.find_element(By.CSS_SELECTOR, ".out button").click()
        reads(browser, "main", "You are logged out.")
        assert browser.get_cookie(login.COOKIE) is None
        problems += violations(browser)
        browser.back()
        reads(browser, "main", "Log in")
        assert not problems, "\n".join(problems)
    assert not cloud.counts(cookie["value"])


def test_a_keystone_that_is_away(cloud: Cloud) -> None:
    """The last test: it stays away."""
    guest, status, _text = cloud.enter()
    assert status == 303
    fields = guest.page("/page/logout").forms["/page/logout"]
    cloud.keystone.stop()
    _other, status, text = cloud.enter()
    assert status == 503
    assert "Nobody was logged in. Keystone does not answer as expected" in text
    assert cloud.keystone.url not in text
    out = guest.send("/page/logout", fields)
    assert out.headers["Location"].endswith("?out=2")
