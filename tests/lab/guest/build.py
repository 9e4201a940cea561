"""Build all that the rack boots: ``python -m tests.lab.guest.build [--cache DIR]``.

Everything is cached by content; a second run takes no time, an interrupted one goes on where it
was. Needs root (Debian's package scripts do) and the packages of ``packages.HOST_PACKAGES``.
"""

import argparse
import os
import shutil
import sys
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

from tests.lab.errors import BuildError, LabError
from tests.lab.guest import packages, payload, qemu, snapshot, trees
from tests.lab.guest.argv import DEFAULT, SHORT_TIMEOUTS, Flavour
from tests.lab.guest.cache import Cache
from tests.lab.guest.image import PLAIN, Image

_PROGRAMS: Final = {
    "mmdebstrap": "mmdebstrap",
    "qemu-img": "qemu-utils",
    "mke2fs": "e2fsprogs",
    "cpio": "cpio",
    "busybox": "busybox-static",
    "setpriv": "util-linux",
    "depmod": "kmod",
}
_FLAVOURS: Final = {flavour.name: flavour for flavour in (DEFAULT, SHORT_TIMEOUTS)}

Progress = Callable[[str], None]
T = TypeVar("T")


@dataclass(frozen=True)
class Images:
    """Everything that guests are started from."""

    cache: Cache
    qemu: qemu.Qemu
    accel: str
    plain: Path
    """The entry of the plain image."""
    site: Path

    def sources(self) -> Path:
        """Return the image of the project's packages as they are at this moment."""
        return payload.sources_image(self.cache)

    def saved(self, flavour: Flavour) -> snapshot.Saved:
        """Return the saved state of a flavour; it is made on first use (about 10 s)."""
        base = self.base(flavour.image)
        return snapshot.ensure(self.cache, self.qemu, self.accel, base, flavour)

    def base(self, image: Image) -> Path:
        """Return an image's entry: kernel, initramfs and root. It is made on first use."""
        return self.plain if image == PLAIN else trees.guest_base(self.cache, image)

    def state(self, image: Image) -> Path:
        """Return the template of the persistent disk of an image's guests."""
        return payload.state_template(self.cache, self.base(image))


def ensure(cache: Cache | None = None, progress: Progress | None = None) -> Images:
    """Build what is missing and return it all. Raises ``BuildError``."""
    cache = cache or Cache()
    say = progress or _silent
    _check_programs()

    with ThreadPoolExecutor(3) as pool:
        finding = pool.submit(_timed, say, "QEMU", lambda: qemu.find(cache))
        basing = pool.submit(_timed, say, "guest image", lambda: trees.guest_base(cache))
        siting = pool.submit(_timed, say, "Python packages", lambda: payload.site_image(cache))
        found, base, site = finding.result(), basing.result(), siting.result()
    accel = _timed(say, "accelerator", lambda: qemu.accelerator(cache, found, base))
    images = Images(cache, found, accel, base, site)
    _timed(say, "state disk", lambda: images.state(PLAIN))
    return images


def _timed(say: Progress, what: str, build: Callable[[], T]) -> T:
    began = time.monotonic()
    result = build()
    say(f"{what}: ready after {time.monotonic() - began:.1f} s")
    return result


def _silent(_line: str) -> None:
    """Report nothing."""


def _check_programs() -> None:
    path = os.environ.get("PATH", "") + ":/usr/sbin:/sbin"
    missing = sorted({pkg for name, pkg in _PROGRAMS.items() if not shutil.which(name, path=path)})
    if missing:
        raise BuildError(
            f"expected {', '.join(missing)} on this machine; "
            f"run: apt-get install {' '.join(packages.HOST_PACKAGES)}"
        )
    if os.geteuid() != 0:
        raise BuildError("expected to run as root (package scripts need it), found another user")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.guest.build", description=__doc__)
    parser.add_argument("--cache", type=Path, help="directory of built things")
    parser.add_argument(
        "--flavour",
        choices=sorted(_FLAVOURS),
        action="append",
        help="machine whose state to save (default: all)",
    )
    chosen = parser.parse_args(arguments)
    began = time.monotonic()

    def say(line: str) -> None:
        print(f"[{time.monotonic() - began:6.1f} s] {line}", flush=True)

    waiting: list[Future[snapshot.Saved]] = []
    try:
        images = ensure(Cache(chosen.cache), say)
        _timed(say, "project packages", images.sources)
        with ThreadPoolExecutor(2) as pool:
            for name in chosen.flavour or sorted(_FLAVOURS):
                save = partial(images.saved, _FLAVOURS[name])
                waiting.append(pool.submit(_timed, say, f"saved state {name!r}", save))
        for saved in waiting:
            saved.result()
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    say(f"QEMU {images.qemu.version}, accelerator {images.accel}, cache {images.cache.root}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
