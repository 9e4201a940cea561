"""The API against its own description: requests that schemathesis makes of it, good ones and bad.

Its answers have documented statuses, types and schemas, no request makes an error of ours, and what
the description forbids is refused. The site is thrown away, so acts are asked for too.
"""

from __future__ import annotations

import base64
import os
from typing import Any, Final

import pytest

schemathesis = pytest.importorskip("schemathesis", reason="tox env api has it")

from hypothesis import HealthCheck, given, settings  # noqa: E402
from hypothesis.errors import Unsatisfiable  # noqa: E402
from schemathesis.checks import not_a_server_error  # noqa: E402
from schemathesis.specs.openapi.checks import (  # noqa: E402
    content_type_conformance,
    negative_data_rejection,
    response_headers_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from quarantine.api.openapi import identifier  # noqa: E402
from quarantine.api.operation import Operation  # noqa: E402
from quarantine.api.routes import OPERATIONS  # noqa: E402
from quarantine.record.store import Store  # noqa: E402
from tests.unit.quarantine.api.client import ADMIN, NAMES, Site  # noqa: E402

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
    site = Site(tmp_path_factory.mktemp("described"))
    with site.store() as store:
        _fill(store)
    app = site.client().app
    return schemathesis.openapi.from_wsgi("/v1/openapi.json", app)


def _fill(store: Store) -> None:
    store.note_pass("sweep", 3600)
    store.record_refusal("report", "cmp1", "bad", "d", "x")


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
def test_every_answer_is_as_described(described: Any, operation: Operation, mode: Any) -> None:
    token = base64.b64encode(":".join(ADMIN).encode()).decode()
    one = described[operation.path][operation.method]

    @given(case=one.as_strategy(generation_mode=mode))
    @played(EXAMPLES)
    def asked(case: Any) -> None:
        headers = {**(case.headers or {}), "Authorization": f"Basic {token}"}
        if "slot" in (case.path_parameters or {}) and len(str(case.body)) % 2:
            case.path_parameters["slot"] = NAMES[0]  # else nearly all are of slots of nowhere
        response = case.call(headers=headers)
        case.validate_response(response, checks=list(CHECKS), headers=headers)

    try:
        asked()
    except Unsatisfiable:
        pytest.skip("there is no such request: it has nothing that could be wrong")


@pytest.mark.parametrize("operation", [one for one in OPERATIONS if one.rule], ids=identifier)
def test_nothing_is_answered_without_a_name(described: Any, operation: Operation) -> None:
    one = described[operation.path][operation.method]

    @given(case=one.as_strategy())
    @played(5)
    def asked(case: Any) -> None:
        case.headers = {k: v for k, v in (case.headers or {}).items() if k != "Authorization"}
        assert case.call().status_code == 401

    asked()
