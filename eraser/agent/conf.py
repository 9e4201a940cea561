"""Options of ``nvme-eraser worker``, read with oslo.config from one file per host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from eraser.protocol.transport import options

GROUP = cfg.OptGroup(
    "worker",
    title="The erase worker of one compute host",
    help="Read by 'nvme-eraser worker'. The host's name and key are in state_dir, made by keygen.",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "broker",
        default="redis://127.0.0.1:6379/0",
        secret=True,
        help="""
URL of the Redis that carries orders and reports. It is a doorbell, never a record: losing it delays
work and loses nothing.

When to change: always in production. Use rediss:// (TLS) with the account that 'nvme-quarantine
broker acl' made for this host; see the operator guide.
""",
    ),
    cfg.StrOpt(
        "state_dir",
        default="/var/lib/nvme-eraser",
        help="""
Directory of the host's key, incarnation, journals and reports. It must be on a disk that survives a
reboot: a host that lost it is a new incarnation and every order given to the old one is void.

When to change: when /var is not persistent on this host.
""",
    ),
    cfg.StrOpt(
        "run_dir",
        default="/run/nvme-quarantine",
        help="""
Directory of the slot locks, shared by the worker, the stand-alone eraser and the gate. All of them
must use the same one, else they do not see each other.

When to change: do not, outside tests.
""",
    ),
    cfg.StrOpt(
        "bell_group",
        default="nova",
        help="""
Group whose members may ring this host's bell (run_dir/bell.sock), besides root: that of
nova-compute, whose patch rings as soon as a drive is let go. A bell says where to look and nothing
else; a host without the group hears root alone.

When to change: where nova-compute runs as another group. When to empty it: where nova-compute does
not see run_dir, as in a container without that mount; releases are seen by the regular look then.
""",
    ),
    cfg.IntOpt(
        "max_running",
        default=8,
        min=1,
        max=256,
        help="""
How many drives are erased at once on this host; further orders wait in the state directory, the
oldest first, and their progress says for what.

When to lower it: when many drives of one host, erasing at once, exceed its power or cooling. When
to raise it: with more than eight drives and power to spare; drives erase independently. The unit's
MemoryMax has to be 64 MiB, and 32 MiB for each, at least (as shipped: enough for 24); the worker
does not start with less.
""",
    ),
    cfg.StrOpt(
        "pause_file",
        default="/run/nvme-quarantine/pause",
        help="""
While this file exists, no erase is started on this host; its first line is shown to whoever waits.
It is for what this program cannot see: the power budget of a rack, a cooling fault, maintenance.

When to change: when your monitoring writes elsewhere. When to empty it: where nothing may pause.
""",
    ),
    cfg.FloatOpt(
        "hello_interval",
        default=60.0,
        min=1.0,
        max=3600.0,
        help="""
Seconds between two messages that tell the control plane which drives are in this host's slots.

When to lower it: to have swapped drives noticed sooner. When to raise it: with thousands of hosts.
""",
    ),
    cfg.FloatOpt(
        "progress_interval",
        default=15.0,
        min=0.1,
        max=60.0,
        help="""
Seconds between two progress messages of one case; a new step is told at once. Only people read
them, and the control plane writes each of them to its database.

When to lower it: to watch a few drives closely. When to raise it: with thousands of drives in
quarantine at once.
""",
    ),
    cfg.IntOpt(
        "keep_reports",
        default=365,
        min=1,
        max=36500,
        help="""
Days for which this host keeps its copy of a report. The control plane has every report beside its
certificate, and the newest one of each slot stays here in any case.

When to raise it: where people look reports up on hosts, or erase by hand and keep no copies. When
to lower it: on small disks with many releases a day; a report has some 10 to 100 kB.
""",
    ),
]


@dataclass(frozen=True)
class WorkerSettings:
    """The options, typed."""

    broker: str
    state_dir: Path
    run_dir: Path
    max_running: int
    hello_interval: float
    progress_interval: float
    pause_file: Path | None = None
    keep_reports: int = 365
    bell_group: str = ""


def list_opts() -> options.Options:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]


def load(files: Sequence[Path]) -> WorkerSettings:
    """Reads the files, later ones winning. Raises ``BadInputError`` with one line."""
    values = options.load(list_opts(), files, "nvme-eraser").worker
    return WorkerSettings(
        broker=values.broker,
        state_dir=Path(values.state_dir),
        run_dir=Path(values.run_dir),
        bell_group=values.bell_group,
        max_running=values.max_running,
        # An empty path would be the working directory, which is always there.
        pause_file=Path(values.pause_file) if values.pause_file else None,
        keep_reports=values.keep_reports,
        hello_interval=values.hello_interval,
        progress_interval=values.progress_interval,
    )
