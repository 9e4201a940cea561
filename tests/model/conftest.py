"""A search that was green with these very files is not searched again, and says so."""

from __future__ import annotations

import functools
import gc
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest

from tests.conftest import SEARCHED
from tests.lab.runs import searched

HERE = Path(__file__).parent


@functools.cache
def searched_before() -> searched.Searched | None:
    """What is known of the tests here. Half a second, which nobody pays who runs none of them."""
    return searched.of_directory(HERE.parents[1], HERE)


_GREEN = pytest.StashKey[bool]()


@pytest.fixture(autouse=True, scope="module")
def _old_uncollected() -> Iterator[None]:
    """Python's search for cycles looks at young objects alone. Each step makes some, which live for
    a moment. States have none and are all kept: it would look through millions again and again."""
    young, middle, old = gc.get_threshold()
    gc.set_threshold(100_000, 10, 1_000_000_000)
    yield
    gc.set_threshold(young, middle, old)


def known(item: pytest.Item) -> searched.Searched | None:
    """What is kept of a test; None for one that is always run."""
    return None if item.get_closest_marker("uncached") else searched_before()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """In place of the test, where it was green before."""
    kept = known(pyfuncitem)
    if kept is None or not kept.knows(pyfuncitem.nodeid):
        return None
    pyfuncitem.user_properties.append((SEARCHED, kept.digest))
    return True


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Keeps what was green from its setup to its teardown."""
    report = yield
    kept = known(item)
    if report.when == "call":
        fresh = all(name != SEARCHED for name, _ in report.user_properties)
        item.stash[_GREEN] = report.passed and fresh and not hasattr(report, "wasxfail")
    elif report.when == "teardown" and report.passed and item.stash.get(_GREEN, False) and kept:
        kept.keep(item.nodeid)
    return report
