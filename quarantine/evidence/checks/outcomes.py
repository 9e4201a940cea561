"""Which techniques ended well, as far as the drive's word goes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from eraser.protocol.report import Verdict
from quarantine.errors import BadInputError
from quarantine.evidence import terms
from quarantine.evidence.checks import sanitizelog
from quarantine.evidence.sections import Technique

UNTOLD = "Log 81h after it is not on record"
"""Of a run that counts for nothing: another one stands for it, or the policy lets it fail."""


def tried(techniques: Sequence[Technique]) -> tuple[str, ...]:
    """The commands' names, each once, in order."""
    return tuple(dict.fromkeys(str(done.command) for done in techniques))


def succeeded(techniques: Sequence[Technique]) -> tuple[str, ...]:
    """Those whose last run ended well on each namespace."""
    last = {(done.command, done.nsid): done for done in techniques}
    failed = {str(done.command) for done in last.values() if not ended_well(done)}
    return tuple(name for name in tried(techniques) if name not in failed)


def ended_well(done: Technique) -> bool:
    """By its host's verdict; and of a Sanitize by the drive's log, where that is of this very
    command."""
    if done.verdict is not Verdict.ERASED:
        return False
    if not done.command.is_sanitize:
        return True
    try:
        log = sanitizelog.parse(done.log_after, f"{done.command}: log after")
    except BadInputError:
        return False
    return log.succeeded and log.cdw10 == done.cdw10


def by_key_alone(techniques: Sequence[Technique]) -> bool:
    """Nothing but cryptographic erase succeeded: no medium is said to have been touched."""
    # Also where nothing succeeded: the empty set is a subset of any.
    return set(succeeded(techniques)) <= terms.CRYPTOGRAPHIC
