"""Fixtures of the tests with a real libvirtd, and what to show when one of them fails."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.lab.guest import build
from tests.lab.rack import Rack
from tests.libvirt.host import Host

_HOST = pytest.StashKey[Host]()
_FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this directory needs the guest with libvirtd."""
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("libvirt")


@pytest.fixture(scope="session")
def images() -> build.Images:
    """Everything that guests start from; built on first use."""
    return build.ensure()


@pytest.fixture(scope="module")
def host(
    images: build.Images, tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Host]:
    """One compute host that a module's tests share. ``DRIVES`` of the module says how many."""
    directory = tmp_path_factory.mktemp("rack")
    with Rack(directory, images) as rack:
        made = Host.make(rack, getattr(request.module, "DRIVES", 2))
        request.node.stash[_HOST] = made
        yield made
        # An account that lacks what its owner asks for is as wrong as any other failure.
        assert made.control.broker.denials() == []
    if not request.node.stash.get(_FAILED, False):
        rack.discard()


@pytest.fixture(autouse=True)
def mended(host: Host) -> Iterator[None]:
    """The next test finds no domains and quick drives."""
    yield
    host.mend()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On failure add libvirtd's log, the consoles and the drives' command logs to the report."""
    report = yield
    module = item.getparent(pytest.Module)
    host = module.stash.get(_HOST, None) if module is not None else None
    if report.failed and module is not None and host is not None:
        module.stash[_FAILED] = True
        report.sections.append(("rack", f"everything is kept in {host.rack.directory}"))
        report.sections.extend(host.diagnostics())
    return report
