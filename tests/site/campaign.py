"""Many seeds, one after the other: ``python -m tests.site.campaign --mode swarm --seeds 1:100``.

Ends with 1 at the first seed that finds something (or goes on with ``--keep-going``), and prints
how many life cycles of slots were simulated, each fault by its kind, and the CPU time.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import Counter

from tests.site.report import failure
from tests.site.script import ALL_FAULTS, MODES, draw
from tests.site.shrink import shrink
from tests.site.site import Result, run


def drawing(parser: argparse.ArgumentParser) -> None:
    """What a script is drawn from, beside its seed."""
    parser.add_argument("--mode", choices=MODES, default="swarm")
    parser.add_argument("--faults", help="these, by commas; else a random subset for each seed")
    parser.add_argument("--small", action="store_true", help="few slots, an hour or two")
    parser.add_argument("--only", help="kinds of findings that count, by commas; else all")


def chosen(args: argparse.Namespace) -> tuple[tuple[str, ...] | None, frozenset[str], str]:
    """Faults, kinds, and the same as arguments. Ends the program for a fault that is none."""
    faults = None if args.faults is None else tuple(filter(None, args.faults.split(",")))
    if unknown := set(faults or ()) - set(ALL_FAULTS):
        sys.exit(f"expected faults of {', '.join(ALL_FAULTS)}, found {', '.join(unknown)}")
    only = frozenset(filter(None, (args.only or "").split(",")))
    words = f" --faults {args.faults}" if args.faults is not None else ""
    words += " --small" if args.small else ""
    words += f" --only {args.only}" if args.only else ""
    return faults, only, words


class Tally:
    """What a campaign came to."""

    def __init__(self) -> None:
        self.runs = 0
        self.lifecycles = 0
        self.longest = 0.0
        self.findings: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._started = time.process_time()

    def add(self, result: Result) -> None:
        """One more run."""
        self.runs += 1
        self.lifecycles += result.lifecycles
        self.longest = max(self.longest, result.longest)
        self.counts += result.counts
        if result.kind:
            self.findings[result.kind] += 1

    def __str__(self) -> str:
        cpu = time.process_time() - self._started
        faults = {name: self.counts[name] for name in ALL_FAULTS if self.counts[name]}
        return (
            f"{self.runs} runs, {self.lifecycles} life cycles, {cpu:.0f} s CPU "
            f"({self.lifecycles / max(cpu, 0.01):.1f} a second), findings "
            f"{dict(self.findings) or 'none'}, alarms {self.counts['alarms']}, holds "
            f"{self.counts['held']}, a dirty drive on offer for {self.longest:.0f} s at most; "
            f"faults {faults}"
        )


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.site.campaign", description=__doc__)
    drawing(parser)
    parser.add_argument("--seeds", default="1:20", help="FIRST:END, the end left out")
    parser.add_argument("--lifecycles", type=int, help="end after so many, whatever the seeds")
    parser.add_argument("--keep-going", action="store_true", help="past seeds that find something")
    parser.add_argument("--shrink", type=float, default=0.0, metavar="SECONDS", help="of CPU")
    args = parser.parse_args()
    faults, only, words = chosen(args)
    first, _, end = args.seeds.partition(":")
    tally, said = Tally(), time.monotonic()
    for seed in range(int(first), int(end or int(first) + 1)):
        result = run(draw(seed, args.mode, faults=faults, small=args.small), only)
        tally.add(result)
        if result.kind:
            if args.shrink and not args.keep_going:
                result = shrink(result, seconds=args.shrink, only=only)
            if args.keep_going:
                print(f"seed {seed}: {result.findings[0]}", flush=True)
            else:
                print(failure(result, words))
                break
        if time.monotonic() - said > 10:
            said = time.monotonic()
            print(f"seed {seed}: {tally}", flush=True)
        if args.lifecycles and tally.lifecycles >= args.lifecycles:
            break
    print(tally)
    return 1 if tally.findings else 0


if __name__ == "__main__":
    sys.exit(main())
