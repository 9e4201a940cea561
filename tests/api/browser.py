"""A real Chromium, and axe-core in it."""

from __future__ import annotations

import contextlib
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from socketserver import ThreadingMixIn
from typing import Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer, make_server

from selenium import webdriver
from selenium.webdriver.chrome.options import Options
from selenium.webdriver.chrome.service import Service

from quarantine.api import application
from quarantine.operations.plane import ServingPlane
from quarantine.page.application import MOUNT

ARGUMENTS = (
    *("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"),
    *("--hide-scrollbars", "--force-color-profile=srgb"),
)


class _Server(ThreadingMixIn, WSGIServer):
    daemon_threads = True


class _Handler(WSGIRequestHandler):
    def log_message(self, *_words: Any) -> None:
        """The application has a log of its own."""


@contextlib.contextmanager
def serving(conf: Path) -> Iterator[str]:
    """The API and its page on loopback; the page's address."""
    app = application.make(ServingPlane([conf]), MOUNT)
    with make_server("127.0.0.1", 0, app, _Server, _Handler) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/page"
        finally:
            server.shutdown()
            thread.join(10)


@contextlib.contextmanager
def chromium() -> Iterator[webdriver.Chrome]:
    """Debian's."""
    options = Options()
    options.binary_location = "/usr/bin/chromium"
    for one in ARGUMENTS:
        options.add_argument(one)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    driver = webdriver.Chrome(options=options, service=Service("/usr/bin/chromedriver"))
    try:
        yield driver
    finally:
        driver.quit()


def look(
    driver: webdriver.Chrome, *, width: int = 1280, height: int = 900, dark: bool = False
) -> None:
    """As a screen of this size, in light or dark."""
    driver.execute_cdp_cmd(
        "Emulation.setDeviceMetricsOverride",
        {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500},
    )
    features = [
        {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
        {"name": "prefers-reduced-motion", "value": "reduce"},
    ]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})


def violations(driver: webdriver.Chrome) -> list[str]:
    """What axe-core finds on the page that is open, one line for each rule."""
    source = Path(os.environ["NVME_QUARANTINE_AXE"]).read_text()
    # Not as a script of the page: its policy would refuse it, as it should.
    driver.execute_cdp_cmd("Runtime.evaluate", {"expression": source})
    found = driver.execute_async_script(
        "const done = arguments[arguments.length - 1];"
        "axe.run(document, {resultTypes: ['violations']}).then((r) => done(r.violations), "
        "(e) => done([{id: String(e), impact: 'critical', nodes: []}]));"
    )
    return [
        f"{one['impact']} {one['id']}: {[node['html'][:160] for node in one['nodes'][:3]]}"
        for one in found
    ]
