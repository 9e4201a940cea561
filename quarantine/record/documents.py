"""Profiles and policies: approved by a person, kept in every version."""

from __future__ import annotations

import logging
import re
from collections.abc import Collection
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Final, TypeVar

import sqlalchemy as sa

from eraser.protocol import codec
from eraser.protocol.errors import BadInputError as BadWireError
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from quarantine.errors import BadInputError, StaleError, UnreadableError
from quarantine.record.database import models
from quarantine.record.database.base import Repository
from quarantine.record.database.damaged import separately, whole
from quarantine.record.database.lines import named_page
from quarantine.record.database.rows import Row
from quarantine.record.words.facts import Approved, ApprovedLine, Initiator
from quarantine.record.words.texts import storable

LOG = logging.getLogger(__name__)

_TABLE = models.documents
_PROFILE = "profile"
_POLICY = "policy"
_DIGEST: Final = re.compile("[0-9a-f]{64}")

T = TypeVar("T", Profile, Policy)


@dataclass(frozen=True)
class _Stored:
    """A document as it is stored."""

    name: str
    version: int
    digest: str
    content: str
    approved_by: str
    approved_at: datetime | None
    reason: str | None
    by_project: str | None
    by_request: str | None
    damaged: tuple[str, ...] = ()


_STORED: Final = tuple(_TABLE.c[field.name] for field in fields(_Stored)[:-1])


class DocumentRepository(Repository):
    """What the store knows about approved documents."""

    def put_profile(
        self, profile: Profile, by: Initiator, *, reason: str = "", behind: Collection[int] = ()
    ) -> Approved[Profile]:
        """Approves a profile; a changed one becomes the next version of its name.

        ``behind``: the newest version has to be one of these, 0 for none. Raises
        :class:`StaleError` where it is not.
        """
        return self._put(_PROFILE, Profile, profile, by, reason, behind)

    def profile(self, name: str) -> Approved[Profile] | None:
        """The newest version."""
        return self._newest(_PROFILE, Profile, name)

    def profiles(self, *, limit: int | None = None, after: str = "") -> list[ApprovedLine[Profile]]:
        """The newest version of each, by name; so many at most, those behind ``after``."""
        return self._page(_PROFILE, Profile, limit, after)

    def put_policy(
        self, policy: Policy, by: Initiator, *, reason: str = "", behind: Collection[int] = ()
    ) -> Approved[Policy]:
        """Approves a policy; a changed one becomes the next version of its name.

        ``behind``: the newest version has to be one of these, 0 for none. Raises
        :class:`StaleError` where it is not.
        """
        return self._put(_POLICY, Policy, policy, by, reason, behind)

    def policy(self, name: str) -> Approved[Policy] | None:
        """The newest version."""
        return self._newest(_POLICY, Policy, name)

    def approved(self, content: T) -> Approved[T] | None:
        """The newest version that is this very document; None where nobody approved it, or where
        one that may be it cannot be read: who approved an older one did not approve it last."""
        kind = _PROFILE if isinstance(content, Profile) else _POLICY
        named = sa.and_(_TABLE.c.kind == kind, _TABLE.c.name == content.name)
        # By its digest too, and in the order of writing: kind, name and version may be damaged.
        query = (
            sa.select(_TABLE)
            .where(sa.or_(named, _TABLE.c.digest == codec.digest(content)))
            .order_by(_TABLE.c.id.desc())
        )
        fits = whole(tuple(_TABLE.c))
        with self._reading() as db:
            for number, row, _why in separately(db, query, _TABLE.c.id):
                if row is None or not fits(tuple(row.values())):
                    if _may_be(db, row["id"] if row else number, content):
                        return None
                    continue
                try:
                    found = _record(type(content), row)
                except UnreadableError:
                    if _may_be(db, row["id"], content):
                        return None
                    continue  # another release's; this one's decision was not made with it
                if found.content == content:
                    is_it = (row["kind"], found.name) == (kind, content.name)
                    return found if is_it and found.version > 0 else None
        return None

    def policies(self, *, limit: int | None = None, after: str = "") -> list[ApprovedLine[Policy]]:
        """The newest version of each, by name; so many at most, those behind ``after``."""
        return self._page(_POLICY, Policy, limit, after)

    def _put(
        self,
        kind: str,
        cls: type[T],
        content: T,
        by: Initiator,
        reason: str,
        behind: Collection[int],
    ) -> Approved[T]:
        who = storable(by.user.strip(), models.INITIATOR)
        if not who:
            raise BadInputError(
                f"{kind} {content.name!r}: expected the name of the person who approves it, "
                "found none"
            )
        with self._writing() as db:
            last = _newest(db, kind, content.name)
            version = 0 if last is None else last["version"]
            if behind and version not in behind:
                raise StaleError(
                    f"{kind} {content.name!r}: expected another version than {version or 'none'}; "
                    "look at it again"
                )
            # The same again is no new version: who approved it first stays the one who did.
            if last is not None and last["digest"] == codec.digest(content):
                return _record(cls, last)
            db.execute(
                sa.insert(_TABLE).values(
                    kind=kind,
                    name=content.name,
                    version=version + 1,
                    digest=codec.digest(content),
                    content=codec.canonical(content).decode(),
                    approved_by=who,
                    approved_at=self._clock(),
                    reason=storable(reason),
                    by_project=storable(by.project, models.INITIATOR),
                    by_request=storable(by.request, models.INITIATOR),
                )
            )
            row = _newest(db, kind, content.name)
            assert row is not None
            return _record(cls, row)

    def _newest(self, kind: str, cls: type[T], name: str) -> Approved[T] | None:
        with self._reading() as db:
            row = _newest(db, kind, name)
            return None if row is None else _record(cls, row)

    def _page(
        self, kind: str, cls: type[T], limit: int | None, after: str
    ) -> list[ApprovedLine[T]]:
        name, version = _TABLE.c.name, sa.func.max(_TABLE.c.version).label("version")
        newest = sa.select(name, version).where(_TABLE.c.kind == kind, name > storable(after))
        found = newest.group_by(name).subquery()
        query = (
            sa.select(*_STORED)
            .join(found, sa.and_(found.c.name == name, found.c.version == _TABLE.c.version))
            .where(_TABLE.c.kind == kind)
            .order_by(name)
        )
        with self._reading() as db:
            lines = named_page(db, _Stored, query, _STORED, (_TABLE.c.id,), limit, "name")
        return [_line(cls, kind, one) for one in lines]


