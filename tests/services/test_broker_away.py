"""The broker is away: what can be read is read, and what people decide is not lost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from quarantine.api import application
from quarantine.api.routes import OPERATIONS
from quarantine.operations.papers import keys
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.record.words.facts import Initiator, SlotChanges
from quarantine.record.words.states import Event, State
from tests.lab.services.redis import RedisServer
from tests.services.pool import Pool
from tests.unit.quarantine.api.client import Client
from tests.unit.quarantine.testimony import IDENTITY, POLICY, PROFILE

pytestmark = pytest.mark.services


@dataclass
class Away:
    """A drive on offer, an API, and a broker that died."""

    pool: Pool
    redis: RedisServer
    admin: Client
    slot: str


@pytest.fixture
def away(pool: Pool, redis_server: RedisServer, tmp_path: Path) -> Away:
    pool.make_available()
    store, ada = pool.store, Initiator("ada")
    store.put_profile(replace(PROFILE, name="p"), ada)
    store.put_policy(replace(POLICY, name="q"), ada)
    store.amend(pool.record, SlotChanges(identity=IDENTITY))
    conf = tmp_path / "nvme-quarantine.conf"
    conf.write_text(
        f"[database]\nurl = {pool.database}\n[placement]\ncloud = lab\n"
        f"[broker]\nurl = {redis_server.url}\ntimeout = 1\n"
        "[api]\nauth_strategy = noauth\nallowed_hosts = falconframework.org\n"
        f"[evidence]\nsigning_key = {tmp_path}/controller.pem\n"
        f"certificates_dir = {tmp_path}/certificates\nheads_dir = {tmp_path}/heads\n"
        "[compute]\nghost_checks = false\n"
    )
    keys.create(Plane([conf]))
    redis_server.kill()
    admin = Client(application.make(ServingPlane([conf])), {"X-Auth-Token": "admin"})
    return Away(pool, redis_server, admin, f"{pool.slot.host}_{pool.slot.address.upper()}")


def test_all_that_can_be_read_is_read(away: Away) -> None:
    for operation in OPERATIONS:
        if operation.method == "GET" and operation.path.startswith("/v1"):
            path = operation.path.replace("{slot}", away.slot)
            if "{" not in path and "previews" not in path:
                # Without a maintenance there is none to be shown.
                wanted = 404 if path.endswith("/maintenance") else 200
                assert away.admin.get(path).status_code == wanted, path
    health = away.admin.get("/healthcheck").json
    assert health["status"] != "ok"
    assert any("broker" in str(one) for one in health["checks"]), health


def test_a_decision_is_on_record_and_its_order_is_sent_when_the_broker_is_back(away: Away) -> None:
    """The drive is out of the pool at once: that is Placement's, and needs no broker."""
    one = f"/v1/slots/{away.slot}"
    done = away.admin.ask(
        "POST", f"{one}/erase", {"reason": "odd"}, If_Match=away.admin.get(one).headers["ETag"]
    )
    assert done.status_code == 200, done.json
    assert done.json["unacted"], "the order could not be sent"
    assert away.pool.record.state is State.QUARANTINED
    assert not away.pool.on_offer
    assert Event.ORDERED not in [row.event for row in away.pool.store.history(away.pool.slot)][-2:]
    away.redis.start()
    found = away.admin.ask(
        "POST", f"{one}/hold", {"reason": "x"}, If_Match=away.admin.get(one).headers["ETag"]
    )
    assert (found.status_code, found.json["unacted"]) == (200, "")
    again = away.admin.ask(
        "POST", f"{one}/release", {"reason": "x"}, If_Match=away.admin.get(one).headers["ETag"]
    )
    assert (again.status_code, again.json["unacted"]) == (200, "")
    assert away.pool.record.state is State.ERASING
