"""What a person wants done, as a form says it, held against what the API takes for the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from quarantine.api import documents, faults
from quarantine.api.operation import Operation
from quarantine.api.routes import OPERATIONS
from quarantine.page.view import PageView, Shown, Visit

UNSAID: Final = "Nothing was done: say why.", "The history keeps it for your successor."
STALE: Final = (
    "It has changed since you looked, and nothing was done.",
    "The form below is of it as it is now.",
)


@dataclass(frozen=True)
class Refused:
    """Why nothing was done."""

    status: int
    said: str
    detail: str = ""


def beside(visit: Visit, looks: str, wrong: Refused, shown: Callable[[], Shown]) -> Shown:
    """The refusal beside the form, on the page of what it is about; by itself for who may not look
    at that: rules may let somebody act who sees nothing. Raises ``Fault``."""
    # The form shows the thing itself, which the rule to act alone does not let him see.
    if visit.allows(looks):
        return shown()
    # What else is said of a change is of the form.
    detail = "" if wrong.status == 412 else wrong.detail
    raise faults.Fault(wrong.status, "refused", f"{wrong.said} {detail}".strip())


def same(method: str, path: str) -> Operation:
    """The API's operation that does the same: whatever it would refuse is refused here."""
    return next(one for one in OPERATIONS if (one.method, one.path) == (method, path))


def refused(body: Mapping[str, Any], operation: Operation) -> Refused | None:
    """What is wrong with a wish; None where nothing is. A reason is in each."""
    # First, for which there are kinder words than the schema's.
    if not str(body.get("reason", "")).strip():
        return Refused(400, *UNSAID)
    try:
        documents.check(dict(body), operation.body_validator, "form")
    except faults.Fault as fault:
        return Refused(fault.status, "Nothing was done.", fault.detail)
    return None


def typed(given: str, expected: str) -> bool:
    """Whether what had to be typed was."""
    return " ".join(given.split()) == " ".join(expected.split())


def views(
    path: str, rule: str, act: Callable[[Visit], Shown], back: Callable[[Visit], str], looks: str
) -> tuple[PageView, PageView]:
    """An act at an address of its own. Who loads that again looks at what it was about: ``back``
    names the place, and ``looks`` the rule of it."""

    def elsewhere(visit: Visit) -> Shown:
        return Shown(elsewhere=visit.url(back(visit)))

    return PageView(path, rule, act, "POST"), PageView(path, looks, elsewhere)
