"""A bare Debian 12 with its own kernel and initramfs, and the packages that the guide installs.

The packages come from where this machine's apt has its own from. They are handed to the guest as a
directory with an index, as on an operator's mirror.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.lab.errors import BuildError
from tests.lab.guest import mirror, packages, trees
from tests.lab.guest.cache import Cache, digest, digest_files

AGENT: Final = "usr/local/lib/lab_agent.py"
ROOT_MIB: Final = 4000
"""Size of the root file system (a sparse file)."""

# What debootstrap makes ("important"), a kernel, and what nearly every Debian host has besides:
# Python (the agent is written in it) and the list of certificate authorities.
INSTALLED: Final = ("ca-certificates", packages.GUEST_KERNEL, "openssl", "python3")
OFFERED: Final = ("nvme-cli", "python3-venv", "redis-server")
"""What the guide, or Debian's way to a Redis, installs with apt; with all that these need."""

_AGENT_UNIT: Final = f"""\
[Unit]
Description=Command agent of the lab
StartLimitIntervalSec=0

[Service]
ExecStart=/usr/bin/python3 -I /{AGENT}
Restart=always
RestartSec=1
Delegate=yes

[Install]
WantedBy=multi-user.target
"""
# With the apt of this machine, on the guest's list of installed packages: what is not there yet.
_OFFER: Final = (
    'export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; a="$1/var/cache/apt/archives"; rm -f "$a"/*.deb; '
    "apt-get -q install --download-only --yes -o APT::Install-Recommends=true {packages} && "
    'mkdir "$1/lab-offered" && mv "$a"/*.deb "$1/lab-offered"'
)


@dataclass(frozen=True)
class BareImage:
    """What a bare guest is started from."""

    entry: Path

    @property
    def kernel(self) -> Path:
        """Debian's own."""
        return self.entry / "vmlinuz"

    @property
    def initramfs(self) -> Path:
        """As Debian's package of the kernel made it."""
        return self.entry / "initrd"

    @property
    def root(self) -> Path:
        """The root file system; guests write to overlays of it."""
        return self.entry / "root.ext4"

    @property
    def offered(self) -> Path:
        """A directory of packages with the index ``Packages``."""
        return self.entry / "offered"


def ensure(cache: Cache) -> BareImage:
    """Return the image; it is made on first use (about three minutes). Raises ``BuildError``."""

    def build(part: Path) -> None:
        root = part / "root"
        _debootstrap(root)
        (root / "lab-offered").rename(part / "offered")
        index(part / "offered")
        _prepare(root)
        for name, pattern in (("vmlinuz", "vmlinuz-*"), ("initrd", "initrd.img-*")):
            (found,) = (root / "boot").glob(pattern)
            shutil.copyfile(found, part / name)
        trees.make_ext4(part / "root.ext4", ROOT_MIB, root, journal=True)
        shutil.rmtree(root)

    wanted = (*INSTALLED, *OFFERED)
    key = digest(
        [
            *wanted,
            mirror.candidates(wanted),
            (trees.OVERLAY / "root" / AGENT).read_bytes(),
            digest_files(Path(__file__).parent, [Path("image.py")]),
        ]
    )
    return BareImage(cache.entry("bare", key, build))


def index(directory: Path) -> None:
    """Write ``Packages`` for the .deb files of a directory, as apt reads it."""
    rows = []
    for package in sorted(directory.glob("*.deb")):
        about = _run("dpkg-deb", "--field", str(package)).strip()
        digested = hashlib.sha256(package.read_bytes()).hexdigest()
        size = package.stat().st_size
        rows.append(f"{about}\nFilename: ./{package.name}\nSize: {size}\nSHA256: {digested}\n")
    (directory / "Packages").write_text("\n".join(rows))


def _debootstrap(root: Path) -> None:
    log = root.parent / "mmdebstrap.log"
    argv = ["mmdebstrap", "--mode=root", "--variant=important", "--dpkgopt=force-unsafe-io"]
    argv += [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in ("doc", "info", "man")]
    argv += ["--customize-hook=" + _OFFER.format(packages=" ".join(OFFERED))]
    argv += ["--include=" + ",".join(INSTALLED), packages.GUEST_SUITE, str(root)]
    argv += [f"deb {mirror.debian_archive()} {packages.GUEST_SUITE} main"]
    with log.open("wb") as out:
        done = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        tail = " | ".join(log.read_text(errors="replace").splitlines()[-6:])
        raise BuildError(f"mmdebstrap failed ({done.returncode}), as root? {tail}")


def _prepare(root: Path) -> None:
    """The agent, and nothing of this machine's own configuration of apt."""
    (root / AGENT).parent.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(trees.OVERLAY / "root" / AGENT, root / AGENT)
    unit = root / "etc" / "systemd" / "system" / "lab-agent.service"
    unit.write_text(_AGENT_UNIT)
    wanted = unit.parent / "multi-user.target.wants"
    wanted.mkdir(exist_ok=True)
    (wanted / unit.name).symlink_to(f"../{unit.name}")
    (root / "etc" / "apt" / "sources.list").write_text("")
    (root / "etc" / "resolv.conf").unlink(missing_ok=True)
    (root / "etc" / "hostname").write_text("")
    for name in ("var/cache/apt", "var/lib/apt/lists"):
        shutil.rmtree(root / name)
        (root / name).mkdir()


def _run(*argv: str) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip()[-300:]}")
    return done.stdout
