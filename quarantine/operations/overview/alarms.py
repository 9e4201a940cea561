"""What people were called for: the alarms of every process, as the log has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from eraser.protocol import codec
from eraser.protocol.identity import Slot
from quarantine.errors import BadInputError
from quarantine.operations.plane import Plane
from quarantine.record.alarms import AlarmLine as AlarmLine
from quarantine.record.alarms import AlarmMark as AlarmMark
from quarantine.rules.alarmbook import ALARMS, Alarm, Severity

KINDS: Final[Mapping[str, Alarm]] = {code.value: kind for code, kind in ALARMS.items()}
"""By the code, how bad it is and what to do."""

SEVERITIES: Final = tuple(one.value for one in Severity)


def page(
    plane: Plane,
    *,
    limit: int,
    newest: bool = False,
    after: AlarmMark | None = None,
    code: str | None = None,
    severity: str | None = None,
    host: str | None = None,
    slot: Slot | None = None,
    since: datetime | None = None,
    is_over: bool | None = None,
) -> tuple[AlarmLine, ...]:
    """Those behind ``after``, in the order of their first calls; ``newest``: the last call first.

    Of a code; that bad; of a host and its slots; of a slot; called since then; over, or not said
    to be. Raises ``BadInputError`` for a code or severity that there is not, ``UnavailableError``.
    """
    codes = _codes(code, severity)
    with plane.parts() as parts:
        found = parts.store.alarm_page(
            limit=limit,
            newest=newest,
            after=after,
            codes=codes,
            host=host,
            slot=slot,
            since=since,
            is_over=is_over,
        )
    return tuple(found)


def _codes(code: str | None, severity: str | None) -> frozenset[str] | None:
    """None: any, those of another release too."""
    if code is not None and code not in KINDS:
        raise BadInputError(
            f"code: expected one of {', '.join(sorted(KINDS))}, found {codec.shown(code)}"
        )
    if severity is not None and severity not in SEVERITIES:
        raise BadInputError(
            f"severity: expected one of {', '.join(SEVERITIES)}, found {codec.shown(severity)}"
        )
    if code is None and severity is None:
        return None
    # The record has codes alone: how bad each is, this release says.
    return frozenset(
        name
        for name, kind in KINDS.items()
        if code in (None, name) and severity in (None, kind.severity.value)
    )
