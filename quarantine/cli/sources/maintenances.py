"""Maintenances, from the record of this control plane."""

from __future__ import annotations

from collections.abc import Sequence

from quarantine.cli.sources.chunks import chunked
from quarantine.cli.sources.columns import slot
from quarantine.cli.sources.source import MAINTENANCE, Columns, MaintenanceWord, Members
from quarantine.operations import maintenance
from quarantine.operations.maintenance import Initiator, Maintenance, Subject
from quarantine.operations.plane import Plane


class StoreMaintenances:
    """See :class:`quarantine.cli.sources.source.MaintenanceSource`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def each(self, *, limit: int | None) -> Columns:
        """By host and address."""
        found = chunked(limit, self._page)
        return MAINTENANCE, [_said(one) for one in found]

    def history(self, subject: str, *, limit: int | None) -> Columns:
        """Oldest first."""
        named = _subject(subject)

        def page(most: int, last: Maintenance | None) -> Sequence[Maintenance]:
            after = last.version if last else 0
            return maintenance.history(self._plane, named, limit=most, after=after)

        return MAINTENANCE, [_said(one) for one in chunked(limit, page)]

    def begin(self, word: MaintenanceWord) -> Members:
        """Behind whatever is in effect, or what was seen."""
        assert word.until is not None
        found = maintenance.begin(
            self._plane,
            _subject(word.subject),
            until=word.until,
            reason=word.reason,
            by=Initiator(word.by),
            behind=_behind(word),
        )
        return MAINTENANCE, _said(found)

    def end(self, word: MaintenanceWord) -> Members:
        """Likewise."""
        found = maintenance.end(
            self._plane,
            _subject(word.subject),
            reason=word.reason,
            by=Initiator(word.by),
            behind=_behind(word),
        )
        return MAINTENANCE, _said(found)

    def _page(self, most: int, last: Maintenance | None) -> Sequence[Maintenance]:
        return maintenance.page(self._plane, limit=most, after=last.subject if last else None)


def _behind(word: MaintenanceWord) -> tuple[int, ...] | None:
    return None if word.seen is None else (word.seen,)


def _subject(words: str) -> Subject:
    # A slot is typed as HOST/PCI-ADDRESS, a host without a slash.
    return Subject.of(slot(words)) if "/" in words else Subject(words)


def _said(one: Maintenance) -> Sequence[object]:
    return [str(one.subject), one.until, one.reason, one.by.user, one.at, one.version]
