"""The API's description, and its page in docs, made of the table of operations and schemas."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from quarantine import VERSION
from quarantine.api import schemas
from quarantine.api.documents import MEDIA_TYPE
from quarantine.api.operation import Operation, Schema
from quarantine.api.policies import PERSONAS, rule

_COMPONENTS: Final[dict[str, Schema]] = {
    "Errors": schemas.ERRORS,
    "Slot": schemas.SLOT,
    "SlotInList": schemas.SLOT_LINE,
    "Case": schemas.CASE,
    "HistoryLine": schemas.LINE,
    "Decided": schemas.DECIDED,
    "Decision": schemas.DECISION,
    "Release": schemas.RELEASE,
    "Capacity": schemas.CAPACITY,
    "Drive": schemas.DRIVE,
    "Host": schemas.HOST,
    "HostInList": schemas.HOST_LINE,
    "Certificate": schemas.CERTIFICATE,
    "CertificateInList": schemas.CERTIFICATE_LINE,
    "Testimony": schemas.TESTIMONY,
    "ChainEnd": schemas.LEDGER,
    "Server": schemas.SERVER,
    "ServerInList": schemas.SERVER_LINE,
    "Document": schemas.DOCUMENT,
    "Content": schemas.CONTENT,
    "Refusal": schemas.REFUSAL,
    "Alarm": schemas.ALARM,
    "Health": schemas.HEALTH,
    "Version": schemas.VERSION,
}
"""What has a name of its own; an object that stands in several places is said once."""

_NAMES: Final = {id(schema): name for name, schema in _COMPONENTS.items()}

_PATHS: Final[dict[str, Schema]] = {
    "slot": {
        **schemas.TEXT,
        "description": "Name or uuid of its resource provider in Placement.",
        "examples": ["cmp1_0000:01:00.0"],
    },
    "host": {**schemas.TEXT, "description": "As Nova's list of hypervisors has it."},
    "digest": {
        **schemas.DIGEST,
        "description": "Of the certificate, or of the drive's identity; whole.",
    },
    "server": {**schemas.UUID, "description": "Of Nova's."},
    "name": {**schemas.TEXT, "description": "Of the document."},
    "campaign": {**schemas.TEXT, "description": "As whoever began it named it."},
}

_ERRORS: Final = {
    400: "Something of the request is not as it is described here",
    401: "It is not known who asks",
    403: "The caller may not do this",
    404: "Nothing of this name, or the caller may not see it",
    405: "Another method",
    409: "Not possible as it is now, or somebody else was quicker, or a certificate does not hold",
    412: "It has changed since the caller looked at it",
    413: "The body is too long",
    415: "The body is not JSON",
    428: "If-Match is missing: a decision is about something that was looked at",
    500: "An error of ours; the log has it under the request's id",
    503: (
        "Something that is needed does not answer, or is busy. After the code outcome-unread the"
        " decision stands, after unfinished part of it may be done: look before you repeat"
    ),
}

_ABOUT: Final = """\
Slots of passthrough NVMe drives, their cases, certificates and hosts.

