"""The listener on oslo.messaging's in-process bus, and its bell through a real Redis."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import oslo_messaging as messaging
import pytest
from oslo_config import cfg

from eraser.wire.inbound import CONTROL_BELLS
from eraser.wire.messaging import Door
from quarantine.celeryapp import make_app
from quarantine.listener import Ears, Ringer, connect
from quarantine.listenerbells import Bells
from quarantine.listenerhints import Hint
from quarantine.lists import Lists
from tests.lab.services.process import free_port, wait_until
from tests.lab.services.redis import RedisServer

pytestmark = pytest.mark.services

SERVER = "11111111-1111-4111-8111-111111111111"
URL = "fake://"
ROOT = Path(__file__).resolve().parents[2]


def options(**changes: Any) -> SimpleNamespace:
    """The group of the configuration, with its defaults."""
    given = {
        "transport_url": URL,
        "messaging_file": None,
        "topics": ["versioned_notifications"],
        "exchange": "nova",
        "pool": "nvme-quarantine",
    }
    return SimpleNamespace(**(given | changes))


Notify = Callable[..., None]


@pytest.fixture
def notify(tmp_path: Path) -> Iterator[Notify]:
    """Sends as Nova does: a notifier with a publisher, the versioned topic, its exchange."""
    nova = tmp_path / "nova.conf"
    nova.write_text("[DEFAULT]\ncontrol_exchange = nova\n")
    conf = cfg.ConfigOpts()
    conf(args=[], default_config_files=[str(nova)], default_config_dirs=[])
    transport = messaging.get_notification_transport(conf, url=URL)

    def send(event: str, priority: str = "info", host: str = "cmp1", uuid: str = SERVER) -> None:
        notifier = messaging.Notifier(
            transport,
            f"nova-compute:{host}",
            driver="messaging",
            topics=["versioned_notifications"],
        )
        data = {"nova_object.data": {"host": host, "node": host, "uuid": uuid}}
        getattr(notifier, priority)({}, event, data)

    yield send
    transport.cleanup()


class Listening:
    """A listener and what it heard."""

    def __init__(self, **changes: Any) -> None:
        self.heard: list[Hint] = []
        self._server = connect(options(**changes), Ears(self.heard.append))

    def __enter__(self) -> Listening:
        self._server.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.stop()
        self._server.wait()


def test_failures_come_with_another_priority_and_are_heard(notify: Notify) -> None:
    with Listening() as listening:
        notify("instance.delete.end")
        notify("instance.create.error", "error", "cmp2")
        wait_until(lambda: len(listening.heard) >= 4, "both to be heard", 20)
    assert {hint.host for hint in listening.heard} == {"cmp1", "cmp2", ""}


def test_nothing_is_taken_from_others_and_a_pool_shares_the_work(notify: Notify) -> None:
    with Listening(pool="somebody-else") as other, Listening() as one, Listening() as two:
        for number in range(20):
            notify("instance.delete.end", host=f"cmp{number}")
        wait_until(lambda: len(other.heard) == 40, "the other to get all", 20)
        wait_until(lambda: len(one.heard) + len(two.heard) == 40, "ours to share theirs", 20)
        time.sleep(0.3)
        assert len(one.heard) + len(two.heard) == 40


def test_another_topic_is_not_ours(notify: Notify) -> None:
    with Listening(topics=["mine"]) as listening:
        notify("instance.delete.end")
        time.sleep(0.5)
    assert listening.heard == []


def test_a_bell_goes_through_redis_as_the_worker_takes_it(
    notify: Notify, redis_server: RedisServer, tmp_path: Path
) -> None:
    app = make_app(redis_server.url, timeout=2.0)
    ringer = Ringer(Bells(quiet=1, settle=60), Lists(Door(app)).ring, rate=100)
    thread = threading.Thread(target=ringer.run)
    thread.start()
    server = connect(options(), Ears(ringer.ask))
    server.start()
    try:
        for _ in range(30):
            notify("instance.delete.end")
        with redis_server.client() as client:
            wait_until(lambda: client.llen(CONTROL_BELLS) == 2, "the bells to be rung", 20)
            time.sleep(0.5)
            got = [json.loads(each) for each in client.lrange(CONTROL_BELLS, 0, -1)]
    finally:
        server.stop()
        server.wait()
        ringer.stop()
        thread.join(10)
        app.close()
    assert sorted(map(str, got)) == [str({"host": "cmp1"}), str({"server": SERVER})]


def test_a_bus_that_is_away_is_tried_again_and_the_service_stops_when_told(tmp_path: Path) -> None:
    conf, log = tmp_path / "q.conf", tmp_path / "log"
    conf.write_text(
        f"[notifications]\ntransport_url = rabbit://guest:secret@127.0.0.1:{free_port()}/\n"
    )
    argv = [sys.executable, "-m", "quarantine.cli", "--config-file", str(conf), "listener"]
    with log.open("wb") as out:
        service = subprocess.Popen(argv, cwd=ROOT, stdout=out, stderr=out)
    try:
        wait_until(lambda: log.read_text().count("Connection refused") > 1, "a second try")
        service.terminate()
        assert service.wait(60) == 0
    finally:
        service.kill()
    assert "secret" not in log.read_text()
