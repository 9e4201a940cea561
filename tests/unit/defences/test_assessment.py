"""The self-check: each way in which a defence can be missing is seen, and nothing else is."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from eraser import cli
from eraser.cli import hostsetup as cli_hostsetup
from eraser.defences import assessment, facts, hostrules, reloads, selinux, setup, sightings, views
from eraser.defences.assessment import DaemonSeen, FileSeen, LibvirtSeen, NovaComputeSeen, ViewSeen
from eraser.errors import BadInputError
from eraser.gate import hookfile
from eraser.gate.hookfile import HOOK, HookSettings
from eraser.host import daemons, proc, statx
from eraser.host.sysfs import Host
from eraser.ownership.model import SteadyTime
from eraser.protocol import codec
from eraser.protocol.ticket import Defence, DefenceSeen, DefenceStanding
from tests.unit.host.fakehost import LongUp

TEXT = b"#!/bin/sh\n"
NOW = 1_000_000.0
FILE = FileSeen(0o100755, 0, 7, int((NOW - 100) * 1e9))
DIRECTORY = FileSeen(0o040755, 0, 1, 0)
VIEW = ViewSeen(
    directories=dict.fromkeys(assessment.DIRECTORIES, DIRECTORY),
    file=FILE,
    data=TEXT,
    programs={"/usr/bin/python3": FILE},
    library={"/usr/lib/eraser/gate/door.py": replace(FILE, mode=0o100644)},
)
DAEMON = DaemonSeen(50, "libvirtd", NOW, None, (), VIEW)
LIBVIRT = LibvirtSeen(True, TEXT, (DAEMON,), VIEW, ())
NOWHERE = replace(VIEW, file=None, data=None, directories=dict.fromkeys(assessment.DIRECTORIES))
GONE = replace(LIBVIRT, installed=False, daemons=(), idle_view=NOWHERE)
WIDE_OPEN = {**VIEW.directories, "/etc/libvirt/hooks": replace(DIRECTORY, mode=0o40777)}
SOMEBODYS = {**VIEW.directories, "/etc/libvirt": replace(DIRECTORY, uid=64055)}
NO_PROGRAM = replace(FILE, mode=0o100644)
EVERYBODYS = replace(FILE, mode=0o100757)
WORLDS = replace(DIRECTORY, mode=0o40777)


def view(**changes: object) -> LibvirtSeen:
    """libvirt, whose daemon sees something else."""
    return replace(LIBVIRT, daemons=(replace(DAEMON, view=replace(VIEW, **changes)),))  # type: ignore[arg-type]


def test_all_as_it_should_be() -> None:
    assert assessment.hook(LIBVIRT) == DefenceSeen(Defence.HOOK, DefenceStanding.PRESENT, HOOK)
    assert assessment.loaded(LIBVIRT).standing is DefenceStanding.PRESENT


@pytest.mark.parametrize(
    ("seen", "says"),
    [
        (view(file=None, data=None), "found none: guests start unchecked"),
        (view(file=replace(FILE, mode=0o100644)), "executable"),
        (view(file=replace(FILE, mode=0o120777)), "regular file"),
        (view(file=replace(FILE, mode=0o040755)), "regular file"),
        (view(file=replace(FILE, mode=0o100775)), "writable by root alone"),
        (view(file=replace(FILE, uid=1000)), "owner 1000"),
        (view(data=TEXT + b"exit 0\n"), "another text"),
        (view(data=None), "another text"),
        (view(directories=WIDE_OPEN), "/etc/libvirt/hooks: expected it to be root's"),
        (view(directories=SOMEBODYS), "/etc/libvirt: expected it to be root's"),
        (view(programs={"/usr/bin/python3": None}), "expected /usr/bin/python3"),
        (view(programs={"/usr/bin/python3": NO_PROGRAM}), "expected a program"),
        (view(library={"/usr/lib/eraser/gate/door.py": None}), "expected /usr/lib/eraser"),
        (view(library={"/usr/lib/eraser/gate/door.py": EVERYBODYS}), "writable by root alone"),
        (view(programs={"/usr/bin/python3": EVERYBODYS}), "writable by root alone"),
        (view(library={"/usr/lib/eraser/gate/desk.py": EVERYBODYS}), "desk.py: expected it to be"),
        (view(library={"/usr/lib/eraser/gate": WORLDS}), "/usr/lib/eraser/gate: expected it"),
        (view(parents={"/usr": WORLDS}), "/usr: expected it to be root's"),
        (view(parents={"/home/op": replace(DIRECTORY, uid=1000)}), "owner 1000"),
        (view(parents={"/gone": None}), "expected /gone"),
        (view(foreign=("/var/lib/nvme-eraser",)), "expected the host's own /var/lib/nvme-eraser"),
        (replace(LIBVIRT, expected=None), "record"),
        (replace(LIBVIRT, daemons=(DAEMON, replace(DAEMON, view=NOWHERE))), "found none"),
        (replace(LIBVIRT, daemons=(), idle_view=NOWHERE), "found none"),
        (replace(GONE, vfio_guests=(9,)), "found none"),
    ],
)
def test_a_hook_that_is_not_ours_or_does_not_run(seen: LibvirtSeen, says: str) -> None:
    found = assessment.hook(seen)
    assert found.standing is DefenceStanding.ABSENT
    assert says in found.detail


def test_in_a_sticky_directory_roots_own_stays_roots() -> None:
    seen = view(parents={"/tmp": replace(DIRECTORY, mode=0o41777)})
    assert assessment.hook(seen).standing is DefenceStanding.PRESENT


def test_without_libvirt_nothing_is_missing() -> None:
    assert assessment.hook(GONE).standing is DefenceStanding.NOT_APPLICABLE
    assert assessment.loaded(GONE).standing is DefenceStanding.NOT_APPLICABLE


CHANGED = FILE.changed / 1e9
BEFORE = replace(DAEMON, started_at=CHANGED - 9)
"""It was there before the hook: only a call, or being told, proves that it looked."""


@pytest.mark.parametrize(
    ("daemon", "standing"),
    [
        (BEFORE, DefenceStanding.ABSENT),
        (replace(DAEMON, started_at=CHANGED + 1), DefenceStanding.ABSENT),
        (replace(DAEMON, started_at=CHANGED + 3), DefenceStanding.PRESENT),
        (replace(BEFORE, called_at=CHANGED + 1), DefenceStanding.PRESENT),
        # It called an older file; it may have found an empty directory before the present one.
        (replace(BEFORE, called_at=CHANGED - 1), DefenceStanding.ABSENT),
        (replace(BEFORE, told=((FILE.inode, FILE.changed),)), DefenceStanding.PRESENT),
        (replace(BEFORE, told=((FILE.inode, 3), (8, FILE.changed))), DefenceStanding.ABSENT),
        (replace(BEFORE, preceding=((FILE.inode, FILE.changed),)), DefenceStanding.PRESENT),
        (replace(BEFORE, preceding=((FILE.inode, 3), (8, FILE.changed))), DefenceStanding.ABSENT),
        (replace(DAEMON, called_at=NOW, view=NOWHERE), DefenceStanding.ABSENT),
        # Not whom the kernel does not let run it, whatever was before.
        (replace(BEFORE, called_at=CHANGED + 1, forbidden="x"), DefenceStanding.ABSENT),
        (replace(DAEMON, started_at=CHANGED + 3, unclear="x"), DefenceStanding.UNKNOWN),
        (replace(BEFORE, called_at=CHANGED + 1, unclear="x"), DefenceStanding.PRESENT),
    ],
)
def test_a_daemon_counts_only_with_proof_that_it_calls_hooks(
    daemon: DaemonSeen, standing: DefenceStanding
) -> None:
    assert assessment.loaded(replace(LIBVIRT, daemons=(daemon,))).standing is standing
    both = replace(LIBVIRT, daemons=(DAEMON, daemon))
    assert assessment.loaded(both).standing is standing


def test_the_next_daemon_finds_a_hook_that_is_there() -> None:
    assert assessment.loaded(replace(LIBVIRT, daemons=())).standing is DefenceStanding.PRESENT
    none = replace(LIBVIRT, daemons=(), idle_view=NOWHERE)
    assert assessment.loaded(none).standing is DefenceStanding.ABSENT


def test_every_nova_compute_needs_the_patch() -> None:
    assert assessment.patch(()).standing is DefenceStanding.NOT_APPLICABLE
    good = NovaComputeSeen(5, ("nvme-quarantine-patch:1:34.0.0",), 1.0)
    bare = NovaComputeSeen(6, (), 600.0)
    assert assessment.patch([good]).standing is DefenceStanding.PRESENT
    found = assessment.patch([good, bare])
    assert found.standing is DefenceStanding.ABSENT
    assert "process 6" in found.detail


def test_a_nova_compute_that_has_only_just_started_costs_no_free_slot() -> None:
    old, young = NovaComputeSeen(6, (), 61.0), NovaComputeSeen(7, (), 5.0)
    found = assessment.patch([young])
    assert found.standing is DefenceStanding.UNKNOWN
    assert "process 7" in found.detail
    assert assessment.patch([young, old]).standing is DefenceStanding.ABSENT


def test_rules_need_a_record_and_no_drift() -> None:
    assert assessment.rules(None, ()).standing is DefenceStanding.ABSENT
    assert assessment.rules(("0000:01:00.0",), ("x",)).standing is DefenceStanding.ABSENT
    assert assessment.rules(("0000:01:00.0",), ()).standing is DefenceStanding.PRESENT


@pytest.mark.parametrize(
    ("held", "silent", "standing"),
    [
        (True, 1.0, DefenceStanding.PRESENT),
        # The host's disk may stand still, and that of many hosts.
        (True, 61.0, DefenceStanding.UNKNOWN),
        (True, 601.0, DefenceStanding.ABSENT),
        (True, None, DefenceStanding.ABSENT),
        # It may be restarting: free slots are not taken back for that.
        (False, 1.0, DefenceStanding.UNKNOWN),
        (False, 61.0, DefenceStanding.ABSENT),
        (False, None, DefenceStanding.ABSENT),
    ],
)
def test_the_watcher_runs_and_gives_signs_of_life(
    held: bool, silent: float | None, standing: DefenceStanding
) -> None:
    assert assessment.watcher(assessment.WatcherSeen(held, silent)).standing is standing


class Machine:
    """A root directory with libvirt, its hook, and processes as /proc shows them."""

    BTIME = 1_000_000

    def __init__(self, root: Path) -> None:
        self.root = root
        self.host = Host(root, clock=LongUp())
        self.run = root / "run" / "nvme-quarantine"
        self.run.mkdir(parents=True)
        self.state = root / "var" / "lib" / "nvme-eraser"
        self.put("/usr/bin/python", "").chmod(0o755)
        self.put("/usr/lib/eraser/gate/door.py", "")
        self.put("/proc/stat", f"cpu 1\nbtime {self.BTIME}\n")
        self.put("/proc/sys/kernel/random/boot_id", "boot-1\n")
        (root / "etc" / "libvirt").mkdir(parents=True)
        self.in_namespaces("self", pid=proc.ALL_PIDS)
        self.settings = HookSettings("/usr/bin/python", "/usr/lib", "/s", "/r")

    def put(self, absolute: str, text: str) -> Path:
        path = self.root / absolute.lstrip("/")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    def install(self) -> setup.Setup:
        hostrules.apply([hostrules.hook(self.settings, self.root)])
        return setup.Setup(("0000:01:00.0",), self.settings)

    @property
    def hook_file(self) -> Path:
        return self.root / HOOK.lstrip("/")

    def process(
        self,
        pid: int,
        name: str,
        *argv: str,
        started: float = 0,
        uid: int = 0,
        fds: tuple[str, ...] = (),
        state: str = "S",
    ) -> None:
        ticks = int(started * os.sysconf("SC_CLK_TCK"))
        self.put(f"/proc/{pid}/stat", f"{pid} ({name}) {state} " + "0 " * 18 + f"{ticks} 0\n")
        self.put(f"/proc/{pid}/status", f"Name:\t{name}\nUid:\t{uid}\t{uid}\t{uid}\t{uid}\n")
        self.put(f"/proc/{pid}/cmdline", "\0".join(argv) + "\0" * bool(argv))
        directory = self.root / "proc" / str(pid) / "fd"
        directory.mkdir()
        for number, target in enumerate(fds):
            (directory / str(number)).symlink_to(target)

    def in_namespaces(self, process: str, **namespaces: str) -> None:
        """A process's namespaces, of those that it tells."""
        place = self.root / "proc" / process / "ns"
        place.mkdir(parents=True, exist_ok=True)
        for kind, number in namespaces.items():
            (place / kind).unlink(missing_ok=True)
            (place / kind).symlink_to(number)

    def in_a_container(self, pid: int) -> None:
        """The process has other files than the host."""
        self.in_namespaces("self", mnt="mnt:[1]")
        self.in_namespaces(str(pid), mnt="mnt:[2]")

    def look(
        self,
        made: setup.Setup | None,
        apart: facts.Apart | None = None,
        seen: sightings.Sightings = facts.NO_SIGHTINGS,
    ) -> dict[Defence, DefenceSeen]:
        found = facts.defences_seen(self.host, self.run, made, lambda: (), apart, seen)
        return {seen.defence: seen for seen in found}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


