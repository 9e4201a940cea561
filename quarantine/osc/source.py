"""What commands show, from the API: its documents, with the names that our own results have."""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from eraser.protocol.identity import ControllerIdentity
from quarantine.cli.output import warn
from quarantine.cli.sources.source import (
    Act,
    Acted,
    AlarmsWanted,
    CertificateLook,
    Columns,
    KeyFiles,
    Members,
    Papers,
    SlotAct,
)
from quarantine.errors import BadInputError, UnknownError
from quarantine.osc import documents
from quarantine.osc.campaigns import ApiCampaigns
from quarantine.osc.client import AnswerError, Api
from quarantine.osc.documents import Document
from quarantine.osc.enrolment import ApiEnrolment
from quarantine.osc.maintenances import ApiMaintenances

BY_THE_API: Final = "by the API, whose word this is; --key checks it here"

_DIGEST: Final = re.compile(r"[0-9a-f]{64}", re.ASCII)
_PART: Final = re.compile(r"[0-9a-f]+", re.ASCII)

_SLOT_LINE: Final = (
    *("slot", "state", "entered_at", "reason", "hold_code", "detail", "alarm", "model", "serial"),
    *("generation", "profile", "policy", "consumer", "step", "fraction", "certificate"),
    *("provider", "remarks"),
)
_HISTORY: Final = (
    *("at", "event", "source", "target", "generation", "revision", "reason", "detail"),
    *("hold_code", "by"),
)
_FLEET_HISTORY: Final = ("slot", *_HISTORY)
_HOST_LINE: Final = (
    *("host", "incarnation", "key", "registered_at", "heard_at", "lacks", "maintenance"),
)
_HOST: Final = (
    *("host", "incarnation", "key", "registered_at", "heard_at"),
    *("version", "drives", "cases", "maintenance", "defences", "lacks", "exemptions"),
)
_CERTIFICATE: Final = (
    *("number", "digest", "slot", "generation", "drive", "server", "created_at", "owner"),
)
_CAPACITY: Final = (
    *("flavor", "host", "drives", "sellable", "free", "missing", "doubtful", "in_use", "coming"),
    *("held", "retired", "next_at", "says"),
)
_DRIVE_LINE: Final = (
    *("digest", "model", "serial", "firmware", "host", "address", "dirty", "retired", "reason"),
    *("changed_at", "certificate", "certified_at"),
)
_DRIVE: Final = (
    *("digest", "identity", "firmware", "seen_in", "slots", "dirty", "retired", "reason"),
    *("changed_at", "certificate", "certified_in", "certified_at", "dirty_in", "dirty_at"),
    "cases",
)
_REFUSAL: Final = (
    *("id", "kind", "host", "reason", "digest", "excerpt", "count", "first_at", "last_at"),
)
_ALARM: Final = ("id", "code", "subject", "text", "count", "first_at", "last_at", "over_at")


@dataclass(frozen=True)
class ToldDrive:
    """A drive that a host sees, as far as the API says it."""

    address: str
    driver: str
    identity: ControllerIdentity | None


@dataclass(frozen=True)
class DrivesSlot:
    """A slot that a drive is expected in."""

    host: str
    address: str
    state: str
    entered_at: datetime | None
    consumer: str | None


@dataclass(frozen=True)
class DrivesCase:
    """A certificate of a drive."""

    number: int
    digest: str
    host: str
    address: str
    generation: int
    drive: str
    server: str | None
    owner: str | None
    created_at: datetime | None


