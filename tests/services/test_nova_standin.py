"""The stand-in for Nova asks Placement what the real Nova asks: held against a recording of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tests.lab.services.nova_standin import NovaStandIn
from tests.lab.services.placement import PlacementServer
from tests.lab.services.recorder import SAMPLE, Recorder, decisive

pytestmark = pytest.mark.services

FIRST, SECOND = "0000:81:00.0", "0000:82:00.0"


@dataclass
class Stage:
    """The stand-in on a Placement of its own, and what was heard of it so far."""

    recorder: Recorder
    nova: NovaStandIn
    heard: dict[str, list[str]] = field(default_factory=dict)

    def hear(self, what: str, *servers: str) -> None:
        """All that was asked since the last time belongs to this."""
        self.heard[what] = decisive(self.recorder.shapes(*servers))
        self.recorder.start()


@pytest.fixture
def stage(tmp_path: Path) -> Iterator[Stage]:
    with (
        PlacementServer(tmp_path / "placement") as server,
        Recorder(server.port) as recorder,
    ):
        yield Stage(recorder, NovaStandIn(recorder.url))


def play_on_one_host(stage: Stage) -> None:
    nova = stage.nova
    nova.start_compute("cmp1", [FIRST])
    stage.hear("start")
    server = nova.boot()
    stage.hear("boot", server.uuid)
    nova.delete(server)
    stage.hear("delete", server.uuid)
    nova.start_compute("cmp1", [])
    stage.hear("vanish")
    nova.start_compute("cmp1", [FIRST])
    stage.recorder.start()
    server = nova.fail_spawn()
    stage.hear("fail_spawn", server.uuid)
    nova.start_compute("cmp1", [FIRST, SECOND])
    server = nova.boot()
    stage.recorder.start()
    nova.local_delete(server)
    stage.hear("local_delete", server.uuid)


def play_two_drives(stage: Stage) -> None:
    nova = stage.nova
    nova.start_compute("cmp2", [FIRST, SECOND])
    stage.recorder.start()
    server = nova.boot(2)
    stage.hear("boot_two_drives", server.uuid)
    nova.delete(server, reclaim=True)
    stage.hear("reclaim", server.uuid)


def play_on_two_hosts(stage: Stage) -> None:
    nova = stage.nova
    for host in ("cmp3", "cmp4"):
        nova.start_compute(host, [FIRST, SECOND])
    server = nova.boot()
    stage.recorder.start()
    migration = nova.migrate(server)
    stage.hear("migrate", server.uuid)
    nova.confirm(migration)
    stage.hear("confirm", server.uuid)
    migration = nova.migrate(migration.target)
    stage.recorder.start()
    server = nova.revert(migration)
    stage.hear("revert", server.uuid)
    nova.delete(server)
    stage.hear("shelve_offload", server.uuid)


def test_the_stand_in_asks_what_nova_34_asks(stage: Stage) -> None:
    play_on_one_host(stage)
    play_two_drives(stage)
    play_on_two_hosts(stage)
    recorded = json.loads(SAMPLE.read_text())
    assert stage.heard.keys() == recorded.keys()
    for what, asked in recorded.items():
        assert stage.heard[what] == asked, what