def owned_by_root(seen: DefenceSeen) -> bool:
    """Present; or absent for nothing but who runs the tests."""
    return seen.standing is DefenceStanding.PRESENT or (
        os.geteuid() != 0 and "root's" in seen.detail
    )


only_root = pytest.mark.skipif(os.geteuid() != 0, reason="anybody else's files are missed anyway")
"""For a test that says what is missed: nothing was before."""


def test_a_file_that_was_gone_again_is_not_missed(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python gives what it compiles its name when it is written."""
    walk = os.walk
    temporary = [".desk.cpython-311.pyc.1"]
    monkeypatch.setattr(os, "walk", lambda top: ((a, b, c + temporary) for a, b, c in walk(top)))
    made = machine.install()
    door = machine.root / "usr/lib/eraser/gate/door.py"
    for gone in (False, True):
        if gone:
            door.unlink()
        seen = facts.look_at_libvirt(machine.host, machine.run, made)
        missed = [path for path, file in seen.idle_view.library.items() if file is None]
        assert missed == ["/usr/lib/eraser/gate/door.py"] * gone


@only_root
def test_an_installed_hook_is_found_and_a_changed_one_missed(machine: Machine) -> None:
    made = machine.install()
    seen = machine.look(made)
    assert seen[Defence.HOOK].standing is DefenceStanding.PRESENT, seen
    assert seen[Defence.LOADED].standing is DefenceStanding.PRESENT
    machine.hook_file.chmod(0o644)
    assert machine.look(made)[Defence.HOOK].standing is DefenceStanding.ABSENT
    machine.hook_file.chmod(0o755)
    machine.hook_file.write_text(machine.hook_file.read_text() + "\n")
    assert machine.look(made)[Defence.HOOK].standing is DefenceStanding.ABSENT
    machine.install()
    assert machine.look(made)[Defence.HOOK].standing is DefenceStanding.PRESENT
    machine.hook_file.unlink()
    assert machine.look(made)[Defence.HOOK].standing is DefenceStanding.ABSENT


@only_root
def test_a_name_of_any_bytes_can_be_told_in_a_hello(machine: Machine) -> None:
    made = machine.install()
    assert machine.look(made)[Defence.HOOK].standing is DefenceStanding.PRESENT
    machine.put(f"/usr/lib/eraser/gate/{os.fsdecode(bytes([255]))}.py", "").chmod(0o666)
    found = machine.look(made)[Defence.HOOK]
    assert found.standing is DefenceStanding.ABSENT
    assert b"udcff.py" in codec.canonical(found)


def test_an_error_of_any_bytes_can_be_told_in_a_hello() -> None:
    error = OSError(5, "Input/output error", os.fsdecode(bytes([255])))
    assert codec.canonical(assessment.unknown(Defence.RULES, error))


@only_root
@pytest.mark.parametrize(
    "place",
    [
        "/usr/lib/eraser/gate/desk.py",
        "/usr/lib/eraser/gate/__pycache__/desk.cpython-311.pyc",
        "/usr/lib/eraser/gate",
        "/usr/lib/eraser",
        "/usr/lib",
        "/usr",
        "/usr/bin",
        "/opt/real/lib",
    ],
)
def test_all_that_the_hook_loads_and_each_way_to_it_is_roots(machine: Machine, place: str) -> None:
    """A virtual environment in an account's home, a module that somebody may write to."""
    machine.put("/usr/lib/eraser/gate/desk.py", "")
    machine.put("/usr/lib/eraser/gate/__pycache__/desk.cpython-311.pyc", "")
    made = machine.install()
    if place.startswith("/opt"):
        (machine.root / "opt/real").mkdir(parents=True)
        (machine.root / "usr/lib").rename(machine.root / "opt/real/lib")
        (machine.root / "usr/lib").symlink_to("../opt/real/lib")
    assert machine.look(made)[Defence.HOOK].standing is DefenceStanding.PRESENT
    path = machine.root / place.lstrip("/")
    path.chmod(path.stat().st_mode | 0o002)
    found = machine.look(made)[Defence.HOOK]
    assert found.standing is DefenceStanding.ABSENT
    assert f"{place}: expected it to be root's" in found.detail


def iommu(machine: Machine, kind: str | None, group: bool = True) -> None:
    """A drive's slot, and the type of its IOMMU group."""
    function = machine.put("/sys/bus/pci/devices/0000:01:00.0/class", "0x010802\n").parent
    if group:
        (function / "iommu_group").symlink_to("../../../kernel/iommu_groups/14")
    if kind is not None:
        machine.put("/sys/kernel/iommu_groups/14/type", f"{kind}\n")


@pytest.mark.parametrize(
    ("kind", "group", "said"),
    [
        ("DMA", True, ""),
        ("DMA-FQ", True, ""),
        (None, True, ""),
        ("identity", True, "found identity in /sys/kernel/iommu_groups/14/type"),
        (None, False, "expected an IOMMU group, found none"),
    ],
)
def test_an_iommu_that_does_not_translate_is_told_and_costs_nothing(
    machine: Machine, kind: str | None, group: bool, said: str
) -> None:
    iommu(machine, kind, group)
    found = machine.look(setup.Setup(("0000:01:00.0", "0000:02:00.0")))[Defence.RULES]
    assert found.standing is DefenceStanding.PRESENT
    assert found.detail.startswith("for 2 slots")
    assert said in found.detail if said else ";" not in found.detail


def cloud_init(machine: Machine) -> None:
    """cloud-init, as a distribution's image has it."""
    unit = machine.put("/usr/lib/systemd/system/cloud-init-local.service", "[Unit]\n")
    wants = machine.root / "etc/systemd/system/cloud-init.target.wants"
    wants.mkdir(parents=True)
    (wants / unit.name).symlink_to(f"/usr/lib/systemd/system/{unit.name}")


def test_what_no_rule_keeps_off_is_named_and_costs_nothing(machine: Machine) -> None:
    cloud_init(machine)
    iommu(machine, "identity")
    found = machine.look(setup.Setup(("0000:01:00.0",)))[Defence.RULES]
    assert (found.standing, found.scanners) == (DefenceStanding.PRESENT, "cloud-init")
    assert "found identity" in found.detail
    assert machine.look(None)[Defence.RULES].scanners == ""


def test_host_setup_disables_cloud_init_only_where_it_is_told_to(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    cloud_init(machine)
    off = machine.root / "etc/cloud/cloud-init.disabled"
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]
    argv += ["--no-gate"]
    assert cli.main(argv) == 0
    assert any(
        each.startswith("cloud-init asks no udev")
        for each in json.loads(capsys.readouterr().out)["warnings"]
    )
    assert cli.main([*argv, "--check"]) == 0, "nothing that host-setup wrote is amiss"
    assert not off.exists()
    capsys.readouterr()
    assert cli.main([*argv, "--disable-cloud-init"]) == 0
    assert off.is_file()
    assert not any("no udev" in each for each in json.loads(capsys.readouterr().out)["warnings"])
    off.write_text("by ada\n")
    assert cli.main([*argv, "--disable-cloud-init"]) == 0
    assert off.read_text() == "by ada\n"
    made = setup.load(machine.state)
    assert machine.look(made)[Defence.RULES].scanners == ""


def test_a_file_that_cannot_be_read_keeps_no_rules_from_being_written(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.put("/usr/bin/os-prober", "")
    (machine.root / "etc/default").mkdir(parents=True)
    (machine.root / "etc/default/grub").symlink_to("grub")
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]
    assert cli.main([*argv, "--no-gate"]) == 0
    warnings = json.loads(capsys.readouterr().out)["warnings"]
    assert any(each.startswith("whether os-prober runs here") for each in warnings)
    found = machine.look(setup.load(machine.state))[Defence.RULES]
    assert found.standing is DefenceStanding.PRESENT
    assert "whether os-prober runs here" in found.detail


def test_rules_that_were_not_loaded_are_not_known_to_stand(machine: Machine) -> None:
    made = setup.Setup(("0000:01:00.0",), pending=("udevadm control --reload",))
    found = machine.look(made)[Defence.RULES]
    assert found.standing is DefenceStanding.UNKNOWN
    assert found.detail.startswith("NOT DONE: udevadm control --reload; run 'nvme-eraser host-se")


def test_a_daemon_that_started_after_the_hook_or_called_it(machine: Machine) -> None:
    made = machine.install()
    machine.process(7, "virtqemud", started=500)
    installed = machine.hook_file.stat().st_ctime
    assert installed > Machine.BTIME + 500
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.ABSENT
    ticks = 500 * os.sysconf("SC_CLK_TCK")
    called = machine.run / hookfile.CALLED_FILE
    called.write_text(f"7 {ticks + 1}\n")  # another process of that pid
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.ABSENT
    called.write_text(f"7 {ticks}\n")
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.PRESENT
    os.utime(called, (installed - 1, installed - 1))
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.ABSENT
    machine.process(8, "libvirtd", started=installed - Machine.BTIME + 5, uid=1000)
    (machine.root / "proc" / "7" / "stat").unlink()
    assert "no libvirt daemon" in machine.look(made)[Defence.LOADED].detail
    machine.process(9, "libvirtd", started=installed - Machine.BTIME + 5)
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.PRESENT


def test_told_counts_for_this_daemon_this_boot_and_this_file(machine: Machine) -> None:
    made = machine.install()
    machine.process(7, "libvirtd", started=500)
    file = machine.hook_file.stat()
    ticks = 500 * os.sysconf("SC_CLK_TCK")
    told = setup.HookReload(7, ticks, "boot-1", file.st_ino, file.st_ctime_ns)
    assert (
        machine.look(replace(made, told=(told,)))[Defence.LOADED].standing
        is DefenceStanding.PRESENT
    )
    for wrong in (
        replace(told, pid=8),
        replace(told, start=ticks + 1),
        replace(told, boot="boot-2"),
        replace(told, inode=1),
        replace(told, changed=1),
    ):
        found = machine.look(replace(made, told=(wrong,)))
        assert found[Defence.LOADED].standing is DefenceStanding.ABSENT


def test_no_wall_clock_makes_a_daemon_older_than_a_hook_that_was_seen_before_it(
    machine: Machine,
) -> None:
    """The clock is behind at boot, or was ahead when the hook was written."""
    made = machine.install()
    machine.process(7, "libvirtd", started=500)
    file = machine.hook_file.stat()
    assert file.st_ctime > Machine.BTIME + 500

    def standing(
        boot: str, seconds: float, inode: int = file.st_ino, ns: int = file.st_ctime_ns
    ) -> DefenceStanding:
        seen = sightings.Sighting(inode, ns, SteadyTime(boot, seconds))
        found = machine.look(made, seen=sightings.Sightings((seen,)))
        return found[Defence.LOADED].standing

    assert standing("boot-0", 9e9) is DefenceStanding.PRESENT, "it ran in no other boot"
    assert standing("boot-1", 500) is DefenceStanding.PRESENT
    assert standing("boot-1", 500.02) is DefenceStanding.ABSENT, "it is older than the look"
    # Another file of the same name, or this one changed since: what the daemon found is not known.
    assert standing("boot-0", 1, inode=file.st_ino + 1) is DefenceStanding.ABSENT
    assert standing("boot-0", 1, ns=file.st_ctime_ns - 1) is DefenceStanding.ABSENT
    machine.hook_file.chmod(0o755)
    assert standing("boot-0", 1) is DefenceStanding.ABSENT


def test_host_setup_writes_down_once_that_it_saw_the_hook(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Shell(monkeypatch)
    monkeypatch.setattr(daemons, "tell_to_look", lambda _process: None)
    # A daemon that has only just started would be waited for.
    monkeypatch.setattr(setup, "GROWN_UP", 0.0)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root)]
    argv += ["--library", "/usr/lib"]
    assert sightings.load(machine.state) == sightings.Sightings()
    before = SteadyTime.now(machine.host).seconds - 2 * 86400
    assert cli.main(argv) == 0
    (seen,) = sightings.load(machine.state).hooks
    file = machine.hook_file.stat()
    assert (seen.inode, seen.changed) == (file.st_ino, file.st_ctime_ns)
    assert seen.moment.boot == "boot-1"
    assert seen.moment.seconds > before
    # Of a file that is as it was the first sighting counts, in later boots too.
    machine.put("/proc/sys/kernel/random/boot_id", "boot-2\n")
    assert cli.main(argv) == 0
    assert sightings.load(machine.state).hooks == (seen,)
    machine.process(7, "libvirtd")
    found = machine.look(setup.load(machine.state), seen=sightings.load(machine.state))
    assert found[Defence.LOADED].standing is DefenceStanding.PRESENT
    machine.hook_file.chmod(0o700)
    assert cli.main(argv) == 0
    (anew,) = sightings.load(machine.state).hooks
    assert (anew.inode, anew.moment.boot) == (machine.hook_file.stat().st_ino, "boot-2")


