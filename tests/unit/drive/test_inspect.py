"""What a tenant leaves beside data: parsed from the standards' layouts and from anybody's bytes,
asked of the lab's drives, and held against a profile."""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from eraser.cli import inspect
from eraser.cli.output import printable
from eraser.controller import nvme
from eraser.drive import (
    atasecurity,
    firmware,
    health,
    hostmetadata,
    manage,
    profile,
    statelogs,
    tcg,
)
from eraser.drive.features import differing
from eraser.drive.featuresurvey import survey
from eraser.drive.inspect import facts
from eraser.drive.reservations import REFUSED, reservation
from eraser.drive.residues import residues
from eraser.errors import BadInputError, DriveError
from eraser.protocol import codec
from eraser.protocol.condition import (
    Condition,
    ExpectedCondition,
    FlexibleResources,
    Reservation,
    SecurityState,
)
from eraser.protocol.policy import Label, Method
from eraser.protocol.profile import FeatureRule, Profile
from eraser.protocol.report import ControllerFacts
from tests.lab.nvme.leftovers import TENANT_HOST, Leftovers
from tests.lab.nvme.profile import NamespaceProfile, SecurityProfile
from tests.lab.nvme.state import FirmwareState, Registrant
from tests.lab.nvme.state import SecurityState as LabSecurity
from tests.unit.controller.labdrive import FULL, LabController, lab_controller

SAMPLES = Path(__file__).parents[1] / "controller/samples"
EVERYTHING = replace(
    FULL, security=SecurityProfile(ata_password=True), boot_partition_units=2, lockdown=True
)


# Parsers


def test_qemus_firmware_log() -> None:
    found = firmware.parse((SAMPLES / "firmware.bin").read_bytes(), 0x03)
    assert (found.active, found.pending, found.first_read_only) == (1, 0, True)
    assert len(found.revisions) == 1
    assert found.revisions[0]


def test_firmware_slots() -> None:
    raw = bytearray(512)
    raw[0] = 2 | 3 << 4
    raw[8:16], raw[16:24], raw[56:64] = b"FACTORY ", b"NEWER\0\0\0", b"HIDDEN  "
    found = firmware.parse(bytes(raw), 3 << 1)
    assert (found.active, found.pending) == (2, 3)
    assert found.revisions == ("FACTORY", "NEWER", "", "", "", "", "HIDDEN")
    raw[16:24] = b"\xff" * 8
    assert firmware.parse(bytes(raw), 3 << 1).revisions[1] == ""
    raw[0] = 2 | 2 << 4
    assert firmware.parse(bytes(raw), 3 << 1).pending == 0, "the active one again changes nothing"
    assert firmware.slot_count(0xFF) == 7
    assert firmware.slot_count(0) == 1


def level0(*descriptors: tuple[int, bytes]) -> bytes:
    """TCG Storage Core 3.3.6: length, revision, reserved, vendor; then the descriptors."""
    body = b"".join(struct.pack(">HBB", code, 0x10, len(d)) + d for code, d in descriptors)
    return struct.pack(">II40x", 44 + len(body), 1) + body


@pytest.mark.parametrize(
    ("bits", "member"),
    [(0x02, "locking_enabled"), (0x04, "locked"), (0x10, "shadow_mbr")],
)
def test_level_0_locking(bits: int, member: str) -> None:
    raw = level0(
        (0x0001, bytes(12)), (0x0002, bytes([0x01 | bits]) + bytes(11)), (0x0203, bytes(16))
    )
    assert tcg.parse(raw.ljust(2048, b"\0")) == replace(
        SecurityState(sets=("opal-2",), owner_untold=True), **{member: True}
    )


def test_level_0_says_whose_password_it_is() -> None:
    found = tcg.parse(level0((0x0402, b"\x03\x01" + bytes(10)), (0x0302, bytes(16))))
    assert (found.sid_changed, found.sid_blocked, found.sets) == (True, True, ("pyrite-1",))


def test_level_0_beyond_its_own_length_is_not_read() -> None:
    raw = bytearray(level0((0x0001, bytes(12)), (0x0002, b"\x07" + bytes(11))))
    raw[0:4] = (44 + 16).to_bytes(4, "big")
    assert tcg.parse(bytes(raw)) == SecurityState()
    assert tcg.parse(level0()[:48]) == SecurityState()


@pytest.mark.parametrize(
    ("protocols", "length", "there"),
    [
        (b"\x00\x01\xef", 3, True),
        (b"\x00\x01\xef", 2, False),
        (b"\x00\xef", 0xFFFF, True),
        (b"\x00\x01\x02", 3, False),
        (b"", 0, False),
    ],
)
def test_protocols_beyond_the_lists_own_length_are_not_read(
    protocols: bytes, length: int, there: bool
) -> None:
    raw = (struct.pack(">6xH", length) + protocols).ljust(512, b"\0")
    assert atasecurity.listed(raw) is there


@pytest.mark.parametrize(
    ("states", "wanted"),
    [
        (0x01, (False, False)),
        (0x03, (True, False)),
        (0x07, (True, True)),
        (0x39, (False, False)),
        (0xFE, (False, False)),
    ],
)
def test_the_password_of_ata(states: int, wanted: tuple[bool, bool]) -> None:
    """SAT-3: byte 1 is the length, byte 9 has SUPPORTED, ENABLED, LOCKED, FROZEN and so on."""
    raw = struct.pack(">xBHHHBB6x", 14, 2, 2, 0xFFFE, 1, states)
    found = atasecurity.parse(raw)
    assert (found.enabled, found.locked) == wanted
    assert atasecurity.parse(b"\0\xff" + raw[2:]) == atasecurity.Password(), "another form"


def test_reservations_in_both_structures() -> None:
    raw = struct.pack("<IBHxxB", 7, 5, 2, 1).ljust(4096, b"\0")
    assert statelogs.reservation(raw, 3) == Reservation(3, 5, 2, True)
    assert statelogs.reservation(bytes(4096), 3) is None
    idle = struct.pack("<IBHxxB", 7, 0, 0, 1).ljust(4096, b"\0")
    assert statelogs.reservation(idle, 3) is None, "a habit of the drive, held by nobody"
    with pytest.raises(DriveError, match="type of 0 to 6"):
        statelogs.reservation(struct.pack("<IBHxxB", 7, 7, 2, 1).ljust(24, b"\0"), 3)


def test_boot_partitions_lockdown_and_controllers() -> None:
    header = struct.pack("<B3xI8x", 0x15, 1 << 31 | 4)
    found = statelogs.boot_partitions(header)
    assert found is not None
    assert (found.size, found.active) == (512 << 10, 1)
    assert statelogs.boot_partitions(bytes(16)) is None
    raw = bytes([0x10, 0, 0, 2, 0x84, 0x80, 0x0D]).ljust(512, b"\0")
    assert statelogs.prohibited(raw) == (0x80, 0x84)
    assert statelogs.controller_list(struct.pack("<HHH", 2, 1, 5).ljust(4096, b"\0")) == (1, 5)
    for wrong in (struct.pack("<HHH", 2, 5, 1), struct.pack("<H", 2048)):
        with pytest.raises(DriveError, match="controller list"):
            statelogs.controller_list(wrong.ljust(4096, b"\0"))


def test_what_the_physical_function_has() -> None:
    raw = bytearray(4096)
    struct.pack_into("<IIH", raw, 32, 64, 16, 48)
    struct.pack_into("<IIH", raw, 64, 32, 8, 24)
    assert statelogs.flexible(bytes(raw)) is None, "it shares neither"
    raw[4] = 1
    assert statelogs.flexible(bytes(raw)) == FlexibleResources(48, 24)


@pytest.mark.parametrize(
    "parse",
    [
        lambda raw: firmware.parse(raw, raw[0] if raw else 0),
        tcg.parse,
        atasecurity.listed,
        atasecurity.parse,
        lambda raw: statelogs.reservation(raw, 1),
        statelogs.boot_partitions,
        statelogs.prohibited,
        statelogs.controller_list,
        statelogs.flexible,
        hostmetadata.types,
    ],
)
@given(data=st.data())
def test_any_bytes_are_facts_or_a_drive_error(
    parse: Callable[[bytes], object], data: st.DataObject
) -> None:
    size = data.draw(st.sampled_from([0, 3, 16, 23, 24, 47, 48, 60, 512, 2048, 4096]))
    part = data.draw(st.binary(max_size=96))
    raw = (part * (size + 1))[:size].ljust(size, b"\0")
    try:
        found = parse(raw)
    except DriveError:
        return
    assert codec.canonical(found), "it can be signed"
    assert len(codec.canonical(found)) < 20_000


# Questions


def test_a_drive_that_has_it_all(tmp_path: Path) -> None:
    left = Leftovers(
        write_protect={1: 2},
        reservation=3,
        firmware=FirmwareState(["GDC5602Q", "EVIL0001", ""], 1, 2),
        security=LabSecurity(owned=True, enabled=True, locked=True),
        lockdown=[0x84],
        locked_features=[0x06],
    )
    found = facts(lab_controller(tmp_path, EVERYTHING, left)).condition
    assert found is not None
    assert found.firmware is not None
    assert (found.firmware.pending, found.firmware.revisions[1]) == (2, "EVIL0001")
    assert found.security is not None
    assert found.security.locked
    assert found.security.sets == ("opal-2",)
    assert [(r.nsid, r.kind, r.registrants, r.persistent) for r in found.reservations] == [
        (1, 3, 1, True)
    ]
    assert [(p.nsid, p.state) for p in found.protected] == [(1, 2)]
    assert found.boot is not None
    assert found.boot.size == 256 << 10
    assert len(set(found.boot.digests)) == 2
    assert found.lockdown is not None
    assert (found.lockdown.opcodes, found.lockdown.features) == ((0x84,), (0x06,))


def test_a_drive_that_has_nothing_of_it(tmp_path: Path) -> None:
    """No question that the drive does not offer is an error, or a difference."""
    plain = replace(FULL, namespace_management=False, reservations=False, write_protect=False)
    controller = lab_controller(tmp_path, plain)
    found = facts(controller)
    assert found.detached == ()
    assert found.condition is not None
    assert replace(found.condition, firmware=None, logs=()) == Condition()
    approved = profile.propose(controller.identity(), found, survey(controller))
    assert profile.compare(approved, controller.identity(), found, survey(controller)) == ()


def test_detached_namespaces_are_seen(tmp_path: Path) -> None:
    left = Leftovers(
        namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(7, 0.25, attached=False)]
    )
    found = facts(lab_controller(tmp_path, FULL, left))
    assert [n.nsid for n in found.namespaces] == [1]
    assert [(n.nsid, n.size) for n in found.detached] == [(7, 2 << 20)]
    assert found.unallocated_bytes == 2 << 20


def test_a_drive_that_does_not_answer_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = lab_controller(tmp_path, EVERYTHING)
    real = LabController.admin

    def mute(self: LabController, opcode: int, **words: object) -> object:
        record, data = real(self, opcode, **words)  # type: ignore[arg-type]
        return (replace(record, status=None), b"") if opcode == 0x82 else (record, data)

    monkeypatch.setattr(LabController, "admin", mute)
    with pytest.raises(DriveError, match="no completion"):
        facts(controller)


@pytest.mark.parametrize("opcode", [0x82, 0x0E])
def test_nonsense_is_a_difference_and_keeps_no_drive_from_its_erase(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opcode: int
) -> None:
    controller = lab_controller(tmp_path, EVERYTHING)
    wanted = approved(controller)
    real = LabController.admin

    def babble(self: LabController, code: int, **words: object) -> object:
        record, data = real(self, code, **words)  # type: ignore[arg-type]
        if code != opcode:
            return record, data
        short = replace(record, status=0, exit_code=0)
        return short, b"\xff" * len(data)

    monkeypatch.setattr(LabController, "admin", babble)
    found = facts(controller).condition
    assert found is not None
    if opcode == 0x0E:
        assert found.unreadable == ("reservations",)
        assert "sensible answer about reservations" in held_against(controller, wanted)
        assert held_against(controller, approved(controller)) == "", "a habit of the model"
    else:
        assert found.security == SecurityState(), "lengths beyond the answer mean nothing"


@pytest.mark.parametrize("opcode", [0x02, 0x0A, 0x0E, 0x82], ids=hex)
@pytest.mark.parametrize("status", [0x370, 0x371], ids=hex)
def test_the_kernels_own_word_is_no_refusal_of_the_drive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, opcode: int, status: int
) -> None:
    """While it resets the controller: behind "no such lock" one could stand all the same."""
    controller = lab_controller(tmp_path, EVERYTHING)
    real = LabController.admin

    def resetting(self: LabController, code: int, **words: object) -> object:
        record, data = real(self, code, **words)  # type: ignore[arg-type]
        return (replace(record, status=status), b"") if code == opcode else (record, data)

    monkeypatch.setattr(LabController, "admin", resetting)
    with pytest.raises(DriveError):
        facts(controller)


@pytest.mark.parametrize(
    ("what", "said"),
    [("reservations", True), ("write protection", True), ("TCG security", True),
     ("firmware slots", False), ("boot partitions", False)],
)  # fmt: skip
def test_nonsense_about_locks_holds_under_an_older_profile_too(
    tmp_path: Path, what: str, said: bool
) -> None:
    """It names nothing of the kind; and yet no drive goes out with a lock, seen or not."""
    controller = lab_controller(tmp_path)
    wanted, found = approved(controller), facts(controller)
    assert found.condition is not None
    found = replace(found, condition=replace(found.condition, unreadable=(what,)))
    identity, rules = controller.identity(), survey(controller)
    lines = profile.compare(replace(wanted, condition=None), identity, found, rules)
    assert [f"answer about {what}" in line for line in lines] == [True] * said
    known = replace(
        wanted, condition=replace(wanted.condition or ExpectedCondition(), unreadable=(what,))
    )
    assert profile.compare(known, identity, found, rules) == (), "a habit of the model"


def test_namespaces_that_are_not_listed_hold_whatever_the_profile_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = lab_controller(tmp_path)
    wanted = replace(approved(controller), condition=None)
    assert held_against(controller, wanted) == ""
    monkeypatch.setattr(nvme, "CNS_ALLOCATED", 0x7F)
    assert held_against(controller, wanted).startswith("profile: expected a list of all namespaces")


def test_a_detached_namespace_that_is_not_described_is_there_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = Leftovers(
        namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(4, 0.1, attached=False)]
    )
    controller = lab_controller(tmp_path, FULL, left)
    real = LabController.identify_namespace

    def refuse(self: LabController, nsid: int, *, attached: bool = True) -> object:
        if attached:
            return real(self, nsid)
        raise DriveError("Identify Namespace: expected a size, found 0")

    monkeypatch.setattr(LabController, "identify_namespace", refuse)
    assert [(n.nsid, n.size) for n in facts(controller).detached] == [(4, 0)]


def test_a_list_without_an_end_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Firmware could keep us reading four million pages."""
    controller = lab_controller(tmp_path)
    pages = 0

    def page(_opcode: int, _length: int, _what: str, *, nsid: int, cdw10: int) -> bytes:
        nonlocal pages
        pages += 1
        assert (pages < 10, cdw10) == (True, 2)
        return struct.pack("<1024I", *range(nsid + 1, nsid + 1025))

    monkeypatch.setattr(controller, "read", page)
    with pytest.raises(DriveError, match="at most 1024"):
        controller.active_namespaces()


@pytest.mark.parametrize("persist", [True, False])
def test_a_reservation_is_cleared_whoever_holds_it(tmp_path: Path, *, persist: bool) -> None:
    controller = lab_controller(tmp_path, FULL, Leftovers(reservation=1, persist=persist))
    path = controller.block_devices()[1]
    held = reservation(controller, 1, path)
    assert held is not None
    assert controller.admin(0x84, cdw10=2, timeout=5)[0].status == 0x83, "it is in the way"
    assert [r.status for r in manage.clear_reservation(controller, held, path)] == [0, 0]
    assert reservation(controller, 1, path) is None
    assert controller.bench.drive.state.namespaces[0].reservation.persist is False
    register = next(r for r in controller.records if r.opcode == 0x0D)
    assert register.cdw10 >> 30 == 2 * persist, "a drive without persistence would refuse it"


@pytest.mark.parametrize("kind", [1, 0], ids=["reserved", "registered"])
def test_a_registration_by_our_own_identifier_is_cleared_whatever_its_key(
    tmp_path: Path, kind: int
) -> None:
    """Base 2.1, 8.1.22.3: a registrant that registers with another key meets a conflict."""
    controller = lab_controller(tmp_path)
    nameless = "00" * 16
    left = controller.bench.drive.state.namespaces[0].reservation
    left.registrants, left.kind = [Registrant(nameless, 7)], kind
    left.holder = nameless if kind else ""
    path = controller.block_devices()[1]
    held = reservation(controller, 1, path)
    assert held is not None
    assert [r.status for r in manage.clear_reservation(controller, held, path)] == [0x83, 0, 0]
    assert reservation(controller, 1, path) is None


WANTS_NAME = replace(FULL, wants_host_identifier=True)


@pytest.mark.parametrize("kind", [1, 0], ids=["reserved", "registered"])
def test_a_drive_that_tells_no_nameless_host_of_reservations_is_told_a_name(
    tmp_path: Path, *, kind: int
) -> None:
    """Base 2.1, 8.1.22: with RHII each reservation command of host 0 is refused (27h)."""
    controller = lab_controller(tmp_path, WANTS_NAME)
    wanted = approved(controller)
    left = controller.bench.drive.state.namespaces[0].reservation
    left.registrants, left.kind = [Registrant(TENANT_HOST, 7)], kind
    left.holder = TENANT_HOST if kind else ""
    assert "expected no host registered with namespace 1" in held_against(controller, wanted)
    found = facts(controller).condition
    assert found is not None
    (held,) = found.reservations
    path = controller.block_devices()[1]
    assert [r.status for r in manage.clear_reservation(controller, held, path)] == [0, 0]
    assert held_against(controller, wanted) == "", "our own name is no difference"
    controller.bench.controller.reset()
    assert held_against(controller, wanted) == ""


def test_a_drive_that_takes_no_name_of_ours_holds_whatever_its_profile_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenant can prohibit the feature (Lockdown), with a registration behind it."""
    controller = lab_controller(tmp_path, WANTS_NAME)
    wanted = approved(controller)
    controller.bench.controller.reset()
    real = LabController.admin

    def prohibited(self: LabController, opcode: int, **words: Any) -> object:
        if opcode == 0x09 and words["cdw10"] & 0xFF == 0x81:
            opcode = 0xFF  # any that the drive refuses
        return real(self, opcode, **words)

    monkeypatch.setattr(LabController, "admin", prohibited)
    for each in (wanted, replace(wanted, condition=None)):
        assert "sensible answer about reservations" in held_against(controller, each)


@pytest.mark.parametrize("status", [0x001, 0x002, 0x00C], ids=hex)
def test_a_report_that_is_refused_is_no_report_of_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, status: int
) -> None:
    """It is a habit, which older profiles do not name: disclosed, and nobody is held for it."""
    controller = lab_controller(tmp_path)
    wanted, real = approved(controller), LabController.admin

    def refuse(self: LabController, opcode: int, **words: Any) -> object:
        record, data = real(self, opcode, **words)
        if opcode != 0x0E:
            return record, data
        return replace(record, status=status, exit_code=1), b""

    monkeypatch.setattr(LabController, "admin", refuse)
    found = facts(controller).condition
    assert found is not None
    assert found.unreadable == (REFUSED,)
    for each in (wanted, replace(wanted, condition=None), approved(controller)):
        assert held_against(controller, each) == ""


# Profiles


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (LabSecurity(password=True), "which locks it at the next power cycle; take it off"),
        (LabSecurity(password=True, password_locked=True), "and locked by it; take it off"),
        (LabSecurity(), ""),
    ],
    ids=["set", "locked", "none"],
)
def test_a_password_of_ata_holds_whatever_the_profile_says(
    tmp_path: Path, left: LabSecurity, said: str
) -> None:
    """Sanitize leaves it as it is (Base 2.3, 8.1.26), and it locks the next tenant out."""
    controller = lab_controller(tmp_path, EVERYTHING)
    wanted = approved(controller)
    assert b"password_" not in codec.canonical(wanted)
    controller.bench.drive.state.security = left
    for each in (wanted, replace(wanted, condition=None)):
        assert said in held_against(controller, each)
        assert bool(held_against(controller, each)) is bool(said)
    assert (b"password_set" in codec.canonical(facts(controller))) is left.password
    controller.bench.drive.power_cycle()
    assert controller.bench.drive.state.security.denies is left.password


@pytest.mark.parametrize("protocol", [0x00, 0xEF], ids=hex)
def test_a_drive_that_does_not_tell_of_a_password_is_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, protocol: int
) -> None:
    controller = lab_controller(tmp_path, EVERYTHING)
    wanted, real = approved(controller), LabController.admin

    def refuse(self: LabController, opcode: int, **words: Any) -> object:
        record, data = real(self, opcode, **words)
        if opcode != 0x82 or words["cdw10"] >> 24 != protocol:
            return record, data
        return replace(record, status=0x002, exit_code=1), b""

    monkeypatch.setattr(LabController, "admin", refuse)
    found = facts(controller).condition
    assert found is not None
    assert found.unreadable == ()
    assert held_against(controller, wanted) == ""


def approved(controller: LabController) -> Profile:
    return profile.propose(controller.identity(), facts(controller), survey(controller))


def held_against(controller: LabController, wanted: Profile) -> str:
    return "; ".join(
        profile.compare(wanted, controller.identity(), facts(controller), survey(controller))
    )


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (Leftovers(firmware=FirmwareState(["EVIL0001", "GDC5602Q", ""], 1)), "found 'EVIL0001'"),
        (Leftovers(firmware=FirmwareState(["EVIL0001"] * 3, 1)), "expected firmware 'GDC5602Q'"),
        (Leftovers(firmware=FirmwareState(["GDC5602Q"] * 3, 1, 2)), "slot 2 ('GDC5602Q') to be"),
        (Leftovers(security=LabSecurity(owned=True)), "changed owner's password no, found yes"),
        (Leftovers(security=LabSecurity(enabled=True)), "locking enabled no, found yes"),
        (Leftovers(security=LabSecurity(shadowed=True)), "shadow MBR no, found yes"),
        (Leftovers(security=LabSecurity(locked=True)), "PSID"),
        (
            Leftovers(boot=["the tenant's", "vendor image 1"]),
            "boot partitions of 262144 bytes with",
        ),
        (Leftovers(lockdown=[0x80]), "locked opcodes none, found 0x80"),
        (Leftovers(locked_features=[0x06, 0x84]), "locked features none, found 0x06, 0x84"),
        (Leftovers(reservation=1), "a reservation of type 1 and 1 registrants, kept over"),
        (Leftovers(write_protect={1: 1}), "write protected (state 1)"),
        (Leftovers(features={0x06: 0}), "(volatile write cache) 0x1, found 0x0"),
        (Leftovers(namespaces=[NamespaceProfile(share=0.5)]), "blocks 16384, found 8192"),
    ],
)
def test_a_profile_sees_what_was_left(tmp_path: Path, left: Leftovers, said: str) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    wanted = approved(lab_controller(tmp_path / "a", EVERYTHING))
    tampered = lab_controller(tmp_path / "b", EVERYTHING, left)
    assert said in held_against(tampered, wanted)
    assert codec.load(Profile, codec.canonical(wanted), "profile") == wanted


def test_a_profile_sees_another_security_feature_set(tmp_path: Path) -> None:
    """Drives of one model are made with Opal, and with Pyrite, which encrypts nothing."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    wanted = approved(lab_controller(tmp_path / "a", EVERYTHING))
    pyrite = replace(EVERYTHING, security=SecurityProfile(ssc=0x0303, ata_password=True))
    said = held_against(lab_controller(tmp_path / "b", pyrite), wanted)
    assert "security feature sets opal-2, found pyrite-2" in said


@pytest.mark.parametrize(
    "left",
    [
        Leftovers(write_protect={1: 1}),
        Leftovers(reservation=1),
        Leftovers(security=LabSecurity(locked=True)),
        Leftovers(security=LabSecurity(password=True)),
        Leftovers(firmware=FirmwareState(["GDC5602Q"] * 3, 1, 2)),
    ],
)
def test_no_profile_is_made_after_such_a_drive(tmp_path: Path, left: Leftovers) -> None:
    with pytest.raises(BadInputError, match="nobody has used so"):
        approved(lab_controller(tmp_path, EVERYTHING, left))


def test_a_drive_without_a_volatile_write_cache_is_as_its_profile(tmp_path: Path) -> None:
    """Such drives refuse its feature; a tenant can have left nothing there."""
    controller = lab_controller(tmp_path, replace(EVERYTHING, volatile_write_cache=False))
    wanted = approved(controller)
    assert 0x06 not in {rule.fid for rule in wanted.features}
    assert held_against(controller, wanted) == ""


def test_no_profile_is_made_that_would_have_a_namespace_deleted(tmp_path: Path) -> None:
    left = Leftovers(
        namespaces=[NamespaceProfile(1, 0.5), NamespaceProfile(4, 0.1, attached=False)]
    )
    with pytest.raises(BadInputError, match="found 4; what a profile does not name is deleted"):
        approved(lab_controller(tmp_path, FULL, left))


def test_a_profile_without_digests_does_not_compare_what_boots(tmp_path: Path) -> None:
    controller = lab_controller(tmp_path, EVERYTHING)
    wanted = approved(controller)
    assert wanted.condition is not None
    assert wanted.condition.boot is not None
    loose = replace(wanted.condition, boot=replace(wanted.condition.boot, digests=()))
    assert held_against(controller, replace(wanted, condition=loose)) == ""
    larger = replace(wanted.condition, boot=replace(wanted.condition.boot, size=1))
    assert "boot partitions of 1 bytes" in held_against(
        controller, replace(wanted, condition=larger)
    )


@pytest.mark.parametrize("others", [["OLDER001", ""], ["", "OLDER001"], ["EVIL0001"] * 2])
def test_what_lies_in_other_slots_is_disclosed_and_no_difference(
    tmp_path: Path, others: list[str]
) -> None:
    """Fleets have histories. Who loaded what since when is the control plane's question."""
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    wanted = approved(lab_controller(tmp_path / "a", EVERYTHING))
    left = Leftovers(firmware=FirmwareState(["GDC5602Q", *others], 1))
    controller = lab_controller(tmp_path / "b", EVERYTHING, left)
    assert held_against(controller, wanted) == ""
    found = facts(controller)
    said = " ".join(residues(None, found, Label.PURGE, wanted.firmware))
    assert "a command of the next user may start one" in said
    trusted = (*wanted.firmware, *others)
    assert "does not name" not in " ".join(residues(None, found, Label.PURGE, trusted))


