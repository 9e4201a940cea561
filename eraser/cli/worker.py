"""``nvme-eraser keygen`` and ``nvme-eraser worker``: the host as a part of a cloud."""

from __future__ import annotations

import argparse
import logging
import socket
from pathlib import Path
from typing import TYPE_CHECKING

from eraser.errors import BadInputError
from eraser.protocol import codec
from eraser.state.case_files import DEFAULT_STATE_DIR

if TYPE_CHECKING:
    from eraser.host.sysfs import Host

DEFAULT_CONFIG = Path("/etc/nvme-eraser/worker.conf")


def add_arguments(parser: argparse.ArgumentParser, verb: str) -> None:
    """The options of either verb."""
    if verb == "keygen":
        parser.add_argument(
            "--host",
            default=socket.gethostname(),
            metavar="NAME",
            help="as Nova's hypervisor list has it (default: %(default)s)",
        )
        parser.add_argument("--state-dir", type=Path, default=DEFAULT_STATE_DIR, metavar="DIR")
        return
    parser.add_argument(
        "--config-file",
        type=Path,
        action="append",
        default=[],
        metavar="FILE",
        help=f"repeatable, later ones win (default: {DEFAULT_CONFIG})",
    )


def run(arguments: argparse.Namespace) -> int:
    """Either verb. Raises ``EraserError``."""
    # Neither cryptography nor Celery is wanted by the verbs that run stand-alone.
    if hasattr(arguments, "state_dir"):
        from eraser.agent import hoststate

        card = hoststate.keygen(arguments.state_dir, arguments.host)
        print(codec.canonical(card).decode())
        return 0
    from eraser.host.sysfs import Host

    serve(arguments.config_file or [DEFAULT_CONFIG], Host())
    return 0


def serve(config_files: list[Path], host: Host) -> None:
    """Runs the worker of ``host`` until it is told to end. Raises ``EraserError``."""
    from eraser.agent import conf, memory
    from eraser.agent.hoststate import HostState
    from eraser.agent.worker import Worker
    from eraser.host import proc

    settings = conf.load(config_files)
    # Before anything is started: beyond its limit the kernel would end runners again and again.
    memory.check(host, settings.max_running)
    # No case could begin, and no defence be known: a hello would say so of a host that is well.
    if why := proc.blind(host):
        raise BadInputError(f"the worker does not start: {why}")
    logging.getLogger().setLevel(logging.INFO)
    Worker(settings, HostState(settings.state_dir), host).run()
