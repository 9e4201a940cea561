"""What docstrings name by its full dotted name is there: a move takes its mentions along."""

from __future__ import annotations

import pkgutil
import re
from pathlib import Path

import pytest

TOP = Path(__file__).resolve().parents[2]
ROOMS = ("eraser", "quarantine", "nova_patch", "qualify")
TARGET = re.compile(r":(?:class|func|mod|meth|attr):`[~!]?([a-z_]\w*(?:\.\w+)+)`")


@pytest.mark.parametrize("room", ROOMS)
def test_dotted_targets_are_there(room: str) -> None:
    broken = []
    for path in sorted((TOP / room).rglob("*.py")):
        for target in TARGET.findall(path.read_text()):
            try:
                pkgutil.resolve_name(target)
            except (ImportError, AttributeError) as error:
                broken.append(f"{path.relative_to(TOP)}: {target}: {error}")
    assert not broken


def test_a_target_that_is_gone_is_seen() -> None:
    (gone,) = TARGET.findall("See :class:`~eraser.errors.NoSuchError`, and :class:`Near`.")
    with pytest.raises(AttributeError):
        pkgutil.resolve_name(gone)
