"""Placement or the record goes away at every moment of a decision: whatever is on record by then,
nobody is told that nothing was decided."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from quarantine.api import application
from quarantine.errors import QuarantineError, UnavailableError, UnfinishedError, UnreadOutcomeError
from quarantine.operations import campaigns, decisions
from quarantine.operations.campaigns import CampaignQuery, CampaignState
from quarantine.operations.decisions import Decision
from quarantine.operations.plane import Plane
from quarantine.operations.slots import Initiator, version
from quarantine.page.application import MOUNT
from quarantine.record.campaigns import CampaignRepository
from quarantine.record.database.base import Repository
from quarantine.record.words.facts import SlotChanges
from quarantine.record.words.states import State
from quarantine.service.reconciler import Reconciler
from tests.unit.quarantine.api.client import ADMIN, Client, Site
from tests.unit.quarantine.operations.test_quicker_servers import (
    NAME,
    PAGE,
    SLOT,
    Place,
    decide,
)
from tests.unit.quarantine.osc.shell import Program, Wire
from tests.unit.quarantine.page.visitor import Page, Visitor, visitor
from tests.unit.quarantine.smallcloud import available, slot_at

ADA = Initiator("ada", "ops", "req-1")
FIRST = 97
"""Of slots that the site does not have."""
ADDRESS = "https://placement.internal:8778"
WORDS: dict[str, Any] = {"reason": "why", "by": ADA}
QUERY = CampaignQuery(host="cmp1")
NOTHING = ("nothing was", "Nothing was")


class Failing:
    """Fails the n-th question of those that it is shown; with ``lasts`` all that follow too."""

    def __init__(self, at: int, *, lasts: bool) -> None:
        self._at = at
        self._lasts = lasts
        self._asked = 0

    @property
    def was_reached(self) -> bool:
        """Else there are no more questions than those that were answered."""
        return self._asked >= self._at

    def asked(self) -> None:
        """One more. Raises ``UnavailableError``."""
        self._asked += 1
        if self._asked == self._at or (self._lasts and self.was_reached):
            raise UnavailableError(f"no answer of {ADDRESS}")

    def before(self, door: Callable[..., Any]) -> Callable[..., Any]:
        """A door that asks first."""

        def asked(*words: Any, **more: Any) -> Any:
            self.asked()
            return door(*words, **more)

        return asked


def of_placement(patch: pytest.MonkeyPatch, place: Place, failing: Failing) -> None:
    patch.setattr(place.site.cloud, "_ask", failing.before(place.site.cloud._ask))


def of_the_record(patch: pytest.MonkeyPatch, _place: Any, failing: Failing) -> None:
    for door in ("_reading", "_writing"):
        patch.setattr(Repository, door, failing.before(getattr(Repository, door)))


Break = Callable[[pytest.MonkeyPatch, Any, Failing], None]


def moments(lasts: bool) -> Iterator[Failing]:
    """The first question, the second, and so on, as long as there is one more."""
    for number in itertools.count(1):
        yield (failing := Failing(number, lasts=lasts))
        if not failing.was_reached:
            return


def said_of(act: Callable[[], object]) -> QuarantineError | None:
    try:
        act()
    except QuarantineError as error:
        return error
    return None


def is_honest(error: QuarantineError | None, *, changed: bool) -> bool:
    """What is on record is never called nothing."""
    return error is None or not changed or isinstance(error, UnreadOutcomeError | UnfinishedError)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    with closing((made := Place(tmp_path)).store):
        yield made


@pytest.mark.parametrize("lasts", [True, False])
@pytest.mark.parametrize("breaks", [of_placement, of_the_record])
@pytest.mark.parametrize("act", [decisions.hold, decisions.retire, decisions.erase])
def test_a_decision_about_a_slot(place: Place, act: Any, breaks: Break, lasts: bool) -> None:
    outcomes = set()
    for number, failing in enumerate(moments(lasts), start=FIRST):
        slot = slot_at(number)
        before = version(available(place.store, place.site.cloud, slot))
        wish = functools.partial(act, place.plane, slot, reason="odd")
        with pytest.MonkeyPatch.context() as patch:
            breaks(patch, place, failing)
            error = said_of(functools.partial(wish, decision=Decision(ADA, (before,))))
        now = place.store.slot(slot)
        assert now is not None
        changed = now.state is not State.AVAILABLE
        assert is_honest(error, changed=changed), (number, error)
        outcomes.add((changed, type(error)))
    assert (True, type(None)) in outcomes, "nothing fails behind the last question"


@pytest.mark.parametrize("lasts", [True, False])
def test_a_decision_about_a_campaign(tmp_path: Path, lasts: bool) -> None:
    plane = Plane([Site(tmp_path).file])
    for number, failing in enumerate(moments(lasts)):
        with pytest.MonkeyPatch.context() as patch:
            of_the_record(patch, None, failing)
            begin = functools.partial(campaigns.begin, plane, f"c{number}", QUERY, **WORDS)
            error = said_of(begin)
        begun = any(one.id == f"c{number}" for one in campaigns.page(plane, limit=99))
        assert is_honest(error, changed=begun), (number, error)
    last = CampaignState.RUNNING
    for failing in moments(lasts):
        state = CampaignState.RUNNING if last is CampaignState.PAUSED else CampaignState.PAUSED
        with pytest.MonkeyPatch.context() as patch:
            of_the_record(patch, None, failing)
            put = functools.partial(campaigns.put, plane, f"c{number}", state, **WORDS)
            error = said_of(put)
        now = campaigns.show(plane, f"c{number}").campaign.state
        assert is_honest(error, changed=now is not last), error
        last = now


def test_who_is_late_for_the_second_half_is_told_of_the_first(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The service may write an alarm to the slot between the two, say."""
    late(place, monkeypatch)
    error = said_of(lambda: decide(place.plane, "erase"))
    assert isinstance(error, UnfinishedError)
    assert "it is held by now, and not yet released for its erase" in error.told
    assert place.record.state is State.HELD
    monkeypatch.undo()
    decide(place.plane, "erase")


