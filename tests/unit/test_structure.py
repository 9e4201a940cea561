"""The structure as figures: what the contracts of imports say nothing about."""

from __future__ import annotations

import tomllib
import xml.etree.ElementTree as ElementTree
from importlib.machinery import SourceFileLoader
from importlib.util import module_from_spec, spec_from_loader
from pathlib import Path
from types import ModuleType

import pytest

TOP = Path(__file__).parents[2]
SCRIPT = TOP / "tools" / "structure"


def load() -> ModuleType:
    loader = SourceFileLoader("structure", str(SCRIPT))
    spec = spec_from_loader("structure", loader)
    assert spec is not None
    module = module_from_spec(spec)
    loader.exec_module(module)
    return module


pytest.importorskip("grimp", reason="the linter of imports has it")
structure = load()

CONTRACTS = [
    {"type": "forbidden", "source_modules": ["house.attic"]},
    {"type": "layers", "containers": ["house"], "layers": ["kitchen | hall", "cellar"]},
    {"type": "layers", "layers": ["house.cellar.wine", "house.cellar.coal"]},
]


def test_layers_have_their_full_names_with_a_container_and_without() -> None:
    assert structure.layers(CONTRACTS) == {
        "house": {"house.kitchen", "house.hall", "house.cellar"},
        "": {"house.cellar.wine", "house.cellar.coal"},
    }


def test_a_module_is_outside_where_no_layer_is_it_or_above_it() -> None:
    none, room_alone = structure.outside(
        [
            "house.attic.box",
            "house.hall",
            "house.hallway",
            "house.kitchen.oven.door",
            "house.cellar.wine.red",
            "house.cellar.winery",
        ],
        structure.layers(CONTRACTS),
    )
    assert none == ["house.attic.box", "house.hallway"]
    assert room_alone == ["house.cellar.winery", "house.kitchen.oven.door"]


def texts(kind: str) -> set[str]:
    """What the picture of docs/design.md says in one kind of writing."""
    tree = ElementTree.parse(TOP / "docs" / "images" / "order.svg")  # noqa: S314  our own
    found = [each.text or "" for each in tree.iter() if each.get("class") == kind]
    return {part.strip() for text in found for part in text.split("·")}


def test_the_picture_names_all_rooms_and_modules_that_are_there() -> None:
    settings = tomllib.loads((TOP / "pyproject.toml").read_text(encoding="utf-8"))
    rooms = structure.layers(settings["tool"]["importlinter"]["contracts"])
    named = {each.removeprefix("eraser/") for each in texts("name")}
    expected = {name.partition(".")[2] for part in structure.PACKAGES for name in rooms[part]}
    assert named - {"Placement, Nova", "the drive", "libvirt"} == expected
    every = {
        path.relative_to(TOP).with_suffix("").as_posix()
        for part in structure.PACKAGES
        for path in (TOP / part).rglob("*")
    }
    assert [
        name for name in texts("module") if not any(p.endswith(f"/{name}") for p in every)
    ] == []
