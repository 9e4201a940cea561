"""The way of an order through the modules: what is a step, a stay and a return."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.walk import order
from tests.lab.walk.steps import Steps, walk

MODULES = {
    "__init__": "",
    "first": """
from dataclasses import dataclass

@dataclass(frozen=True)
class Fact:
    one: int

def begin():
    from walked import second
    for _ in range(3):
        second.middle()
    last()
    return Fact(1)

def last():
    sorted([2, 1])
""",
    "second": "def middle():\n    deep()\n\ndef deep():\n    pass\n",
}


@pytest.fixture
def walked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "walked").mkdir()
    for name, text in MODULES.items():
        (tmp_path / "walked" / f"{name}.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    yield
    for name in [name for name in sys.modules if name.partition(".")[0] == "walked"]:
        del sys.modules[name]


@pytest.mark.usefixtures("walked")
def test_a_function_is_a_step_at_its_first_call_and_what_is_made_or_imported_is_none() -> None:
    import walked.first as first  # type: ignore[import-not-found]

    steps = Steps(("walked",))
    with steps.during():
        first.begin()
    first.last()
    assert steps.modules == ["walked.first", "walked.second", "walked.second", "walked.first"]
    assert steps.calls == 1 + 3 * 2 + 1


def test_stays_are_runs_and_returns_are_stays_where_one_was_before() -> None:
    way = walk(["a", "a", "b", "a", "c", "c", "b"])
    assert way.stays == ("a", "b", "a", "c", "b")
    assert (way.files, len(way.stays), way.returns) == (3, 5, 2)
    assert list(way.lines()) == ["  a", "  b", "< a", "  c", "< b"]
    assert walk([]).returns == 0


@pytest.mark.campaign
def test_an_order_goes_to_its_certificate(tmp_path: Path) -> None:
    on_host, in_plane = order.trace(tmp_path)
    assert on_host.modules[0] == "eraser.agent.hoststate"
    assert {"eraser.case.erase", "eraser.case.verify", "eraser.agent.orders"} <= {*on_host.modules}
    assert in_plane.modules[0] == "quarantine.service.inbound.messages"
    assert "quarantine.service.issue.registrar" in in_plane.modules