def test_sightings_of_a_later_release_are_read_and_damaged_ones_are_not(machine: Machine) -> None:
    seen = sightings.Sightings((sightings.Sighting(1, 2, SteadyTime("boot-1", 3.0)),))
    sightings.save(machine.state, seen)
    path = sightings.sightings_file(machine.state)
    path.write_bytes(path.read_bytes().replace(b'"inode":1', b'"device":9,"inode":1'))
    assert sightings.load(machine.state) == seen
    path.write_text("{")
    with pytest.raises(BadInputError):
        sightings.load(machine.state)


def test_a_daemon_in_a_container_is_judged_by_what_it_sees(machine: Machine) -> None:
    made = machine.install()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    (machine.root / "proc" / "7" / "root" / "etc" / "libvirt").mkdir(parents=True)
    found = machine.look(made)
    assert found[Defence.HOOK].standing is DefenceStanding.ABSENT
    assert found[Defence.LOADED].standing is DefenceStanding.ABSENT


@pytest.mark.parametrize("place", ["/var/lib/nvme-eraser", "/run/nvme-quarantine"])
def test_a_hook_in_a_container_needs_the_hosts_own_directories(
    machine: Machine, place: str
) -> None:
    """With a book of its own it refuses every guest with a drive, or goes by tickets of then."""
    machine.settings = replace(
        machine.settings, state_dir="/var/lib/nvme-eraser", run_dir="/run/nvme-quarantine"
    )
    machine.state.mkdir(parents=True)
    made = machine.install()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    inside = machine.root / "proc/7/root"
    # All is mounted into it.
    inside.symlink_to(machine.root)
    assert owned_by_root(machine.look(made)[Defence.HOOK])
    inside.unlink()
    shutil.copytree(machine.root / "etc", inside / "etc")
    shutil.copytree(machine.root / "usr", inside / "usr")
    [daemon] = facts.look_at_libvirt(machine.host, machine.run, made).daemons
    assert place in daemon.view.foreign
    (inside / place[1:]).mkdir(parents=True)
    found = machine.look(made)[Defence.HOOK]
    assert found.standing is DefenceStanding.ABSENT
    assert os.geteuid() != 0 or found.detail.startswith("expected the host's own /var/lib/nvme-")
    [daemon] = facts.look_at_libvirt(machine.host, machine.run, made).daemons
    assert place in daemon.view.foreign
    # A host that has none itself has other troubles.
    (machine.root / place[1:]).rmdir()
    assert place not in machine.look(made)[Defence.HOOK].detail


