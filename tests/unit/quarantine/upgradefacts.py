"""A cloud without a fault, as upgrade-check knows it; tests break one thing at a time."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import nova_patch
from eraser.protocol.identity import ControllerIdentity, Slot
from eraser.protocol.profile import FeatureRule, NamespaceLayout, Profile
from eraser.protocol.report import Hello, SeenDrive
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding, DomainSeen, GateTestimony
from eraser.protocol.transport.signing import PrivateKey
from quarantine.cloud.facts import Allocation, Inventory, Provider, View, provider_name
from quarantine.record.store import Store
from quarantine.record.words.facts import HostRecord, SlotChanges, SlotRecord
from quarantine.record.words.states import State
from quarantine.upgrade import options
from quarantine.upgrade.facts import (
    ConfigSource,
    Facts,
    NovaConf,
    PlacementConf,
    ProviderSeen,
    Role,
)
from tests.lab.record import migrated_file

HOST = "cmp1"
CLASS = "CUSTOM_NVME_I1"
USED = Slot(HOST, "0000:81:00.0")
FREE = Slot(HOST, "0000:82:00.0")
SYSTEM = Slot(HOST, "0000:01:00.0")
PROFILE = Profile(
    *("p", 0x144D, 0xA824, "M", ("FW1",), (NamespaceLayout(1, 1 << 20, 512, 0),)),
    features=(
        FeatureRule(0x04, "temperature threshold, over", 343),
        FeatureRule(0x04, "temperature threshold, under", 0, select=1 << 20),
        FeatureRule(0x08, "interrupt coalescing", 0),
    ),
)
LATER = datetime.now(UTC) + timedelta(hours=1)


def spec(address: str = "", **members: Any) -> str:
    """A line of device_spec for a drive of ours."""
    line = {"vendor_id": "144d", "product_id": "a824", "one_time_use": "true"}
    line |= {"resource_class": CLASS} | ({"address": address} if address else {}) | members
    return json.dumps({name: value for name, value in line.items() if value is not None})


def alias(**members: Any) -> str:
    """The alias of the flavors."""
    line = {"name": "i1-nvme", "resource_class": CLASS, "device_type": "type-PCI"}
    line |= {"numa_policy": "preferred"} | members
    return json.dumps({name: value for name, value in line.items() if value is not None})


def nova_text(
    specs: tuple[str, ...] = (spec(USED.address), spec(FREE.address)),
    aliases: tuple[str, ...] = (alias(),),
    tracking: str = "report_in_placement = true",
    scheduling: str = "pci_in_placement = true",
    filters: str = "enabled_filters = ComputeFilter, PciPassthroughFilter, NUMATopologyFilter",
    refresh: str = "",
    core: str = "",
) -> str:
    """A good nova.conf, but for what is asked for."""
    lines = ["[DEFAULT]", core, "[pci]", tracking]
    lines += [f"device_spec = {line}" for line in specs] + [f"alias = {line}" for line in aliases]
    lines += ["[filter_scheduler]", scheduling, filters, "[compute]", refresh, ""]
    return "\n".join(lines)


class Cloud:
    """Makes facts; files are real ones and read by the real reader."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._files = 0
        store = Store.open(migrated_file(directory / "record.db"))
        self._used = self._enrol(store, USED, in_use=True)
        self._free = self._enrol(store, FREE, in_use=False)
        store.close()

    def _enrol(self, store: Store, slot: Slot, *, in_use: bool) -> SlotRecord:
        record = store.enrol(
            slot,
            provider=f"provider-{slot.address}",
            resource_class=CLASS,
            in_use=in_use,
            profile="p",
            policy="purge",
            consumer="server" if in_use else None,
        )
        return store.amend(record, SlotChanges(identity=identity(slot)))

    def file(self, text: str) -> Path:
        """A new file with that content."""
        self._files += 1
        path = self._directory / f"{self._files}.conf"
        path.write_text(text)
        return path

    def nova(self, role: Role = Role.ALL, host: str | None = None, **changes: Any) -> NovaConf:
        """A configuration of that role."""
        return options.nova(ConfigSource(role, host, (self.file(nova_text(**changes)),)))

    def placement(self, text: str) -> PlacementConf:
        """A placement.conf."""
        return options.placement(ConfigSource(Role.PLACEMENT, None, (self.file(text),)))

    def facts(self, **changes: Any) -> Facts:
        """Two slots of ours, one used and one free, and the host's own drive beside them."""
        facts = Facts(
            confs=(self.nova(),),
            slots=(self._used, self._free),
            hosts=(host_record(),),
            providers=(provider(USED, server="server"), provider(FREE)),
            servers={},
            silent={HOST: 3.0},
            profiles={"p": PROFILE},
            policies=frozenset({"purge"}),
            nova_release=34,
            placement_release=16,
        )
        return replace(facts, **changes)


