"""Fixtures of the tests of the tenant's role: the collection as it is shipped, and instances."""

from __future__ import annotations

import subprocess
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.lab.guest import build
from tests.lab.guest.payload import REPOSITORY
from tests.lab.rack import Rack
from tests.tenants.instance import Instance, environment

_RACK = pytest.StashKey[Rack]()
_FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs Ansible, and most of it the tenant's guest."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("tenants")


@pytest.fixture(scope="session")
def images() -> build.Images:
    """Everything that guests start from; built on first use."""
    return build.ensure()


@pytest.fixture(scope="session")
def collections(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the collection is installed, from the file that ``ansible-galaxy`` built."""
    directory = tmp_path_factory.mktemp("collections")
    (directory / "ansible.cfg").touch()
    galaxy = ["ansible-galaxy", "collection"]
    run = {"check": True, "env": environment(directory), "cwd": REPOSITORY / "ansible"}
    subprocess.run([*galaxy, "build", "--output-path", str(directory)], **run)  # type: ignore[call-overload]
    (built,) = directory.glob("*.tar.gz")
    subprocess.run([*galaxy, "install", str(built), "-p", str(directory)], **run)  # type: ignore[call-overload]
    return directory


@pytest.fixture
def rack(images: build.Images, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rack]:
    """An empty rack."""
    directory = tmp_path / "rack"
    with Rack(directory, images) as empty:
        request.node.stash[_RACK] = empty
        yield empty
    if not request.node.stash.get(_FAILED, False):
        empty.discard()


@pytest.fixture
def instance(rack: Rack, collections: Path, tmp_path: Path) -> Iterator[Instance]:
    """A tenant's instance, not started yet: say how many drives it has."""
    with Instance(rack, collections, tmp_path) as made:
        yield made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On failure add the consoles, QEMU's messages and the drives' command logs to the report."""
    report = yield
    rack = item.stash.get(_RACK, None)
    if report.failed and rack is not None:
        item.stash[_FAILED] = True
        report.sections.append(("rack", f"everything is kept in {rack.directory}"))
        report.sections.extend(rack.diagnostics())
    return report
