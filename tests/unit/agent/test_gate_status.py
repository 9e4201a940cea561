"""What a hello says of the gate: all of it, quickly, and never at the price of the hello."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from eraser import cli
from eraser.agent import gate_status
from eraser.agent.bounded_probes import BoundedProbes
from eraser.agent.gate_status import MAX_FOUND, MAX_NAME, MAX_REASON, GateStatus
from eraser.agent.hoststate import keygen
from eraser.cli import gate as cli_gate
from eraser.clock import MACHINE
from eraser.defences import removedslots, setup
from eraser.errors import DriveError
from eraser.host import openers, usage
from eraser.host.proc import ALL_PIDS
from eraser.host.sysfs import Host
from eraser.ownership import audit, turned_away
from eraser.ownership import store as books
from eraser.ownership.model import Book, SlotEntry
from eraser.protocol import codec
from eraser.protocol.ticket import (
    MAX_EXEMPTIONS,
    AllowanceUsed,
    Defence,
    DefenceSeen,
    DefenceStanding,
    DomainSeen,
    GateTestimony,
    OwnerRefused,
)
from eraser.state import hostcard
from tests.unit.ownership.parts import ADDRESS, AT, DRIVE, KEPT, MINE, OTHER_ADDRESS, OWNER, THEIRS

THIRD = "0000:03:00.0"

HOSTDEV = """<hostdev mode='subsystem' type='pci' managed='yes'><source>
<address domain='0x0000' bus='0x{bus}' slot='0x00' function='0x0'/></source></hostdev>"""


class Rig:
    """A host with three NVMe functions, a card, and domains as libvirt's files have them."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.state = root / "var/lib/nvme-eraser"
        self.run = root / "run/nvme-quarantine"
        self.card = keygen(self.state, "cmp1")
        for address in (ADDRESS, OTHER_ADDRESS, THIRD):
            self.put(f"sys/bus/pci/devices/{address}/class", "0x010802")
        self.put("sys/bus/pci/devices/0000:09:00.0/class", "0x030000")
        self.put("proc/stat", "btime 1000")
        self.put("proc/sys/kernel/random/boot_id", "boot-1")
        (root / "proc/self/ns").mkdir(parents=True)
        (root / "proc/self/ns/pid").symlink_to(ALL_PIDS)
        self.witness = GateStatus(self.state, self.run, Host(root))

    def put(self, path: str, text: str) -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text + "\n")

    def book(self, *entries: SlotEntry) -> None:
        book = Book(self.card.incarnation, used_allowances=(ALLOWED,))
        for entry in entries:
            book = book.with_entry(entry)
        with books.opened(self.state) as opened:
            opened.write(book)

    def domain(self, uuid: str, *buses: str, running: bool, name: str = "instance-1") -> None:
        devices = "".join(HOSTDEV.format(bus=bus) for bus in buses)
        text = (
            f"<domain><name>{name}</name><uuid>{uuid}</uuid><devices>{devices}</devices></domain>"
        )
        if running:
            text = f"<domstatus>{text}</domstatus>"
        self.put(f"{'run' if running else 'etc'}/libvirt/qemu/{name}.xml", text)

    def domains(self) -> tuple[DomainSeen, ...]:
        return self.witness.gate().domains


ALLOWED = AllowanceUsed(ADDRESS, MINE, "ada", "3 a.m.", AT)


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_tickets_allowances_and_defences_are_told(rig: Rig) -> None:
    rig.book(SlotEntry(ADDRESS, ticket=KEPT), SlotEntry(OTHER_ADDRESS, owner=OWNER))
    told = rig.witness.gate()
    assert [(seen.address, seen.state) for seen in told.tickets] == [(ADDRESS, KEPT.state)]
    assert told.allowances == (ALLOWED,)
    assert [seen.defence for seen in told.defences] == list(Defence)
    # It goes over the wire as it is.
    assert codec.load(GateTestimony, codec.canonical(told), "gate") == told


