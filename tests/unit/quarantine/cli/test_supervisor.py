"""The worker beside the service: whatever happens to it, another one is started."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest

from quarantine.cli.commands import service
from quarantine.cli.commands.service import Supervisor


def test_a_worker_that_cannot_be_started_is_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """As while the machine has no process left, or its interpreter is being replaced."""
    monkeypatch.setattr(service, "RESTART_SECONDS", (0.01,))
    program, sign = tmp_path / "worker", tmp_path / "ran"
    supervisor = Supervisor([str(program)], stop_timeout=10)
    end = time.monotonic() + 30
    with caplog.at_level(logging.INFO):
        supervisor.start()
        while "cannot be started" not in caplog.text and time.monotonic() < end:
            time.sleep(0.01)
        script = tmp_path / "script"
        script.write_text(f"#!/bin/sh\ntouch {sign}\nexec sleep 60\n")
        script.chmod(0o700)
        script.rename(program)
        while not sign.exists() and time.monotonic() < end:
            time.sleep(0.01)
        supervisor.stop()
    assert sign.exists()
    assert "No such file" in caplog.text