@pytest.mark.parametrize("mounted", [True, False])
def test_a_container_that_does_not_run_is_not_judged_by_the_hosts_own_files(
    machine: Machine, mounted: bool
) -> None:
    """But where the host's hook is mounted into it: that is what its next daemon finds."""
    made, apart = machine.install(), facts.Apart()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    theirs = machine.root / f"proc/7/root/{HOOK}"
    theirs.parent.mkdir(parents=True)
    if mounted:
        os.link(machine.hook_file, theirs)
    else:
        shutil.copy2(machine.hook_file, theirs)
    machine.look(made, apart)
    (machine.root / "proc/7").rename(machine.root / "gone")
    found = machine.look(made, apart)
    if mounted:
        assert owned_by_root(found[Defence.HOOK])
        return
    assert found[Defence.HOOK].standing is DefenceStanding.UNKNOWN
    assert "a container" in found[Defence.HOOK].detail
    assert found[Defence.LOADED].standing is DefenceStanding.UNKNOWN
    shutil.rmtree(machine.root / "etc/libvirt")
    assert machine.look(made, apart)[Defence.HOOK].standing is DefenceStanding.UNKNOWN
    machine.process(8, "libvirtd", started=4e9)
    machine.look(made, apart)
    shutil.rmtree(machine.root / "proc/8")
    assert machine.look(made, apart)[Defence.HOOK].standing is DefenceStanding.NOT_APPLICABLE


def test_a_daemon_that_is_restarted_during_the_look_lacks_no_hook(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is looked at through its own root, which goes with it; absent would cost free slots."""
    made = machine.install()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    look = views.view

    def ends(host: Host, root: str, settings: HookSettings | None) -> ViewSeen:
        if root:
            (machine.root / "proc" / "7").rename(machine.root / "gone")
        return look(host, root, settings)

    monkeypatch.setattr(views, "view", ends)
    found = machine.look(made)
    assert owned_by_root(found[Defence.HOOK])
    assert found[Defence.LOADED].standing is DefenceStanding.PRESENT


def test_a_nova_compute_that_is_restarted_during_the_look_lacks_no_patch(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    machine.process(8, "nova-compute")
    look = daemons.patches

    def ends(host: Host, process: proc.Process) -> tuple[str, ...]:
        (machine.root / "proc" / "8").rename(machine.root / "gone")
        return look(host, process)

    monkeypatch.setattr(daemons, "patches", ends)
    found = machine.look(machine.install())[Defence.PATCH]
    assert found.standing is DefenceStanding.NOT_APPLICABLE


@pytest.mark.parametrize("lacks", [False, True])
def test_an_absolute_link_in_a_container_is_followed_in_it(machine: Machine, lacks: bool) -> None:
    """As a virtual environment has its interpreter: the host's own says nothing of that one."""
    link = "/opt/quarantine/bin/python"
    machine.settings = HookSettings(link, "/usr/lib", "/s", "/r")
    made = machine.install()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    inside = machine.root / "proc" / "7" / "root"
    shutil.copytree(machine.root / "etc", inside / "etc")
    shutil.copytree(machine.root / "usr", inside / "usr")
    (inside / link.lstrip("/")).parent.mkdir(parents=True)
    (inside / link.lstrip("/")).symlink_to("/srv/python3.99")
    if not lacks:
        machine.put("/proc/7/root/srv/python3.99", "").chmod(0o755)
    [daemon] = facts.look_at_libvirt(machine.host, machine.run, made).daemons
    assert (daemon.view.programs[link] is None) is lacks
    assert "/srv" in daemon.view.parents
    found = machine.look(made)[Defence.HOOK]
    if lacks:
        assert found.standing is DefenceStanding.ABSENT
    else:
        assert owned_by_root(found)


def test_links_that_lead_in_a_circle_lead_to_nothing(machine: Machine) -> None:
    made = machine.install()
    python = machine.root / "usr/bin/python"
    python.unlink()
    python.symlink_to("/usr/bin/python")
    assert machine.look(made)[Defence.HOOK].standing is not DefenceStanding.PRESENT


MARK = "/memfd:nvme-quarantine-patch:1:34.0.0 (deleted)"


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("nova-compute", ("/usr/bin/python3", "/usr/bin/nova-compute")),
        ("python3", ("/opt/nova/bin/python", "/opt/nova/bin/nova-compute", "--config-file", "x")),
        ("python3.11", ("python3", "-W", "ignore", "-u", "-m", "nova.cmd.compute")),
        ("python3", ("nova-compute: service",)),
    ],
)
def test_nova_compute_is_known_however_it_was_started(
    machine: Machine, name: str, argv: tuple[str, ...]
) -> None:
    machine.process(30, name, *argv, started=-1000, fds=("/dev/null",))
    found = machine.look(None)[Defence.PATCH]
    assert (found.standing, "process 30" in found.detail) == (DefenceStanding.ABSENT, True)
    machine.process(31, name, *argv, fds=("/dev/null", MARK))
    assert "process 30" in machine.look(None)[Defence.PATCH].detail
    (machine.root / "proc" / "30" / "fd" / "1").symlink_to(MARK)
    assert machine.look(None)[Defence.PATCH].standing is DefenceStanding.PRESENT


