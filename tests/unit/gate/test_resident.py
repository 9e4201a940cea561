"""The resident gate and libvirt's hook: both are real processes, and so is what they say."""

from __future__ import annotations

import os
import py_compile
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser import cli
from eraser.gate import hook as hooking
from eraser.gate import hookfile, resident, setup
from eraser.gate.hookfile import HookSettings
from tests.unit.gate.parts import ADDRESS
from tests.unit.gate.test_hook import ABSENT, USB, Hook
from tests.unit.gate.world import World, domain, world

__all__ = ["world"]

TOP = Path(__file__).resolve().parents[3]
REFUSED = 11
WITH_UUID = ABSENT.replace(b"<domain>", b"<domain><uuid>" + b"1" * 32 + b"</uuid>")

DOOR = """\
import os, sys
import eraser.gate.rules

MAX_DOMAIN_BYTES = 1 << 16

def main(name, document, state_dir, run_dir, seconds):
    who = "fork" if sys.meta_path else "resident"
    with open(run_dir + "/asked", "a", errors="surrogateescape") as asked:
        print(who, name, os.getpid(), file=asked)
    {deed}
    print("the word of the", who, file=sys.stderr)
    return 11
"""
"""A gate of the test's: it notes where it is asked."""


@dataclass
class Served(Hook):
    """An installed hook, a copy of the eraser for it, and a resident gate or none."""

    gate_process: subprocess.Popen[bytes] | None = None

    def door(self, deed: str = "pass") -> None:
        """The gate of the test's."""
        Path(self.settings.door).write_text(DOOR.format(deed=deed))

    def change(self, before: str, after: str) -> None:
        """A setting of the installed hook."""
        text = self.path.read_text()
        assert text.count(before) == 1, before
        self.path.write_text(text.replace(before, after))

    def never_forks(self) -> None:
        """What is answered from here on is a resident's answer."""
        self.change("def ask_fork(", "def nothing(")

    @property
    def socket(self) -> Path:
        return self.directory / "run" / hooking.SOCKET

    def serve(self) -> None:
        """Starts it as its unit does; returns when it listens."""
        argv = ["-m", "eraser.cli", "gate", "serve", "--state-dir", self.settings.state_dir]
        self.gate_process = subprocess.Popen(
            [sys.executable, *argv, "--run-dir", self.settings.run_dir],
            env={"PYTHONPATH": self.settings.library, "PYTHONDONTWRITEBYTECODE": "1"},
            cwd="/",
        )
        patience = time.monotonic() + 30
        while not self.socket.exists():
            assert self.gate_process.poll() is None
            assert time.monotonic() < patience
            time.sleep(0.01)

    def asked(self) -> list[str]:
        """Who was asked so far, in turn."""
        path = self.directory / "run" / "asked"
        lines = path.read_text(errors="replace").splitlines() if path.exists() else []
        return [line.split()[0] for line in lines]

    def connect(self) -> socket.socket:
        """A client that says nothing."""
        client = socket.socket(socket.AF_UNIX)
        client.connect(str(self.socket))
        client.settimeout(20)
        return client


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    place = tmp_path / "h"
    (place / "run").mkdir(parents=True)
    (place / "state").mkdir()
    ours = shutil.ignore_patterns("__pycache__")
    shutil.copytree(TOP / "eraser", place / "library" / "eraser", ignore=ours)
    settings = HookSettings(sys.executable, f"{place}/library", f"{place}/state", f"{place}/run")
    made = Served(place, settings)
    text = hookfile.text(settings)
    # Nobody else is root where tests run as a user.
    text = text.replace("\nROOT = 0\n", f"\nROOT = {os.getuid()}\n")
    # Other tests work on this machine too.
    text = text.replace("\nGREETING = 1.0\n", "\nGREETING = 9.0\n")
    hookfile.install(made.path, text.encode())
    yield made
    if made.gate_process is not None:
        made.gate_process.kill()
        made.gate_process.wait()


def test_it_says_what_a_fork_of_the_hook_says(served: Served) -> None:
    by_fork = [served.run("prepare", xml) for xml in (WITH_UUID, USB, ABSENT)]
    served.serve()
    served.never_forks()
    for before, xml in zip(by_fork, (WITH_UUID, USB, ABSENT), strict=True):
        done = served.run("prepare", xml)
        assert (done.returncode, done.stderr) == (before.returncode, before.stderr)
    assert [each.returncode for each in by_fork] == [1, 0, 1]
    assert b"0000:fe:00.0: expected a drive, found no PCI function" in by_fork[0].stderr


