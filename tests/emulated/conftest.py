"""Fixtures of the tests that need the emulated rack, and what to show when one of them fails."""

import contextlib
import shutil
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from eraser.protocol.policy import Policy
from tests.lab.guest import build
from tests.lab.rack import Rack
from tests.lab.rack.shell import Reached, serve
from tests.lab.site import DEFAULT_POLICY, Site

_RACK = pytest.StashKey[Rack]()
_SITE = pytest.StashKey[Site]()
_FAILED = pytest.StashKey[bool]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in this directory needs the rack. Nobody is hurried who looks at a guest.

    What guests do has limits of its own, wide ones; with setting up, several of them make a test.
    """
    here = Path(__file__).parent
    for item in items:
        if here in item.path.parents:
            item.add_marker("emulated")
            item.add_marker(pytest.mark.timeout(1800))
            if config.getoption("keep", default=False):
                item.add_marker(pytest.mark.timeout(0), append=False)


def keep(rack: Rack, node: pytest.Item | pytest.Collector) -> None:
    """Waits, where it was asked for and a test failed, until somebody has looked at the guests."""
    guests: dict[str, Reached] = {guest.name: guest for guest in rack.guests if guest.is_on}
    if not (
        node.config.getoption("keep", default=False) and node.stash.get(_FAILED, False) and guests
    ):
        return
    with node.config.pluginmanager.getplugin("capturemanager").global_and_fixture_disabled():
        print(f"\n{node.nodeid} failed; its guests are kept: {', '.join(sorted(guests))}")
        print(f"  tools/shell --attach {rack.directory}")
        print("They end when you leave that shell, or with Ctrl-C here.", flush=True)
        with contextlib.suppress(KeyboardInterrupt):
            serve(guests, rack.directory, rack.short)


@pytest.fixture(scope="session")
def images() -> build.Images:
    """Everything that guests start from; built on first use."""
    return build.ensure()


@pytest.fixture
def rack(images: build.Images, tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Rack]:
    """An empty rack: make drives first, then the compute host they are in."""
    directory = tmp_path / "rack"
    with Rack(directory, images) as empty:
        request.node.stash[_RACK] = empty
        yield empty
        keep(empty, request.node)
    if not request.node.stash.get(_FAILED, False):
        empty.discard()


@pytest.fixture(scope="module")
def policy() -> Policy:
    """What a module's site asks for; a module that wants something else has its own."""
    return DEFAULT_POLICY


@pytest.fixture(scope="module")
def site(
    images: build.Images,
    policy: Policy,
    tmp_path_factory: pytest.TempPathFactory,
    request: pytest.FixtureRequest,
) -> Iterator[Site]:
    """A site that a module's tests share: make drives and hosts, and start it, before use."""
    directory = tmp_path_factory.mktemp("site")
    with (
        Rack(directory / "rack", images) as rack,
        Site(directory / "services", rack, policy=policy) as empty,
    ):
        request.node.stash[_SITE] = empty
        yield empty
        keep(rack, request.node)
    if not request.node.stash.get(_FAILED, False):
        shutil.rmtree(directory)


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
    module = item.getparent(pytest.Module)
    site = module.stash.get(_SITE, None) if module is not None else None
    if report.failed and module is not None and site is not None:
        module.stash[_FAILED] = True
        report.sections.append(("site", f"everything is kept in {site.directory.parent}"))
        report.sections.extend(site.rack.diagnostics())
        report.sections.extend(site.diagnostics())
    return report
