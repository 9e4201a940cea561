"""The accounts of the broker on a real Redis: what a host may do, and what a rooted one may not."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from eraser.protocol.identity import Slot
from eraser.protocol.inbound import MessageKind, key
from eraser.protocol.transport.messaging import BrokerRedis, host_queue, make_app
from quarantine.service.inbound import intake
from quarantine.service.inbound.lists import Lists
from quarantine.service.issue import brokeracl, celery_app
from tests.lab.services.broker import Broker

pytestmark = pytest.mark.services

HOST, OTHER, NASTY = "cmp1", "cmp2", "cmp1.example.org"
"""The last one's keys begin as the first one's do."""

TOKEN = "a-signed-token"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    """With nothing in it."""
    with Broker(tmp_path_factory.mktemp("redis"), [HOST, OTHER, NASTY]) as server:
        yield server


@pytest.fixture
def broker(server: Broker) -> Broker:
    """Everybody has said everything once, and an order waits for each."""
    with server.as_() as admin:
        admin.flushall()
        admin.acl_log_reset()
    for host in (HOST, OTHER, NASTY):
        with make_app(server.url_for(host), host_queue(host)) as app:
            for kind in MessageKind:
                BrokerRedis(app).push(kind, host, TOKEN)
    with celery_app.make_app(server.url_for(brokeracl.CONTROL)) as app:
        post = celery_app.CeleryPost(app)
        for host in (HOST, OTHER, NASTY):
            post(host, "order")
    return server


def test_what_each_needs_is_allowed(broker: Broker) -> None:
    assert broker.denials() == []
    with celery_app.make_app(broker.url_for(brokeracl.CONTROL)) as app:
        lists = Lists(BrokerRedis(app))
        keys = [key(kind, host) for kind in MessageKind for host in (HOST, OTHER, NASTY, "nobody")]
        assert lists.full(keys) == [each for each in keys if not each.endswith("nobody")]
        name = key(MessageKind.REPORT, HOST)
        assert lists.length(name) == 1
        entry = lists.head(name)
        assert entry == lists.tail(name)
        assert entry is not None
        lists.cut(name, 5, oldest=True)
        lists.remove(name, entry)
        assert lists.length(name) == 0
        lists.drop(name)
    with broker.as_(HOST) as host:
        assert host.brpop([host_queue(HOST)], timeout=1) is not None
    assert broker.denials() == []


Try = Callable[[redis.Redis], Any]

FORBIDDEN: dict[str, Try] = {
    "take another's report": lambda r: r.rpop(key(MessageKind.REPORT, OTHER)),
    "read another's report": lambda r: r.lrange(key(MessageKind.REPORT, OTHER), 0, -1),
    "read its own report": lambda r: r.lrange(key(MessageKind.REPORT, HOST), 0, -1),
    "count another's reports": lambda r: r.llen(key(MessageKind.REPORT, OTHER)),
    "cut another's reports": lambda r: r.ltrim(key(MessageKind.REPORT, OTHER), 1, 0),
    "let another's reports expire": lambda r: r.expire(key(MessageKind.REPORT, OTHER), 1),
    "speak for another": lambda r: r.rpush(key(MessageKind.BELL, OTHER), ""),
    "order another to do something": lambda r: r.lpush(host_queue(OTHER), "x"),
    "order one whose name begins alike": lambda r: r.lpush(host_queue(NASTY), "x"),
    "take another's orders": lambda r: r.brpop([host_queue(OTHER)], timeout=1),
    "take orders of one whose name begins alike": lambda r: r.brpop([host_queue(NASTY)], 1),
    "make its list a text": lambda r: r.set(key(MessageKind.REPORT, HOST), "x"),
    "make its queue a text": lambda r: r.set(host_queue(HOST), "x"),
    "speak on the queue of earlier releases": lambda r: r.lpush("quarantine", "x"),
    "bind a queue to another's": lambda r: r.sadd("_kombu.binding.eraser.cmp2", "x"),
    "run a script": lambda r: r.eval("return 1", 0),
    "load a script": lambda r: r.script_load("return 1"),
    "list keys": lambda r: r.keys("*"),
    "publish": lambda r: r.publish("x", "y"),
    "listen to everything": lambda r: r.execute_command("MONITOR"),
    "flush": lambda r: r.flushall(),
    "configure": lambda r: r.config_get("*"),
    "see who is there": lambda r: r.client_list(),
    "make an account": lambda r: r.acl_setuser("x", enabled=True),
}


def test_what_a_rooted_host_may_not_do(broker: Broker) -> None:
    done = []
    with broker.as_(HOST) as host:
        for what, attempt in FORBIDDEN.items():
            try:
                attempt(host)
            except redis.exceptions.NoPermissionError:
                continue
            done.append(what)
    assert done == []


def test_nobody_without_a_name_gets_in(broker: Broker) -> None:
    with broker.client() as client, pytest.raises(redis.AuthenticationError):
        client.ping()
    with broker.client(HOST, "guessed") as client, pytest.raises(redis.AuthenticationError):
        client.ping()


def test_nothing_that_a_host_says_makes_the_control_plane_send(broker: Broker) -> None:
    """Celery would have run what a message asks for next, with the control plane's account."""

    class Inbox:
        """Takes all."""

        unreached: list[Slot] = []  # noqa: RUF012
        is_away = False

        def report(self, token: str, sender: str) -> None: ...
        def receipt(self, token: str, sender: str) -> None: ...
        def hello(self, token: str, sender: str) -> None: ...
        def progress(self, token: str, sender: str) -> None: ...
        def look(self, slot: Slot) -> None: ...
        def bell(self, host: str, address: str | None = None) -> float:
            return 0.0

    with make_app(broker.url_for(HOST), host_queue(HOST)) as rooted:
        order = rooted.signature("eraser.order", args=["x"], queue=host_queue(OTHER))
        message = {
            "headers": {"task": "quarantine.bell"},
            "body": [[{}], {}, {"callbacks": [order]}],
        }
        for kind in MessageKind:
            BrokerRedis(rooted).push(kind, HOST, json.dumps(message))
    with broker.as_() as admin, celery_app.make_app(broker.url_for(brokeracl.CONTROL)) as app:
        waiting = admin.lrange(host_queue(OTHER), 0, -1)
        for kinds in intake.LANES.values():
            lane = intake.Lane(kinds, Inbox(), Lists(BrokerRedis(app)), lambda: [HOST])
            while lane.turn():
                pass
        assert not admin.exists(*(key(kind, HOST) for kind in MessageKind))
        assert admin.lrange(host_queue(OTHER), 0, -1) == waiting
    assert broker.denials() == []


def test_a_key_that_is_no_list_hurts_nobody_else(broker: Broker) -> None:
    """A Redis without accounts, or one whose accounts are another's work."""
    with broker.as_() as admin, celery_app.make_app(broker.url_for(brokeracl.CONTROL)) as app:
        admin.set(key(MessageKind.REPORT, HOST), "no list")
        lists = Lists(BrokerRedis(app))
        assert lists.length(key(MessageKind.REPORT, HOST)) == -1
        assert lists.full([key(MessageKind.REPORT, HOST)]) == [key(MessageKind.REPORT, HOST)]
        lists.drop(key(MessageKind.REPORT, HOST))
        assert lists.full([key(MessageKind.REPORT, HOST)]) == []
