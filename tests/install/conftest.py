"""Two bare machines, Redis with TLS and accounts, and the guide followed from block to block."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.install.operator import CONTROL, HOST, REDIS, Operator
from tests.lab.bare import image, offered
from tests.lab.bare.guest import MACHINE, BareGuest, Cable
from tests.lab.errors import LabError
from tests.lab.guest import build
from tests.lab.guest.machine import short_directory
from tests.lab.rack import Rack
from tests.lab.services import certificate
from tests.lab.services.nova_api_standin import NovaApiStandIn
from tests.lab.services.placement import PlacementServer, write_clouds_yaml

ADDRESSES = {CONTROL: "192.0.2.1", HOST: "192.0.2.2"}
_CLOUD = pytest.StashKey["Cloud"]()


@dataclass
class Cloud:
    """What an operator has before the first step: machines, drives, Placement, Nova's API."""

    rack: Rack
    control: Operator
    host: Operator
    clouds_yaml: str
    certificate: bytes
    """Redis' own, with its key: both machines know it as an authority's."""


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Everything in this directory boots bare guests, and is run only where ``-m`` names it."""
    here = Path(__file__).parent
    ours = [item for item in items if here in item.path.parents]
    for item in ours:
        item.add_marker("install")
    if "install" not in config.option.markexpr and ours:
        items[:] = [item for item in items if item not in ours]
        config.hook.pytest_deselected(items=ours)


@pytest.fixture(scope="session")
def cloud(
    tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest
) -> Iterator[Cloud]:
    """Both machines as Debian's installation left them; the drives are in the compute host."""
    directory = tmp_path_factory.mktemp("install")
    images = build.ensure()
    bare = image.ensure(images.cache)
    own = offered.project(directory)
    wheels = [offered.dependencies(images.cache), offered.nova(images.cache)]
    disk = offered.disk(bare, wheels, directory)
    pem = certificate.write(directory / "redis.pem", REDIS).read_bytes()
    with ExitStack() as held:
        placement = held.enter_context(PlacementServer(directory / "placement"))
        nova = held.enter_context(NovaApiStandIn())
        rack = held.enter_context(Rack(directory / "rack", images))
        short = short_directory()
        cable = Cable(short / "cable")
        guests = [
            BareGuest(images, bare, name, address, directory / name, short / name.split(".")[0])
            for name, address in ADDRESSES.items()
        ]
        for guest in guests:
            held.callback(guest.power_cut)
        drives = [rack.drive(slot, host=HOST, size=64 << 20) for slot in (0, 1)]
        text = write_clouds_yaml(directory / "clouds.yaml", placement.url, nova.url).read_text()
        control, host = map(Operator, guests)
        made = Cloud(rack, control, host, text.replace("127.0.0.1", MACHINE), pem)
        request.session.stash[_CLOUD] = made
        guests[0].plug_in(disk, cable)
        guests[1].plug_in(disk, cable)
        with ThreadPoolExecutor(2) as pool:
            for _ in pool.map(BareGuest.settle, guests):
                pass
        for guest in guests:
            guest.put(f"/root/{own.name}", own.read_bytes())
            names = f"{ADDRESSES[CONTROL]} {REDIS}\n127.0.0.1 localhost {guest.name}\n"
            guest.put("/etc/hosts", names)
            guest.put("/usr/local/share/ca-certificates/redis.crt", public(pem))
            guest.sh("update-ca-certificates", timeout=600)
        for drive in drives:
            guests[1].plug_drive(drive)
        yield made


def public(pem: bytes) -> bytes:
    """A certificate without its key."""
    _key, marker, rest = pem.partition(b"-----BEGIN CERTIFICATE-----")
    return marker + rest


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """On failure add the consoles, the journals and the lines typed so far to the report."""
    report = yield
    cloud = item.session.stash.get(_CLOUD, None)
    if report.failed and cloud is not None:
        for operator in (cloud.control, cloud.host):
            guest = operator.guest
            report.sections.append((f"typed at {guest.name}", "\n".join(operator.typed)))
            report.sections.append((f"console of {guest.name}", guest.console_tail()))
            if guest.is_on:
                try:
                    report.sections.append((f"journal of {guest.name}", guest.journal()))
                except LabError as error:
                    report.sections.append((guest.name, f"cannot be asked: {error}"))
    return report