def test_a_domain_is_recorded_only_with_all_that_it_has(rig: Rig) -> None:
    rig.domain(MINE, "01", "02", running=True)
    rig.book()
    seen = DomainSeen(MINE, "instance-1", (ADDRESS, OTHER_ADDRESS), running=True, recorded=False)
    assert rig.domains() == (seen,)
    rig.book(SlotEntry(ADDRESS, owner=OWNER))
    assert rig.domains() == (seen,)
    rig.book(
        SlotEntry(ADDRESS, owner=OWNER),
        SlotEntry(OTHER_ADDRESS, owner=replace(OWNER, domain=THEIRS)),
    )
    assert rig.domains() == (seen,)
    rig.book(SlotEntry(ADDRESS, owner=OWNER), SlotEntry(OTHER_ADDRESS, owner=OWNER))
    assert rig.domains() == (replace(seen, recorded=True),)


def test_what_the_next_start_gets_is_no_blemish_of_what_runs(rig: Rig) -> None:
    rig.domain(MINE, "01", "02", running=False)
    rig.domain(MINE, "01", running=True)
    rig.book(SlotEntry(ADDRESS, owner=OWNER))
    assert rig.domains() == (
        DomainSeen(MINE, "instance-1", (ADDRESS,), running=True, recorded=True),
        DomainSeen(MINE, "instance-1", (OTHER_ADDRESS,), running=False, recorded=False),
    )


def test_only_what_has_a_managed_drive_is_told(rig: Rig) -> None:
    rig.domain(MINE, running=True, name="none")
    rig.domain(MINE, "09", running=True, name="gpu")
    rig.domain(MINE, "fe", running=False, name="absent")
    rig.domain(THEIRS, "03", running=True, name="exempt")
    audit.exempt(rig.state, THIRD, by="ada", reason="the host's cache", clock=MACHINE)
    rig.book()
    assert rig.domains() == ()
    # A slot that the gate knows counts also while its drive is away.
    rig.book(SlotEntry("0000:fe:00.0", owner=OWNER))
    assert [seen.name for seen in rig.domains()] == ["absent"]


def test_what_is_left_to_any_guest_is_told(rig: Rig) -> None:
    """In short and once, and also while no function is there: the file is a person's."""
    for address in (THIRD, "0000:fe:00.0"):
        audit.exempt(rig.state, address, by="a" * 5000, reason="y" * 5000, clock=MACHINE)
    rig.book()
    told, away = rig.witness.gate().exemptions
    assert (told.address, told.by, told.reason) == (THIRD, "a" * MAX_NAME, "y" * MAX_REASON)
    assert away.address == "0000:fe:00.0"
    audit.include(rig.state, "0000:fe:00.0", by="ada", reason="ours", clock=MACHINE)
    testimony = rig.witness.gate()
    assert codec.load(GateTestimony, codec.canonical(testimony), "gate") == testimony
    audit.include(rig.state, THIRD, by="ada", reason="ours", clock=MACHINE)
    assert rig.witness.gate().exemptions == ()
    assert b"exemptions" not in codec.canonical(rig.witness.gate()), "older ones take it"
    file = audit.exempt_file(rig.state)
    audit.exempt(rig.state, THIRD, by="ada", reason="x", clock=MACHINE)
    (one,) = json.loads(file.read_text())["exemptions"]
    file.write_text(json.dumps({"exemptions": [one] * 2}))
    assert len(rig.witness.gate().exemptions) == 1
    many = [{**one, "address": f"{n:04x}:00:00.0", "at": "z" * 5000} for n in range(500)]
    file.write_text(json.dumps({"exemptions": many}))
    testimony = rig.witness.gate()
    assert len(testimony.exemptions) == MAX_EXEMPTIONS
    assert len(codec.canonical(testimony)) < 96 << 10, "a hello may have 384 KiB"


