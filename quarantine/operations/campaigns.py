"""Campaigns: many slots erased again by one word, with a preview, and a result for each.

A slot on offer is held and then released, as by hand, as long as the pool keeps its share; one that
a server has is held at its next release. The running service works it off, a little in each round;
:func:`advance` does it too. The same id again does nothing twice.
"""

from __future__ import annotations

import hashlib
import math
import re
import threading
from collections import Counter
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC
from typing import Final

from eraser.protocol import codec
from quarantine.errors import (
    BadInputError,
    CrowdedError,
    QuarantineError,
    StalePreviewError,
    UnknownError,
    UnreadOutcomeError,
)
from quarantine.operations.names import KEEP as KEEP
from quarantine.operations.overview.capacity import pace_of
from quarantine.operations.plane import Plane
from quarantine.record.pages import CampaignPlace, SlotLine
from quarantine.record.pages import CampaignQuery as CampaignQuery
from quarantine.record.store import Store
from quarantine.record.words.campaign_facts import ENDED as ENDED
from quarantine.record.words.campaign_facts import Campaign as Campaign
from quarantine.record.words.campaign_facts import CampaignActLine as CampaignActLine
from quarantine.record.words.campaign_facts import CampaignSlotLine as CampaignSlotLine
from quarantine.record.words.campaign_facts import CampaignState as CampaignState
from quarantine.record.words.campaign_facts import CampaignStep as CampaignStep
from quarantine.record.words.facts import Initiator as Initiator
from quarantine.record.words.states import State
from quarantine.rules.campaign import spare

MOST: Final = 200_000
"""Slots of one campaign: more than a fleet has, so that a mistake ends before it fills the disk."""

MOST_LISTED: Final = 5_000
"""Campaigns of one list."""

WAIT_SECONDS: Final = 10.0
"""How long a caller waits for the previews of others."""

_CHUNK: Final = 500
_TURN: Final = threading.Lock()
"""A preview counts a whole fleet: one does at a time in a process, however many ask, for its
threads are the API's too."""
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True)
class CampaignForecast:
    """What a campaign would be about, as it is now. Nothing was changed."""

    slots: int
    in_use: int
    """Taken at their next release."""
    free: int
    """On offer: held and released in turn, as the pool can spare them."""
    held: int
    """Left to people, unless the query names the code that they are held for."""
    in_quarantine: int
    """Their erases are due or run; those that run are taken when they are over."""
    which: tuple[SlotLine, ...]
    """The first of them."""
    drive_seconds: float | None
    """For how long the pool misses one drive: the longest of the models; None where no case of one
    is known."""
    pool_seconds: float | None
    """Until all that are free now are back: so many at a time as the pool can spare."""
    at_a_time: int
    """So many more now: what running campaigns have taken is gone from the share of all."""
    version: str = ""
    """Another one when the campaign would be about other slots, or about another drive in one.
    What becomes of a slot meanwhile is not part of it: servers come and go all the time."""


@dataclass(frozen=True)
class CampaignView:
    """A campaign, and how many of its slots are at which step."""

    campaign: Campaign
    slots: dict[str, int]
    acts: tuple[CampaignActLine, ...]
    """Who decided what of it, the oldest first."""


def preview(
    plane: Plane, query: CampaignQuery, *, keep: float = KEEP, limit: int
) -> CampaignForecast:
    """What it would come to; changes nothing. Raises ``BadInputError``, ``UnavailableError``, and
    ``CrowdedError`` where the previews of others take too long to wait for."""
    _require(query, keep)
    with _turn(), plane.parts() as parts:
        store = parts.store
        counts: Counter[str] = Counter()
        free: Counter[tuple[str, str | None]] = Counter()
        version = _Version(query)
        # The whole fleet is walked once: for the version, the counts, and what is free of each
        # class.
        for place in _places(store, query):
            version.has(place)
            counts[place.state] += 1
            if place.state == State.AVAILABLE:
                free[place.resource_class, place.model] += 1
        which = store.campaign_page(query, limit=limit)
        paces = {model: pace_of(store, model) for _of, model in free if model is not None}
        # As the service counts it, in this order: what is taken in between is counted as neither.
        whole = Counter(store.taken_from_the_pool())
        whole.update(store.free_of_each_class())
        gone = store.taken_from_the_pool(claimed=True)
    # One free drive of a model without a known case is enough: then nobody can say how long.
    longest: float | None = 0.0
    for _of, model in free:
        known = paces.get(model or "")
        if known is None or longest is None:
            longest = None
        else:
            longest = max(longest, known.erase + known.verify)
    # The pool is kept class by class, so models of one class are counted together.
    of_class = Counter[str]()
    for (of, _model), count in free.items():
        of_class[of] += count
    # What is claimed counts as taken, though it is still on offer: it is about to be held.
    at_a_time = {of: spare(whole[of] - gone.get(of, 0), gone.get(of, 0), keep) for of in of_class}
    # A class of which the pool can spare none now has no end that can be computed.
    stuck = any(not at_a_time[of] for of in of_class)
    # Classes are worked off side by side: the one that takes the most turns decides.
    turns = (
        0 if stuck else max((math.ceil(of_class[of] / at_a_time[of]) for of in of_class), default=0)
    )
    return CampaignForecast(
        slots=counts.total(),
        in_use=counts[State.IN_USE],
        free=counts[State.AVAILABLE],
        held=counts[State.HELD],
        in_quarantine=counts.total()
        - counts[State.IN_USE]
        - counts[State.AVAILABLE]
        - counts[State.HELD],
        which=tuple(which),
        drive_seconds=longest if free else 0.0,
        pool_seconds=None if longest is None or stuck else turns * longest,
        at_a_time=sum(at_a_time.values()),
        version=str(version),
    )


