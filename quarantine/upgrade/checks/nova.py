"""Options of Nova's and Placement's services, each by itself."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from quarantine.upgrade.facts import Facts, NovaConf, Role
from quarantine.upgrade.finding import Check, Finding, FindingLevel, confs, not_given, unknown

_SCHEDULING: Final = (Role.API, Role.SCHEDULER, Role.CONDUCTOR)
_SLOW_REFRESH: Final = 300


def _unreadable(facts: Facts) -> Iterator[Finding]:
    told = [(conf.source, conf.trouble) for conf in facts.confs]
    told += [(conf.source, conf.trouble) for conf in facts.placement_confs]
    for source, trouble in told:
        for words in trouble:
            yield Finding(str(source), words)


def _tracking(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
        elif not conf.report_in_placement:
            yield Finding(str(conf.source), "[pci]report_in_placement is false")


def _scheduling(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, *_SCHEDULING):
        if isinstance(conf, Finding):
            yield conf
        elif not conf.pci_in_placement:
            yield Finding(str(conf.source), "[filter_scheduler]pci_in_placement is false")


def _filters(facts: Facts, name: str) -> Iterator[Finding]:
    for conf in confs(facts, Role.SCHEDULER):
        if isinstance(conf, Finding):
            yield conf
        elif name not in conf.enabled_filters:
            yield Finding(str(conf.source), f"enabled_filters has no {name}")


def _ghosts(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
        elif conf.ghost_action != "reap" or conf.ghost_interval <= 0:
            yield Finding(
                str(conf.source),
                f"running_deleted_instance_action is {conf.ghost_action}, "
                f"running_deleted_instance_poll_interval is {conf.ghost_interval}",
            )


def _soft_delete(facts: Facts) -> Iterator[Finding]:
    times: Counter[int] = Counter()
    given: list[NovaConf] = []
    for conf in confs(facts, Role.API, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
        else:
            given.append(conf)
            times[conf.reclaim_interval] += 1
    if len(times) > 1:
        for conf in given:
            yield Finding(str(conf.source), f"reclaim_instance_interval is {conf.reclaim_interval}")


def _refresh(facts: Facts) -> Iterator[Finding]:
    for conf in confs(facts, Role.COMPUTE):
        if isinstance(conf, Finding):
            yield conf
        elif not 0 < conf.provider_refresh <= _SLOW_REFRESH:
            yield Finding(
                str(conf.source),
                f"[compute]resource_provider_association_refresh is {conf.provider_refresh}",
            )


def _first_tracking(facts: Facts) -> Iterator[Finding]:
    if not facts.of_role(Role.COMPUTE):
        yield not_given(Role.COMPUTE)
        return
    tracked = {provider.slot.host for provider in facts.providers}
    for host in facts.host_names:
        conf = facts.compute_conf(host)
        # Only the restart that begins the tracking can be refused.
        if conf is None or not conf.report_in_placement or host in tracked:
            continue
        if not any(spec.one_time_use for spec in conf.device_specs):
            continue
        if facts.servers is None:
            yield unknown(host, f"Placement does not answer: {facts.placement_trouble}")
        # No server, no PCI device in use: then both may come at once.
        elif facts.servers.get(host, 0):
            yield Finding(
                host,
                f"report_in_placement and one_time_use are both new here, and "
                f"{facts.servers[host]} servers run ({conf.source})",
            )


NOVA_CHECKS: Final = (
    Check(
        "nova-conf-readable",
        "configuration files that their service can read",
        FindingLevel.FAILURE,
        (),
        "The service does not start with such a file, and none of its values is known here.",
        "Correct the file.",
        _unreadable,
    ),
    Check(
        "report-in-placement",
        "nova-compute tracks PCI devices in Placement",
        FindingLevel.FAILURE,
        (21, 22),
        "Without it Placement knows no drive: nothing can be reserved, so a released drive is "
        "handed on as it is. nova-compute refuses to start where one_time_use is set without it.",
        "Set [pci]report_in_placement = true for nova-compute; on a host with servers restart once "
        "before one_time_use is set (see tracking-first).",
        _tracking,
    ),
    Check(
        "pci-in-placement",
        "Nova schedules PCI devices by Placement",
        FindingLevel.FAILURE,
        (21, 25),
        "Without it the scheduler picks drives that are reserved: no server with a one-time-use "
        "drive can start, and one whose drive is only reserved fails late.",
        "Set [filter_scheduler]pci_in_placement = true for nova-api, nova-scheduler and every "
        "nova-conductor, after every nova-compute tracks its devices.",
        _scheduling,
    ),
    Check(
        "pci-filter",
        "the scheduler has the PciPassthroughFilter",
        FindingLevel.FAILURE,
        (),
        "Placement does not replace the filter: without it the scheduler sends servers to hosts "
        "that cannot give them the drives that Placement chose.",
        "Add PciPassthroughFilter to [filter_scheduler]enabled_filters of nova-scheduler.",
        lambda facts: _filters(facts, "PciPassthroughFilter"),
    ),
    Check(
        "numa-filter",
        "the scheduler has the NUMATopologyFilter",
        FindingLevel.WARNING,
        (),
        "Without it an instance may get drives of the other socket: half the throughput, and with "
        "the policy required it fails on the host.",
        "Add NUMATopologyFilter to [filter_scheduler]enabled_filters of nova-scheduler.",
        lambda facts: _filters(facts, "NUMATopologyFilter"),
    ),
    Check(
        "tracking-first",
        "tracking and one-time use are not switched on in one restart",
        FindingLevel.FAILURE,
        (),
        "On a host whose servers have PCI devices, nova-compute without nova_patch does not start: "
        "Placement refuses to make the devices and reserve them at once (ReshapeFailed, 409). With "
        "nova_patch it starts, and the drives in use are reserved without their servers' "
        "allocations (operators.md, 'A lost allocation').",
        "Restart nova-compute with report_in_placement alone, wait until Placement has the "
        "providers, then set one_time_use and restart again.",
        _first_tracking,
        of_slots=True,
    ),
    Check(
        "ghost-cleanup",
        "nova-compute removes guests that were deleted while it was away",
        FindingLevel.WARNING,
        (7, 8),
        "A server that was deleted while its host was down runs on as a ghost with its drive. "
        "Orders for the drive come back as in use until somebody removes the guest.",
        "Leave running_deleted_instance_action at reap and "
        "running_deleted_instance_poll_interval above 0.",
        _ghosts,
    ),
    Check(
        "soft-delete",
        "one reclaim_instance_interval everywhere",
        FindingLevel.WARNING,
        (13,),
        "Where services disagree about it, deleted servers are never reclaimed: their drives stay "
        "in use.",
        "Set the same reclaim_instance_interval for nova-api and every nova-compute.",
        _soft_delete,
    ),
    Check(
        "provider-cache",
        "nova-compute looks at Placement again in time",
        FindingLevel.WARNING,
        (5,),
        "nova-compute puts a reservation back that somebody lowered only when it reads its "
        "providers anew: 0 means never, more than 300 s leaves a longer window.",
        "Leave [compute]resource_provider_association_refresh at 300 seconds or below, not 0.",
        _refresh,
    ),
)