def test_an_exempt_disk_beside_it_makes_no_guest_one_that_was_not_let_in(rig: Rig) -> None:
    """A slot that was retired from the pool, as scratch: the book knows it for ever."""
    rig.domain(MINE, "01", "03", running=True)
    audit.exempt(rig.state, THIRD, by="ada", reason="scratch", clock=MACHINE)
    rig.book(SlotEntry(ADDRESS, owner=OWNER), SlotEntry(THIRD, place="boot-0/9"))
    told = {each.addresses: each.recorded for each in rig.domains()}
    assert told == {(ADDRESS,): True, (THIRD,): False}


def test_exempt_slots_are_told_before_what_never_was_one(rig: Rig) -> None:
    audit.exempt(rig.state, THIRD, by="ada", reason="\n\0é" * 99, clock=MACHINE)
    file = audit.exempt_file(rig.state)
    (one,) = json.loads(file.read_text())["exemptions"]
    others = [{**one, "address": f"0000:00:{n // 8:02x}.{n % 8}"} for n in range(MAX_EXEMPTIONS)]
    file.write_text(json.dumps({"exemptions": [*others, one]}))
    rig.book(SlotEntry(THIRD, ticket=KEPT))
    found = rig.witness.gate().exemptions
    assert len(found) == MAX_EXEMPTIONS
    assert THIRD in {each.address for each in found}
    assert len(codec.canonical(found[-1])) < 2 * (MAX_REASON + 2 * MAX_NAME), "however it is spelt"


def test_a_guest_on_a_slot_that_the_gate_knows_is_told_though_it_is_exempt(rig: Rig) -> None:
    rig.domain(THEIRS, "03", running=True, name="exempt")
    audit.exempt(rig.state, THIRD, by="ada", reason="why not", clock=MACHINE)
    rig.book(SlotEntry(THIRD, ticket=KEPT))
    assert [seen.addresses for seen in rig.domains()] == [(THIRD,)]