def begin(
    plane: Plane,
    name: str,
    query: CampaignQuery,
    *,
    reason: str,
    by: Initiator,
    keep: float = KEEP,
    seen: Collection[str] = (),
) -> CampaignView:
    """Begins one, under the id that the caller names; nothing is done twice when it is repeated.

    ``seen``: it has to be about the slots of a preview of one of these versions; empty: as it is
    now. Raises ``BadInputError``, ``StalePreviewError``, ``StaleError`` where the id is another
    campaign's, ``ConflictError``, ``UnavailableError``, and of that ``UnreadOutcomeError`` where it
    is begun, and how far it is cannot be read.
    """
    _require(query, keep)
    # Before the record is asked: the id goes into the reasons of all holds of the campaign.
    if not _NAME.fullmatch(name):
        raise BadInputError(
            f"campaign: expected an id of 1 to 64 letters, digits, dots, hyphens and underscores, "
            f"found {codec.shown(name)}"
        )
    _require_words(reason, by)
    said = codec.canonical(_plain(query)).decode()
    with plane.parts() as parts:
        # The version is made of the same rows that become the campaign's slots: nothing can change
        # between what is compared and what is begun.
        version, slots = _Version(query), []
        for place in _places(parts.store, query):
            version.has(place)
            slots.append((place.host, place.address, place.identity_digest))
        # One that was begun changes what it is about: its repetition is still the same.
        if seen and str(version) not in seen and parts.store.campaign(name) is None:
            raise StalePreviewError(
                f"campaign {name}: expected the slots of the preview, found it about others by "
                f"now ({len(slots)} slots); look at the preview again"
            )
        if not slots and parts.store.campaign(name) is None:
            raise BadInputError(
                f"campaign {name}: expected at least one slot that is as asked for, found none: is "
                "a word of it misspelt? The preview shows the same"
            )
        made = parts.store.begin_campaign(
            name,
            query=said,
            reason=reason,
            # Digits that every database gives back as they were: a repetition says the same.
            keep=round(keep, 4),
            by=by,
            slots=slots,
        )
        return _outcome(parts.store, made)


def show(plane: Plane, name: str) -> CampaignView:
    """One. Raises ``UnknownError``."""
    with plane.parts() as parts:
        return _view(parts.store, _known(parts.store, name))


def page(plane: Plane, *, limit: int, after: str = "") -> tuple[Campaign, ...]:
    """Campaigns by id, those behind ``after``."""
    with plane.parts() as parts:
        return tuple(parts.store.campaign_list(limit=limit, after=after))


def lines(
    plane: Plane, name: str, *, limit: int, after: tuple[str, str] = ("", "")
) -> tuple[CampaignSlotLine, ...]:
    """A campaign's slots, each with its result, by host and address. Raises ``UnknownError``."""
    with plane.parts() as parts:
        known = _known(parts.store, name)
        return tuple(parts.store.campaign_lines(known.id, limit=limit, after=after))


def missing(plane: Plane, name: str) -> int:
    """How many drives the pool misses now because of a campaign: taken while they were on offer,
    and not back yet. Raises ``UnknownError``."""
    with plane.parts() as parts:
        return sum(parts.store.taken_from_the_pool(_known(parts.store, name).id).values())


