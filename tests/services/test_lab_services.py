"""What the lab's services promise to other tests: one address over kills, and real faults."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from tests.lab.errors import LabError
from tests.lab.services.faults import Fault, FaultProxy, Kind
from tests.lab.services.nova_standin import RESOURCE_CLASS, NoValidHostError, NovaStandIn
from tests.lab.services.placement import PlacementServer
from tests.lab.services.placement_http import PlacementHttp
from tests.lab.services.process import ServiceProcess, wait_until
from tests.lab.services.redis import RedisServer

pytestmark = pytest.mark.services


def test_redis_comes_back_on_its_port_and_empty(redis_server: RedisServer) -> None:
    with redis_server.client() as client:
        client.set("key", "value")
    pid = redis_server.pid
    redis_server.kill()
    with redis_server.client() as client, pytest.raises(redis.ConnectionError):
        client.ping()
    redis_server.start()
    assert redis_server.pid != pid
    with redis_server.client() as client:
        assert client.get("key") is None


def test_a_paused_redis_does_not_answer(redis_server: RedisServer) -> None:
    redis_server.pause()
    once = Retry(NoBackoff(), 0)
    client = redis.Redis("127.0.0.1", redis_server.port, socket_timeout=0.5, protocol=2, retry=once)
    with client, pytest.raises(redis.TimeoutError):
        client.ping()
    redis_server.resume()
    with redis_server.client() as again:
        assert again.ping()


def test_a_service_that_ends_at_once_says_why(tmp_path: Path) -> None:
    service = ServiceProcess(
        "liar", ["sh", "-c", "echo no such luck; exit 3"], tmp_path / "log", bool
    )
    with pytest.raises(LabError, match="ended with 3: no such luck"):
        service.start()
    with pytest.raises(LabError):
        _ = service.pid


def test_a_service_whose_readiness_cannot_be_asked_is_ended(tmp_path: Path) -> None:
    def ready() -> bool:
        started.append(service.pid)
        raise RuntimeError("who asks?")

    started: list[int] = []
    service = ServiceProcess("sleeper", ["sleep", "1000"], tmp_path / "log", ready)
    with pytest.raises(RuntimeError, match="who asks"):
        service.start()
    with pytest.raises(ProcessLookupError):
        os.kill(started[0], 0)


def test_nothing_is_waited_for_without_end() -> None:
    with pytest.raises(LabError, match="expected a miracle"):
        wait_until(lambda: False, "a miracle", seconds=0.05)


def test_placement_keeps_its_data_over_a_kill(tmp_path: Path) -> None:
    with PlacementServer(tmp_path / "placement") as server:
        http = PlacementHttp(server.url)
        assert http("POST", "/resource_providers", "1.20", {"name": "cmp"}).status == 200
        server.kill()
        with pytest.raises(OSError, match="refused"):
            http("GET", "/", "1.39")
        server.start()
        found = http("GET", "/resource_providers?name=cmp", "1.39").body["resource_providers"]
        assert [p["name"] for p in found] == ["cmp"]


def test_placement_takes_many_writers_at_once(placement_server: PlacementServer) -> None:
    http = PlacementHttp(placement_server.url)
    names = [f"CUSTOM_CROWD_{number}" for number in range(16)]

    def write(name: str) -> set[int]:
        put = [http("PUT", f"/traits/{name}_{turn}", "1.39").status for turn in range(8)]
        made = http("POST", "/resource_providers", "1.20", {"name": name})
        uuid, generation = made.body["uuid"], made.body["generation"]
        body = {"resource_provider_generation": generation, "traits": [f"{name}_0"]}
        traits = http("PUT", f"/resource_providers/{uuid}/traits", "1.39", body)
        return {*put, made.status, traits.status}

    with ThreadPoolExecutor(len(names)) as pool:
        assert set().union(*pool.map(write, names)) == {200, 201}


def test_the_proxy_spoils_only_what_it_was_told_to(placement_server: PlacementServer) -> None:
    with FaultProxy(placement_server.port) as proxy:
        http = PlacementHttp(proxy.url)
        proxy.inject(Fault(Kind.STATUS, "GET", "/traits", status=503, left=1))
        assert http("GET", "/resource_classes", "1.39").status == 200
        assert http("GET", "/traits", "1.39").status == 503
        assert http("GET", "/traits", "1.39").status == 200
        proxy.inject(Fault(Kind.CLOSE, "PUT", after=True))
        with pytest.raises(OSError, match="closed"):
            http("PUT", "/resource_classes/CUSTOM_PROXY", "1.7")
        proxy.heal()
        assert http("GET", "/resource_classes/CUSTOM_PROXY", "1.7").status == 200
        assert ("PUT", "/resource_classes/CUSTOM_PROXY") in proxy.changes()


def test_the_stand_in_gives_two_drives_of_one_host_and_no_burned_one(
    placement_server: PlacementServer,
) -> None:
    nova = NovaStandIn(placement_server.url, f"{RESOURCE_CLASS}_PAIR")
    nova.start_compute("pair", ["0000:81:00.0", "0000:82:00.0"])
    server = nova.boot(2)
    assert server.addresses == ("0000:81:00.0", "0000:82:00.0")
    assert nova.provider("pair", "0000:82:00.0") == server.providers[1]
    nova.delete(server)
    with pytest.raises(NoValidHostError):
        nova.boot(1)