def test_all_that_the_gate_may_need_is_loaded_before(served: Served, world: World) -> None:
    """A case begun by hand is what it loads more for, seldom."""
    world.begin_by_hand(ADDRESS)
    shutil.copytree(world.state, served.settings.state_dir, dirs_exist_ok=True)
    served.serve()
    served.never_forks()
    assert b"begun by hand" in served.run("prepare", domain(ADDRESS)).stderr


def test_one_of_the_two_is_asked_and_never_both(served: Served) -> None:
    served.door()
    served.serve()
    done = served.run("prepare", ABSENT)
    assert (done.returncode, done.stderr) == (1, b"the word of the resident\n")
    assert served.asked() == ["resident"]
    assert served.gate_process is not None
    served.gate_process.kill()
    served.gate_process.wait()
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    assert served.asked() == ["resident", "fork"]


def test_nobody_but_root_may_ask_it(served: Served) -> None:
    served.serve()
    seen = served.socket.stat()
    assert (seen.st_mode & 0o777, seen.st_uid) == (0o600, os.getuid())
    assert sorted(os.listdir(served.socket.parent)) == [served.socket.name]


def test_nobody_connects_before_it_is_roots_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    modes = []
    listen = socket.socket.listen

    def noted(self: socket.socket, backlog: int) -> None:
        modes.append(Path(self.getsockname()).stat().st_mode & 0o777)
        listen(self, backlog)

    monkeypatch.setattr(socket.socket, "listen", noted)
    resident.listen(tmp_path / "gate.sock").close()
    assert modes == [0o600]


@pytest.mark.parametrize(
    "setting",
    ["LIBRARY = ", "STATE_DIR = ", "sys.version", "ROOT = ", "nvme-quarantine gate 1"],
)
def test_one_that_is_not_like_the_hook_is_not_asked(served: Served, setting: str) -> None:
    """The directories are the same ones by other names: what counts is what the hook was told."""
    served.door()
    served.serve()
    other = served.directory / "other"
    name = setting.partition(" = ")[0].lower()
    if setting.endswith("R = ") or setting.endswith("Y = "):
        before = getattr(served.settings, name)
        other.symlink_to(before)
        served.change(f'{setting}"{before}"', f'{setting}"{other}"')
    elif setting == "ROOT = ":
        served.change(f"{setting}{os.getuid()}", f"{setting}4711")
    else:
        served.change(setting, '"3.11.0"' if setting == "sys.version" else "another protocol")
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    assert served.asked() == ["fork"]


def test_another_directory_of_the_same_name_is_another(tmp_path: Path) -> None:
    """As a mount namespace has it."""
    state = tmp_path / "state"
    state.mkdir()
    before = hooking.greeting(str(state), "/run", "/lib")
    assert hooking.greeting(str(state), "/run", "/lib") == before
    state.rename(tmp_path / "old")
    state.mkdir()
    assert hooking.greeting(str(state), "/run", "/lib") != before


@pytest.mark.parametrize(
    "module", ["gate/door.py", "gate/rules.py", "gate/resident.py", "casefiles.py", "__init__.py"]
)
def test_changed_code_gives_no_answer(served: Served, module: str) -> None:
    """Also of the same size and age, as a package made twice from one source date has it."""
    served.door()
    served.serve()
    path = Path(served.settings.library, "eraser", module)
    before = path.stat()
    fresh = path.with_name("fresh")
    fresh.write_bytes(path.read_bytes())
    os.utime(fresh, ns=(before.st_atime_ns, before.st_mtime_ns))
    fresh.replace(path)
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    assert served.asked() == ["fork"]
    assert served.gate_process is not None
    assert served.gate_process.wait(20) == 0
    assert served.run("prepare", ABSENT).returncode == 1
    served.socket.unlink()
    served.serve()
    served.run("prepare", ABSENT)
    assert served.asked() == ["fork", "fork", "resident"]


def test_code_that_was_exchanged_while_it_was_loaded_gives_no_answer(served: Served) -> None:
    """What was loaded is not what is there, whichever of the two came first."""
    served.door()
    door = Path(served.settings.door)
    rules = door.with_name("rules.py")
    exchange = (
        "if sys.argv[0].endswith('resident.py'):\n"
        f"    os.rename({str(rules)!r}, {str(rules)!r} + '.old')\n"
        f"    open({str(rules)!r}, 'w').write(open({str(rules)!r} + '.old').read())\n"
    )
    door.write_text(door.read_text().replace("\n\nMAX_", f"\n{exchange}\nMAX_"))
    served.serve()
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    assert served.gate_process is not None
    assert served.gate_process.wait(20) == 0


