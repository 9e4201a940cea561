"""One seed again, exactly: ``python -m tests.site.replay SEED --mode swarm [--shrink 120]``."""

from __future__ import annotations

import argparse
import sys

from tests.site.campaign import chosen, drawing
from tests.site.report import failure
from tests.site.script import draw
from tests.site.shrink import shrink
from tests.site.site import run


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m tests.site.replay", description=__doc__)
    parser.add_argument("seed", type=int)
    drawing(parser)
    parser.add_argument("--shrink", type=float, default=0.0, metavar="SECONDS", help="of CPU")
    parser.add_argument("--history", action="store_true", help="all of it, also of a clean run")
    args = parser.parse_args()
    faults, only, words = chosen(args)
    result = run(draw(args.seed, args.mode, faults=faults, small=args.small), only)
    if result.kind and args.shrink:
        result = shrink(result, seconds=args.shrink, only=only, tell=lambda text: print(text))
    if args.history:
        print("\n".join(result.history))
    if not result.kind:
        print(f"seed {args.seed}: nothing found; {result.lifecycles} life cycles")
        return 0
    print(failure(result, words))
    return 1


if __name__ == "__main__":
    sys.exit(main())