class ApiSource:
    """See :class:`quarantine.cli.sources.source.Source`.

    A slot may also be named as Placement does.
    """

    def __init__(self, api: Api) -> None:
        self._api = api

    def slots(self, *, host: str | None, states: Sequence[str], limit: int | None) -> Columns:
        """By host and address."""
        words = [("state", state) for state in states]
        words += [("host", host)] if host is not None else []
        return documents.rows_of(
            _SLOT_LINE, _slot_line, self._api.each("slots", words=words, limit=limit)
        )

    def slot(self, name: str) -> Members:
        """What is decided about, how far its case is, and the version."""
        provider = documents.provider(name)
        found = self._api.get("slots", provider)
        # After the slot, whose version is shown: what follows is only how far its case is.
        case = self._api.get("slots", provider, "case").document
        return documents.versioned(_slot({**case, **found.document}), found.version)

    def history(self, name: str, *, limit: int | None) -> Columns:
        """Oldest first."""
        lines = self._api.each("slots", documents.provider(name), "history", limit=limit)
        return documents.rows_of(_HISTORY, _history, lines)

    def fleet_history(self, *, host: str | None, event: str | None, limit: int | None) -> Columns:
        """The last first."""
        asked = (("host", host), ("event", event))
        words = [(name, word) for name, word in asked if word is not None]
        lines = self._api.each("history", words=words, limit=limit)
        return documents.rows_of(_FLEET_HISTORY, _line_of_fleet, lines)

    def act(self, decision: SlotAct) -> Acted:
        """Looks, says at what, and decides about just that."""
        name = documents.provider(decision.slot)
        # What is about to be decided about is told in any case, also where a version was given.
        found = self._api.get("slots", name)
        warn(f"{decision.act}: {_told(found.document)}")
        body: dict[str, Any] = {"reason": decision.reason}
        if decision.act is Act.RELEASE and decision.new_drive:
            body["new_drive"] = True
        if decision.act is Act.HOLD and decision.at_next_release:
            body["at_next_release"] = True
        # A version that was seen before counts for more than the look just now.
        version = decision.seen or found.seen
        done = self._api.act("slots", name, decision.act, body=body, version=version)
        shown = documents.understood(
            lambda: (_slot(dict(done.document["slot"])), str(done.document["unacted"])),
            done.doubt,
        )
        return Acted(documents.versioned(shown[0], done.version), shown[1])

    def hosts(self, *, silent: bool, limit: int | None) -> Columns:
        """By name, without what they said."""
        words = [("silent", "true")] if silent else []
        found = self._api.each("hosts", words=words, limit=limit)
        return documents.rows_of(_HOST_LINE, _host, found)

    def host(self, name: str) -> Members:
        """With the drives that it sees."""
        return documents.members_of(_HOST, _host, self._api.get("hosts", name).document)

    def capacity(self, *, flavor: str | None, host: str | None) -> Columns:
        """As the API has it."""
        asked = (("flavor", flavor), ("host", host))
        # An empty one is refused: a script that lost a name would get the figures of all.
        words = [(name, value) for name, value in asked if value is not None]
        # The command has no --limit: pages are as large as the API gives them.
        found = self._api.each("capacity", words=[*words, ("limit", "1000")])
        return documents.rows_of(_CAPACITY, _capacity, found)

    def certificates(self, *, slot: str | None, server: str | None, limit: int | None) -> Columns:
        """In the chain's order."""
        words = [("slot", documents.provider(slot))] if slot is not None else []
        words += [("server", server)] if server is not None else []
        found = self._api.each("certificates", words=words, limit=limit)
        return documents.rows_of(_CERTIFICATE, _certificate, found)

    def certificate(self, name: str, trust: KeyFiles) -> CertificateLook:
        """With keys checked here, with nothing of the API but the texts; else as it says.

        Raises ``BadInputError`` for rotations without a key.
        """
        if trust.rotations and not trust.keys:
            raise BadInputError(
                "--rotations: expected --key with it, for they lead from a key that is believed to "
                "others; here no configuration names one"
            )
        digest = self._digest(name)
        if trust.keys:
            return self._checked(digest, trust)
        found = self._api.get("certificates", digest).document
        signed = self._signed(digest)

        def read() -> CertificateLook:
            said, broken = tuple(map(str, found["problems"])), found["testimony"] == "contradicts"
            # An API of an earlier release has both kinds in one list alone, and a testimony that
            # agrees has none of its.
            contradictions = tuple(map(str, found.get("contradictions", said if broken else ())))
            return CertificateLook(
                digest=digest,
                token=signed,
                body=dict(found["certificate"]),
                headline=str(found["headline"]),
                key=str(found["key"]),
                checked=BY_THE_API,
                testimony=str(found["testimony"]),
                contradictions=contradictions,
                problems=tuple(line for line in said if line not in contradictions),
                broken=broken or bool(contradictions),
            )

        return documents.understood(read)

    def _signed(self, digest: str) -> str:
        """The certificate's text. Raises ``AnswerError`` for another certificate's."""
        token = self._api.text("certificates", digest, "signed")
        if _said_digest(token) != digest:
            raise AnswerError(f"certificate {digest}: expected it, found another under its name")
        return token

    def papers(self, name: str) -> Papers:
        """As the API hands them over. Raises ``AnswerError`` where it hands over another one's."""
        digest = self._digest(name)
        # The name of a file is made of the digest: another certificate must not be saved under it.
        token = self._signed(digest)
        try:
            found = self._api.get("certificates", digest, "testimony").document
        except UnknownError:
            # None was kept: the certificate can be saved and verified without it.
            return Papers(digest, token)
        return documents.understood(
            lambda: Papers(
                digest, token, str(found["order"]), str(found["report"]), dict(found["host_key"])
            )
        )

    def drives(
        self,
        *,
        model: str | None,
        serial: str | None,
        firmware: str | None,
        limit: int | None,
    ) -> Columns:
        """By the digest of their identity."""
        given = (("model", model), ("serial", serial), ("firmware", firmware))
        words = [(name, value) for name, value in given if value is not None]
        return documents.rows_of(
            _DRIVE_LINE, _drive_line, self._api.each("drives", words=words, limit=limit)
        )

    def drive(self, digest: str) -> Members:
        """Its life."""
        return documents.members_of(_DRIVE, _drive, self._api.get("drives", digest).document)

    def alarms(self, wanted: AlarmsWanted, limit: int | None) -> Columns:
        """What people were called for."""
        given = {
            "host": wanted.host,
            "slot": wanted.slot and documents.provider(wanted.slot),
            "code": wanted.code,
            "severity": wanted.severity,
            "over": None if wanted.is_over is None else str(wanted.is_over).lower(),
            "sort": "-last_at" if wanted.newest else None,
        }
        words = [(name, word) for name, word in given.items() if word is not None]
        return documents.rows_of(_ALARM, _alarm, self._api.each("alarms", words=words, limit=limit))

    def refusals(self, *, host: str | None, limit: int | None) -> Columns:
        """Oldest first."""
        words = [("host", host)] if host is not None else []
        return documents.rows_of(
            _REFUSAL, _refusal, self._api.each("refusals", words=words, limit=limit)
        )

    @property
    def enrolment(self) -> ApiEnrolment:
        """Of a host's slots."""
        return ApiEnrolment(self._api)

    @property
    def maintenances(self) -> ApiMaintenances:
        """Of hosts and slots."""
        return ApiMaintenances(self._api)

    @property
    def campaigns(self) -> ApiCampaigns:
        """Of many slots."""
        return ApiCampaigns(self._api)

    def _checked(self, digest: str, trust: KeyFiles) -> CertificateLook:
        from quarantine.cli.sources.store import look
        from quarantine.operations.papers import certificates
        from quarantine.operations.papers.keys import TrustedKeys

        papers, what = self.papers(digest), f"certificate {digest}"
        # Nothing that the API says of it counts: only the texts, and keys that are here.
        given = None
        if papers.host_key is not None:
            given = certificates.testimony_given(papers.order, papers.report, papers.host_key, what)
        trusted = TrustedKeys(trust.keys, trust.rotations)
        return look(certificates.look(papers.token, given, trusted, what))

    def _digest(self, name: str) -> str:
        """Of a certificate by its digest, or of the newest of a slot."""
        if _DIGEST.fullmatch(name):
            return name
        if _PART.fullmatch(name):
            raise BadInputError("certificate: expected its whole digest, 64 hexadecimal digits")
        found = ""
        # In the chain's order: the last one is the newest.
        for one in self._api.each("certificates", words=[("slot", documents.provider(name))]):
            found = str(one.get("digest"))
        if not _DIGEST.fullmatch(found):
            raise UnknownError(f"slot {name}: expected a certificate of it, found none")
        return found


