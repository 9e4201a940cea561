"""What goes in and what comes out, as JSON Schema 2020-12. The OpenAPI document is made of these.

Requests refuse what they do not name. Answers say what is there today; a reader has to expect more.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from eraser.protocol.ticket import Defence, DefenceStanding

Schema = dict[str, Any]

MAX_REASON: Final = 1000
"""Characters; the record has room for more."""

MAX_NAME: Final = 255

TEXT: Final[Schema] = {"type": "string"}
COUNT: Final[Schema] = {"type": "integer", "minimum": 0}
MOMENT: Final[Schema] = {"type": "string", "format": "date-time"}
TIME: Final[Schema] = {"type": "string", "maxLength": 40, "format": "date-time"}
"""Of a request."""
DIGEST: Final[Schema] = {"type": "string", "pattern": "^[0-9a-f]{64}$"}
UUID: Final[Schema] = {
    "type": "string",
    "pattern": "^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$",
}
NAME: Final[Schema] = {"type": "string", "minLength": 1, "maxLength": MAX_NAME}
REASON: Final[Schema] = {
    "type": "string",
    "minLength": 1,
    "maxLength": MAX_REASON,
    "pattern": r"\S",
    "description": "Why, for the history; one line for whoever reads it in a year.",
}
LIMIT: Final[Schema] = {
    "type": "integer",
    "minimum": 1,
    "description": "Entries of the page; more than [api]max_limit are not given.",
}
MARKER: Final[Schema] = {
    "type": "string",
    "maxLength": 400,
    "description": "Where to go on: as the link to the next page has it.",
}


def maybe(schema: Schema) -> Schema:
    """That, or null."""
    return {"anyOf": [schema, {"type": "null"}]}


def record(members: Mapping[str, Schema], description: str = "") -> Schema:
    """An answer's object: all these members are there."""
    said: Schema = {
        "type": "object",
        "properties": dict(members),
        "required": sorted(members),
    }
    return {**said, "description": description} if description else said


def request(members: Mapping[str, Schema], required: tuple[str, ...] = ()) -> Schema:
    """A request's object: these members, and no others."""
    return {
        "type": "object",
        "properties": dict(members),
        "required": list(required),
        "additionalProperties": False,
    }


def page(name: str, item: Schema) -> Schema:
    """A page of a list."""
    links = {"type": "array", "items": record({"rel": TEXT, "href": TEXT})}
    return {
        "type": "object",
        "properties": {name: {"type": "array", "items": item}, f"{name}_links": links},
        "required": [name],
    }


ERRORS: Final = record(
    {
        "errors": {
            "type": "array",
            "minItems": 1,
            "items": record(
                {
                    "request_id": TEXT,
                    "code": {**TEXT, "description": "Stable; for programs."},
                    "status": {"type": "integer"},
                    "title": TEXT,
                    "detail": {**TEXT, "description": "For people; its words may change."},
                }
            ),
        }
    }
)

VERSION: Final = record(
    {
        "id": TEXT,
        "status": {"enum": ["CURRENT"]},
        "links": {"type": "array", "items": record({"rel": TEXT, "href": TEXT})},
    }
)
VERSIONS: Final = record({"versions": {"type": "array", "items": VERSION}})
ONE_VERSION: Final = record({"version": VERSION})

HEALTH: Final = record(
    {
        "status": {
            "enum": ["ok", "degraded", "failing"],
            "description": "degraded: only Placement, the broker or the audit file is away, and "
            "reads are served.",
        },
        "at": MOMENT,
        "checks": {
            "type": "array",
            "items": record(
                {
                    "name": TEXT,
                    "status": {"enum": ["ok", "failing"]},
                    "problem": TEXT,
                    "age_seconds": maybe({"type": "number"}),
                }
            ),
        },
    }
)

DRIVE: Final = record(
    {
        "vendor_id": COUNT,
        "device_id": COUNT,
        "subsystem_vendor_id": COUNT,
        "subsystem_device_id": COUNT,
        "serial": TEXT,
        "model": TEXT,
        "subnqn": TEXT,
        "digest": DIGEST,
    },
    "What the drive's controller calls itself.",
)

