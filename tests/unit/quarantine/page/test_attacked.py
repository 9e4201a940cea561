"""What a hostile review of the page did, and what comes of it now."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from eraser.protocol.transport.signing import PrivateKey
from quarantine.api.routes import RULES
from quarantine.errors import UnavailableError, UnfinishedError, UnreadOutcomeError
from quarantine.operations.overview import fleet, health
from quarantine.operations.overview.health import ServiceHealth
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.page.routes import VIEWS
from quarantine.page.snapshot import Snapshots
from quarantine.page.view import PageView
from quarantine.page.views import acts
from quarantine.record.database import engine as door
from quarantine.record.database import models
from tests.unit.quarantine.api.client import ADMIN, NAMES, Site
from tests.unit.quarantine.api.test_attacked import damage
from tests.unit.quarantine.api.test_reads import issue
from tests.unit.quarantine.page.visitor import Visitor, visitor

ONE = f"/page/slots/{NAMES[0]}"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        *((f"/page/{kind}/%00", 404) for kind in ("slots", "hosts", "campaigns", "drives")),
        *((f"/page/{kind}?host=cmp1%00", 400) for kind in ("slots", "history", "maintenances")),
        ("/page/campaign-preview?model=%00", 400),
    ],
)
def test_a_nul_asks_the_record_nothing(
    reader: Visitor, path: str, status: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes none, and says so in words of its driver."""
    monkeypatch.setattr(ServingPlane, "parts", None)
    assert reader.get(path).status_code == status


@pytest.mark.parametrize("name", ["x%0d%0aSet-Cookie:%20a=b", "x%01", "%e2%86%92_0000:01:00.0"])
def test_no_name_of_a_slot_writes_headers(site: Site, admin: Visitor, name: str) -> None:
    """Anybody's link: a server of WSGI that looks at no header would have sent the cookie."""
    found = admin.get(f"/page/slots/{name}/hold")
    assert found.status_code == 303, "the test's own server refuses such a header with an error"
    where = found.headers["Location"]
    assert where.isascii()
    assert where.isprintable(), where
    assert "Set-Cookie" not in found.headers


@pytest.mark.parametrize(
    "other", ['a={"x":1}', "a=b c", "a=[1]; b", "a", "=x", "ü=1", 'a="b', "a=1; a(b)=2"]
)
def test_cookies_of_others_hide_ours_from_nobody(site: Site, admin: Visitor, other: str) -> None:
    """The proxy that logs people in sets its own, and applications beside us set theirs."""
    fields = {**admin.page(ONE).forms[f"{ONE}/hold"], "reason": "x"}
    found = admin.send(f"{ONE}/hold", fields, Cookie=f"{other}; {admin.cookie}")
    assert found.status_code == 303


@pytest.mark.parametrize(
    ("kind", "words"), [(UnreadOutcomeError, "on record"), (UnfinishedError, "may be done")]
)
def test_a_decision_on_record_is_never_called_none(
    site: Site,
    admin: Visitor,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[UnavailableError],
    words: str,
) -> None:
    def unread(*_words: object, **_named: object) -> None:
        raise kind("away")

    monkeypatch.setitem(acts._ACTS, "hold", unread)
    found = admin.act(ONE, "hold", reason="x")
    assert found.status_code == 503
    assert words in found.text
    assert "Nothing was decided" not in found.text


