"""What the web page costs, and whether it stutters.

``python -m benchmarks.page``: CPU seconds of the server for each view with 2,000 and with 80,000
slots, SQLite in the same process; then 2,000 rows at once in Debian's Chromium, whose cases go on
while it is watched: when the first words are seen, and how long its frames take.

``python -m benchmarks.page --pictures docs/images`` makes the pictures of docs instead.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from falcon import testing

from benchmarks.page import record
from quarantine.api import application
from quarantine.operations import campaigns
from quarantine.operations.campaigns import CampaignQuery, Initiator
from quarantine.operations.plane import Plane, ServingPlane
from quarantine.page.application import MOUNT

VIEWS = (
    "",
    "/fleet",
    "/slots",
    "/slots?limit=2000",
    "/slots?limit=2000&part=live",
    "/slots?state=held",
    "/slots?host=compute-00100.cloud.example",
    "/slots?serial=S6CKNT0W001914",
    "/slots?state=erasing&sort=entered_at",
    "/slots/compute-00100.cloud.example_0000:01:00.0",
    "/hosts",
)

_FRAMES = """
window.frames_ = [];
let last = performance.now();
const one = (now) => { frames_.push(now - last); last = now; requestAnimationFrame(one); };
requestAnimationFrame(one);
window.tasks_ = [];
new PerformanceObserver((list) => { for (const t of list.getEntries()) tasks_.push(t.duration); })
  .observe({type: 'longtask', buffered: false});
"""


def cpu(conf: Path, rounds: int) -> None:
    """Seconds of this process for each view, the best and the middle of some."""
    app = application.make(ServingPlane([conf]), MOUNT)
    for view in VIEWS:
        path, _, query = view.partition("?")
        taken = []
        size = 0
        for _ in range(rounds):
            begun = time.process_time()
            found = testing.simulate_get(app, f"/page{path}", query_string=query)
            taken.append(time.process_time() - begun)
            if found.status_code != 200:
                raise SystemExit(f"{view}: {found.status}")
            size = len(found.content)
        middle = statistics.median(taken)
        print(f"  /page{view}: first {taken[0]:.3f}, then {middle:.3f} s CPU, {size // 1024} KiB")


def frames(url: str, conf: Path, seconds: int) -> None:
    """Prints what a person sees of 2,000 rows that change."""
    from tests.api.browser import chromium, look, serving

    with serving(conf) as address, chromium() as driver:
        look(driver)
        driver.get(f"{address}/slots?limit=2000")
        painted: Any = driver.execute_script(
            "const n = performance.getEntriesByType('navigation')[0];"
            "const p = performance.getEntriesByName('first-contentful-paint')[0];"
            "return [n.responseStart, p ? p.startTime : -1, n.domContentLoadedEventEnd];"
        )
        rows = driver.execute_script("return document.querySelectorAll('tbody tr').length")
        print(
            f"  {rows} rows: first byte {painted[0]:.0f} ms, first words {painted[1]:.0f} ms, "
            f"all there {painted[2]:.0f} ms"
        )
        driver.execute_script(_FRAMES)
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            record.progress(url, 0.01)
            time.sleep(1)
        times, tasks, changed = driver.execute_script(
            "return [frames_, tasks_, document.querySelectorAll('tr.changed').length]"
        )
        ordered = sorted(times)
        print(
            f"  {len(times)} frames in {seconds} s, {changed} rows changed: half within "
            f"{ordered[len(ordered) // 2]:.1f} ms, 99 of 100 within "
            f"{ordered[int(len(ordered) * 0.99)]:.1f} ms, the longest {ordered[-1]:.0f} ms; "
            f"{len(tasks)} tasks over 50 ms"
        )


def pictures(conf: Path, directory: Path) -> None:
    """As docs show it: a fleet of 2,000 slots with a campaign under way."""
    from tests.api.browser import chromium, look, serving

    with Plane([conf]).parts() as parts:
        for name in ("sweep", "placement", "broker"):
            parts.store.note_pass(name, 3600.0)
    by = Initiator("ada", "storage", "")
    query = CampaignQuery(model="Micron_7450_MTFDKCC3T8TFR")
    why = "firmware E2MU200 was found lying"
    campaigns.begin(Plane([conf]), "micron-e2mu200", query, reason=why, by=by)
    held = testing.simulate_get(
        application.make(ServingPlane([conf]), MOUNT), "/v1/slots", query_string="state=held"
    ).json["slots"][0]["id"]
    with serving(conf) as address, chromium() as driver:
        for name, view, width, height, dark in (
            ("page-triage", "", 1280, 860, False),
            ("page-fleet-dark", "/fleet", 1280, 640, True),
            ("page-slot-phone", f"/slots/{held}", 390, 844, False),
            ("page-campaign", "/campaigns/micron-e2mu200", 1280, 720, False),
        ):
            look(driver, width=width, height=height, dark=dark)
            driver.get(f"{address}{view}")
            driver.save_screenshot(str(directory / f"{name}.png"))


def main() -> int:
    """Prints a line for each figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=60, help="of watching in Chromium")
    parser.add_argument("--no-browser", action="store_true", help="CPU alone")
    parser.add_argument("--pictures", type=Path, metavar="DIR", help="make docs' pictures there")
    parser.add_argument("--directory", type=Path, help="where records are, or are made and kept")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as made:
        top = arguments.directory or Path(made)
        for count, running in ((2000, 60), (80_000, 200)):
            where = top / str(count)
            where.mkdir(parents=True, exist_ok=True)
            url = f"sqlite:///{where}/record.db"
            if not (where / "record.db").exists():
                print("filling a record", file=sys.stderr)
                url = record.write(where / "record.db", count, running)
            conf = record.configuration(where, url)
            if arguments.pictures:
                pictures(conf, arguments.pictures)
                return 0
            print(f"{count} slots")
            cpu(conf, arguments.rounds)
            if count == 2000 and not arguments.no_browser:
                frames(url, conf, arguments.seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main())
