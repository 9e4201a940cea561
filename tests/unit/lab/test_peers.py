"""What is made of the peers' results, and how they are called, without running one."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path

import pytest

from benchmarks.peers import page
from benchmarks.peers.__main__ import DRIVES, load, main
from benchmarks.peers.others import PEERS
from benchmarks.peers.row import Row
from tests.lab.nvme.presetkind import Event, Expected
from tests.lab.nvme.presets import preset

GOOD = Row("nwipe", "honest", Expected.ERASED, True, 0, 0, 4.0, "exit code 0")
LEAK = replace(GOOD, preset="partial", expected=Expected.HELD, leaked_blocks=9, left_blocks=9)
REFUSED = replace(GOOD, preset="ns-tiny", released=False, seconds=1.0)


def test_a_tool_is_summed_up() -> None:
    (one,) = page.summary([GOOD, LEAK, REFUSED])
    assert one == {
        "tool": "nwipe",
        "drives": 3,
        "let_through": 1,
        "leaked_blocks": 9,
        "wrongly_released": 1,
        "honest_refused": 1,
        "median_seconds": 4.0,
    }


def test_the_page_names_what_was_let_through() -> None:
    text = page.page([GOOD, LEAK, REFUSED, replace(GOOD, tool="other")])
    assert "| `partial` | held | **9 blocks** | not run |" in text
    assert "| `ns-tiny` | erased | refused | not run |" in text
    assert "| nwipe | 3 | 1 | 1 | 1 | 4.0 |" in text


def test_a_torn_line_is_as_if_it_were_not_there(tmp_path: Path) -> None:
    kept = tmp_path / "peers.jsonl"
    assert load(kept) == {}
    kept.write_text(json.dumps(asdict(GOOD)) + '\n{"tool": "nw')
    assert load(kept) == {"nwipe/honest": GOOD}


def test_the_drives_are_such_that_the_world_need_not_act() -> None:
    assert {preset(name).event for name in DRIVES} == {Event.NONE}
    assert {preset(name).expected for name in DRIVES} == set(Expected)


@pytest.mark.parametrize("name", ["nope", "twins"])
def test_what_cannot_be_run_is_said_in_a_line(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--drives", name]) == 2
    seen = capsys.readouterr()
    assert seen.out == ""
    assert len(seen.err.splitlines()) == 1


def test_names_of_devices_are_arguments_and_never_part_of_a_script() -> None:
    for peer in PEERS:
        argv = peer.argv("nvme0", ["/dev/nvme0n1"])
        assert argv[:2] == ["/bin/sh", "-ec"]
        assert argv[4:] == ["/dev/nvme0", "/dev/nvme0n1"]
        assert "/dev/nvme0" not in argv[2]
