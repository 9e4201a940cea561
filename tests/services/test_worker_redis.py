"""The host's worker as it runs: a real process, a real Redis; the control plane is the test."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.agent import bell
from eraser.agent.hoststate import CONTROLLER_FILE, HostState, keygen
from eraser.protocol import codec
from eraser.protocol.inbound import BOUNDS, MessageKind, key
from eraser.protocol.report import HELLO_TYPE, Hello
from eraser.protocol.ticket import Defence
from eraser.protocol.transport.messaging import CONTROL, host_queue, make_app, queue_of
from eraser.protocol.transport.signing import PrivateKey, verify
from quarantine.service.issue import brokeracl
from tests.lab.services.broker import Broker
from tests.lab.services.process import wait_until

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
HOST = "cmp1"


@dataclass
class WorkerProcess:
    """``nvme-eraser worker`` and what it wrote."""

    directory: Path
    redis: Broker
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.directory / "worker.log").read_text(errors="replace")

    def send(self, task: str, *arguments: str) -> None:
        """A message as the control plane sends one."""
        app = make_app(self.redis.url_for(brokeracl.CONTROL), CONTROL)
        app.send_task(task, args=arguments, queue=queue_of(host_queue(HOST)), retry=False)
        app.close()

    def hellos(self) -> list[Hello]:
        """The hellos that are kept, oldest first."""
        public = HostState(self.directory / "state").key.public
        return [
            codec.load(Hello, verify(token, public, HELLO_TYPE, "hello"), "hello")
            for token in self.received(MessageKind.HELLO)
        ]

    def received(self, kind: MessageKind) -> list[str]:
        """What the host's list of one kind holds, oldest first."""
        with contextlib.closing(self.redis.as_()) as client:
            return [str(each, "ascii") for each in client.lrange(key(kind, HOST), 0, -1)]


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[Broker]:
    """Nobody may do more there than in production, and nobody needs to."""
    with Broker(tmp_path / "redis", [HOST]) as server:
        yield server
        assert server.denials() == []


@pytest.fixture
def worker(broker: Broker, tmp_path: Path) -> Iterator[WorkerProcess]:
    """Ready, and nobody has ordered anything."""
    state = tmp_path / "state"
    keygen(state, HOST)
    controller = PrivateKey.generate().public.jwk()
    (state / CONTROLLER_FILE).write_bytes(codec.canonical(controller))
    conf = tmp_path / "worker.conf"
    conf.write_text(
        f"[worker]\nbroker = {broker.url_for(HOST)}\nstate_dir = {state}\n"
        f"run_dir = {tmp_path}/run\nhello_interval = 1\n"
    )
    argv = [sys.executable, "-m", "tests.lab.services.worker_main", str(conf)]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, stdout=log, stderr=log
        )
    made = WorkerProcess(tmp_path, broker, process)
    try:
        wait_until(lambda: f"worker of {HOST} ready" in made.log, "the worker to be ready", 60)
        yield made
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(30)


def test_the_worker_outlives_what_is_no_message(worker: WorkerProcess) -> None:
    """Who may push onto a host's queue must not be able to end its worker."""
    no_body = {
        "body": "!",
        "content-type": "application/json",
        "content-encoding": "utf-8",
        "headers": {"task": "eraser.order", "id": "x", "lang": "py"},
        "properties": {"delivery_tag": "1", "delivery_info": {}, "body_encoding": "base64"},
    }
    pickled = {**no_body, "content-type": "application/x-python-serialize", "body": "gAQ="}
    odd = [b"not json", b"\xff\xfe", b"{}", b"[1]"]
    odd += [json.dumps(each).encode() for each in (no_body, pickled)]
    with contextlib.closing(worker.redis.as_()) as client:
        for each in odd:
            client.lpush(host_queue(HOST), each)
    worker.send("eraser.order", "no order")
    wait_until(lambda: "refused: order" in worker.log, "the order behind it all to be read", 30)
    assert worker.process.poll() is None
    # Celery itself refuses the last one.
    assert worker.log.count("is no message, dropped") == len(odd) - 1
    assert "Refusing to deserialize" in worker.log


def test_hellos_tell_of_the_gate(worker: WorkerProcess) -> None:
    wait_until(lambda: bool(worker.hellos()), "a hello", 30)
    gate = worker.hellos()[0].gate
    assert gate is not None
    assert [seen.defence for seen in gate.defences] == list(Defence)


def test_hellos_that_nobody_takes_do_not_pile_up(worker: WorkerProcess) -> None:
    wait_until(lambda: bool(worker.hellos()), "a hello", 30)
    last = worker.hellos()[-1].sequence
    wait_until(lambda: worker.hellos()[-1].sequence >= last + 3, "some more", 30)
    assert len(worker.hellos()) <= BOUNDS[MessageKind.HELLO].keep
    with contextlib.closing(worker.redis.as_()) as client:
        assert client.ttl(key(MessageKind.HELLO, HOST)) > 0, "a host that is gone leaves none"


def test_a_bell_is_passed_on(worker: WorkerProcess) -> None:
    run_dir = worker.directory / "run"
    wait_until((run_dir / bell.SOCKET).exists, "the bell", 30)
    bell.ring(run_dir, ["0000:81:00.0"])
    wait_until(lambda: bool(worker.received(MessageKind.BELL)), "the bell to be passed on", 30)
    assert worker.received(MessageKind.BELL) == ["0000:81:00.0"]
