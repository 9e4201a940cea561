"""Alarms: one door, one form of the line, and each told once until it is over."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

import quarantine
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules import alarmbook, holds
from quarantine.rules.alarmbook import ALARMS, StandingAlarms, alarm

SOURCES = sorted(Path(quarantine.__file__).parent.rglob("*.py"))


def said(caplog: pytest.LogCaptureFixture) -> list[str]:
    lines = [record.getMessage() for record in caplog.records]
    caplog.clear()
    return lines


def test_every_code_has_a_summary_and_a_remedy() -> None:
    assert set(ALARMS) == set(AlarmCode)
    for code, entry in ALARMS.items():
        assert re.fullmatch("[a-z][a-z-]*[a-z]", code)
        assert entry.summary.endswith(".")
        assert entry.remedy.endswith("."), code


def test_the_line_has_one_form(caplog: pytest.LogCaptureFixture) -> None:
    alarm("cmp1/0000:81:00.0", AlarmCode.ON_OFFER, "free; reserved first")
    assert said(caplog) == ["ALARM on-offer cmp1/0000:81:00.0: free; reserved first"]


def test_one_subject_and_code_is_told_once_until_it_is_over(
    caplog: pytest.LogCaptureFixture,
) -> None:
    told, code = StandingAlarms(), AlarmCode.SLOTS_ABSENT
    for subject in ("host a", "host a", "host b"):
        told.tell(subject, code, "away")
    told.tell("host a", AlarmCode.QUEUE_ODD, "odd")
    assert said(caplog) == [
        "ALARM slots-absent host a: away",
        "ALARM slots-absent host b: away",
        "ALARM queue-odd host a: odd",
    ]
    told.end_others(["host b"], code, "back")
    told.end("host c", code, "never away")
    assert said(caplog) == ["over: slots-absent host a: back"]
    told.tell("host a", code, "away again")
    told.tell("host b", code, "away still")
    assert said(caplog) == ["ALARM slots-absent host a: away again"]


def test_nobody_alarms_beside_the_door() -> None:
    """A text that begins with the prefix is made in one place, so all lines have a code."""
    found = {
        path.relative_to(Path(quarantine.__file__).parent).as_posix()
        for path in SOURCES
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Constant)
        and isinstance(node.value, str)
        and node.value.startswith("ALARM")
    }
    assert found == {"rules/alarmbook.py", "operations/slots.py", "osc/source.py"}, (
        "what stands on a slot, in a table"
    )


def test_every_code_is_used() -> None:
    names = {
        node.attr
        for path in SOURCES
        if path.name not in ("alarmbook.py", "reasons.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "AlarmCode"
    }
    assert names == {code.name for code in AlarmCode}


GUIDE = Path(quarantine.__file__).parents[1] / "docs" / "operators.md"


@pytest.mark.parametrize("table", [holds.table(), alarmbook.table()], ids=["holds", "alarms"])
def test_the_guide_has_the_tables_of_the_code(table: str) -> None:
    assert f"-->\n{table}\n<!-- /" in GUIDE.read_text(), "run: python tools/samples"
