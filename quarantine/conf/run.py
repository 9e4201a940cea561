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
    cfg.StrOpt(
        "log_format",
        default="line",
        choices=["line", "json"],
        help="""
How an event is logged: as a line for people, or as an object with the members of oslo.log's JSON
formatter, the ids of request and order in "extra".

When to change: json where a collector reads the log.
""",
    ),
    cfg.StrOpt(
        "audit_file",
        default="",
        help="""
A file that gets a line for each act of people, also for one that was refused: who, of what project,
by what request, and how it ended. Requests of nobody who is known are in the log alone. The API,
its page and the commands of this host write to it; it may be rotated. Where it cannot be opened
what they are asked to do is refused, and nothing is done; the service itself does not need it.
Whoever begins it, it has the mode 0640, and where that is root it belongs to whom its directory
belongs: make that the service's user. It may be /dev/stdout, a pipe or a symbolic link; root
follows a link, and writes to a pipe, only in a directory that root alone writes to, and a link only
where it is root's. Empty: these lines are in the log alone, those of commands nowhere.

When to set: where an auditor asks for it; on a disk that nobody else fills. What was decided and
why is in the slots' histories too.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
