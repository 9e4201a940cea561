"""Composed drives at the command line.

python -m tests.lab.nvme.composed --seeds 1:1000            how many of what
python -m tests.lab.nvme.composed --seeds 7:7 --show        each in a sentence
python -m tests.lab.nvme.composed --seeds 7:7 --json        each as JSON, for the server
python -m tests.lab.nvme.composed --seeds 1:50 --audit      fill, erase, and take what one can
python -m tests.lab.nvme.composed --seeds 7:7 --shrink      the smallest that still gives some
python -m tests.lab.nvme.composed --seeds 35:35 --shrink --released
                                     the smallest that the eraser still lets through
python -m tests.lab.nvme.composed --seeds 1:50 --erase      fill, let the eraser judge, and take
python -m tests.lab.nvme.composed --seeds 1:50 --overwrite  fill, write over it as others do, take
python -m tests.lab.nvme.composed --cost 1:64               what a visit costs on so many GiB
"""

from __future__ import annotations

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path

from eraser.protocol.policy import Policy
from tests.lab.nvme.composed.audit import Finding, audit
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.cost import costs
from tests.lab.nvme.composed.description import Description
from tests.lab.nvme.composed.overwriting import Peer, overwritten
from tests.lab.nvme.composed.shrink import shrink
from tests.lab.nvme.composed.tables import tables
from tests.lab.nvme.composed.tally import Taken, Tally
from tests.lab.nvme.composed.trial import Account, Outcome, attempt, shipped
from tests.lab.nvme.errors import DriveError


def _parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tests.lab.nvme.composed",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--seeds", type=_seeds, default=range(1, 101), metavar="A:B", help="from A to B, with B"
    )
    what = parser.add_mutually_exclusive_group()
    what.add_argument("--show", action="store_true", help="print each in a sentence")
    what.add_argument("--json", action="store_true", help="print each as JSON, one a line")
    what.add_argument("--audit", action="store_true", help="what a second tenant gets of each")
    what.add_argument("--shrink", action="store_true", help="as JSON, as small as still gives data")
    what.add_argument("--erase", action="store_true", help="what the eraser makes of each")
    what.add_argument("--overwrite", action="store_true", help="what writing over each leaves")
    what.add_argument("--tables", action="store_true", help="print the grammar in Markdown")
    what.add_argument(
        "--cost", type=_sizes, metavar="N:M", help="what a visit costs on honest drives of N, M GiB"
    )
    parser.add_argument(
        "--released",
        action="store_true",
        help="with --shrink: as small as the eraser still lets through what lies",
    )
    parser.add_argument(
        "--unvisited",
        action="store_true",
        help="with --erase: without a visit",
    )
    parser.add_argument(
        "--subsystem-reset",
        action="store_true",
        help="with --erase: a visit resets the subsystem too, as a policy may ask for",
    )
    parser.add_argument("--mib", type=int, default=4, help="size of an audited drive (%(default)s)")
    return parser.parse_args(arguments)


def _seeds(text: str) -> range:
    first, _, last = text.partition(":")
    if not first.isdigit() or not (last or first).isdigit():
        raise argparse.ArgumentTypeError(f"seeds should look like 1:1000, found {text!r}")
    return range(int(first), int(last or first) + 1)


def _sizes(text: str) -> tuple[int, ...]:
    if not all(part.isdigit() for part in text.split(":")):
        raise argparse.ArgumentTypeError(f"sizes in GiB should look like 1:64, found {text!r}")
    return tuple(int(part) for part in text.split(":"))


def _cost(sizes: Sequence[int]) -> None:
    """A table in Markdown: commands, and seconds of the processor."""
    print("| GiB | between | s | after | s | the whole case | s |\n|---|---|---|---|---|---|---|")
    for size in sizes:
        with tempfile.TemporaryDirectory() as directory:
            found = costs(Path(directory), size << 30, Policy())
        print(f"| {size} | {found.line} |", flush=True)


def _audit(drive: Description, seed: int, mib: int) -> Finding:
    with tempfile.TemporaryDirectory() as directory:
        return audit(drive, Path(directory), seed=seed, size=mib << 20)


