"""Serve the real Placement API (the ``placement`` package) on loopback; run as a process.

Usage: ``OS_PLACEMENT_CONFIG_DIR=DIR python -m tests.lab.services.placement_main PORT``
"""

from __future__ import annotations

import sys
import threading
from typing import Any

from tests.lab.services.wsgi import serve


def one_at_a_time(application: Any) -> Any:
    """Requests wait for each other, as they would for rows of a database server.

    SQLite has one writer, and a transaction that read before it wants to write gets "database is
    locked" at once, whatever the timeout: an Internal Error that Nova mends a minute later.
    """
    alone = threading.Lock()

    def take(environ: Any, start_response: Any) -> list[bytes]:
        with alone:
            return list(application(environ, start_response))

    return take


def main(argv: list[str]) -> int:
    """Serve until killed."""
    from placement.wsgi import init_application

    serve(one_at_a_time(init_application()), int(argv[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