def late(place: Place, patch: pytest.MonkeyPatch) -> None:
    """Something else of the slot changes behind its hold."""
    real = decisions._servers

    def meanwhile(plane: Plane, slot: Any) -> tuple[str, ...]:
        place.store.amend(place.record, SlotChanges(alarm="its host is silent"))
        return real(plane, slot)

    patch.setattr(decisions, "_servers", meanwhile)


def away(place: Place, patch: pytest.MonkeyPatch) -> None:
    """Placement is away from the moment of the hold."""
    failing = Failing(1, lasts=True)
    real = decisions._decided

    def held(*words: Any) -> Any:
        found = real(*words)
        of_placement(patch, place, failing)
        return found

    patch.setattr(decisions, "_decided", held)


@pytest.mark.parametrize("meanwhile", [late, away])
def test_the_api_says_that_it_is_held(
    place: Place, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[..., None]
) -> None:
    admin = Client(application.make(place.plane)).as_user(ADMIN)
    one = f"/v1/slots/{NAME}"
    tag = admin.get(one).headers["ETag"]
    meanwhile(place, monkeypatch)
    found = admin.ask("POST", f"{one}/erase", {"reason": "odd"}, If_Match=tag)
    assert found.status_code == 503
    (error,) = found.json["errors"]
    assert error["code"] == "nvme-quarantine.unfinished"
    assert "held by now" in error["detail"]
    assert "the same again" in error["detail"]
    assert ADDRESS not in found.text
    assert place.record.state is State.HELD


