"""``python -m tests.lab.services.api_main PORT``: the product's HTTP API on loopback."""

from __future__ import annotations

import sys

from quarantine.wsgi.api import application
from tests.lab.services.wsgi import serve

if __name__ == "__main__":
    serve(application, int(sys.argv[1]))
