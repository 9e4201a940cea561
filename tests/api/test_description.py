"""The API against its own description: requests that schemathesis makes of it, good ones and bad.

Its answers have documented statuses, types and schemas, no request makes an error of ours, and what
the description forbids is refused. The site is thrown away, so acts are asked for too.
"""

from __future__ import annotations

import os
from collections import Counter
from dataclasses import dataclass
from typing import Any, Final

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="tox env api has it")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from hypothesis.strategies import integers  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from benchmarks.api import cloud  # noqa: E402
from quarantine.api import application  # noqa: E402
from quarantine.api.openapi import identifier  # noqa: E402
from quarantine.api.operation import Operation  # noqa: E402
from quarantine.api.routes import OPERATIONS  # noqa: E402
from quarantine.operations.plane import ServingPlane  # noqa: E402
from tests.unit.quarantine.api.client import Site  # noqa: E402

pytestmark = pytest.mark.api

EXAMPLES: Final = int(os.environ.get("NVME_QUARANTINE_EXAMPLES", "60"))
"""Requests to each operation."""

CHECKS: Final = (
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_headers_conformance,
    response_schema_conformance,
    negative_data_rejection,
)


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """A site that asks for a name."""
    app = Site(tmp_path_factory.mktemp("described")).client().app
    return schemathesis.openapi.from_wsgi("/v1/openapi.json", app)


@dataclass(frozen=True)
class Filled:
    """A site with something in every list, and what can be asked for by name there."""

    api: Any
    names: cloud.Names


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Filled:
    """Signed certificates, campaigns, alarms, hosts: what is listed is also shown, one by one."""
    directory = tmp_path_factory.mktemp("filled")
    conf, names = cloud.site(directory, slots=120, running=10, certificates=120)
    app = application.make(ServingPlane([conf]))
    return Filled(schemathesis.openapi.from_wsgi("/v1/openapi.json", app), names)


def played(examples: int) -> Any:
    """The same requests each time."""
    return settings(
        max_examples=examples,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )


def ways() -> list[Any]:
    """Each operation with requests as they should be, and with others."""
    modes = (schemathesis.GenerationMode.POSITIVE, schemathesis.GenerationMode.NEGATIVE)
    return [
        pytest.param(one, mode, id=f"{one.method} {one.path} {mode.value}")
        for one in OPERATIONS
        for mode in modes
    ]


@pytest.mark.parametrize(("operation", "mode"), ways())
def test_every_answer_is_as_described(filled: Filled, operation: Operation, mode: Any) -> None:
    one = filled.api[operation.path][operation.method]
    known: tuple[str, ...] = ()
    # A wrong request may be wrong in its path alone.
    if "{" in operation.path and mode is schemathesis.GenerationMode.POSITIVE:
        known = filled.names.of(operation.path)
    statuses = Counter[int]()

    @given(case=one.as_strategy(generation_mode=mode), number=integers(0, 2 * len(known)))
    @played(EXAMPLES)
    def asked(case: Any, number: int) -> None:
        headers = {**(case.headers or {}), "X-Auth-Token": "admin"}
        if number < len(known):
            (variable,) = case.path_parameters
            case.path_parameters[variable] = known[number]  # else it is of nowhere
        response = case.call(headers=headers)
        case.validate_response(response, checks=list(CHECKS), headers=headers)
        statuses[response.status_code] += 1

    try:
        asked()
    except Unsatisfiable:
        pytest.skip("there is no such request: it has nothing that could be wrong")
    if known and operation.method == "GET" and not operation.path.endswith(cloud.ASKS_PLACEMENT):
        assert statuses[200], f"nothing that is there was shown: {statuses}"


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.rule], ids=identifier)
def test_nothing_is_answered_without_a_name(described: Any, operation: Operation) -> None:
    one = described[operation.path][operation.method]

    @given(case=one.as_strategy())
    @played(5)
    def asked(case: Any) -> None:
        case.headers = {k: v for k, v in (case.headers or {}).items() if k != "Authorization"}
        assert case.call().status_code == 401

    asked()
