"""The table of the leaks, from what the tests recorded. Standard library only, no I/O."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Final

from tests.nova.leaks import LEAKS, Saw, Side

NOT_RUN: Final = "not run"
FAILED: Final = "failed"
PASSED: Final = "passed"

_BAD: Final = frozenset({NOT_RUN, FAILED, Saw.LEAKED, Saw.DESTROYED, Saw.STRANDED, Saw.FORGOTTEN})
"""What our side must not show."""

_HEAD: Final = """\
# The 28 leaks

How a released drive could reach the next guest, or be erased under the present one: each was made
to happen on the real Nova 34 without our part, and again with it. Written by
`tools/leaks -f markdown`; the tox env `nova` fails when this page is not what the tests saw.

"Without" is Nova with one-time-use devices alone, or with the cleaner that the test names
(`tests/nova/cleaners.py`). "With" is the patch in nova-compute and the control plane, which asks
Placement and nova-api over HTTP. The drives are judged by their content (`tests/nova/shelf.py`),
not by what any software says of them.

What this does not show by itself:
- A stand-in answers for the host. The last column names the tests that show the host's half with a
  real kernel, real nvme-cli or a real libvirt (`tools/leaks --rack` runs them too).
- In 5, 14 and 26 Placement offers the drive until the control plane has looked. What starts in
  that time is refused by the last gate, which the tests in `tests/libvirt` show.
- Leak 29, renumbered addresses, is documented and not closed in Placement. A slot is a host and a
  PCI address. A card that is added or dies can shift the addresses of a whole host at its next
  boot, and what Placement says of an address then is of another drive. Until the host's first hello
  a server can be sent to a dirty drive at a clean one's address; the last gate refuses to start it
  there (the drive is not the one of the ticket), and the hello takes the slot back (leak 14). The
  price: such a start fails, and the drive that Nova burned for it is erased again. Outside of what
  the host can know across such a boot is the drive of a guest that was adopted while it ran and of
  which nobody has read the drive yet: it is read when the guest first is off in that boot, or at
  its next start. Until then its record has an address and PCI ids and no serial number: no drive
  with these ids is erased while it is off, and it starts on none that the book knows as another's,
  but it would start on one that the book does not know.
- The harness is Nova 34. The patch alone is tested on 29, 32 and 33 as well.
"""


@dataclass(frozen=True)
class Row:
    """One leak, as ``tools/leaks -f json`` prints it (``with_ours`` there is ``with``)."""

    leak: int
    title: str
    without: str
    with_ours: str
    how: str
    rack: tuple[tuple[str, str], ...]

    @property
    def good(self) -> bool:
        """Both sides were run, ours holds, and nothing on the rack failed."""
        return (
            self.without not in (NOT_RUN, FAILED)
            and self.with_ours not in _BAD
            and all(outcome != FAILED for _, outcome in self.rack)
        )


def read(lines: Iterable[str]) -> dict[tuple[int, Side], str]:
    """What each side saw; ``failed`` wherever a test said so, whatever else it saw."""
    seen: dict[tuple[int, Side], str] = {}
    for line in lines:
        row = json.loads(line)
        key = (int(row["leak"]), Side(row["side"]))
        if seen.get(key) != FAILED:
            seen[key] = str(row["saw"])
    return seen


def rows(seen: Mapping[tuple[int, Side], str], rack: Mapping[str, str]) -> list[Row]:
    """The whole table; ``rack`` has the outcome of each test that was run there."""
    return [
        Row(
            leak=leak.number,
            title=leak.title,
            without=seen.get((leak.number, Side.WITHOUT), NOT_RUN),
            with_ours=seen.get((leak.number, Side.WITH), NOT_RUN),
            how="harness and rack" if leak.rack else "harness",
            rack=tuple((test, rack.get(test, NOT_RUN)) for test in leak.rack),
        )
        for leak in LEAKS
    ]


def as_json(table: Iterable[Row]) -> str:
    """The list that ``-f json`` prints."""
    printed = []
    for row in table:
        members = asdict(row)
        members["with"] = members.pop("with_ours")
        members["rack"] = [{"test": test, "outcome": outcome} for test, outcome in row.rack]
        printed.append(members)
    return json.dumps(printed, indent=2) + "\n"


def as_text(table: Iterable[Row]) -> str:
    """For a terminal."""
    lines = [("LEAK", "WITHOUT", "WITH", "HOW", "TITLE")]
    for row in table:
        outcomes = {outcome for _, outcome in row.rack}
        how = f"{row.how} ({', '.join(sorted(outcomes))})" if outcomes else row.how
        lines.append((str(row.leak), row.without, row.with_ours, how, row.title))
    widths = [max(len(line[n]) for line in lines) for n in range(4)]
    return "".join(
        "  ".join([*(line[n].ljust(widths[n]) for n in range(4)), line[4]]) + "\n" for line in lines
    )


def as_markdown(table: Iterable[Row]) -> str:
    """docs/leaks.md, the same whether the rack's tests were run or not."""
    lines = [_HEAD, "| # | leak | without | with | on the rack |", "|---|---|---|---|---|"]
    for row in table:
        tests = "<br>".join(f"`{test}`" for test, _ in row.rack)
        lines.append(f"| {row.leak} | {row.title} | {row.without} | {row.with_ours} | {tests} |")
    lines += ["", "## Words", ""]
    lines += [f"- **{saw}**: {doc}" for saw, doc in WORDS.items()]
    return "\n".join(lines) + "\n"


WORDS: Final[Mapping[Saw, str]] = {
    Saw.LEAKED: "a second tenant's guest ran on a drive with the first one's data, or on one that "
    "the first one had changed",
    Saw.DESTROYED: "a drive was erased while the guest whose data it holds still existed",
    Saw.STRANDED: "the drive stays reserved for ever: nobody learns that it waits for an erase",
    Saw.FORGOTTEN: "nothing leaked, and nobody can say any more who had the drive",
    Saw.CLOSED: "refused to the second tenant while dirty; erased, certified, handed out clean",
    Saw.HELD: "kept out of the pool, with the reason, until a person decides",
    Saw.REFUSED: "no guest got the drive (where this stands under without, Nova itself refuses)",
    Saw.UNTOUCHED: "the tenant's drive was left alone for as long as it was the tenant's",
    Saw.KEPT: "the record names the drive, its tenant and what was done, whatever Nova forgot",
}
