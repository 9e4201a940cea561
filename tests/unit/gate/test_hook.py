"""The hook as libvirt runs it: the installed file, a real shell, a real Python."""

from __future__ import annotations

import io
import os
import shutil
import socket
import subprocess
import sys
import tarfile
import time
from dataclasses import dataclass
from pathlib import Path

import pytest

from eraser.gate import hook as hooking
from eraser.gate import hookfile
from eraser.gate.hookfile import HookSettings
from tests.lab import releases

TOP = Path(__file__).resolve().parents[3]
SAMPLES = Path(__file__).parent / "samples"

LIBVIRTS = {"LC_ALL": "C", "PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root"}
"""The whole environment that libvirt gives to a hook."""

PLAIN = b"<domain><name>g</name><devices><disk type='file'/></devices></domain>"
SOURCE = (
    b"<source><address domain='0x0000' bus='%s' slot='0x00' function='0x0'/></source>"
    b"<address type='pci' domain='0x0000' bus='0x01' slot='0x00' function='0x0'/>"
)
ABSENT = (
    b"<domain><devices><hostdev type='pci'>" + SOURCE % b"0xfe" + b"</hostdev></devices></domain>"
)
ABSENT_OF_A_DOMAIN = ABSENT.replace(
    b"<domain>", b"<domain><uuid>11111111-1111-1111-1111-111111111111</uuid>"
)
USB = (
    b"<domain><devices><hostdev type='usb'><source><address bus='1' device='3'/></source>"
    b"</hostdev></devices></domain>"
)

DOOR = """\
import os

def main(name, document, *rest):
    domain = os.memfd_create("domain")
    os.pwrite(domain, document, 0)
    os.dup2(domain, 0)
    os.execv("/bin/sh", ["sh", "-c", {script!r}, "gate", name, *map(str, rest)])
"""


@dataclass
class Hook:
    """An installed hook whose gate is a script of the test's."""

    directory: Path
    settings: HookSettings

    @property
    def path(self) -> Path:
        return self.directory / "hooks" / "qemu.d" / "50-nvme-quarantine"

    @property
    def called(self) -> Path:
        return self.directory / "run" / hookfile.CALLED_FILE

    def gate(self, script: str) -> None:
        """What the gate does; its arguments are the door's, its standard input the domain."""
        door = Path(self.settings.door)
        door.parent.mkdir(parents=True, exist_ok=True)
        door.write_text(DOOR.format(script=script))

    def remove_gate(self) -> None:
        """No eraser is installed any more."""
        shutil.rmtree(self.settings.library, ignore_errors=True)

    def run(
        self, operation: str, xml: bytes = PLAIN, name: str = "guest"
    ) -> subprocess.CompletedProcess[bytes]:
        argv = [str(self.path), name, operation, "begin", "-"]
        return subprocess.run(
            argv, input=xml, env=LIBVIRTS, cwd="/", capture_output=True, check=False, timeout=60
        )


@pytest.fixture
def hook(tmp_path: Path) -> Hook:
    (tmp_path / "run").mkdir()
    settings = HookSettings(
        sys.executable, f"{tmp_path}/library", f"{tmp_path}/state", f"{tmp_path}/run"
    )
    made = Hook(tmp_path, settings)
    hookfile.install(made.path, hookfile.text(settings).encode())
    return made


def test_the_gate_gets_the_domain_and_its_word_counts(hook: Hook) -> None:
    hook.gate(f'cat >{hook.directory}/xml; echo "$@" >{hook.directory}/argv; exit 0')
    done = hook.run("prepare", ABSENT, name="-guest")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")
    assert (hook.directory / "xml").read_bytes() == ABSENT
    state, run = hook.settings.state_dir, hook.settings.run_dir
    *given, seconds = (hook.directory / "argv").read_text().split()
    assert given == ["-guest", state, run]
    assert 1 < float(seconds) <= hooking.BUDGET - hooking.SPARE
    hook.gate("cat >/dev/null; echo 'the drive was written to; release it' >&2; exit 11")
    done = hook.run("prepare", ABSENT)
    assert (done.returncode, done.stdout) == (1, b"")
    assert done.stderr == b"the drive was written to; release it\n"


