"""docs/zoo.md, from results."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.zoo import result
from benchmarks.zoo.result import Result, summary

_HEAD = """# The zoo

Every named drive of the lab (`tools/demo --drive list`), one after the other: a tenant fills it,
the tenant's leavings and the drive's faults are put on, the real `nvme-eraser erase` runs in a
compute guest with the real kernel and nvme-cli, and the backing file is searched for the tenant's
blocks from outside. Written by `python -m benchmarks.zoo -f markdown` from the results of
`python -m benchmarks.zoo`. {code}

The drives are a model (`tests/lab/nvme`) of {mib} MiB behind a real PCI function, not hardware;
seconds are those of an emulated guest, about ten times those of a real host.

- **expected**: `erased` for a drive that erases what it says and is fit for a tenant, `held` for
  every other.
- **commands**: admin commands that the drive was sent, from the order to the end.
- **leaked**: blocks of 4 KiB of the first tenant that the next one could read. **left**: such
  blocks on a drive, handed out or not.

{figures}

| drive | what it is | expected | verdict | fit | s | commands | leaked | left |
|---|---|---|---|---|---|---|---|---|
"""


def page(results: Sequence[Result], missing: Sequence[str] = (), mib: int = 64) -> str:
    """The whole page; ``missing`` are drives that have no result, and it says so."""
    figures = summary(results)
    text = (
        f"**{figures['presets']} drives, {figures['expected_erased']} of them honest and fit: "
        f"{figures['leaked_blocks']} blocks leaked, {figures['honest_held']} honest drives held, "
        f"{figures['wrongly_released']} bad ones released, {figures['hangs']} hangs.**"
    )
    if missing:
        text += "\n\n**Not run yet, so nothing is said of them:** "
        text += ", ".join(f"`{name}`" for name in missing) + "."
    rows = "".join(_row(one) for one in results)
    wrong = "".join(f"- `{one.preset}`: {one.wrong}\n" for one in results if one.wrong)
    tail = f"\n## Not as it should be\n\n{wrong}" if wrong else ""
    reasons = "".join(
        f"- `{one.preset}`: {_escaped('; '.join(one.reasons))}\n"
        for one in results
        if one.reasons and not one.released
    )
    return (
        _HEAD.format(mib=mib, figures=text, code=result.code({one.version for one in results}))
        + rows
        + tail
        + f"\n## What is said about those that are held\n\n{reasons}"
    )


def _row(one: Result) -> str:
    fit = "yes" if one.fit else "no"
    return (
        f"| `{one.preset}` | {one.about} | {one.expected} | {one.verdict} | {fit} | "
        f"{one.seconds:.1f} | {one.commands} | {one.leaked_blocks} | {one.left_blocks} |\n"
    )


def _escaped(text: str) -> str:
    """A drive's own words are data: no markup of theirs, and not without end."""
    kept = "".join(c if c.isprintable() and c not in "<>|`" else "?" for c in text)
    return kept if len(kept) <= 400 else kept[:397] + "..."
