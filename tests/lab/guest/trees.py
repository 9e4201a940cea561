"""Debian trees for the rack: a QEMU young enough for vfio-user, and the root of the guests."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from tests.lab.errors import BuildError
from tests.lab.guest import initramfs, mirror, packages
from tests.lab.guest.cache import Cache, digest, digest_files
from tests.lab.guest.image import PLAIN, Image

OVERLAY: Final = Path(__file__).parent / "overlay"
PERSISTENT: Final = (
    "etc/libvirt",
    "etc/lvm",
    "etc/mdadm",
    "etc/nvme",
    "etc/nvme-eraser",
    "etc/udev/rules.d",
    "var/lib/nvme-eraser",
)
"""Directories of a guest that are on its own disk and so survive a power cut."""
_EXCLUDED: Final = ("doc", "info", "locale", "man")
# Fetches the kernel that the meta package stands for, without installing it: its maintainer
# scripts would build an initramfs that nobody boots.
_FETCH_KERNEL: Final = (
    'export APT_CONFIG="$MMDEBSTRAP_APT_CONFIG"; cd "$1" && mkdir lab-kernel && cd lab-kernel && '
    "apt-get -q download \"$(apt-cache depends {meta} | sed -n 's/.*Depends: //p' "
    '| grep ^linux-image | head -n 1)"'
)


def qemu_tree(cache: Cache) -> Path:
    """Return the root of a Debian tree that holds QEMU and every library that it needs."""
    suites = (packages.QEMU_SUITE, packages.QEMU_BACKPORTS)
    include = [f"{name}/{packages.QEMU_BACKPORTS}" for name in packages.QEMU_PACKAGES]
    # Unpacked only: it is run by its own loader, so nothing in it needs configuration.
    options = ["--variant=extract"]

    def build(part: Path) -> None:
        archive = mirror.debian_archive()
        sources = [f"deb {archive} {suite} main" for suite in suites]
        _mmdebstrap(part / "root", packages.QEMU_SUITE, include, sources, options)

    return cache.entry("qemu", digest([*suites, *include, *options]), build) / "root"


def guest_base(cache: Cache, image: Image = PLAIN) -> Path:
    """Return the entry with ``vmlinuz``, ``initramfs.gz``, ``root.ext4`` and ``skeleton``.

    The skeleton holds the guest's own copy of the directories that survive a power cut
    (``payload.PERSISTENT``), taken from the root file system.
    """

    def build(part: Path) -> None:
        archive = mirror.debian_archive()
        root = part / "root"
        _mmdebstrap(
            root,
            packages.GUEST_SUITE,
            image.packages,
            [f"deb {archive} {packages.GUEST_SUITE} main"],
            [
                "--variant=minbase",
                "--customize-hook=" + _FETCH_KERNEL.format(meta=packages.GUEST_KERNEL),
            ],
        )
        _install_kernel(root, part)
        shutil.copytree(OVERLAY / "root", root, symlinks=True, dirs_exist_ok=True)
        _prepare(root)
        make_ext4(part / "root.ext4", image.root_mib, root, journal=False)
        skeleton = part / "skeleton"
        for name in PERSISTENT:
            shutil.copytree(root / name, skeleton / name, symlinks=True)
        shutil.rmtree(root)

    files = [path.relative_to(OVERLAY) for path in OVERLAY.rglob("*") if path.is_file()]
    key = digest(
        [
            *image.packages,
            str(image.root_mib),
            *packages.INITRAMFS_MODULES,
            *PERSISTENT,
            mirror.candidates((*image.packages, packages.GUEST_KERNEL)),
            digest_files(OVERLAY, files),
            digest_files(Path(__file__).parent, [Path("trees.py"), Path("initramfs.py")]),
        ]
    )
    return cache.entry(image.name, key, build)


def make_ext4(image: Path, size_mib: int, tree: Path | None, *, journal: bool) -> None:
    """Make an ext4 image of a fixed size (sparse), filled from a tree."""
    argv = ["mke2fs", "-q", "-F", "-t", "ext4", "-m", "0", "-E", "root_owner=0:0,nodiscard"]
    argv += [] if journal else ["-O", "^has_journal"]
    argv += ["-d", str(tree)] if tree is not None else []
    _run([*argv, str(image), f"{size_mib}M"])


def _mmdebstrap(
    target: Path,
    suite: str,
    include: Sequence[str],
    sources: Sequence[str],
    options: Sequence[str],
) -> None:
    log = target.parent / "mmdebstrap.log"
    excluded = [f"--dpkgopt=path-exclude=/usr/share/{name}/*" for name in _EXCLUDED]
    argv = [
        "mmdebstrap",
        "--mode=root",
        "--aptopt=APT::Install-Recommends false",
        "--dpkgopt=force-unsafe-io",
        *excluded,
        *options,
        "--include=" + ",".join(include),
        suite,
        str(target),
        *sources,
    ]
    with log.open("wb") as out:
        done = subprocess.run(argv, stdout=out, stderr=subprocess.STDOUT, check=False)
    if done.returncode != 0:
        tail = " | ".join(log.read_text(errors="replace").splitlines()[-6:])
        raise BuildError(f"mmdebstrap of {suite} failed ({done.returncode}), as root? {tail}")


def _install_kernel(root: Path, part: Path) -> None:
    downloaded = root / "lab-kernel"
    found = sorted(downloaded.glob("linux-image-*.deb"))
    if len(found) != 1:
        raise BuildError(f"expected one kernel package behind {packages.GUEST_KERNEL}, got {found}")
    unpacked = part / "kernel"
    _run(["dpkg-deb", "-x", str(found[0]), str(unpacked)])
    shutil.rmtree(downloaded)
    (image,) = (unpacked / "boot").glob("vmlinuz-*")
    image.rename(part / "vmlinuz")
    shutil.move(unpacked / "lib" / "modules", root / "usr" / "lib" / "modules")
    shutil.rmtree(unpacked)
    (modules,) = (root / "usr" / "lib" / "modules").iterdir()
    _run(["depmod", "-b", str(root), modules.name])
    initramfs.build(modules, OVERLAY / "initramfs", part / "initramfs.gz")


def _prepare(root: Path) -> None:
    for name in (*PERSISTENT, "opt/site", "opt/src", "opt/state", "mnt"):
        (root / name).mkdir(parents=True, exist_ok=True)
    mtab = root / "etc" / "mtab"
    mtab.unlink(missing_ok=True)
    mtab.symlink_to("../proc/self/mounts")
    for name in ("var/cache/apt", "var/lib/apt/lists", "dev"):
        shutil.rmtree(root / name)
        (root / name).mkdir()


def _run(argv: Sequence[str]) -> None:
    done = subprocess.run(argv, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise BuildError(f"{argv[0]} failed ({done.returncode}): {done.stderr.strip()[-300:]}")