@pytest.mark.parametrize(
    "sample",
    [None, *sorted(SAMPLES.glob("hook-*.txt"))],
    ids=lambda path: getattr(path, "stem", "now"),
)
def test_the_real_gate_answers_through_it(tmp_path: Path, sample: Path | None) -> None:
    """Nothing of an environment, no site: what the hook names is all that it needs.

    The samples are hooks as former commits installed them, with paths to be put in: a package is
    replaced before host-setup runs again, and guests start meanwhile.
    """
    (tmp_path / "state").mkdir()
    settings = HookSettings(sys.executable, str(TOP), f"{tmp_path}/state", f"{tmp_path}/run")
    real = Hook(tmp_path, settings)
    text = placed(sample.read_text(), settings) if sample else hookfile.text(settings)
    hookfile.install(real.path, text.encode())
    done = real.run("prepare", ABSENT_OF_A_DOMAIN)
    assert done.returncode == 1
    assert done.stderr.startswith(b"nvme-eraser: refused the start of domain")
    assert b"0000:fe:00.0: expected a drive, found no PCI function" in done.stderr
    assert real.run("prepare", USB).returncode == 0


def placed(sample: str, settings: HookSettings) -> str:
    """The hook of a former release, with the paths of an installation."""
    for word, value in (
        ("/PYTHON", settings.python),
        ("/LIBRARY", settings.library),
        ("/STATE", settings.state_dir),
        ("/RUN", settings.run_dir),
    ):
        sample = sample.replace(f'"{word}', f'"{value}')
    return sample


def test_a_former_release_s_resident_gate_answers_nobody_once_the_package_is_ours(
    tmp_path: Path,
) -> None:
    """0ea6932 kept a gate loaded. Its unit and its hook are still there when the package is
    replaced, and a guest that starts then is judged by the rules of today."""
    former, library, run = tmp_path / "former", tmp_path / "library", tmp_path / "run"
    (tmp_path / "state").mkdir(0o700)
    with tarfile.open(fileobj=io.BytesIO(releases.archive("0ea6932"))) as tar:
        tar.extractall(former, filter="data")
    # A package that is replaced is another file at the same place.
    shutil.copytree(former, library)
    settings = HookSettings(sys.executable, str(library), f"{tmp_path}/state", str(run))
    hook = Hook(tmp_path, settings)
    hookfile.install(hook.path, placed(releases.hook("0ea6932"), settings).encode())
    argv = [
        settings.python,
        "-IS",
        f"{library}/eraser/gate/resident.py",
        settings.state_dir,
        str(run),
    ]
    with subprocess.Popen(argv, stderr=subprocess.PIPE) as resident:
        try:
            assert greeting(run / "gate.sock").startswith(b"nvme-quarantine gate 1\0")
            before = hook.run("prepare", ABSENT_OF_A_DOMAIN)
            assert before.returncode == 1
            assert resident.poll() is None
            shutil.rmtree(library)
            hook.gate("cat >/dev/null; echo 'by what is installed now' >&2; exit 11")
            after = hook.run("prepare", ABSENT_OF_A_DOMAIN)
            assert resident.wait(60) == 0, "as a unit with Restart=always it calls 'gate serve' now"
        finally:
            resident.kill()
    assert before.stderr.startswith(b"nvme-eraser: refused the start of domain")
    assert (after.returncode, after.stderr) == (1, b"by what is installed now\n")
    # The file of the socket stays when it ends.
    assert hook.run("prepare", ABSENT_OF_A_DOMAIN).stderr == after.stderr


def greeting(path: Path) -> bytes:
    """What a resident gate says first, once it listens."""
    ends = time.monotonic() + 60
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as asking:
        while asking.connect_ex(str(path)):
            assert time.monotonic() < ends, f"expected a gate at {path}, found none in 60 s"
            time.sleep(0.05)
        return asking.recv(1 << 12)


@pytest.mark.parametrize(
    "operation", ["start", "started", "stopped", "release", "reconnect", "migrate"]
)
def test_no_other_operation_is_ever_refused(hook: Hook, operation: str) -> None:
    """A no at reconnect ends a running guest; and none of them costs the time of a question."""
    hook.gate(f"touch {hook.directory}/asked; exit 11")
    assert hook.run(operation, ABSENT).returncode == 0
    assert not (hook.directory / "asked").exists()
    hook.remove_gate()
    assert hook.run(operation, ABSENT).returncode == 0
    broken = hook.path.read_text().replace(f'"{sys.executable}" -IS', '"/no/python" -IS')
    hook.path.write_text(broken)
    assert hook.run(operation, ABSENT).returncode == 0


def test_a_guest_without_pci_devices_asks_nobody(hook: Hook) -> None:
    hook.gate(f"touch {hook.directory}/asked; exit 11")
    assert hook.run("prepare", PLAIN).returncode == 0
    assert not (hook.directory / "asked").exists()


@pytest.mark.parametrize(
    "words",
    [
        b"<hostdev/>",
        b"<interface type='hostdev'/>",
        b"<disk type='nvme'/>",
        b"<qemu:arg value='-device'/>",
        b"<a value='vfio-pci'/>",
        b"<source dev='/dev/nvme0n1'/>",
    ],
)
def test_every_domain_that_may_have_a_drive_is_asked_about(hook: Hook, words: bytes) -> None:
    hook.gate("exit 11")
    assert hook.run("prepare", b"<domain>" + words + b"</domain>").returncode == 1


BROKEN = {
    "missing": "",
    "crashing": "echo 'Traceback (most recent call last):' >&2; echo 'KeyError: 1' >&2; exit 1",
    "misunderstood": "echo 'nvme-eraser: no such verb' >&2; exit 2",
    "killed": "kill -9 $$",
}


@pytest.mark.parametrize("how", BROKEN)
def test_a_broken_eraser_keeps_back_guests_with_drives_only(hook: Hook, how: str) -> None:
    if BROKEN[how]:
        hook.gate(BROKEN[how])
    done = hook.run("prepare", ABSENT)
    assert done.returncode == 1
    assert done.stderr.startswith(b"nvme-quarantine: guest guest does not start: it has an NVMe")
    assert done.stderr.count(b"\n") == 1
    assert hook.run("prepare", USB).returncode == 0
    assert hook.run("prepare", PLAIN).returncode == 0


