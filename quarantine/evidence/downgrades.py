"""What was done less than asked for, by whose permission, and what a model's quirks changed.

Pure, and from the order alone wherever it says so: a host's word is needed for what happened, never
for what was allowed.
"""

from __future__ import annotations

from collections.abc import Iterator

from eraser.protocol.conclusions import buffers
from eraser.protocol.conclusions.applied import tolerated
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Buffers, Label, Limits, Method, Policy
from eraser.protocol.report import EraseReport
from quarantine.evidence.checks import methods


def seen(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Each downgrade as one sentence that names its permission."""
    facts, policy = report.facts_before, order.policy
    if facts is None or report.achieved is None:
        return
    name = f"policy {policy.name!r}"
    plain = methods.applied(order, facts)
    if report.downgraded:
        # A Sanitize that the drive offers and a quirk skips: the sentence has to say so.
        kept = [m for m in plain.skipped if m.is_sanitize and methods.offered(m, facts)]
        other = f"other than {' and '.join(kept)}, which a quirk skips, " if kept else ""
        yield (
            f"Clear in place of Purge: the drive offers no method {other}that {name} names for "
            "Purge; permitted by allow_clear."
        )
    if report.achieved is Label.PURGE and policy.label is Label.PURGE:
        lacking = [m for m in plain.purge_methods if not methods.offered(m, facts)]
        if lacking:
            yield (
                f"Fewer methods: {name} names {', '.join(plain.purge_methods)}, the drive does not "
                f"offer {', '.join(lacking)}; permitted by allow_fewer."
            )
    if report.achieved is Label.CLEAR:
        better = [m for m in plain.clear_methods if not methods.offered(m, facts)]
        first = report.methods[0].method if report.methods else None
        if first is not None and first in plain.clear_methods:
            # Clear runs the first method on offer: what stands before it was passed over.
            before = plain.clear_methods[: plain.clear_methods.index(first)]
            if passed := [m for m in better if m in before]:
                yield (
                    f"A later choice: {name} prefers {', '.join(passed)}, which the drive does not "
                    f"offer; {first} is the next in clear_methods."
                )
        memory = buffers.seen(facts, report.facts_after)
        if memory and policy.verification.buffers is Buffers.PRINT:
            yield (
                f"Memory that Format does not reach: {buffers.named(memory)}; permitted by "
                "verification.buffers."
            )
    standing = {id(record) for record in methods.standing(report)}
    for record in tolerated(policy, report.methods):
        if id(record) not in standing:
            continue  # run again: what stands is the last run
        yield (
            f"A failed method: {record.method} did not erase ({record.reason or record.verdict}); "
            f"{report.methods[-1].method} did; permitted by allow_failed."
        )
    kept = [m for m in plain.skipped if _asked(m, policy, report) and methods.offered(m, facts)]
    if kept:
        yield f"Skipped by a quirk: {', '.join(kept)}, which the drive offers."


def _asked(method: Method, policy: Policy, report: EraseReport) -> bool:
    """Whether this case could have come to the method: no Purge comes to a Format, and where Clear
    is asked for no Sanitize is sent."""
    wanted = policy.label if method.is_sanitize else report.achieved
    return wanted is (Label.PURGE if method.is_sanitize else Label.CLEAR)


def quirks(order: EraseOrder, report: EraseReport) -> Iterator[str]:
    """Each quirk that was used, what it changed, and the operator's reason."""
    if report.facts_before is None:
        return
    for quirk in methods.applied(order, report.facts_before).quirks:
        changed = [f"skips {', '.join(quirk.skip)}"] if quirk.skip else []
        if quirk.purge_methods:
            changed.append(f"purges by {', '.join(quirk.purge_methods)}")
        if quirk.clear_methods:
            changed.append(f"clears by {', '.join(quirk.clear_methods)}")
        after = quirk.limits.over(Limits())
        # Only the limits that the quirk names, with the values that it sets.
        changed += [
            f"limit {name} {getattr(after, name):g} s"
            for name in quirk.limits.__dataclass_fields__
            if getattr(quirk.limits, name) is not None
        ]
        yield (
            f"Quirk of {quirk.model!r}, firmware {quirk.firmware!r}: {'; '.join(changed)}. "
            f"Reason: {quirk.reason}"
        )
