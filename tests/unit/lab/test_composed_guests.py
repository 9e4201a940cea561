"""What is made of composed drives in guests, without a guest."""

from __future__ import annotations

import ctypes
import glob
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.composed import rows, tenant
from benchmarks.composed.__main__ import main
from benchmarks.composed.rows import Row
from benchmarks.composed.workers import workers
from tests.lab.nvme.composed.marks import SECTOR, mark
from tests.lab.nvme.composed.trial import Outcome

HELD = Row(
    seed=1,
    sentence="keeps all data",
    honest=False,
    undetectable="",
    outcome=Outcome.HELD,
    verdict="not_erased",
    fit=False,
    hung=False,
    seconds=60.0,
    reasons=["why"],
    kept={"data": 4096},
    guest_got={},
    host_got={},
    in_process=Outcome.HELD,
    version="1",
)
LET = replace(
    HELD,
    seed=2,
    outcome=Outcome.LET_THROUGH,
    verdict="erased",
    fit=True,
    in_process=Outcome.LET_THROUGH,
    guest_got={"upwards, as it came": 8},
    in_process_got=["data"],
)


@pytest.mark.parametrize(
    ("row", "differs"),
    [
        (HELD, ""),
        (LET, ""),
        (replace(HELD, in_process=Outcome.LET_THROUGH), "held, in process let through"),
        (replace(LET, guest_got={}), "the second tenant got nothing, in process something"),
        (replace(LET, in_process_got=[]), "the second tenant got something, in process nothing"),
        (replace(LET, guest_got={}, host_got={"data: sweep": 8}), ""),
    ],
)
def test_what_differs(row: Row, differs: str) -> None:
    assert row.differs == differs


def test_rows_are_kept_line_by_line(tmp_path: Path) -> None:
    kept = tmp_path / "new" / "composed.jsonl"
    assert rows.load(kept) == {}
    for row in (HELD, LET, replace(HELD, seconds=2.0)):
        rows.append(kept, row)
    kept.write_text(kept.read_text() + '{"seed": 3, "torn')
    assert rows.load(kept) == {1: replace(HELD, seconds=2.0), 2: LET}
    assert rows.load(kept, only="2") == {}


def test_the_table_names_what_differs() -> None:
    text = rows.table([HELD, LET, replace(HELD, seed=3, in_process=Outcome.LET_THROUGH)])
    assert "| held | 2 | 1 | 0 | 0 | 0 |" in text
    assert "| let through | 1 | 2 | 1 | 0 | 1 |" in text
    assert "3 drives, of which 2 ended alike." in text
    assert "- 3: held, in process let through" in text


def test_kept_rows_are_shown_and_a_leak_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    kept = tmp_path / "composed.jsonl"
    rows.append(kept, HELD)
    assert main(["--kept", "--results", str(kept), "--seeds", "1:9"]) == 0
    rows.append(kept, LET)
    assert main(["--kept", "--results", str(kept), "--seeds", "1:9"]) == 1
    assert "- 2: keeps all data; upwards, as it came: 8" in capsys.readouterr().out
    assert main(["--seeds", "x:9"]) == 2


def test_the_second_tenants_guest_finds_what_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk = tmp_path / "nvme0n1"
    disk.write_bytes(bytes(1 << 20) + b"".join(map(mark, range(1, 9))) + bytes((1 << 20) - 4096))
    monkeypatch.setattr(glob, "glob", lambda _pattern: [str(disk)])
    found: dict[str, int] = {}
    tenant._read_all(found, "now")
    assert found["upwards, now"] == 8
    disk.write_bytes(bytes(4096 * SECTOR))
    found.clear()
    tenant._read_all(found, "now")
    assert found == {}


def death_signal() -> int:
    """What this process gets when its parent ends: PR_GET_PDEATHSIG of `prctl(2)`."""
    found = ctypes.c_int()
    assert ctypes.CDLL(None).prctl(2, ctypes.byref(found)) == 0
    return found.value


def test_a_worker_begins_and_ends_with_its_parent() -> None:
    with workers(1) as pool:
        assert pool.submit(death_signal).result(timeout=60) == signal.SIGTERM
