"""The login: what the form takes, where it leads, how fast it can be tried, and what is kept."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import falcon
import pytest
from falcon import testing
from oslo_context.context import RequestContext

from quarantine import logs
from quarantine.api.auth import CONTEXT
from quarantine.api.faults import Fault
from quarantine.api.keystone import LONGEST, Keystone, Login, is_token, unknown
from quarantine.api.policies import Authority
from quarantine.api.routes import RULES
from quarantine.errors import BadInputError
from quarantine.operations.plane import ServingPlane
from quarantine.page import application as page_application
from quarantine.page import login, patience
from quarantine.page.patience import LoginPatience
from tests.unit.quarantine.api.client import ADMIN, NAMES, Site
from tests.unit.quarantine.page.visitor import Page, Visitor, visitor

FORM = "/page/login"
TYPED = {"user": "ada", "password": "secret of ada", "domain": "Default", "project": "ops"}
TOKEN = "gAAAAAB-token_of.ada="
NOWHERE = (
    "[keystone_authtoken]\nauth_type = password\nauth_url = http://127.0.0.1:9/v3\n"
    "username = nvme\npassword = x\nproject_name = service\nuser_domain_id = default\n"
    "project_domain_id = default\nwww_authenticate_uri = http://127.0.0.1:9/v3\n"
)


@dataclass
class Played:
    """A Keystone that knows one password."""

    asked: list[Login] = field(default_factory=list)
    revoked: list[str] = field(default_factory=list)
    away: bool = False
    hook: Callable[[], None] = lambda: None

    def token(self, _self: Keystone, asked: Login) -> str:
        self.asked.append(asked)
        self.hook()
        if self.away:
            raise Fault(503, "unavailable", "Keystone does not answer")
        if asked.password != TYPED["password"]:
            raise unknown()
        return TOKEN

    def revoke(self, _self: Keystone, token: str) -> bool:
        self.revoked.append(token)
        return not self.away


@pytest.fixture
def played(monkeypatch: pytest.MonkeyPatch) -> Played:
    made = Played()
    monkeypatch.setattr(Keystone, "token", lambda own, asked: made.token(own, asked))
    monkeypatch.setattr(Keystone, "revoke", lambda own, token: made.revoke(own, token))
    monkeypatch.setattr(login, "REFUSED_SECONDS", 0.0)
    return made


@pytest.fixture(scope="module")
def cloudy(tmp_path_factory: pytest.TempPathFactory) -> Site:
    """A site whose Keystone is nowhere."""
    return Site(tmp_path_factory.mktemp("site"), strategy="keystone", options=NOWHERE)


@pytest.fixture
def guest(cloudy: Site) -> Visitor:
    return visitor(cloudy)


def enter(guest: Visitor, **typed: str) -> testing.Result:
    page = guest.get(FORM)
    return guest.send(FORM, {**Page(page.text).forms[FORM], **TYPED, **typed})


def cookies(found: testing.Result) -> dict[str, str]:
    return {name: one.value for name, one in found.cookies.items()}


def test_who_is_unknown_is_shown_the_form_and_led_back(guest: Visitor, played: Played) -> None:
    where = f"/page/slots/{NAMES[0]}?done=1"
    found = guest.get(where)
    assert found.status_code == 401
    assert "no-store" in found.headers["Cache-Control"]
    fields = Page(found.text).forms[FORM]
    assert fields["back"] == where
    assert fields["domain"] == "Default"
    done = guest.send(FORM, {**fields, **TYPED})
    assert (done.status_code, done.headers["Location"]) == (303, where)
    assert cookies(done)[login.COOKIE] == TOKEN
    assert played.asked == [Login("ada", "secret of ada", "Default", "ops")]


def test_the_cookie_is_for_this_host_alone_and_for_no_script(
    guest: Visitor, played: Played
) -> None:
    before = guest.get(FORM) and guest.cookie
    done = enter(guest)
    said = [value for name, value in done.headers.items() if name.lower() == "set-cookie"]
    for one in [*done.cookies.values()]:
        assert (one.path, one.secure, one.http_only, one.same_site) == ("/", True, True, "Strict")
        assert not one.domain
        assert one.max_age is None  # the browser forgets it when it ends
    assert len(done.cookies) == 2
    assert said
    # The forms of before the login are void after it.
    assert before.partition("=")[2] not in cookies(done).values()


@pytest.mark.parametrize(
    "back",
    [
        *("https://evil.example/", "//evil.example", "/\\evil.example", "/pagex", "javascript:x"),
        *("/page\\..\\x", "/page/x\r\nSet-Cookie: a=b", "/page\n", "/page@evil.example", ""),
        *("/v1/slots", FORM, "/page/logout", "page", "/page#x", "/page/\u2192"),
    ],
)
def test_it_leads_to_the_page_and_nowhere_else(back: str) -> None:
    assert login.inside(back) == "/page"


def test_what_leads_back_may_have_words() -> None:
    for back in ("/page", "/page/", "/page?x=1", f"/page/slots/{NAMES[0]}?done=1&a=%20b"):
        assert login.inside(back) == back


@pytest.mark.parametrize("typed", [{"password": "wrong"}, {"user": "nobody", "password": "wrong"}])
def test_a_refused_login_says_nothing_of_why(
    guest: Visitor, played: Played, typed: dict[str, str]
) -> None:
    found = enter(guest, **typed)
    assert found.status_code == 401
    page = Page(found.text)
    assert "lets nobody in by this name, password, domain and project" in page.text
    assert page.forms[FORM]["project"] == "ops"  # nothing is typed twice
    assert page.forms[FORM]["password"] == ""
    assert "wrong" not in found.text
    assert login.COOKIE not in cookies(found)


@pytest.mark.parametrize("name", ["user", "password", "domain"])
def test_what_is_missing_or_endless_asks_keystone_nothing(
    guest: Visitor, played: Played, name: str
) -> None:
    for value in ("", "x" * 256):
        assert enter(guest, **{name: value}).status_code == 400
    assert played.asked == []


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "", "Referer": "https://evil.example"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Cookie": "other=1"},
    ],
)
def test_nobody_is_logged_in_or_out_from_elsewhere(
    guest: Visitor, played: Played, headers: dict[str, str]
) -> None:
    fields = guest.page(FORM).forms[FORM]
    for place in (FORM, "/page/logout"):
        assert guest.send(place, {**fields, **TYPED}, **headers).status_code == 403
        assert guest.send(place, {**TYPED, "token": "0" * 64}).status_code == 403
    assert played.asked == []
    assert played.revoked == []


def test_a_logout_ends_the_token(guest: Visitor, played: Played) -> None:
    fields = guest.page("/page/logout").forms["/page/logout"]
    own = f"{guest.cookie}; {login.COOKIE}={TOKEN}"
    out = guest.send("/page/logout", fields, Cookie=own)
    assert (out.status_code, out.headers["Location"]) == (303, f"{FORM}?out=1")
    assert played.revoked == [TOKEN]
    gone = out.cookies[login.COOKIE]
    assert (gone.value, gone.max_age) == ("", 0)
    assert "You are logged out." in guest.page(f"{FORM}?out=1").text
    played.away = True
    fields = guest.page("/page/logout").forms["/page/logout"]
    out = guest.send("/page/logout", fields, Cookie=f"{guest.cookie}; {login.COOKIE}={TOKEN}")
    assert "it counts until its time" in guest.page(out.headers["Location"]).text


def test_who_meets_an_error_can_log_out(cloudy: Site, guest: Visitor) -> None:
    """Keystone does not answer; and who logged in without a right sees no other page."""
    away = guest.get("/page", Cookie=f"{login.COOKIE}={TOKEN}")
    plane = ServingPlane([cloudy.file])
    inner = page_application.make(plane, Authority(plane.conf, RULES))
    given = {login.BY_COOKIE: True, CONTEXT: RequestContext(user_id="ada", roles=[])}
    refused = testing.simulate_get(inner, "/page/slots", extras=given)
    for found, status in ((away, 503), (refused, 403)):
        assert found.status_code == status
        assert "/page/logout" in Page(found.text).links
        assert found.headers["Cache-Control"] == "no-store, private"
    nobody = testing.simulate_get(inner, "/page/slots", extras={CONTEXT: given[CONTEXT]})
    assert "/page/logout" not in nobody.text


def test_a_login_over_another_ends_that_one(guest: Visitor, played: Played) -> None:
    """The browser forgets its token: nobody could log out of it."""
    fields = guest.page(FORM).forms[FORM]
    for former, revoked in ((TOKEN, []), ("of-before", ["of-before"])):
        own = f"{guest.cookie}; {login.COOKIE}={former}"
        assert guest.send(FORM, {**fields, **TYPED}, Cookie=own).status_code == 303
        assert played.revoked == revoked
        fields = guest.page(FORM).forms[FORM]


def test_people_log_in_and_out_while_no_act_can_be_written_down(
    guest: Visitor, played: Played, tmp_path: Path
) -> None:
    """Who wants to look has to log in, and whoever leaves must not be kept logged in."""
    with contextlib.suppress(BadInputError):
        logs.keep_audit(str(tmp_path / "none" / "audit.log"))
    try:
        assert enter(guest).status_code == 303
        fields = guest.page("/page/logout").forms["/page/logout"]
        out = guest.send("/page/logout", fields, Cookie=f"{guest.cookie}; {login.COOKIE}={TOKEN}")
        assert (out.status_code, out.cookies[login.COOKIE].max_age) == (303, 0)
        assert played.revoked == [TOKEN]
        assert guest.send("/page/slots", fields).status_code == 503
    finally:
        logs.keep_audit("")


def test_a_name_is_tried_the_slower_the_more_fail(guest: Visitor, played: Played) -> None:
    tries = [enter(guest, password="wrong").status_code for _ in range(patience.FREE + 1)]
    assert tries == [401] * patience.FREE + [429]
    late = enter(guest)
    assert late.status_code == 429
    assert int(late.headers["Retry-After"]) >= 1
    assert enter(guest, user="grace").status_code == 303
    assert len(played.asked) == patience.FREE + 1


def test_who_tries_a_name_makes_nobody_wait_elsewhere(guest: Visitor, played: Played) -> None:
    for _ in range(patience.FREE + 1):
        last = enter(guest, password="wrong").status_code
    assert last == 429
    assert enter(guest).status_code == 429
    owner = Visitor(guest.app, address="192.0.2.2")
    assert enter(owner).status_code == 303
    # And whoever sends a header is at no other address.
    page = guest.get(FORM)
    fields = {**Page(page.text).forms[FORM], **TYPED}
    found = guest.send(FORM, fields, X_Forwarded_For="192.0.2.3", Forwarded="for=192.0.2.3")
    assert found.status_code == 429
    # The owner's login gives nobody elsewhere new tries.
    assert enter(guest, password="wrong").status_code == 429


def test_nobody_is_locked_out_by_who_tries_for_hours() -> None:
    now = [0.0]
    counts = LoginPatience(lambda: now[0])
    owner = 0
    for second in range(3600):
        now[0] = float(second)
        for host in range(3):
            counts.tried("ada", f"192.0.2.{host}")
        if second % 600 == 599:
            assert counts.tried("ada", "198.51.100.1") == 0.0
            counts.forget("ada", "198.51.100.1")
            owner += 1
    assert owner == 6


def test_a_name_that_is_tried_for_days_is_answered_as_before() -> None:
    """Two to the power of its tries was no number any more, some 17 hours on."""
    now = [0.0]
    counts = LoginPatience(lambda: now[0])
    for _ in range(1200):
        assert counts.tried("name", "192.0.2.1") == 0
        now[0] += patience.LONGEST
    assert counts.tried("name", "192.0.2.1") == 0
    assert counts.tried("name", "192.0.2.1") == patience.LONGEST


def test_what_counts_as_one_address() -> None:
    assert patience.address_of("192.0.2.1") == patience.address_of("::ffff:192.0.2.1")
    assert patience.address_of("192.0.2.1") != patience.address_of("192.0.2.2")
    assert patience.address_of("2001:db8::1") == patience.address_of("2001:db8::2:0:0:1")
    assert patience.address_of("2001:db8::1") != patience.address_of("2001:db8:0:1::1")
    assert patience.address_of("fe80::1%eth0") == patience.address_of("fe80::2")
    assert {patience.address_of(odd) for odd in (None, "", "unix:", "x" * 999)} == {""}


def test_a_keystone_that_is_away_costs_nobody_a_try(guest: Visitor, played: Played) -> None:
    played.away = True
    tries = [enter(guest).status_code for _ in range(patience.FREE + 3)]
    assert set(tries) == {503}
    played.away = False
    assert enter(guest).status_code == 303


def test_an_error_of_keystone_gives_no_name_new_tries(guest: Visitor, played: Played) -> None:
    """Who can make Keystone fail, by a project that its database chokes on, tries for nothing."""
    tries = []
    for _ in range(patience.FREE + 1):
        played.away = True
        tries.append(enter(guest, password="wrong").status_code)
        played.away = False
        tries.append(enter(guest, password="wrong").status_code)
    assert tries == [503, 401] * patience.FREE + [429, 429]


@pytest.mark.parametrize(
    "other", ["ADA", "\u00e1da", "a\u0301da", "a\u200bda", "\uff41da", "ad\u00c5"]
)
def test_what_keystone_may_take_for_one_name_is_one(
    guest: Visitor, played: Played, other: str
) -> None:
    """MySQL's collations tell neither case nor accents apart, and skip what has no width."""
    for _ in range(patience.FREE):
        assert enter(guest, password="wrong").status_code == 401
    assert enter(guest, user=other, password="wrong").status_code == 429
    assert enter(guest, user=other, domain="D\u00e9fault", password="wrong").status_code == 429


