"""The host's worker as it runs: a real process, a real Redis; the control plane is the test."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from eraser import bell
from eraser.hoststate import CONTROLLER_FILE, HostState, keygen
from eraser.wire import codec
from eraser.wire.messaging import CONTROL_QUEUE, host_queue, make_app
from eraser.wire.report import HELLO_TYPE, Hello
from eraser.wire.signing import PrivateKey, verify
from eraser.wire.ticket import Defence
from tests.lab.services.process import wait_until
from tests.lab.services.redis import RedisServer

pytestmark = pytest.mark.services

ROOT = Path(__file__).resolve().parents[2]
HOST = "cmp1"


@dataclass
class WorkerProcess:
    """``nvme-eraser worker`` and what it wrote."""

    directory: Path
    redis: RedisServer
    process: subprocess.Popen[bytes]

    @property
    def log(self) -> str:
        return (self.directory / "worker.log").read_text(errors="replace")

    def send(self, task: str, *arguments: str) -> None:
        """A message as the control plane sends one."""
        app = make_app(self.redis.url, CONTROL_QUEUE)
        app.send_task(task, args=arguments, queue=host_queue(HOST), retry=False)
        app.close()

    def hellos(self) -> list[Hello]:
        """Every hello on the control plane's queue, oldest first."""
        key = HostState(self.directory / "state").key.public
        return [
            codec.load(Hello, verify(token, key, HELLO_TYPE, "hello"), "hello")
            for token in self.received("hello")
        ]

    def received(self, task: str) -> list[Any]:
        """The argument of each message of one kind on the control plane's queue, oldest first."""
        with contextlib.closing(self.redis.client()) as client:
            entries = client.lrange(CONTROL_QUEUE, 0, -1)
        assert isinstance(entries, list)
        found = []
        for entry in reversed(entries):
            message = json.loads(entry)
            if message["headers"]["task"] == f"quarantine.{task}":
                (argument,), _kwargs, _embed = json.loads(base64.b64decode(message["body"]))
                found.append(argument)
        return found


@pytest.fixture
def worker(redis_server: RedisServer, tmp_path: Path) -> Iterator[WorkerProcess]:
    """Ready, and nobody has ordered anything."""
    state = tmp_path / "state"
    keygen(state, HOST)
    controller = PrivateKey.generate().public.jwk()
    (state / CONTROLLER_FILE).write_bytes(codec.canonical(controller))
    conf = tmp_path / "worker.conf"
    conf.write_text(
        f"[worker]\nbroker = {redis_server.url}\nstate_dir = {state}\n"
        f"run_dir = {tmp_path}/run\nhello_interval = 1\n"
    )
    argv = [sys.executable, "-m", "eraser.cli", "worker", "--config-file", str(conf)]
    with (tmp_path / "worker.log").open("wb") as log:
        process = subprocess.Popen(
            argv, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=tmp_path, stdout=log, stderr=log
        )
    made = WorkerProcess(tmp_path, redis_server, process)
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
    with contextlib.closing(worker.redis.client()) as client:
        for each in odd:
            client.lpush(host_queue(HOST), each)
    worker.send("eraser.order", "no order")
    wait_until(lambda: "refused: order" in worker.log, "the order behind it all to be read", 30)
    assert worker.process.poll() is None
    assert worker.log.count("is no message, dropped") == len(odd)


def test_hellos_tell_of_the_gate(worker: WorkerProcess) -> None:
    wait_until(lambda: bool(worker.hellos()), "a hello", 30)
    gate = worker.hellos()[0].gate
    assert gate is not None
    assert [seen.defence for seen in gate.defences] == list(Defence)


def test_a_bell_is_passed_on(worker: WorkerProcess) -> None:
    run_dir = worker.directory / "run"
    wait_until((run_dir / bell.SOCKET).exists, "the bell", 30)
    bell.ring(run_dir, ["0000:81:00.0"])
    wait_until(lambda: bool(worker.received("bell")), "the bell to be passed on", 30)
    assert worker.received("bell") == [{"host": HOST, "address": "0000:81:00.0"}]