_SLOT: Final[dict[str, Schema]] = {
    "id": {**TEXT, "description": "The name of its resource provider in Placement."},
    "host": TEXT,
    "address": TEXT,
    "provider": {**TEXT, "description": "Uuid of its resource provider."},
    "state": {**TEXT, "description": "As in docs/states.md; another release may have more."},
    "entered_at": {**MOMENT, "description": "When this state began."},
    "reason": TEXT,
    "hold_code": maybe(TEXT),
    "alarm": TEXT,
    "generation": {**COUNT, "description": "Count of its cases."},
    "profile": TEXT,
    "policy": TEXT,
    "server": maybe(
        {
            **TEXT,
            "description": "Who has the drive, or had it last: a server, or its migration that "
            "holds, or held, what the server left.",
        }
    ),
    "certificate": maybe({**TEXT, "description": "Under which the drive is, or was, handed out."}),
    "next_hold": {
        **maybe(TEXT),
        "description": "Why it is to be held when its server lets go of the drive.",
    },
}

DAMAGED: Final[Schema] = {
    **TEXT,
    "description": "What of its row cannot be read, and what to do. Else empty.",
}

_MAINTAINED: Final[Schema] = {
    **TEXT,
    "description": "Until when its delays, or its host's, call nobody, and why. Else empty.",
}

SLOT_LINE: Final = record(
    {
        **_SLOT,
        "model": maybe(TEXT),
        "serial": maybe(TEXT),
        "step": maybe(TEXT),
        "fraction": {"type": "number", "description": "Of the step, 0 to 1."},
        "waits_for": {**TEXT, "description": "And whether its host is silent."},
        "maintenance": _MAINTAINED,
        "entered_at": maybe(MOMENT),
        "damaged": DAMAGED,
    }
)

SLOT: Final = record(
    {
        **_SLOT,
        "remedy": {**TEXT, "description": "What would return a held drive."},
        "drive": maybe(DRIVE),
        "resource_class": TEXT,
        "custody": {"enum": ["none", "taking", "held", "returning"]},
        "order": maybe(TEXT),
        "ticket_valid": {"type": "boolean", "description": "By the host's receipt."},
        "created_at": MOMENT,
        "maintenance": _MAINTAINED,
    },
    "What people decide on. Its ETag changes when anything of it does but its maintenance, which "
    "has a version of its own.",
)

CASE: Final = record(
    {
        "slot": TEXT,
        "state": TEXT,
        "generation": COUNT,
        "order": maybe(TEXT),
        "ordered_at": maybe(MOMENT),
        "attempts": COUNT,
        "heard_at": {**maybe(MOMENT), "description": "The host's last word about this order."},
        "step": maybe(TEXT),
        "fraction": {"type": "number"},
        "waits_for": {**TEXT, "description": "And whether its host is silent."},
        "unsold": {**TEXT, "description": "Why it cannot be sold now, and what returns it."},
        "ticket": TEXT,
        "ticket_at": maybe(MOMENT),
        "read_at": {**maybe(MOMENT), "description": "When Placement was last looked at."},
    },
    "How far its case is. It changes all the time and has no ETag.",
)

_LINE: Final = {
    "revision": COUNT,
    "at": MOMENT,
    "event": maybe(TEXT),
    "source": maybe(TEXT),
    "target": TEXT,
    "generation": COUNT,
    "reason": TEXT,
    "hold_code": maybe(TEXT),
    "by": maybe(record({"user": TEXT, "project": TEXT, "request_id": TEXT})),
    "detail": {"type": "object"},
}
LINE: Final = record(_LINE)
LINE_OF_A_SLOT: Final = record({"slot": TEXT, **_LINE})

DECIDED: Final = record(
    {
        "slot": SLOT,
        "unacted": {
            **TEXT,
            "description": "Why nothing was done about it yet: the running service does. Else "
            "empty. The decision itself is written in either case.",
        },
    }
)

DECISION: Final = request({"reason": REASON}, ("reason",))
HOLD: Final = request(
    {
        "reason": REASON,
        "at_next_release": {
            "type": "boolean",
            "description": "Where a server has the drive: when it lets go of it. Else now.",
        },
    },
    ("reason",),
)
RELEASE: Final = request(
    {
        "reason": REASON,
        "new_drive": {
            "type": "boolean",
            "description": "Another drive was put in: the one that the host names next is "
            "accepted.",
        },
    },
    ("reason",),
)

