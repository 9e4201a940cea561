"""Maintenance on the page: begun and ended for a host or a slot, and seen where it is."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import sqlalchemy as sa

from eraser.protocol.transport.signing import PrivateKey
from quarantine.record.database import models
from quarantine.record.database.engine import writing
from quarantine.record.words.facts import Initiator, Subject
from tests.unit.quarantine.api.client import ADMIN, NAMES, READER, Site
from tests.unit.quarantine.page.visitor import Visitor, visitor

HOST = "/page/hosts/cmp1/maintenance"
SLOT = f"/page/slots/{NAMES[0]}/maintenance"


def soon(hours: float = 1) -> str:
    """As a browser's field for a time sends it."""
    return f"{datetime.now(UTC) + timedelta(hours=hours):%Y-%m-%dT%H:%M}"


def test_a_life(site: Site, admin: Visitor) -> None:
    with site.store() as store:
        store.register_host("cmp1", PrivateKey.generate().public, "incarnation-0123456789")
    assert "Nothing is in maintenance." in admin.page("/page/maintenances").text
    assert "begin one" in admin.page("/page/hosts/cmp1").text
    begun = admin.act(HOST, "begin", reason="new <b>fans</b>", until=soon())
    assert (begun.status_code, begun.headers["Location"]) == (303, f"{HOST}?done=1")
    shown = admin.page(begun.headers["Location"])
    assert "On record: in maintenance." in shown.text
    assert "Of the host, with all of its slots." in shown.text
    assert "maintenance unset cmp1 --by ada --reason" in shown.text
    for path in ("/page/hosts/cmp1", f"/page/slots/{NAMES[0]}", "/page/maintenances"):
        assert "new <b>fans</b>" in admin.page(path).text, path
    slot = admin.act(SLOT, "begin", reason="its cable", until=soon(2))
    assert slot.status_code == 303
    assert "2 in effect" in admin.page("/page/maintenances").text
    assert admin.act(HOST, "begin", reason="takes longer", until=soon(3)).status_code == 303
    assert admin.act(HOST, "end", reason="fans are in").status_code == 303
    over = admin.page(HOST)
    assert f"{HOST}/end" not in over.forms
    text = over.text
    assert text.index("fans are in") < text.index("takes longer") < text.index("new <b>fans</b>")
    assert "1 in effect" in admin.page("/page/maintenances").text


def test_a_row_with_an_address_that_is_none_hides_no_other(site: Site, admin: Visitor) -> None:
    for name in NAMES[:2]:
        path = f"/page/slots/{name}/maintenance"
        assert admin.act(path, "begin", reason="its cable", until=soon()).status_code == 303
    with site.store() as store, writing(store._engine) as db:
        odd = models.maintenances.c.address == NAMES[0].partition("_")[2]
        assert db.execute(sa.update(models.maintenances).where(odd).values(address="x")).rowcount
    text = admin.page("/page/maintenances").text
    assert "2 in effect" in text
    assert NAMES[1].partition("_")[2] in text


def long_ago(site: Site) -> None:
    """All slots, and two hosts that were registered since: whoever waits for them is late."""
    with site.store() as store:
        for host in ("cmp1", "cmp2"):
            store.register_host(host, PrivateKey.generate().public, "incarnation-0123456789")
    then = datetime.now(UTC) - timedelta(days=3)
    with site.store() as store, writing(store._engine) as db:
        db.execute(sa.update(models.slots).values(entered_at=then))
        db.execute(sa.update(models.hosts).values(registered_at=then))


def test_a_list_of_slots_says_it_in_place_of_late(site: Site, admin: Visitor) -> None:
    long_ago(site)
    assert admin.page("/page/slots").text.count(" late ") == 6
    assert admin.act(SLOT, "begin", reason="new fans", until=soon()).status_code == 303
    text = admin.page("/page/slots").text
    assert text.count(" late ") == 5
    assert "UTC: new fans" in text
    assert admin.act(HOST, "begin", reason="rack move", until=soon()).status_code == 303
    text = admin.page("/page/slots").text
    assert text.count(" late ") == 3
    assert text.count("host in maintenance until") == 3
    assert "Late: 3 slots" in admin.page("/page").text
    quarantined = admin.page(f"/page/slots/{NAMES[0]}").text
    assert " late " not in quarantined


def test_hosts_say_it_in_place_of_their_silence(site: Site, admin: Visitor) -> None:
    long_ago(site)
    assert admin.page("/page/hosts").text.count("silent") == 2
    assert admin.act(HOST, "begin", reason="rack move", until=soon()).status_code == 303
    text = admin.page("/page/hosts").text
    assert text.count("silent") == 1
    assert "UTC: rack move" in text


