"""Which techniques ended well, as far as the drive's word goes. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from quarantine.errors import BadInputError
from quarantine.evidence import sanitizelog, terms
from quarantine.evidence.sections import Technique


def tried(techniques: Sequence[Technique]) -> tuple[str, ...]:
    """The commands' names, each once, in order."""
    return tuple(dict.fromkeys(str(done.command) for done in techniques))


def succeeded(techniques: Sequence[Technique]) -> tuple[str, ...]:
    """Those whose last run ended well on each namespace."""
    last = {(done.command, done.nsid): done for done in techniques}
    failed = {str(done.command) for done in last.values() if not ended_well(done)}
    return tuple(name for name in tried(techniques) if name not in failed)


def ended_well(done: Technique) -> bool:
    """A Format that ended otherwise bears no certificate. Of a Sanitize the log speaks, where it is
    that of this very command."""
    if not done.command.is_sanitize:
        return True
    try:
        log = sanitizelog.parse(done.log_after, f"{done.command}: log after")
    except BadInputError:
        return False
    return log.succeeded and log.cdw10 == done.cdw10


def by_key_alone(techniques: Sequence[Technique]) -> bool:
    """Nothing but cryptographic erase succeeded: no medium is said to have been touched."""
    return set(succeeded(techniques)) <= terms.CRYPTOGRAPHIC