Every answer has X-Openstack-Request-Id; one that came in (req-UUID) is in the log beside it.
Errors have the format of OpenStack's API guidelines, with stable codes. Lists come in pages: go on
with the link whose rel is "next". Times are UTC. Bodies have at most 1 MiB, and no members but
those that are described here.
"""


def document(operations: Sequence[Operation]) -> dict[str, Any]:
    """OpenAPI 3.1."""
    paths: dict[str, dict[str, Any]] = {}
    for one in operations:
        paths.setdefault(one.path, {})[one.method.lower()] = _operation(one)
    # Each one's own body: by its name it would only refer to itself.
    components = {name: _inside(schema) for name, schema in _COMPONENTS.items()}
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "nvme-quarantine",
            "version": "1.0",
            "description": _ABOUT,
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
            "x-release": VERSION,
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {
                "keystone": {"type": "apiKey", "in": "header", "name": "X-Auth-Token"},
                "http_basic": {"type": "http", "scheme": "basic"},
            },
        },
        "security": [{"keystone": []}, {"http_basic": []}],
    }


def _operation(one: Operation) -> dict[str, Any]:
    said: dict[str, Any] = {
        "operationId": identifier(one),
        "summary": one.summary,
        "parameters": list(_parameters(one)),
        "responses": _responses(one),
    }
    if one.rule:
        said["x-policy"] = rule(one.rule)
    else:
        said["security"] = []
    if one.body is not None:
        content = {MEDIA_TYPE: {"schema": reference(one.body)}}
        said["requestBody"] = {"required": True, "content": content}
    return said


def identifier(one: Operation) -> str:
    """A name for those who generate clients."""
    words = re.sub(r"[^a-z0-9]+", "_", f"{one.method} {one.path}".lower()).strip("_")
    return words.replace("_v1_", "_", 1)


def _parameters(one: Operation) -> Iterator[dict[str, Any]]:
    for name in re.findall(r"{(\w+)}", one.path):
        yield {"name": name, "in": "path", "required": True, "schema": _PATHS[name]}
    for name, schema in one.query.items():
        yield {"name": name, "in": "query", "required": False, "schema": dict(schema)}
    if one.changes:
        yield {
            "name": "If-Match",
            "in": "header",
            # Where one may say instead that there is none yet, the server tells what is missing.
            "required": not one.creates,
            "schema": {"type": "string", "examples": ['"0123456789abcdef"']},
            "description": "The ETag of what was looked at; 428 without it, 412 where it is old.",
        }
    if one.creates:
        yield {
            "name": "If-None-Match",
            "in": "header",
            "required": False,
            "schema": {"enum": ["*"]},
            "description": "Instead of If-Match: there is none of this name yet.",
        }


def _responses(one: Operation) -> dict[str, Any]:
    good: dict[str, Any] = {"description": "Done" if one.changes else "What was asked for"}
    if one.response is not None:
        good["content"] = {MEDIA_TYPE: {"schema": reference(one.response)}}
    else:
        good["content"] = {one.media_type: {"schema": {"type": "string"}}}
    found = {"200": good}
    for status in sorted(statuses(one)):
        content = {MEDIA_TYPE: {"schema": reference(schemas.ERRORS)}}
        found[str(status)] = {"description": _ERRORS[status], "content": content}
    if one.path == "/healthcheck":
        # Its 503 has the document of a good answer, and not that of an error.
        found["503"] = {**good, "description": "Something is wrong, as it says"}
    return found


def statuses(one: Operation) -> set[int]:
    """How else it can end."""
    found = {400, 405, 500, 503}
    if one.rule:
        found |= {401, 403}
    if "{" in one.path or "slot" in one.query:
        found |= {404}
    if one.changes:
        found |= {409, 412, 413, 415, 428}
    if one.path == "/v1/certificates/{digest}":
        found |= {409}
    return found


def reference(schema: Schema | Any) -> Any:
    """A schema as it stands elsewhere: by its name where it has one."""
    # By identity: two schemas that are equal are not the same thing, and only a shared object has
    # the name.
    name = _NAMES.get(id(schema))
    return {"$ref": f"#/components/schemas/{name}"} if name else _inside(schema)


def _inside(schema: Any) -> Any:
    if isinstance(schema, dict):
        return {key: reference(value) for key, value in schema.items()}
    if isinstance(schema, list):
        return [reference(one) for one in schema]
    return schema


def page(operations: Sequence[Operation]) -> str:
    """The tables of docs/api.md."""
    lines = ["| request | what | rule | by default |", "|---|---|---|---|"]
    for one in operations:
        who = _persona(one.default) if one.rule else "everybody"
        name = f"`{rule(one.rule)}`" if one.rule else ""
        lines.append(f"| `{one.method} {one.path}` | {one.summary} | {name} | {who} |")
    lines += ["", "| who | check | what for |", "|---|---|---|"]
    lines += (
        f"| `{one.name}` | `{one.check_str}` | {' '.join((one.description or '').split())} |"
        for one in PERSONAS
    )
    lines += ["", "| request | words behind `?` |", "|---|---|"]
    for one in operations:
        if one.query:
            words = "; ".join(_word(name, schema) for name, schema in one.query.items())
            lines.append(f"| `{one.method} {one.path}` | {words} |")
    lines += ["", "| status | when |", "|---|---|"]
    lines += (f"| {status} | {words} |" for status, words in _ERRORS.items())
    return "\n".join(lines)


def _persona(check: str) -> str:
    return f"`{check.replace('rule:', '')}`"


def _word(name: str, schema: Schema | Any) -> str:
    said = str(schema.get("description", "")).rstrip(".")
    kinds = schema.get("enum") or schema.get("items", {}).get("enum")
    if kinds:
        said = ", ".join(f"`{kind}`" for kind in kinds) + (f". {said}" if said else "")
    return f"`{name}`" + (f" ({said})" if said else "")
