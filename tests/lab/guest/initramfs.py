"""The initramfs: busybox and the few modules that reach the root disk."""

import gzip
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import Final

from tests.lab.errors import BuildError
from tests.lab.guest.packages import INITRAMFS_MODULES

_BUSYBOX: Final = Path("/bin/busybox")


def load_order(modules_dep: str, wanted: tuple[str, ...]) -> list[str]:
    """Return module paths so that each one comes after those it needs.

    ``modules_dep`` is the text of depmod's ``modules.dep``: ``path: dependency dependency ...``.
    Raises ``BuildError`` for a module the kernel does not have.
    """
    needs: dict[str, list[str]] = {}
    by_name: dict[str, str] = {}
    for line in modules_dep.splitlines():
        path, _, rest = line.partition(":")
        needs[path] = rest.split()
        by_name[Path(path).name.split(".")[0]] = path
    order: list[str] = []

    def visit(path: str) -> None:
        for needed in needs[path]:
            visit(needed)
        if path not in order:
            order.append(path)

    for name in wanted:
        if name not in by_name:
            raise BuildError(f"expected module {name} in the guest kernel, found none")
        visit(by_name[name])
    return order


def build(modules: Path, overlay: Path, target: Path) -> None:
    """Write the compressed archive; ``modules`` is the kernel's ``/lib/modules/<version>``."""
    if not _BUSYBOX.exists():
        raise BuildError(f"expected {_BUSYBOX}, found none; install busybox-static")
    with tempfile.TemporaryDirectory(dir=target.parent) as name:
        tree = Path(name)
        shutil.copytree(overlay, tree, dirs_exist_ok=True)
        for directory in ("bin", "dev", "lib", "new", "proc"):
            (tree / directory).mkdir(exist_ok=True)
        shutil.copy(_BUSYBOX, tree / "bin" / "busybox")
        order = load_order((modules / "modules.dep").read_text(), INITRAMFS_MODULES)
        for path in order:
            shutil.copy(modules / path, tree / "lib")
        lines = [f"/lib/{Path(path).name}\n" for path in order]
        (tree / "modules.order").write_text("".join(lines))
        listing = "\n".join(p.relative_to(tree).as_posix() for p in sorted(tree.rglob("*")))
        packed = subprocess.run(
            ["cpio", "--quiet", "-o", "-H", "newc"],
            input=listing.encode(),
            cwd=tree,
            capture_output=True,
            check=False,
        )
        if packed.returncode != 0:
            raise BuildError(f"cpio failed: {packed.stderr.decode().strip()}")
        target.write_bytes(gzip.compress(packed.stdout, 1, mtime=0))