def _identity(drive: Document | None) -> ControllerIdentity | None:
    if drive is None:
        return None
    return ControllerIdentity(
        drive["vendor_id"],
        drive["device_id"],
        drive["subsystem_vendor_id"],
        drive["subsystem_device_id"],
        drive["serial"],
        drive["model"],
        drive["subnqn"],
    )


def _slot_line(one: Document) -> Document:
    alarm = f"ALARM: {one['alarm']}" if one["alarm"] else ""
    code, reason = one["hold_code"], one["reason"]
    later = f"to be held at its next release: {one['next_hold']}" if one["next_hold"] else ""
    held = f"{code}: {reason}" if code else reason
    # An API of before says nothing of maintenance in a list.
    quiet = one.get("maintenance", "")
    said = (alarm, held, later, quiet, one["waits_for"], one["damaged"])
    return {
        **one,
        "slot": documents.place(one["host"], one["address"]),
        "entered_at": documents.moment(one["entered_at"]),
        "hold_code": code or "",
        "detail": one["waits_for"],
        "model": one["model"] or "",
        "serial": one["serial"] or "",
        "consumer": one["server"],
        # In this order, without what is empty and what is said twice.
        "remarks": "; ".join(dict.fromkeys(filter(None, said))),
    }


def _slot(one: Document) -> Document:
    """With its case, where that was asked for too."""
    drive = _identity(one["drive"])
    case = {}
    if "waits_for" in one:
        case = {
            "detail": one["waits_for"],
            "ordered_at": documents.moment(one["ordered_at"]),
            "attempts": one["attempts"],
            "heard_at": documents.moment(one["heard_at"]),
            "step": one["step"],
            "fraction": one["fraction"],
            "ticket": one["ticket"],
            "ticket_at": documents.moment(one["ticket_at"]),
            "read_at": documents.moment(one["read_at"]),
            "unsold": one["unsold"],
        }
    return {
        "slot": documents.place(one["host"], one["address"]),
        "state": one["state"],
        "entered_at": documents.moment(one["entered_at"]),
        "reason": one["reason"],
        "hold_code": one["hold_code"] or "",
        "remedy": one["remedy"],
        "alarm": one["alarm"],
        "model": drive.model if drive else "",
        "serial": drive.serial if drive else "",
        "identity": drive,
        "generation": one["generation"],
        "profile": one["profile"],
        "policy": one["policy"],
        "consumer": one["server"],
        "custody_stage": one["custody"],
        "order_id": one["order"],
        **case,
        "certificate": one["certificate"],
        "ticket_ready": one["ticket_valid"],
        "maintenance": one["maintenance"],
        "provider": one["provider"],
        "resource_class": one["resource_class"],
        "created_at": documents.moment(one["created_at"]),
    }


