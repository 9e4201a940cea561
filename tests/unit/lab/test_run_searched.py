"""What was searched is not searched again; what may have changed is."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.conftest import FAILURES
from tests.lab.guest.cache import Cache
from tests.lab.runs.closure import closure
from tests.lab.runs.searched import NO_CACHE, SETTINGS, TURNED, Searched, of_directory

TOP = Path(__file__).parents[3]
MODEL = TOP / "tests" / "model"


def write(top: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text))
        os.utime(path, (1e9, 1e9))


PLACE = {
    "a/__init__.py": "",
    "a/one.py": "import a.two, os",
    "a/two.py": """
        def late():
            from .deep.three import x
        """,
    "a/deep/__init__.py": "from . import beside",
    "a/deep/beside.py": "",
    "a/deep/three.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING: from a.types import T",
    "a/deep/table.json": "{}",
    "a/types.py": "",
    "a/other.py": "import a.one",
    "t/test_it.py": "from a import one",
    "tools/requirements-test.txt": "",
    "pyproject.toml": "",
}


def test_imports_are_followed_into_functions_packages_and_data(tmp_path: Path) -> None:
    write(tmp_path, PLACE)
    found = closure(tmp_path, [tmp_path / "t/test_it.py"])
    assert {str(each) for each in found} == set(PLACE) - {
        "a/other.py",
        *map(str, SETTINGS),
    }


def test_what_the_model_loads_is_in_its_closure() -> None:
    """Imports by a computed name would not be: here is what a search and all replays load."""
    program = """
        import sys
        import tests.model.test_guards as guards, tests.model.test_rely, tests.model.test_protocol
        import tests.model.conftest
        from tests.model import meter
        from tests.model.systems import made
        made(meter.Config("what honest drives count")).run()
        name = sorted(guards.FOUND)[0]
        witness = guards.FOUND[name]
        guards.replay(made(guards.CONFIGS[witness.config], guards.WIRED), witness.history)
        for module in list(sys.modules.values()):
            print(getattr(module, "__file__", None) or "")
        """
    argv = [sys.executable, "-c", textwrap.dedent(program)]
    done = subprocess.run(argv, cwd=TOP, capture_output=True, text=True, check=True, timeout=300)
    loaded = {Path(line) for line in done.stdout.splitlines() if line}
    ours = {
        path.relative_to(TOP)
        for path in loaded
        if path.is_relative_to(TOP) and ".tox" not in path.parts and ".venv" not in path.parts
    }
    assert Path("quarantine/rules/decide.py") in ours
    assert Path("eraser/gate/rules.py") in ours
    assert not ours - closure(TOP, MODEL.glob("*.py"))


def known(top: Path, begun: float | None = None) -> Searched:
    return Searched(top, top / "t", Cache(top / "cache"), time.time() if begun is None else begun)


@pytest.mark.parametrize("name", sorted(set(PLACE) - {"a/other.py"}))
def test_one_byte_of_any_file_and_nothing_is_known(tmp_path: Path, name: str) -> None:
    write(tmp_path, PLACE)
    before = known(tmp_path)
    assert not before.knows("t/test_it.py::test_a")
    before.keep("t/test_it.py::test_a")
    assert known(tmp_path).knows("t/test_it.py::test_a")
    assert not known(tmp_path).knows("t/test_it.py::test_b")
    write(tmp_path, {"a/other.py": "import a.one # "})
    assert known(tmp_path).knows("t/test_it.py::test_a")
    write(tmp_path, {name: PLACE[name] + "#"})
    after = known(tmp_path)
    assert after.digest != before.digest
    assert not after.knows("t/test_it.py::test_a")


def test_one_byte_of_a_driven_module_changes_the_models_digest(tmp_path: Path) -> None:
    files = closure(TOP, MODEL.glob("*.py")) | set(SETTINGS)
    for each in files:
        (tmp_path / each).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / each).write_bytes((TOP / each).read_bytes())
    digests = set()
    for driven in ("", "eraser/gate/rules.py", "quarantine/rules/decide.py"):
        if driven:
            with (tmp_path / driven).open("a") as file:
                file.write("\n")
        place = tmp_path / "tests" / "model"
        digests.add(Searched(tmp_path, place, Cache(tmp_path / "cache"), time.time()).digest)
    assert len(digests) == 3


def test_what_changed_since_the_process_began_is_not_trusted(tmp_path: Path) -> None:
    write(tmp_path, PLACE)
    known(tmp_path).keep("test")
    (tmp_path / "a/two.py").touch()
    late = known(tmp_path)
    assert not late.knows("test")
    late.keep("test")
    assert known(tmp_path, time.time() + 60).knows("test")


def test_what_changes_while_a_test_runs_is_not_kept(tmp_path: Path) -> None:
    write(tmp_path, PLACE)
    found = known(tmp_path)
    write(tmp_path, {"a/two.py": "import sys"})
    found.keep("test")
    write(tmp_path, {"a/two.py": PLACE["a/two.py"]})
    assert not known(tmp_path).knows("test")


@pytest.mark.parametrize("name", [NO_CACHE, TURNED])
def test_everything_is_run_where_it_is_asked_for(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "1")
    assert of_directory(TOP, MODEL) is None


TESTS = """
    import pathlib, pytest

    HERE = pathlib.Path(__file__).parent

    def ran(name):
        with open(HERE / "ran.log", "a") as file:
            file.write(name + " ")

    def test_green():
        ran("green")

    def test_red():
        ran("red")
        assert False

    @pytest.mark.xfail
    def test_expected():
        ran("expected")

    @pytest.fixture
    def breaks():
        yield
        assert False

    def test_teardown(breaks):
        ran("teardown")

    @pytest.mark.uncached
    def test_always():
        ran("always")
    """
"""``ran.log`` is beside the tests, hence data of theirs: it is moved away after each run."""


def test_a_green_test_is_cached_and_no_other(tmp_path: Path) -> None:
    """The model's conftest with tests of ours, below xdist."""
    write(tmp_path, {"t/__init__.py": "", "t/test_it.py": TESTS, "p.toml": "", **PLACE_SETTINGS})
    (tmp_path / "t/conftest.py").write_text(
        "import functools, os\nfrom pathlib import Path\nfrom tests.lab.runs import searched\n"
        "from tests.model import conftest as theirs\n"
        "from tests.model.conftest import pytest_pyfunc_call, pytest_runtest_makereport\n"
        "HERE = Path(__file__).parent\n"
        "found = functools.partial(searched.of_directory, HERE.parent, HERE)\n"
        "theirs.searched_before = functools.cache(found)\n"
        "def pytest_configure(config):\n"
        "    config.addinivalue_line('markers', 'uncached: always')\n"
    )
    os.utime(tmp_path / "t/conftest.py", (1e9, 1e9))
    env = {**os.environ, "NVME_QUARANTINE_CACHE": str(tmp_path / "cache")}
    for name in ("PYTEST_XDIST_WORKER", NO_CACHE, TURNED, FAILURES):  # its failures are meant
        env.pop(name, None)

    def run(**more: str) -> tuple[list[str], str]:
        argv = [sys.executable, "-m", "pytest", "-p", "tests.conftest", "-p", "no:cacheprovider"]
        argv += ["-n", "1", "--rootdir", str(tmp_path), str(tmp_path / "t")]
        done = subprocess.run(
            argv, cwd=TOP, env=env | more, capture_output=True, text=True, timeout=300
        )
        log = tmp_path / "t" / "ran.log"
        ran = log.read_text().split() if log.exists() else []
        log.unlink(missing_ok=True)
        return ran, done.stdout

    everything = ["green", "red", "expected", "teardown", "always"]
    assert run()[0] == everything
    ran, said = run()
    assert ran == [name for name in everything if name != "green"], said
    assert "1 cached" in said
    assert "cached: 1 tests, searched on " in said
    assert run(**{NO_CACHE: "1"})[0] == everything


PLACE_SETTINGS = {str(each): "" for each in SETTINGS}
