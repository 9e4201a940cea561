"""What stands before every answer: who is it, ids, limits, and errors in one format."""

from __future__ import annotations

import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import pytest
import sqlalchemy as sa
from falcon import testing

from eraser.protocol.policy import Policy
from quarantine.api.routes import OPERATIONS
from quarantine.errors import BadInputError
from quarantine.operations.overview import health
from quarantine.operations.plane import ServingPlane
from quarantine.record.database import engine as door
from quarantine.record.database import models
from quarantine.record.words.facts import Initiator
from tests.unit.quarantine.api.client import ADMIN, NAMES, READER, Client, Site, code
from tests.unit.quarantine.testimony import PROFILE

PATHS = [
    (one.method, one.path.replace("{slot}", NAMES[0]))
    for one in OPERATIONS
    if one.rule and "{" not in one.path.replace("{slot}", "")
]


def test_versions_are_told_to_everybody(still: Client) -> None:
    (version,) = still.get("/").json["versions"]
    assert version["id"] == "v1.0"
    assert version["links"][0]["href"] == "/v1"
    assert still.get("/v1").json["version"]["status"] == "CURRENT"


@pytest.mark.parametrize(("method", "path"), PATHS)
def test_nothing_else_is_told_to_strangers(still: Client, method: str, path: str) -> None:
    for caller in (still, still.as_user(("ada", "wrong"))):
        found = caller.ask(method, path)
        assert (found.status_code, code(found)) == (401, "unauthorized")
        assert found.headers["WWW-Authenticate"].startswith("Basic")


@pytest.mark.parametrize(
    "user",
    [("nobody", "secret-of-ada"), ("ada", ""), ("ada", "x" * 100), ("ada", "a\0b"), ("", "")],
)
def test_passwords_that_are_none(still: Client, user: tuple[str, str]) -> None:
    assert still.as_user(user).get("/v1/slots").status_code == 401


@pytest.mark.parametrize(
    "claims",
    [
        {"X-Roles": "admin", "X-User-Id": "u", "X-Identity-Status": "Confirmed"},
        {"X-Auth-Token": "x", "X-Roles": "admin", "OpenStack-System-Scope": "all"},
        {"Authorization": "Basic"},
        {"Authorization": "Basic !!!"},
        {"Authorization": "Basic gA=="},
        {"Authorization": "Bearer eyJhbGciOiJub25lIn0.e30."},
    ],
)
def test_what_a_caller_says_of_himself_counts_for_nothing(
    still: Client, claims: dict[str, str]
) -> None:
    assert Client(still.app, claims).get("/v1/slots").status_code == 401


def test_a_reader_cannot_make_himself_an_administrator(reader: Client) -> None:
    claims = {"X-Roles": "admin", "X-Role": "admin", "OpenStack-System-Scope": "all"}
    caller = Client(reader.app, {**reader.headers, **claims})
    found = caller.ask("POST", f"/v1/slots/{NAMES[0]}/hold", {"reason": "x"}, If_Match='"x"')
    assert (found.status_code, code(found)) == (403, "forbidden")


@pytest.mark.parametrize("act", ["hold", "release", "retire"])
def test_a_reader_changes_nothing(reader: Client, act: str) -> None:
    path = f"/v1/slots/{NAMES[0]}"
    tag = reader.get(path).headers["ETag"]
    found = reader.ask("POST", f"{path}/{act}", {"reason": "x"}, If_Match=tag)
    assert (found.status_code, code(found)) == (403, "forbidden")
    assert reader.get(path).headers["ETag"] == tag


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("req-01234567-89ab-cdef-0123-456789abcdef", True),
        ("req-01234567-89ab-cdef-0123-456789abcdeX", False),
        ("req-x'; DROP TABLE slots", False),
    ],
)
def test_request_ids(given: str, kept: bool) -> None:
    from quarantine.api.application import GLOBAL_REQUEST_ID, Envelope

    seen: list[object] = []

    def inner(environ, start):  # type: ignore[no-untyped-def]
        seen.append(environ.get(GLOBAL_REQUEST_ID))
        start("200 OK", [("Content-Type", "application/json")])
        return [b"{}"]

    environ = {"HTTP_X_OPENSTACK_REQUEST_ID": given, GLOBAL_REQUEST_ID: "forged"}
    Envelope(inner)(environ, lambda *_: None)
    assert seen == [given if kept else None]


@pytest.mark.parametrize("kind", ["application/json", "text/html"])
def test_errors_of_libraries_are_said_in_our_words(kind: str) -> None:
    """Keystone's middleware has a format of its own, and names addresses."""
    from quarantine.api.application import Envelope

    def library(_environ, start):  # type: ignore[no-untyped-def]
        start("401 Unauthorized", [("Content-Type", kind), ("WWW-Authenticate", "Keystone")])
        return [b'{"error": {"message": "see http://10.0.0.1"}}']

    found = Client(Envelope(library)).get("/v1/slots")
    assert (found.status_code, code(found)) == (401, "unauthorized")
    assert found.headers["WWW-Authenticate"] == "Keystone"
    assert "10.0.0.1" not in found.text