def test_a_fork_that_takes_long_keeps_the_socket_from_nobody(served: Served) -> None:
    """What waits at a socket that nobody serves any more would wait for its whole patience."""
    os.mkfifo(served.directory / "run" / "held")
    served.door('name == "held" and open(run_dir + "/held").read()')
    served.serve()
    with ThreadPoolExecutor() as pool:
        held = pool.submit(served.run, "prepare", ABSENT, "held")
        with open(served.directory / "run" / "held", "w"):
            Path(served.settings.door).touch()
            assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
            assert served.gate_process is not None
            assert served.gate_process.wait(20) == 0
            with pytest.raises(ConnectionRefusedError):
                served.connect()
        assert held.result().stderr == b"the word of the resident\n"


def test_code_that_is_gone_or_was_never_seen_is_stale(tmp_path: Path) -> None:
    (tmp_path / "eraser").mkdir()
    path = tmp_path / "eraser" / "a.py"
    path.write_text("")
    assert resident.sources(str(tmp_path)) == {str(path): resident.identity(str(path))}
    assert not resident.stale({**resident.sources(str(tmp_path))})
    assert resident.stale({str(path): None}), "it was loaded, and came after the first look"
    seen = resident.sources(str(tmp_path))
    path.write_text("")
    assert resident.stale({**seen}), "written in place"
    seen = resident.sources(str(tmp_path))
    path.unlink()
    assert resident.stale({**seen})


@pytest.mark.parametrize("gone", ["its socket", "its directory", "a file of ours"])
def test_it_looks_unasked_and_ends_where_nobody_will_ask_it(served: Served, gone: str) -> None:
    path = Path(served.settings.library, "eraser", "gate", "resident.py")
    text = path.read_text()
    assert text.count("LOOK_EVERY = 30.0") == 1
    path.write_text(text.replace("LOOK_EVERY = 30.0", "LOOK_EVERY = 0.1"))
    served.serve()
    assert served.gate_process is not None
    with pytest.raises(subprocess.TimeoutExpired):
        served.gate_process.wait(1)
    if gone == "its socket":
        served.socket.unlink()
    elif gone == "its directory":
        shutil.rmtree(served.socket.parent)
    else:
        path.with_name("rules.py").touch()
    assert served.gate_process.wait(20) == 0


def test_a_fork_that_breaks_off_has_the_hook_decide(served: Served) -> None:
    """Before its answer; whom it let in before that is known by then (test_desk)."""
    served.door('who == "fork" or os.kill(os.getpid(), 9)')
    served.serve()
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    assert served.asked() == ["resident", "fork"]
    served.door('who == "fork" or 1 / 0')
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"


@contextmanager
def playing(served: Served, part: Callable[[socket.socket], None]) -> Iterator[None]:
    """A stand-in for a resident gate: it greets as one, and then plays its part, once."""
    greeting = hooking.greeting(
        served.settings.state_dir, served.settings.run_dir, served.settings.library
    )

    def play() -> None:
        client, _address = listener.accept()
        with client:
            client.sendall(greeting)
            part(client)

    with resident.listen(served.socket) as listener:
        player = threading.Thread(target=play)
        player.start()
        yield
        player.join()


def hear(client: socket.socket) -> None:
    while client.recv(1 << 16):
        pass


@pytest.mark.parametrize("said", [b"", b"0", b"11", b"eleven\0", b"\0"])
def test_half_an_answer_is_none(served: Served, said: bytes) -> None:
    served.door()

    def part(client: socket.socket) -> None:
        hear(client)
        client.sendall(said)

    with playing(served, part):
        assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"


def test_an_answer_counts_although_the_connection_breaks_after_it(served: Served) -> None:
    served.door()

    def part(client: socket.socket) -> None:
        hear(client)
        client.sendall(b"11\0the word of the stand-in\n")

    with playing(served, part):
        assert served.run("prepare", ABSENT).stderr == b"the word of the stand-in\n"
    assert served.asked() == []


