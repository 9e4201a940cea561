"""``python -m tests.lab.demo``: what ``tools/demo`` runs once everything is installed."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
from pathlib import Path

from quarantine.record.words.states import State
from tests.lab.demo.board import Board
from tests.lab.demo.cycle import Demo
from tests.lab.demo.result import DemoResult
from tests.lab.demo.served import Served
from tests.lab.errors import LabError
from tests.lab.nvme import presets
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.presetkind import Event, Expected, Preset

EXIT_FAILED = 1
EXIT_BAD_INPUT = 2
PLAIN, LIAR = "honest", "lying"


def _arguments(argv: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="tools/demo",
        description=(
            "The whole cycle on an emulated rack: two slots are enrolled and erased, a tenant "
            "uses both drives, the instance is deleted, the drives go through quarantine, and a "
            "second tenant searches them for the first one's data."
        ),
        epilog=(
            "Exit codes: 0 it went as it should (with a bad drive: its slot ended held), "
            "1 it did not, 2 bad input."
        ),
    )
    parser.add_argument(
        "--drive",
        metavar="NAME",
        help="the drive in the second slot (with --serve: in the fourth), 'list' names them all "
        f"(default: {PLAIN}; with --serve: {LIAR})",
    )
    parser.add_argument(
        "--serve",
        action="store_true",
        help="keep a site of four drives running, with API and Prometheus on loopback, and play "
        "tenants that come and go, until Ctrl-C",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=1,
        help="with --serve: decides who comes when, and with how many drives (default: 1)",
    )
    parser.add_argument(
        "--nova",
        action="store_true",
        help="with the real Nova's daemons and RabbitMQ in the place of Nova's stand-in; a fake "
        "hypervisor driver, Glance and Neutron still are stand-ins",
    )
    parser.add_argument(
        "-f",
        "--format",
        choices=("table", "json"),
        default="table",
        help="json: one object on standard output, the story on standard error",
    )
    parser.add_argument(
        "--directory",
        type=Path,
        help="where logs and certificates are kept (default: a new directory below TMPDIR)",
    )
    return parser.parse_args(argv)


def _list() -> None:
    for preset in presets.PRESETS.values():
        kind = "honest" if preset.honest else "bad"
        print(f"{preset.name:22} {kind:7} {preset.expected:7} {preset.about}")


def _summary(board: Board, result: DemoResult) -> None:
    board.say("summary", title=True)
    for slot in result.slots:
        board.say(f"  {slot.slot} ({slot.serial!r}): {slot.state}  {slot.reason}")
        if slot.certificate:
            board.say(f"    {', '.join(slot.method)}; {slot.verification}")
            board.say(f"    certificate {slot.certificate}")
            board.say(f"    to print    {slot.page}")
    board.say(f"  blocks of the first tenant's data with the second: {result.leaked_blocks}")
    times = ", ".join(f"{name} {value:.1f}" for name, value in result.seconds.items())
    board.say(f"  seconds: {times}")
    board.say(f"  everything is kept in {result.directory}")


def _as_expected(result: DemoResult, preset: Preset) -> str:
    """Empty, or what went wrong."""
    if result.leaked_blocks or result.found_by_tenant:
        return "the second tenant got data of the first"
    good, tried = result.slots
    if good.state is not State.AVAILABLE:
        return f"the honest drive of {good.slot} was not returned: {good.reason}"
    if preset.event is Event.RETURN and tried.state is State.HELD:
        return ""  # it vanished in the middle of a case: a person may look first
    if preset.expected is Expected.ERASED and tried.state is not State.AVAILABLE:
        return f"the honest drive of {tried.slot} was not returned: {tried.reason}"
    if preset.expected is Expected.HELD and tried.state is not State.HELD:
        return f"the bad drive of {tried.slot} ended {tried.state}, not held"
    return ""


def _serve(directory: Path, board: Board, preset: Preset, seed: int) -> int:
    """Until somebody ends it. A kill by its number is as good as Ctrl-C, which a shell has its
    background jobs ignore."""
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.default_int_handler)
    try:
        Served(directory, board, preset.name, seed).run()
    except KeyboardInterrupt:
        board.say(f"ended; logs are kept in {directory}", title=True)
        return 0
    except LabError as error:
        board.say(f"failed: {error}")
    board.say(f"logs are kept in {directory}")
    return EXIT_FAILED


def main(argv: list[str] | None = None) -> int:
    """Runs the demo; returns the exit code."""
    arguments = _arguments(argv)
    if arguments.drive == "list":
        _list()
        return 0
    if arguments.serve and (arguments.nova or arguments.format == "json"):
        print("expected --serve alone, found it with --nova or -f json", file=sys.stderr)
        return EXIT_BAD_INPUT
    name = arguments.drive or (LIAR if arguments.serve else PLAIN)
    try:
        preset = presets.preset(name)
    except DriveError:
        print(f"expected a drive that --drive list names, found {name!r}", file=sys.stderr)
        return EXIT_BAD_INPUT
    directory = arguments.directory or Path(tempfile.mkdtemp(prefix="nvme-quarantine-demo-"))
    directory.mkdir(parents=True, exist_ok=True)
    board = Board()
    if arguments.serve:
        return _serve(directory, board, preset, arguments.seed)
    try:
        result = Demo(directory, board, preset, nova=arguments.nova).run()
    except LabError as error:
        board.say(f"failed: {error}")
        board.say(f"logs are kept in {directory}")
        return EXIT_FAILED
    _summary(board, result)
    wrong = _as_expected(result, preset)
    if arguments.format == "json":
        print(json.dumps(result.plain(), indent=2))
    if wrong:
        board.say(f"FAILED: {wrong}", title=True)
        return EXIT_FAILED
    held = [slot.slot for slot in result.slots if slot.state is State.HELD]
    verdict = f"held, never available: {', '.join(held)}" if held else "both drives are available"
    board.say(f"as it should be: {verdict}", title=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
