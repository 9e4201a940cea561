"""The simulated Placement keeps what the real one promises (``tests/services`` asks that)."""

from __future__ import annotations

import pytest

from tests.site.contract import Ask, PlacementContract
from tests.site.placement import Placement


class TestSimulated(PlacementContract):
    @pytest.fixture
    def ask(self) -> Ask:
        return Placement()

    @pytest.fixture
    def name(self) -> str:
        return "cmp1"
