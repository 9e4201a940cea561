"""The API with a real Keystone: who is let in, as what, and what is written of him."""

from __future__ import annotations

import urllib.error
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

pytest.importorskip("keystone", reason="tox env api has it")

from eraser.protocol import codec
from eraser.protocol.report import HELLO_TYPE, Hello
from eraser.protocol.transport.signing import PrivateKey
from tests.lab.services.keystone import DOMAIN, PASSWORD, SYSTEM, Keystone, project
from tests.unit.quarantine.api.client import NAMES, SERVER, Client, Site, code

pytestmark = pytest.mark.api

ONE = f"/v1/slots/{NAMES[0]}"
OTHERS = "99999999-2222-3333-4444-555555555555"


@dataclass
class Cloud:
    """A site behind a Keystone with two projects, and people in them."""

    keystone: Keystone
    client: Client
    projects: dict[str, str]
    users: dict[str, str]

    def caller(self, user: str, scope: dict[str, Any] | None) -> Client:
        """A user with a token."""
        word = PASSWORD if user == "admin" else f"word-of-{user}"
        return self.bearing(self.keystone.token(user, word, scope))

    def bearing(self, token: str, **more: str) -> Client:
        """Whoever has this token."""
        return Client(self.client.app, {"X-Auth-Token": token, **more})


@pytest.fixture(scope="module")
def cloud(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cloud]:
    with Keystone(tmp_path_factory.mktemp("keystone")) as one:
        token = one.admin()
        roles = one.roles()
        for name in ("nvme_reader", "nvme_none"):
            made = one.ask("POST", "/v3/roles", {"role": {"name": name}}, token)[0]
            roles[name] = made["role"]["id"]
        projects = {name: one.add_project(name) for name in ("p1", "p2")}
        users = {}
        for name, where, role in (
            ("rita", "p1", "reader"),
            ("mia", "p2", "member"),
            ("monitor", "p2", "nvme_reader"),
            ("auditor", "", "reader"),
            ("nobody", "p1", "nvme_none"),
        ):
            users[name] = one.add_user(name, f"word-of-{name}")
            place = f"projects/{projects[where]}" if where else "system"
            one.grant(place, users[name], roles[role])
        one.grant("domains/default", users["rita"], roles["reader"])
        site = Site(tmp_path_factory.mktemp("site"), options=one.options(), strategy="keystone")
        with site.store() as store:
            store.note_server(SERVER, projects["p1"], "somebody")
            store.note_server(OTHERS, projects["p2"], "somebody else")
        yield Cloud(one, site.client(), projects, users)


def test_no_token_and_none_that_counts(cloud: Cloud) -> None:
    """Neither with claims beside it, nor after it was revoked."""
    claims = {"X-Roles": "admin", "X-User-Id": "u", "X-Identity-Status": "Confirmed"}
    for caller in (
        cloud.client,
        Client(cloud.client.app, claims),
        cloud.bearing("gAAAAA-no-token"),
        cloud.bearing("gAAAAA-no-token", **claims),
        cloud.bearing("x" * 5000),
    ):
        found = caller.get("/v1/slots")
        assert (found.status_code, code(found)) == (401, "unauthorized")
        assert found.headers["WWW-Authenticate"].startswith("Keystone uri=")
    token = cloud.keystone.admin()
    assert cloud.bearing(token).get("/v1/slots").status_code == 200
    cloud.keystone.ask("DELETE", "/v3/auth/tokens", token, token)
    assert cloud.bearing(token).get("/v1/slots").status_code == 401


def test_a_token_that_has_expired(cloud: Cloud) -> None:
    token = cloud.keystone.admin()
    for ends_in, status in ((600, 200), (-3600, 401), (-1, 401)):
        again = cloud.keystone.reissued(token, ends_in)
        assert cloud.bearing(again).get("/v1/slots").status_code == status
    assert cloud.bearing(token).get("/v1/slots").status_code == 200


