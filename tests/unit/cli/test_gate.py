"""``nvme-eraser gate`` from the outside: exit codes and one line each."""

from __future__ import annotations

import errno
import io
import json
import shutil
import sys
from pathlib import Path

import pytest

from eraser import cli
from eraser.agent.gate_status import GateStatus
from eraser.agent.hoststate import CONTROLLER_FILE, HostState, keygen
from eraser.cli import gate as cli_gate
from eraser.gate import door
from eraser.gate.admit import GateRefusedError
from eraser.host import slotwatch
from eraser.ownership import audit
from eraser.ownership import store as books
from eraser.ownership.facts import DriveSeen
from eraser.ownership.model import SlotEntry
from eraser.protocol import codec
from eraser.protocol.ticket import TICKET_TYPE, DomainSeen, Exemption, GateTestimony
from eraser.protocol.transport.signing import PrivateKey
from tests.unit.gate.world import World, domain, world
from tests.unit.ownership.parts import ADDRESS, MINE, OWNER, SEEN, TICKET, owner

__all__ = ["world"]

TOP = Path(__file__).resolve().parents[3]


@pytest.fixture
def gate(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    monkeypatch.setattr(cli_gate, "Host", lambda: world.host)
    return world


def call(world: World, *arguments: str) -> int:
    directories = ["--state-dir", str(world.state), "--run-dir", str(world.run)]
    return cli.main(["gate", arguments[0], *directories, *arguments[1:]])


def check(world: World, monkeypatch: pytest.MonkeyPatch, document: bytes) -> int:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(document)))
    return call(world, "check", "--", "instance-1")