def test_no_conflict_says_what_an_outage_says_of_itself(
    place: Place, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A server has the drive by now, and the look that would write it down does not go through."""
    admin = Client(application.make(place.plane)).as_user(ADMIN)
    one = f"/v1/slots/{NAME}"
    tag = admin.get(one).headers["ETag"]
    monkeypatch.setattr(Reconciler, "consumers", lambda *_words: ("a server",))
    look = Failing(1, lasts=True).before(lambda: None)
    monkeypatch.setattr(Reconciler, "look", look)
    person = Visitor(application.make(place.plane, MOUNT)).as_user(ADMIN)
    fields = person.page(PAGE).forms[f"{PAGE}/hold"]
    for found in (
        admin.ask("POST", f"{one}/hold", {"reason": "odd"}, If_Match=tag),
        person.send(f"{PAGE}/hold", {**fields, "reason": "odd", "confirm": f"S{SLOT}"}),
    ):
        assert found.status_code == 409
        assert "a server has the drive by now" in found.text
        assert ADDRESS not in found.text
    assert caplog.text.count(ADDRESS) == 2


@pytest.mark.parametrize("meanwhile", [late, away])
def test_the_page_says_that_it_is_held(
    place: Place, monkeypatch: pytest.MonkeyPatch, meanwhile: Callable[..., None]
) -> None:
    person = Visitor(application.make(place.plane, MOUNT)).as_user(ADMIN)
    fields = person.page(PAGE).forms[f"{PAGE}/erase"]
    meanwhile(place, monkeypatch)
    sent = person.send(f"{PAGE}/erase", {**fields, "reason": "odd", "confirm": f"S{SLOT}"})
    assert sent.status_code == 503
    text = Page(sent.text).text
    assert "held by now" in text
    assert "Something does not answer" not in text, "nothing has to be away"
    assert not any(words in text for words in NOTHING), text
    assert ADDRESS not in sent.text


@pytest.mark.parametrize("meanwhile", [late, away])
def test_the_openstack_program_says_that_it_is_held(
    place: Place,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    meanwhile: Callable[..., None],
) -> None:
    program = Program(Wire(application.make(place.plane)), capsys)
    meanwhile(place, monkeypatch)
    code, _out, err = program("slot", "erase", str(SLOT), "--reason", "odd")
    assert code == UnfinishedError.exit_code
    assert "held by now" in err
    assert not any(words in err for words in NOTHING), err


def unread(patch: pytest.MonkeyPatch) -> None:
    """What came of a campaign cannot be read."""
    patch.setattr(
        CampaignRepository, "campaign_counts", Failing(1, lasts=True).before(lambda: None)
    )


def test_a_campaign_that_is_begun_or_stopped_is_never_called_none(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    site = Site(tmp_path)
    admin, one = site.client().as_user(ADMIN), "/v1/campaigns/fw1"
    body = {"query": {"host": "cmp1"}, "reason": "why"}
    with pytest.MonkeyPatch.context() as patch:
        unread(patch)
        found = admin.ask("PUT", one, body, If_None_Match="*")
    assert found.status_code == 503
    assert "the decision is on record" in found.text
    tag = admin.get(one).headers["ETag"]
    with pytest.MonkeyPatch.context() as patch:
        unread(patch)
        found = admin.ask("POST", f"{one}/pause", {"reason": "why"}, If_Match=tag)
    assert "the decision is on record" in found.text
    assert admin.get(one).json["state"] == "paused"
    program = Program(Wire(admin.app), capsys)
    with pytest.MonkeyPatch.context() as patch:
        unread(patch)
        words = ("--host", "cmp2", "--reason", "why")
        code, _out, err = program("campaign", "begin", "fw2", *words)
    assert (code, "the decision is on record" in err) == (6, True)
    person = visitor(site).as_user(ADMIN)
    fields = person.page("/page/campaigns/fw1").forms["/page/campaigns/fw1/resume"]
    with pytest.MonkeyPatch.context() as patch:
        real = campaigns.put

        def put(*words: Any, **more: Any) -> Any:
            unread(patch)
            return real(*words, **more)

        patch.setattr(campaigns, "put", put)
        sent = person.send("/page/campaigns/fw1/resume", {**fields, "reason": "why"})
    assert sent.status_code == 503
    assert "the decision is on record" in sent.text
    assert not any(said in Page(sent.text).text for said in NOTHING)
