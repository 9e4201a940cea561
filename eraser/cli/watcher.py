"""``nvme-eraser watcher``: notices when drives vanish from their slots or are exchanged."""

from __future__ import annotations

import argparse
import logging
from pathlib import Path

from eraser.cli.output import Interrupted
from eraser.state.case_files import DEFAULT_RUN_DIR, DEFAULT_STATE_DIR


def add_arguments(parser: argparse.ArgumentParser, _verb: str) -> None:
    """The options."""
    parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
    parser.add_argument("--run-dir", type=Path, default=DEFAULT_RUN_DIR, metavar="DIR")
    parser.add_argument(
        "--source",
        choices=("kernel", "udev"),
        default="kernel",
        help="whose events; udev's come once its rules have run (default: %(default)s)",
    )


def run(arguments: argparse.Namespace) -> int:
    """Watches until SIGTERM, which is its regular end. Raises ``EraserError``."""
    from eraser.agent.watcher import KernelEvents, Watcher
    from eraser.host.sysfs import Host

    host = Host()

    logging.getLogger().setLevel(logging.INFO)
    watcher = Watcher(arguments.state_dir, arguments.run_dir, host)
    try:
        # Listening before the first look: nothing can happen between the two unseen.
        watcher.run(KernelEvents(arguments.source, host.clock))
    except Interrupted:
        return 0
    return 0
