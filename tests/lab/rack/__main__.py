"""A rack to look at by hand: ``python -m tests.lab.rack shell [--preset NAME ...]``.

Builds what is missing, starts a compute host with one drive per preset and runs what is typed in
it. The commands of each drive's own log can be followed beside it; their paths are printed.
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

_HELP = """Commands run in the guest (/bin/sh -c, as root). Lines that start with a colon are ours:
  :tenant   start an instance that gets all drives     :delete   end it
  :cut      cut the host's power and start it again    :console  the host's console
  :log      the drives' commands                       :quit"""


def main(arguments: list[str] | None = None) -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m tests.lab.rack", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", required=True)
    shell = verbs.add_parser("shell", help="type commands in a compute guest")
    shell.add_argument("--preset", action="append", help="drive to plug in (may be repeated)")
    shell.add_argument("--size-mib", type=int, default=1024, help="size of each drive")
    chosen = parser.parse_args(arguments)
    try:
        images = build.ensure(progress=lambda line: print(line, file=sys.stderr))
        with (
            tempfile.TemporaryDirectory(prefix="nvq-rack-") as directory,
            Rack(Path(directory), images) as rack,
        ):
            for slot, preset in enumerate(chosen.preset or ["honest"]):
                rack.drive(slot, preset=preset, size=chosen.size_mib << 20)
            _shell(rack, rack.compute())
    except LabError as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


def _shell(rack: Rack, compute: ComputeGuest) -> None:
    with contextlib.suppress(ImportError):
        # Line editing and history, where this Python has them.
        import readline  # noqa: F401
    print(f"{compute.name} is up, logs below {rack.directory}\n{_HELP}")
    for drive in rack.drives:
        print(f"  {drive.address}  {drive.preset}  serial {drive.serial}  log {drive.command_log}")
    while True:
        try:
            line = input(f"{compute.name}# ").strip()
        except EOFError:
            return
        except KeyboardInterrupt:
            print()
            continue
        if line == ":quit":
            return
        try:
            _execute(rack, compute, line)
        except LabError as error:
            print(f"error: {error}", file=sys.stderr)


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
    elif line.startswith(":"):
        print(_HELP)
    elif line:
        done = compute.run(["/bin/sh", "-c", line], check=False, timeout=3600)
        sys.stdout.write(done.stdout)
        sys.stderr.write(done.stderr)


if __name__ == "__main__":
    sys.exit(main())
