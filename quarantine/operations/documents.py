"""What people approve: profiles (what drives must look like) and policies (how they are erased)."""

from __future__ import annotations

from collections.abc import Collection
from typing import TypeVar

from eraser.protocol import codec
from eraser.protocol.conclusions.applied import Applied, apply
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from quarantine.errors import BadInputError, UnknownError
from quarantine.operations.plane import Plane
from quarantine.record.words.facts import Approved as Approved
from quarantine.record.words.facts import ApprovedLine as ApprovedLine
from quarantine.record.words.facts import Initiator as Initiator

T = TypeVar("T")


def profiles(
    plane: Plane, *, limit: int | None = None, after: str = ""
) -> tuple[ApprovedLine[Profile], ...]:
    """Approved profiles by name, those behind ``after``. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.profiles(limit=limit, after=after))


def policies(
    plane: Plane, *, limit: int | None = None, after: str = ""
) -> tuple[ApprovedLine[Policy], ...]:
    """Approved policies by name, those behind ``after``. Raises ``UnavailableError``."""
    with plane.parts() as parts:
        return tuple(parts.store.policies(limit=limit, after=after))


def profile(plane: Plane, name: str) -> Approved[Profile]:
    """The newest version of one. Raises ``BadInputError`` where none is approved."""
    with plane.parts() as parts:
        return _found(parts.store.profile(name), "profile", name)


def policy(plane: Plane, name: str) -> Approved[Policy]:
    """The newest version of one. Raises ``BadInputError`` where none is approved."""
    with plane.parts() as parts:
        return _found(parts.store.policy(name), "policy", name)


def approve_profile(
    plane: Plane,
    raw: bytes,
    where: str,
    *,
    by: Initiator,
    reason: str = "",
    behind: Collection[int] = (),
) -> Approved[Profile]:
    """Approves a profile in JSON; ``where`` names it in errors.

    ``behind``: the newest version has to be one of these, 0 for none. Raises ``BadInputError``,
    ``StaleError``.
    """
    content = load(Profile, raw, where)
    with plane.parts() as parts:
        return parts.store.put_profile(content, by, reason=reason, behind=behind)


def approve_policy(
    plane: Plane,
    raw: bytes,
    where: str,
    *,
    by: Initiator,
    reason: str = "",
    behind: Collection[int] = (),
) -> Approved[Policy]:
    """Approves a policy in JSON; ``where`` names it in errors.

    ``behind``: the newest version has to be one of these, 0 for none. Raises ``BadInputError``,
    ``StaleError``.
    """
    content = load(Policy, raw, where)
    with plane.parts() as parts:
        return parts.store.put_policy(content, by, reason=reason, behind=behind)


def policy_for(
    plane: Plane, name: str, *, model: str, firmware: str = "", vendor_id: int = 0
) -> Applied:
    """What a policy, approved or configured, means for drives of a model.

    Raises ``UnknownError`` where there is none of that name.
    """
    with plane.parts() as parts:
        approved = parts.store.policy(name)
        # The policy of the configuration counts without being approved; an approved one of the same
        # name comes before it.
        if approved is None and name != parts.policy.name:
            raise _missing("policy", name)
        content = approved.content if approved else parts.policy
    return apply(content, vendor_id, model, firmware)


def load(cls: type[T], raw: bytes, where: str) -> T:
    """A document from its JSON. Raises ``BadInputError`` with one line that names it."""
    try:
        return codec.load(cls, raw, where)
    except BadWireError as error:
        raise BadInputError(str(error)) from error


def _found(document: Approved[T] | None, kind: str, name: str) -> Approved[T]:
    if document is None:
        raise _missing(kind, name)
    return document


def _missing(kind: str, name: str) -> UnknownError:
    return UnknownError(f"{kind} {name!r}: expected an approved one, found none")