@pytest.mark.parametrize(
    "path",
    [
        "/v2",
        "/v1/slots/",
        "/v1/slots/../../etc/passwd",
        "/v1/slots/..%2f..%2fetc",
        "/v1/slots/%00",
        "/v1/slots/cmp1_0000:01:00.0%0d%0aX-Evil:%201",
        "/v1/slots/" + "a" * 5000,
        "/v1/slots/' OR 1=1 --",
        "/v1/slots/00000000-0000-0000-0000-999999999999",
        "/v1/slots/cmp9_0000:01:00.0",
        "/v1/slots/<script>alert(1)</script>",
    ],
)
def test_paths_that_lead_nowhere(reader: Client, path: str) -> None:
    found = reader.get(path.replace(" ", "%20").replace("'", "%27").replace("<", "%3c"))
    assert (found.status_code, code(found)) == (404, "unknown")


def test_a_method_that_is_none(reader: Client) -> None:
    found = reader.ask("DELETE", "/v1/slots")
    assert (found.status_code, code(found)) == (405, "method")
    assert "GET" in found.headers["Allow"]
    assert reader.ask("GET", f"/v1/slots/{NAMES[0]}/hold").status_code == 405


DEEP = b'{"reason": ' + b"[" * 3000 + b"]" * 3000 + b"}"


