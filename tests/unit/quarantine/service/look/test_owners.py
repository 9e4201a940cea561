"""Whose a server is, and that a sweep went well: written by the loop, and waited for by nothing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from quarantine.errors import BadInputError, ConflictError, UnavailableError
from quarantine.record.store import Store
from quarantine.record.words.states import State
from tests.unit.quarantine.service.look.test_burn_grace import Site
from tests.unit.quarantine.smallcloud import Clock, Cloud, available, open_store, slot_at

SLOT = slot_at(1)
SERVER = "11111111-2222-3333-4444-555555555555"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    clock = Clock()
    with open_store(tmp_path, clock) as store:
        cloud = Cloud(clock)
        available(store, cloud, SLOT)
        yield Site(store, cloud)


def test_a_claim_tells_whose_the_server_is(site: Site) -> None:
    site.cloud.claim(SLOT, SERVER)
    site.cloud.burn(SLOT)
    site.go_on(120)
    record = site.store.slot(SLOT)
    assert record is not None
    assert (record.state, record.consumer) == (State.IN_USE, SERVER)
    owner = site.store.server(SERVER)
    assert owner is not None
    assert (owner.project, owner.user) == ("p", "u")


def test_a_sweep_that_went_well_is_written(site: Site) -> None:
    site.go_on(30)
    listing, resumed, sweep = site.store.passes()
    assert (listing.name, resumed.name, sweep.name) == ("placement", "resumed", "sweep")
    site.cloud.broken["list"] = UnavailableError("away")
    site.go_on(600)
    assert site.store.passes() == [listing, resumed, sweep]


def test_placement_answered_where_something_else_kept_a_sweep_from_going_well(
    site: Site, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who is asked for health says which of the two it was."""
    site.go_on(30)
    listing, resumed, sweep = site.store.passes()

    def fails(_store: Store) -> None:
        raise UnavailableError("not now")

    monkeypatch.setattr(Store, "every_slot", fails)
    site.go_on(600)
    later, *same = site.store.passes()
    assert later.at > listing.at
    assert same == [resumed, sweep]


@pytest.mark.parametrize("error", [ConflictError, UnavailableError, RuntimeError])
def test_no_step_waits_for_it(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    """What only people ask for keeps no slot from its way, and no sweep from being one."""

    def fails(*_words: object) -> None:
        raise error("not now")

    monkeypatch.setattr(Store, "note_server", fails)
    monkeypatch.setattr(Store, "note_pass", fails)
    site.cloud.claim(SLOT, SERVER)
    site.cloud.burn(SLOT)
    site.go_on(300)
    record = site.store.slot(SLOT)
    assert record is not None
    assert (record.state, record.consumer) == (State.IN_USE, SERVER)
    site.cloud.delete(SLOT)
    site.go_on(600)
    record = site.store.slot(SLOT)
    assert record is not None
    assert record.state is State.ERASING or record.custody is not None


@pytest.mark.parametrize("error", [ConflictError, UnavailableError, BadInputError, RuntimeError])
def test_the_look_that_learns_it_goes_on_whatever_the_database_says(
    site: Site, monkeypatch: pytest.MonkeyPatch, error: type[Exception]
) -> None:
    asked: list[str] = []

    def fails(_store: Store, uuid: str, *_words: str) -> None:
        asked.append(uuid)
        raise error("not now")

    monkeypatch.setattr(Store, "note_server", fails)
    site.cloud.claim(SLOT, SERVER)
    site.cloud.burn(SLOT)
    look = site.loop.look(SLOT)
    assert asked == [SERVER]
    assert look is not None
    assert (look.state, look.consumer) == (State.IN_USE, SERVER)
