"""The protocol, searched: no interleaving and no misfortune leads a guest to another's data.

Each search is complete: every reachable state of its configuration. What a configuration leaves out
stands in its line; docs/model.md says what the model leaves out altogether. Two hosts are searched
in ``test_rely.py``.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from tests.model import house, meter
from tests.model.papers import RECORDS
from tests.model.parts import Parts
from tests.model.protocol import Config, Protocol
from tests.model.search import Found
from tests.model.systems import AnyConfig, made
from tests.model.tables import fresh_record
from tests.model.world import Place, World

FORGOTTEN = Config("a domain that Nova forgot", frozenset({"ghost"}), 1)

SEARCHES = (
    Config("nothing goes wrong"),
    Config("a suspended instance", frozenset({"suspend"}), 1),
    FORGOTTEN,
    meter.Config("what honest drives count"),
    meter.Config("a drive that was away, by what it counts", 2),
    meter.Config("a host that is blind to what it reads", 2, blind=True),
    house.Config("drives of one guest", frozenset({"reboot"}), 1, slots=3),
    house.Config("drives attached by hand", frozenset({"attach"}), 1),
    house.Config("words of people", frozenset({"word", "by hand"}), 3, guests=2, slots=1),
    house.Config("a guest before the gate", frozenset({"unseen", "reboot"}), 2, adopted=True),
)

LONG = (
    Config("a drive that is away for a while", frozenset({"absence"}), 1),
    Config("a provider that is deleted", frozenset({"typo"}), 1),
    Config("an operator's slip", frozenset({"operator"}), 1),
    Config("a host installed anew", frozenset({"reinstall"}), 1),
    Config("the database lost", frozenset({"amnesia"}), 1),
    Config("a drive that served elsewhere", frozenset({"absence", "elsewhere"}), 2),
    Config("a drive exchanged for another", frozenset({"absence"}), 1, drives=2),
    house.Config("words about two slots", frozenset({"word", "by hand"}), 2, guests=2),
    house.Config(
        "all of a house", frozenset({"attach", "by hand", "reboot", "unseen", "word"}), 3, guests=2
    ),
)
"""Up to some hundred thousand states each: for ``tools/test -e model``."""

_LONG_MARKS = (pytest.mark.campaign, pytest.mark.timeout(3600))
"""The longest takes five minutes on an idle core, and was ended as hung on a busy one."""


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """A search refuses millions of messages; each would be a line in the log."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


@pytest.mark.parametrize(
    "config",
    [*SEARCHES, *(pytest.param(config, marks=_LONG_MARKS) for config in LONG)],
    ids=lambda config: config.name,
)
def test_no_history_breaks_a_promise(config: AnyConfig) -> None:
    protocol = made(config)
    found = protocol.run()
    assert not isinstance(found, Found), f"\n{found}"
    assert len(found) > (1000 if isinstance(config, Config) else 40), (
        "expected a search, found next to nothing to search"
    )
    stuck = next(found.stuck(protocol.good), None)
    assert stuck is None, "\n".join(["no way back to the pool after:", *found.trace(stuck)])


def test_a_domain_that_nova_forgot_starts_again_as_the_drives_owner() -> None:
    """Or what is searched of ghosts would be of such as never come back."""
    protocol = Protocol(FORGOTTEN)
    state = protocol.start()
    for name in (
        *("control 0: take", "control 0: custody_taken", "host 0 says hello", "control 0: order"),
        *("host 0 accepts", "host 0: idle", "host 0 has erased", "report of host 0: erased"),
        *("control 0: ticket", "host 0 takes ticket", "host 0 answers ticket", "receipt of host 0"),
        *("control 0: give_back", "claim on 0", "burn on 0", "the gate lets the instance start"),
        *("instance on 0 runs", "instance on 0 is shut off", "instance on 0 deleted while its"),
        "the deleted instance's domain starts again on 0",
    ):
        following = [s for n, s in protocol.steps(state) if n.startswith(name)]
        assert following, name
        state = following[0]
    assert protocol.world(state).places[0].ghost == "on"


def test_a_look_at_one_slot_is_no_answer_about_another() -> None:
    """What is kept of looks is kept by slot: these two see the same, a reserved one."""
    control = Parts().control
    fresh = (RECORDS.number(fresh_record(p, in_use=False)) for p in (0, 1))
    places = (Place(provider="known", reserved=True, record=record) for record in fresh)
    world = World((), tuple(places), (None,), 0)
    for p in (0, 1):
        names = [name for name, _after in control.looks(world, p)]
        assert names
        assert {name.partition(":")[0].partition(",")[0] for name in names} == {f"control {p}"}
