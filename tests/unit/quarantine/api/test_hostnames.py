"""By which names the API and its page are asked: a name of somebody else's may lead here too."""

from __future__ import annotations

from pathlib import Path

import pytest
from falcon import testing

from quarantine.api import application
from quarantine.api.hostnames import is_ours
from quarantine.errors import BadInputError
from quarantine.operations.plane import ServingPlane
from quarantine.page.application import MOUNT
from tests.unit.quarantine.api.client import Site
from tests.unit.quarantine.page.test_login import NOWHERE


@pytest.mark.parametrize(
    "given",
    [
        *("127.0.0.1", "127.0.0.1:8779", "[::1]", "[::1]:8779", "10.0.0.7", "localhost"),
        *("localhost:8779", "LOCALHOST.", "nvme.example.org", "NVME.example.org.:443"),
    ],
)
def test_ours(given: str) -> None:
    assert is_ours(given, {"nvme.example.org"})


@pytest.mark.parametrize(
    "given",
    [
        *("", "evil.example", "evil.example:8779", "127.0.0.1.evil.example", "localhost.evil"),
        *("nvme.example.org.evil.example", "xnvme.example.org", "[evil.example]", "::", "1.2.3"),
        "127.0.0.1@evil.example",
    ],
)
def test_not_ours(given: str) -> None:
    assert not is_ours(given, {"nvme.example.org"})


@pytest.mark.parametrize("strategy", ["noauth", "http_basic"])
def test_a_name_that_nobody_configured_is_refused(tmp_path: Path, strategy: str) -> None:
    """With noauth whoever owned such a name released every held drive with a browser's help."""
    app = application.make(ServingPlane([Site(tmp_path, strategy=strategy).file]), MOUNT)

    def ask(path: str, host: str, method: str = "GET") -> testing.Result:
        return testing.simulate_request(app, method, path, headers={"Host": host})

    for path in ("/v1/slots", "/page", "/page/slots", "/v1/nothing"):
        found = ask(path, "evil.example:8779")
        assert (found.status_code, "allowed_hosts" in found.text) == (403, True), path
    assert ask("/v1/slots/x/hold", "evil.example", "POST").status_code == 403
    # What is answered to everybody, a load balancer's question for health among it.
    for path in ("/", "/v1", "/v1/openapi.json"):
        assert ask(path, "evil.example").status_code == 200
    assert ask("/healthcheck", "evil.example").status_code == 503
    expected = 200 if strategy == "noauth" else 401
    for host in ("127.0.0.1:8779", "localhost", "falconframework.org"):
        assert ask("/v1/slots", host).status_code == expected
        assert ask("/page", host).status_code == expected


def test_behind_a_proxy_with_keystone_every_name_is_taken_until_some_are_named(
    tmp_path: Path,
) -> None:
    site = Site(tmp_path, strategy="keystone", options=NOWHERE)
    conf = site.file.read_text()
    for names, status in (("", 401), ("nvme.example.org", 403)):
        site.file.write_text(conf.replace("= falconframework.org", f"= {names}"))
        app = application.make(ServingPlane([site.file]), MOUNT)
        headers = {"Host": "cloud.example.org"}
        assert testing.simulate_get(app, "/v1/slots", headers=headers).status_code == status


@pytest.mark.parametrize("name", ["https://x.example", "x.example:443", "*.example", "[::1]"])
def test_a_name_that_is_none_is_said_at_the_start(tmp_path: Path, name: str) -> None:
    site = Site(tmp_path)
    conf = site.file.read_text()
    site.file.write_text(conf.replace("= falconframework.org", f"= {name}"))
    with pytest.raises(BadInputError, match="allowed_hosts"):
        application.make(ServingPlane([site.file]), MOUNT)
