"""The last gate as libvirt's hook calls it: what it lets in or refuses is also in the syslog.

A guest waits while this and all that it imports is loaded: tests/unit/gate/test_door.py has the
list of it.
"""

from __future__ import annotations

import sys
import syslog
from pathlib import Path

from eraser.errors import EraserError
from eraser.gate import admit
from eraser.host.sysfs import Host

MAX_DOMAIN_BYTES = 16 << 20


def main(name: str, document: bytes, state_dir: str, run_dir: str, seconds: float) -> int:
    """Decides about a domain; the exit code, and why on standard error where it is refused."""
    try:
        let_in(name, document, Path(state_dir), Path(run_dir), Host(), seconds)
    except EraserError as error:
        print(f"nvme-eraser: {error}", file=sys.stderr)
        return error.exit_code
    return 0


def let_in(
    name: str, document: bytes, state_dir: Path, run_dir: Path, host: Host, seconds: float
) -> None:
    """Lets a domain (``name`` is for messages) start on all of its drives, or raises
    :class:`eraser.gate.admit.GateRefusedError`; within ``seconds``."""
    syslog.openlog("nvme-eraser", syslog.LOG_PID, syslog.LOG_DAEMON)
    try:
        if len(document) > MAX_DOMAIN_BYTES:
            raise admit.GateRefusedError(
                f"refused the start of domain {name!r}: expected at most {MAX_DOMAIN_BYTES} bytes, "
                "found more"
            )
        passed = admit.check(state_dir, run_dir, host, document, seconds)
    except admit.GateRefusedError as error:
        # Quoted: a domain's name in it may have what a log would show as a line of its own.
        syslog.syslog(syslog.LOG_WARNING, f"gate {str(error)!r}")
        raise
    for each in passed.admissions:
        syslog.syslog(
            syslog.LOG_NOTICE, f"gate let {passed.domain!r} in on {each.address} by {each.way}"
        )
