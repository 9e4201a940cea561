"""Places that a mutation spoils: found in source, and spoilt there and nowhere else."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from tests.lab.mutations.__main__ import GREEN, LATE, LONG, RED, Nearness, Trial
from tests.lab.mutations.sites import (
    FORMER_KINDS,
    FORMER_ROOMS,
    ROOMS,
    Kind,
    Site,
    choose,
    sites,
    spoil,
)

TOP = Path(__file__).resolve().parents[3]
HERE = Path("a.py")


def spoilt(source: str) -> list[str]:
    return [spoil(source, site) for site in sites(HERE, source)]


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("if drive.busy:\n    raise E('ä')\n", ["if False:\n    raise E('ä')\n"]),
        ("x = 'ä', a <= b\n", ["x = 'ä', (a) < (b)\n"]),
        ("x = a in b\n", ["x = (a) not in (b)\n"]),
        ("x = a and b or c\n", ["x = (a and b) and (c)\n", "x = (a) or (b) or c\n"]),
        ("x = not a.b\n", ["x = (a.b)\n"]),
        ("def f() -> bool:\n    return True\n", ["def f() -> bool:\n    return False\n"]),
        ("def f() -> 'a < b':\n    pass\n", []),
        ("if a:\n    b = c()\nelse:\n    d = e()\n", []),
        ("with a:\n    b.check(\n        'ä'\n    )\nc = d()\n", ["with a:\n    pass\nc = d()\n"]),
        ("'docs'\nLOG.info('said')\na.LOG\n", []),
        (
            "for x in a, *b:\n    y = x\n",
            ["for x in (*b, ):\n    y = x\n", "for x in (a, ):\n    y = x\n"],
        ),
        ("x = [y for y in ((a),)]\n", ["x = [y for y in ()]\n"]),
        ("x = (a, b)\nfor y in x:\n    pass\n", []),
    ],
)
def test_each_place_is_spoilt_alone(source: str, wanted: list[str]) -> None:
    assert spoilt(source) == wanted


@pytest.fixture(scope="module")
def shuffled() -> list[Site]:
    """Every place of the product, and no order in them."""
    return choose(TOP, seed=3, count=1_000_000)


@pytest.mark.parametrize("kind", Kind)
def test_whatever_is_spoilt_is_still_a_program_and_another_one(
    shuffled: list[Site], kind: Kind
) -> None:
    found = [site for site in shuffled if site.kind is kind]
    assert len(found) > 100
    for site in found[:100]:
        source = (TOP / site.path).read_text()
        other = spoil(source, site)
        assert ast.dump(ast.parse(other)) != ast.dump(ast.parse(source)), site


def test_a_seed_is_a_choice() -> None:
    here = ["eraser/gate"]
    assert choose(TOP, 1, 20, here) == choose(TOP, 1, 20, here) != choose(TOP, 2, 20, here)


def test_results_are_kept_by_names_of_which_each_is_of_one_place() -> None:
    source = "for x in (a, a):\n    b()\n"
    assert len({str(site) for site in sites(HERE, source)}) == 3


def test_a_seed_draws_what_it_drew_before_there_were_other_kinds(tmp_path: Path) -> None:
    """Figures are compared with those of then: by the same rooms, and by decisions alone."""
    for room in ROOMS:
        file = tmp_path / room / "a.py"
        file.parent.mkdir(parents=True)
        file.write_text("".join(f"a{n} == b\nc{n}()\n" for n in range(9)))
    found = choose(tmp_path, 1, 4, FORMER_ROOMS, FORMER_KINDS)
    assert [str(site) for site in found] == [
        "eraser/defences/a.py:17: a8 == b with !=",
        "quarantine/rules/a.py:1: a0 == b with !=",
        "eraser/case/a.py:17: a8 == b with !=",
        "eraser/gate/a.py:11: a5 == b with !=",
    ]


def test_the_nearest_tests_come_first(tmp_path: Path) -> None:
    for name, source in {
        "rules/__init__.py": "",
        "rules/brake.py": "",
        "rules/other.py": "from rules import brake\n",
        "tests/unit/test_all.py": "from rules.other import x\n",
        "tests/unit/test_none.py": "import os\n",
        "tests/unit/test_some.py": "from rules.brake import y\n",
        "tests/site/test_brake.py": "from rules.other import x\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(source)
    assert Nearness(tmp_path).of(Path("rules/brake.py")) == [
        Path("tests/site/test_brake.py"),
        Path("tests/unit/test_some.py"),
        Path("tests/unit/test_all.py"),
    ]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A module with one guard, and test files around it."""
    for name, source in {
        "brake.py": "def wait(speed):\n    return 'no' if speed < 5 else 'yes'\n",
        "test_at_the_edge.py": "import brake\n\ndef test_x():\n    assert brake.wait(5) == 'yes'\n",
        "test_far_away.py": "import brake\n\ndef test_far():\n    assert brake.wait(50) == 'yes'\n",
        "test_always_red.py": "def test_red():\n    assert not 'red here, whatever is spoilt'\n",
        "test_slow.py": "import time\n\ndef test_slow():\n    time.sleep(60)\n",
        "pytest.ini": "[pytest]\nmarkers =\n" + "".join(f"    {each}\n" for each in LONG),
    }.items():
        (tmp_path / name).write_text(source)
    return tmp_path


@pytest.mark.parametrize(
    ("files", "wanted"),
    [
        (["test_always_red.py", "test_far_away.py"], GREEN),
        (["test_always_red.py", "test_at_the_edge.py"], RED),
        # The same without a file that is red anyway: half the way.
        pytest.param(["test_far_away.py", "test_at_the_edge.py"], RED, marks=pytest.mark.campaign),
        pytest.param(["test_far_away.py"], GREEN, marks=pytest.mark.campaign),
    ],
)
def test_a_place_is_red_for_its_own_sake(copy: Path, files: list[str], wanted: str) -> None:
    source = (copy / "brake.py").read_text()
    (site,) = sites(Path("brake.py"), source)
    assert Trial(copy, 120).outcome(site, [Path(each) for each in files]) == wanted
    assert (copy / "brake.py").read_text() == source


def test_a_place_whose_tests_do_not_end_is_neither(copy: Path) -> None:
    (site,) = sites(Path("brake.py"), (copy / "brake.py").read_text())
    assert Trial(copy, 3).outcome(site, [Path("test_slow.py")]) == LATE
