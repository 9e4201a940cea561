"""``quarantine.wsgi.api:application``, for a WSGI server: gunicorn, uWSGI, mod_wsgi.

Its configuration is that of ``nvme-quarantine``; ``NVME_QUARANTINE_CONFIG`` names other files, with
colons between them. What cannot work is said at the start, not with the first request.
"""

from __future__ import annotations

import os
from pathlib import Path

from quarantine.api import application as pipeline
from quarantine.operations.plane import ServingPlane

_FILES = [Path(file) for file in os.environ.get("NVME_QUARANTINE_CONFIG", "").split(":") if file]

application = pipeline.make(ServingPlane(_FILES))
