"""Our eraser at work on a scene, with the world's own troubles in the middle of it."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

from benchmarks.zoo.scene import PROFILE, Scene
from tests.lab.errors import GuestError, LabError
from tests.lab.guest.commands import GuestProcess
from tests.lab.nvme.presetkind import Event
from tests.lab.rack import world

_STATE: Final = "/var/lib/nvme-eraser"
_POLICY: Final = "/var/lib/nvme-eraser/policy.json"
HANG_S: Final = 240.0
"""An erase of a drive of 64 MiB that has not ended by then hangs."""
_BACK_S: Final = 60.0
_MID_S: Final = 1.5
"""Seconds into an erase at which the world interferes: the slow drives take six and more."""


@dataclass(frozen=True)
class Answer:
    """What ``nvme-eraser erase -f json`` said, and how long all calls of it took."""

    verdict: str
    fit: bool
    reasons: tuple[str, ...]
    outcome: str
    achieved: str
    resumed: int
    seconds: float
    steps: dict[str, float]
    hung: bool = False

    @property
    def released(self) -> bool:
        """Whether the control plane would hand the drive out."""
        return self.verdict == "erased" and self.fit


def _policy(scene: Scene) -> dict[str, Any]:
    sanitize = scene.preset.profile.sanitize
    can_purge = sanitize.crypto or sanitize.block
    return {
        "name": "zoo",
        # The operator's explicit permission, given for the drives that have no Sanitize at all.
        "allow_clear": not can_purge,
        "verification": {"residual": 0.001, "canaries": 700, "visit": 16, "settle": 0},
        "limits": {"stuck": 5, "poll": 0.1, "command": 10, "format": 60, "ready": 60},
    }


def erase(scene: Scene) -> Answer:
    """Erase, whatever the world does. Raises ``LabError`` where the rack fails."""
    scene.compute.put(_POLICY, json.dumps(_policy(scene)))
    begun = time.monotonic()
    process = scene.compute.spawn(_argv(scene))
    event = scene.preset.event
    if event in (Event.POWER_CUT, Event.KILL, Event.RETURN):
        _wait(lambda: _began(scene), "the drive to be told to erase")
        process = _interfere(scene, process, event)
    try:
        process.wait(HANG_S)
    except GuestError:
        process.kill()
        return _hung(time.monotonic() - begun)
    return _read(process.stdout(), process.stderr(), time.monotonic() - begun)


def _argv(scene: Scene) -> list[str]:
    argv = ["nvme-eraser", "erase", "--pci", scene.address, "--profile", PROFILE]
    return [*argv, "--any-drive", "--policy", _POLICY, "--state-dir", _STATE, "-f", "json"]


def _interfere(scene: Scene, process: GuestProcess, event: Event) -> GuestProcess:
    if event is Event.RETURN:
        _wait(world.Slot(scene.compute, scene.drive).look, "the drive to be pulled and put back")
        process.wait(HANG_S)
    else:
        time.sleep(_MID_S)
        if event is Event.KILL:
            process.signal(9)
            process.wait()
        else:
            scene.rack.power_cut(scene.compute)
            scene.rack.power_on(scene.compute)
    return scene.compute.spawn(_argv(scene))


def _began(scene: Scene) -> bool:
    return bool(scene.destructive())


def _wait(condition: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _BACK_S
    while not condition():
        if time.monotonic() > deadline:
            raise LabError(f"expected {what} within {_BACK_S:g} s")
        time.sleep(0.1)


def _hung(seconds: float) -> Answer:
    return Answer("unknown", False, ("it did not end",), "hang", "", 0, seconds, {}, hung=True)


def _read(stdout: str, stderr: str, seconds: float) -> Answer:
    try:
        found = json.loads(stdout)
    except ValueError:
        # An error before the case began; the message is for people, on stderr.
        return Answer("unknown", False, (stderr.strip()[-300:],), "error", "", 0, seconds, {})
    return Answer(
        verdict=found["verdict"],
        fit=found["fit"],
        reasons=tuple(found["reasons"]),
        outcome=found["outcome"],
        achieved=found["achieved"],
        resumed=found["resumed"],
        seconds=seconds,
        steps=found["seconds"],
    )