def test_in_the_fleet_such_a_host_needs_nobody(site: Site, admin: Visitor) -> None:
    long_ago(site)
    text = admin.page("/page/fleet").text
    assert text.index("cmp1 3") < text.index("cmp2 3")
    assert admin.act(HOST, "begin", reason="rack move", until=soon()).status_code == 303
    text = admin.page("/page/fleet").text
    rows = text[text.index("Needs") :]
    assert rows.index("cmp2") < rows.index("cmp1"), "it does not need a person first"
    assert rows.count("◌ silent") == 1
    assert rows.count("⚒ host in maintenance until") == 1


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ({"until": ""}, "when does it end?"),
        ({"until": "tomorrow"}, "when does it end?"),
        ({"until": "2020-01-01T00:00"}, "expected a time to come"),
        ({"until": "2099-01-01T00:00"}, "at most"),
        ({"reason": ""}, "say why"),
        ({"reason": "x" * 1001}, "Nothing was done."),
    ],
)
def test_what_is_wrong_is_said_beside_the_form(
    still_admin: Visitor, typed: dict[str, str], said: str
) -> None:
    words = {"reason": "my reason", "until": soon(), **typed}
    found = still_admin.act(SLOT, "begin", **words)
    assert found.status_code == 400
    assert said in found.text
    assert words["reason"] in found.text


def test_who_may_not_look_is_shown_nothing_of_it_by_acting(tmp_path: Path) -> None:
    """Rules may let somebody act who sees nothing; what is wrong is said by itself then."""
    rules = tmp_path / "policy.yaml"
    rules.write_text('"nvme_quarantine:maintenances:get": "!"\n')
    options = f"[oslo_policy]\npolicy_file = {rules}\nenforce_scope = false\n"
    site = Site(tmp_path, options=options)
    until = datetime.now(UTC) + timedelta(hours=1)
    with site.store() as store:
        by = Initiator("grace")
        store.put_maintenance(Subject("cmp1"), until=until, reason="secret rack", by=by)
    admin = visitor(site).as_user(ADMIN)
    assert admin.get(HOST).status_code == 403
    one = f"/page/slots/{NAMES[0]}"
    token = admin.page(one).forms[f"{one}/hold"]["token"]
    typed = {"token": token, "reason": "mine", "until": soon(), "version": "7"}
    for act, wrong, status in (
        ("begin", {"until": "never"}, 400),
        ("begin", {"reason": ""}, 400),
        ("begin", {}, 412),
        ("end", {"reason": ""}, 400),
        ("end", {}, 412),
    ):
        found = admin.send(f"{HOST}/{act}", {**typed, **wrong})
        assert found.status_code == status
        assert "Nothing was done" in found.text or "nothing was done" in found.text
        assert "secret rack" not in found.text
        assert "grace" not in found.text


def test_a_word_about_something_else_is_void(site: Site, admin: Visitor) -> None:
    fields = admin.page(HOST).forms[f"{HOST}/begin"]
    assert admin.act(HOST, "begin", reason="quicker", until=soon()).status_code == 303
    late = admin.send(f"{HOST}/begin", {**fields, "reason": "mine", "until": soon()})
    assert late.status_code == 412
    assert "It has changed since you looked" in late.text
    forged = admin.send(f"{HOST}/end", {"reason": "x"})
    assert forged.status_code == 403
    assert admin.get(f"{HOST}/end").headers["Location"] == HOST


def test_a_name_leads_to_its_place(still_admin: Visitor) -> None:
    def place(words: str) -> str:
        found = still_admin.get(f"/page/maintenances?subject={words}")
        return found.headers.get("Location", str(found.status_code))

    assert place("cmp1") == HOST
    assert place("my_host") == "/page/hosts/my_host/maintenance"
    assert place("cmp1/0000:01:00.0") == place(NAMES[0]) == SLOT
    assert place("cmp9/0000:01:00.0") == "404"
    for evil in ("//evil.example/", "%0d%0aSet-Cookie:x", "..%2f..", "https:%2f%2fevil.example"):
        where = place(evil)
        assert where == "404" or where.startswith("/page/hosts/"), where
        assert where.isprintable()


def test_a_host_that_nobody_knows(still_admin: Visitor) -> None:
    other = "/page/hosts/cmp9/maintenance"
    found = still_admin.act(other, "begin", reason="x", until=soon())
    assert found.status_code == 400
    assert "expected a registered host, or one with enrolled slots" in found.text


def test_a_reader_sees_it_and_sets_none(still_admin: Visitor) -> None:
    reader = Visitor(still_admin.app).as_user(READER)
    assert reader.page(HOST).forms == {}
    assert reader.send(f"{HOST}/begin", {"reason": "x", "until": soon()}).status_code == 403


@pytest.fixture(scope="module")
def still_admin(tmp_path_factory: pytest.TempPathFactory) -> Visitor:
    from tests.unit.quarantine.api.client import ADMIN

    return visitor(Site(tmp_path_factory.mktemp("site"))).as_user(ADMIN)