def _may_be(db: sa.Connection, number: int, content: Profile | Policy) -> bool:
    """Whether a version that cannot be read as a whole may be this very document, by its digest."""
    query = sa.select(_TABLE.c.digest).where(_TABLE.c.id == number)
    # A digest that cannot be read, or is none, rules nothing out.
    for _id, row, _why in separately(db, query, _TABLE.c.id):
        said = None if row is None else row["digest"]
        if not isinstance(said, str) or not _DIGEST.fullmatch(said):
            return True
        return said == codec.digest(content)
    return False


def _line(cls: type[T], kind: str, one: _Stored) -> ApprovedLine[T]:
    content, damaged = None, one.damaged
    if "content" not in damaged:
        try:
            content = codec.load(cls, one.content, f"stored {kind} {one.name!r}")
        except BadWireError as error:
            LOG.warning("%s", error)
            damaged += ("content",)
    return ApprovedLine(
        name=one.name,
        version=one.version,
        digest=one.digest,
        content=content,
        approved_by=one.approved_by,
        approved_at=one.approved_at,
        reason=one.reason or "",
        project=one.by_project or "",
        request=one.by_request or "",
        damaged=damaged,
    )


def _newest(db: sa.Connection, kind: str, name: str) -> Row | None:
    query = (
        sa.select(_TABLE)
        .where(_TABLE.c.kind == kind, _TABLE.c.name == name)
        .order_by(_TABLE.c.version.desc())
        .limit(1)
    )
    return db.execute(query).mappings().first()


def _record(cls: type[T], row: Row) -> Approved[T]:
    what = f"stored {row['kind']} {row['name']!r}"
    try:
        # Strictly: a member that we leave out is a decision about the erase that nobody made.
        content = codec.load(cls, row["content"], what)
    except BadWireError as error:
        raise UnreadableError(str(error)) from error
    return Approved(
        name=row["name"],
        version=row["version"],
        digest=row["digest"],
        content=content,
        approved_by=row["approved_by"],
        approved_at=row["approved_at"],
        reason=row["reason"] or "",
        project=row["by_project"] or "",
        request=row["by_request"] or "",
    )
