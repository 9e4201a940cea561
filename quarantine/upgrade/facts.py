"""What an upgrade check knows when it judges: everything was read before, nothing is read here."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from functools import cached_property
from pathlib import Path

from eraser.protocol.identity import Slot
from eraser.protocol.profile import Profile
from eraser.protocol.report import SeenDrive
from quarantine.cloud.facts import Provider, View
from quarantine.record.words.facts import HostRecord, SlotRecord, UnreadableSlot
from quarantine.upgrade.nova.alias import Alias
from quarantine.upgrade.nova.devicespec import DeviceSpec, PciDevice


class Role(StrEnum):
    """Which service reads a configuration."""

    API = "api"
    SCHEDULER = "scheduler"
    CONDUCTOR = "conductor"
    COMPUTE = "compute"
    ALL = "all"
    """One file for every service of Nova."""
    PLACEMENT = "placement"


@dataclass(frozen=True)
class ConfigSource:
    """One service's files, in the order of its command line. ``host`` None: every host's."""

    role: Role
    host: str | None
    paths: tuple[Path, ...]

    def __str__(self) -> str:
        where = f"{self.role}@{self.host}" if self.host else str(self.role)
        return f"{where} ({', '.join(map(str, self.paths))})"


@dataclass(frozen=True)
class NovaConf:
    """One service's configuration; times in seconds. ``trouble`` is what Nova would refuse."""

    source: ConfigSource
    trouble: tuple[str, ...]
    wrong_specs: tuple[str, ...]
    wrong_aliases: tuple[str, ...]
    device_specs: tuple[DeviceSpec, ...]
    aliases: tuple[Alias, ...]
    report_in_placement: bool
    pci_in_placement: bool
    enabled_filters: frozenset[str]
    provider_refresh: int
    reclaim_interval: int
    ghost_action: str
    ghost_interval: int


@dataclass(frozen=True)
class PlacementConf:
    """Placement's own configuration."""

    source: ConfigSource
    trouble: tuple[str, ...]
    wide_trees: bool
    strategy: str


@dataclass(frozen=True)
class ProviderSeen:
    """A slot's resource provider. ``view`` is None where it vanished while we looked."""

    provider: Provider
    one_time_use: bool
    view: View | None

    @property
    def slot(self) -> Slot:
        """The slot that it stands for."""
        slot = self.provider.slot
        assert slot is not None
        return slot


@dataclass(frozen=True)
class SlotFindings:
    """All that is known about one slot, from whoever knows it."""

    slot: Slot
    device: PciDevice
    record: SlotRecord | None
    seen: SeenDrive | None
    provider: ProviderSeen | None

    @property
    def cared(self) -> bool:
        """Somebody meant it to be one of ours: enrolled, or one-time use in Placement."""
        one_time_use = self.provider is not None and self.provider.one_time_use
        return self.record is not None or one_time_use


@dataclass(frozen=True)
class Facts:
    """``record_trouble`` and ``placement_trouble`` say why nothing is known from there."""

    confs: tuple[NovaConf, ...] = ()
    placement_confs: tuple[PlacementConf, ...] = ()
    asked: frozenset[str] = frozenset()
    """The hosts that the operator asked about; empty: all."""
    slots: tuple[SlotRecord, ...] = ()
    hosts: tuple[HostRecord, ...] = ()
    damaged_slots: tuple[UnreadableSlot, ...] = ()
    """Rows of enrolled slots that cannot be read: they are in ``slots`` no more."""
    damaged_hosts: tuple[str, ...] = ()
    """A line for each registered host whose row, or last hello, cannot be read."""
    registered: frozenset[str] = frozenset()
    """Names of registered hosts, those whose rows cannot be read included."""
    providers: tuple[ProviderSeen, ...] = ()
    servers: Mapping[str, int] | None = None
    """Consumers on the root provider of each compute host that we looked at; None where Placement
    did not answer."""
    silent: Mapping[str, float] | None = None
    """Seconds since each registered host's last word, infinite for one that never spoke, below 0
    for a word that is noted for a time to come."""
    profiles: Mapping[str, Profile] = field(default_factory=dict)
    """The newest version of each that is approved and can be read, by name."""
    policies: frozenset[str] = frozenset()
    nova_release: int | None = None
    placement_release: int | None = None
    now: datetime | None = None
    """Our own time as the record was read."""
    silent_after: float = 900.0
    switched_off: tuple[str, ...] = ()
    """Options of our own by which a defence is not asked for."""
    drive_aliases: frozenset[str] | None = None
    """Our own option; None where Nova is not asked for ghosts."""
    shared_keys: tuple[str, ...] = ()
    """What is signed by a key that signs something else too."""
    record_trouble: str = ""
    placement_trouble: str = ""

    def of_role(self, role: Role) -> tuple[NovaConf, ...]:
        """The configurations that a service of that role reads."""
        return tuple(c for c in self.confs if c.source.role in (role, Role.ALL))

    def compute_conf(self, host: str) -> NovaConf | None:
        """The host's own, else the one of every host."""
        mine = self.of_role(Role.COMPUTE)
        own = next((c for c in mine if c.source.host == host), None)
        return own or next((c for c in mine if c.source.host is None), None)

    @cached_property
    def drives(self) -> tuple[SlotFindings, ...]:
        """Every slot that the record, Placement or a host's last word names."""
        records = {record.slot: record for record in self.slots}
        providers = {provider.slot: provider for provider in self.providers}
        seen = {
            Slot(host.name, drive.address): drive
            for host in self.hosts
            for drive in (host.hello.drives if host.hello else ())
        }
        return tuple(
            _drive(slot, records.get(slot), seen.get(slot), providers.get(slot))
            for slot in sorted(records.keys() | providers.keys() | seen.keys())
        )

    @cached_property
    def host_names(self) -> tuple[str, ...]:
        """Every compute host that is named anywhere."""
        named = {drive.slot.host for drive in self.drives} | {host.name for host in self.hosts}
        named |= {conf.source.host for conf in self.confs if conf.source.host}
        return tuple(sorted(named))

    @cached_property
    def our_classes(self) -> frozenset[str]:
        """The resource classes of one-time-use devices: enrolled, in Placement or configured."""
        classes = {record.resource_class for record in self.slots}
        for provider in self.providers:
            if provider.one_time_use and provider.view is not None:
                classes |= {i.resource_class for i in provider.view.inventories}
        for conf in self.of_role(Role.COMPUTE):
            classes |= {
                name
                for spec in conf.device_specs
                # A device without ids: the line names the class, or its own ids make it.
                if spec.one_time_use and (name := spec.class_of(PciDevice("0000:00:00.0")))
            }
        return frozenset(classes)


def _drive(
    slot: Slot, record: SlotRecord | None, seen: SeenDrive | None, provider: ProviderSeen | None
) -> SlotFindings:
    identity = seen.identity if seen else None
    # What the host sees now goes before what the record has of the slot.
    identity = identity or (record.identity if record else None)
    device = PciDevice(
        slot.address,
        identity.vendor_id if identity else None,
        identity.device_id if identity else None,
    )
    return SlotFindings(slot, device, record, seen, provider)