def each(plane: Plane) -> tuple[Campaign, ...]:
    """All of them, those that are not over first, then the newest change first; at most
    :data:`MOST_LISTED`, by id."""
    found: list[Campaign] = []
    while len(found) < MOST_LISTED:
        more = page(plane, limit=_CHUNK, after=found[-1].id if found else "")
        found += more
        if len(more) < _CHUNK:
            break
    # The second sort is stable: within each half the newest change stays first.
    found.sort(key=lambda one: one.changed_at, reverse=True)
    found.sort(key=lambda one: one.state in (CampaignState.STOPPED, CampaignState.DONE))
    return tuple(found[:MOST_LISTED])


def put(
    plane: Plane,
    name: str,
    state: CampaignState,
    *,
    reason: str,
    by: Initiator,
    behind: Collection[int] = (),
) -> CampaignView:
    """Pauses one, has it go on, or stops it for good. What was taken is finished as ever.

    Raises ``UnknownError``, ``StaleError`` where it is not at one of these versions,
    ``IllegalTransitionError`` where it is over, ``UnreadOutcomeError`` as :func:`begin`.
    """
    _require_words(reason, by)
    with plane.parts() as parts:
        found = parts.store.set_campaign(name, state, behind, reason=reason, by=by)
        return _outcome(parts.store, found)


def advance(plane: Plane, name: str) -> int:
    """A turn, as the running service takes one in each round; how many slots were acted on."""
    # It loads what talks to a cloud, which all other operations on campaigns do without.
    from quarantine.service.campaigns import CampaignWork

    with plane.assembly() as assembly:
        _known(assembly.store, name)
        loop = assembly.reconciler
        return CampaignWork(assembly.store, loop.look, loop.consumers).advance(name)


@contextmanager
def _turn() -> Iterator[None]:
    """Raises ``CrowdedError``."""
    if not _TURN.acquire(timeout=WAIT_SECONDS):
        raise CrowdedError(
            f"campaign: expected a turn to count its slots within {WAIT_SECONDS:g} s, found others "
            "previewed; ask again later"
        )
    try:
        yield
    finally:
        _TURN.release()


def _places(store: Store, query: CampaignQuery) -> Iterator[CampaignPlace]:
    for count, place in enumerate(store.campaign_places(query), start=1):
        if count > MOST:
            raise BadInputError(
                f"campaign: expected {MOST} slots at most, found more: name a host or a model too"
            )
        yield place


def _require(query: CampaignQuery, keep: float) -> None:
    # A campaign about nothing in particular would erase the whole fleet.
    if query == CampaignQuery():
        raise BadInputError("campaign: expected a model, firmware, host, code or date, found none")
    try:
        # A time in the first or the last hours of datetime's range overflows when it is put into
        # UTC.
        _plain(query)
    except OverflowError:
        raise BadInputError(
            f"certified_before: expected a time of the years 1 to 9999 in UTC, found "
            f"{query.certified_before}"
        ) from None
    if not 0 <= keep <= 1:
        raise BadInputError(f"keep: expected a share of the pool, 0 to 1, found {keep}")


def _require_words(reason: str, by: Initiator) -> None:
    if not reason.strip() or not by.user.strip():
        raise BadInputError("campaign: expected a reason and the name of who decides, found none")


def _known(store: Store, name: str) -> Campaign:
    found = store.campaign(name)
    if found is None:
        raise UnknownError(f"campaign {codec.shown(name)}: expected one of this id, found none")
    return found


def _view(store: Store, campaign: Campaign) -> CampaignView:
    counts, acts = store.campaign_counts(campaign.id), store.campaign_acts(campaign.id)
    return CampaignView(campaign, counts, tuple(acts))


def _outcome(store: Store, written: Campaign) -> CampaignView:
    """Of one that was written just now. Raises ``UnreadOutcomeError``."""
    try:
        return _view(store, written)
    except QuarantineError as error:
        # It must not look as if nothing had been begun: the caller would begin another one.
        raise UnreadOutcomeError(
            f"campaign {written.id}: it is on record as {written.state}, and the service acts on "
            f"it; how far it is cannot be read now: {error}"
        ) from error


class _Version:
    """Of a preview: what it is asked for, and each slot with its drive, by id."""

    def __init__(self, query: CampaignQuery) -> None:
        self._said = hashlib.sha256(codec.canonical(_plain(query)))

    def has(self, place: CampaignPlace) -> None:
        """The next slot."""
        self._said.update(f"\n{place.host} {place.address} {place.identity_digest}".encode())

    def __str__(self) -> str:
        return self._said.hexdigest()[:32]


def _plain(query: CampaignQuery) -> dict[str, str]:
    at = query.certified_before
    said = {
        "model": query.model,
        "firmware": query.firmware,
        "host": query.host,
        "hold_code": query.hold_code,
        "certified_before": None if at is None else at.astimezone(UTC).isoformat(),
    }
    return {name: value for name, value in said.items() if value is not None}
