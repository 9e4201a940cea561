"""Which releases of Nova the patch knows, and whether what is installed is one of them, unchanged.

The table ``releases.json`` holds for each release the mechanism that it needs, and the digest of
each watched file and function. A file with the recorded digest is as it was; only where a
distribution changed a file is it parsed, and each watched function compared.

A release that the table does not have is held against the row of its series: where no watched
function differs, the patch stands on the same ground as in the release that was tested.
"""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from . import digests
from .digest_targets import DIGEST_TARGETS
from .errors import PatchError

TABLE = Path(__file__).with_name("releases.json")

MECHANISMS = {
    "born_reserved": "born reserved, a host that goes on, claims that follow Placement, "
    "no drive left behind, bells",
    "one_time_use": "one-time-use as well",
}
"""The modules that a row of the table may name, and what a release with that row gets."""


@dataclass(frozen=True)
class Release:
    """One row of the table."""

    version: str
    mechanism: str
    files: Mapping[str, str]
    functions: Mapping[str, str]
    """By ``path:name``."""


def releases(table: Path = TABLE) -> dict[str, Release]:
    """The whole table. Raises ``PatchError`` when it is damaged."""
    try:
        rows = json.loads(table.read_text())
        return {version: Release(version, **row) for version, row in rows.items()}
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise PatchError(
            f"expected the patch's table of releases in {table}, found: {error}; install again"
        ) from error


def table() -> str:
    """The guide's table of releases in Markdown (``tools/samples`` writes it)."""
    rows = releases()
    lines = ["| Nova | gets |", "|---|---|"]
    for mechanism, gets in MECHANISMS.items():
        names = ", ".join(name for name, row in rows.items() if row.mechanism == mechanism)
        lines.append(f"| {names} | {gets} |")
    return "\n".join(lines)


def installed_version() -> str:
    """The release of the Nova beside us. Raises ``PatchError`` when there is none."""
    try:
        return importlib.metadata.version("nova")
    except importlib.metadata.PackageNotFoundError as error:
        raise PatchError(
            "expected an installed nova, found none; give the Python that runs nova-compute"
        ) from error


def installed_top() -> Path:
    """The directory that holds the package ``nova``, which is not imported."""
    spec = importlib.util.find_spec("nova")
    # What pip leaves of a removed Nova is a package of the namespace kind, without an origin.
    if spec is None or spec.origin is None:
        raise PatchError("expected the package nova, found none; give nova-compute's Python")
    return Path(spec.origin).parent.parent


def release(version: str) -> Release:
    """The row of that release, or of the newest one of its series.

    Raises ``PatchError`` for a series that was never tested.
    """
    known = releases()
    like = [row for name, row in known.items() if _series(name) == _series(version)]
    if version not in known and not like:
        raise PatchError(
            f"expected Nova {', '.join(known)} or another of their series, found {version}: the "
            "patch was not tested with it; install one of these, or remove the patch with "
            "python3 -m nova_patch remove"
        )
    # The table has the newest release first (__main__._digests): this is its series' newest.
    return known.get(version) or like[0]


def _series(version: str) -> str:
    # Nova gives each half-yearly release a number of its own; what follows the dot are its fixes.
    return version.partition(".")[0]


def untested(row: Release, version: str) -> str:
    """What people must hear where ``version`` is admitted by another release's row, or nothing."""
    if row.version == version:
        return ""
    return (
        f"Nova {version} was not tested with the patch; each of the {len(row.functions)} functions "
        f"that it stands on is as in Nova {row.version}, which was"
    )


def check_sources(row: Release, top: Path) -> None:
    """Holds what lies in ``top`` against the table's row.

    Raises ``PatchError`` that names each watched function whose source differs.
    """
    changed = sorted(
        name
        for path, names in DIGEST_TARGETS.items()
        for name in _changed(row, path, names, _read(top / path))
    )
    if changed:
        raise PatchError(
            f"expected the source of Nova {row.version} as tested, found changes in "
            f"{', '.join(changed)}; restore Nova, or remove the patch with "
            "python3 -m nova_patch remove"
        )


def measure(version: str, mechanism: str, top: Path) -> Release:
    """The row that the sources in ``top`` would have."""
    files, functions = {}, {}
    for path, names in DIGEST_TARGETS.items():
        content = _read(top / path)
        files[path] = digests.of_bytes(content)
        for name, digest in digests.of_functions(content, names).items():
            functions[f"{path}:{name}"] = digest
    return Release(version, mechanism, files, functions)


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PatchError(f"expected Nova's source {path}, found: {error.strerror}") from error


def _changed(row: Release, path: str, names: list[str], content: bytes) -> list[str]:
    expected = {name: row.functions.get(f"{path}:{name}") for name in names}
    # A row that was made before a function was watched knows nothing of it.
    if row.files.get(path) == digests.of_bytes(content) and None not in expected.values():
        return []
    try:
        found = digests.of_functions(content, names)
    except SyntaxError as error:
        raise PatchError(f"expected Python in Nova's {path}, found: {error}") from error
    return [f"{path}:{name}" for name in names if found[name] != expected[name]]
