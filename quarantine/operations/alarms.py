"""What people were called for: the alarms of every process, as the log has them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from eraser.protocol import codec
from quarantine.errors import BadInputError
from quarantine.operations.plane import Plane
from quarantine.record.alarms import AlarmLine as AlarmLine
from quarantine.rules.alarmbook import ALARMS, Alarm

KINDS: Final[Mapping[str, Alarm]] = {code.value: kind for code, kind in ALARMS.items()}
"""By the code, how bad it is and what to do."""


def page(
    plane: Plane,
    *,
    limit: int,
    after: int = 0,
    code: str | None = None,
    host: str | None = None,
    since: datetime | None = None,
    is_over: bool | None = None,
) -> tuple[AlarmLine, ...]:
    """Those behind the id ``after``, in the order of their first calls.

    Of a code; of a host and its slots; called since then; over, or not said to be. Raises
    ``BadInputError`` for a code that there is not, ``UnavailableError``.
    """
    if code is not None and code not in KINDS:
        raise BadInputError(
            f"code: expected one of {', '.join(sorted(KINDS))}, found {codec.shown(code)}"
        )
    with plane.parts() as parts:
        found = parts.store.alarm_page(
            limit=limit, after=after, code=code, host=host, since=since, is_over=is_over
        )
    return tuple(found)
