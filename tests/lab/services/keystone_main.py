"""``python -m tests.lab.services.keystone_main PORT``: a real Keystone on loopback.

``OS_KEYSTONE_CONFIG_FILES`` names its configuration. Its Python may have nothing of ours but this
and the server beside it.
"""

from __future__ import annotations

import sys

from tests.lab.services.wsgi import serve


def main() -> None:
    """Serve until killed."""
    port = int(sys.argv.pop())  # Keystone reads the command line too
    from keystone.server.wsgi import initialize_public_application

    serve(initialize_public_application(), port)


if __name__ == "__main__":
    main()