ENROLMENT_WORDS: Final[dict[str, Schema]] = {
    "profile": {**NAME, "description": "An approved one, by which the drives are told. Needed."},
    "policy": {**NAME, "description": "An approved one; else that of [erase]policy."},
    "address": {**NAME, "description": "One slot, as in 0000:01:00.0; a retired one only so."},
    "resource_class": {**NAME, "description": "Only slots of this class."},
}
ENROL: Final = request({**ENROLMENT_WORDS, "reason": REASON}, ("profile", "reason"))
ENROLMENT: Final = record(
    {
        "slots": {
            "type": "array",
            "items": record(
                {
                    "slot": TEXT,
                    "fate": {
                        "enum": ["free", "in_use", "known", "refused"],
                        "description": "Erased first; looked at alone; left as it is; not to be "
                        "taken as it stands.",
                    },
                    "reason": TEXT,
                    "server": maybe(TEXT),
                    "resource_class": TEXT,
                }
            ),
        },
        "unacted": {
            **TEXT,
            "description": "Why none was looked at yet: the service does. Or empty.",
        },
    }
)

BY: Final = record({"user": TEXT, "project": TEXT, "request_id": TEXT})
MAINTAIN: Final = request(
    {
        "reason": REASON,
        "until": {
            **MOMENT,
            "maxLength": 40,
            "description": "Its end, at most [detection]longest_maintenance seconds from now.",
        },
    },
    ("reason", "until"),
)
MAINTENANCE: Final = record(
    {
        "host": TEXT,
        "slot": {**maybe(TEXT), "description": "null: the whole host, with all of its slots."},
        "version": COUNT,
        "at": {**MOMENT, "description": "When this was said."},
        "until": {**maybe(MOMENT), "description": "null: it was ended."},
        "reason": TEXT,
        "by": BY,
    },
    "Nobody is called because it is silent, absent or late. Nothing else changes by it.",
)

HOST_LINE: Final = record(
    {
        "name": TEXT,
        "key": {**TEXT, "description": "Thumbprint of the key whose word counts."},
        "incarnation": TEXT,
        "registered_at": maybe(MOMENT),
        "heard_at": maybe(MOMENT),
        "lacks": {
            **TEXT,
            "description": "What it lacks of [gate]required_defences: no drive is given back to it."
            " Empty where nothing, or where it never said anything.",
        },
        "maintenance": {
            **TEXT,
            "description": "Until when its silence calls nobody, and why; else empty.",
        },
        "damaged": DAMAGED,
    }
)
SEEN_DRIVE: Final = record({"address": TEXT, "driver": TEXT, "drive": maybe(DRIVE)})
DEFENCE: Final = record(
    {
        "defence": {"type": "string", "enum": [str(each) for each in Defence]},
        "standing": {"type": "string", "enum": [str(each) for each in DefenceStanding]},
        "detail": {**TEXT, "description": "What was found, and what to do where it is absent."},
    }
)
EXEMPTION: Final = record(
    {
        "address": TEXT,
        "by": TEXT,
        "reason": {**TEXT, "description": "Its beginning; the host's file has all of it."},
        "at": {**TEXT, "description": "On the host's clock."},
    }
)
HOST: Final = record(
    {
        # Without it: a damaged row of a single host is an error, and no document.
        **{k: v for k, v in HOST_LINE["properties"].items() if k != "damaged"},
        "registered_at": MOMENT,
        "version": {**maybe(TEXT), "description": "Of nvme-eraser, by its last hello."},
        "drives": {"type": "array", "items": SEEN_DRIVE},
        "orders": {"type": "array", "items": TEXT, "description": "Of its open cases."},
        "defences": {
            "type": "array",
            "items": DEFENCE,
            "description": "Those of [gate]required_defences, by its last hello.",
        },
        "exemptions": {
            "type": "array",
            "items": EXEMPTION,
            "description": "NVMe functions that its gate leaves to any guest, by a person's word.",
        },
    }
)

