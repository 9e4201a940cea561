"""The control plane's errors. Each message is one line: expected, found, what to do."""

from __future__ import annotations


class QuarantineError(Exception):
    """Base of every error that the control plane raises on purpose.

    ``exit_code`` is what ``nvme-quarantine`` ends with when the error reaches the command line.
    """

    exit_code = 1


class BadInputError(QuarantineError):
    """A file, option or message from outside is malformed. Nothing was changed."""

    exit_code = 2


class UnknownError(BadInputError):
    """Nothing has this name, number or digest."""


class OwnSetupError(BadInputError):
    """Our own configuration, a key of ours, or our account at the cloud: nothing that whoever asks
    the API said. Its words may name files, accounts and addresses. Nothing was changed."""


class NotUnderstoodError(BadInputError):
    """What is signed by a key that is believed, and says what this release does not know."""


class ConflictError(QuarantineError):
    """Somebody else changed the record first; re-read and decide again.

    ``told``: as of :class:`UnfinishedError`; empty where all of it may be told.
    """

    exit_code = 3

    def __init__(self, words: str, *, told: str = "") -> None:
        super().__init__(words)
        self.told = told


class StaleError(ConflictError):
    """It is not what the decision was about any more: look at it again."""


class StalePreviewError(StaleError):
    """A campaign would be about other slots than those that were looked at. Nothing was begun."""


class IllegalTransitionError(QuarantineError):
    """The transition table has no such step from the present state."""

    exit_code = 4


class RefusedError(QuarantineError):
    """A message from a host was refused (signature, generation, host, incarnation, nonce)."""

    exit_code = 5


class UnreadableError(QuarantineError):
    """A row of the record that this release cannot read: damaged, or written by another release."""


class UnavailableError(QuarantineError):
    """Placement, the broker or the database does not answer; nothing was decided."""

    exit_code = 6


class BrokerAwayError(UnavailableError):
    """The broker took no order or ticket. Placement and the record have answered."""


class CrowdedError(UnavailableError):
    """Others ask this process for the same, which it does for one at a time. Nothing is away."""


class MovingError(UnavailableError):
    """What was read changed under each of several looks; nothing was decided."""


class UnreadOutcomeError(UnavailableError):
    """A decision is on record, and what came of it could not be read."""


class UnfinishedError(UnavailableError):
    """It ended early, or its end is not known: some of it may be done, or all. Look again first.

    ``told``: what was done, for a caller from elsewhere, without what an outage says of itself: it
    may name addresses. Empty where that is not known.
    """

    def __init__(self, words: str, *, told: str = "") -> None:
        super().__init__(words)
        self.told = told


class ForbiddenError(QuarantineError):
    """Of the API: it does not know who asks, or does not let him. Nothing was changed."""

    exit_code = 8


class TimeStampError(QuarantineError):
    """A time stamping authority does not answer, or its answer does not hold; ask again later."""