def test_check(
    gate: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    gate.certified()
    assert check(gate, monkeypatch, domain(ADDRESS)) == 0
    assert capsys.readouterr() == ("", "")
    other = domain(ADDRESS, uuid="3" * 8 + MINE[8:], name="other")
    assert check(gate, monkeypatch, other) == GateRefusedError.exit_code == 11
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("nvme-eraser: refused the start of domain 'other': ")
    assert said.err.count("\n") == 1
    monkeypatch.setattr(door, "MAX_DOMAIN_BYTES", 10)
    assert check(gate, monkeypatch, domain()) == 11


def test_what_people_tell_it(gate: World, capsys: pytest.CaptureFixture[str]) -> None:
    gate.slot(ADDRESS)
    path = gate.fake.path("/etc/libvirt/qemu/i.xml")
    path.parent.mkdir(parents=True)
    path.write_bytes(domain(ADDRESS))
    assert call(gate, "adopt", "--plan", "-f", "json") == 0
    assert json.loads(capsys.readouterr().out)["owners"][0]["owner"]["domain"] == MINE
    assert call(gate, "adopt") == 0
    assert MINE in capsys.readouterr().out
    why = ("--reason", "because", "--by", "alice")
    assert call(gate, "allow", "--pci", ADDRESS, *why) == 2, "--once has to be said"
    assert call(gate, "allow", "--once", "--pci", ADDRESS, "--domain", "x", *why) == 2
    assert call(gate, "allow", "--once", "--pci", "nonsense", *why) == 2
    assert call(gate, "allow", "--once", "--pci", ADDRESS, "--domain", MINE.upper(), *why) == 0
    word = gate.book.entry(ADDRESS).allowance
    assert word is not None
    assert (word.domain, word.by, word.reason) == (MINE, "alice", "because")
    assert call(gate, "exempt", "--pci", "0000:09:00.0", *why) == 0
    capsys.readouterr()
    assert call(gate, "show") == 0
    shown = capsys.readouterr().out
    for piece in (MINE, "(adopted)", "allowed once", "0000:09:00.0  exempt"):
        assert piece in shown
    assert call(gate, "show", "-f", "json") == 0
    assert json.loads(capsys.readouterr().out)["exempt"][0]["address"] == "0000:09:00.0"
    assert call(gate, "exempt", "--remove", "--pci", "0000:09:00.0", *why) == 0
    call(gate, "show")
    assert "exempt" not in capsys.readouterr().out


def test_an_owner_whose_drive_is_gone(gate: World, capsys: pytest.CaptureFixture[str]) -> None:
    gate.slot(ADDRESS)
    path = gate.fake.path("/run/libvirt/qemu/i.xml")
    path.parent.mkdir(parents=True)
    path.write_bytes(domain(ADDRESS))
    gate.drives[ADDRESS] = DriveSeen("vfio-pci")
    assert call(gate, "adopt") == 0
    call(gate, "show")
    assert "read when it first rests" in capsys.readouterr().out
    why = ("--pci", ADDRESS, "--reason", "it is dead", "--by", "alice")
    assert call(gate, "forget", *why) == 2
    assert "never left its slot" in capsys.readouterr().err
    shutil.rmtree(gate.fake.path(f"/sys/bus/pci/devices/{ADDRESS}"))
    assert call(gate, "forget", *why) == 2
    assert "it stops" in capsys.readouterr().err
    path.unlink()
    assert call(gate, "forget", *why) == 0
    assert MINE in capsys.readouterr().out
    assert gate.book.entry(ADDRESS).owner is None
    assert call(gate, "forget", *why) == 2


def test_adopt_with_a_conflict_ends_with_an_error(gate: World) -> None:
    gate.slot(ADDRESS)
    for name, uuid in (("a", MINE), ("b", "3" * 8 + MINE[8:])):
        path = gate.fake.path(f"/etc/libvirt/qemu/{name}.xml")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(domain(ADDRESS, uuid=uuid, name=name))
    assert call(gate, "adopt") == 2


def test_a_ticket_from_a_file(gate: World, capsys: pytest.CaptureFixture[str]) -> None:
    import dataclasses

    (gate.state / "host.json").unlink()
    controller = PrivateKey.generate()
    keygen(gate.state, "compute-1")
    (gate.state / CONTROLLER_FILE).write_bytes(codec.canonical(controller.public.jwk()))
    incarnation = HostState(gate.state).card.incarnation
    gate.slot(ADDRESS)
    gate.end(gate.order(incarnation=incarnation))
    file = gate.directory / "ticket"
    ticket = dataclasses.replace(TICKET, incarnation=incarnation)
    file.write_text(controller.sign(codec.canonical(ticket), TICKET_TYPE) + "\n")
    for _ in range(2):
        assert call(gate, "ticket", "-f", "json", str(file)) == 0
        assert json.loads(capsys.readouterr().out)["state"] == "valid"
    books.book_file(gate.state).unlink()
    gate.order(incarnation=incarnation, order_id="order-0000-0000-0002", generation=6)
    assert call(gate, "ticket", "-f", "json", str(file)) == 11
    assert json.loads(capsys.readouterr().out)["state"] == "void"
    file.write_text("rubbish")
    assert call(gate, "ticket", str(file)) == 9


def test_intake_says_why_it_has_to_come_again(
    gate: World, capsys: pytest.CaptureFixture[str]
) -> None:
    from eraser.ownership import pending
    from eraser.ownership.facts import DriveSeen

    gate.slot(ADDRESS, DriveSeen("nvme", trouble="mute"))
    gate.end(gate.order())
    assert call(gate, "intake", "--pci", ADDRESS) == 2
    pending.put(gate.state, TICKET)
    assert call(gate, "intake", "--pci", ADDRESS) == 6
    assert "mute" in capsys.readouterr().err


def test_rest(gate: World, capsys: pytest.CaptureFixture[str]) -> None:
    gate.slot(ADDRESS)
    gate.fake.put("/proc/sys/kernel/random/boot_id", "boot-1")
    gate.know(SlotEntry(ADDRESS, owner=OWNER))
    assert call(gate, "rest", "--pci", ADDRESS) == 0
    assert "the watcher has not looked" in capsys.readouterr().out
    known = slotwatch.see(gate.host, ADDRESS)
    slotwatch.save(gate.state, slotwatch.Memory("boot-1", (known,)))
    assert call(gate, "rest", "--pci", ADDRESS) == 0
    assert capsys.readouterr().out == ""
    found = gate.book.entry(ADDRESS).owner
    assert found is not None
    assert found.rest == SEEN.counters
    gate.know(SlotEntry(ADDRESS, owner=owner(left="it vanished")))
    assert call(gate, "show") == 0
    assert "may have been elsewhere: 'it vanished'" in capsys.readouterr().out


def test_words_that_are_no_text(gate: World, capsys: pytest.CaptureFixture[str]) -> None:
    assert call(gate, "exempt", "--pci", ADDRESS, "--reason", "a\udcff") == 2
    assert capsys.readouterr().err == (
        "nvme-eraser: expected arguments in UTF-8, found 'a\\udcff'\n"
    )
    assert call(gate, "exempt", "--pci", ADDRESS, "--reason", "déjà") == 0


def test_status_does_not_cry_for_a_guest_on_a_drive_that_is_left_to_any(
    gate: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The gate knows it as a slot of before."""
    found = DomainSeen(MINE, "instance-1", (ADDRESS,), running=True, recorded=False)
    exemption = Exemption(ADDRESS, "the host's cache", "ada", "now")
    told = GateTestimony((), (found,), (), (), (exemption,))
    monkeypatch.setattr(GateStatus, "gate", lambda _self: told)
    assert call(gate, "status") == 0
    assert capsys.readouterr().out == ""
    told = GateTestimony((), (found,), (), ())
    assert call(gate, "status") == 1
    assert "unrecorded" in capsys.readouterr().out


def test_a_full_disk_is_told_without_a_case_that_is_none(
    gate: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_arguments: object) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(audit, "account", full)
    assert call(gate, "exempt", "--pci", ADDRESS, "--reason", "x") == 1
    assert capsys.readouterr().err == (
        "nvme-eraser: [Errno 28] No space left on device; call again\n"
    )
