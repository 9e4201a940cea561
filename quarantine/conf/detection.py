"""How soon a release is noticed."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "detection",
    title="Noticing that a slot was released",
    help="""
Deleting a server does not change the generation of its drive's provider, so a look at generations
alone cannot see it: slots in use are read one by one, in turn. Bells only shorten the wait; nothing
depends on them. The worst case without any bell is about in_use_reread plus sweep_interval plus one
round; the control plane computes and shows it.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.FloatOpt(
        "sweep_interval",
        default=15.0,
        min=0.1,
        max=3600.0,
        help="""
Seconds between two rounds over the slots. A round reads the slots that are due: those with work to
do, those whose provider changed, and the next share of those in use.

When to lower it: for a shorter worst case in a small cloud. When to raise it: when rounds take
longer than this; the log says so.

Related: in_use_reread, which must not be smaller.
""",
    ),
    cfg.FloatOpt(
        "in_use_reread",
        default=240.0,
        min=0.1,
        max=86400.0,
        help="""
Each slot in use is read at least once in this many seconds, oldest look first, spread over the
rounds. One look costs Placement a few requests of about 10 ms.

When to lower it: when drives must return to the pool sooner and bells are not installed. When to
raise it: with tens of thousands of slots in use, to spare Placement: 20,000 slots at 240 seconds
are 83 looks a second.
""",
    ),
    cfg.FloatOpt(
        "list_interval",
        default=60.0,
        min=0.1,
        max=86400.0,
        help="""
Seconds between two listings of all one-time-use providers. The listing finds providers whose
generation moved, that vanished, that came back under another uuid, and slots that nobody enrolled.
It is one request, large in a large cloud (80,000 providers: 62 MiB).

When to lower it: in a small cloud, to notice an operator's mistake sooner. When to raise it: in a
very large one.
""",
    ),
    cfg.FloatOpt(
        "safety_interval",
        default=10.0,
        min=0.1,
        max=3600.0,
        help="""
Seconds between two safety passes: each asks Placement what it would hand out now, and reserves what
has no right to that. They run in a thread of their own and wait for nothing else. The control plane
computes from this and from measured passes how long a dirty drive may stand on offer at worst, logs
it, and alarms when no pass was good for so long. A pass that takes longer than this is followed by
a pause as long as itself.

When to lower it: where operators or other software change reservations often. When to raise it: in
a very large cloud, where the list of what is on offer is megabytes.

Related: [placement]request_timeout.
""",
    ),
    cfg.FloatOpt(
        "silent_after",
        default=420.0,
        min=1.0,
        max=2592000.0,
        help="""
Seconds without a word from a host, after which an operator is alarmed once about it, where it has
open cases or drives on offer; 'slot list' and 'slot show' say it too. Hosts speak about once a
minute ([worker]hello_interval there), so this is some missed hellos. What such a host
said of its devices counts no more (a device of a class that nobody enrolled is reserved then). Very
many silent hosts at once are one alarm: the broker, or the control plane's worker.

When to raise it: where hello_interval was raised (four times of it at least, or a host may be
called silent as an outage of the broker ends), or hosts take longer to reboot. When to lower it:
hardly ever; a broker that restarts should not be heard of.

Related: [erase]overdue_after, for hosts on which nothing waits.
""",
    ),
    cfg.FloatOpt(
        "longest_maintenance",
        default=604800.0,
        min=60.0,
        max=31536000.0,
        help="""
Seconds that a maintenance of a host or a slot may last at most. Until its end, which whoever begins
it has to name, nobody is called because the host is silent, its slots are absent, or a slot there
takes no step. Nothing else changes by it.

When to raise it: where hosts wait for parts for longer; what is forgotten there is then seen later.
Instead, a maintenance can be given another end at any time.
""",
    ),
    cfg.FloatOpt(
        "absent_after",
        default=900.0,
        min=0.0,
        max=2592000.0,
        help="""
Seconds that slots are absent from Placement before an operator is alarmed, once for each host:
drives that are gone, no longer in device_spec, or of a compute service that was deleted. Nothing
else follows, for what Placement does not show is not on offer; what comes back is judged then. That
very many vanish at once is not believed, changes nothing, and is alarmed at once.

When to raise it: where hosts take longer to start, or are often rebuilt.
""",
    ),
    cfg.BoolOpt(
        "bells",
        default=True,
        help="""
Whether messages that a host or its hooks send on a release cause an immediate look at that host's
slots. A bell is never believed, it only says where to look first.

When to switch off: to measure detection without bells, or when a broken host rings without end.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
