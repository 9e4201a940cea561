"""One cloud for all tests here: its start is most of the time. Each test leaves it as it was."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.daemons.cloud import Cloud

_CLOUD = pytest.StashKey[Cloud]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs the real Nova: tox env daemons."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("daemons")


@pytest.fixture(scope="session")
def _cloud(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cloud]:
    with Cloud(tmp_path_factory.mktemp("cloud")) as cloud:
        request.session.stash[_CLOUD] = cloud
        cloud.wait_all_available()
        yield cloud


@pytest.fixture
def cloud(_cloud: Cloud) -> Iterator[Cloud]:
    """Two hosts with two drives each; all four are in the pool, before and after."""
    yield _cloud
    # A test that failed must not fail those after it.
    for server in _cloud.nova.client.servers():
        # Whoever deleted it does not always wait until it is gone.
        status, _ = _cloud.nova.client.call("DELETE", f"/servers/{server}")
        assert status in (204, 404), f"nova-api answers {status} to the deletion of {server}"
    _cloud.wait_all_available()
    _cloud.audit()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On failure add the logs of every daemon and the histories of the slots."""
    report = yield
    cloud = item.session.stash.get(_CLOUD, None)
    if report.failed and cloud is not None:
        report.sections.append(("cloud", f"its logs are in {cloud.directory}"))
        report.sections.extend(cloud.diagnostics())
    return report
