"""Does a certificate agree with itself?

Pure. A signature shows who wrote it; this shows whether its parts can be true together: times,
digests, counts, the sentence over the counts, the label over the drive's log. It holds for
certificates of every release: what is compared is what each of them says, not how.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from eraser.protocol.policy import Label, VerificationMode
from quarantine.errors import BadInputError
from quarantine.evidence import display
from quarantine.evidence.checks import clocks, outcomes, reading, sanitizelog, sentcommands
from quarantine.evidence.sections import (
    Certificate,
    Technique,
    ValidationDecision,
    VerificationStatement,
)

_PER_CENT = 1e-8
"""Shares are printed with six decimals of a per cent; the first release rounded to the nearest."""


def contradictions(body: Certificate) -> Iterator[str]:
    """Everything that the certificate says against itself."""
    if body.drive.identity_digest != body.drive.identity.digest:
        yield (
            f"expected the identity digest {body.drive.identity.digest} of the identity beside it, "
            f"found {body.drive.identity_digest}"
        )
    yield from _times(body)
    yield from _label(body)
    yield from _verification(body.verification)
    yield from _validation(body)


def _validation(body: Certificate) -> Iterator[str]:
    """The decision, and the headline over what succeeded."""
    if body.validation is None:
        return
    if (body.validation.decision is ValidationDecision.WITHHELD) != bool(body.withheld):
        yield (
            f"expected reasons for withholding where the decision says so, found "
            f"{body.validation.decision} and {len(body.withheld)} reasons"
        )
    good = outcomes.succeeded(body.sanitization.techniques)
    if f"reported success of {' and '.join(good)}." not in body.headline:
        named = " and ".join(good) or "none"
        yield f"expected a headline with the success of {named}, found another"
    key_alone = outcomes.by_key_alone(body.sanitization.techniques)
    if key_alone != bool(body.sanitization.attestation):
        yield "expected an attestation where cryptographic erase alone succeeded, and nowhere else"


def _times(body: Certificate) -> Iterator[str]:
    done, source = body.sanitization, body.source
    for name, text in (
        ("issued", body.issued_at),
        ("started", done.started_at),
        ("finished", done.finished_at),
        *(("history", line.at) for line in body.case.history),
        *(("technique ended", t.ended_at) for t in done.techniques if t.ended_at),
        *([("verified", body.verification.finished_at)] if body.verification.finished_at else []),
    ):
        if clocks.moment(text) is None:
            yield f"{name}: expected a time with its zone (ISO 8601), found {text[:40]!r}"
    host = list(clocks.reversed_pairs(clocks.of_host(source, done, body.verification)))
    if clocks.SET_BACK not in body.exceptions:
        yield from host
    # The exception is a claim too: times that are in order contradict it.
    elif not host:
        yield "expected times of the host in no order, as the exceptions say, found them in order"
    # Of ours the counterpart cannot be asked for: the clock may have jumped between this
    # certificate and the one before it, which is not at hand here.
    if clocks.OURS_SET_BACK not in body.exceptions:
        yield from clocks.reversed_pairs(clocks.of_controller(body.case.history, body.issued_at))


def _label(body: Certificate) -> Iterator[str]:
    done = body.sanitization
    weaker = done.asked is Label.PURGE and done.method is Label.CLEAR
    if done.downgraded != weaker:
        yield (
            f"expected downgraded to be {weaker} for {done.asked} asked and {done.method} "
            f"achieved, found {done.downgraded}"
        )
    for said in done.techniques:
        opcode = sentcommands.opcode_of(said.command)
        if said.opcode != opcode:
            yield f"{said.command}: expected opcode {opcode:#x}, found {said.opcode:#x}"
        if said.command.is_sanitize != (done.method is Label.PURGE):
            yield f"{said.command} is no part of the method {done.method}"
    # Which command was sent is its host's word; log 81h is the drive's.
    if done.method is Label.PURGE and not any(map(outcomes.ended_well, done.techniques)):
        yield "expected a sanitize whose success log 81h shows under the method Purge, found none"
    for said in done.techniques:
        yield from _reported(said)


def _reported(said: Technique) -> Iterator[str]:
    """The sentence about log 81h against the log beside it."""
    if not said.command.is_sanitize:
        return
    try:
        log = sanitizelog.parse(said.log_after, f"{said.command}: log after")
    except BadInputError as error:
        # A run that another stands for may have none; its sentence says so.
        if outcomes.UNTOLD not in said.reported or outcomes.ended_well(said):
            yield str(error)
        return
    wanted = f"(SSTAT {log.status}), SCDW10 {log.cdw10:#x}"
    if wanted not in said.reported:
        yield f"{said.command}: expected a sentence with {wanted}, as its log has it, found another"


def _verification(said: VerificationStatement) -> Iterator[str]:
    numbers = (
        said.sampled, said.blocks, said.canaries_planted, said.canaries_checked,
        said.fingerprints_taken, said.fingerprints_checked,
    )  # fmt: skip
    if min(numbers) < 0:
        yield "verification: expected counts of 0 or more, found a negative one"
    for namespace in said.namespaces:
        yield from reading.miscounts(namespace)
    blocks, read = (sum(getattr(n, name) for n in said.namespaces) for name in ("blocks", "read"))
    if said.blocks != blocks:
        yield f"verification: expected {blocks} blocks as in its namespaces, found {said.blocks}"
    if said.sampled > read:
        yield f"verification: expected {read} sampled blocks at most, found {said.sampled}"
    if said.canaries_checked != said.canaries_planted:
        yield (
            f"verification: expected all {said.canaries_planted} canaries to be checked, "
            f"found {said.canaries_checked}"
        )
    if said.fingerprints_checked > said.fingerprints_taken:
        yield (
            f"verification: expected at most {said.fingerprints_taken} fingerprints to be checked, "
            f"found {said.fingerprints_checked}"
        )
    # The bound is computed from these: outside of 0 to 1 there is none to compare with.
    likely = 0 < said.confidence < 1 and 0 < said.residual_asked < 1
    if not (likely and 0 <= said.residual_shown <= 1):
        yield (
            "verification: expected a confidence and residuals between 0 and 1, found "
            f"{said.confidence}, {said.residual_asked} and {said.residual_shown}"
        )
        return
    yield from _bound(said)
    yield from _sentence(said)
    yield from _probes(said)


def _noise(said: VerificationStatement) -> bool:
    return any(n.random for n in said.namespaces)


def _whole(said: VerificationStatement) -> bool:
    return bool(said.namespaces) and all(n.read == n.blocks for n in said.namespaces)


def _known(said: VerificationStatement) -> int:
    return max(said.canaries_checked, said.fingerprints_checked)


def _behind_bound(said: VerificationStatement) -> Iterator[str]:
    """The number of known places that the remainder stands for: fewer than all where some count
    for one namespace alone (docs/decisions/sampling.md)."""
    if _noise(said) and 0 < said.residual_shown < 1:
        # Turned around, the bound gives a number that rounding may put one off.
        near = reading.needed(said.confidence, said.residual_shown)
        yield from (
            f"{n:,}"
            for n in (near - 1, near, near + 1)
            if 0 < n <= _known(said) and reading.bound(n, said.confidence) == said.residual_shown
        )


def _bound(said: VerificationStatement) -> Iterator[str]:
    """No smaller remainder is excluded than the counts exclude, by the most generous rule of all
    releases."""
    # Noise proves nothing by its look, so places of known content bear the bound. Where all was
    # read and none is noise, nothing is left; else the sample bears it.
    if _noise(said):
        least = reading.bound(_known(said), said.confidence)
    elif _whole(said):
        least = 0.0
    else:
        least = reading.bound(said.sampled, said.confidence)
    if said.residual_shown < least - _PER_CENT:
        yield (
            f"verification: expected a remainder of {least:.3g} at least to be left open by these "
            f"counts, found {said.residual_shown:.3g}"
        )


def _probes(said: VerificationStatement) -> Iterator[str]:
    """The sentence on probes, which the page shows in the counts' place."""
    taken, compared = said.fingerprints_taken, said.fingerprints_checked
    # The sentence names the rest only where there is one.
    rest = {taken - compared} if compared < taken else set()
    counts = [said.canaries_planted, said.canaries_checked, taken, compared, *rest]
    found = [int(text.replace(",", "")) for text in re.findall(r"\d[\d,]*\b", said.probes)]
    if said.probes and found != counts:
        yield f"verification: expected the counts {counts} in the sentence on probes, found {found}"


