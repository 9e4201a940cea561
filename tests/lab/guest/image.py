"""Which Debian packages a guest is made of. Every image has a root and saved states of its own."""

from dataclasses import dataclass
from typing import Final

from tests.lab.guest.packages import GUEST_PACKAGES


@dataclass(frozen=True)
class Image:
    """A root file system for guests; what is in it is all that its cache key is made from."""

    name: str
    """The kind of its cache entries."""
    packages: tuple[str, ...]
    root_mib: int = 1000
    """Size of the root file system (a sparse file)."""
    warm_up: str = ""
    """A script (``sh -e``) run in the booted guest before its state is saved."""


PLAIN: Final = Image("base", GUEST_PACKAGES)
