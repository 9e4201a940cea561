"""The patches for Nova are complete; that they do what they say needs Nova (see their README)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.novasuites import upstream

PATCHES = sorted(upstream.PATCHES.glob("*.patch"))


@pytest.mark.parametrize("path", PATCHES, ids=lambda path: path.name)
def test_each_patch_has_a_change_and_a_test_of_it(path: Path) -> None:
    patch = upstream.read(path)
    assert patch.added
    assert all(module.startswith("nova.tests.") for module in patch.modules)
    assert path.name in (upstream.PATCHES / "README.md").read_text()


def test_a_patch_without_a_test_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "0009-x.patch"
    path.write_text("x\n---\ndiff --git a/nova/x.py b/nova/x.py\n+++ b/nova/x.py\n")
    with pytest.raises(ValueError, match="expected a change and its tests"):
        upstream.read(path)
