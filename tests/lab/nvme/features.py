"""Set Features and Get Features (Base 5.27, 5.15): current, saved and default values."""

from __future__ import annotations

import struct
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.lab.nvme import hostmetadata
from tests.lab.nvme.memory import Host, pull
from tests.lab.nvme.spec import BROADCAST_NSID, Command, Fid, Reply, Status, refused
from tests.lab.nvme.state import SavedFeature

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive

MAX_IO_QUEUES = 15
"""I/O queue pairs of one function; with the admin queue one MSI-X vector each."""

_SELECT_CURRENT, _SELECT_DEFAULT, _SELECT_SAVED, _SELECT_SUPPORTED = range(4)
_BOOT_LOCKED = 0o22
"""Feature 85h: both boot partitions are in state 2, Write Locked."""
_QUEUES = (MAX_IO_QUEUES - 1) | (MAX_IO_QUEUES - 1) << 16


@dataclass(frozen=True, slots=True)
class FeatureRule:
    """How a feature behaves. ``data_length`` bytes come with it, or none."""

    default: int = 0
    saveable: bool = True
    lasting: bool = False
    """Not saveable, and its current value outlives resets and power cycles (Base 2.1, figure 385).
    """
    shared: bool = False
    """Of a scope wider than a controller: what is not saved outlives the reset of one of several.
    """
    per_namespace: bool = False
    data_length: int = 0
    changeable: bool = True
    in_dword_12: bool = False
    """The value comes in command dword 12; dword 11 says of what it is."""
    in_dword_13: bool = False
    """The value comes in command dword 13."""
    counts: bool = False
    """Another value at each look."""
    of_its_own: bool = False
    """The default data differs from drive to drive, as a GUID does."""
    metadata: bool = False
    """Set Features adds and deletes elements of the data; a drive may keep them unasked."""


_METADATA = FeatureRule(saveable=False, data_length=hostmetadata.SIZE, metadata=True)

RULES: dict[int, FeatureRule] = {
    Fid.ARBITRATION: FeatureRule(),
    Fid.POWER_MANAGEMENT: FeatureRule(),
    Fid.TEMPERATURE_THRESHOLD: FeatureRule(default=343),
    Fid.ERROR_RECOVERY: FeatureRule(shared=True, per_namespace=True),
    Fid.WRITE_CACHE: FeatureRule(default=1),
    Fid.NUMBER_OF_QUEUES: FeatureRule(default=_QUEUES, saveable=False),
    Fid.INTERRUPT_COALESCING: FeatureRule(),
    Fid.INTERRUPT_VECTOR: FeatureRule(saveable=False),
    Fid.WRITE_ATOMICITY: FeatureRule(),
    Fid.ASYNC_EVENTS: FeatureRule(saveable=False),
    Fid.TIMESTAMP: FeatureRule(saveable=False, data_length=8),
    Fid.KEEP_ALIVE: FeatureRule(saveable=False),
    Fid.SANITIZE_CONFIG: FeatureRule(shared=True),
    Fid.ENHANCED_CONTROLLER_METADATA: _METADATA,
    Fid.CONTROLLER_METADATA: _METADATA,
    Fid.NAMESPACE_METADATA: replace(_METADATA, per_namespace=True),
    Fid.PROGRESS_MARKER: FeatureRule(),
    Fid.HOST_IDENTIFIER: FeatureRule(saveable=False, data_length=16),
}

MANY: dict[int, FeatureRule] = {
    Fid.LBA_RANGES: FeatureRule(shared=True, per_namespace=True, data_length=4096, of_its_own=True),
    Fid.READ_RECOVERY: FeatureRule(shared=True, default=4, in_dword_12=True),
    Fid.LBA_STATUS: FeatureRule(),
    Fid.DATA_PLACEMENT: FeatureRule(shared=True, in_dword_12=True),
    Fid.ADMIN_LABEL: FeatureRule(shared=True, per_namespace=True, data_length=256),
    # All personalities are as their maker left them: PMDSS (Base 2.3, figure 449).
    Fid.PERSONALITY: FeatureRule(default=1 << 10, saveable=False, lasting=True, in_dword_13=True),
    Fid.POWER_LIMIT: FeatureRule(in_dword_13=True),
    Fid.POWER_THRESHOLD: FeatureRule(),
    Fid.MANAGEMENT_ADDRESS: FeatureRule(shared=True, data_length=512),
    Fid.AGENT_ADDRESS: FeatureRule(shared=True, data_length=512),
    Fid.VENDOR_ERRORS: FeatureRule(data_length=32),
    Fid.VENDOR_COUNTER: FeatureRule(counts=True),
    Fid.VENDOR_POWER: FeatureRule(default=2),
    Fid.VENDOR_FIXED: FeatureRule(default=7, changeable=False),
}
"""What only a drive with ``many_features`` has."""


