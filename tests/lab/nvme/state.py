"""What a drive remembers without power: one JSON file beside the backing file, replaced whole."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.fill import FillMap, Span
from tests.lab.nvme.jsonform import from_json, to_json
from tests.lab.nvme.profile import DriveProfile
from tests.lab.nvme.spec import SanitizeStatus


@dataclass
class NamespaceState:
    """A namespace: bytes ``base`` to ``base + size`` of the media, seen in blocks of a format."""

    nsid: int
    base: int
    size: int
    lba_format: int
    write_protect: int = 0  # feature 84h: 0 none, 1 on, 2 until power cycle, 3 for ever


@dataclass
class SanitizeState:
    """The sanitize machine (Base 8.21). ``locked`` is one of its two failure states."""

    status: int = SanitizeStatus.NEVER
    progress: float = 0.0
    cdw10: int = 0
    pattern: int = 0
    passes_done: int = 0
    locked: bool = False
    restricted: bool = False
    data_erased: bool = True  # Global Data Erased; true from the factory

    @property
    def running(self) -> bool:
        """Whether an operation is under way."""
        return self.status == SanitizeStatus.RUNNING


@dataclass
class SavedFeature:
    """A feature value that a reset brings back."""

    value: int
    data: str = ""  # hex, for features that carry a data structure


@dataclass
class SmartState:
    """Health values that are reported as they are set."""

    critical_warning: int
    temperature_kelvin: int
    spare_percent: int
    spare_threshold_percent: int
    percentage_used: int


@dataclass
class DriveState:
    """All of it."""

    size: int
    namespaces: list[NamespaceState]
    spans: list[Span]
    smart: SmartState
    sanitize: SanitizeState = field(default_factory=SanitizeState)
    features: dict[str, SavedFeature] = field(default_factory=dict)
    changed_namespaces: list[int] = field(default_factory=list)

    @property
    def unallocated(self) -> int:
        """Bytes of the media that belong to no namespace."""
        return self.size - sum(namespace.size for namespace in self.namespaces)

    def namespace(self, nsid: int) -> NamespaceState | None:
        """The namespace with this id, if there is one."""
        for namespace in self.namespaces:
            if namespace.nsid == nsid:
                return namespace
        return None


def state_path(backing: Path) -> Path:
    """Where the state of the drive with this backing file is."""
    return backing.with_name(backing.name + ".state.json")


def factory_state(profile: DriveProfile) -> DriveState:
    """The state of a drive that was never used."""
    namespaces, base = [], 0
    for part in profile.namespaces:
        size = int(profile.size * part.share) // 4096 * 4096
        namespaces.append(
            NamespaceState(part.nsid, base, size, part.lba_format, part.write_protect)
        )
        base += size
    if base > profile.size:
        raise DriveError(f"namespaces of {base} bytes should fit into {profile.size}: lower shares")
    smart = profile.smart
    return DriveState(
        size=profile.size,
        namespaces=namespaces,
        spans=FillMap.uniform(profile.size, profile.deallocated_reads).spans,
        smart=SmartState(
            smart.critical_warning,
            smart.temperature_kelvin,
            smart.spare_percent,
            smart.spare_threshold_percent,
            smart.percentage_used,
        ),
    )


def load_state(path: Path, profile: DriveProfile) -> DriveState:
    """Read the state, or make that of a new drive. Raises DriveError on a foreign file."""
    try:
        text = path.read_text()
    except FileNotFoundError:
        return factory_state(profile)
    try:
        return from_json(DriveState, json.loads(text))
    except ValueError as error:
        raise DriveError(f"{path} should be a drive's state, is not JSON: {error}") from error


def save_state(path: Path, state: DriveState) -> None:
    """Replace the file. It survives a killed server; no test kills the host, so no fsync."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(to_json(state)))
    os.replace(temporary, path)