def test_only_some_log_in_at_a_time(cloudy: Site, played: Played) -> None:
    """The threads of the process are the API's too."""
    app = visitor(cloudy).app
    most = patience.AT_ONCE - 1
    gate, go = threading.Barrier(most + 1), threading.Event()

    def waits() -> None:
        if not go.is_set():
            gate.wait(30)
        go.wait(30)

    played.hook = waits
    with ThreadPoolExecutor(patience.AT_ONCE) as pool:
        several = [pool.submit(enter, Visitor(app)) for _ in range(most)]
        gate.wait(30)
        # The last turn is no address's that has the others.
        assert enter(Visitor(app)).status_code == 429
        gate = threading.Barrier(2)
        several.append(pool.submit(enter, Visitor(app, address="192.0.2.2")))
        gate.wait(30)
        assert enter(Visitor(app, address="192.0.2.3")).status_code == 429
        go.set()
        assert [one.result(30).status_code for one in several] == [303] * patience.AT_ONCE
    assert enter(Visitor(app)).status_code == 303


def test_who_sleeps_after_a_refusal_has_no_turn(cloudy: Site, played: Played) -> None:
    """Else a few refused logins a second would shut everybody out of the form."""
    slept, go = threading.Semaphore(0), threading.Event()
    sleeps: list[float] = []

    def sleep(seconds: float) -> None:
        sleeps.append(seconds)
        slept.release()
        go.wait(30)

    plane = ServingPlane([cloudy.file])
    place = login.LoginPlace(plane, Keystone(plane.conf), sleep=sleep)
    app: falcon.App[Any, Any] = falcon.App()
    app.req_options.auto_parse_form_urlencoded = False
    app.add_route(FORM, place)
    app.add_error_handler(Exception, raised)
    with ThreadPoolExecutor(patience.SLEEPERS) as pool:
        try:
            wrong = [
                pool.submit(enter, Visitor(app), user=f"n{number}", password="wrong")
                for number in range(patience.SLEEPERS)
            ]
            for _ in wrong:
                assert slept.acquire(timeout=30)
            assert enter(Visitor(app)).status_code == 303
            # The beds are taken: more that are refused have no thread to sleep in.
            for number in range(3 * patience.AT_ONCE):
                one = enter(Visitor(app), user=f"m{number}", password="wrong")
                assert one.status_code == 401
            assert enter(Visitor(app)).status_code == 303
            assert len(sleeps) == patience.SLEEPERS
        finally:
            go.set()
        assert [one.result(30).status_code for one in wrong] == [401] * patience.SLEEPERS
    go.set()
    assert enter(Visitor(app), user="last", password="wrong").status_code == 401
    assert len(sleeps) == patience.SLEEPERS + 1


