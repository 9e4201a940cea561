"""Alert rules, runbook and dashboard: each names what is there, and the rules do what they say."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families

from quarantine.doors import MACHINE
from quarantine.record.store import Store
from quarantine.record.words.reasons import AlarmCode
from quarantine.rules.alarmbook import ALARMS
from tests.lab.record import migrated_file
from tests.unit.quarantine import monitored
from tests.unit.quarantine.totals_suite import Site

DOCS = Path(__file__).parents[4] / "docs"
MONITORING = DOCS / "monitoring"
RULES = yaml.safe_load((MONITORING / "alerts.yaml").read_text())
ALERTS: list[dict[str, Any]] = [rule for group in RULES["groups"] for rule in group["rules"]]
TESTS = yaml.safe_load((MONITORING / "alerts_test.yaml").read_text())["tests"]
RUNBOOK = (DOCS / "runbook.md").read_text()
PANELS = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
QUERIES = [target["expr"] for panel in PANELS for target in panel["targets"]]
NAME = re.compile(r"nvme_quarantine_\w+")
LABELS = re.compile(r"(nvme_quarantine_\w+)\{([^}]*)\}")


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> dict[str, set[str]]:
    """Names of samples, each with its labels."""
    store = Store.open(
        migrated_file(tmp_path_factory.mktemp("record") / "record.db"), clock=lambda: site.now
    )
    site = Site(store)
    monitored.fill(site)
    text = monitored.exporter(site, MACHINE).exposition().decode()
    store.close()
    found: dict[str, set[str]] = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, set()).update(sample.labels)
    return found


def section(name: str) -> str:
    parts = re.split(r"^## (.+)$", RUNBOOK, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True)).get(name, "")


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_an_alert_has_all_that_somebody_needs_who_is_woken(alert: dict[str, Any]) -> None:
    name = alert["alert"]
    assert alert["labels"]["severity"] in ("critical", "warning")
    assert alert["annotations"]["summary"].endswith(".")
    assert alert["annotations"]["runbook_url"] == f"docs/runbook.md#{name.lower()}"
    said = section(name)
    for words in ("**Means:**", "**How bad:**", "**First:**", "**Wake somebody:**"):
        assert said.count(words) == 1, (name, words)
    first = said.partition("**First:**")[2].partition("**Wake somebody:**")[0]
    assert "`" in first or "NvmeQuarantine" in first, "the first command"


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_what_wakes_somebody_is_critical_and_nothing_else_is(alert: dict[str, Any]) -> None:
    wakes = section(alert["alert"]).partition("**Wake somebody:**")[2].strip()
    # Where it depends on what the operator has promised, the alert wakes nobody by itself.
    depends = wakes.startswith(("as ", "where "))
    critical = alert["labels"]["severity"] == "critical"
    assert depends or wakes.startswith("yes" if critical else "no"), wakes
    assert "; else no" not in wakes
    assert not (depends and critical)


def test_the_runbook_has_no_section_of_an_alert_that_is_gone() -> None:
    named = set(re.findall(r"^## (.+)$", RUNBOOK, flags=re.MULTILINE))
    assert named == {alert["alert"] for alert in ALERTS}
    mentioned = set(re.findall(r"NvmeQuarantine\w+", RUNBOOK))
    assert mentioned <= named


def test_what_the_general_alert_leaves_out_is_said_with_the_alerts_that_tell_of_it() -> None:
    (general,) = (alert for alert in ALERTS if alert["alert"] == "NvmeQuarantineAlarm")
    (left_out,) = re.findall(r'code!~"([^"]+)"', general["expr"])
    lines = re.findall(r"^- `([a-z-]+)`: (.+)$", section("NvmeQuarantineAlarm"), re.MULTILINE)
    assert [code for code, _alerts in lines] == left_out.split("|")
    for code, alerts in lines:
        assert AlarmCode(code) in ALARMS
        assert "NvmeQuarantine" in alerts, code


@pytest.mark.parametrize("alert", ALERTS, ids=lambda alert: alert["alert"])
def test_every_alert_fires_in_a_test_and_does_not_in_another(alert: dict[str, Any]) -> None:
    outcomes = [
        bool(asked["exp_alerts"])
        for test in TESTS
        for asked in test["alert_rule_test"]
        if asked["alertname"] == alert["alert"]
    ]
    assert sorted(outcomes) == [False, True]


def test_promtool_finds_the_rules_as_their_tests_say() -> None:
    program = shutil.which("promtool")
    if program is None:
        assert "CI" not in os.environ, "expected promtool: tools/packages.txt has prometheus"
        pytest.skip("no promtool: apt-get install prometheus")
    for argv in (["check", "rules", "alerts.yaml"], ["test", "rules", "alerts_test.yaml"]):
        done = subprocess.run(
            [program, *argv], cwd=MONITORING, capture_output=True, text=True, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("query", [*QUERIES, *(alert["expr"] for alert in ALERTS)])
def test_queries_name_only_what_is_exported(query: str, exported: dict[str, set[str]]) -> None:
    assert set(NAME.findall(query)) <= exported.keys()
    for name, matchers in LABELS.findall(query):
        assert set(re.findall(r"(\w+)!?=", matchers)) <= exported[name], name


def test_every_metric_is_looked_at_by_somebody(exported: dict[str, set[str]]) -> None:
    """What nobody looks at is not exported for nothing: a new one wants an alert or a panel."""
    asked = set(NAME.findall(" ".join([*QUERIES, *(alert["expr"] for alert in ALERTS)])))
    ours = {name for name in exported if name.startswith("nvme_quarantine_")}
    unseen = {name for name in ours - asked if not name.endswith(("_sum", "_count"))}
    assert unseen == {"nvme_quarantine_build_info"}


def test_panels_stand_beside_each_other() -> None:
    taken: set[tuple[int, int]] = set()
    for panel in PANELS:
        place = panel["gridPos"]
        cells = {
            (place["x"] + across, place["y"] + down)
            for across in range(place["w"])
            for down in range(place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    assert len({panel["id"] for panel in PANELS}) == len(PANELS)
