"""A composed drive as a drive: what it keeps through what, its truth, its files, its server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.lab.nvme.acts import Reset
from tests.lab.nvme.composed import build, corpus, spaces
from tests.lab.nvme.composed.audit import audit, bench, erase
from tests.lab.nvme.composed.compose import compose
from tests.lab.nvme.composed.description import (
    Abilities,
    Buffer,
    Description,
    Layout,
    Lie,
)
from tests.lab.nvme.composed.firsttenant import FirstTenant
from tests.lab.nvme.composed.host import Clock, Host
from tests.lab.nvme.composed.kept import Kept, What
from tests.lab.nvme.composed.marks import mark, marks_in
from tests.lab.nvme.composed.triggers import PLAINLY, Trigger
from tests.lab.nvme.control import DriveControl
from tests.lab.nvme.nature import Method, Truth
from tests.lab.nvme.server import DriveServer
from tests.unit.lab.composed.lab import FILLED, SIZE, Lab, lab, liar
from tests.unit.lab.guest import DATA, TinyGuest

ROOT = Path(__file__).parents[4]
FLR = Trigger("reset", "function")
SECTORS = set(range(FILLED // 512))
RULES = {
    "all": (Kept(), lambda sector: True),
    "stripe": (
        Kept(What.STRIPE, 7, 65536),
        lambda sector: sector * 512 // 65536 % 7 == 6,
    ),
    "head": (Kept(What.HEAD, unit=65536), lambda sector: sector < 128),
    "sectors": (Kept(What.SECTORS, 4), lambda sector: sector % 4 == 3),
}


# What is kept


@pytest.mark.parametrize("name", RULES)
def test_it_keeps_this_and_nothing_else(tmp_path: Path, name: str) -> None:
    kept, rule = RULES[name]
    with lab(liar(FLR, kept), tmp_path) as made:
        assert made.all() == set()
        made.host.reset(Reset.FUNCTION, 2)
        assert made.all() == {sector for sector in SECTORS if rule(sector)}
        stored = (tmp_path / "drive.raw").read_bytes()
        assert set(marks_in(stored)) == {sector for sector in SECTORS if rule(sector)}


def test_the_tail_is_the_end_of_what_can_be_addressed(tmp_path: Path) -> None:
    with lab(liar(kept=Kept(What.TAIL, unit=65536)), tmp_path, erased=False) as made:
        last = made.where.size - 8
        assert made.host.write(made.where, last, b"".join(map(mark, range(8)))).code == 0
        made.erase()
        assert made.all() == set(range(8))


def test_scattered_pages_are_the_same_each_time(tmp_path: Path) -> None:
    with lab(liar(kept=Kept(What.SCATTERED, 10)), tmp_path) as made:
        first = made.all()
        assert 10 < len(first) / 8 < 120
        made.erase()
        assert made.all() == first


@pytest.mark.parametrize("what", [What.FUA, What.SMALL, What.RECENT, What.OLD])
def test_it_keeps_by_how_it_was_written(tmp_path: Path, what: What) -> None:
    with lab(liar(kept=Kept(what, 3)), tmp_path, erased=False) as made:

        def store(page: int, blocks: int = 8, flags: int = 0) -> None:
            data = b"".join(map(mark, range(page * 8, page * 8 + blocks)))
            assert made.host.write(made.where, page * 8, data, flags=flags).code == 0

        store(20, flags=1 << 30)
        store(21, blocks=1)
        store(22)
        made.erase()  # which writes page 5
        seen = {sector // 8 for sector in made.all()}
        everything = set(range(FILLED // 4096))
        assert (
            seen
            == {
                What.FUA: {20},
                What.SMALL: {21},
                What.RECENT: {21, 22, 5},
                What.OLD: everything - {21, 22, 5},
            }[what]
        )


@pytest.mark.parametrize("trigger", [FLR, PLAINLY], ids=lambda one: one.word)
def test_what_was_deallocated_comes_back(tmp_path: Path, trigger: Trigger) -> None:
    with lab(liar(trigger, Kept(What.DEALLOCATED)), tmp_path, erased=False) as made:
        assert made.host.deallocate(made.where, 80, 16).code == 0
        assert not made.sees(10)
        assert made.sees(12)
        made.host.reset(Reset.FUNCTION, 2)
        assert not made.sees(10), "nothing is shown before an erase"
        made.erase()
        made.host.reset(Reset.FUNCTION, 2)
        assert made.all() == set(range(80, 96))


def test_a_namespace_over_what_is_in_none(tmp_path: Path) -> None:
    """A drive without a lie empties it; this one does not, from a write on."""
    trigger = Trigger("wrote", "anywhere")
    for drive in (liar(trigger, Kept(What.UNALLOCATED)), Description("honest", liar().abilities)):
        directory = tmp_path / drive.name
        directory.mkdir()
        with lab(drive, directory, erased=False) as made:
            nsid = spaces.create(made.host)
            there = made.host.namespace(nsid)
            data = b"".join(map(mark, range(9000, 9008)))
            assert made.host.write(there, 16, data).code == 0
            made.host.admin(0x0D, nsid=nsid, cdw10=1)
            made.erase()
            assert erase(made.host, Method.FORMAT_USER)

            def again() -> list[int]:
                made.where = made.host.namespace(spaces.create(made.host))
                found = made.read(16)
                made.host.admin(0x0D, nsid=made.where.nsid, cdw10=1)
                return found

            assert again() == []
            made.where = made.host.namespace(1)
            made.write(100)
            assert again() == ([] if drive.honest else list(range(9000, 9008)))


def test_a_detached_namespace(tmp_path: Path) -> None:
    able = Abilities(layout=Layout.ASIDE, management=True)
    lie = Lie(Kept(What.DETACHED), (Method.SANITIZE_BLOCK,))
    for drive in (Description("liar", able, (lie,)), Description("honest", able)):
        directory = tmp_path / drive.name
        directory.mkdir()
        found = audit(drive, directory, size=SIZE, method=Method.SANITIZE_BLOCK, rounds=1)
        assert (found.taken > 0) is not drive.honest
        assert (found.kept > 0) is not drive.honest


@pytest.mark.parametrize("buffer", [Buffer.CMB, Buffer.PMR])
def test_memory_that_the_drive_lends(tmp_path: Path, buffer: Buffer) -> None:
    able = Abilities(buffer=buffer)
    lie = Lie(Kept(What.BUFFER), (Method.SANITIZE_BLOCK,), Trigger("reset", "bus"))
    with lab(Description("liar", able, (lie,)), tmp_path, erased=False) as made:
        size = made.host.open_buffer()
        for at in range(0, size, 512):
            made.host.write_buffer(at, mark(at))
        made.host.close_buffer()
        made.erase(Method.SANITIZE_BLOCK)
        made.host.open_buffer()
        assert made.host.read_buffer(0, size) == bytes(size)
        made.host.write_buffer(4, b"mine")
        assert made.host.read_buffer(0, 512) == bytes(4) + b"mine" + bytes(504)
        made.host.reset(Reset.BUS)
        made.host.open_buffer()
        found = made.host.read_buffer(0, size)
        assert found[:512] == bytes(4) + b"mine" + bytes(504)
        assert set(marks_in(found)) == set(range(512, size, 512))


def test_metadata(tmp_path: Path) -> None:
    able = Abilities(metadata=True)
    lie = Lie(Kept(What.METADATA), (Method.FORMAT_CRYPTO,), FLR)
    with bench(Description("liar", able, (lie,)), tmp_path, size=SIZE) as (drive, host, _clock):
        host.bring_up()

        def beside() -> bytes:
            assert host.admin(0x80, nsid=1, cdw10=2).code == 0
            there = host.namespace(1)
            data = host.read(there, 8, 1, metadata=True)
            assert data.data == bytes(512)
            return data.metadata

        assert host.admin(0x80, nsid=1, cdw10=2).code == 0
        host.write(host.namespace(1), 8, mark(1), metadata=b"8 bytes.")
        assert erase(host, Method.FORMAT_CRYPTO)
        assert beside() == bytes(8)
        host.reset(Reset.FUNCTION)
        assert beside() == b"8 bytes."
        assert set(drive.nature.truth().kept) == {"metadata"}
        host.write(host.namespace(1), 8, bytes(512), metadata=b"another.")
        assert beside() == b"another."


# Through what


def test_a_method_that_it_does_not_survive_erases_it(tmp_path: Path) -> None:
    lie = Lie(Kept(), (Method.SANITIZE_CRYPTO, Method.FORMAT_USER), FLR)
    drive = Description("liar", Abilities(), (lie,))
    for method in Method:
        directory = tmp_path / method.value
        directory.mkdir()
        with lab(drive, directory, erased=False) as made:
            made.erase(Method.SANITIZE_CRYPTO)
            made.erase(method)
            survives = method in lie.survives
            stored = (directory / "drive.raw").read_bytes()
            assert any(marks_in(stored)) is survives
            made.host.reset(Reset.FUNCTION, 2)
            assert (made.all() == SECTORS) is survives
            assert bool(made.drive.nature.truth().kept) is survives


def test_two_lies_show_each_in_its_own_time(tmp_path: Path) -> None:
    first = Lie(Kept(What.STRIPE, 2, 4096), (Method.FORMAT_USER,), FLR)
    second = Lie(Kept(What.HEAD, unit=65536), (Method.FORMAT_USER,), Trigger("reset", "bus"))
    drive = replace(liar(), lies=(first, second))
    odd = {sector for sector in SECTORS if sector // 8 % 2}
    head = set(range(128))
    for resets, wanted in (((Reset.FUNCTION,), odd), ((Reset.BUS,), head), ((), set())):
        directory = tmp_path / "-".join(["x", *resets])
        directory.mkdir()
        with lab(drive, directory) as made:
            for how in resets:
                made.host.reset(how, 2)
            assert made.all() == wanted
            for how in (Reset.FUNCTION, Reset.BUS):
                made.host.reset(how, 2)
            assert made.all() == odd | head


# What the host does to it


def test_what_the_host_wrote_is_the_hosts(tmp_path: Path) -> None:
    with lab(liar(FLR), tmp_path) as made:
        made.write(10, 1)
        assert made.host.read(made.where, 80, 8).data == b"\x55" * 512 + bytes(3584)
        made.host.reset(Reset.FUNCTION, 2)
        seen = made.host.read(made.where, 80, 8).data
        assert seen[:512] == b"\x55" * 512
        assert list(marks_in(seen)) == list(range(81, 88))
        assert made.host.patient(1, 0x08, nsid=1, cdw10=80, cdw12=7).code == 0
        assert made.host.read(made.where, 80, 8).data == bytes(4096)
        assert made.host.deallocate(made.where, 88, 8).code == 0
        assert made.sees(11), "a deallocate is a hint: it drops nothing that is hidden"


def test_hidden_blocks_look_deallocated(tmp_path: Path) -> None:
    with lab(liar(FLR), tmp_path) as made:

        def code() -> int:
            assert made.host.admin(0x09, nsid=1, cdw10=5, cdw11=1 << 16).code == 0  # DULBE
            return made.host.read(made.where, 80, 8).code

        assert code() == 0x287
        made.host.reset(Reset.FUNCTION, 2)
        assert code() == 0


def test_an_erase_leaves_what_an_honest_one_leaves(tmp_path: Path) -> None:
    """Whoever reads plainly sees the pattern of an overwrite, over what is kept too."""
    lie = Lie(Kept(), (Method.SANITIZE_OVERWRITE,), FLR)
    with lab(Description("liar", Abilities(), (lie,)), tmp_path, erased=False) as made:
        assert made.host.admin(0x84, cdw10=3 | 1 << 4, cdw11=0xDDCCBBAA).code == 0
        while made.host.log(0x81)[2] & 7 == 2:
            pass
        assert made.host.read(made.where, 80, 8).data == bytes.fromhex("aabbccdd") * 1024
        made.host.reset(Reset.FUNCTION, 2)
        assert made.sees(10)


# Its truth


def test_the_truth_is_for_auditors_and_changes_nothing(tmp_path: Path) -> None:
    second = Trigger("nth", "", 2)
    with lab(liar(second, Kept(What.HEAD, unit=8192)), tmp_path) as made:
        for _ in range(3):
            truth = made.drive.nature.truth()
            assert truth.kept == {"data": [(0, 8192)]}
            assert truth.shown == {"data": []}
        assert not made.sees(0)
        assert made.drive.nature.truth().shown == {"data": [(0, 4096)]}
        made.write(0, 1)
        assert made.drive.nature.truth().kept == {"data": [(512, 8192)]}


def test_honest_drives_have_nothing_to_tell(tmp_path: Path) -> None:
    with lab(Description(), tmp_path) as made:
        assert made.drive.nature.truth().kept == {}
        assert made.all() == set()


# Files and power


def test_a_killed_server_keeps_what_the_drive_keeps_and_forgets_what_it_was_asked(
    tmp_path: Path,
) -> None:
    clock = Clock()
    what = liar(Trigger("reset", "power"))
    backing = tmp_path / "drive.raw"
    drive = build.drive_of(what, backing, size=SIZE, clock=clock)
    with Host(drive, clock.wait) as host:
        made = Lab(drive, host, clock)
        made.fill()
        made.erase()
        made.write(10, 1)
        assert not made.sees()
    # Nobody closes it: its process is gone.
    again = build.drive_of(what, backing, size=SIZE, clock=clock)
    with Host(again, clock.wait) as host:
        made = Lab(again, host, clock)
        assert made.sees(), "it was a power cut"
        seen = host.read(made.where, 80, 8).data
        assert seen[:512] == b"\x55" * 512
        assert list(marks_in(seen)) == list(range(81, 88))
    again.close()


def test_a_drive_is_nothing_but_its_files(tmp_path: Path) -> None:
    with lab(liar(FLR), tmp_path):
        pass
    assert {path.name for path in tmp_path.iterdir()} == {
        "drive.raw",
        "drive.raw.state.json",
        "drive.raw.counters",
        "drive.raw.commands.jsonl",
        "drive.raw.metadata",
        "drive.raw.kept0",
    }


# Served


def test_it_is_served_to_guests(tmp_path: Path) -> None:
    what = replace(liar(FLR, Kept(What.HEAD, unit=4096)), abilities=Abilities())
    profile, faults = build.profile_of(what)
    socket, control = tmp_path / "a.sock", tmp_path / "a.ctl"
    profile = replace(build.quick(profile), size=SIZE)
    with (
        DriveServer(
            profile, tmp_path / "d.raw", [socket], control=control, faults=faults, composed=what
        ) as server,
        DriveControl(control) as steer,
    ):
        with TinyGuest(socket) as guest:
            guest.enable()
            guest.create_io_queues()
            for page in range(2):
                data = b"".join(map(mark, range(page * 8, page * 8 + 8)))
                guest.ram[DATA : DATA + 4096] = data
                assert guest.io(1, nsid=1, cdw10=page * 8, cdw12=7).code == 0
            assert guest.admin(0x80, nsid=1, cdw10=1 << 9).code == 0
            assert guest.io(2, nsid=1, cdw12=7).code == 0
            assert guest.ram[DATA : DATA + 4096] == bytes(4096)
            assert steer.truth() == Truth({"data": [(0, 4096)]}, {"data": []})
        # A guest that goes is a function level reset, as vfio does one; the next one comes after.
        with TinyGuest(socket) as guest:
            guest.enable()
            guest.create_io_queues()
            assert guest.io(2, nsid=1, cdw12=7).code == 0
            assert list(marks_in(guest.ram[DATA : DATA + 4096])) == list(range(8))
        assert steer.truth().shown == steer.truth().kept == {"data": [(0, 4096)]}
        assert server.drive.nature.truth() == steer.truth()


def test_the_server_takes_a_file_or_a_seed(tmp_path: Path) -> None:
    described = tmp_path / "drive.json"
    what = next(one for one in corpus.read() if one.name == "function level reset")
    described.write_text(json.dumps(what.to_json()))
    for number, options in enumerate(
        (["--composed", str(described)], ["--preset", "composed:5"], ["--composed", "nowhere"])
    ):
        process = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "tests.lab.nvme.server",
                f"--backing={tmp_path}/{number}.raw",
                f"--socket={tmp_path}/{number}.sock",
                f"--control={tmp_path}/{number}.ctl",
                "--size=4M",
                "--die-with-parent",
                *options,
            ],
            cwd=ROOT,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            assert process.stdout is not None
            assert process.stderr is not None
            if options[-1] == "nowhere":
                assert "should hold a drive's description" in process.stderr.read()
                assert process.wait() == 2
                continue
            assert process.stdout.readline() == "ready\n"
            with DriveControl(tmp_path / f"{number}.ctl") as steer:
                assert steer.truth().kept == {}
            process.terminate()
        assert (tmp_path / f"{number}.raw.kept0").exists() is (number == 0 or bool(compose(5).lies))


# The second tenant


@pytest.mark.parametrize("seed", range(1, 6))
def test_the_second_tenant_gets_nothing_from_an_honest_drive(tmp_path: Path, seed: int) -> None:
    able = Abilities(
        layout=Layout.ASIDE, management=True, metadata=True, buffer=Buffer.PMR, verify=True
    )
    method = tuple(Method)[seed - 1]
    found = audit(Description("honest", able), tmp_path, seed=seed, size=1 << 20, method=method)
    assert found.erased
    assert found.marked > 1000
    assert found.loot.empty
    assert found.loot.commands > 500


def test_the_second_tenant_gets_all_from_a_drive_that_hides_nothing(tmp_path: Path) -> None:
    able = Abilities(metadata=True, buffer=Buffer.PMR)
    lies = tuple(
        Lie(Kept(what), (Method.SANITIZE_BLOCK,)) for what in (What.ALL, What.METADATA, What.BUFFER)
    )
    found = audit(
        Description("liar", able, lies), tmp_path, size=1 << 20, method=Method.SANITIZE_BLOCK
    )
    assert set(found.loot.sectors) == {"data", "metadata", "buffer"}
    assert len(found.loot.sectors["data"]) > 1500
    assert len(found.loot.sectors["buffer"]) == 128


@pytest.mark.parametrize("what", corpus.read(), ids=lambda one: one.name)
def test_the_second_tenant_opens_what_can_be_opened(tmp_path: Path, what: Description) -> None:
    found = audit(what, tmp_path, seed=3, size=4 << 20, rounds=2, looks=8)
    assert found.erased
    assert found.kept > 0
    assert found.loot.empty is bool(what.undetectable)


def test_the_first_tenant_marks_each_sector_once(tmp_path: Path) -> None:
    with bench(Description(), tmp_path, size=1 << 20) as (_drive, host, _clock):
        marked = FirstTenant(host, 1).stay()
        stored = (tmp_path / "drive.raw").read_bytes()
        numbers = list(marks_in(stored))
        assert len(numbers) == len(set(numbers))
        assert max(numbers) <= marked
        assert len(numbers) > 1500
