"""Serve the real Placement API (the ``placement`` package) on loopback; run as a process.

Usage: ``OS_PLACEMENT_CONFIG_DIR=DIR python -m tests.lab.services.placement_main PORT``
"""

from __future__ import annotations

import sys

from tests.lab.services.wsgi import serve


def main(argv: list[str]) -> int:
    """Serve until killed."""
    from placement.wsgi import init_application

    serve(init_application(), int(argv[0]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
