"""What every run of tests says about itself: seconds by directory, and each failure at once.

Nova's environments load this too: the standard library and pytest are all there is.
"""

from __future__ import annotations

import gc
import os
from collections import Counter
from collections.abc import Generator

import pytest

from tests.lab.runs import seconds

FAILURES = "NVME_QUARANTINE_FAILURES"
"""Names a file for failed tests: ``tools/environments`` reads it when it had to cut a run off."""

ROTATION = "NVME_QUARANTINE_ROTATION"
"""A number: the run begins with the test of this number (counted on from the first after the last),
and the tests before it come at its end. ``tools/environments`` has a run that it cuts off begin
elsewhere with each commit, else what stands at the end would never be run."""

SEARCHED = "searched on"
"""The property of a test that was green before on the same files (tests/model/conftest.py)."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of ours."""
    parser.addoption(
        "--keep",
        action="store_true",
        help="keep the guests of an emulated test that failed, until somebody has looked at them",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Whoever is to look at a guest has to see which one it is."""
    if config.getoption("keep", default=False) and config.getoption("numprocesses", None):
        raise pytest.UsageError("--keep: expected one process of tests, found -n")
    if (rotation := os.environ.get(ROTATION, "")) and not rotation.isdecimal():
        raise pytest.UsageError(f"{ROTATION}: expected a number, found {rotation!r}")


def pytest_report_header() -> str | None:
    """Whoever looks for a failure's cause has to have the same order."""
    rotation = os.environ.get(ROTATION, "")
    return f"order of tests: {ROTATION}={rotation}" if rotation else None


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What is collected stays for the whole run: no cycle is looked for in it, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begins where it was told to, after tests were deselected. Each worker of xdist does this with
    the same tests and the same number, and so with the same outcome."""
    if items and (rotation := os.environ.get(ROTATION, "")):
        begin = int(rotation) % len(items)
        items[:] = items[begin:] + items[:begin]


def pytest_report_teststatus(report: pytest.TestReport) -> tuple[str, str, str] | None:
    """What was not run is not called passed."""
    if report.when == "call" and report.passed and dict(report.user_properties).get(SEARCHED):
        return "cached", "c", "CACHED"
    return None


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """A run that is cut off prints no summary, and its failures would be lost."""
    if report.failed and FAILURES in os.environ and "PYTEST_XDIST_WORKER" not in os.environ:
        with open(os.environ[FAILURES], "a", encoding="utf-8") as file:
            file.write(f"{report.nodeid} ({report.when})\n")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was cached; and where the time went, if there was more than one place for it to go."""
    digests = Counter(
        dict(report.user_properties)[SEARCHED]
        for report in terminalreporter.stats.get("cached", [])
    )
    for digest, count in digests.items():
        terminalreporter.write_line(
            f"cached: {count} tests, searched on {digest}; NVME_QUARANTINE_NO_CACHE=1 runs them"
        )
    phases = [
        seconds.Phase(report.nodeid, report.duration)
        for reports in terminalreporter.stats.values()
        for report in reports
        if isinstance(report, pytest.TestReport)
    ]
    table = seconds.rows(phases)
    if len(table) > 1:
        terminalreporter.section("seconds by directory")
        for line in seconds.lines(table):
            terminalreporter.write_line(line)