def test_a_damaged_book_is_told_as_a_gate_that_is_no_defence(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.book(SlotEntry(ADDRESS, ticket=KEPT))
    books.book_file(rig.state).write_text("{}")
    seen = rig.witness.gate()
    assert (seen.tickets, seen.domains) == ((), ())
    assert all(each.standing is not DefenceStanding.PRESENT for each in seen.defences[:1])
    present = replace(seen.defences[0], standing=DefenceStanding.PRESENT)
    monkeypatch.setattr(rig.witness, "defences", lambda: (present,))
    (hook,) = rig.witness.gate().defences
    assert hook.standing is DefenceStanding.UNKNOWN
    assert "damaged" in hook.detail


def test_domains_that_cannot_be_read_are_not_told_as_a_host_without_guests(
    rig: Rig, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    rig.book(SlotEntry(ADDRESS, ticket=KEPT))
    well = tuple(DefenceSeen(each, DefenceStanding.PRESENT, "") for each in Defence)
    monkeypatch.setattr(GateStatus, "defences", lambda _: well)
    monkeypatch.setattr(cli_gate, "Host", lambda: Host(rig.root))
    rig.put("etc/libvirt/qemu/x.xml", "<domain")
    seen = rig.witness.gate()
    assert (seen.domains, len(seen.tickets)) == ((), 1)
    hook, *others = seen.defences
    assert (hook.defence, hook.standing) == (Defence.HOOK, DefenceStanding.UNKNOWN)
    assert "which guests have drives" in hook.detail
    assert "x.xml" in hook.detail
    assert {each.standing for each in others} == {DefenceStanding.PRESENT}
    argv = ["gate", "status", "--state-dir", str(rig.state), "--run-dir", str(rig.run)]
    assert cli.main(argv) == 1
    assert "x.xml" in capsys.readouterr().out


def test_a_damaged_record_of_host_setup_is_unknown(rig: Rig) -> None:
    rig.put("var/lib/nvme-eraser/gate/setup.json", "{")
    assert {seen.standing for seen in rig.witness.defences()} == {DefenceStanding.UNKNOWN}


@pytest.mark.parametrize("text", ["{", '{"hooks": 7}'])
def test_sightings_that_cannot_be_read_take_one_proof_alone(
    rig: Rig, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Damaged, or a later release's: the daemon started after the hook was there all the same."""
    argv = ["host-setup", "--pci", ADDRESS, "--root", str(rig.root)]
    rig.put("usr/sbin/libvirtd", "")
    assert cli.main(argv) == 0
    ticks = 10 * os.sysconf("SC_CLK_TCK")
    rig.put("proc/stat", f"btime {int(time.time()) + 1000}")
    rig.put("proc/7/stat", f"7 (libvirtd) S {'0 ' * 18}{ticks} 0")
    rig.put("proc/7/status", "Name:\tlibvirtd\nUid:\t0\t0\t0\t0")
    rig.put("proc/7/cmdline", "/usr/sbin/libvirtd")
    before = rig.witness.defences()
    assert before[1].standing is DefenceStanding.PRESENT, before
    rig.put("var/lib/nvme-eraser/gate/hook-seen.json", text)
    assert rig.witness.defences() == before
    assert rig.witness.defences() == before
    assert caplog.text.count("sightings of the hook") == 1


def test_rules_are_held_against_what_host_setup_wrote(rig: Rig) -> None:
    setup.save(rig.state, setup.Setup((ADDRESS,)))
    rules = rig.witness.defences()[3]
    assert (rules.defence, rules.standing) == (Defence.RULES, DefenceStanding.ABSENT)
    argv = ["host-setup", "--pci", ADDRESS, "--no-gate", "--root", str(rig.root)]
    assert cli.main(argv) == 0
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT


def test_a_slot_that_host_setup_was_not_given_is_named(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was enrolled since, or that has another address since the last boot."""
    argv = ["host-setup", "--pci", ADDRESS, "--no-gate", "--root", str(rig.root)]
    assert cli.main(argv) == 0
    # Nothing is known of the others: a person is asked, and nothing is amiss.
    assert f"{OTHER_ADDRESS}, {THIRD}: NVMe drives without rules" in capsys.readouterr().out
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT
    gone = SlotEntry("0000:44:00.0", owner=OWNER)
    rig.book(SlotEntry(OTHER_ADDRESS, owner=OWNER), gone)
    order = hostcard.order_file(rig.state, THIRD)
    order.parent.mkdir(parents=True, exist_ok=True)
    order.touch()
    rules = rig.witness.defences()[3]
    assert rules.standing is DefenceStanding.ABSENT
    assert rules.detail.startswith(f"{OTHER_ADDRESS}, {THIRD}: expected rules")
    assert cli.main([*argv, "--check"]) == 1
    assert f"{OTHER_ADDRESS}, {THIRD}: expected rules" in capsys.readouterr().err
    audit.exempt(rig.state, THIRD, "scratch", "ada", MACHINE)
    assert f"{OTHER_ADDRESS}: expected rules" in rig.witness.defences()[3].detail
    assert cli.main([*argv[:2], OTHER_ADDRESS, *argv[2:]]) == 0
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT
    rig.book(SlotEntry(THIRD, owner=OWNER), gone)
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT, "exempt"
    capsys.readouterr()
    assert cli.main([*argv[:2], OTHER_ADDRESS, *argv[2:], "--check"]) == 0
    assert "without rules" not in capsys.readouterr().out


def test_an_erase_by_hand_makes_no_slot_of_a_drive(rig: Rig) -> None:
    argv = ["host-setup", "--pci", ADDRESS, "--no-gate", "--root", str(rig.root)]
    assert cli.main(argv) == 0
    rig.book(SlotEntry(THIRD, place="boot-0/9", took=DRIVE))
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT


def test_a_slot_that_was_dropped_is_none_until_somebody_has_it_again(
    rig: Rig, capsys: pytest.CaptureFixture[str]
) -> None:
    def standing() -> DefenceStanding:
        return rig.witness.defences()[3].standing

    argv = ["host-setup", "--no-gate", "--root", str(rig.root), "--pci", ADDRESS]
    assert cli.main([*argv, OTHER_ADDRESS, THIRD]) == 0
    rig.book(SlotEntry(OTHER_ADDRESS, ticket=KEPT), SlotEntry(THIRD, owner=OWNER))
    order = hostcard.order_file(rig.state, OTHER_ADDRESS)
    order.parent.mkdir(parents=True, exist_ok=True)
    order.write_text("an order")
    capsys.readouterr()
    assert cli.main([*argv, THIRD, "--fewer"]) == 0
    assert f"{OTHER_ADDRESS}: no slots from now on" in capsys.readouterr().out
    assert standing() is DefenceStanding.PRESENT
    assert cli.main([*argv, THIRD, "--check"]) == 0
    assert "without rules" not in capsys.readouterr().out, "a person answered that"
    order.write_text("a newer one")
    assert standing() is DefenceStanding.ABSENT
    assert cli.main([*argv, THIRD, "--fewer"]) == 0
    assert standing() is DefenceStanding.PRESENT
    rig.book(SlotEntry(OTHER_ADDRESS, owner=replace(OWNER, identity=None)))
    assert standing() is DefenceStanding.ABSENT
    assert cli.main([*argv, THIRD, "--fewer"]) == 0
    assert standing() is DefenceStanding.ABSENT, "nobody's word makes a guest's drive none"
    rig.book(SlotEntry(OTHER_ADDRESS, ticket=KEPT))
    assert standing() is DefenceStanding.ABSENT, "nor later"
    assert cli.main([*argv, OTHER_ADDRESS, THIRD]) == 0
    assert removedslots.load(rig.state) == removedslots.Drops()


def test_what_an_earlier_release_dropped_is_dropped_by_one_more_run(rig: Rig) -> None:
    argv = ["host-setup", "--no-gate", "--root", str(rig.root), "--pci", ADDRESS]
    assert cli.main(argv) == 0
    rig.book(SlotEntry(THIRD, ticket=KEPT))
    rules = rig.witness.defences()[3]
    assert (rules.standing, "--fewer" in rules.detail) == (DefenceStanding.ABSENT, True)
    assert "exempt" not in rules.detail, "it would open the address to any guest"
    assert cli.main([*argv, "--fewer"]) == 0
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT


def test_drops_that_cannot_be_read_are_unknown_until_host_setup_ran(rig: Rig) -> None:
    argv = ["host-setup", "--no-gate", "--root", str(rig.root), "--pci", ADDRESS]
    assert cli.main(argv) == 0
    rig.put("var/lib/nvme-eraser/gate/no-slots.json", "{")
    assert rig.witness.defences()[3].standing is DefenceStanding.UNKNOWN
    assert cli.main(argv) == 0
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT


@pytest.mark.parametrize("use", ["md", "dm", "mount", "swap"])
def test_a_drive_that_the_host_uses_is_no_slot_unless_a_guest_has_it(rig: Rig, use: str) -> None:
    """The host's data drive, at the address that a slot had before the last boot."""
    argv = ["host-setup", "--no-gate", "--root", str(rig.root), "--pci", ADDRESS]
    assert cli.main(argv) == 0
    below = f"sys/bus/pci/devices/{THIRD}/nvme/nvme2"
    for place, numbers in ((below, "240:2"), (f"{below}/nvme2n1", "259:9")):
        rig.put(f"{place}/dev", numbers)
    rig.book(SlotEntry(THIRD, owner=OWNER))
    assert rig.witness.defences()[3].standing is DefenceStanding.ABSENT
    mountinfo = "29 1 259:9 / /srv rw - xfs /dev/nvme2n1 rw" if use == "mount" else ""
    rig.put("proc/1/mountinfo", mountinfo)
    (rig.root / "proc/1/ns").mkdir()
    (rig.root / "proc/1/ns/mnt").symlink_to("mnt:[1]")
    (rig.root / "proc/1/root").symlink_to("/")
    rig.put("proc/swaps", "Filename Type" + "\n/dev/nvme2n1 partition 1 0 -2" * (use == "swap"))
    rig.put("proc/cmdline", "ro")
    if use in {"md", "dm"}:
        rig.put(f"sys/class/block/nvme2n1/holders/{use}0/x", "")
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT
    for file, text in (("address", THIRD), ("serial", "SN1  "), ("model", "Model   ")):
        rig.put(f"sys/class/nvme/nvme2/{file}", text)
    # What a tenant left on a drive without rules is assembled too.
    assert rig.witness.defences()[3].standing is DefenceStanding.ABSENT


def test_a_drive_that_somebody_has_is_known_at_whatever_address_a_boot_gave_it(rig: Rig) -> None:
    argv = ["host-setup", "--pci", ADDRESS, "--no-gate", "--root", str(rig.root)]
    assert cli.main(argv) == 0
    rig.book(SlotEntry(ADDRESS, owner=OWNER))
    for name, address, serial in (("nvme0", THIRD, "SN1  "), ("nvme1", OTHER_ADDRESS, "SN9")):
        for file, text in (("address", address), ("serial", serial), ("model", "Model   ")):
            rig.put(f"sys/class/nvme/{name}/{file}", text)
    rules = rig.witness.defences()[3]
    assert rules.standing is DefenceStanding.ABSENT
    assert rules.detail.startswith(f"{THIRD}: expected rules")


def test_the_systems_own_drive_is_no_slot_whatever_the_book_says(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Addresses were dealt out anew: rules for it would keep the host from starting."""
    argv = ["host-setup", "--pci", ADDRESS, OTHER_ADDRESS, "--no-gate", "--root", str(rig.root)]
    assert cli.main(argv) == 0
    rig.book(SlotEntry(THIRD, owner=OWNER))
    assert rig.witness.defences()[3].standing is DefenceStanding.ABSENT
    monkeypatch.setattr(usage, "system_disks", lambda *_: frozenset({"nvme2n1"}))
    monkeypatch.setattr(openers, "mounts", lambda *_: {1: ()})
    below = f"sys/bus/pci/devices/{THIRD}/nvme/nvme2"
    for place, numbers in ((below, "240:2"), (f"{below}/nvme2n1", "259:9")):
        rig.put(f"{place}/dev", numbers)
    assert rig.witness.defences()[3].standing is DefenceStanding.PRESENT


def test_a_book_that_cannot_be_read_keeps_no_rules_from_being_written(rig: Rig) -> None:
    rig.book()
    books.book_file(rig.state).write_text("{}")
    argv = ["host-setup", "--pci", ADDRESS, "--no-gate", "--root", str(rig.root)]
    assert cli.main(argv) == 0
    assert rig.witness.defences()[3].standing is DefenceStanding.UNKNOWN


def test_a_look_that_hangs_does_not_hold_up_the_hello(
    rig: Rig, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig.book(SlotEntry(ADDRESS, ticket=KEPT))
    go = threading.Event()
    monkeypatch.setattr(gate_status, "LOOK_SECONDS", 0.2)
    monkeypatch.setattr(rig.witness, "_defences", lambda: go.wait(30) and ())
    began = time.monotonic()
    seen = rig.witness.gate()
    assert time.monotonic() - began < 5
    assert {each.standing for each in seen.defences} == {DefenceStanding.UNKNOWN}
    assert len(seen.tickets) == 1
    go.set()


def test_the_command_line_says_it(
    rig: Rig, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_gate, "Host", lambda: Host(rig.root))
    rig.book()
    argv = ["gate", "status", "--state-dir", str(rig.state), "--run-dir", str(rig.run)]
    assert cli.main(argv) == 1
    assert "watcher  absent" in capsys.readouterr().out
    assert cli.main([*argv, "-f", "json"]) == 1
    told = codec.decode(GateTestimony, json.loads(capsys.readouterr().out), "status")
    assert len(told.defences) == len(Defence)
    well = tuple(replace(each, standing=DefenceStanding.PRESENT) for each in told.defences)
    monkeypatch.setattr(GateStatus, "defences", lambda _: well)
    assert cli.main(argv) == 0
    rig.domain(MINE, "01", running=True)
    capsys.readouterr()
    assert cli.main(argv) == 1
    assert "unrecorded" in capsys.readouterr().out


def answer(value: int, wait: threading.Event | None = None) -> Callable[[], int]:
    def work() -> int:
        if wait is not None:
            wait.wait(30)
        return value

    return work


def test_looks_are_taken_at_once_and_no_longer_than_agreed() -> None:
    never = threading.Event()
    taking: BoundedProbes[int] = BoundedProbes()

    def fail() -> int:
        raise DriveError("mute")

    def crash() -> int:
        raise RuntimeError("a bug")

    works = {"a": answer(1), "b": answer(2, never), "c": fail, "d": crash, "e": answer(5, never)}
    began = time.monotonic()
    assert taking.take(works, 0.3) == {"a": 1}
    assert time.monotonic() - began < 2
    never.set()


def test_one_look_at_a_time_and_a_late_answer_is_no_answer() -> None:
    late = threading.Event()
    taking: BoundedProbes[int] = BoundedProbes()
    assert taking.take({"a": answer(1, late)}, 0.1) == {}
    before = threading.active_count()
    for _ in range(5):
        assert taking.take({"a": answer(2)}, 0.01) == {}
    assert threading.active_count() == before
    late.set()
    deadline = time.monotonic() + 10
    while (found := taking.take({"a": answer(3)}, 0.5)) == {} and time.monotonic() < deadline:
        pass
    # What was asked long ago is not told as if it were so now.
    assert found == {"a": 3}


def test_owners_that_were_refused_their_drive_are_told_in_short(rig: Rig) -> None:
    rig.book(SlotEntry(ADDRESS, owner=OWNER), SlotEntry(OTHER_ADDRESS, ticket=KEPT))
    assert b"refused" not in codec.canonical(rig.witness.gate()), "an older reader takes it"
    said = OwnerRefused(ADDRESS, OWNER.domain, "guest\n" * 30, "it vanished " * 90, AT)
    gone = replace(said, address=OTHER_ADDRESS)
    with books.opened(rig.state) as opened:
        turned_away.note(rig.state, opened.book, (said, gone))
    told = rig.witness.gate()
    (one,) = told.refused
    assert (one.address, one.domain, one.at) == (ADDRESS, OWNER.domain, AT)
    assert (len(one.name), len(one.found)) == (MAX_NAME, MAX_FOUND)
    assert "\n" not in one.name
    assert codec.load(GateTestimony, codec.canonical(told), "gate") == told


def test_a_damaged_note_of_them_keeps_back_no_hello(rig: Rig) -> None:
    rig.book(SlotEntry(ADDRESS, owner=OWNER))
    rig.put("var/lib/nvme-eraser/gate/turned-away.json", "{")
    assert rig.witness.gate().refused == ()


def test_an_owner_that_needs_no_admission_any_more_is_not_told_as_refused(rig: Rig) -> None:
    """Its address is exempt: it starts without the gate, which never learns of it."""
    rig.book(SlotEntry(ADDRESS, owner=OWNER), SlotEntry(OTHER_ADDRESS, owner=OWNER))
    said = OwnerRefused(ADDRESS, OWNER.domain, "guest", "it vanished", AT)
    with books.opened(rig.state) as opened:
        turned_away.note(rig.state, opened.book, (said,))
        other = replace(said, address=OTHER_ADDRESS)
        turned_away.note(rig.state, opened.book, (other,))
    audit.exempt(rig.state, ADDRESS, by="ada", reason="the host's own", clock=MACHINE)
    assert rig.witness.gate().refused == (other,)
    # It may run by now, and the book does not tell: its next refusal would be news.
    audit.include(rig.state, ADDRESS, by="ada", reason="a slot again", clock=MACHINE)
    assert rig.witness.gate().refused == (other,)