def identity(slot: Slot) -> ControllerIdentity:
    """The drive in a slot."""
    return ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, f"S{slot.address}", "M", "nqn.x")


def seen(slot: Slot, **changes: Any) -> SeenDrive:
    """A drive as its host sees it."""
    drive = SeenDrive(slot.address, "nvme", identity(slot), group=(), system=slot == SYSTEM)
    return replace(drive, **changes)


def gate(
    standings: dict[Defence, DefenceStanding] | None = None,
    domains: tuple[DomainSeen, ...] = (),
    patch: str = nova_patch.VERSION,
) -> GateTestimony:
    """The last gate of a host, complete unless told otherwise."""
    given = {defence: DefenceStanding.PRESENT for defence in Defence} | (standings or {})
    sign = f"process 7: nvme-quarantine-patch:{patch}:34.0.0"
    details = {defence: f"detail of {defence}" for defence in Defence}
    if given[Defence.PATCH] is DefenceStanding.PRESENT:
        details[Defence.PATCH] = sign
    defences = tuple(DefenceSeen(d, s, details[d]) for d, s in given.items())
    return GateTestimony(defences, domains, (), ())


def host_record(
    drives: tuple[SeenDrive, ...] | None = None, testimony: GateTestimony | None = None
) -> HostRecord:
    """The host with its last word."""
    shown = (seen(SYSTEM), seen(USED, driver="vfio-pci", identity=None), seen(FREE))
    hello = Hello(
        HOST, "incarnation-00001", 1, "1", shown if drives is None else drives, (), (),
        testimony or gate(),
    )  # fmt: skip
    key = PrivateKey.generate().public
    return HostRecord(HOST, key, "incarnation-00001", 1, hello, LATER, LATER)


def silent_gate() -> HostRecord:
    """A host whose eraser is older than the gate."""
    record = host_record()
    assert record.hello is not None
    return replace(record, hello=replace(record.hello, gate=None))


def provider(
    slot: Slot,
    *,
    server: str | None = None,
    reserved: int = 1,
    resource_class: str = CLASS,
    one_time_use: bool = True,
    uuid: str | None = None,
    inventories: int = 1,
) -> ProviderSeen:
    """A slot in Placement."""
    name = provider_name(slot)
    found = Provider(uuid or f"provider-{slot.address}", name, 7)
    stock = (Inventory(resource_class, 1, reserved, 1, 1, 1, 1.0),) * inventories
    held = (Allocation(server, {resource_class: 1}, 1, "INSTANCE", "p", "u"),) if server else ()
    return ProviderSeen(found, one_time_use, View(found, "", stock, held))


def with_slot(facts: Facts, slot: Slot, **changes: Any) -> Facts:
    """The same with another record of that slot."""
    slots = tuple(replace(r, **changes) if r.slot == slot else r for r in facts.slots)
    return replace(facts, slots=slots)


def with_provider(facts: Facts, slot: Slot, other: ProviderSeen | None) -> Facts:
    """The same with another provider of that slot, or with none."""
    kept = tuple(p for p in facts.providers if p.slot != slot)
    return replace(facts, providers=(*kept, other) if other else kept)


Break = Callable[[Cloud], Facts]
AVAILABLE = State.AVAILABLE
