"""What a host must have before one of its drives is offered."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "gate",
    title="The hosts' last gate",
    help="""
Placement knows addresses, not drives. A drive that was swapped, used elsewhere or freed by hand is
noticed on its host as a guest is about to start: libvirt's hook asks nvme-eraser, and that lets a
guest start only on a drive for which it has a ticket. A ticket is good once, for one drive in one
slot, unwritten since its certificate.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.BoolOpt(
        "required",
        default=True,
        help="""
Whether a certified slot is given back only after its host has acknowledged the ticket for it. A
slot on offer whose ticket is void is taken out of the pool and erased again.

When to switch off: for a time, while the gate is being installed on hosts that do not have it yet.
No tickets are sent then, so a host that has the hook refuses every guest, and on one without it a
drive that was swapped or written to after its certificate is handed to the next tenant unnoticed.
When it is switched on, whatever was given back without a ticket is erased again.
""",
    ),
]


def register_opts(conf: cfg.ConfigOpts) -> None:
    """Registers the group on ``conf``."""
    conf.register_group(GROUP)
    conf.register_opts(OPTIONS, group=GROUP)


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
