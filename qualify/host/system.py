"""Where the bench looks at the machine: /proc and /sys below a root that tests may move."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class MountInfo:
    """One line of mountinfo (proc(5))."""

    numbers: str
    point: str
    kind: str
    source: str
    options: str


@dataclass(frozen=True)
class System:
    """This machine."""

    root: Path = Path("/")

    def path(self, name: str) -> Path:
        """``/sys/block`` below the root."""
        return self.root / name.lstrip("/")

    def text(self, name: str) -> str:
        """A small file without its last newline; empty where there is none."""
        try:
            return self.path(name).read_text(errors="surrogateescape").strip()
        except OSError:
            return ""

    def children(self, name: str) -> list[str]:
        """Names in a directory; none where there is none."""
        try:
            return sorted(os.listdir(self.path(name)))
        except OSError:
            return []

    def mounts(self) -> Iterator[MountInfo]:
        """What this process sees mounted."""
        for line in self.text("/proc/self/mountinfo").splitlines():
            fields = line.split(" ")
            # Optional fields, none or many, end at the dash; type, source and options follow.
            if "-" not in fields[6:]:
                continue
            rest = fields[fields.index("-", 6) + 1 :]
            if len(rest) >= 3:
                yield MountInfo(
                    fields[2], unescape(fields[4]), rest[0], unescape(rest[1]), fields[5]
                )

    def mount_of(self, device: int) -> MountInfo | None:
        """The mount of a file with this ``st_dev``."""
        wanted = f"{os.major(device)}:{os.minor(device)}"
        return next((mount for mount in self.mounts() if mount.numbers == wanted), None)


def unescape(field: str) -> str:
    """The kernel writes blanks and backslashes in a path as octal (\\040)."""
    # The backslash last: earlier it would make codes of what is plain text in the path.
    for code in ("040", "011", "012", "134"):
        field = field.replace(f"\\{code}", chr(int(code, 8)))
    return field
