"""Where the time went: each phase counts for its test, each test for its directory."""

from __future__ import annotations

import pytest

from tests.lab.runs.seconds import Phase, Row, directory_of, lines, rows


@pytest.mark.parametrize(
    ("nodeid", "directory"),
    [
        ("tests/unit/gate/test_read_drives.py::test_a", "tests/unit/gate"),
        ("tests/unit/lab/composed/test_drive.py::test_a[x/y]", "tests/unit/lab"),
        ("tests/unit/test_imports.py::test_a", "tests/unit"),
        ("tests/emulated/test_gate.py::test_a", "tests/emulated"),
    ],
)
def test_the_directory_of_a_test(nodeid: str, directory: str) -> None:
    assert directory_of(nodeid) == directory


def test_phases_are_one_test_and_long_directories_come_first() -> None:
    one, two, three = "tests/model/t.py::one", "tests/unit/gate/t.py::two", "tests/model/t.py::3"
    found = rows([Phase(one, 1.0), Phase(one, 2.5), Phase(two, 9.0), Phase(three, 0.5)])
    assert found == [Row("tests/unit/gate", 1, 9.0, two), Row("tests/model", 2, 4.0, one)]
    assert lines(found)[1] == "tests/model         2 tests      4.0 s  slowest: t.py::one"
    assert not lines([])
