"""The transition systems by their configurations."""

from __future__ import annotations

from typing import Any

from tests.model import house, meter, protocol
from tests.model.parts import Parts
from tests.model.system import System

AnyConfig = protocol.Config | house.Config | meter.Config


def made(config: AnyConfig, parts: Parts | None = None) -> System[Any]:
    """The system that a configuration is of, with one version of the product's decisions."""
    parts = parts or Parts()
    if isinstance(config, house.Config):
        return house.House(config, parts)
    if isinstance(config, meter.Config):
        return meter.Meter(config, parts)
    return protocol.Protocol(config, parts)