def test_one_that_took_the_question_and_stays_mute_refuses_in_time(served: Served) -> None:
    """A fork of the hook would be late as well, and two must not decide at once."""
    served.door()
    served.change("TIMEOUT = 10.0", "TIMEOUT = 0.5")
    served.change("max(0.0, ends - time.monotonic())", "30")  # a fork would have all the time
    over = threading.Event()

    def part(client: socket.socket) -> None:
        hear(client)
        over.wait(30)

    with playing(served, part):
        done = served.run("prepare", ABSENT)
        over.set()
    assert done.returncode == 1
    assert b"none within 0.5 s" in done.stderr
    assert served.asked() == []


def test_one_that_never_greets_is_not_waited_for(served: Served) -> None:
    """Stopped, or stuck: its socket takes connections, and nobody takes the question."""
    served.door()
    served.change("GREETING = 9.0", "GREETING = 0.3")
    with resident.listen(served.socket):
        assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    served.socket.unlink()
    served.serve()
    assert served.gate_process is not None
    served.gate_process.send_signal(signal.SIGSTOP)
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    served.gate_process.send_signal(signal.SIGCONT)
    assert served.asked() == ["fork", "fork"]


def test_a_late_fork_decides_nothing_more(served: Served) -> None:
    """When the guest was refused it is dead."""
    served.door('who == "fork" or __import__("time").sleep(30)')
    served.serve()
    served.change("TIMEOUT = 10.0", "TIMEOUT = 3.0")
    served.change(
        "def ask_fork(", "def ask_fork(name, xml, ends): return 1, 'not let in'\ndef fork("
    )
    assert b"not let in" in served.run("prepare", ABSENT).stderr
    (line,) = (served.directory / "run" / "asked").read_text().splitlines()
    stat = Path("/proc", line.split()[2], "stat")
    assert not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


def test_time_counts_from_its_greeting(served: Served) -> None:
    """A fork that was stopped, or a question that came slowly: whoever asked has less time left."""
    served.door()
    served.serve()
    with served.connect() as client:
        assert client.recv(1 << 12)
        client.sendall(b"guest\x004.0\x001.0\x007\0")
        time.sleep(1)
        client.sendall(b"<domain")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert served.asked() == []


def test_its_forks_die_in_time_whoever_started_it(served: Served) -> None:
    """What a parent does with signals is handed down."""
    served.door('open(run_dir + "/signals", "w").write(open("/proc/self/status").read())')
    before = signal.signal(signal.SIGALRM, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGALRM})
    try:
        served.serve()
    finally:
        signal.signal(signal.SIGALRM, before)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGALRM})
    served.run("prepare", ABSENT)
    status = (served.directory / "run" / "signals").read_text().splitlines()
    seen = dict(line.split(":", 1) for line in status)
    alarm = 1 << (signal.SIGALRM - 1)
    assert [int(seen[each], 16) & alarm for each in ("SigBlk", "SigIgn", "SigCgt")] == [0, 0, 0]


def test_a_compiled_file_of_another_version_is_not_loaded(served: Served) -> None:
    """Python takes one by its source's time and size, which two versions may have in common."""
    served.door()
    door = Path(served.settings.door)
    text = door.read_text()
    door.write_text(text.replace("the word", "old word"))
    py_compile.compile(str(door))
    before = door.stat()
    door.write_text(text)
    os.utime(door, ns=(before.st_atime_ns, before.st_mtime_ns))
    served.serve()
    assert served.run("prepare", ABSENT).stderr == b"the word of the resident\n"


