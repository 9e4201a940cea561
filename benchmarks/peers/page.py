"""The peers' figures, for people."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import Any

from benchmarks.peers.row import Row
from benchmarks.zoo import result
from tests.lab.nvme.presetkind import Expected

_HEAD = """# Others on the same drives

Written by `python -m benchmarks.peers -f markdown`: drives of [the zoo](zoo.md) with the same
tenant's data, in the same guest, given to other tools and to ours. *Let through*: drives that the
tool called done while blocks of the tenant were still on the backing file. *Must be held, was
released*: with or without data left. *Honest, refused*: drives that erase what they say, which the
tool did not finish. Seconds are medians over the honest drives that it finished, in an emulated
guest; the drives are a model of {mib} MiB. {code}

Overwriting tools (nwipe, blkdiscard and its zeros) look better here than on flash: a write to the
model replaces the block, where a drive keeps the old page until it collects it. Purge asks for
more.

"""


def _tools(rows: Sequence[Row]) -> list[str]:
    return list(dict.fromkeys(row.tool for row in rows))


def summary(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """One object per tool."""
    found = []
    for tool in _tools(rows):
        mine = [row for row in rows if row.tool == tool]
        honest = [row for row in mine if row.expected == Expected.ERASED]
        done = [row.seconds for row in honest if row.released]
        found.append(
            {
                "tool": tool,
                "drives": len(mine),
                "let_through": sum(row.leaked_blocks > 0 for row in mine),
                "leaked_blocks": sum(row.leaked_blocks for row in mine),
                "wrongly_released": sum(
                    row.released for row in mine if row.expected == Expected.HELD
                ),
                "honest_refused": sum(not row.released for row in honest),
                "median_seconds": statistics.median(done) if done else None,
            }
        )
    return found


def table(rows: Sequence[Row]) -> str:
    """A line per tool."""
    lines = [
        f"{'tool':20} {'drives':>6} {'let through':>11} {'released':>8} {'refused':>7} {'s':>6}"
    ]
    for one in summary(rows):
        seconds = "" if one["median_seconds"] is None else f"{one['median_seconds']:.1f}"
        lines.append(
            f"{one['tool']:20} {one['drives']:6} {one['let_through']:11} "
            f"{one['wrongly_released']:8} {one['honest_refused']:7} {seconds:>6}"
        )
    return "\n".join(lines)


def page(rows: Sequence[Row], mib: int = 64) -> str:
    """docs/peers.md."""
    text = _HEAD.format(mib=mib, code=result.code({row.version for row in rows}))
    text += "| tool | drives | let through | must be held, was released | honest, refused | s |\n"
    text += "|---|---|---|---|---|---|\n"
    for one in summary(rows):
        seconds = "" if one["median_seconds"] is None else f"{one['median_seconds']:.1f}"
        text += (
            f"| {one['tool']} | {one['drives']} | {one['let_through']} | "
            f"{one['wrongly_released']} | {one['honest_refused']} | {seconds} |\n"
        )
    tools = _tools(rows)
    text += f"\n| drive | expected | {' | '.join(tools)} |\n|---|---|{'---|' * len(tools)}\n"
    by = {(row.tool, row.preset): row for row in rows}
    for name in dict.fromkeys(row.preset for row in rows):
        cells = [_cell(by.get((tool, name))) for tool in tools]
        expected = next(row.expected for row in rows if row.preset == name)
        text += f"| `{name}` | {expected} | {' | '.join(cells)} |\n"
    return text


def _cell(row: Row | None) -> str:
    if row is None:
        return "not run"
    if row.leaked_blocks:
        return f"**{row.leaked_blocks} blocks**"
    return "released" if row.released else "refused"
