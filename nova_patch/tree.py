"""The patch's own files as they are copied into Nova's environment.

The copy's directory is named after the digest of what is in it: a new version never overwrites an
old one in place, and a damaged copy knows that it is damaged.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

from .errors import PatchError

PREFIX = "nvme_quarantine_nova_patch_"


def files(package: Path) -> list[Path]:
    """What a copy consists of, in a fixed order."""
    return sorted([*package.glob("*.py"), package / "releases.json"])


def name(package: Path) -> str:
    """The name of the package that holds exactly these files. Raises ``OSError``."""
    digest = hashlib.sha256()
    for path in files(package):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode())
        digest.update(content)
    return PREFIX + digest.hexdigest()[:16]


def check(package: Path) -> None:
    """Raises ``PatchError`` when an installed copy is not what its name says.

    A package of another name is a checkout, which is as its owner wants it.
    """
    if not package.name.startswith(PREFIX):
        return
    try:
        found = name(package)
    except OSError as error:
        raise PatchError(
            f"expected {error.filename}, found: {error.strerror}; install again"
        ) from error
    if found != package.name:
        raise PatchError(
            f"expected the patch in {package} as it was installed, found changed files; "
            "install it again"
        )