@pytest.mark.parametrize(
    ("raw", "status", "why"),
    [
        (b"", 400, "not-json"),
        (b"{", 400, "not-json"),
        (b'{"reason": NaN}', 400, "not-json"),
        (b'{"reason": "x", "reason": "y"}', 400, "not-json"),
        (b'{"reason": "\xff"}', 400, "not-json"),
        (b'{"reason": "\\ud800"}', 400, "text"),
        (b'{"\\udfff": 1}', 400, "text"),
        (DEEP, 400, "not-json"),
        (b'{"reason": ' + b"[" * 20 + b"]" * 20 + b"}", 400, "too-deep"),
        (b'{"reason": "' + b"x" * (1 << 20) + b'"}', 413, "too-large"),
        (b"[]", 400, "schema"),
        (b"null", 400, "schema"),
        (b"{}", 400, "schema"),
        (b'{"reason": 1}', 400, "schema"),
        (b'{"reason": ""}', 400, "schema"),
        (b'{"reason": "  "}', 400, "schema"),
        (b'{"reason": "' + b"x" * 1001 + b'"}', 400, "schema"),
        (b'{"reason": "x", "force": true}', 400, "schema"),
        (b'{"reason": "x", "by": "somebody else"}', 400, "schema"),
        (b'{"reason": "x", "by": 1e400}', 400, "number"),
        (b'{"reason": [-1e999]}', 400, "number"),
        (b'\xef\xbb\xbf{"reason": "x"}', 400, "not-json"),
        ('{"reason": "x"}'.encode("utf-16"), 400, "not-json"),
        ('{"reason": "x"}'.encode("utf-16-le"), 400, "not-json"),
        ('{"reason": "x"}'.encode("utf-32-be"), 400, "not-json"),
        (b"0\0", 400, "not-json"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_bodies_that_are_refused(site: Site, raw: bytes, status: int, why: str) -> None:
    admin = site.client().as_user(ADMIN)
    path = f"/v1/slots/{NAMES[0]}"
    before = admin.get(path)
    found = admin.ask("POST", f"{path}/hold", raw=raw, If_Match=before.headers["ETag"])
    if why == "not-json" and raw == DEEP:
        assert code(found) in ("not-json", "too-deep")  # by the stack that is left
    else:
        assert code(found) == why
    assert found.status_code == status
    assert admin.get(path).json == before.json


@pytest.mark.parametrize(("length", "ends", "status"), [
    (None, True, "200"), (None, False, "400"), ("17", True, "200"), ("9", True, "400"),
])  # fmt: skip
def test_a_body_without_a_length_is_read_where_its_server_ends_it(
    site: Site, length: str | None, ends: bool, status: str
) -> None:
    """As it comes in chunks. Where no server ends it nothing is read: that would wait for ever."""
    admin, path = site.client().as_user(ADMIN), f"/v1/slots/{NAMES[0]}"
    headers = {**admin.headers, "If-Match": admin.get(path).headers["ETag"]}
    environ = testing.create_environ(
        f"{path}/hold",
        method="POST",
        headers={**headers, "Content-Type": "application/json"},
        body='{"reason": "why"}',
    )
    del environ["CONTENT_LENGTH"]
    if length is not None:
        environ["CONTENT_LENGTH"] = length
    environ["wsgi.input_terminated"] = ends
    said: list[str] = []
    list(admin.app(environ, lambda status, *_more: said.append(status)))
    assert said[0].startswith(status)


@pytest.mark.parametrize("kind", ["policies", "profiles"])
@pytest.mark.parametrize("number", ["1e400", "-1e400", "1" + "0" * 4000])
def test_a_number_that_is_none_of_ours(admin: Client, kind: str, number: str) -> None:
    raw = f'{{"name": "x", "years": [{number}]}}'.encode()
    found = admin.ask("PUT", f"/v1/{kind}/x", raw=raw, If_None_Match="*")
    assert found.status_code == 400, found.text


@pytest.mark.parametrize(
    "path",
    [
        *(f"/v1/slots/{where}" for where in ("%00", f"{NAMES[0]}%00", f"{NAMES[0]}%00/history")),
        *("/v1/hosts/cmp1%00", "/v1/hosts/%00/maintenance", "/v1/hosts/%00/maintenance/history"),
        *("/v1/profiles/%00", "/v1/policies/%00", "/v1/campaigns/%00", "/v1/campaigns/%00/slots"),
        *("/v1/servers/%00", "/v1/drives/%00", "/v1/certificates/%00"),
    ],
)
def test_a_name_with_a_nul_asks_the_record_nothing(
    reader: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """PostgreSQL takes none, and says so in words of its driver."""
    monkeypatch.setattr(ServingPlane, "parts", None)
    found = reader.get(path)
    assert (found.status_code, code(found)) == (404, "unknown")


@pytest.mark.parametrize(
    "path",
    [
        *("/v1/slots?host=%00", "/v1/slots?marker=%00_%00", "/v1/slots?state=held&state=%00"),
        *("/v1/hosts?marker=%00", "/v1/profiles?marker=%00", "/v1/history?host=cmp1%00"),
        *("/v1/capacity?host=%00", "/v1/capacity?flavor=%00", "/v1/servers?project=%00"),
    ],
)
def test_a_word_of_a_query_with_a_nul_asks_the_record_nothing(
    reader: Client, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ServingPlane, "parts", None)
    found = reader.get(path)
    assert (found.status_code, code(found)) == (400, "schema")


@pytest.mark.parametrize("path", ["/v1/history", "/v1/refusals", "/v1/certificates"])
def test_the_greatest_marker_is_one(reader: Client, path: str) -> None:
    assert reader.get(f"{path}?marker={2**62}").status_code == 200
    for more in (2**62 + 1, 10**19, 10**400):
        found = reader.get(f"{path}?marker={more}")
        assert (found.status_code, code(found)) == (400, "schema")


def test_the_greatest_number_of_a_query_is_read_as_one() -> None:
    for one in OPERATIONS:
        for name, schema in one.query.items():
            if schema.get("type") != "integer":
                continue
            # One without an end is how many are wanted, of which no more are given than there are.
            assert ("maximum" in schema) != (name == "limit")
            most = schema.get("maximum", 0)
            assert one.read_query({name: [str(most)]}) == {name: most}


def test_a_body_of_another_type(admin: Client) -> None:
    path = f"/v1/slots/{NAMES[0]}"
    tag = admin.get(path).headers["ETag"]
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        found = admin.ask("POST", f"{path}/hold", raw=b"reason=x", If_Match=tag, Content_Type=kind)
        assert (found.status_code, code(found)) == (415, "media-type")


@pytest.mark.parametrize(
    "query",
    [
        "limit=0",
        "limit=-1",
        "limit=1e9",
        "limit=%D9%A1",
        "limit=1&limit=2",
        "state=clean",
        "state=held&state=held",
        "host=",
        "host=a&host=b",
        "like=%25",
        "sort=reason",
        "sort=slot%3bdrop",
        "marker=x",
        "marker=cmp1_",
        "sort=entered_at&marker=cmp1_0000:01:00.0",
        "sort=entered_at&marker=2026-01-01T00:00:00~1",
        "sort=entered_at&marker=2026-01-01T00:00:00Z~1%20or",
        "server=x",
        "model=" + "x" * 300,
    ],
)
def test_questions_that_are_refused(reader: Client, query: str) -> None:
    found = reader.get(f"/v1/slots?{query}")
    if query == "marker=cmp1_":
        assert found.status_code == 200  # behind a place where nothing is
        return
    assert (found.status_code, code(found)) == (400, "schema")


def test_healthcheck_says_what_is_wrong(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(health, "SAME_SECONDS", 0.0)
    client = site.client()
    assert client.get("/healthcheck").status_code == 503
    with site.store() as store:
        store.note_pass("sweep", 60)
    served = client.get("/healthcheck")
    assert (served.status_code, served.json["status"]) == (200, "degraded")
    problems = {one["name"]: one["problem"] for one in served.json["checks"]}
    assert "none has gone well" in problems["placement"]
    assert "none has gone well" in problems["broker"]
    with site.store() as store:
        store.note_pass("placement", 60)
        store.note_pass("broker", 60)
    good = client.get("/healthcheck")
    assert (good.status_code, good.json["status"]) == (200, "ok")
    with site.store() as store, door.writing(store._engine) as db:
        db.execute(sa.update(models.passes).values(at=datetime(2026, 1, 1, tzinfo=UTC)))
    late = client.get("/healthcheck")
    assert late.status_code == 503
    problems = {one["name"]: one["problem"] for one in late.json["checks"]}
    assert problems["database"] == ""
    assert "the last good one was" in problems["sweep"]


def test_a_database_that_is_away(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    """From the first request on, and no word of where it is."""
    record = site.path / "record.db"
    client = site.client().as_user(READER)
    record.rename(site.path / "elsewhere")
    record.mkdir()
    found = client.get("/v1/slots")
    assert (found.status_code, code(found)) == (503, "unavailable")
    assert found.headers["Retry-After"] == "10"
    assert str(site.path) not in found.text
    ill = client.get("/healthcheck")
    assert (ill.status_code, ill.json["status"]) == (503, "failing")
    assert str(site.path) not in ill.text
    assert client.get("/").status_code == 200
    record.rmdir()
    (site.path / "elsewhere").rename(record)
    assert client.get("/v1/slots").status_code == 200


@pytest.mark.parametrize("lacks", ["cloud", "key"])
def test_what_the_control_plane_lacks_is_no_mistake_of_the_caller(
    site: Site, admin: Client, lacks: str
) -> None:
    """He was told that his words were malformed, and where our key lies."""
    with site.store() as store:
        store.put_profile(PROFILE, Initiator("Ada"))
        store.put_policy(Policy(), Initiator("Ada"))
    if lacks == "key":
        (site.path / "controller.pem").unlink()
    found = admin.get(f"/v1/hosts/cmp3/enrolment?profile={PROFILE.name}")
    assert (found.status_code, code(found)) == (503, "unavailable")
    assert "nothing was decided" in found.text
    for told in ("no-such-cloud", "clouds.yaml", str(site.path)):
        assert told not in found.text


def test_a_fault_of_ours_tells_nothing(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    from quarantine.operations import slots

    def fail(*_words: object, **_named: object) -> None:
        raise RuntimeError("password=hunter2")

    monkeypatch.setattr(slots, "page", fail)
    found = site.client().as_user(READER).get("/v1/slots")
    assert (found.status_code, code(found)) == (500, "unexpected")
    assert "hunter2" not in found.text


def test_users_are_read_again(site: Site) -> None:
    client = site.client()
    assert client.as_user(READER).get("/v1/slots").status_code == 200
    users = site.path / "users"
    users.write_text(users.read_text().splitlines()[0] + "\n")
    assert client.as_user(READER).get("/v1/slots").status_code == 401
    assert client.as_user(ADMIN).get("/v1/slots").status_code == 200
    users.unlink()
    assert client.as_user(ADMIN).get("/v1/slots").status_code == 503


def test_users_without_good_digests_are_told_at_the_start(tmp_path: Path) -> None:
    site = Site(tmp_path)
    (tmp_path / "users").write_text("ada:plain\n")
    with pytest.raises(BadInputError, match="line 1: expected NAME:DIGEST"):
        site.client()


def test_in_a_lab_everybody_is_an_administrator(tmp_path: Path) -> None:
    client = Site(tmp_path, strategy="noauth").client()
    path = f"/v1/slots/{NAMES[0]}"
    tag = client.get(path).headers["ETag"]
    assert client.ask("POST", f"{path}/hold", {"reason": "x"}, If_Match=tag).status_code == 200


def test_the_policy_of_a_file_counts(tmp_path: Path) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text('"nvme_quarantine:slots:list": "!"\n')
    site = Site(tmp_path, options=f"[oslo_policy]\npolicy_file = {policy}\n")
    admin = site.client().as_user(ADMIN)
    assert admin.get("/v1/slots").status_code == 403
    assert admin.get(f"/v1/slots/{NAMES[0]}").status_code == 200


def test_the_module_for_servers_needs_no_eventlet_and_no_paste(site: Site) -> None:
    program = (
        "import sys\nimport quarantine.wsgi.api as api\nassert callable(api.application)\n"
        "print([m for m in ('eventlet', 'paste.deploy', 'greenlet') if m in sys.modules])"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env={"NVME_QUARANTINE_CONFIG": str(site.file), "PATH": "/usr/bin"},
        cwd=Path(__file__).parents[4],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    assert done.stdout.strip() in ("[]", "['greenlet']")  # SQLAlchemy's, where it is installed
