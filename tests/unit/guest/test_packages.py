"""What the rack needs from Debian is what tools/ installs."""

from __future__ import annotations

from pathlib import Path

from tests.lab.guest.packages import HOST_PACKAGES

LIST = Path(__file__).parents[3] / "tools" / "packages.txt"


def test_tools_installs_what_the_rack_needs() -> None:
    lines = (line.partition("#")[0].strip() for line in LIST.read_text().splitlines())
    assert set(HOST_PACKAGES) <= set(filter(None, lines))