def test_a_second_one_does_not_take_its_place(served: Served) -> None:
    """The first would be deaf from then on, and nobody there once the second ends."""
    served.door()
    served.serve()
    argv = [sys.executable, "-IS", f"{served.settings.library}/eraser/gate/resident.py"]
    argv += [served.settings.state_dir, served.settings.run_dir]
    done = subprocess.run(argv, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "found [Errno 98] another resident gate; stop that one first" in done.stderr
    assert served.run("prepare", ABSENT).stderr == b"the word of the resident\n"


def test_a_start_that_takes_long_keeps_no_other(served: Served) -> None:
    os.mkfifo(served.directory / "run" / "held")
    served.door('name == "held" and open(run_dir + "/held").read()')
    served.serve()
    with ThreadPoolExecutor() as pool:
        held = pool.submit(served.run, "prepare", ABSENT, "held")
        assert served.run("prepare", ABSENT).stderr == b"the word of the resident\n"
        assert not held.done()
        (served.directory / "run" / "held").write_text("")
        assert held.result().stderr == b"the word of the resident\n"
    assert served.asked() == ["resident", "resident"]


def test_silent_clients_keep_nobody_and_are_let_go(served: Served) -> None:
    served.door()
    copy = Path(served.settings.library, "eraser", "gate", "hook.py")
    copy.write_text(copy.read_text().replace("\nTIMEOUT = 10.0", "\nTIMEOUT = 2.0"))
    served.serve()
    with served.connect() as silent:
        assert silent.recv(1 << 12)
        assert served.run("prepare", ABSENT).stderr == b"the word of the resident\n"
        assert silent.recv(1) == b"", "its time is up"


def test_its_forks_are_counted_and_reaped(served: Served) -> None:
    served.door()
    served.serve()
    for _ in range(resident.FORKS + 8):
        with served.connect() as client:
            assert client.recv(1 << 12)
    clients = [served.connect() for _ in range(resident.FORKS + 8)]
    greeted = [bool(client.recv(1 << 12)) for client in clients]
    assert True in greeted
    assert False in greeted, "each may hold a domain in memory"
    assert served.run("prepare", ABSENT).stderr == b"the word of the fork\n"
    for client in clients:
        client.close()


def test_a_domain_that_is_too_large_or_not_whole_is_not_decided(served: Served) -> None:
    served.door()
    served.serve()
    large = b"<domain><hostdev/>" + b"<metadata/>" * 7000 + b"</domain>"
    assert len(large) > 1 << 16
    assert served.run("prepare", large).stderr == b"the word of the fork\n"
    assert served.asked() == ["fork"]
    with served.connect() as client:
        client.recv(1 << 12)
        client.sendall(b"guest\x004.0\x0010.0\x0010\0<domain")
        client.shutdown(socket.SHUT_WR)
        assert client.recv(1) == b""
    assert served.asked() == ["fork"]


def test_a_large_domain_arrives_whole(served: Served) -> None:
    served.door('open(run_dir + "/xml", "wb").write(document)')
    served.serve()
    xml = b"<domain><hostdev/>" + "<a>ä</a>".encode() * 5000 + b"</domain>"
    done = served.run("prepare", xml, name="name\udcff")
    assert done.stderr == b"the word of the resident\n"
    assert (served.directory / "run" / "xml").read_bytes() == xml
    assert (served.directory / "run" / "asked").read_bytes().split()[:2] == [
        b"resident",
        b"name\xff",
    ]


def test_where_it_cannot_listen_it_says_so_in_a_line(served: Served) -> None:
    argv = [sys.executable, "-IS", f"{served.settings.library}/eraser/gate/resident.py"]
    done = subprocess.run(
        [*argv, served.settings.state_dir, "/proc/none"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("nvme-eraser: expected to listen in /proc/none, found ")
    assert done.stderr.count("\n") == 1


def test_status_knows_whether_one_answers(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hooking, "ROOT", os.getuid())
    state = Path(served.settings.state_dir)
    assert not setup.unattended(state), "no hook is set up"
    setup.save(state, setup.Setup((ADDRESS,), served.settings))
    assert setup.unattended(state)
    served.serve()
    assert not setup.unattended(state)
    setup.setup_file(state).write_text("{")
    assert not setup.unattended(state), "the self-check tells of it"


def unit(name: str) -> dict[str, list[str]]:
    """A unit's settings by name, each with all of its values."""
    found: dict[str, list[str]] = {}
    for line in (TOP / "docs" / "samples" / f"nvme-eraser-{name}.service").read_text().splitlines():
        setting, given, value = line.partition("=")
        if given and not line.startswith("#"):
            found.setdefault(setting, []).append(value)
    return found


def test_its_unit_lets_it_see_what_the_hook_sees(monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision in a sandbox that hides something would be another one."""
    ours, workers = unit("gate"), unit("worker")
    (command,) = ours["ExecStart"]
    called: list[tuple[str, list[str]]] = []
    monkeypatch.setattr(os, "execv", lambda program, argv: called.append((program, argv)))
    cli.main(command.split()[1:])
    ((program, argv),) = called
    script = TOP / "eraser" / "gate" / "resident.py"
    directories = ["/var/lib/nvme-eraser", "/run/nvme-quarantine"]
    assert (program, argv) == (sys.executable, [sys.executable, "-IS", str(script), *directories])
    assert ours["CapabilityBoundingSet"] == workers["CapabilityBoundingSet"]
    assert ours["Restart"] == ["always"], "it ends when its files were changed"
    hiding = ("Protect", "Private", "ReadOnly", "Inaccessible", "Temporary", "Root", "Device")
    assert [setting for setting in ours if setting.startswith(hiding)] == []
