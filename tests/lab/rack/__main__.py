"""A rack to look at by hand: ``python -m tests.lab.rack [PRESET ...]``, or ``tools/shell``.

Builds what is missing, starts a compute host with one drive for each preset, and opens a shell in
it. The commands of each drive's own log can be followed beside it; their paths are printed.
``--attach DIR`` opens one in a guest that a failed test has kept (pytest --keep).
"""

import argparse
import contextlib
import sys
import tempfile
from pathlib import Path

from tests.lab.errors import LabError
from tests.lab.guest import build
from tests.lab.rack.guests import ComputeGuest
from tests.lab.rack.rack import Rack
from tests.lab.rack.shell import Attached, interact

_HELP = """Ctrl-] leaves the shell; here are then:
  :tenant   start an instance that gets all drives     :delete   end it
  :cut      cut the host's power and start it again    :console  the host's console
  :log      the drives' commands                       :shell    the shell again
  :quit"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; its exit code is the shell's."""
    parser = argparse.ArgumentParser(
        prog="tools/shell", description=__doc__, formatter_class=argparse.RawTextHelpFormatter
    )
    parser.add_argument("preset", nargs="*", help="drive to plug in: tools/demo --drive list")
    parser.add_argument("--size-mib", type=int, default=1024, help="size of each drive")
    parser.add_argument("--attach", type=Path, metavar="DIR", help="a kept rack's directory")
    parser.add_argument("--guest", help="with --attach: which guest, else the first")
    chosen = parser.parse_args(arguments)
    try:
        if chosen.attach is not None:
            return _attached(chosen.attach, chosen.guest)
        return _booted(chosen.preset or ["honest"], chosen.size_mib << 20)
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1


def _attached(directory: Path, name: str | None) -> int:
    with contextlib.closing(Attached(directory, name)) as guest:
        others = f" (others: {', '.join(guest.others)})" if guest.others else ""
        print(f"{guest.name}{others}: it ends when you leave, with 'exit' or Ctrl-]", flush=True)
        return interact(guest) or 0


def _booted(presets: list[str], size: int) -> int:
    images = build.ensure(progress=lambda line: print(line, file=sys.stderr))
    with (
        tempfile.TemporaryDirectory(prefix="nvq-rack-") as directory,
        Rack(Path(directory), images) as rack,
    ):
        for slot, preset in enumerate(presets):
            rack.drive(slot, preset=preset, size=size)
        compute = rack.compute()
        print(f"{compute.name} is up, logs below {rack.directory}")
        for drive in rack.drives:
            print(
                f"  {drive.address}  {drive.preset}  serial {drive.serial}  log {drive.command_log}"
            )
        print("'exit' ends it, Ctrl-] leaves the shell for commands to the rack", flush=True)
        return _shell(rack, compute)


def _shell(rack: Rack, compute: ComputeGuest) -> int:
    while True:
        code = interact(compute)
        if code is not None:
            return code
        print(f"\n{_HELP}")
        while (line := _read("rack: ")) != ":shell":
            if line == ":quit":
                return 0
            try:
                _execute(rack, compute, line)
            except LabError as error:
                print(f"error: {error}", file=sys.stderr)


def _read(prompt: str) -> str:
    try:
        return input(prompt).strip()
    except (EOFError, KeyboardInterrupt):
        return ":quit"


def _execute(rack: Rack, compute: ComputeGuest, line: str) -> None:
    if line == ":tenant":
        print(f"started {rack.tenant(rack.drives).name}")
    elif line == ":delete":
        for tenant in rack.tenants():
            rack.delete(tenant)
    elif line == ":cut":
        rack.power_cut(compute)
        rack.power_on(compute)
    elif line == ":console":
        print(compute.console_tail())
    elif line == ":log":
        for drive in rack.drives:
            print(drive.command_tail())
    elif line:
        print(_HELP)


if __name__ == "__main__":
    sys.exit(main())
