"""What of the configuration the numbers rest on."""

from __future__ import annotations

from dataclasses import dataclass

from oslo_config.cfg import ConfigOpts

from quarantine.conf.capacity import SoldFlavor, sold


@dataclass(frozen=True)
class MetricsLimits:
    """Times are seconds."""

    silent_after: float
    overdue_after: float
    flavors: tuple[SoldFlavor, ...]

    @classmethod
    def from_conf(cls, conf: ConfigOpts) -> MetricsLimits:
        """From the groups ``capacity``, ``detection`` and ``erase``."""
        return cls(
            silent_after=conf.detection.silent_after,
            overdue_after=conf.erase.overdue_after,
            flavors=sold(conf.capacity.flavors),
        )
