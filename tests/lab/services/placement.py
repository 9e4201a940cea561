"""A real Placement API (PyPI ``openstack-placement``, SQLite, noauth2) as its own process."""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import Final

import yaml

from tests.lab.services.placement_http import PlacementHttp
from tests.lab.services.process import ServiceProcess, free_port

CLOUD: Final = "lab"
_ROOT: Final = Path(__file__).resolve().parents[3]

_CONF: Final = """\
[DEFAULT]
debug = false
[api]
auth_strategy = noauth2
[placement_database]
connection = sqlite:///{database}
sync_on_startup = true
sqlite_synchronous = false
[oslo_policy]
policy_file = {policy}
"""


class PlacementServer(ServiceProcess):
    """``url`` stays the same over restarts, and so does the database in ``directory``.

    Real deployments give the reshaper to the service role alone; noauth2 knows no roles beyond
    admin, so the policy file opens that one call.
    """

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self._http = PlacementHttp(self.url)
        policy = directory / "policy.yaml"
        policy.write_text('"placement:reshaper:reshape": ""\n')
        (directory / "placement.conf").write_text(
            _CONF.format(database=directory / "placement.sqlite", policy=policy)
        )
        super().__init__(
            "placement",
            [sys.executable, "-m", "tests.lab.services.placement_main", str(self.port)],
            directory / "placement.log",
            self._answers,
            env={
                **os.environ,
                "OS_PLACEMENT_CONFIG_DIR": str(directory),
                "PYTHONPATH": str(_ROOT),
            },
        )

    def _answers(self) -> bool:
        with contextlib.suppress(OSError):
            return self._http("GET", "/", "1.0").status == 200
        return False


def write_clouds_yaml(path: Path, url: str, compute: str | None = None) -> Path:
    """A ``clouds.yaml`` for openstacksdk with the cloud ``lab``: admin token, fixed endpoints.

    ``compute`` is nova-api's, with ``/v2.1`` at its end, where there is one.
    """
    cloud: dict[str, object] = {
        "auth_type": "admin_token",
        "auth": {"endpoint": url, "token": "admin"},
        "placement_endpoint_override": url,
    }
    if compute is not None:
        cloud["compute_endpoint_override"] = compute
    path.write_text(yaml.safe_dump({"clouds": {CLOUD: cloud}}))
    return path