CERTIFICATE_LINE: Final = record(
    {
        "digest": DIGEST,
        "position": COUNT,
        "slot": TEXT,
        "generation": COUNT,
        "drive": {**DIGEST, "description": "Digest of the drive's identity."},
        "server": {**maybe(TEXT), "description": "Who had the drive, by Placement."},
        "owner": {**maybe(TEXT), "description": "Who had it, by the host's gate."},
        "issued_at": maybe(MOMENT),
        "damaged": DAMAGED,
    }
)
CERTIFICATE: Final = record(
    {
        **CERTIFICATE_LINE["properties"],
        "headline": TEXT,
        "key": {**TEXT, "description": "Thumbprint of the key that signed it."},
        "testimony": {
            **TEXT,
            "description": "What the kept order and report say of it: agrees, contradicts, ...",
        },
        "contradictions": {
            "type": "array",
            "items": TEXT,
            "description": "Where it says otherwise than itself, or than its order and report.",
        },
        "problems": {
            "type": "array",
            "items": TEXT,
            "description": "The same; keys that could not be followed; what is not known here.",
        },
        "certificate": {"type": "object", "description": "As docs/certificates.md describes it."},
    }
)
_DRIVE: Final[dict[str, Schema]] = {
    "digest": {**DIGEST, "description": "Of what its controller calls itself."},
    "firmware": {**maybe(TEXT), "description": "That ran at its last certificate."},
    "seen_in": {**TEXT, "description": "The slot that it was seen in, or spoken of, last."},
    "dirty": {"type": "boolean", "description": "It may hold somebody's data."},
    "retired": {"type": "boolean", "description": "It is never handed out again."},
    "reason": {**TEXT, "description": "Why it is dirty, clean or retired."},
    "changed_at": MOMENT,
    "certificate": {**maybe(TEXT), "description": "Its last one, though it be dirty since."},
    "certified_at": maybe(MOMENT),
}
DRIVE_LINE: Final = record(
    {
        **_DRIVE,
        "model": maybe(TEXT),
        "serial": maybe(TEXT),
        "changed_at": maybe(MOMENT),
        "damaged": DAMAGED,
    }
)
DRIVE_LIFE: Final = record(
    {
        **_DRIVE,
        "drive": DRIVE,
        "slots": {
            "type": "array",
            "items": record(
                {"id": TEXT, "state": TEXT, "entered_at": MOMENT, "server": maybe(TEXT)}
            ),
            "description": "That it is expected in now; its server has it, or had it last.",
        },
        "certified_in": maybe(TEXT),
        "dirty_in": {**maybe(TEXT), "description": "Where it last became dirty."},
        "dirty_at": maybe(MOMENT),
        "cases": {
            "type": "array",
            "items": CERTIFICATE_LINE,
            "description": "Its newest certificates, at most 100: where it was erased, and after "
            "which server. /v1/certificates?drive= has all of them.",
        },
    }
)
TESTIMONY: Final = record(
    {
        "order": {**TEXT, "description": "The signed order, a compact JWS."},
        "report": {**TEXT, "description": "The host's signed report, a compact JWS."},
        "host_key": {"type": "object", "description": "The host's key as it was then, a JWK."},
    }
)
LEDGER: Final = record({"position": COUNT, "digest": TEXT, "issued_at": maybe(MOMENT)})

REFUSAL: Final = record(
    {
        "id": COUNT,
        "kind": TEXT,
        "host": TEXT,
        "reason": TEXT,
        "digest": TEXT,
        "excerpt": {**TEXT, "description": "Of what a stranger sent; it may be anything."},
        "count": COUNT,
        "first_at": maybe(MOMENT),
        "last_at": maybe(MOMENT),
        "damaged": DAMAGED,
    }
)

ALARM: Final = record(
    {
        "id": COUNT,
        "code": {**TEXT, "description": "Of its kind; the runbook is found by it."},
        "subject": {**TEXT, "description": "A slot as host/address, 'host NAME', or a part of us."},
        "text": {**TEXT, "description": "Of the last call."},
        "count": COUNT,
        "first_at": MOMENT,
        "last_at": MOMENT,
        "over_at": maybe(MOMENT),
        "severity": maybe({"enum": ["critical", "warning"]}),
        "summary": maybe(TEXT),
        "remedy": maybe({**TEXT, "description": "What to do, in Markdown."}),
    }
)

DOCUMENT: Final = record(
    {
        "name": TEXT,
        "version": COUNT,
        "digest": DIGEST,
        "approved_by": TEXT,
        "approved_at": MOMENT,
        "reason": {**TEXT, "description": "Empty where none was given."},
        "project": TEXT,
        "request_id": TEXT,
        "content": {"type": "object"},
    }
)
DOCUMENT_LINE: Final = record(
    {
        **DOCUMENT["properties"],
        "approved_at": maybe(MOMENT),
        "content": {
            **maybe({"type": "object"}),
            "description": "null where this release cannot read it.",
        },
        "damaged": DAMAGED,
    }
)
CONTENT: Final[Schema] = {
    "type": "object",
    "properties": {"name": NAME},
    "required": ["name"],
    "description": "A whole profile or policy; members that there are none of are refused.",
}

SERVER_LINE: Final = record(
    {"id": TEXT, "project": TEXT, "seen_at": maybe(MOMENT), "damaged": DAMAGED}
)
SERVER: Final = record(
    {
        "id": TEXT,
        "drives": {
            "type": "array",
            "items": record(
                {
                    "state": TEXT,
                    "certificate": {
                        **maybe(DIGEST),
                        "description": "Under which the server got the drive; null once it let "
                        "go of it.",
                    },
                }
            ),
            "description": "Those that the server has, and those that are not erased yet after it.",
        },
        "certificates": {
            "type": "array",
            "items": DIGEST,
            "description": "Of the erases after the server.",
        },
    }
)