def raised(_req: falcon.Request, _resp: falcon.Response, error: Exception, _params: Any) -> None:
    raise error


def test_patience() -> None:
    now = [0.0]
    counts = LoginPatience(lambda: now[0])
    assert [counts.tried("a", "192.0.2.1") for _ in range(patience.FREE)] == [0.0] * patience.FREE
    assert counts.tried("a", "192.0.2.1") == 1.0
    assert counts.tried("b", "192.0.2.1") == 0.0
    now[0] += 1.0
    assert counts.tried("a", "192.0.2.1") == 0.0
    assert counts.tried("a", "192.0.2.1") == 2.0
    for _ in range(20):
        now[0] += patience.LONGEST
        assert counts.tried("a", "192.0.2.1") == 0.0
    assert counts.tried("a", "192.0.2.1") == patience.LONGEST
    counts.forget("a", "192.0.2.1")
    assert counts.tried("a", "192.0.2.1") == 0.0
    now[0] += patience.FORGOTTEN + 1
    assert [counts.tried("a", "192.0.2.1") for _ in range(patience.FREE)] == [0.0] * patience.FREE
    for number in range(patience.NAMES + 10):
        counts.tried(f"n{number}", "192.0.2.1")
    assert len(counts._tries) == patience.NAMES
    names = ["..", "\u2014", "\u65e5\u672c", "\u65e5", "ada"]
    assert len({patience.key("", name) for name in names}) == len(names)
    assert patience.key("a", "b") != patience.key("", "ab")


