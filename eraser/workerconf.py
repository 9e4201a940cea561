"""Options of ``nvme-eraser worker``, read with oslo.config from one file per host."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from oslo_config import cfg

from eraser.wire import options

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

When to change: always in production. Use rediss:// (TLS) and one ACL user per host; see the
operator guide for the ACL rule that keeps a host to its own queue.
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
    cfg.IntOpt(
        "max_running",
        default=8,
        min=1,
        max=256,
        help="""
How many drives are erased at once on this host; further orders wait in the state directory, the
oldest first, and their progress says for what.

When to lower it: when many drives of one host, erasing at once, exceed its power or cooling. When
to raise it: with more than eight drives and power to spare; drives erase independently.
""",
    ),
    cfg.FloatOpt(
        "thermal_pause",
        default=1800.0,
        min=0.0,
        max=86400.0,
        help="""
While a drive that is being sanitized says that it is at its warning temperature (WCTEMP) or above,
no other one is started on this host, for so many seconds in a row at the most; then one is. What
runs goes on: a sanitize cannot be paused. 0 turns this off.

When to raise it: where drives of one host heat each other up. When to turn it off: with drives that
always call themselves too warm.
""",
    ),
    cfg.StrOpt(
        "pause_file",
        default="/run/nvme-quarantine/pause",
        help="""
While this file exists, no erase is started on this host; its first line is shown to whoever waits.
It is for what this program cannot see: the power budget of a rack, a cooling fault, maintenance.

When to change: when your monitoring writes elsewhere.
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
        default=1.0,
        min=0.1,
        max=60.0,
        help="""
Seconds between two progress messages of one case at the most. Only people read them.

When to raise it: with thousands of drives in quarantine at once.
""",
    ),
    cfg.IntOpt(
        "visibility_timeout",
        default=3600,
        min=60,
        help="""
Seconds after which Redis hands an unacknowledged message out again. Every task ends in well under
a second, so a redelivery only happens after a worker died. The smallest value of all programs on
one Redis wins.

When to change: only together with [broker]visibility_timeout of the control plane.
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
    visibility_timeout: int
    thermal_pause: float = 0.0
    pause_file: Path | None = None


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
        max_running=values.max_running,
        thermal_pause=values.thermal_pause,
        pause_file=Path(values.pause_file),
        hello_interval=values.hello_interval,
        progress_interval=values.progress_interval,
        visibility_timeout=values.visibility_timeout,
    )
