"""Features at the end of a case: set back to the profile's (docs/decisions/restore.md)."""

from __future__ import annotations

from typing import Any

from eraser.case.entries import Sent
from eraser.case.session import CaseSession
from eraser.controller.passthru import FEATURE_DEFAULT
from eraser.drive import bootlocks, hostmetadata, manage, personality
from eraser.drive.features import differing, known_of, read_as
from eraser.drive.inquiry import FEATURE_WRITE_PROTECTION
from eraser.drive.profile import is_of
from eraser.errors import DriveError
from eraser.protocol.profile import FeatureRule
from eraser.protocol.report import ControllerFacts

_NOT_SAVED = frozenset({0x02, 0x10D})
"""Invalid Field, Feature Identifier Not Saveable (Base 2.0, figures 126 and 128): drives that save
none of a feature answer the one or the other."""


_NEVER_SENT = frozenset({FEATURE_WRITE_PROTECTION, personality.FEATURE})
"""One state of a namespace's write protection lasts for ever, and personalities may freeze, or
change what is on the drive: a profile's word is compared and never sent."""


def mend(session: CaseSession, found: ControllerFacts, rules: tuple[FeatureRule, ...]) -> bool:
    """Sets features back to the profile's values, saved where the drive saves them.

    Whether anything was sent. Of an older profile's data only the digest is there: what differs
    from it is named by the last look, as is what the drive refuses.
    """
    controller, profile = session.controller, session.request.profile
    # What the drive does not have (None) is left to the last look.
    wanted = [
        (rule, other)
        for rule, other in differing(profile.features, rules)
        if other is not None and rule.fid not in _NEVER_SENT
    ]
    if not wanted or not is_of(profile, controller.identity(), found):
        return False
    saves, before = controller.identify().saves_features, len(session.state.commands)
    for rule, other in wanted:
        known = known_of(rule)
        if known.metadata:
            for change in _metadata(rule, other):
                words = {"send": change.data, "note": change.note}
                _set(session, rule.fid, change.cdw11, other.nsid, save=saves, **words)
        elif rule.fid == bootlocks.FEATURE:
            locks = bootlocks.relocked(rule.value, other.value)
            if locks:
                _set(session, rule.fid, locks, other.nsid, save=False)
        # With a digest alone nobody knows the bytes to send.
        elif not rule.digest or rule.complete:
            _set_value(session, rule, other, save=saves and known.saved)
    # A second look at all features is worth its commands only if one was sent.
    return len(session.state.commands) > before


def _set_value(session: CaseSession, rule: FeatureRule, other: FeatureRule, *, save: bool) -> None:
    """The profile's value, or the drive's own default of what differs from drive to drive."""
    known, wanted = known_of(rule), rule
    if known.own_default:
        wanted = read_as(session.controller, other, FEATURE_DEFAULT) or rule
    words: dict[str, Any] = {"send": wanted.content} if known.data else {}
    value = wanted.value | rule.select
    # The value goes in dword 12 then, and dword 11 has only what it is of.
    if known.in_dword_12:
        words["cdw12"], value = wanted.value, rule.select
    if known.in_dword_13:
        words["cdw13"], value = wanted.value, rule.select
    _set(session, rule.fid, value, other.nsid, save=save, **words)


def _metadata(rule: FeatureRule, other: FeatureRule) -> tuple[hostmetadata.SetFeature, ...]:
    """Nothing where it is not known what should be there, or where the drive answers in no form
    that has elements."""
    if not rule.complete:
        return ()
    try:
        return hostmetadata.changes(rule.fid, rule.content, other.content)
    except DriveError:
        return ()


def _set(
    session: CaseSession, fid: int, value: int, nsid: int, *, save: bool, **words: Any
) -> None:
    """Also for now alone, where the drive does not save this feature."""
    record = manage.set_feature(session.controller, fid, value, nsid, save=save, **words)
    session.note(Sent(record))
    if save and record.status in _NOT_SAVED:
        _set(session, fid, value, nsid, save=False, **words)
