"""How the service itself runs."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "run",
    title="The control plane service",
    help="""
Read by nvme-quarantine run, which holds the reconcile loop and, beside it, the worker that takes
messages from hosts.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "worker",
        default=True,
        help="""
Whether nvme-quarantine run starts the worker that takes reports, progress and bells from hosts.

When to switch off: when the worker runs as a service of its own, on this host or another one with
the same database.
""",
    ),
    cfg.FloatOpt(
        "stop_timeout",
        default=20.0,
        min=1.0,
        max=600.0,
        help="""
Seconds that the worker gets to finish its message when the service stops, before it is killed.
Killing it loses nothing: the message comes again.

When to change: hardly ever; keep it below the time your service manager allows for a stop.
""",
    ),
    cfg.StrOpt(
        "log_level",
        default="INFO",
        choices=["DEBUG", "INFO", "WARNING", "ERROR"],
        help="""
How much is logged. Refused messages and held slots are logged at WARNING and above.

When to change: DEBUG for a short time, to see every look at Placement.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