@pytest.mark.parametrize(
    ("name", "argv"),
    [
        ("tail", ("tail", "-f", "/var/log/nova/nova-compute.log")),
        ("vim", ("vim", "nova-compute")),
        ("python3", ("python3", "-m", "nova.cmd.api")),
        ("python3", ("python3", "/usr/bin/openstack", "nova-compute")),
        ("python3", ()),
    ],
)
def test_what_is_no_nova_compute(machine: Machine, name: str, argv: tuple[str, ...]) -> None:
    machine.process(30, name, *argv)
    machine.process(31, "nova-compute", state="Z")
    assert machine.look(None)[Defence.PATCH].standing is DefenceStanding.NOT_APPLICABLE


def test_what_cannot_be_read_is_unknown(machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
    machine.process(30, "nova-compute")

    def refuse(*_: object) -> Iterator[str]:
        raise PermissionError("no")

    monkeypatch.setattr(daemons, "patches", refuse)
    found = machine.look(None)
    assert found[Defence.PATCH].standing is DefenceStanding.UNKNOWN
    assert found[Defence.WATCHER].standing is DefenceStanding.ABSENT


def test_what_runs_outside_of_our_pid_namespace_is_unknown_and_not_absent(
    machine: Machine,
) -> None:
    """A worker in a container sees neither libvirt nor nova-compute: they may run on the host."""
    (machine.root / "etc" / "libvirt").rmdir()
    rest = {Defence.HOOK, Defence.LOADED, Defence.PATCH}
    found = machine.look(None)
    assert {found[each].standing for each in rest} == {DefenceStanding.NOT_APPLICABLE}
    machine.in_namespaces("self", pid="pid:[4026532281]")
    found = machine.look(None)
    assert {found[each].standing for each in rest} == {DefenceStanding.UNKNOWN}
    assert all("host's PID namespace" in found[each].detail for each in rest)


def test_guests_without_libvirt_are_no_reason_to_be_at_ease(machine: Machine) -> None:
    (machine.root / "etc" / "libvirt").rmdir()
    assert machine.look(None)[Defence.HOOK].standing is DefenceStanding.NOT_APPLICABLE
    machine.process(40, "qemu-system-x86", fds=("/dev/null", "/dev/kvm"))
    assert machine.look(None)[Defence.HOOK].standing is DefenceStanding.NOT_APPLICABLE
    machine.process(41, "qemu-system-x86", fds=("/dev/vfio/9",))
    assert machine.look(None)[Defence.HOOK].standing is DefenceStanding.ABSENT
    assert machine.look(None)[Defence.LOADED].standing is DefenceStanding.ABSENT


@pytest.mark.parametrize(
    ("device", "standing"),
    [
        (None, DefenceStanding.NOT_APPLICABLE),  # a plain file
        ((True, os.makedev(241, 0)), DefenceStanding.NOT_APPLICABLE),  # a disk
        # /dev/vfio/vfio, which anybody may open, or any other device by that name
        ((False, os.makedev(10, 196)), DefenceStanding.NOT_APPLICABLE),
        (OSError(errno.ESTALE, "its server is gone"), DefenceStanding.NOT_APPLICABLE),
        ((False, os.makedev(241, 0)), DefenceStanding.ABSENT),
        ((False, os.makedev(511, 3)), DefenceStanding.ABSENT),
        (OSError(errno.ENOMEM, "no memory"), DefenceStanding.UNKNOWN),
    ],
)
def test_a_guest_is_known_by_the_device_and_not_by_its_name(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    device: tuple[bool, int] | OSError | None,
    standing: DefenceStanding,
) -> None:
    """Any user may call a process ``qemu`` and, in a mount namespace of its own, a file
    ``/dev/vfio/9``: free slots were taken back for it."""

    def seen(_path: object) -> tuple[bool, int] | None:
        if isinstance(device, OSError):
            raise device
        return device

    (machine.root / "etc" / "libvirt").rmdir()
    machine.put("/proc/devices", "Character devices:\n241 vfio\n511 vfio-dev\n\nBlock devices:\n")
    monkeypatch.setattr(statx, "device", seen)
    machine.process(41, "qemu-system-x86", fds=("/dev/vfio/9",))
    assert machine.look(None)[Defence.HOOK].standing is standing


def test_a_lock_that_nobody_holds_is_no_watcher(tmp_path: Path) -> None:
    assert not facts.look_at_watcher(tmp_path).held
    path = tmp_path / facts.WATCHER_LOCK
    path.write_text(f"1 {time.monotonic() - 30}\n")
    ended = facts.look_at_watcher(tmp_path)
    assert not ended.held
    assert ended.silent is not None
    assert 30 <= ended.silent < 60
    with path.open() as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        seen = facts.look_at_watcher(tmp_path)
        assert seen.held
        assert seen.silent is not None
        assert 30 <= seen.silent < 60
        path.write_text("nonsense")
        assert facts.look_at_watcher(tmp_path) == assessment.WatcherSeen(True, None)


def test_host_setup_installs_checks_and_removes_the_hook(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root)]
    argv += ["--library", "/usr/lib"]
    assert cli.main([*argv, "--check"]) == 1
    assert f"{HOOK}: expected the one for these slots, found none" in capsys.readouterr().err
    assert not machine.hook_file.exists()
    assert cli.main(argv) == 0
    made = setup.load(machine.state)
    assert made is not None
    assert made.slots == ("0000:01:00.0",)
    assert made.hook is not None
    assert machine.hook_file.read_text() == hookfile.text(made.hook)
    assert machine.hook_file.stat().st_mode & 0o7777 == 0o755
    assert cli.main([*argv, "--check"]) == 0
    machine.hook_file.chmod(0o644)
    assert cli.main([*argv, "--check"]) == 1
    assert cli.main([*argv, "--no-gate"]) == 0
    assert not machine.hook_file.exists()
    assert (made := setup.load(machine.state)) is not None
    assert made.hook is None
    # A host without libvirt gets no hook.
    (machine.root / "etc/libvirt/hooks/qemu.d").rmdir()
    (machine.root / "etc/libvirt/hooks").rmdir()
    (machine.root / "etc/libvirt").rmdir()
    assert cli.main(argv) == 0
    assert not machine.hook_file.exists()


