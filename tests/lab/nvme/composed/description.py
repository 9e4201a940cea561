"""A composed drive as data: what it can do, what it keeps, when that shows, what is odd."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from tests.lab.nvme.composed.kept import Kept, What
from tests.lab.nvme.composed.oddities import Odd
from tests.lab.nvme.composed.triggers import ALWAYS, PLAINLY, Trigger
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.jsonform import from_json, to_json
from tests.lab.nvme.nature import Method, Store
from tests.lab.nvme.presetkind import Expected


class Layout(StrEnum):
    """How the factory divided the media. ROOMY leaves a fifth in no namespace, ASIDE a fifth in a
    namespace that is not attached.
    """

    ONE = "one"
    TWO = "two"
    ROOMY = "roomy"
    ASIDE = "aside"


class Buffer(StrEnum):
    """Memory that a host can map."""

    NONE = "none"
    CMB = "cmb"
    PMR = "pmr"


@dataclass(frozen=True, slots=True)
class Abilities:
    """What the drive can do; ``methods`` are what it erases by."""

    methods: tuple[Method, ...] = tuple(Method)
    layout: Layout = Layout.ONE
    management: bool = False
    metadata: bool = False
    buffer: Buffer = Buffer.NONE
    subsystem_reset: bool = False
    verify: bool = False

    @property
    def sentence(self) -> str:
        """In plain words, what is unusual."""
        said = ["erases by " + ", ".join(method.value for method in self.methods)]
        layout = {
            Layout.TWO: "two namespaces",
            Layout.ROOMY: "a fifth in no namespace",
            Layout.ASIDE: "a fifth in a detached namespace",
        }
        if self.layout in layout:
            said.append("has " + layout[self.layout])
        for has, what in (
            (self.management, "manages namespaces"),
            (self.metadata, "has formats with metadata"),
            (self.buffer is not Buffer.NONE, f"has a {self.buffer.value.upper()}"),
        ):
            if has:
                said.append(what)
        return ", ".join(said)


@dataclass(frozen=True, slots=True)
class Lie:
    """What outlives which methods, and when it shows; ``stays``: from then on, to any read."""

    kept: Kept
    survives: tuple[Method, ...]
    trigger: Trigger = PLAINLY
    stays: bool = False

    @property
    def sentence(self) -> str:
        """The drive does so, in plain words."""
        through = " and ".join(method.value for method in self.survives)
        shown = self.trigger.sentence + (", from then on to any read" if self.stays else "")
        return f"keeps {self.kept.sentence} through {through} and shows it {shown}"


@dataclass(frozen=True, slots=True)
class Description:
    """A drive."""

    name: str = ""
    abilities: Abilities = Abilities()
    lies: tuple[Lie, ...] = ()
    odd: tuple[Odd, ...] = ()

    @property
    def honest(self) -> bool:
        """Whether it erases what it says it erases."""
        return not self.lies

    @property
    def expected(self) -> Expected:
        """How its erase has to end: of a liar, whatever is odd about it, held."""
        held = any(one.kind.expected is Expected.HELD for one in self.odd)
        return Expected.HELD if held or self.lies else Expected.ERASED

    @property
    def undetectable(self) -> str:
        """Why no eraser can be asked to find any of its lies, "" where it can find one."""
        whys = [lie.trigger.undetectable for lie in self.lies]
        return whys[0] if whys and all(whys) else ""

    @property
    def sentence(self) -> str:
        """All of it."""
        said = [lie.sentence for lie in self.lies] or ["is honest"]
        said += [one.sentence for one in self.odd]
        return "; ".join(said) + f" ({self.abilities.sentence})"

    @property
    def size(self) -> int:
        """How much there is to it: what shrinking makes smaller."""
        lies = sum(
            4
            + sum(2 + min(one.number, 9) / 10 for one in lie.trigger.walk() if one.word != ALWAYS)
            + len(lie.survives)
            + lie.stays
            + (lie.kept.what is not What.ALL)
            for lie in self.lies
        )
        able = self.abilities
        extras = (able.management, able.metadata, able.subsystem_reset, able.verify)
        unusual = sum(extras) + (able.layout is not Layout.ONE) + (able.buffer is not Buffer.NONE)
        return round(10 * (lies + 3 * len(self.odd) + unusual + len(able.methods) / 2))

    def check(self) -> None:
        """Raises DriveError for a drive that cannot be."""
        able = self.abilities
        if not able.methods or len(set(able.methods)) != len(able.methods):
            raise DriveError("a drive should erase by one method at least, each named once")
        if able.metadata and not formats(able.methods):
            raise DriveError("a drive with formats should have Format")
        for lie in self.lies:
            lie.trigger.check()
            if not lie.survives or not set(lie.survives) <= set(able.methods):
                raise DriveError(f"a lie survives methods of the drive, found {lie.survives}")
            _check_kept(lie, able)
        for one in self.odd:
            one.check()
            if one.kind.needs_sanitize and not sanitizes(able.methods):
                raise DriveError(f"{one.name} is about Sanitize, the drive has none")
        groups = [one.kind.group for one in self.odd if one.kind.group]
        if len(groups) != len(set(groups)) or len({o.name for o in self.odd}) != len(self.odd):
            raise DriveError("oddities should differ, and be of different groups")

    def to_json(self) -> Any:
        """As plain JSON values."""
        return to_json(self)


def sanitizes(methods: tuple[Method, ...]) -> bool:
    """Whether one of them is a Sanitize."""
    return any(method.value.startswith("sanitize") for method in methods)


def formats(methods: tuple[Method, ...]) -> bool:
    """Whether one of them is a Format."""
    return any(method.value.startswith("format") for method in methods)


def description(data: object) -> Description:
    """Read a description. Raises DriveError for what is none."""
    found = from_json(Description, data)
    found.check()
    return found


def _check_kept(lie: Lie, able: Abilities) -> None:
    kept = lie.kept
    if kept.number < 1 or kept.unit < 4096 or kept.unit % 4096:
        raise DriveError(f"a part should have a number from 1 and a unit of pages, found {kept}")
    lacks = {
        What.METADATA: not able.metadata,
        What.BUFFER: able.buffer is Buffer.NONE or not sanitizes(lie.survives),
        What.NAMESPACE: able.layout is not Layout.TWO,
        What.DETACHED: able.layout is not Layout.ASIDE or not able.management,
        What.UNALLOCATED: not able.management,
        What.SECTORS: kept.number > 8,
    }
    if lacks.get(kept.what, False):
        raise DriveError(f"a drive that keeps {kept.what.value} should be able to, is {able}")
    if kept.store is Store.BUFFER and lie.trigger.needs_read:
        raise DriveError("no read of blocks reaches a CMB or PMR: its trigger has to happen")
