"""Where this machine gets Debian from, read from its own apt configuration."""

import functools
import subprocess

from tests.lab.errors import BuildError


def debian_archive() -> str:
    """Return the URI of the Debian archive that apt uses here (never the security archive).

    Works for one-line and deb822 sources alike, because apt itself is asked. Raises ``BuildError``
    when no source of the main archive is configured.
    """
    listing = _apt(
        "apt-get",
        "indextargets",
        "--format",
        "$(REPO_URI)",
        "Created-By: Packages",
        "Origin: Debian",
        "Label: Debian",
    )
    uris = listing.split()
    if not uris:
        raise BuildError(
            "expected a source of the Debian archive with fetched indexes in the apt "
            "configuration, found none; run apt-get update as root and try again"
        )
    return uris[0].rstrip("/")


@functools.cache
def candidates(packages: tuple[str, ...]) -> str:
    """Return the versions apt would install here: part of the key of what is built from them."""
    return _apt("apt-cache", "madison", *sorted(packages))


def _apt(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False, env=_ENVIRONMENT)
    if done.returncode != 0:
        raise BuildError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip()[-300:]}")
    return done.stdout


_ENVIRONMENT = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