def test_an_array_that_would_not_come_back_is_told_as_not_done(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    machine.put("/etc/mdadm.conf", "AUTO +all\n")
    machine.put("/run/mdadm/map", "md0 1.2 a:b /dev/md/0\n")
    argv = ["host-setup", "--root", str(machine.root), "--no-gate", "--pci", "0000:01:00.0"]
    argv += ["-f", "json"]
    with monkeypatch.context() as patch:
        at_home(patch)
        assert cli.main(argv) == 1
        said = capsys.readouterr()
        assert "NOT DONE: /etc/mdadm.conf (md0: running but not named" in said.err
        assert "/etc/mdadm.conf" not in json.loads(said.out)["changed"]
        assert (machine.root / hostrules.UDEV_RULES[1:]).exists()
        assert (machine.root / "etc/mdadm.conf").read_text() == "AUTO +all\n"
        assert cli.main([*argv, "--check"]) == 1
    # What runs where an image is built is not the image's.
    assert cli.main(argv) == 0
    assert "AUTO -all" in (machine.root / "etc/mdadm.conf").read_text()


@pytest.mark.parametrize("how", [[], ["--dry-run"], ["--check"]])
def test_host_setup_drops_no_slot_that_is_only_left_out(
    machine: Machine, how: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    argv = ["host-setup", "--root", str(machine.root), "--no-gate", "--pci", "0000:01:00.0"]
    assert cli.main([*argv, "0000:02:00.0"]) == 0
    rules = machine.root / hostrules.UDEV_RULES.lstrip("/")
    before = rules.read_text()
    assert cli.main([*argv, *how]) == 2
    assert "found 0000:02:00.0 left out" in capsys.readouterr().err
    assert rules.read_text() == before
    assert cli.main([*argv, "00000000:02:00.0", "0000:03:00.0"]) == 0
    assert cli.main([*argv, "--fewer"]) == 0
    assert "0000:02:00.0" not in rules.read_text()
    assert cli.main(argv) == 0
    assert setup.load(machine.state) == setup.Setup(("0000:01:00.0",))


def test_a_record_with_more_zeros_than_sysfs_writes_is_read(machine: Machine) -> None:
    """An earlier host-setup kept addresses as they were given."""
    made = setup.Setup(("00000000:01:00.0",))
    assert made == setup.Setup(("0000:01:00.0",))
    path = setup.setup_file(machine.state)
    path.parent.mkdir(parents=True)
    path.write_bytes(codec.canonical(made).replace(b"0000:01", b"00000000:01"))
    assert setup.load(machine.state) == made


def test_a_damaged_record_is_an_error_and_host_setup_mends_it(machine: Machine) -> None:
    setup.setup_file(machine.state).parent.mkdir(parents=True)
    setup.setup_file(machine.state).write_text("{}")
    with pytest.raises(BadInputError):
        setup.load(machine.state)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    assert cli.main(argv) == 0
    assert setup.load(machine.state) == setup.Setup(("0000:01:00.0",))


@pytest.fixture
def daemon() -> Iterator[Callable[[], subprocess.Popen[bytes]]]:
    """A real process that is called libvirtd and ends at SIGHUP."""
    made: list[subprocess.Popen[bytes]] = []
    # It inherits what becomes of signals: whoever runs the tests may have left this one ignored.
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)

    def start() -> subprocess.Popen[bytes]:
        made.append(subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]))
        return made[-1]

    yield start
    signal.signal(signal.SIGHUP, before)
    for process in made:
        process.kill()
        process.wait()


def test_every_daemon_that_sees_the_hook_is_told(
    machine: Machine,
    daemon: Callable[[], subprocess.Popen[bytes]],
) -> None:
    process = daemon()
    machine.process(process.pid, "libvirtd", started=500)
    assert setup.tell(machine.host) == ()  # there is nothing yet that it would find
    machine.install()
    (told,) = setup.tell(machine.host)
    assert process.wait(10) == -signal.SIGHUP
    assert (told.pid, told.boot) == (process.pid, "boot-1")
    assert told.inode == machine.hook_file.stat().st_ino