def _still(options: argparse.Namespace, seed: int) -> Callable[[Description], bool]:
    """What has to be true of a smaller drive."""
    if options.released:
        logging.disable(logging.WARNING)
        return lambda one: _gives_data(one, seed)
    return lambda one: not _audit(one, 1, options.mib).loot.empty


def _erase(seeds: range, policy: Policy) -> int:
    """The eraser's account, drives that it let through or held for nothing named; 1 for any of
    these that an eraser can be asked to find."""
    account, missed = Account(), False
    for seed in seeds:
        drive = compose(seed)
        with tempfile.TemporaryDirectory() as directory:
            try:
                trial = attempt(drive, Path(directory), policy, seed=seed)
            except DriveError as error:
                missed = True
                print(f"{seed}: {error}: {drive.sentence}", file=sys.stderr)
                continue
            except KeyboardInterrupt:  # hours may have gone into the others
                print(f"interrupted at seed {seed}, which does not count, nor do those after it")
                break
        account.add(trial)
        if trial.outcome in (Outcome.LET_THROUGH, Outcome.HELD_FOR_NOTHING):
            missed |= not drive.undetectable
            got = f"; the second tenant by {trial.loot.by}" if trial.leaked else ""
            why = drive.undetectable and f" ({drive.undetectable})"
            print(f"{seed}: {trial.outcome.value}{why}: {drive.sentence}{got}", flush=True)
    print("\n".join(account.lines()))
    return int(missed)


def _gives_data(drive: Description, seed: int) -> bool:
    """The eraser lets it through, and the second tenant gets something of it."""
    with tempfile.TemporaryDirectory() as directory:
        try:
            return attempt(drive, Path(directory), shipped(), seed=seed).leaked
        except DriveError:
            return False


def _overwrite(seeds: range, mib: int) -> int:
    """For each peer's way: drives of which the second tenant got something, honest ones apart."""
    for peer in Peer:
        leaked, kept, honest = Counter[str](), 0, 0
        for seed in seeds:
            drive = compose(seed)
            with tempfile.TemporaryDirectory() as directory:
                try:
                    loot = overwritten(drive, Path(directory), peer, seed=seed, size=mib << 20)
                except DriveError:
                    loot = None
            honest += drive.honest
            if loot is None:
                kept += 1
            elif not loot.empty:
                leaked["honest" if drive.honest else "liars"] += 1
                leaked.update(f"of {store}" for store in loot.by)
        print(
            f"{peer.value}: of {honest} honest drives and {len(seeds) - honest} liars, the second "
            f"tenant got data of {leaked['honest']} and {leaked['liars']}; {kept} failed"
        )
        for store, count in leaked.most_common():
            if store.startswith("of "):
                print(f"  {store}: {count} drives")
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; 1 where an honest drive gave data or a drive hung."""
    options = _parse(arguments)
    if options.tables:
        print("\n".join(f"## {name}\n\n{table}" for name, table in tables().items()), end="")
        return 0
    if options.erase:
        logging.disable(logging.WARNING)  # each lie that is met has one
        policy = shipped(visited=not options.unvisited, subsystem_reset=options.subsystem_reset)
        return _erase(options.seeds, policy)
    if options.cost:
        _cost(options.cost)
        return 0
    if options.overwrite:
        return _overwrite(options.seeds, options.mib)
    tally, taken, hung = Tally(), Taken(), False
    for seed in options.seeds:
        drive = compose(seed)
        tally.add(drive)
        if options.show:
            print(f"{seed}: {drive.sentence}")
        elif options.json:
            print(json.dumps(drive.to_json(), separators=(",", ":")))
        elif options.shrink:
            smallest = shrink(drive, _still(options, seed))
            print(smallest.sentence, file=sys.stderr)
            print(json.dumps(smallest.to_json(), separators=(",", ":")))
        elif options.audit:
            try:
                taken.add(_audit(drive, seed, options.mib))
            except DriveError as error:
                hung = True
                print(f"{seed}: {error}: {drive.sentence}", file=sys.stderr)
    if not (options.show or options.json or options.shrink):
        print("\n".join(tally.lines()))
    if options.audit:
        print("\n".join(taken.lines()))
    return int(hung or bool(taken.leaked))


if __name__ == "__main__":
    sys.exit(main())
