"""Nova's notifications, for whoever runs the listener."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "notifications",
    title="Nova's versioned notifications",
    help="""
Read by nvme-quarantine listener alone, which hears on Nova's message bus that an instance may have
let go of its drives, and rings the bell of the control plane. It needs the extra "listener"
(oslo.messaging). Nothing depends on it: losing every notification costs the bound of [detection].

In nova.conf of every service: [notifications]notification_format = versioned (or both) and
[oslo_messaging_notifications]driver = messagingv2.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "transport_url",
        default=None,
        secret=True,
        help="""
URL of the bus that Nova sends notifications to, such as rabbit://USER:PASSWORD@HOST:5671/VHOST.
Give the user read access to its own queue and to Nova's exchange only; it never publishes.

When to set it: wherever the listener runs, unless messaging_file has it.

Related: messaging_file.
""",
    ),
    cfg.StrOpt(
        "messaging_file",
        default=None,
        help="""
A configuration file with the groups of oslo.messaging, as in nova.conf: TLS, durable or quorum
queues, heartbeats ([oslo_messaging_rabbit]). What it says of queues and exchanges must be what Nova
says, or RabbitMQ refuses to declare them. nova.conf itself may be named: its other groups are not
looked at.

When to set it: when Nova's bus uses TLS, amqp_durable_queues or rabbit_quorum_queue.
""",
    ),
    cfg.ListOpt(
        "topics",
        default=["versioned_notifications"],
        help="""
Topics that are listened to.

When to change: when [notifications]versioned_notifications_topics of nova.conf was changed.
""",
    ),
    cfg.StrOpt(
        "exchange",
        default="nova",
        help="""
The exchange that Nova publishes to.

When to change: when control_exchange of nova.conf was changed.
""",
    ),
    cfg.StrOpt(
        "pool",
        default="nvme-quarantine",
        help="""
Name of our own queue, which gets a copy of each notification: nothing is taken from other consumers
of the topic (Ceilometer and others). Several listeners with one pool share the work. The queue
outlives a listener that is stopped, and grows: let a policy of RabbitMQ expire what is older than a
few minutes, see the operator guide.

When to change: when two control planes listen to one Nova. Empty means no queue of our own: then we
take the topic's own messages, which is right only where nobody else does.
""",
    ),
    cfg.FloatOpt(
        "quiet",
        default=2.0,
        min=0.1,
        max=300.0,
        help="""
Seconds between two bells for the same host or the same instance, however many notifications speak
of it. The first one rings at once.

When to raise it: when looks at one host take longer than this.
""",
    ),
    cfg.FloatOpt(
        "settle",
        default=5.0,
        min=0.1,
        max=300.0,
        help="""
Seconds after the last notification about a host or an instance until it rings once more. Nova says
that a resize is confirmed, or that a build failed, before it lets go of the drives in Placement.

When to raise it: when releases after a resize are only seen by the turn (the history shows it).
""",
    ),
    cfg.FloatOpt(
        "rate",
        default=20.0,
        min=0.1,
        max=1000.0,
        help="""
Bells in a second, at most. One for a host without our drives costs the control plane a query of its
own database, one for a host with eight drives some tens of requests to Placement.

When to lower it: when a storm of notifications keeps the control plane from reading reports.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
