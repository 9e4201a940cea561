"""The cloud whose Placement holds the drives."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "placement",
    title="Access to Placement",
    help="""
The control plane needs a service user that may read providers and write allocations, inventories
and the reshaper (placement:reshaper:reshape; by default the role 'service' may). Hosts never get
these credentials.

The microversion is fixed in the software (1.39), because behaviour is tested with that one.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "cloud",
        default="nvme-quarantine",
        help="""
Name of the cloud in clouds.yaml, which openstacksdk looks for in the working directory (where only
root and we ourselves can write to it), in ~/.config/openstack and in /etc/openstack. Passwords and
certificates belong there, not here.

When to change: when your clouds.yaml names it otherwise.
""",
    ),
    cfg.StrOpt(
        "region",
        default=None,
        help="""
Region whose Placement endpoint is taken from the catalogue. One control plane serves one region.

When to set it: when the cloud has more than one region and clouds.yaml does not choose.
""",
    ),
    cfg.FloatOpt(
        "request_timeout",
        default=30.0,
        min=1.0,
        max=600.0,
        help="""
Seconds to wait for one answer of Placement. After that the answer is unknown: nothing is decided,
and the slot is read again on the next round.

When to raise it: with tens of thousands of providers on a slow database (listing 80,000 providers
took 3.4 s on one thread with SQLite). When to lower it: behind a load balancer that gives up
sooner, so that the log says why.

Related: [detection]list_interval.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
