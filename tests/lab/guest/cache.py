"""A cache of built things, addressed by what they were built from.

An entry is a directory ``<kind>-<key>``. It appears by one rename once it is complete, so a reader
never sees half of one; parallel builders of the same entry wait for each other on a lock file.
"""

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Final

CACHE_VARIABLE: Final = "NVME_QUARANTINE_CACHE"
_KEEP_UNUSED_S: Final = 14 * 24 * 3600.0
"""Entries unused for this long are removed when a new one of their kind is made."""


def default_root() -> Path:
    """The cache directory, the same as of ``tools/lib.sh``: ``$NVME_QUARANTINE_CACHE``, or
    ``nvme-quarantine`` in ``$XDG_CACHE_HOME`` or ``~/.cache``."""
    if named := os.environ.get(CACHE_VARIABLE):
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "nvme-quarantine"


def digest(parts: Iterable[str | bytes]) -> str:
    """Return a short digest of a sequence; lengths are hashed too, so parts cannot run together."""
    whole = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        whole.update(len(data).to_bytes(8, "little"))
        whole.update(data)
    return whole.hexdigest()[:16]


def digest_files(root: Path, names: Iterable[Path]) -> str:
    """Return a digest of the names, the executable bits and the contents of files below a root."""
    parts: list[str | bytes] = []
    for name in sorted(names):
        mode = "x" if (root / name).stat().st_mode & 0o100 else "-"
        parts += [name.as_posix(), mode, (root / name).read_bytes()]
    return digest(parts)


class Cache:
    """The cache directory and the one way to put something into it."""

    def __init__(self, root: Path | None = None) -> None:
        self.root = (root or default_root()).absolute()
        self.root.mkdir(parents=True, exist_ok=True)

    def entry(self, kind: str, key: str, build: Callable[[Path], None]) -> Path:
        """Return the entry's directory; ``build`` fills an empty directory when it is not there.

        A build that raises leaves nothing behind. Whatever ``build`` raises is passed on.
        """
        final = self.root / f"{kind}-{key}"
        if not final.is_dir():
            with self._lock(f"{kind}-{key}"):
                if not final.is_dir():
                    self._build(kind, final, build)
        # The time of last use, for the removal of old entries. Another process may just have
        # removed what it thought unused; a missing entry is then reported by whoever opens it.
        with contextlib.suppress(FileNotFoundError):
            os.utime(final)
        return final

    def _build(self, kind: str, final: Path, build: Callable[[Path], None]) -> None:
        part = Path(tempfile.mkdtemp(prefix=f"part-{kind}-", dir=self.root))
        part.chmod(0o755)
        try:
            build(part)
            part.rename(final)
        except BaseException:
            shutil.rmtree(part, ignore_errors=True)
            raise
        self._remove_unused(kind)

    def _remove_unused(self, kind: str) -> None:
        horizon = time.time() - _KEEP_UNUSED_S
        for old in (*self.root.glob(f"{kind}-*"), *self.root.glob(f"part-{kind}-*")):
            with contextlib.suppress(FileNotFoundError):
                if old.is_dir() and old.stat().st_mtime < horizon:
                    shutil.rmtree(old, ignore_errors=True)

    @contextlib.contextmanager
    def _lock(self, name: str) -> Iterator[None]:
        locks = self.root / "locks"
        locks.mkdir(exist_ok=True)
        with (locks / name).open("w") as handle:
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield
