"""A record that a former release wrote is migrated, read and gone on with."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.protocol.identity import Slot
from eraser.protocol.policy import VerificationMode
from eraser.protocol.transport.signing import PrivateKey
from quarantine.evidence import certificate
from quarantine.record.store import Store
from quarantine.record.words.facts import SlotRecord
from quarantine.record.words.states import Event, State
from quarantine.rules import holds
from quarantine.rules.reports.check import Ruling
from tests.lab import releases
from tests.unit.quarantine.cli.test_cli import Cli, conf, run
from tests.unit.quarantine.service.inbound.plane import Plane, over

__all__ = ["conf", "run"]

STATES = {
    1: State.AVAILABLE,
    2: State.IN_USE,
    3: State.RELEASED,
    4: State.QUARANTINED,
    5: State.ERASING,
    6: State.VERIFYING,
    7: State.CERTIFIED,
    8: State.HELD,
    9: State.HELD,
    10: State.RETIRED,
    11: State.QUARANTINED,
    12: State.AVAILABLE,
    13: State.IN_USE,
}
"""Of each slot, by the bus that it has: see ``life.txt``."""
CERTIFICATES = 7
FORMATS = {"0ea6932": 1, "before-rooms": 2}


@dataclass
class Upgraded:
    """A former record after ``db upgrade``, with what was under way."""

    plane: Plane
    under_way: dict[str, str]
    run: Cli
    format: int
    """Of its certificates."""

    def slot(self, number: int) -> SlotRecord:
        return self.plane.record(Slot("cmp1", f"0000:{number:02x}:00.0"))


@pytest.fixture(params=releases.NAMES)
def upgraded(request: pytest.FixtureRequest, tmp_path: Path, run: Cli) -> Iterator[Upgraded]:
    releases.record(request.param, tmp_path)
    assert run("db", "upgrade")[0] == 0
    controller, host = (
        PrivateKey.from_pem((tmp_path / f"{name}.pem").read_bytes(), name)
        for name in ("controller", "host")
    )
    store = Store.open(f"sqlite:///{tmp_path}/record.db")
    plane = over(store, controller, host, tmp_path / "certificates")
    under_way = json.loads((tmp_path / "under-way.json").read_text())
    yield Upgraded(plane, under_way, run, FORMATS[request.param])
    store.close()


def test_every_slot_stands_where_it_stood_and_has_its_life(upgraded: Upgraded) -> None:
    store = upgraded.plane.store
    found = {number: upgraded.slot(number).state for number in STATES}
    assert found == STATES
    for number in STATES:
        record = upgraded.slot(number)
        life = store.history(record.slot)
        assert [line.revision for line in life] == sorted({line.revision for line in life})
        begun = Event.ENROLLED_IN_USE if number == 13 else Event.ENROLLED_FREE
        assert life[0].event is begun
        known = record.identity
        assert (known is None) is (number == 13)
        if known is not None and number not in (4, 5, 6, 8, 11):
            drive = store.drive(known.digest)
            assert drive is not None
            assert drive.dirty is (number in (2, 3, 9, 10))
    retired = store.history(upgraded.slot(10).slot)
    assert [line.reason for line in retired[-2:]] == ["it smokes", "pulled by ada"]
    assert upgraded.slot(2).consumer == "aaaaaaaa-aaaa-4aaa-8aaa-aaaaaaaaaaaa"


def test_what_it_held_goes_on_by_a_person(upgraded: Upgraded) -> None:
    """Its reasons are texts alone."""
    for number, words in ((8, "verdict unknown"), (9, "at most 100 %")):
        record = upgraded.slot(number)
        assert holds.shown(record) == holds.OLDER
        assert words in record.reason
        code, _, error = upgraded.run("slot", "release", record.slot, "--reason", "it was settled")
        assert code == 0, error
        plane = upgraded.plane
        released = plane.store.transition(plane.record(record.slot), Event.CUSTODY_TAKEN)
        plane.dispatcher.order(released)
        assert plane.record(record.slot).state is State.ERASING


def test_what_was_under_way_arrives(upgraded: Upgraded) -> None:
    plane = upgraded.plane
    for number in (5, 6):
        decision = plane.inbox.report(upgraded.under_way[f"report of {number}"])
        assert decision.ruling is Ruling.CERTIFY, decision.reasons
        assert upgraded.slot(number).state is State.CERTIFIED
    assert not upgraded.slot(7).ticket_ready
    plane.inbox.receipt(upgraded.under_way["receipt of 7"])
    assert upgraded.slot(7).ticket_ready


def test_its_certificates_are_read_and_carry_the_new_ones(upgraded: Upgraded) -> None:
    plane, keys = upgraded.plane, [upgraded.plane.controller.public]
    old = plane.store.certificates()
    assert len(old) == CERTIFICATES
    for stored in old:
        said = certificate.verify(stored.token, keys, stored.digest).certificate
        assert said.format == upgraded.format
        assert said.drive.identity.serial == f"PHLJ{int(stored.slot.address[5:7], 16):07d}"
    plane.inbox.report(upgraded.under_way["report of 5"])
    code, out, error = upgraded.run("ledger", "verify", "--format", "json")
    assert code == 0, error
    assert json.loads(out)["count"] == CERTIFICATES + 1


def test_its_policies_and_profiles_are_read(upgraded: Upgraded) -> None:
    store = upgraded.plane.store
    policy = store.policy("tenth")
    assert policy is not None
    assert policy.content.verification.mode is VerificationMode.NIST
    assert policy.approved_by == "ada"
    (profile,) = store.profiles()
    assert upgraded.slot(1).profile == profile.content.name


@pytest.mark.parametrize("words", [("slot",), ("drive",), ("certificate",), ("host",), ("policy",)])
def test_the_commands_list_what_it_wrote(upgraded: Upgraded, words: tuple[str, ...]) -> None:
    code, out, error = upgraded.run(*words, "list", "--format", "json")
    assert code == 0, error
    rows = json.loads(out)
    expected = {"slot": 13, "drive": None, "certificate": 7, "host": 2, "policy": 2}[words[0]]
    assert expected is None or len(rows) == expected
    assert rows


def test_a_drive_has_the_history_of_all_its_cases(upgraded: Upgraded) -> None:
    record = upgraded.slot(12)
    assert record.identity is not None
    words = ("drive", "history", record.identity.digest, "--format", "json")
    code, out, error = upgraded.run(*words)
    assert code == 0, error
    newest, first = json.loads(out)
    assert first["number"] < newest["number"]
    assert newest["digest"] == record.certificate
    assert {(one["host"], one["address"]) for one in (first, newest)} == {("cmp1", "0000:0c:00.0")}