def test_who_got_the_number_of_a_daemon_that_ended_meanwhile_is_told_nothing(
    machine: Machine,
    daemon: Callable[[], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    somebody, now = daemon(), machine.host.clock.boottime()
    machine.install()
    machine.process(somebody.pid, "libvirtd", started=now)

    def ends(_seconds: float) -> None:
        (machine.root / "proc" / str(somebody.pid) / "fd").rmdir()
        machine.process(somebody.pid, "libvirtd", started=now + 1)

    monkeypatch.setattr(machine.host.clock, "sleep", ends)
    assert setup.tell(machine.host) == ()
    assert somebody.poll() is None


def test_a_daemon_that_ends_while_another_one_grows_up_is_told_nothing(
    machine: Machine,
    daemon: Callable[[], subprocess.Popen[bytes]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    young, somebody = sorted((daemon(), daemon()), key=lambda each: str(each.pid))
    machine.install()
    machine.process(young.pid, "virtqemud", started=machine.host.clock.boottime())
    machine.process(somebody.pid, "libvirtd", started=500)

    def ends(_seconds: float) -> None:
        (machine.root / "proc" / str(somebody.pid) / "stat").unlink()

    monkeypatch.setattr(machine.host.clock, "sleep", ends)
    assert [told.pid for told in setup.tell(machine.host)] == [young.pid]
    assert somebody.poll() is None


def test_a_daemon_that_is_gone_when_it_is_told_fails_no_host_setup(machine: Machine) -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    machine.install()
    machine.process(gone.pid, "libvirtd", started=500)
    assert setup.tell(machine.host) == ()


class Shell:
    """What became of the commands that make host-setup's files count."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ran: list[str] = []
        self.failing = True
        self.images: list[Path] = []
        """What update-initramfs makes anew."""
        monkeypatch.setattr(cli_hostsetup, "_running", lambda _root: True)
        monkeypatch.setattr(reloads.command, "run", self._run)

    def _run(self, argv: list[str], *, timeout: float) -> SimpleNamespace:
        line = " ".join(argv)
        self.ran.append(line)
        if line == "update-initramfs -u -k all" and self.failing:
            return SimpleNamespace(exit_code=1, stderr="some words\nno space left\n")
        if argv[0] == "update-initramfs":
            # As its own: the newest kernel's alone, unless it is told otherwise.
            for image in self.images if argv[-1] == "all" else self.images[-1:]:
                image.with_suffix(".new").touch()
                image.with_suffix(".new").rename(image)
        return SimpleNamespace(exit_code=0, stderr="")


def test_host_setup_has_its_files_count_or_says_what_is_not_done(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine.root / "etc/lvm").mkdir()
    machine.put("/usr/sbin/update-initramfs", "")
    machine.put("/sys/bus/pci/devices/0000:01:00.0/class", "0x010802\n")
    shell = Shell(monkeypatch)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    assert cli.main(argv) == 1
    trigger = "udevadm trigger --settle --parent-match=/sys/bus/pci/devices/0000:01:00.0"
    assert shell.ran == ["udevadm control --reload", trigger, "update-initramfs -u -k all"]
    said = "NOT DONE: update-initramfs -u -k all (exit code 1: no space left)"
    assert said in capsys.readouterr().err.splitlines()
    found = machine.look(setup.load(machine.state))[Defence.RULES]
    assert found.standing is DefenceStanding.UNKNOWN
    assert cli.main([*argv, "--check"]) == 1
    assert "NOT DONE: update-initramfs -u -k all" in capsys.readouterr().err
    shell.ran.clear()
    shell.failing = False
    assert cli.main(argv) == 0
    assert shell.ran == ["update-initramfs -u -k all"], "only what was left"
    assert "NOT DONE" not in capsys.readouterr().err
    assert (
        machine.look(setup.load(machine.state))[Defence.RULES].standing is DefenceStanding.PRESENT
    )
    shell.ran.clear()
    assert cli.main(argv) == cli.main([*argv, "--check"]) == 0
    assert shell.ran == []


def booted(machine: Machine) -> list[Path]:
    """Two kernels with an initramfs, made an hour ago, and one whose kernel is gone."""
    machine.put("/usr/sbin/update-initramfs", "")
    for version in ("6.1.0-40-amd64", "6.1.0-41-amd64"):
        machine.put(f"/boot/vmlinuz-{version}", "")
        machine.put(f"/boot/initrd.img-{version}", "")
        machine.put(f"/var/lib/initramfs-tools/{version}", "sum")
    machine.put("/boot/initrd.img-6.1.0-7-amd64", "")
    found = sorted((machine.root / "boot").glob("initrd.img-*"))
    for image in found:
        os.utime(image, (time.time() - 3600, time.time() - 3600))
    return found[:2]


def test_each_kernels_initramfs_gets_the_rules(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An older kernel is booted where the newest one does not start."""
    shell = Shell(monkeypatch)
    shell.failing, shell.images = False, booted(machine)
    before = [image.stat().st_ino for image in shell.images]
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    assert cli.main(argv) == 0
    assert all(b != image.stat().st_ino for b, image in zip(before, shell.images, strict=True))
    assert cli.main([*argv, "--check"]) == 0
    shell.ran.clear()
    # An earlier release had the newest one made anew alone.
    os.utime(shell.images[0], (time.time() - 3600, time.time() - 3600))
    assert cli.main([*argv, "--check"]) == 1
    assert cli.main(argv) == 0
    assert shell.ran == ["update-initramfs -u -k all"]
    assert cli.main([*argv, "--check"]) == 0


def test_an_initramfs_that_was_not_made_is_not_done_whatever_the_exit_code(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """/boot is mounted read-only, or the program's own file says that nothing is to be done."""
    shell = Shell(monkeypatch)
    shell.failing, images = False, booted(machine)
    shell.images = images[1:]
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    assert cli.main(argv) == 1
    said = "NOT DONE: update-initramfs -u -k all (exit code 0, but not made anew: "
    assert f"{said}initrd.img-6.1.0-40-amd64; is /boot" in capsys.readouterr().err
    made = setup.load(machine.state)
    assert made is not None
    assert made.pending == ("update-initramfs -u -k all",)
    assert machine.look(made)[Defence.RULES].standing is DefenceStanding.UNKNOWN
    # A person made it otherwise meanwhile.
    images[0].touch()
    assert cli.main(argv) == 0
    found = machine.look(setup.load(machine.state))[Defence.RULES]
    assert found.standing is DefenceStanding.PRESENT


def test_of_an_initramfs_that_all_does_not_know_the_command_is_named(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One that was made by hand: update-initramfs takes its own list for "all"."""
    shell = Shell(monkeypatch)
    shell.failing, images = False, booted(machine)
    shell.images = images[1:]
    (machine.root / "var/lib/initramfs-tools/6.1.0-40-amd64").unlink()
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    assert cli.main(argv) == 1
    said = capsys.readouterr().err
    assert "'all' does not name 6.1.0-40-amd64: update-initramfs -c -t -k 6.1.0-40-amd64" in said
    assert "read-only" not in said
    shell.images = []
    for image in images:
        os.utime(image, (time.time() - 3600,) * 2)
    assert cli.main(argv) == 1
    said = capsys.readouterr().err
    assert "is /boot mounted read-only" in said
    assert "-k 6.1.0-41-amd64" not in said


def test_an_initramfs_that_was_made_counts_though_the_clock_was_set_back(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    shell = Shell(monkeypatch)
    shell.failing, shell.images = False, booted(machine)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    real = hostrules.apply

    def tomorrow(done: tuple[str, ...]) -> tuple[str, ...]:
        os.utime(machine.root / hostrules.UDEV_RULES.lstrip("/"), (time.time() + 86400,) * 2)
        return done

    monkeypatch.setattr(hostrules, "apply", lambda changes: tomorrow(real(changes)))
    assert cli.main(argv) == 0
    assert cli.main([*argv, "--check"]) == 0, "nor is it due until tomorrow"
    os.utime(shell.images[0], (time.time() - 3600,) * 2)
    assert cli.main([*argv, "--check"]) == 1, "an image of before is"


def test_what_an_earlier_release_left_undone_is_done_for_each_kernel(tmp_path: Path) -> None:
    assert hostrules.still_due(["update-initramfs -u"], tmp_path) == ("update-initramfs -u -k all",)


def test_a_host_setup_that_was_cut_off_is_not_known_to_count(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    Shell(monkeypatch)
    monkeypatch.setattr(reloads, "run", cut_off)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    with pytest.raises(RuntimeError):
        cli.main(argv)
    assert (
        machine.look(setup.load(machine.state))[Defence.RULES].standing is DefenceStanding.UNKNOWN
    )


def cut_off(*_given: object) -> None:
    raise RuntimeError("the power went")


def test_what_was_left_for_a_drive_that_is_gone_is_not_due_for_ever(
    machine: Machine, monkeypatch: pytest.MonkeyPatch
) -> None:
    function = machine.put("/sys/bus/pci/devices/0000:01:00.0/class", "0x010802\n").parent
    shell = Shell(monkeypatch)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "--no-gate"]
    with monkeypatch.context() as patch:
        patch.setattr(reloads, "run", cut_off)
        with pytest.raises(RuntimeError):
            cli.main(argv)
    shutil.rmtree(function)  # pulled: udevadm would refuse to trigger what is not there
    assert cli.main([*argv, "--check"]) == 1
    assert cli.main(argv) == 0
    assert shell.ran == ["udevadm control --reload"]
    assert (
        machine.look(setup.load(machine.state))[Defence.RULES].standing is DefenceStanding.PRESENT
    )


def test_an_earlier_release_reads_the_record_of_a_host_that_is_done(machine: Machine) -> None:
    setup.save(machine.state, setup.Setup(("0000:01:00.0",)))
    assert b"pending" not in setup.setup_file(machine.state).read_bytes()


def test_a_program_that_is_not_there_is_not_done() -> None:
    found = reloads.run(["/nonexistent/udevadm control --reload", "true", "false"])
    assert found.done == ("true",)
    assert found.pending == ("/nonexistent/udevadm control --reload", "false")


def test_host_setup_says_what_is_odd_about_its_slots(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    iommu(machine, "identity")
    slots = ["0000:01:00.0", "0000:99:00.0"]
    argv = ["host-setup", "--pci", *slots, "--root", str(machine.root), "-f", "json"]
    assert cli.main([*argv, "--no-gate"]) == 0
    said = json.loads(capsys.readouterr().out)["warnings"]
    assert ["0000:99:00.0: no PCI function" in said[0], "identity" in said[1]] == [True, True]
    machine.put("/sys/bus/pci/devices/0000:99:00.0/class", "0x030000\n")
    assert cli.main([*argv, "--no-gate"]) == BadInputError.exit_code
    assert "class 0x030000 at 0000:99:00.0" in capsys.readouterr().err


def test_without_libvirt_host_setup_says_that_there_is_no_hook(
    machine: Machine, capsys: pytest.CaptureFixture[str]
) -> None:
    (machine.root / "etc/libvirt").rmdir()
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]
    assert cli.main(argv) == 0
    said = json.loads(capsys.readouterr().out)
    assert HOOK not in said["unchanged"]
    assert any("no libvirt on this host, so no hook" in each for each in said["warnings"])


def at_home(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine is the running system. Its daemons are told nothing: ours have their numbers."""
    Shell(monkeypatch)
    monkeypatch.setattr(setup, "tell", lambda _host: ())


def test_what_runs_where_an_image_is_built_is_not_the_images(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The builder's /proc is mounted there."""
    Policy(machine, monkeypatch)
    machine.process(7, "virtqemud", started=4e9)
    machine.put("/proc/7/attr/current", VIRTQEMUD)
    machine.in_a_container(7)
    (machine.root / "proc/7/root/etc/libvirt").mkdir(parents=True)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]

    def warned() -> str:
        assert cli.main(argv) == 0
        return " ".join(json.loads(capsys.readouterr().out)["warnings"])

    assert "process 7" not in warned()
    assert machine.hook_file.exists()
    shutil.rmtree(machine.root / "etc/libvirt")
    assert "no libvirt on this host" in warned()
    assert not machine.hook_file.exists()


def test_libvirt_in_a_container_alone_gets_the_hook_and_a_word_on_its_mounts(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As Kolla has it: nothing of libvirt is on the host, and the self-check asks for the hook."""
    at_home(monkeypatch)
    (machine.root / "etc/libvirt").rmdir()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    inside = machine.root / "proc/7/root"
    (inside / "etc/libvirt").mkdir(parents=True)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]
    argv += ["--library", "/usr/lib"]

    def warned() -> str:
        assert cli.main(argv) == 0
        warnings = json.loads(capsys.readouterr().out)["warnings"]
        return "".join(
            each for each in warnings if each.startswith("libvirtd (process 7) has other")
        )

    for place in ("/etc/libvirt/hooks", "/var/lib/nvme-eraser", sys.executable, "/usr/lib"):
        assert place in warned()
    assert machine.hook_file.is_file()
    made = setup.load(machine.state)
    assert made is not None
    assert made.hook is not None
    shutil.rmtree(inside)
    inside.symlink_to(machine.root)
    machine.put(sys.executable, "").chmod(0o755)
    assert warned() == ""
    assert owned_by_root(machine.look(made)[Defence.HOOK])


def test_a_daemon_with_a_namespace_of_its_own_and_the_hosts_files_lacks_nothing(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As PrivateTmp=yes has it. What host-setup makes only now it will see as well."""
    at_home(monkeypatch)
    machine.run.rmdir()
    machine.process(7, "libvirtd", started=4e9)
    machine.in_a_container(7)
    (machine.root / "proc/7/root").symlink_to(machine.root)
    machine.put(sys.executable, "").chmod(0o755)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]
    argv += ["--library", "/usr/lib"]

    def warned(*how: str) -> str:
        cli.main([*argv, *how])
        return " ".join(json.loads(capsys.readouterr().out)["warnings"])

    assert "process 7" not in warned("--dry-run")
    assert "process 7" not in warned()


VIRTQEMUD = "system_u:system_r:virtqemud_t:s0-s0:c0.c1023"
HOOK_LABEL = "system_u:object_r:virt_hook_t:s0"
UNCONFINED = "system_u:system_r:virt_hook_unconfined_t:s0-s0:c0.c1023"
PERMISSIONS = {
    "file": ("getattr", "execute", "execute_no_trans", "entrypoint"),
    "process": ("fork", "transition"),
}


class Policy:
    """SELinux, enforcing, and what its policy lets whom do; the files of the kernel's answers."""

    def __init__(self, machine: Machine, monkeypatch: pytest.MonkeyPatch) -> None:
        self.allows: set[tuple[str, str, str, str]] = set()
        self.becomes = VIRTQEMUD
        self.flags = 0
        machine.put("/sys/fs/selinux/enforce", "1")
        for number, (kind, permissions) in enumerate(PERMISSIONS.items(), 6):
            place = f"/sys/fs/selinux/class/{kind}"
            machine.put(f"{place}/index", str(number))
            for bit, permission in enumerate(permissions, 1):
                machine.put(f"{place}/perms/{permission}", str(bit))
        monkeypatch.setattr(selinux, "label", lambda _path: HOOK_LABEL)
        monkeypatch.setattr(selinux, "_ask", self._ask)

    def _ask(self, _host: Host, question: str, subject: str, target: str, number: int) -> str:
        kind = [*PERMISSIONS][number - 6]
        if question == "create":
            assert (kind, subject, target) == ("process", VIRTQEMUD, HOOK_LABEL)
            return self.becomes + "\0"
        allowed = sum(
            1 << bit
            for bit, permission in enumerate(PERMISSIONS[kind])
            if (subject, target, kind, permission) in self.allows
        )
        return f"{allowed:x} ffffffff 0 ffffffff 12 {self.flags:x}"


def confined(machine: Machine) -> setup.Setup:
    """virtqemud, as Fedora has it, started after the hook was there."""
    made = machine.install()
    machine.process(7, "virtqemud", started=4e9)
    machine.put("/proc/7/attr/current", VIRTQEMUD + "\0")
    return made


EXECUTE = (VIRTQEMUD, HOOK_LABEL, "file", "execute")
WITHIN = {EXECUTE, (VIRTQEMUD, HOOK_LABEL, "file", "execute_no_trans")}
BEYOND = {
    EXECUTE,
    (VIRTQEMUD, UNCONFINED, "process", "transition"),
    (UNCONFINED, HOOK_LABEL, "file", "entrypoint"),
}


@pytest.mark.parametrize(
    ("allows", "becomes", "standing"),
    [
        (set(), VIRTQEMUD, DefenceStanding.ABSENT),
        ({EXECUTE}, VIRTQEMUD, DefenceStanding.ABSENT),
        (WITHIN, VIRTQEMUD, DefenceStanding.PRESENT),
        (WITHIN, UNCONFINED, DefenceStanding.ABSENT),
        (BEYOND, UNCONFINED, DefenceStanding.PRESENT),
        (BEYOND - {EXECUTE}, UNCONFINED, DefenceStanding.ABSENT),
    ],
)
def test_a_hook_that_selinux_does_not_let_libvirt_execute_is_not_called(
    machine: Machine,
    monkeypatch: pytest.MonkeyPatch,
    allows: set[tuple[str, str, str, str]],
    becomes: str,
    standing: DefenceStanding,
) -> None:
    """libvirt goes by the mode, fails to execute it, and refuses every start."""
    policy = Policy(machine, monkeypatch)
    policy.allows, policy.becomes = allows, becomes
    made = confined(machine)
    found = machine.look(made)[Defence.LOADED]
    assert found.standing is standing
    assert ("SELinux does not let it" in found.detail) is (standing is DefenceStanding.ABSENT)
    policy.flags = 1  # this domain alone is permissive
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.PRESENT
    policy.flags = 0
    machine.put("/sys/fs/selinux/enforce", "0")
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.PRESENT


def test_where_selinux_cannot_be_asked_only_a_call_proves_that_the_hook_is_called(
    machine: Machine,
) -> None:
    machine.put("/sys/fs/selinux/enforce", "1")
    made = confined(machine)
    found = machine.look(made)[Defence.LOADED]
    assert found.standing is DefenceStanding.UNKNOWN
    assert "whether SELinux lets virtqemud execute the hook" in found.detail
    start = (machine.root / "proc/7/stat").read_text().split()[21]
    (machine.run / hookfile.CALLED_FILE).write_text(f"7 {start}\n")
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.PRESENT


@pytest.mark.parametrize("mounted", [True, False])
def test_a_worker_in_a_container_asks_the_hosts_selinux(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, mounted: bool
) -> None:
    """Its own /sys has none: that is no host without SELinux."""
    Policy(machine, monkeypatch)
    made = confined(machine)
    machine.in_namespaces("self", mnt="mnt:[1]")
    machine.in_namespaces("7", mnt="mnt:[1]")
    machine.in_namespaces("1", mnt="mnt:[2]")
    (machine.root / "proc/1/root/sys/fs").mkdir(parents=True)
    selinuxfs = machine.root / "sys/fs/selinux"
    if mounted:
        selinuxfs.rename(machine.root / "proc/1/root/sys/fs/selinux")
    else:
        shutil.rmtree(selinuxfs)
    machine.put("/proc/filesystems", "nodev\tsysfs\nnodev\tselinuxfs\n\text4\n")
    expected = DefenceStanding.ABSENT if mounted else DefenceStanding.UNKNOWN
    assert machine.look(made)[Defence.LOADED].standing is expected
    # SELinux is on and has no policy (SELINUX=disabled): nothing is mounted, and nothing barred.
    machine.put("/proc/7/attr/current", "kernel\0")
    assert machine.look(made)[Defence.LOADED].standing is DefenceStanding.PRESENT


def test_a_question_to_selinux_is_one_write_and_one_read(machine: Machine) -> None:
    """A plain file in place of the kernel's: what was written stands there, and nothing behind."""
    path = machine.put("/sys/fs/selinux/access", "")
    assert selinux._ask(machine.host, "access", "a:b:c", "d:e:f", 6) == ""
    assert path.read_text() == "a:b:c d:e:f 6"


def test_host_setup_writes_no_hook_that_libvirt_may_not_execute(
    machine: Machine, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Running guests would be ended when libvirt is started anew."""
    at_home(monkeypatch)
    policy = Policy(machine, monkeypatch)
    machine.process(7, "virtqemud", started=4e9)
    machine.put("/proc/7/attr/current", VIRTQEMUD)
    argv = ["host-setup", "--pci", "0000:01:00.0", "--root", str(machine.root), "-f", "json"]
    argv += ["--library", "/usr/lib"]
    rules = machine.root / hostrules.UDEV_RULES[1:]
    for how in (["--dry-run"], ["--check"], []):
        assert not rules.exists()
        assert cli.main([*argv, *how]) == 1
        said = capsys.readouterr()
        assert f"NOT DONE: {HOOK} (virtqemud (process 7): SELinux does not let it" in said.err
        assert HOOK in json.loads(said.out)["not_done"][0]
        assert not machine.hook_file.exists()
    assert rules.exists(), "the drives are kept off all the same"
    assert machine.look(setup.load(machine.state))[Defence.HOOK].standing is DefenceStanding.ABSENT
    assert cli.main([*argv, "--check"]) == 1, "it is not as it should be"
    assert cli.main([*argv, "--no-gate"]) == 0
    policy.allows = WITHIN
    assert cli.main(argv) == 0
    assert machine.hook_file.exists()
    policy.allows = set()
    capsys.readouterr()
    assert cli.main(argv) == 0
    assert any(
        "no guest starts" in each for each in json.loads(capsys.readouterr().out)["warnings"]
    )