_NUMBER = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)?(?:e-?\d+)?(?!\w)")
_SHARE = re.compile(r"(?<![\w.])(\d+(?:\.\d+)?) ?%")


def _sentence(said: VerificationStatement) -> Iterator[str]:
    """Every number of the sentence follows from the counts, whatever its words are."""
    # The seed's digits are no count.
    text = said.sentence.replace(said.seed, "") if said.seed else said.sentence
    if "seed " in text and said.seed not in said.sentence:
        yield "verification: expected the sentence to name the seed beside it, found another"
    # What the sentence may name of a layout of windows: how many, their bytes, and two shares. The
    # 5 % are of each subsection (wording._layout).
    layout = f"{sum(n.windows for n in said.namespaces):,}"
    inside = sum(n.window_blocks for n in said.namespaces)
    nist = said.done is VerificationMode.NIST
    shares = {5.0, inside / max(1, said.blocks) * 100} if nist else set()
    for share in (float(found) for found in _SHARE.findall(text)):
        # A smaller share than the counts leave open claims more than they show, unless it is one of
        # the layout, which is printed with two decimals.
        lies = share < said.residual_shown * 100 - _PER_CENT * 100
        if lies and not any(abs(share - known) < 0.02 for known in shares):
            yield (
                f"verification: the sentence excludes more than {share:g} %, the counts "
                f"{said.residual_shown * 100:.6f} %"
            )
    # The first two stand in the words themselves: blocks of 4 KiB, 1,000 subsections.
    counts = {
        "4", "1,000", layout, f"{inside * reading.BLOCK:,}", f"{said.sampled:,}",
        f"{said.blocks:,}", f"{_known(said):,}", *_behind_bound(said),
    }  # fmt: skip
    # Rounded down; by earlier releases to the nearest.
    likely = {
        display.probability(said.confidence),
        f"{said.confidence:.6g}",
        f"{said.confidence:.5g}",
    }
    for number in (found.rstrip(",") for found in _NUMBER.findall(_SHARE.sub("", text))):
        if number not in counts | likely:
            yield f"verification: no count of this certificate is the {number} of its sentence"
    if text.startswith("All ") and not _whole(said):
        yield "verification: the sentence says that all blocks were read, the counts do not"
    if "none of them holds data" in text and _noise(said):
        yield "verification: the sentence says that no block holds data, the counts have noise"
