"""What a drive does beside what its profile says. Of its own a drive does nothing: it is honest.

A drive that is more than its profile (``composed``) overrides this. Every method is called with
the drive's lock held.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from tests.lab.nvme.acts import Act
from tests.lab.nvme.fill import Fill
from tests.lab.nvme.spec import Reply

if TYPE_CHECKING:
    from tests.lab.nvme.drive import Drive


class Method(StrEnum):
    """Ways to erase: the three Sanitize actions (Base 5.24) and two SES of Format (Base 5.14)."""

    SANITIZE_CRYPTO = "sanitize-crypto"
    SANITIZE_BLOCK = "sanitize-block"
    SANITIZE_OVERWRITE = "sanitize-overwrite"
    FORMAT_CRYPTO = "format-crypto"
    FORMAT_USER = "format-user"


class Store(StrEnum):
    """Where a drive keeps what a host gave it: blocks, metadata beside them, CMB or PMR."""

    DATA = "data"
    METADATA = "metadata"
    BUFFER = "buffer"


@dataclass(frozen=True, slots=True)
class Truth:
    """What an auditor may ask of a drive, and no host.

    Both are ranges of bytes by store. ``kept``: what of the former data is still there.
    ``shown``: what of it a host would get that read every page once, upwards, now.
    """

    kept: dict[str, list[tuple[int, int]]]
    shown: dict[str, list[tuple[int, int]]]


class Nature:
    """An honest drive's."""

    plain = True
    """Whether reads may go straight to the media."""

    def joins(self, drive: Drive) -> None:
        """The drive is there; its files are open."""

    def hears(self, act: Act) -> None:
        """The host did something; of a command before it is executed."""

    def answers(self, act: Act) -> Reply | None:
        """What a command is answered with in place of being executed, if anything."""
        return None

    def survives(self, method: Method) -> bool:
        """Whether anything of what is there outlives the method."""
        return False

    def erases(self, method: Method, start: int, end: int, fill: Fill) -> bool:
        """Erase [start, end) of the media in the drive's place; False: the drive shall do it."""
        return False

    def erased(self, method: Method) -> None:
        """An erase ended with success."""

    def keeps_buffer(self) -> bool:
        """Whether the sanitize that is ending spares the CMB or PMR."""
        return False

    def creates(self, start: int, end: int, fill: Fill) -> bool:
        """Empty [start, end) for a new namespace in the drive's place; False as above."""
        return False

    def deallocates(self, start: int, end: int, fill: Fill) -> bool | None:
        """Deallocate [start, end) in the drive's place, and tell whether the map of fills changed;
        None: the drive shall do it."""
        return None

    def written(self, store: Store, start: int, end: int) -> None:
        """The host put something of its own there."""

    def shows(self, store: Store, start: int, content: bytes) -> bytes:
        """What the host gets of ``content``, which is what the store holds from ``start`` on."""
        return content

    def deallocated(self, start: int, end: int) -> bool:
        """Whether it makes any byte of [start, end) look deallocated though it is not."""
        return False

    def progress(self, sprog: int) -> int:
        """SPROG of log 81h while a sanitize runs, in place of the true one."""
        return sprog

    def truth(self) -> Truth:
        """For auditors."""
        return Truth({}, {})

    def close(self) -> None:
        """The drive's files are about to be closed."""
