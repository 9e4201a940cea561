"""Who may start an erase now, and what the others are told."""

from __future__ import annotations

from pathlib import Path

import pytest

from eraser.agent.admission import StartQueue


def test_places_are_taken_in_the_order_of_asking() -> None:
    turn = StartQueue(3).round(1)
    assert [turn.take() for _ in range(2)] == ["", ""]
    most = "waiting: 3 drives are being erased, the most at once on this host"
    assert [turn.take() for _ in range(2)] == [most, f"{most}, 1 before this one"]


def test_a_smaller_limit_than_what_runs_already_is_no_negative_place() -> None:
    assert StartQueue(2).round(5).take().startswith("waiting: 2 drives")


@pytest.mark.parametrize(("content", "shown"), [(b"", ""), (b"\xff\x1b[2J\n", " (??[2J)")])
def test_a_pause_file_counts_whatever_is_in_it(tmp_path: Path, content: bytes, shown: str) -> None:
    pause = tmp_path / "pause"
    pause.write_bytes(content)
    line = StartQueue(2, pause_file=pause)
    assert line.round(0).take().replace("\ufffd", "?") == f"waiting: {pause} is there{shown}"
    pause.write_bytes(b"x" * 9999)
    assert len(line.round(0).take()) < 300 + len(str(pause))
    pause.unlink()
    assert line.round(0).take() == ""
    pause.mkdir()
    assert line.round(0).take().startswith("waiting: ")
