"""What an nvme-cli has to be told so that it sends a command once.

2.14 to 2.16 send a command again, without an end, where the kernel answers EINTR or EAGAIN
(nvme_submit_passthru in their logging.c). The kernel answers EINTR for a command that it gave up
(nvme_execute_rq in drivers/nvme/host/core.c): the drive may have executed that, and our journal and
report would know of one. 2.15 and 2.16 can be told not to; 2.13 and 3.0 do not do it.
"""

from __future__ import annotations

import errno
import re

from eraser.host.sysfs import Host

ONCE = ("--no-retries",)

_VERSION = re.compile(r"nvme version (\d+)\.(\d+)")
_SECONDS = 10.0


def version(host: Host) -> str:
    """How it calls itself. Raises ``OSError`` where it does not say: its disk may stand still, or
    it is just being replaced."""
    said = host.processes.run((host.nvme, "version"), timeout=_SECONDS)
    if said.exit_code != 0:
        raise OSError(errno.EAGAIN, f"expected {host.nvme} to tell its version, found no answer")
    return said.stdout.decode("ascii", "replace").split("\n", 1)[0].strip()


def once(called: str) -> tuple[str, ...]:
    """The options for a command of the version that calls itself so."""
    found = _VERSION.match(called)
    return ONCE if found and (2, 15) <= (int(found[1]), int(found[2])) < (3, 0) else ()
