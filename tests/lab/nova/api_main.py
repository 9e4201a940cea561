"""Serve the real nova-api (``nova.wsgi.osapi_compute``) on loopback; run as a process.

Usage: ``OS_NOVA_CONFIG_DIR=DIR python -m tests.lab.nova.api_main PORT``
"""

from __future__ import annotations

import sys

from tests.lab.services.wsgi import serve


def main(port: int) -> None:
    """Serve until killed."""
    # Nova reads the command line as its own.
    sys.argv = ["nova-api"]
    from nova.wsgi import osapi_compute

    serve(osapi_compute.application, port)


if __name__ == "__main__":
    main(int(sys.argv[1]))
