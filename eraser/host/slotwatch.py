"""What happened to a slot's drive between two looks at sysfs, and what follows from it.

Level-triggered: a function that was removed and found again has a new directory in sysfs, which the
kernel gives a number that it never gives again in this boot. So even a vanish whose event was lost
is seen at the next look.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from pathlib import Path

from eraser.errors import BadInputError, DriveError
from eraser.host.sysfs import Host, PciFunction
from eraser.protocol import codec
from eraser.protocol.identity import pci_address
from eraser.state.journal import make_directory, replace_durably

_IDS = ("vendor", "device", "subsystem_vendor", "subsystem_device")


@dataclass(frozen=True)
class KnownSlot:
    """A slot at one look.

    ``directory`` is ``PciFunction.number``: 0 where none is there.
    ``ids`` are the four PCI ids. ``drive`` is a digest of serial, model and subsystem NQN, empty
    where they cannot be read; both stay as they were last seen while nothing else is seen.
    """

    address: str
    directory: int
    driver: str
    ids: str
    drive: str

    def __post_init__(self) -> None:
        if pci_address(self.address) != self.address:
            raise ValueError(f"expected a PCI address in lower case, found {self.address!r}")


@dataclass(frozen=True)
class Memory:
    """All slots at the last look, and the boot that it was in."""

    boot: str = ""
    slots: tuple[KnownSlot, ...] = ()


@dataclass(frozen=True)
class SlotAction:
    """What to do about a slot: void its ticket for this reason (empty: leave it), ring the bell.

    ``returned``: the reason is that it vanished, and it is there again.
    """

    void: str = ""
    ring: bool = False
    returned: bool = False


def compare(
    before: KnownSlot | None, now: KnownSlot, *, same_boot: bool
) -> tuple[SlotAction, KnownSlot]:
    """What follows, and what to remember.

    After a reboot nothing is known to have vanished: a drive may only be slow to come up. Whether
    it was elsewhere meanwhile the gate finds by identity and counters.
    """
    if before is None:
        return SlotAction(), now
    kept = dataclasses.replace(now, ids=now.ids or before.ids, drive=now.drive or before.drive)
    void, returned = "", False
    # Ids and drive count over a reboot too; the directory's number counts within one boot alone.
    if before.ids and now.ids and before.ids != now.ids:
        void = f"another drive appeared in the slot (PCI ids {now.ids} after {before.ids})"
    elif before.drive and now.drive and before.drive != now.drive:
        void = "another drive appeared in the slot"
    elif same_boot and before.directory and before.directory != now.directory:
        returned = bool(now.directory)
        void = "the drive vanished from its slot" + (" and came back" if returned else "")
    # Nothing of an earlier drive may be kept beside what is seen of its successor.
    if void and now.directory:
        kept = dataclasses.replace(now, ids=now.ids, drive=now.drive)
    moved = (before.driver, before.directory) != (now.driver, now.directory)
    return SlotAction(void, bool(void) or (same_boot and moved), returned), kept


def see(host: Host, address: str) -> KnownSlot:
    """A slot as it is now. Raises :class:`DriveError` and ``OSError``, but not where it is gone."""
    function = PciFunction(host, address)
    directory = function.number
    try:
        ids = ":".join(f"{function.pci_id(name):04x}" for name in _IDS)
        known = KnownSlot(function.address, directory, function.driver or "", ids, _drive(function))
        # It may have gone and come back between the first line and here.
        if directory and function.number == directory:
            return known
    except FileNotFoundError:
        pass
    except DriveError:
        # A drive that is there and cannot be read is an error; an absent one is an answer.
        if function.present:
            raise
    return KnownSlot(function.address, 0, "", "", "")


def _drive(function: PciFunction) -> str:
    """The kernel reads these while it starts the controller; before that they are empty."""
    for name in function.controllers:
        place = function.controller_directory(name)
        try:
            # A controller that is not live may have only some of these fields.
            if function.host.text(f"{place}/state") != "live":
                return ""
            parts = ("serial", "model", "subsysnqn")
            return codec.digest([function.host.firmware_text(f"{place}/{part}") for part in parts])
        except OSError:
            return ""
    return ""


def memory_file(state_dir: Path) -> Path:
    """Where the last look is kept."""
    return state_dir / "gate" / "watch.json"


def load(state_dir: Path) -> Memory:
    """The last look; an empty one where there is none. Raises :class:`BadInputError`."""
    path = memory_file(state_dir)
    try:
        return codec.load(Memory, path.read_bytes(), str(path))
    except FileNotFoundError:
        return Memory()
    except OSError as error:
        raise BadInputError(f"expected to read {path}, found {error.strerror}") from error


def save(state_dir: Path, memory: Memory) -> None:
    """Raises ``OSError``."""
    path = memory_file(state_dir)
    make_directory(path.parent)
    replace_durably(path, codec.canonical(memory) + b"\n")
