"""What a second tenant's own Linux gets of its drives; runs in the tenant's guest.

By the block layer and nvme-cli, as any tenant does. Prints a JSON object: for each act that got
something of the first tenant's, how many sectors. Of the lab's modules ``marks`` alone is there.
"""

import glob
import json
import mmap
import os
import random
import subprocess

from tests.lab.nvme.composed.marks import marks_in

_PLACES = 256


class _Disk:
    """Direct reads; what cannot be read is passed over."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_RDONLY | os.O_DIRECT)
        self.size = os.lseek(self._fd, 0, os.SEEK_END)
        self._window = mmap.mmap(-1, 128 << 10)

    def look(self, offset: int, length: int) -> set[int]:
        """Numbers of the first tenant's sectors there."""
        with memoryview(self._window) as whole, whole[:length] as part:
            try:
                got = os.preadv(self._fd, [part], offset)
            except OSError:
                return set()
            return set(marks_in(bytes(part[:got])))

    def close(self) -> None:
        """The kernel looks at a disk again once nobody has it open."""
        os.close(self._fd)


def _read_all(found: dict[str, int], when: str) -> None:
    for path in sorted(glob.glob("/dev/nvme*n[0-9]")):
        disk = _Disk(path)
        rng = random.Random(path)  # noqa: S311 - places, no secrets
        sectors = [rng.randrange(disk.size // 512) * 512 for _ in range(_PLACES)]
        pages = [offset // 4096 * 4096 for offset in sectors]
        ways = {
            "single sectors": (sectors, 512),
            "pages in no order": (pages, 4096),
            "upwards": (range(0, disk.size, 128 << 10), 128 << 10),
            "backward": (sorted(pages, reverse=True), 4096),
        }
        for name, (offsets, length) in ways.items():
            got = set[int]().union(*(disk.look(offset, length) for offset in offsets))
            if got:
                act = f"{name}, {when}"
                found[act] = found.get(act, 0) + len(got)
        disk.close()


def _run(*argv: str) -> None:
    subprocess.run(argv, check=False, capture_output=True, timeout=120)


def main() -> None:
    """Read, reset, read, make a file system, read."""
    found: dict[str, int] = {}
    _read_all(found, "as it came")
    for control in glob.glob("/dev/nvme[0-9]"):
        _run("nvme", "reset", control)
    _run("udevadm", "settle", "-t", "60")
    _read_all(found, "after a controller reset")
    for path in glob.glob("/dev/nvme*n[0-9]"):
        _run("mke2fs", "-q", "-F", path)
    _read_all(found, "after mke2fs")
    print(json.dumps(found))


if __name__ == "__main__":
    main()