def test_what_a_hosts_key_signs_lets_nobody_in(cloud: Cloud) -> None:
    """A host speaks by messages alone: its own hello, and one that claims to be more."""
    key = PrivateKey.generate()
    hello = Hello("cmp1", "1" * 32, 1, "0.1.0", (), ())
    for said in (codec.canonical(hello), b'{"user": "admin", "roles": ["admin"]}'):
        word = key.sign(said, HELLO_TYPE)
        for headers in ({"X-Auth-Token": word}, {"Authorization": f"Bearer {word}"}):
            caller = Client(cloud.client.app, headers)
            for method, path in (("GET", "/v1/slots"), ("GET", ONE), ("POST", f"{ONE}/hold")):
                body = None if method == "GET" else {"reason": "x"}
                found = caller.ask(method, path, body, If_Match='"x"')
                assert (found.status_code, code(found)) == (401, "unauthorized")


def test_an_administrators_act_has_his_name(cloud: Cloud) -> None:
    admin = cloud.caller("admin", project("admin"))
    tag = admin.get(ONE).headers["ETag"]
    held = admin.ask("POST", f"{ONE}/hold", {"reason": "noises"}, If_Match=tag)
    assert held.status_code == 200
    line = admin.get(f"{ONE}/history").json["history"][-1]
    assert line["by"]["request_id"] == held.headers["X-Openstack-Request-Id"]
    assert len(line["by"]["user"]) == len(line["by"]["project"]) == 32


def test_a_projects_reader(cloud: Cloud) -> None:
    rita = cloud.caller("rita", project("p1"))
    assert [one["id"] for one in rita.get("/v1/servers").json["servers"]] == [SERVER]
    assert rita.get(f"/v1/servers/{SERVER}").status_code == 200
    assert rita.get(f"/v1/servers/{OTHERS}").status_code == 404
    for path in ("/v1/slots", ONE, f"{ONE}/history", "/v1/certificates", "/v1/exports/slots"):
        assert rita.get(path).status_code == 403
    mia = cloud.caller("mia", project("p2"))  # a member is a reader too
    assert [one["id"] for one in mia.get("/v1/servers").json["servers"]] == [OTHERS]


@pytest.mark.parametrize(
    ("user", "scope"), [("auditor", SYSTEM), ("monitor", project("p2"))], ids=["system", "role"]
)
def test_who_reads_for_operators_changes_nothing(
    cloud: Cloud, user: str, scope: dict[str, Any]
) -> None:
    caller = cloud.caller(user, scope)
    one = caller.get(ONE)
    assert one.status_code == 200
    assert len(caller.get("/v1/servers").json["servers"]) == 2
    for act in ("hold", "release", "erase", "retire"):
        found = caller.ask("POST", f"{ONE}/{act}", {"reason": "x"}, If_Match=one.headers["ETag"])
        assert (found.status_code, code(found)) == (403, "forbidden")


@pytest.mark.parametrize(
    ("user", "scope"),
    [("rita", DOMAIN), ("rita", None), ("nobody", project("p1"))],
    ids=["domain", "unscoped", "no role of ours"],
)
def test_tokens_that_are_for_something_else(cloud: Cloud, user: str, scope: Any) -> None:
    caller = cloud.caller(user, scope)
    assert caller.get("/v1/slots").status_code == 403
    assert caller.get(f"/v1/servers/{SERVER}").status_code == 404


def test_a_keystone_that_is_away(cloud: Cloud) -> None:
    """Nobody is let in; health and versions are told. The last test: it stays away."""
    client = cloud.caller("admin", project("admin"))
    assert client.get("/v1/slots").status_code == 200
    cloud.keystone.stop()
    found = client.get("/v1/slots")
    assert (found.status_code, code(found)) == (503, "unavailable")
    assert cloud.keystone.url not in found.text
    assert client.get("/").status_code == 200
    assert client.get("/healthcheck").json["checks"][0]["status"] == "ok"
    with pytest.raises(urllib.error.URLError):
        cloud.keystone.ask("GET", "/v3")