def test_a_try_that_is_given_back_is_one_less() -> None:
    counts = LoginPatience(lambda: 0.0)
    for _ in range(patience.FREE):
        counts.tried("a", "192.0.2.1")
    counts.give_back("a", "192.0.2.1")
    assert counts.tried("a", "192.0.2.1") == 0.0
    assert counts.tried("a", "192.0.2.1") == 1.0
    counts.give_back("nobody", "192.0.2.1")


def test_a_cookie_is_who_somebody_is_for_the_page_alone(guest: Visitor, cloudy: Site) -> None:
    """Else any site's request to the API would carry it."""
    conf = ServingPlane([cloudy.file]).conf
    found = {"HTTP_COOKIE": f"{login.COOKIE}={TOKEN}"}
    login.enter(conf, found)
    assert found["HTTP_X_AUTH_TOKEN"] == TOKEN
    header = {**found, "HTTP_X_AUTH_TOKEN": "of a proxy"}
    login.enter(conf, header)
    assert header["HTTP_X_AUTH_TOKEN"] == "of a proxy"
    assert login.BY_COOKIE not in header
    for twice in (f"{login.COOKIE}=a; {login.COOKIE}=b", f"{login.COOKIE}=a b", f"{login.COOKIE}="):
        odd = {"HTTP_COOKIE": twice}
        login.enter(conf, odd)
        assert "HTTP_X_AUTH_TOKEN" not in odd
    api = testing.simulate_get(guest.app, "/v1/slots", headers={"Cookie": f"{login.COOKIE}=x"})
    assert api.status_code == 401  # and no Keystone was asked: it is nowhere
    page = guest.get("/page", Cookie=f"{login.COOKIE}=x")
    assert page.status_code == 503


@pytest.mark.parametrize("strategy", ["http_basic", "noauth"])
def test_without_keystone_there_is_no_form(tmp_path: Path, strategy: str) -> None:
    site = Site(tmp_path, strategy=strategy)
    one = visitor(site).as_user(ADMIN)
    for place in (FORM, "/page/logout"):
        assert one.get(place).status_code == 404
        assert one.send(place, TYPED).status_code == 404
    assert "Log out" not in one.page("/page").text
    assert FORM not in Page(visitor(site).get("/page").text).forms


def test_a_proxy_that_logs_people_in_needs_no_form(tmp_path: Path) -> None:
    site = Site(tmp_path, strategy="keystone", options=f"login_form = false\n{NOWHERE}")
    found = visitor(site).get("/page")
    assert found.status_code == 401
    assert "come through the proxy" in found.text
    assert visitor(site).get(FORM).status_code == 404


def test_what_fits_in_a_cookie() -> None:
    assert is_token("x" * LONGEST)
    for token in ("", "x" * (LONGEST + 1), "a;b", "a b", 'a"', "a\n", "ü"):
        assert not is_token(token)


def test_a_password_is_in_no_word_about_it() -> None:
    assert "secret" not in repr(Login(**TYPED))
