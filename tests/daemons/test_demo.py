"""``tools/demo --nova``: the real Nova hands out the rack's drives, the real worker erases them."""

from __future__ import annotations

from http import HTTPStatus
from pathlib import Path

import pytest

from quarantine.record.words.states import State
from tests.lab.demo.board import Board
from tests.lab.demo.cycle import Demo
from tests.lab.demo.novasite import BELLS
from tests.lab.nvme.presets import preset


@pytest.mark.emulated
@pytest.mark.timeout(1800)  # its own waits end; on a busy machine all of it takes ten minutes
def test_the_demo_with_the_real_nova(tmp_path: Path) -> None:
    result = Demo(tmp_path, Board(), preset("honest"), nova=True).run()
    assert result.outcome is State.AVAILABLE
    assert (result.leaked_blocks, result.found_by_tenant) == (0, ())
    assert all(slot.certificate for slot in result.slots)
    for slot in result.slots:
        assert State.IN_USE in {state for state, _at in slot.states}
    assert result.told is not None
    assert result.told.drives == (State.IN_USE,) * 2
    assert result.told.neighbour == HTTPStatus.NOT_FOUND
    rung = (tmp_path / "site" / BELLS).read_text()
    assert all(slot.slot.replace("/", " ") in rung for slot in result.slots)
