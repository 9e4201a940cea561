"""The verb that listens to Nova."""

from __future__ import annotations

import argparse
import logging
import threading

from quarantine.assembly import Assembly
from quarantine.cliservice import on_signals, set_up_logging
from quarantine.cliverb import Verb


def _listener(assembly: Assembly, args: argparse.Namespace) -> int:
    from quarantine.listener import listen  # an optional extra stands behind it

    set_up_logging(assembly.conf.run.log_level)
    # Who loads oslo.messaging's drivers; what it cannot load, we say ourselves.
    logging.getLogger("stevedore").setLevel(logging.ERROR)
    stop = threading.Event()
    on_signals(stop.set)
    listen(assembly.conf.notifications, assembly.lists.ring, stop)
    return 0


VERBS = (
    Verb(
        "listener",
        "listen to Nova's notifications and ring the bell for what they may have released",
        _listener,
        formatted=False,
    ),
)