class Features:
    """Feature values of one drive. A reset forgets what was neither saved nor lasts by itself."""

    def __init__(self, drive: Drive) -> None:
        self._drive = drive
        self._current: dict[str, SavedFeature] = {}
        self._looks = 0
        self._boot = _BOOT_LOCKED

    @property
    def rules(self) -> dict[int, FeatureRule]:
        """What this drive has."""
        profile = self._drive.profile
        found = RULES | MANY if profile.many_features else dict(RULES)
        if not profile.volatile_write_cache:
            # Get and Set Features are refused as an invalid field then (Base 2.0, figure 275: VWC).
            del found[Fid.WRITE_CACHE]
        return found

    def reset(self, *, whole: bool = True) -> None:
        """Current values become the saved ones, or the defaults (Base 2.1, 4.4, figure 124).

        Not ``whole``: of one controller of several, which leaves what is not its own (figure 125).
        """
        rules = self.rules
        for key in list(self._current):
            if whole or not rules[int(key.split("/")[0], 16)].shared:
                del self._current[key]

    def power_on(self) -> None:
        """What was not saved is gone; boot partitions are locked (Base 2.1, 8.1.3.3.1)."""
        self.reset()
        self._boot = _BOOT_LOCKED

    @property
    def _protects_boot(self) -> bool:
        profile = self._drive.profile
        return profile.boot_partition_units > 0 and profile.boot_log

    def current(self, fid: Fid, nsid: int = 0) -> int:
        """The value in force."""
        key = _key(fid, nsid if RULES[fid].per_namespace else 0, 0)
        return self._lookup(key, RULES[fid]).value

    def current_data(self, fid: Fid) -> str:
        """The data structure in force of a drive's feature, hex."""
        return self._lookup(_key(fid, 0, 0), RULES[fid]).data or "00" * RULES[fid].data_length

    def forget_namespace(self, nsid: int) -> None:
        """A namespace was deleted: its values go with it."""
        for values in (self._current, self._drive.state.features):
            for key in [key for key in values if key.split("/")[1] == str(nsid)]:
                del values[key]

    def get(self, command: Command) -> Reply:
        """Get Features."""
        fid, select = command.cdw10 & 0xFF, command.cdw10 >> 8 & 7
        if fid == Fid.WRITE_PROTECT and self._drive.profile.write_protect:
            return self._get_write_protect(command.nsid)
        if fid == Fid.BOOT_PROTECT and self._protects_boot:
            return Reply(dw0=self._boot)
        rule = self.rules.get(fid)
        if rule is None or select > _SELECT_SUPPORTED:
            return refused(Status.INVALID_FIELD)
        nsid = command.nsid if rule.per_namespace else 0
        if rule.per_namespace and self._drive.state.active(nsid) is None:
            return refused(Status.INVALID_NAMESPACE)
        if select == _SELECT_SUPPORTED:
            return Reply(dw0=rule.saveable | rule.per_namespace << 1 | rule.changeable << 2)
        key = _key(fid, nsid, command.cdw11)
        default = self._default(rule)
        found = {
            _SELECT_DEFAULT: default,
            # Of what is not saveable the default (Base 4.4), whatever the drive keeps of it.
            _SELECT_SAVED: self._drive.state.features.get(key, default)
            if not rule.metadata and not rule.lasting
            else default,
        }.get(select) or self._lookup(key, rule)
        data = bytes.fromhex(found.data).ljust(rule.data_length, b"\0")
        if rule.counts:
            self._looks += 1
            found = SavedFeature(self._looks)
        return Reply(dw0=found.value, data=data if rule.data_length else None)

    def set(self, command: Command, host: Host) -> Reply:
        """Set Features; the caller logs it. May raise DmaFault."""
        fid, save = command.cdw10 & 0xFF, bool(command.cdw10 >> 31)
        if fid == Fid.WRITE_PROTECT and self._drive.profile.write_protect:
            return self._set_write_protect(command)
        if fid == Fid.BOOT_PROTECT and self._protects_boot:
            return self._set_boot_protect(command, save=save)
        rule = self.rules.get(fid)
        if rule is None:
            return refused(Status.INVALID_FIELD)
        if not rule.changeable:
            return refused(Status.FEATURE_NOT_CHANGEABLE)
        if fid == Fid.DATA_PLACEMENT and self._drive.state.namespaces:
            return refused(Status.COMMAND_SEQUENCE)
        if save and not rule.saveable:
            return refused(Status.FEATURE_NOT_SAVEABLE)
        targets = self._targets(rule, command.nsid)
        if isinstance(targets, Reply):
            return targets
        if fid == Fid.NUMBER_OF_QUEUES:
            return Reply(dw0=_QUEUES)
        if fid == Fid.HOST_IDENTIFIER and int(self.current_data(Fid.HOST_IDENTIFIER), 16):
            # Until a reset of the controller (Base 2.1, 5.1.25.1.28).
            return refused(Status.COMMAND_SEQUENCE)
        data = pull(host, rule.data_length).hex() if rule.data_length else ""
        keep = save or rule.lasting or (rule.metadata and self._drive.profile.keeps_metadata)
        values = {}
        for nsid in targets:
            key = _key(fid, nsid, command.cdw11)
            value = command.cdw12 if rule.in_dword_12 else _stored(fid, command.cdw11)
            value = command.cdw13 if rule.in_dword_13 else value
            values[key] = SavedFeature(value, data)
            if rule.metadata:
                present = bytes.fromhex(self._lookup(key, rule).data)
                try:
                    text = hostmetadata.act(Fid(fid), command.cdw11, bytes.fromhex(data), present)
                except (ValueError, struct.error):
                    return refused(Status.INVALID_FIELD)
                values[key] = SavedFeature(0, text.hex())
        self._current |= values
        if keep:
            self._drive.state.features |= values
            self._drive.save()
        return Reply()

    def _targets(self, rule: FeatureRule, nsid: int) -> list[int] | Reply:
        """The namespaces that it is set for, 0 for the drive; or why for none."""
        if rule.per_namespace:
            known = [n.nsid for n in self._drive.state.attached]
            targets = known if nsid == BROADCAST_NSID else [nsid]
            return targets if set(targets) <= set(known) else refused(Status.INVALID_NAMESPACE)
        if nsid not in (0, BROADCAST_NSID):
            return refused(Status.FEATURE_NOT_PER_NAMESPACE)
        return [0]

    def _lookup(self, key: str, rule: FeatureRule) -> SavedFeature:
        return self._current.get(key) or self._drive.state.features.get(key) or self._default(rule)

    def _default(self, rule: FeatureRule) -> SavedFeature:
        data = self._drive.profile.nguid(1).hex() if rule.of_its_own else ""
        return SavedFeature(rule.default, data)

    def _get_write_protect(self, nsid: int) -> Reply:
        namespace = self._drive.state.active(nsid)
        if namespace is None:
            return refused(Status.INVALID_NAMESPACE)
        return Reply(dw0=self._drive.write_protect(namespace))

    def _set_write_protect(self, command: Command) -> Reply:
        namespace = self._drive.state.active(command.nsid)
        wanted = command.cdw11 & 7
        if namespace is None:
            return refused(Status.INVALID_NAMESPACE)
        if wanted > 3:
            return refused(Status.INVALID_FIELD)
        present = self._drive.write_protect(namespace)
        if present >= 2 and wanted != present:
            return refused(Status.FEATURE_NOT_CHANGEABLE)
        namespace.write_protect = wanted
        self._drive.save()
        return Reply()

    def _set_boot_protect(self, command: Command, *, save: bool) -> Reply:
        """A state for each partition, 0 to leave it; no reset changes any (8.1.3.3.1)."""
        if save:
            return refused(Status.FEATURE_NOT_SAVEABLE)
        found = self._boot
        for shift in (0, 3):
            wanted, present = command.cdw11 >> shift & 7, self._boot >> shift & 7
            if wanted > 3:
                return refused(Status.INVALID_FIELD)
            if wanted and present == 3:
                return refused(Status.FEATURE_NOT_CHANGEABLE)
            found = found & ~(7 << shift) | (wanted or present) << shift
        self._boot = found
        return Reply()


def _key(fid: int, nsid: int, cdw11: int) -> str:
    # A temperature threshold exists per sensor and direction (Base 5.27.1.3).
    part = cdw11 >> 16 & 0x3F if fid == Fid.TEMPERATURE_THRESHOLD else 0
    return f"{fid:02x}/{nsid}/{part}"


def _stored(fid: int, cdw11: int) -> int:
    return cdw11 & 0xFFFF if fid == Fid.TEMPERATURE_THRESHOLD else cdw11
