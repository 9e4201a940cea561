"""Real services for the tests here; the Placement server is shared, everything else is not."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.record.store import Store
from quarantine.rules.action import ServiceLimits
from tests.lab.services.faults import FaultProxy
from tests.lab.services.placement import PlacementServer, write_clouds_yaml
from tests.lab.services.redis import RedisServer
from tests.services.pool import Pool
from tests.services.server_suite import Server
from tests.site.served import SimulatedPlacementServer


@pytest.fixture(scope="session")
def placement_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlacementServer]:
    """A real Placement API."""
    with PlacementServer(tmp_path_factory.mktemp("placement")) as server:
        yield server


@pytest.fixture(scope="session")
def simulated_placement() -> Iterator[SimulatedPlacementServer]:
    """The simulated Placement, which answers in a fraction of the real one's time."""
    with SimulatedPlacementServer() as server:
        yield server


@pytest.fixture
def placement(placement_server: PlacementServer) -> PlacementServer:
    """The Placement of ``pool``. A module that takes ``EITHER`` has fixtures of this name."""
    return placement_server


@pytest.fixture
def pool(
    placement: PlacementServer | SimulatedPlacementServer,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pool]:
    """One slot in a cloud of its own; our requests to Placement pass the fault proxy."""
    with FaultProxy(placement.port) as proxy:
        clouds = write_clouds_yaml(tmp_path / "clouds.yaml", proxy.url)
        monkeypatch.setenv("OS_CLIENT_CONFIG_FILE", str(clouds))
        pool = Pool(placement.url, proxy, tmp_path, ServiceLimits())
        yield pool
        pool.close()


@pytest.fixture(scope="module")
def migrated(server: Server) -> str:
    """A database of the module's server with this release's schema: migrations take seconds."""
    url = server.new_database("record")
    store = Store.open(url)
    store.migrate()
    store.close()
    return url


@pytest.fixture
def redis_server(tmp_path: Path) -> Iterator[RedisServer]:
    """A real redis-server."""
    with RedisServer(tmp_path / "redis") as server:
        yield server