CAPACITY: Final = record(
    {
        "flavor": TEXT,
        "host": {**maybe(TEXT), "description": "null: all hosts."},
        "drives": {**COUNT, "description": "That the flavor takes."},
        "sellable": {**COUNT, "description": "Whole flavors, when only this one is sold."},
        "free": {**COUNT, "description": "Drives, of hosts that speak."},
        "missing": {
            **COUNT,
            "description": "Drives for one more, where that is the fewest of those hosts that have "
            "so many.",
        },
        "doubtful": {**COUNT, "description": "Free drives of hosts of which nothing is heard."},
        "in_use": COUNT,
        "coming": {**COUNT, "description": "Drives that come back by themselves."},
        "held": {**COUNT, "description": "Drives that only people return."},
        "retired": {**COUNT, "description": "Drives that nobody returns."},
        "next_at": {**maybe(MOMENT), "description": "When the next one can be sold."},
        "says": {**TEXT, "description": "All of it that matters, for people."},
    }
)

CAMPAIGN_WORDS: Final[dict[str, Schema]] = {
    "model": NAME,
    "firmware": {**NAME, "description": "That ran at the drive's last certificate."},
    "host": NAME,
    "hold_code": {
        **NAME,
        "description": "Of held slots (older: of a release without codes); without it those are "
        "left to people.",
    },
    "certified_before": {**MOMENT, "maxLength": 40},
}
_CAMPAIGN_QUERY: Final = {
    **request(CAMPAIGN_WORDS),
    # Nothing named would be the whole fleet.
    "minProperties": 1,
    "description": "All of it has to fit.",
}
_KEEP: Final[Schema] = {
    "type": "number",
    "minimum": 0,
    "maximum": 1,
    "description": "This share of the drives that would be on offer without it stays there; 0.9.",
}
CAMPAIGN_WISH: Final = request(
    {
        "query": _CAMPAIGN_QUERY,
        "keep": _KEEP,
        "reason": REASON,
        "seen": {
            "type": "string",
            "minLength": 1,
            "maxLength": 64,
            "description": "The version of a preview: about just its slots, else 412. Without it: "
            "about those that are like the query by now.",
        },
    },
    ("query", "reason"),
)
CAMPAIGN_PREVIEWED: Final = record(
    {
        "slots": COUNT,
        "in_use": {**COUNT, "description": "Taken at their next release."},
        "free": {**COUNT, "description": "On offer: taken as the pool can spare them."},
        "held": {**COUNT, "description": "Left to people, unless the query names their code."},
        "in_quarantine": COUNT,
        "at_a_time": {**COUNT, "description": "So many more the pool can spare now."},
        "drive_seconds": maybe({"type": "number"}),
        "pool_seconds": {
            **maybe({"type": "number"}),
            "description": "Until all that are free now are back; null: nobody can say.",
        },
        "which": {"type": "array", "items": SLOT_LINE, "description": "The first of them."},
        "version": {**TEXT, "description": "Of which slots it would be; `seen` of a beginning."},
    }
)
CAMPAIGN: Final = record(
    {
        "id": TEXT,
        "version": COUNT,
        "state": TEXT,
        "query": {**TEXT, "description": "As it was asked for, JSON."},
        "reason": TEXT,
        "keep": {"type": "number"},
        "by": BY,
        "created_at": MOMENT,
        "changed_at": MOMENT,
    }
)
CAMPAIGN_FULL: Final = record(
    {
        **CAMPAIGN["properties"],
        "slots": {
            "type": "object",
            "additionalProperties": COUNT,
            "description": "How many are waiting, asked, erasing, done, skipped or failed.",
        },
        "acts": {
            "type": "array",
            "items": record(
                {
                    "version": COUNT,
                    "at": MOMENT,
                    "state": TEXT,
                    "reason": TEXT,
                    "by": maybe(BY),
                }
            ),
            "description": "Who decided what of it, the oldest first; null: the service.",
        },
    }
)
CAMPAIGN_SLOT: Final = record(
    {
        "slot": TEXT,
        "step": TEXT,
        "result": TEXT,
        "certificate": maybe(TEXT),
        "changed_at": maybe(MOMENT),
        "damaged": DAMAGED,
    }
)
