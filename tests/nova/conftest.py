"""Tests on the real Nova run in the environment of ``tools/nova-env``; elsewhere they are skipped.

Nova has to be told before its first import to use native threads: under eventlet a request to our
own HTTP server on loopback hangs.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.services.placement import PlacementServer
from tests.nova import leaks, leaktable

if importlib.util.find_spec("nova") is None:
    collect_ignore_glob = ["test_*.py"]
else:
    # Before 34 the harness itself is at home under eventlet only (the tests of the patch).
    threads = int(importlib.metadata.version("nova").split(".")[0]) >= 34
    os.environ.setdefault("OS_NOVA_DISABLE_EVENTLET_PATCHING", str(threads).lower())
    # The first of Nova's modules: this is where it chooses.
    importlib.import_module("nova.tests.functional")


@pytest.fixture(scope="session")
def placement_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacementServer]:
    """A real Placement API as a process of its own, shared by all tests of one worker."""
    with PlacementServer(tmp_path_factory.mktemp("placement")) as server:
        yield server


@pytest.fixture(autouse=True)
def _lend_to_test_case(request: pytest.FixtureRequest) -> None:
    """Nova's test cases are unittest's: what they use of ours is put on the instance."""
    if hasattr(request.cls, "WANTS_PLACEMENT"):
        server = request.getfixturevalue("placement_server")
        directory: Path = request.getfixturevalue("tmp_path")
        request.instance.placement_server = server
        request.instance.directory = directory


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A leak's test that failed must not count with what it saw before."""
    test = report.nodeid.rpartition("::")[2]
    if report.failed and leaks.side_of(test):
        leaks.record(test, leaktable.FAILED)
