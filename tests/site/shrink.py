"""The shortest history that still ends in the same kind of finding: delta debugging on the script.

First what comes after the finding goes, then deeds in ever smaller groups, then slots and hosts. A
seed draws each actor's chance for itself, so what is left goes on much as it did.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.site.script import Deed, Script
from tests.site.site import Result, run


def shrink(
    result: Result,
    *,
    seconds: float = 120.0,
    only: frozenset[str] = frozenset(),
    tell: Callable[[str], None] = lambda text: None,
) -> Result:
    """The smallest run found within ``seconds`` of CPU."""
    kind, best = result.kind, result
    limit = time.process_time() + seconds
    progress = True
    while progress and time.process_time() < limit:
        progress = False
        for smaller in _smaller(best):
            if time.process_time() > limit:
                break
            found = run(smaller, only)
            if found.kind == kind:
                best, progress = found, True
                tell(f"{len(best.script.deeds)} deeds, {best.findings[0].at:.0f} s")
                break
    return best


def _smaller(result: Result) -> Iterator[Script]:
    script, at = result.script, result.findings[0].at
    early = tuple(deed for deed in script.deeds if deed.at <= at)
    if len(early) < len(script.deeds):
        yield replace(script, deeds=early)
    kept = list(early)
    size = len(kept) // 2
    while size >= 1:
        for start in range(0, len(kept), size):
            yield replace(script, deeds=_without(kept, start, size))
        size //= 2
    if script.hosts > 1:
        yield replace(script, hosts=script.hosts - 1)
    if script.slots > 1:
        yield replace(script, slots=script.slots // 2)
        yield replace(script, slots=script.slots - 1)
    if script.used:
        yield replace(script, used=0.0)


def _without(deeds: list[Deed], start: int, size: int) -> tuple[Deed, ...]:
    return tuple(deeds[:start] + deeds[start + size :])
