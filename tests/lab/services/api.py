"""The product's HTTP API as a process of its own, beside a site's control plane."""

from __future__ import annotations

import sys
import urllib.error
import urllib.request
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from tests.lab.services.keystone import Keystone
from tests.lab.services.process import ServiceProcess, free_port

_CONF: Final = """\
[api]
auth_strategy = {strategy}
{more}"""


class ApiServer(ServiceProcess):
    """One on loopback.

    Without a Keystone it asks nobody who he is: what it decides about is a lab's.
    """

    def __init__(
        self,
        directory: Path,
        config: Path,
        env: Mapping[str, str],
        keystone: Keystone | None = None,
    ) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        conf = directory / "api.conf"
        conf.write_text(
            _CONF.format(strategy="keystone", more=keystone.options())
            if keystone
            else _CONF.format(strategy="noauth", more="")
        )
        port = free_port()
        self.url = f"http://127.0.0.1:{port}"
        super().__init__(
            "API",
            [sys.executable, "-m", "tests.lab.services.api_main", str(port)],
            directory / "api.log",
            self._answers,
            env={**env, "NVME_QUARANTINE_CONFIG": f"{config}:{conf}"},
        )

    def _answers(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/v1", timeout=5) as answer:  # noqa: S310
                return bool(answer.status == 200)
        except urllib.error.HTTPError:
            return True  # it serves; what is wrong is for whoever asks
        except OSError:
            return False
