"""Each guard of the decisions: turned around it breaks a promise, by a history that is replayed.

``witnesses.json`` has the histories; ``unwitnessed.json`` says of every other guard why the model
has none. A guard that is in neither is a gap, and so is a reason for a guard that is not there.
"""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import FAILURES
from tests.model.guards import CONFIGS, Reason, unwitnessed, witnesses
from tests.model.hunt import Hunt
from tests.model.parts import Parts, WiredParts
from tests.model.protocol import Config
from tests.model.replay import replay
from tests.model.system import System
from tests.model.systems import made

TOP = Path(__file__).resolve().parents[2]
WIRED = WiredParts()
AS_IT_IS = Parts()
GUARDS = {str(guard): guard for guard in WIRED.guards}
FOUND = witnesses()
AGAIN = "find one anew with 'python -m tests.model.guards --find {!r}'"


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Many messages are refused; each would be a line in the log."""
    logging.disable(logging.CRITICAL)
    yield
    WIRED.switch.turned = 0
    logging.disable(logging.NOTSET)


@pytest.fixture(scope="module")
def turned() -> dict[str, System[Any]]:
    """The protocol with its guards on a switch, by configuration."""
    return {name: made(config, WIRED) for name, config in CONFIGS.items()}


@pytest.fixture(scope="module")
def plain() -> dict[str, System[Any]]:
    """The protocol with the product's own modules."""
    return {name: made(config, AS_IT_IS) for name, config in CONFIGS.items()}


def test_each_guard_is_witnessed_or_explained() -> None:
    known = {*FOUND, *unwitnessed()}
    gaps = sorted(GUARDS.keys() - known)
    assert not gaps, "\n".join(f"neither history nor reason: {AGAIN.format(gap)}" for gap in gaps)
    assert not known - GUARDS.keys(), "expected guards of the code as it is, found former ones"
    assert not FOUND.keys() & unwitnessed().keys(), "expected one of history and reason, found both"
    assert all(Reason(each["reason"]) and each["why"] for each in unwitnessed().values())


@pytest.mark.parametrize("name", sorted(FOUND.keys() & GUARDS.keys()))
def test_without_the_guard_the_history_breaks_a_promise_and_with_it_none(
    name: str, turned: dict[str, System[Any]], plain: dict[str, System[Any]]
) -> None:
    witness = FOUND[name]
    WIRED.switch.turned = WIRED.guards[GUARDS[name]]
    without = replay(turned[witness.config], witness.history)
    assert without.took == len(witness.history), (
        f"event {without.took + 1} of {len(witness.history)} "
        f"({witness.history[without.took]}) is not possible any more: {AGAIN.format(name)}"
    )
    assert without.broken == witness.broken, AGAIN.format(name)
    assert not replay(plain[witness.config], witness.history).broken


SMALL = [name for name, config in CONFIGS.items() if not isinstance(config, Config)]


@pytest.mark.parametrize("config", [pytest.param("everything", marks=pytest.mark.campaign), *SMALL])
def test_a_guard_with_a_reason_has_no_history(config: str) -> None:
    hunt = Hunt(WIRED, CONFIGS[config], 5000 if config == "everything" else 500)
    found = {name: hunt.find(WIRED.guards[GUARDS[name]], 1000) for name in unwitnessed()}
    assert not {name: witness for name, witness in found.items() if witness is not None}


TESTED = {name: why["test"] for name, why in sorted(unwitnessed().items()) if "test" in why}
"""Guards without history, and the one test of each: any other of its file would go red for many."""


@pytest.mark.uncached  # what it reads is not imported here
@pytest.mark.parametrize("test", sorted(set(TESTED.values())))
def test_a_test_that_a_guard_names_is_there(test: str) -> None:
    path, _, name = test.partition("::")
    assert f"\ndef {name}(" in (TOP / path).read_text()


@pytest.mark.uncached  # what it runs is not imported here
@pytest.mark.campaign
@pytest.mark.parametrize("name", TESTED)
def test_a_guard_without_history_has_its_own_test(name: str) -> None:
    turned = {**os.environ, "NVME_QUARANTINE_TURNED": name}
    # What fails there is wanted: a run that is cut off would be called red for it.
    turned.pop(FAILURES, None)
    plugin = ["-x", "-q", "-p", "no:cacheprovider", "-p", "tests.model.turned"]
    command = [sys.executable, "-m", "pytest", *plugin, TESTED[name]]
    found = subprocess.run(command, env=turned, capture_output=True, text=True, timeout=300)
    assert found.returncode == pytest.ExitCode.TESTS_FAILED, f"not red:\n{found.stdout[-2000:]}"
