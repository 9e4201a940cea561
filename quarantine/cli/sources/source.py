"""Where commands get what they show: the record, or the API of a cloud.

A command has one set of words, columns and formats. What it shows is columns with rows, or members
with values, named as the results of :mod:`quarantine.operations` are: ``store.py`` has them from
there, ``quarantine/osc`` from the API, which says less of some things.
"""

from __future__ import annotations

import enum
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Final, Protocol

from quarantine.operations.names import KEEP, EnrolmentFate

Columns = tuple[Sequence[str], Iterable[Sequence[Any]]]
Members = tuple[Sequence[str], Sequence[Any]]


class Act(enum.StrEnum):
    """What people decide about a slot."""

    HOLD = "hold"
    RELEASE = "release"
    RETIRE = "retire"
    ERASE = "erase"


@dataclass(frozen=True)
class SlotAct:
    """A decision as it was typed."""

    slot: str
    act: Act
    reason: str
    new_drive: bool = False
    seen: str = ""
    """The version that it is about; empty: as the slot is now."""
    at_next_release: bool = False
    """Of a hold: where a server has the drive, when it lets go of it."""


@dataclass(frozen=True)
class Acted:
    """What became of it."""

    slot: Members
    unacted: str
    """Why nothing was done about it yet; empty where it was."""


@dataclass(frozen=True)
class AlarmsWanted:
    """Which alarms, and in which order, as it was typed."""

    host: str | None = None
    """Of it and of its slots."""
    slot: str | None = None
    code: str | None = None
    severity: str | None = None
    is_over: bool | None = None
    """Said to be over, or not; None: any."""
    newest: bool = False
    """The last call first."""


@dataclass(frozen=True)
class KeyFiles:
    """Whose certificates are believed, as it was typed."""

    keys: tuple[Path, ...] = ()
    rotations: tuple[Path, ...] = ()


@dataclass(frozen=True)
class CertificateLook:
    """One certificate, and who checked it."""

    digest: str
    token: str
    body: Mapping[str, Any]
    """Its members as JSON has them."""
    headline: str
    key: str
    """Thumbprint of the key that signed it."""
    checked: str
    """By whom its signature was: here with keys of ours, or elsewhere."""
    testimony: str
    contradictions: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    problems: tuple[str, ...] = ()
    """Of rotations that could not be followed; and what a later release signed too."""
    broken: bool = False


@dataclass(frozen=True)
class Papers:
    """A certificate as it was signed, and what it rests on. Nothing of it is checked."""

    digest: str
    token: str
    order: str = ""
    """Empty, with the two below, where no testimony was kept."""
    report: str = ""
    host_key: Mapping[str, Any] | None = None


@dataclass(frozen=True)
class EnrolmentWish:
    """Which slots are to be enrolled, and by what they are erased, as it was typed."""

    profile: str
    policy: str | None
    host: str | None
    address: str | None
    """One slot of the host."""
    resource_class: str | None
    reason: str = ""
    seen: str = ""
    """The version of the plan that is meant; empty: whichever it is now."""


@dataclass(frozen=True)
class EnrolmentLine:
    """What becomes of a slot, or would. A later API may have other fates than ours."""

    slot: Any
    fate: str
    resource_class: str
    consumer: str | None
    reason: str


@dataclass(frozen=True)
class Enrolment:
    """A plan, or what was done of it."""

    slots: tuple[EnrolmentLine, ...]
    version: str
    unacted: str
    """Why none was looked at at once; empty where one was."""

    def __str__(self) -> str:
        """As in ``2 free, 1 in_use``."""
        counts = Counter(str(one.fate) for one in self.slots)
        # Fates that we know come first, in our order; then what a later API may have beside them.
        known = {fate.value: counts[fate] for fate in EnrolmentFate if counts[fate]}
        return ", ".join(f"{count} {fate}" for fate, count in {**known, **counts}.items())


class EnrolmentSource(Protocol):
    """Enrolment, likewise."""

    def plan(self, wish: EnrolmentWish) -> Enrolment: ...
    def take(self, wish: EnrolmentWish) -> Enrolment: ...


