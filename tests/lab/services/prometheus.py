"""A real Prometheus on loopback, with our alert rules, that scrapes one address."""

from __future__ import annotations

import json
import shutil
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path
from typing import Any

from tests.lab.errors import LabError
from tests.lab.services.process import ServiceProcess, free_port

_CONFIG = """\
global:
  scrape_interval: 1s
  scrape_timeout: 1s
  evaluation_interval: 1s
rule_files:
  - {rules}
scrape_configs:
  - job_name: nvme-quarantine
    static_configs:
      - targets: ["{target}"]
"""


class Prometheus(ServiceProcess):
    """Scrapes each second; what it remembers goes with the directory."""

    def __init__(self, directory: Path, target: str, rules: Path) -> None:
        program = shutil.which("prometheus")
        if program is None:
            raise LabError("expected prometheus on PATH, found none: apt-get install prometheus")
        directory.mkdir(parents=True, exist_ok=True)
        config = directory / "prometheus.yml"
        config.write_text(_CONFIG.format(rules=rules, target=target))
        self.url = f"http://127.0.0.1:{free_port()}"
        argv = [program, f"--config.file={config}", f"--storage.tsdb.path={directory / 'data'}"]
        argv += [f"--web.listen-address={self.url.removeprefix('http://')}"]
        super().__init__("prometheus", argv, directory / "prometheus.log", self._answers)

    def query(self, expression: str) -> list[Any]:
        """The result of an instant query. Raises ``LabError`` for one that it does not take."""
        asked = urllib.parse.urlencode({"query": expression})
        found = self._get(f"/api/v1/query?{asked}")["data"]["result"]
        assert isinstance(found, list)
        return found

    def rules(self) -> list[dict[str, Any]]:
        """The alert rules, with how each one's last evaluation went."""
        groups = self._get("/api/v1/rules")["data"]["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def _get(self, path: str) -> dict[str, Any]:
        try:
            with urllib.request.urlopen(self.url + path, timeout=30) as answer:  # noqa: S310
                found: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            raise LabError(f"prometheus: {error}: {error.read().decode()[:500]}") from error
        return found

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/-/ready", timeout=5) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except OSError:
            return False
