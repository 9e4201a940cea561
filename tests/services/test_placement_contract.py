"""The real Placement, asked what the simulated one promises, and in step with it."""

from __future__ import annotations

import itertools

import pytest

from tests.lab.services.placement import PlacementServer
from tests.lab.services.placement_http import PlacementHttp
from tests.site.contract import Ask, PlacementContract, walk
from tests.site.placement import Placement

pytestmark = pytest.mark.services

_NUMBER = itertools.count(1)


class TestReal(PlacementContract):
    @pytest.fixture
    def ask(self, placement_server: PlacementServer) -> Ask:
        return PlacementHttp(placement_server.url)

    @pytest.fixture
    def name(self) -> str:
        return f"contract{next(_NUMBER)}"


@pytest.mark.parametrize("seed", range(4))
def test_random_requests_in_step(placement_server: PlacementServer, seed: int) -> None:
    real = PlacementHttp(placement_server.url)
    assert list(walk((real, Placement()), f"walk{seed}", seed, steps=40)) == []
