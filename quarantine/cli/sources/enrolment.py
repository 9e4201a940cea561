"""Enrolment by this control plane."""

from __future__ import annotations

from quarantine import users
from quarantine.cli.sources.source import Enrolment, EnrolmentLine, EnrolmentWish
from quarantine.operations import enrol
from quarantine.operations.enrol import EnrolmentRequest, EnrolmentResult
from quarantine.operations.plane import Plane
from quarantine.operations.slots import Initiator


class StoreEnrolment:
    """See :class:`quarantine.cli.sources.source.EnrolmentSource`."""

    def __init__(self, plane: Plane) -> None:
        self._plane = plane

    def plan(self, wish: EnrolmentWish) -> Enrolment:
        """Changes nothing."""
        return _said(enrol.take(self._plane, _request(wish), plan=True))

    def take(self, wish: EnrolmentWish) -> Enrolment:
        """As the slots are now, or as the plan that was seen has them."""
        # By the kernel's word and no --by: who takes slots in says so with his login.
        request, reason, by = _request(wish), wish.reason, Initiator(users.who())
        if not wish.seen:
            return _said(enrol.take(self._plane, request, reason=reason, by=by))
        seen = (wish.seen,)
        return _said(enrol.take_as_planned(self._plane, request, seen, reason=reason, by=by))


def _request(wish: EnrolmentWish) -> EnrolmentRequest:
    return EnrolmentRequest(
        profile=wish.profile,
        policy=wish.policy,
        host=wish.host,
        address=wish.address,
        resource_class=wish.resource_class,
    )


def _said(done: EnrolmentResult) -> Enrolment:
    lines = tuple(
        EnrolmentLine(one.slot, one.fate, one.resource_class, one.consumer, one.reason)
        for one in done.slots
    )
    return Enrolment(lines, done.version, done.unacted)
