"""A real Prometheus scrapes real metrics: each query of the dashboard and each alert is taken."""

from __future__ import annotations

import json
import threading
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import yaml

from quarantine.doors import MACHINE
from quarantine.metrics import serving
from quarantine.record.store import Store
from tests.lab.record import migrated_file
from tests.lab.services.process import free_port, wait_until
from tests.lab.services.prometheus import Prometheus
from tests.unit.quarantine import monitored
from tests.unit.quarantine.totals_suite import Site

MONITORING = Path(__file__).parents[2] / "docs" / "monitoring"


def test_every_query_has_an_answer(tmp_path: Path) -> None:
    panels = json.loads((MONITORING / "dashboard.json").read_text())["panels"]
    rules = yaml.safe_load((MONITORING / "alerts.yaml").read_text())["groups"]
    store = Store.open(migrated_file(tmp_path / "record.db"), clock=lambda: site.now)
    site = Site(store, datetime.now(UTC) - timedelta(seconds=monitored.SECONDS))
    monitored.fill(site)
    doors = replace(MACHINE, now=lambda: site.now)
    where, stop = ("127.0.0.1", free_port()), threading.Event()
    exporter = monitored.exporter(site, doors)
    serves = threading.Thread(target=serving.run, args=(where, lambda: exporter, stop))
    serves.start()
    target = f"{where[0]}:{where[1]}"
    try:
        with Prometheus(tmp_path / "prometheus", target, MONITORING / "alerts.yaml") as watches:
            count = "nvme_quarantine_erase_seconds_count"
            wait_until(lambda: bool(watches.query(f"{count} == 7")), "the first scrape")
            # A histogram that grows: a case that ends while it is watched.
            site.certified("b/0000:04:00.0")
            wait_until(lambda: bool(watches.query(f"{count} == 8")), "the next one")
            for panel in panels:
                for asked in panel["targets"]:
                    assert watches.query(asked["expr"]), (panel["title"], asked["expr"])
            wait_until(lambda: all(rule["health"] == "ok" for rule in watches.rules()), "all rules")
            named = {rule["name"]: rule for rule in watches.rules()}
            assert named.keys() == {rule["alert"] for group in rules for rule in group["rules"]}
            # What is so on this site is on its way to be an alert; what is not, is none.
            on_their_way = {name for name, rule in named.items() if rule["state"] != "inactive"}
            assert on_their_way == {"NvmeQuarantineSlotsHeld", "NvmeQuarantineHostsSilent"}
    finally:
        stop.set()
        serves.join()
        store.close()
