"""The API's description: whole, valid, and the one table of what can be asked."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from jsonschema import Draft202012Validator

from quarantine.api import openapi, policies, routes
from quarantine.api.routes import OPERATIONS, PUBLIC, RULES
from tests.unit.quarantine.api.client import Client


def found(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        for name, one in value.items():
            if name == key:
                yield one
            yield from found(one, key)
    elif isinstance(value, list):
        for one in value:
            yield from found(one, key)


def test_it_is_told_to_everybody_and_is_whole(still: Client) -> None:
    said = still.get("/v1/openapi.json").json
    assert said == json.loads(json.dumps(openapi.document(OPERATIONS)))
    assert said["openapi"] == "3.1.0"
    names = [f"#/components/schemas/{name}" for name in said["components"]["schemas"]]
    assert set(found(said, "$ref")) == set(names)
    for schema in found(said, "schema"):
        Draft202012Validator.check_schema(schema)
    for schema in said["components"]["schemas"].values():
        Draft202012Validator.check_schema(schema)
    identifiers = list(found(said, "operationId"))
    assert len(identifiers) == len(set(identifiers)) == len(OPERATIONS)


def test_whatever_changes_something_asks_for_a_version_and_a_rule() -> None:
    for one in OPERATIONS:
        if one.method != "GET":
            assert one.changes, one.path
            assert one.default in (policies.ADMIN, policies.AS_HOLD_AND_RELEASE), one.path
            assert one.body is not None, one.path
        assert one.path in PUBLIC or one.default, one.path


def test_requests_refuse_what_they_do_not_name() -> None:
    """What a handler ignores is a decision that nobody made; documents are read by their class."""
    for one in OPERATIONS:
        if one.body is not None and one.method != "PUT":
            assert one.body["additionalProperties"] is False


def test_every_rule_is_in_the_sample() -> None:
    names = {one.name for one in routes.list_rules()}
    assert {policies.rule(name) for name in RULES} <= names
    assert {"/", "/v1", "/healthcheck", "/v1/openapi.json"} == PUBLIC