def _told(one: Document) -> str:
    """What a decision is about, in one line."""

    def read() -> str:
        drive, reason = one["drive"], one["reason"]
        named = f"{drive['model']} serial {drive['serial']}" if drive else "an unknown drive"
        why = f" ({reason})" if reason else ""
        server = f", server {one['server']}" if one["server"] else ""
        place = documents.place(one["host"], one["address"])
        return f"{place} is {one['state']}{why} since {one['entered_at']}: {named}{server}"

    return documents.understood(read)


def _history(one: Document) -> Document:
    by = one["by"] and {
        "user": one["by"]["user"],
        "project": one["by"]["project"],
        "request": one["by"]["request_id"],
    }
    return {**one, "at": documents.moment(one["at"]), "by": by}


def _line_of_fleet(one: Document) -> Document:
    return {**_history(one), "slot": documents.placed(one["slot"])}


def _host(one: Document) -> Document:
    said: dict[str, Any] = {}
    # A list's host has none of these.
    if "drives" in one:
        said = {
            "version": one["version"],
            "drives": tuple(
                ToldDrive(seen["address"], seen["driver"], _identity(seen["drive"]))
                for seen in one["drives"]
            ),
            "cases": tuple(one["orders"]),
            "defences": one.get("defences"),
            "exemptions": one.get("exemptions"),
        }
    return {
        **said,
        "host": one["name"],
        # An older API says neither these nor the two above: that is not to lack nothing.
        "lacks": one.get("lacks"),
        "maintenance": one.get("maintenance"),
        "incarnation": one["incarnation"],
        "key": one["key"],
        "registered_at": documents.moment(one["registered_at"]),
        "heard_at": documents.moment(one["heard_at"]),
    }


def _certificate(one: Document) -> Document:
    return {
        **one,
        "number": one["position"],
        "slot": documents.placed(one["slot"]),
        "created_at": documents.moment(one["issued_at"]),
    }


def _drive_line(one: Document) -> Document:
    host, address = documents.parts(one["seen_in"])
    return {
        **one,
        "host": host,
        "address": address,
        "changed_at": documents.moment(one["changed_at"]),
        "certified_at": documents.moment(one["certified_at"]),
    }


def _drive(one: Document) -> Document:
    return {
        **one,
        "identity": _identity(one["drive"]),
        "seen_in": documents.placed(one["seen_in"]),
        "slots": tuple(
            DrivesSlot(
                *documents.parts(each["id"]),
                each["state"],
                documents.moment(each["entered_at"]),
                each["server"],
            )
            for each in one["slots"]
        ),
        "changed_at": documents.moment(one["changed_at"]),
        "certified_in": documents.maybe_placed(one["certified_in"]),
        "certified_at": documents.moment(one["certified_at"]),
        "dirty_in": documents.maybe_placed(one["dirty_in"]),
        "dirty_at": documents.moment(one["dirty_at"]),
        "cases": tuple(
            DrivesCase(
                each["position"],
                each["digest"],
                *documents.parts(each["slot"]),
                each["generation"],
                each["drive"],
                each["server"],
                each["owner"],
                documents.moment(each["issued_at"]),
            )
            for each in one["cases"]
        ),
    }


def _capacity(one: Document) -> Document:
    return {**one, "host": one["host"] or "", "next_at": documents.moment(one["next_at"])}


def _alarm(one: Document) -> Document:
    return {
        **one,
        **{name: documents.moment(one[name]) for name in ("first_at", "last_at", "over_at")},
    }


def _refusal(one: Document) -> Document:
    return {
        **one,
        "first_at": documents.moment(one["first_at"]),
        "last_at": documents.moment(one["last_at"]),
    }


def _said_digest(token: str) -> str:
    """The digest of what a token says; empty where it is none."""
    try:
        part = token.split(".")[1]
        # The payload of a compact JWS; its base64url comes without padding (RFC 7515).
        raw = base64.urlsafe_b64decode(part + "=" * (-len(part) % 4))
    except (IndexError, ValueError):
        return ""
    return hashlib.sha256(raw).hexdigest()
