"""``quarantine.wsgi.api:application``, for a WSGI server: gunicorn, uWSGI, mod_wsgi.

Its configuration is that of ``nvme-quarantine``; ``NVME_QUARANTINE_CONFIG`` names other files, with
colons between them. What cannot work is said at the start, not with the first request.
"""

from __future__ import annotations

import atexit
import logging
import os
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from quarantine.api import application as pipeline
from quarantine.errors import BadInputError
from quarantine.logs import keep_audit, set_up_logging
from quarantine.metrics.alarmcount import AlarmCounter
from quarantine.operations.plane import ServingPlane
from quarantine.page.application import MOUNT

LOG = logging.getLogger(__name__)

_FILES = [Path(file) for file in os.environ.get("NVME_QUARANTINE_CONFIG", "").split(":") if file]
_PLANE = ServingPlane(_FILES)
_PIPELINE = pipeline.make(_PLANE, MOUNT)
_LOCK = threading.Lock()
_counting_in = 0
_counter: AlarmCounter | None = None


def application(environ: dict[str, Any], start: Any) -> Iterable[bytes]:
    """The API and its page. What a decision finds out may call people: they are counted as those
    of the service are."""
    _count_alarms()
    return _PIPELINE(environ, start)


def _count_alarms() -> None:
    """Once for each process: a server may have forked since this was loaded, and its threads
    stayed behind."""
    global _counter, _counting_in
    if _counting_in == os.getpid():
        return
    with _LOCK:
        if _counting_in != os.getpid():
            run = _PLANE.conf.run
            set_up_logging(run.log_level, run.log_format)
            try:
                keep_audit(run.audit_file, run.log_format)
            except BadInputError as error:
                LOG.error("%s; acts of people are refused until it can be written", error)
            if _counter is not None:
                _counter.leave()  # of the process before the fork, which counts for itself
            _counter = AlarmCounter(_PLANE.open_store)
            _counter.start()
            _counting_in = os.getpid()


@atexit.register
def _end_counting() -> None:
    """A worker that is replaced writes what it heard last."""
    if _counter is not None and _counting_in == os.getpid():
        _counter.end()
