"""The cloud whose Nova is asked about servers."""

from __future__ import annotations

from oslo_config import cfg

GROUP = cfg.OptGroup(
    "compute",
    title="Access to Nova",
    help="""
Before an erase is ordered Nova is asked whether anything on the host may still use a drive that
Placement calls free: a compute service that is down, a server or an unfinished migration without
its allocation. How late releases are seen is measured by what Nova says of a server's end and last
action. The user needs to list servers of all projects and their actions, services, hypervisors and
migrations, and to see each of those servers and what its flavor asks for. For that it must be an
administrator to Nova (context_is_admin of its policy): rules for lists alone do not show a server
of another project, and it would seem to be gone. The service changes nothing in Nova; only the
command 'flavor create' does.
""",
)

OPTIONS: list[cfg.Opt] = [
    cfg.StrOpt(
        "cloud",
        default=None,
        help="""
Name of the cloud in clouds.yaml. Without it, the one of [placement].

When to set it: when Nova is asked with another user than Placement.

Related: region, [placement]cloud.
""",
    ),
    cfg.StrOpt(
        "region",
        default=None,
        help="""
Region whose compute endpoint is taken from the catalogue. Without it, the one of [placement].

When to set it: with another cloud than [placement]'s, where that has more than one region.
""",
    ),
    cfg.FloatOpt(
        "request_timeout",
        default=30.0,
        min=1.0,
        max=600.0,
        help="""
Seconds to wait for one answer of Nova. A question that is not answered postpones the order.

When to raise it: where lists of a host's servers take longer than that.
""",
    ),
    cfg.BoolOpt(
        "ghost_checks",
        default=True,
        help="""
Whether Nova is asked before an order is sent, and before it is sent again. A host's answers serve
all its slots for some seconds. While something is wrong, or Nova does not answer, the slot waits
and its detail says for what. People are also called for a slot in use by whom Nova has forgotten.

When to switch off: never in production, unless Nova's API cannot be reached from here at all. Then
a guest that runs on after a delete or an evacuation is only noticed by its own host, which refuses
to erase a drive that a libvirt domain names; a drive of a host whose domains were lost is not.
""",
    ),
    cfg.ListOpt(
        "drive_aliases",
        default=["i1-nvme"],
        help="""
The names in [pci]alias of nova.conf by which flavors ask for drives. What a flavor asks for by
these a server must hold in drives, or it counts as one that Placement forgot, and nothing is erased
on its host. What is asked for by other names may be any PCI device that Placement knows.

When to change: where your aliases of drives have other names. One that is left out lets a device of
another kind (of a network port whose physical_network is null, say) stand for a drive whose
allocation was lost. One too many holds up erases on hosts of its servers. "nvme-quarantine upgrade
check" with nova-api's nova.conf names those that are missing.

Related: ghost_checks.
""",
    ),
    cfg.FloatOpt(
        "deleted_interval",
        default=30.0,
        min=0.0,
        max=3600.0,
        help="""
Seconds between two questions for the servers that were deleted since the last one; slots that they
had are looked at first. It is a hint like a bell: losing it costs the bound of [detection], nothing
else. 0 switches it off.

When to lower it: to see deletes sooner where nova-compute does not ring. When to raise it: in
very large clouds, where the list is long.
""",
    ),
]


def list_opts() -> list[tuple[cfg.OptGroup, list[cfg.Opt]]]:
    """For oslo-config-generator."""
    return [(GROUP, OPTIONS)]
