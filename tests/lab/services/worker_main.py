"""``nvme-eraser worker`` on the machine that the tests run on, which may be a container.

That has a PID namespace of its own, where the worker refuses to start, and no drive that it could
do harm to. Argument: the worker's file.
"""

import logging
import sys
from pathlib import Path

from eraser.cli import worker
from eraser.host.proc import ALL_PIDS
from eraser.host.sysfs import Host


class _Machine(Host):
    """As if /proc listed every process of it."""

    def link(self, absolute: str) -> str | None:
        return ALL_PIDS if absolute == "/proc/self/ns/pid" else super().link(absolute)


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    worker.serve([Path(sys.argv[1])], _Machine())
