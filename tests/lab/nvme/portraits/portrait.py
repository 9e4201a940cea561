"""A model's portrait, read from its file, and the drive and preset that are made from it.

What the source does not say is the lab's default, and is listed as not known.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Final

from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.portraits.fields import CONTROLLER, DECIDED, REQUIRED, TEXT, WANTED
from tests.lab.nvme.presetkind import Preset
from tests.lab.nvme.profile import (
    DriveProfile,
    FormatProfile,
    LbaFormat,
    NamespaceProfile,
    PciIds,
    SanitizeProfile,
    SecurityProfile,
    Stated,
)

_HERE: Final = Path(__file__).parent
_DEFAULT: Final = DriveProfile()


@dataclass(frozen=True, slots=True)
class Source:
    """A public place, and what was read there."""

    where: str
    what: str


@dataclass(frozen=True, slots=True)
class Figure:
    """A value as its sources print it. Numbers are decimal, or hexadecimal after 0x."""

    value: str
    sources: tuple[Source, ...]


@dataclass(frozen=True, slots=True)
class Portrait:
    """What is publicly known of a model."""

    name: str
    model: str
    about: str
    sources: tuple[Source, ...]
    figures: dict[str, Figure]
    searched: tuple[str, ...]

    @property
    def complete(self) -> bool:
        """Whether everything that decides an erase has a source: only then it is a preset."""
        return all(name in self.figures for name in REQUIRED)

    @property
    def not_known(self) -> tuple[str, ...]:
        """What no source says: the lab's default."""
        return tuple(name for name in WANTED if name not in self.figures)

    @property
    def not_played(self) -> tuple[str, ...]:
        """Figures that the lab drive does not show: its own size, logs and limits stand there."""
        return tuple(n for n in self.figures if n not in DECIDED and n not in CONTROLLER)

    def number(self, name: str, default: int = 0) -> int:
        """A figure as a number."""
        return int(self.figures[name].value, 0) if name in self.figures else default

    def text(self, name: str, default: str = "") -> str:
        """A figure as it stands."""
        return self.figures[name].value if name in self.figures else default

    def profile(self) -> DriveProfile:
        """The lab drive of this model. Raises DriveError where what decides an erase is not
        known."""
        if not self.complete:
            raise DriveError(f"no source for all of {', '.join(REQUIRED)} of {self.model}")
        oacs, oncs = self.number("oacs"), self.number("oncs")
        sanicap, fna = self.number("sanicap"), self.number("fna")
        return DriveProfile(
            model=self.text("mn", _DEFAULT.model),
            firmware=self.text("fr", _DEFAULT.firmware),
            pci=PciIds(
                vendor=self.number("vid", _DEFAULT.pci.vendor),
                device=self.number("device", _DEFAULT.pci.device),
                subsystem_vendor=self.number("ssvid", _DEFAULT.pci.subsystem_vendor),
                oui=self.number("ieee", _DEFAULT.pci.oui),
            ),
            cntlid=self.number("cntlid", _DEFAULT.cntlid),
            version=self.number("ver", _DEFAULT.version),
            mdts=self.number("mdts", _DEFAULT.mdts),
            dlfeat=self.number("dlfeat", _DEFAULT.dlfeat),
            formats=_formats(self.text("lbaf")),
            namespaces=(NamespaceProfile(lba_format=self.number("flbas") & 0xF),),
            volatile_write_cache=bool(self.number("vwc") & 1),
            write_protect=bool(self.number("nwpc")),
            firmware_slots=self.number("frmw", _DEFAULT.firmware_slots << 1) >> 1 & 7,
            namespace_management=bool(oacs >> 3 & 1),
            most_namespaces=self.number("nn", _DEFAULT.most_namespaces),
            reservations=bool(oncs >> 5 & 1),
            security=SecurityProfile() if oacs & 1 else None,
            boot_log=not oacs >> 2 & 1,
            lockdown=bool(oacs >> 10 & 1),
            verify=bool(oncs >> 7 & 1),
            write_zeroes=bool(oncs >> 3 & 1),
            reports_nqn="subnqn" not in self.figures or bool(self.text("subnqn")),
            sanitize=SanitizeProfile(
                crypto=bool(sanicap & 1),
                block=bool(sanicap >> 1 & 1),
                overwrite=bool(sanicap >> 2 & 1),
                no_deallocate_inhibited=bool(sanicap >> 29 & 1),
                media_modified=sanicap >> 30,
            ),
            format=FormatProfile(
                supported=bool(oacs >> 1 & 1),
                all_namespaces=bool(fna & 1),
                secure_all_namespaces=bool(fna >> 1 & 1),
                crypto=bool(fna >> 2 & 1),
                broadcast=not fna >> 3 & 1,
            ),
            stated=tuple(
                Stated(field.offset, self.number(name).to_bytes(field.size, "little"))
                for name, field in CONTROLLER.items()
                if name in self.figures
            ),
        )

    def preset(self) -> Preset:
        """The lab drive by the model's name: an honest one."""
        return Preset(self.name, self.about, self.profile())


def _formats(text: str) -> tuple[LbaFormat, ...]:
    return tuple(LbaFormat(*map(int, each.split(":"))) for each in text.split())


def _read(path: Path) -> Portrait:
    raw: dict[str, Any] = json.loads(path.read_text())
    sources = {name: Source(*each) for name, each in raw["sources"].items()}
    figures = {
        name: Figure(value, tuple(sources[each] for each in by.split()))
        for name, (value, by) in raw["figures"].items()
    }
    for name, figure in figures.items():
        if name not in TEXT:
            int(figure.value, 0)  # a number, or the file is wrong
    return Portrait(
        name=raw["name"],
        model=raw["model"],
        about=raw["about"],
        sources=tuple(sources.values()),
        figures=figures,
        searched=tuple(raw["searched"]),
    )


@cache
def portraits() -> tuple[Portrait, ...]:
    """All of them, by name; complete or not."""
    return tuple(_read(path) for path in sorted(_HERE.glob("*.json")))


PORTRAIT_DRIVES: Final = tuple(each.preset() for each in portraits() if each.complete)
"""Models as they are sold, of which everything that decides an erase has a public source."""
