"""The same drives, with the same tenant's data, given to others in the same guest, and to us.

A drive is let through when the tool calls its work a success; what the next tenant could then read
is counted on the backing file, from outside. Results are kept as they come, and the same command
goes on where an earlier one ended.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final

from benchmarks.peers import page
from benchmarks.peers.others import FLAVOUR, IRONIC, PEERS, Peer
from benchmarks.peers.row import Row
from benchmarks.zoo import result
from benchmarks.zoo.eraser import erase
from benchmarks.zoo.scene import Scene, scene
from tests.lab.errors import GuestError, LabError
from tests.lab.guest import build, payload
from tests.lab.nvme.errors import DriveError
from tests.lab.nvme.presetkind import Event, Preset
from tests.lab.nvme.presets import preset

_KEPT: Final = Path(".zoo/peers.jsonl")
OURS: Final = "nvme-quarantine"
HANG_S: Final = 240.0
DRIVES: Final = (
    "honest",
    "honest-4k",
    "namespaces",
    "format-only",
    "p4510",
    "pm1733",
    "ns-detached",
    "ns-tiny",
    "lying",
    "lying-stale",
    "partial",
    "canary-eater",
    "spares-first",
    "spares-namespace",
    "returns-after-reset",
    "anothers-success",
    "sanitize-fails",
    "reflashed",
)
"""Of each kind some: honest, two models as they are sold, left by a tenant, lying."""


def _say(text: str) -> None:
    print(f"{time.strftime('%H:%M:%S')} {text}", file=sys.stderr, flush=True)


# The kernel looks for namespaces after it has the controller: a tool that comes before has no disk.
_DISKS: Final = """
for try in $(seq 50); do
    wanted=$(nvme list-ns /dev/{controller} 2>/dev/null | wc -l)
    [ $(ls -d /dev/{controller}n* 2>/dev/null | wc -l) -ge $wanted ] && break
    sleep 0.2
done
udevadm settle -t 60
ls -d /dev/{controller}n* 2>/dev/null || true
"""


def _by_peer(made: Scene, peer: Peer) -> tuple[bool, float, str]:
    controller = made.compute.controller(made.address)
    listed = made.compute.sh(_DISKS.format(controller=controller)).stdout.split()
    begun = time.monotonic()
    process = made.compute.spawn(peer.argv(controller, listed))
    try:
        code = process.wait(HANG_S)
    except GuestError:
        process.kill()
        return False, time.monotonic() - begun, "it did not end"
    seconds = time.monotonic() - begun
    lines = (process.stderr() or process.stdout()).strip().splitlines()
    return code == 0, seconds, f"exit code {code}" + (f": {lines[-1][-200:]}" if lines else "")


def run_one(tool: str, chosen: Preset, images: build.Images) -> Row:
    """One tool on one drive. Raises ``LabError`` where the rack fails."""
    with scene(chosen, images=images, flavour=FLAVOUR) as made:
        if tool == OURS:
            answer = erase(made)
            released, seconds = answer.released, answer.seconds
            said = "; ".join(answer.reasons)
        else:
            (peer,) = (one for one in PEERS if one.name == tool)
            released, seconds, said = _by_peer(made, peer)
        left = made.count_left()
        return Row(
            tool=tool,
            preset=chosen.name,
            expected=chosen.expected,
            released=released,
            leaked_blocks=left if released else 0,
            left_blocks=left,
            seconds=round(seconds, 2),
            said=said,
            version=version(),
        )


def version() -> str:
    """A digest of the code that decides the results: what another version found is not kept."""
    return result.version((*result.JUDGED, "benchmarks/peers"))


def load(path: Path, *, only: str | None = None) -> dict[str, Row]:
    """What is kept; with ``only``, of one version of the code. A torn line is as if it were not
    there."""
    found: dict[str, Row] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            row = Row(**json.loads(line))
        except (ValueError, TypeError):
            continue
        if only in (None, row.version):
            found[row.key] = row
    return found


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    tools = [OURS, *(peer.name for peer in PEERS)]
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers", description=__doc__)
    parser.add_argument("-f", "--format", choices=("table", "json", "markdown"), default="table")
    parser.add_argument("--drives", nargs="+", default=DRIVES, metavar="PRESET")
    parser.add_argument("--tools", nargs="+", default=tools, choices=tools, metavar="TOOL")
    parser.add_argument("--results", type=Path, default=_KEPT, help="kept here (%(default)s)")
    parser.add_argument("--kept", action="store_true", help="run nothing, show what is kept")
    parser.add_argument(
        "--at-most", type=float, default=float("inf"), metavar="SECONDS", help="begin none later"
    )
    return parser.parse_args(arguments)


def _run(options: argparse.Namespace, chosen: Sequence[Preset], found: dict[str, Row]) -> bool:
    images = build.ensure(progress=_say)
    images = replace(images, site=payload.site_image(images.cache, more=(IRONIC,)))
    begun, whole = time.monotonic(), True
    waiting = [
        (tool, one) for one in chosen for tool in options.tools if f"{tool}/{one.name}" not in found
    ]
    options.results.parent.mkdir(parents=True, exist_ok=True)
    for number, (tool, one) in enumerate(waiting, 1):
        if time.monotonic() - begun > options.at_most:
            _say(f"{len(waiting) - number + 1} are left for the next call")
            return False
        try:
            row = run_one(tool, one, images)
        except LabError as error:
            _say(f"{tool} on {one.name}: the rack failed, not counted: {error}")
            whole = False
            continue
        with options.results.open("a") as stream:
            stream.write(json.dumps(asdict(row)) + "\n")
        found[row.key] = row
        _say(
            f"{number}/{len(waiting)} {tool} on {one.name}: "
            f"{'released' if row.released else 'not released'}, {row.leaked_blocks} leaked, "
            f"{row.seconds:.1f} s"
        )
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 where ours lets something through, or the rack failed."""
    options = _parse(arguments)
    try:
        chosen = [preset(name) for name in options.drives]
    except DriveError as error:
        print(f"peers: {error}", file=sys.stderr)
        return 2
    if acting := [one.name for one in chosen if one.event is not Event.NONE]:
        print(f"peers: {acting[0]} needs the world to act: the zoo alone runs it", file=sys.stderr)
        return 2
    found = load(options.results, only=None if options.kept else version())
    whole = options.kept or _run(options, chosen, found)
    wanted = {f"{tool}/{one.name}" for tool in options.tools for one in chosen}
    rows = [row for key, row in found.items() if key in wanted]
    plain: list[dict[str, Any]] = page.summary(rows)
    if options.format == "json":
        print(json.dumps({"tools": plain, "results": [asdict(row) for row in rows]}, indent=1))
    else:
        print(page.page(rows) if options.format == "markdown" else page.table(rows))
    ours = [row for row in rows if row.tool == OURS]
    return 1 if not whole or any(row.leaked_blocks for row in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