@pytest.mark.parametrize("source", ["<source file='/a'/>", "<source file='/a'></source>"])
def test_what_the_guest_calls_its_own_devices_is_not_looked_for_on_the_host(
    monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    """A GPU's guest, and an eraser that gives no answer."""
    gpu = "<source><address bus='0x41' slot='0' function='0'/></source>"
    disk = f"<disk>{source}<address type='pci' bus='0x04' slot='0' function='0'/></disk>"
    classes = {"0000:41:00.0": "0x030000"}
    monkeypatch.setattr(hooking, "pci_class", lambda address: classes.get(address, ""))
    xml = f"<domain>{disk}<hostdev>{gpu}</hostdev></domain>".encode()
    assert not hooking.may_have_nvme(xml)
    classes["0000:41:00.0"] = hooking.NVME_CLASS
    assert hooking.may_have_nvme(xml)
    del classes["0000:41:00.0"]
    assert hooking.may_have_nvme(xml), "a drive that is absent"


def test_a_domain_larger_than_any_pipe_arrives_whole(hook: Hook) -> None:
    xml = b"<domain><hostdev/>" + b"<metadata/>" * 50_000 + b"</domain>"
    hook.gate(f"cat >{hook.directory}/xml; exit 0")
    assert hook.run("prepare", xml).returncode == 0
    assert (hook.directory / "xml").read_bytes() == xml
    assert hook.run("started", xml).returncode == 0


def test_a_broken_python_keeps_back_guests_with_devices_only(hook: Hook) -> None:
    hook.gate("exit 0")
    broken = hook.path.read_text().replace(f'"{sys.executable}" -IS', '"/no/python" -IS')
    hook.path.write_text(broken)
    done = hook.run("prepare", ABSENT)
    assert done.returncode == 1
    assert b"expected" in done.stderr.splitlines()[-1]
    assert hook.run("prepare", PLAIN).returncode == 0


def test_a_gate_that_hangs_refuses_in_time(hook: Hook) -> None:
    text = hook.path.read_text()
    assert text.count("BUDGET = 25.0") == 1
    hook.path.write_text(text.replace("BUDGET = 25.0", "BUDGET = 0.5"))
    # A child of the gate that cannot be killed keeps its output open: nobody may wait for it.
    hook.gate("sleep 20 & wait")
    began = time.monotonic()
    done = hook.run("prepare", ABSENT)
    assert done.returncode == 1
    assert b"none within 0.5 s" in done.stderr
    assert time.monotonic() - began < 10


def test_every_call_says_which_daemon_called(hook: Hook) -> None:
    for operation in ("prepare", "reconnect"):
        hook.called.unlink(missing_ok=True)
        hook.run(operation)
        pid, start = hook.called.read_text().split()
        own = Path("/proc/self/stat").read_text().rpartition(")")[2].split()
        assert (int(pid), start) == (os.getpid(), own[19])


def test_a_missing_run_directory_changes_nothing(hook: Hook) -> None:
    shutil.rmtree(hook.directory / "run")
    hook.gate("exit 0")
    done = hook.run("prepare", ABSENT)
    assert (done.returncode, done.stderr) == (0, b"")
    assert hook.run("release", ABSENT).returncode == 0


def test_the_bell_names_the_slots(hook: Hook) -> None:
    text = hook.path.read_text()
    # No NVMe drive is needed on this machine: the bell is about functions of another class here.
    devices = sorted(path.name for path in Path("/sys/bus/pci/devices").glob("*"))
    if not devices:
        pytest.skip("this machine has no PCI functions")
    address = devices[0]
    kind = Path(f"/sys/bus/pci/devices/{address}/class").read_text().strip()
    hook.path.write_text(text.replace('NVME_CLASS = "0x010802"', f'NVME_CLASS = "{kind}"'))
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as bell:
        bell.bind(f"{hook.directory}/run/bell.sock")
        bell.settimeout(10)
        xml = b"<domain><hostdev/><qemu:arg value='vfio-pci,host=%s'/></domain>" % address.encode()
        assert hook.run("release", xml).returncode == 0
        assert bell.recv(1024) == address.encode()


def test_what_an_installation_that_was_cut_off_left_hinders_no_later_one(tmp_path: Path) -> None:
    path = tmp_path / "hooks" / "qemu.d" / "50-nvme-quarantine"
    path.parent.mkdir(parents=True)
    (path.parent.parent / f".{path.name}.{os.getpid()}.tmp").write_text("#!/bin")
    hookfile.install(path, b"#!/bin/sh\n")
    assert path.read_bytes() == b"#!/bin/sh\n"
    assert os.listdir(path.parent.parent) == ["qemu.d"]


def test_nothing_half_written_is_ever_in_the_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """libvirt runs whatever is executable there, and passes by what is not."""
    path = tmp_path / "hooks" / "qemu.d" / "50-nvme-quarantine"
    seen: list[tuple[list[str], int]] = []
    fsync = os.fsync

    def look(descriptor: int) -> None:
        seen.append((sorted(os.listdir(path.parent)), os.fstat(descriptor).st_mode & 0o777))
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", look)
    hookfile.install(path, b"#!/bin/sh\n")
    assert seen[0] == ([], 0o755)
    assert path.stat().st_mode & 0o777 == 0o755
    assert sorted(os.listdir(path.parent.parent)) == ["qemu.d"]
    hookfile.remove(path)
    hookfile.remove(path)
    assert list(path.parent.iterdir()) == []


@pytest.mark.parametrize(
    "path", ["relative", "/with blank", "/quo'te", '/dou"ble', "/$HOME", "/a`b`"]
)
def test_only_plain_paths_get_into_a_script_that_root_runs(path: str) -> None:
    with pytest.raises(ValueError, match="for libvirt's hook"):
        HookSettings(sys.executable, path, "/state", "/run")
