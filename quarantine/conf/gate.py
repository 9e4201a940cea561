"""What a host must have before one of its drives is offered."""

from __future__ import annotations

from oslo_config import cfg, types

from eraser.protocol.ticket import Defence

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
Of a use that Nova did not reserve the drive for, only Placement's generations tell then.
When it is switched on, whatever was given back without a ticket is erased again, on each host as
soon as that says something of its gate.

Related: required_defences.
""",
    ),
    cfg.ListOpt(
        "required_defences",
        default=["hook", "loaded", "patch"],
        item_type=types.String(choices=[str(defence) for defence in Defence]),
        help="""
What a host must have before one of its drives is offered: hook (our file in libvirt's qemu.d),
loaded (the running libvirt calls it), patch (the running nova-compute makes new providers reserved
from birth), rules (host-setup), watcher. The host says with each hello how they stand. While one is
missing no drive of the host is given back, and where it says that one is absent those on offer are
reserved and erased again, since a guest may have started past the gate. What is not in the list is
only reported.

When to change: leave patch out where no patch exists for your Nova release, and know that a drive
whose provider is made anew is on offer until the next look. Add watcher and rules where every host
has them. Has no effect without required.

Related: required.
""",
    ),
    cfg.FloatOpt(
        "unknown_grace",
        default=300.0,
        min=0.0,
        max=86400.0,
        help="""
Seconds for which a host may be unable to say how a required defence stands before an operator is
alarmed. After each start of nova-compute its patch is unknown for about a minute. No drive of the
host is given back meanwhile, whatever this says; what is plainly absent is alarmed at once.

When to raise it: where hosts take longer, after a start, to say that all is well.

Related: required_defences.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