MAINTENANCE: Final = ("subject", "until", "reason", "by", "at", "version")
"""What is shown of one."""


@dataclass(frozen=True)
class MaintenanceWord:
    """What somebody says of a host's or a slot's maintenance, as it was typed."""

    subject: str
    """A host, or HOST/PCI-ADDRESS."""
    reason: str
    by: str
    """Who says it; an API knows, and is not told."""
    until: datetime | None = None
    """None: it ends."""
    seen: int | None = None
    """The version that it is about, 0 for none; None: as it is now."""


class MaintenanceSource(Protocol):
    """Maintenances, likewise."""

    def each(self, *, limit: int | None) -> Columns: ...
    def history(self, subject: str, *, limit: int | None) -> Columns: ...
    def begin(self, word: MaintenanceWord) -> Members: ...
    def end(self, word: MaintenanceWord) -> Members: ...


CAMPAIGN: Final = ("id", "state", "query", "keep", "reason", "by", "created_at", "changed_at")
"""What a list shows of one."""


class CampaignDecision(enum.StrEnum):
    """What people decide about a campaign."""

    PAUSE = "pause"
    RESUME = "resume"
    STOP = "stop"

    @property
    def state(self) -> str:
        """What it is then."""
        return {"pause": "paused", "resume": "running", "stop": "stopped"}[self.value]


@dataclass(frozen=True)
class CampaignWish:
    """Which slots a campaign is to be about, as it was typed."""

    model: str | None = None
    firmware: str | None = None
    host: str | None = None
    hold_code: str | None = None
    certified_before: datetime | None = None
    keep: float = KEEP
    """This share of the pool stays on offer."""
    seen: str = ""
    """The version of the preview that it is to be about; empty: of what is there by then."""


@dataclass(frozen=True)
class CampaignWord:
    """A decision about a campaign, as it was typed."""

    campaign: str
    act: CampaignDecision
    reason: str
    by: str
    """Who decides; an API knows, and is not told."""
    seen: int | None = None
    """The version that it is about; None: as it is now."""


class CampaignSource(Protocol):
    """Campaigns, likewise."""

    def each(self, *, limit: int | None) -> Columns: ...
    def one(self, name: str) -> Members: ...
    def slots(self, name: str, *, limit: int | None) -> Columns: ...
    def preview(self, wish: CampaignWish, *, first: int) -> Members: ...
    def begin(self, name: str, wish: CampaignWish, *, reason: str, by: str) -> Members: ...
    def put(self, word: CampaignWord) -> Members: ...


class Source(Protocol):
    """What commands ask for. Slots are named as they were typed.

    ``limit`` None asks for all. Each raises :class:`quarantine.errors.QuarantineError`; lists also
    while they are read.
    """

    def slots(self, *, host: str | None, states: Sequence[str], limit: int | None) -> Columns: ...
    def slot(self, name: str) -> Members: ...
    def history(self, name: str, *, limit: int | None) -> Columns: ...
    def fleet_history(
        self, *, host: str | None, event: str | None, limit: int | None
    ) -> Columns: ...
    def act(self, decision: SlotAct) -> Acted: ...
    def hosts(self, *, silent: bool, limit: int | None) -> Columns: ...
    def host(self, name: str) -> Members: ...
    def capacity(self, *, flavor: str | None, host: str | None) -> Columns: ...
    def certificates(
        self, *, slot: str | None, server: str | None, limit: int | None
    ) -> Columns: ...
    def certificate(self, name: str, trust: KeyFiles) -> CertificateLook: ...
    def papers(self, name: str) -> Papers: ...
    def drives(
        self,
        *,
        model: str | None,
        serial: str | None,
        firmware: str | None,
        limit: int | None,
    ) -> Columns: ...
    def drive(self, digest: str) -> Members: ...
    def alarms(self, wanted: AlarmsWanted, limit: int | None) -> Columns: ...
    def refusals(self, *, host: str | None, limit: int | None) -> Columns: ...
    @property
    def enrolment(self) -> EnrolmentSource: ...
    @property
    def maintenances(self) -> MaintenanceSource: ...
    @property
    def campaigns(self) -> CampaignSource: ...