def test_a_record_that_goes_away_behind_a_decision_undoes_none(
    site: Site, admin: Visitor, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away(*_words: object, **_named: object) -> None:
        raise UnavailableError("away")

    fields = {**admin.page(ONE).forms[f"{ONE}/hold"], "reason": "x"}
    monkeypatch.setattr(acts.slots, "newest_history", away)
    found = admin.send(f"{ONE}/hold", fields)
    with site.store() as store:
        assert next(one.state.value for one in store.slots()) == "held"
    assert found.status_code == 303, found.text


def test_pages_with_a_token_are_kept_by_no_browser(admin: Visitor) -> None:
    assert "no-store" in admin.get(ONE).headers["Cache-Control"]


def test_a_record_that_hangs_costs_all_who_wait_one_look(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One after the other they would have kept every thread of the process, and the API's."""
    looks = []

    def hangs(_plane: object) -> None:
        looks.append(1)
        time.sleep(0.3)
        raise UnavailableError("no answer")

    monkeypatch.setattr(fleet, "look", hangs)
    shots = Snapshots(ServingPlane([site.file]))
    gate = threading.Barrier(8)

    def ask(_number: int) -> str:
        gate.wait(30)
        with pytest.raises(UnavailableError) as raised:
            shots.fleet()
        return str(raised.value)

    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(ask, range(8))) == ["no answer"] * 8
    assert len(looks) == 1


@pytest.mark.parametrize(
    ("column", "value"), [("created_at", "'yesterday'"), ("host", "x'ff'"), ("owner", "x'ff'")]
)
def test_a_damaged_certificate_ends_no_page_and_is_named(
    site: Site, column: str, value: str
) -> None:
    """The list called its time "never", and its drive's life was an error of ours."""
    issue(site)
    damage(site, "certificates", **{column: value})
    admin = visitor(site).as_user(ADMIN)
    found = admin.page("/page/certificates")
    assert f"damaged: {column}" in found.text
    assert "never" not in found.text
    lives = {link for link in found.links if link.startswith("/page/drives/")}
    assert any(f"damaged: {column}" in admin.page(link).text for link in lives)


@pytest.mark.parametrize(("column", "value"), [
    ("entered_at", "'yesterday'"), ("host", "x'ff'"), ("address", "x'ff'"),
    ("detail", "CAST(x'ff' AS TEXT)"), ("resource_class", "x'ff'"), ("model", "x'ff'"),
])  # fmt: skip
def test_a_damaged_slot_ends_no_count_of_all(
    site: Site, admin: Visitor, column: str, value: str
) -> None:
    """Triage, the fleet and what can be sold are where somebody looks whom it concerns."""
    damage(site, "slots", **{column: value})
    for path in ("/v1/capacity", "/page", "/page/fleet"):
        assert admin.get(path).status_code == 200, path


def resource(path: str) -> str:
    """What a view is about, as the API calls it."""
    if path.startswith(("/hosts/", "/slots/")) and "/maintenance" in path:
        return "maintenances"
    known = {"": "slots", "fleet": "capacity", "campaign-preview": "campaigns"}
    first = path.strip("/").partition("/")[0]
    return known.get(first, first)


@pytest.mark.parametrize("view", VIEWS, ids=lambda view: f"{view.method}{view.path}")
def test_a_view_is_under_the_rule_of_its_own_resource(view: PageView) -> None:
    """A drive's life was under the rule of certificates."""
    assert view.rule in RULES
    assert view.rule.partition(":")[0] == resource(view.path)


def test_who_may_not_ask_for_hosts_reads_of_no_silence(tmp_path: Path) -> None:
    """The fleet by host is capacity's; which host is silent, or not registered, is not."""
    policy = tmp_path / "policy.yaml"
    policy.write_text('"nvme_quarantine:hosts:list": "!"\n')
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    for path in ("/page", "/page/fleet"):
        text = visitor(site).as_user(ADMIN).page(path).text
        assert "cmp1" in text
        assert "◌ not registered" not in text


def test_a_host_that_was_heard_in_a_time_to_come_is_silent_wherever_it_is_shown(
    site: Site, admin: Visitor
) -> None:
    """Our clock was set back since: it counted as heard until that time would have come."""
    with site.store() as store:
        for host in ("cmp1", "cmp2"):
            store.register_host(host, PrivateKey.generate().public, "incarnation-0123456789")
    with site.store() as store, door.writing(store._engine) as db:
        gone = sa.update(models.hosts).where(models.hosts.c.name == "cmp1")
        db.execute(gone.values(heard_at=datetime.now(UTC) + timedelta(hours=1)))
    for path in ("/page/hosts", "/page/hosts/cmp1", "/page/fleet"):
        assert admin.page(path).text.count("◌ silent") == 1, path
    assert "◌ silent" not in admin.page("/page/hosts/cmp2").text


@pytest.mark.parametrize("path", ["/page/", "/page/slots/", f"{ONE}/", "/page/campaigns/"])
def test_a_slash_at_the_end_is_no_other_place(site: Site, admin: Visitor, path: str) -> None:
    assert admin.get(path).status_code == 200


def test_a_slots_damaged_certificate_is_called_so(site: Site) -> None:
    """Its time was said to be "never"."""
    issue(site)
    damage(site, "certificates", created_at="'yesterday'")
    text = visitor(site).as_user(ADMIN).page(ONE).text
    issued = text[text.index("Certificates of this slot") :]
    issued = issued[: issued.index("What happened")]
    assert "damaged: created_at" in issued
    assert "never" not in issued


def test_all_who_look_at_triage_share_one_look_at_health(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else each would wait for a connection of its own to a record that hangs."""
    looks = []
    real = health.look

    def slow(plane: Plane) -> ServiceHealth:
        looks.append(1)
        time.sleep(0.3)
        return real(plane)

    monkeypatch.setattr(health, "look", slow)
    admin = visitor(site).as_user(ADMIN)
    gate = threading.Barrier(6)

    def ask(_number: int) -> int:
        gate.wait(30)
        return Visitor(admin.app, admin.headers).get("/page").status_code

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(ask, range(6))) == [200] * 6
    assert len(looks) == 1


def test_no_list_is_longer_than_the_api_gives(tmp_path: Path) -> None:
    """The page gave 2,000 slots where [api]max_limit is 1,000."""
    site = Site(tmp_path, options="max_limit = 2\n")
    admin = visitor(site).as_user(ADMIN)
    for asked in ("", "?limit=100", "?limit=2000"):
        assert "2 slots on this page" in admin.page(f"/page/slots{asked}").text
    page = admin.page("/page/slots?limit=2000")
    following = next(link for link in page.links if "marker=" in link)
    assert "2 slots on this page" in admin.page(following).text
    issue(site)
    assert "2 certificates on this page" in admin.page("/page/certificates").text