def test_an_image_in_the_place_of_the_one_that_runs_is_a_difference(tmp_path: Path) -> None:
    """The drive runs the old one until its next reset, and says that nothing is waiting."""
    controller = lab_controller(tmp_path, EVERYTHING)
    wanted, found = approved(controller), facts(controller)
    assert found.condition is not None
    assert found.condition.firmware is not None
    slots = replace(found.condition.firmware, revisions=("EVIL0001", "GDC5602Q"))
    found = replace(found, condition=replace(found.condition, firmware=slots))
    [line] = profile.compare(wanted, controller.identity(), found, survey(controller))
    assert "active firmware slot 1 one of 'GDC5602Q', found 'EVIL0001'" in line


def test_firmware_that_waits_is_named_where_it_kept_sanitize_from_the_drive(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    wanted = approved(lab_controller(tmp_path / "a", EVERYTHING))
    left = Leftovers(firmware=FirmwareState(["GDC5602Q", "EVIL0001", ""], 1, 2))
    controller = lab_controller(tmp_path / "b", EVERYTHING, left)
    assert controller.admin(0x84, cdw10=2, timeout=5)[0].status == 0x110
    [line] = profile.obstacles(facts(controller))
    assert "slot 2 ('EVIL0001') to be activated by the next one; power-cycle the slot" in line
    assert held_against(controller, wanted).count(line) == 1
    # An erased drive is not held by it under a profile that is older than this fact.
    assert held_against(controller, replace(wanted, condition=None)) == ""


def test_older_images_in_slots_are_the_models_and_no_difference(tmp_path: Path) -> None:
    left = Leftovers(firmware=FirmwareState(["OLDER001", "GDC5602Q", ""], 2))
    controller = lab_controller(tmp_path, EVERYTHING, left)
    wanted = approved(controller)
    assert wanted.condition is not None
    assert wanted.condition.slot_firmware == ("OLDER001",)
    assert held_against(controller, wanted) == ""


def test_text_in_the_drives_metadata_is_seen(tmp_path: Path) -> None:
    controller = lab_controller(tmp_path, EVERYTHING)
    wanted = approved(controller)
    text = b"\x01\x00\x01\x00\x12\x00meet me at block 7".ljust(4096, b"\0")
    assert controller.bench.admin(0x09, text, cdw10=0x7E).status == 0
    found = held_against(controller, wanted)
    assert "feature 0x7e (controller metadata) data" in found
    assert found.endswith("(types 0x01)")
    loud = approved(controller)
    assert codec.load(Profile, codec.canonical(loud), "profile") == loud
    assert held_against(controller, loud) == ""


def test_a_rules_data_is_what_its_digest_is_of() -> None:
    rule = FeatureRule(0x7E, "x", 0, digest=sha256(bytes(4096)).hexdigest())
    assert rule.complete
    assert not replace(rule, digest="5" * 64).complete
    for data in ("01", "no"):
        with pytest.raises(ValueError, match=r"expected the digest|hexadecimal"):
            replace(rule, data=data)


def test_a_rule_of_an_older_profile_is_held_against_the_first_namespace() -> None:
    old = FeatureRule(0x05, "error recovery", 1)
    found = (FeatureRule(0x05, "x", 1, nsid=3), FeatureRule(0x05, "x", 9, nsid=4))
    assert differing((old,), found) == ()
    assert differing((replace(old, nsid=4),), found) == ((replace(old, nsid=4), found[1]),)
    assert differing((replace(old, nsid=8),), found) == ((replace(old, nsid=8), None),)


# For people


def test_an_inspection_reads_like_a_page_and_obeys_nothing(tmp_path: Path) -> None:
    left = Leftovers(reservation=1, firmware=FirmwareState(["GDC5602Q", "E\x1b[2Jx", ""], 1, 2))
    controller = lab_controller(tmp_path, EVERYTHING, left)
    found = facts(controller)
    inspection = inspect.Inspection(
        "0000:01:00.0",
        controller.identity(),
        found,
        survey(controller),
        health.read(controller.smart_log()),
        tuple(Method),
        "never",
        None,
        residues(None, found, Label.PURGE),
        tuple(profile.obstacles(found)),
    )
    shown = tuple(inspect.lines(inspection))
    page = {name: printable(text) for name, text in shown}
    assert page["firmware slot 2"] == "E?[2Jx, activated by the next reset"
    assert page["namespace 1"].startswith("8388608 bytes, blocks of 512")
    assert page["feature 0x06"] == "0x1 (volatile write cache, equal)"
    ways = [text for name, text in shown if name == "IN THE WAY"]
    assert ways[0].startswith("expected no host registered with namespace 1")
    assert ways[1].startswith("expected no firmware waiting for a reset"), "it refuses Sanitize"
    assert all("\n" not in text for text in page.values())


# Residues


def condition(**members: object) -> ControllerFacts:
    return ControllerFacts(
        "FW1",
        0x10400,
        2,
        0,
        4,
        3,
        0,
        0,
        (),
        (),
        (),
        Condition(**members),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize(
    ("achieved", "words"),
    [(Label.CLEAR, "Format does not reach it"), (Label.PURGE, "Sanitize covers it")],
)
def test_a_drive_that_does_not_tell_of_its_capacity_is_printed(achieved: Label, words: str) -> None:
    silent = replace(condition(), oacs=1 << 3, total_bytes=0, unallocated_bytes=0)
    (said,) = residues(silent, silent, achieved)
    assert said.startswith("Capacity: ")
    assert words in said
    for told in (
        replace(silent, oacs=0),
        replace(silent, total_bytes=1 << 30),
        replace(silent, unallocated_bytes=1),
    ):
        assert not any("TNVMCAP" in line for line in residues(told, told, achieved))
    assert residues(silent, silent, None) == ()


def test_residues_name_what_nothing_clears(tmp_path: Path) -> None:
    left = Leftovers(firmware=FirmwareState(["OLDER001", "GDC5602Q", ""], 2))
    found = facts(lab_controller(tmp_path, EVERYTHING, left))
    said = " ".join(residues(None, found, Label.PURGE))
    for words in ("262144 bytes are kept", "slots 1 (OLDER001)", "opal-2", "error log"):
        assert words in said
    assert "3 units" in " ".join(residues(None, condition(rpmb_units=3), None))
    assert residues(None, None, None) == ()
    assert residues(None, condition(), Label.PURGE) == ()


def test_capacity_that_nobody_has_read_is_a_residue() -> None:
    before = replace(condition(), unallocated_bytes=4096, total_bytes=1 << 20)
    (said,) = residues(before, condition(), Label.CLEAR)
    assert "4096 bytes belonged to no namespace when" in said
    (said,) = residues(before, condition(), Label.PURGE)
    assert said.endswith("Sanitize covers them, and nobody has read them.")
    for label in Label:
        assert residues(before, condition(), label, left=0) == ()
        assert "512 bytes" in residues(before, condition(), label, left=512)[0]


def test_capacity_beyond_all_that_there_is_is_no_residue() -> None:
    """It is no figure: the certificate says elsewhere that nothing is known of it."""
    before = replace(condition(), unallocated_bytes=1 << 30, total_bytes=1 << 20)
    assert residues(before, condition(), Label.CLEAR) == ()


def test_expectations_have_no_place_for_locks() -> None:
    """Whatever a person writes into a profile, no locked or reserved drive is handed out."""
    assert not {"reservations", "protected"} & set(ExpectedCondition.__dataclass_fields__)


@pytest.mark.parametrize(
    ("descriptors", "untold"),
    [
        (((0x0203, bytes(16)),), True),
        (((0x0203, bytes(16)), (0x0402, bytes(12))), False),
        (((0x0305, bytes(16)), (0x0001, bytes(12))), True),
        (((0x0001, bytes(12)),), False),
    ],
)
def test_an_owner_that_nobody_can_see_is_disclosed(
    tmp_path: Path, descriptors: tuple[tuple[int, bytes], ...], *, untold: bool
) -> None:
    found = tcg.parse(level0(*descriptors))
    assert found.owner_untold is untold
    assert ("key-per-io" in found.sets) is (descriptors[0][0] == 0x0305)
    controller = lab_controller(tmp_path, EVERYTHING)
    seen = facts(controller)
    assert seen.condition is not None
    seen = replace(seen, condition=replace(seen.condition, security=found))
    lines = [line for line in residues(None, seen, Label.PURGE) if line.startswith("TCG owner")]
    assert len(lines) == untold
    wanted = profile.propose(controller.identity(), seen, ())
    assert b"owner_untold" not in codec.canonical(wanted)


@pytest.mark.parametrize("fid", [0x02, 0x81, 0x17], ids=["power", "host identifier", "sanitize"])
def test_an_answer_that_is_cut_short_is_no_feature_that_the_drive_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fid: int
) -> None:
    """Left out of its model's profile, it would be compared on no drive."""
    controller, real = lab_controller(tmp_path, EVERYTHING), LabController.admin
    assert fid in {rule.fid for rule in survey(controller)}

    def admin(self: LabController, opcode: int, **words: Any) -> Any:
        record, data = real(self, opcode, **words)
        asked = opcode == 0x0A and words["cdw10"] & 0xFF == fid
        return (replace(record, message=""), data[:-1]) if asked else (record, data)

    monkeypatch.setattr(LabController, "admin", admin)
    with pytest.raises(DriveError, match="expected a value"):
        survey(controller)
