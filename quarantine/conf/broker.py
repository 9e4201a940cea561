"""The Redis that rings between hosts and control plane."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "broker",
    title="The message broker",
    help="""
Redis carries orders to hosts and reports back. It is a doorbell, never a record: losing it delays
work and loses nothing.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "url",
        default="redis://127.0.0.1:6379/0",
        secret=True,
        help="""
URL of the Redis that the hosts use too.

When to change: always in production. Use rediss:// (TLS) with the account that 'nvme-quarantine
broker acl' makes for the control plane; see the operator guide.

Related: [worker]broker in the configuration of each host.
""",
    ),
    cfg.FloatOpt(
        "timeout",
        default=5.0,
        min=0.1,
        max=60.0,
        help="""
Seconds to wait for Redis to connect or answer. While Redis is away, orders stay in the record and
go out on a later round.

When to raise it: when Redis is far away and logs show timeouts while it is healthy. When to lower
it: hardly ever; a dead Redis delays each round by about this long.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
