"""Processes, health, profiles, uniqueness, binding: the small parts."""

from __future__ import annotations

import contextlib
import dataclasses
import errno
import os
import sys
from pathlib import Path

import pytest

from eraser.controller import binding, unique
from eraser.controller.binding import ensure_nvme_driver
from eraser.drive import health, profile
from eraser.errors import BadInputError, DriveError, IdentityError, InUseError
from eraser.host.command import run
from eraser.host.sysfs import AbsentError, Host, PciFunction
from eraser.protocol.identity import ControllerIdentity
from eraser.protocol.policy import Health
from eraser.protocol.profile import Comparator, FeatureRule, NamespaceLayout
from eraser.protocol.report import ControllerFacts, LinkRecord
from tests.unit.drive.fakehost import ADDRESS, CONTROLLER, FUNCTION, FakeHost

IDENTITY = ControllerIdentity(1, 2, 3, 4, "SERIAL1", "MODEL", "nqn")
FACTS = ControllerFacts(
    firmware="FW1",
    nvme_version=0x10400,
    oacs=0,
    oncs=0,
    fna=0,
    sanicap=3,
    total_bytes=1 << 30,
    unallocated_bytes=0,
    namespaces=(NamespaceLayout(1, 1 << 18, 4096, 1),),
    dlfeat=(1,),
)
FEATURES = (
    FeatureRule(0x06, "volatile write cache", 1),
    FeatureRule(0x08, "interrupt coalescing", 5, Comparator.REPORTED),
)


def test_a_command_sees_a_fixed_environment_and_no_shell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "de_DE.UTF-8")
    monkeypatch.setenv("LD_PRELOAD_X", "x")
    done = run(["env"], timeout=30)
    assert sorted(line.split(b"=")[0] for line in done.stdout.splitlines()) == [b"LC_ALL", b"PATH"]
    assert b"LC_ALL=C" in done.stdout.splitlines()
    assert run(["echo", "$(id); `id`"], timeout=30).stdout == b"$(id); `id`\n"
    assert run(["cat"], timeout=30, stdin=b"in").stdout == b"in"


def test_a_command_that_fails_or_hangs_is_a_result(caplog: pytest.LogCaptureFixture) -> None:
    failed = run(["sh", "-c", "echo no >&2; exit 3"], timeout=30)
    assert (failed.exit_code, failed.stderr) == (3, "no\n")
    assert "sh -c 'echo no >&2; exit 3': exit code 3: no" in caplog.text
    hung = run([sys.executable, "-c", "import time; time.sleep(3600)"], timeout=0.3)
    assert hung.exit_code is None
    assert "killed after" in caplog.text
    with pytest.raises(DriveError, match="expected to start 'no-such-program'"):
        run(["no-such-program"], timeout=1)


def test_a_hung_command_whose_pipes_stay_open_is_left_behind() -> None:
    """A grandchild keeps standard output open, as a process that cannot be killed would."""
    script = "sleep 5 & exec sleep 3600"
    hung = run(["sh", "-c", f"echo said; {script}"], timeout=0.3)
    assert hung.exit_code is None
    assert hung.stdout in (b"said\n", b"")


SMART = bytearray(512)
SMART[1:6] = (0x43, 0x01, 90, 10, 40)


@pytest.mark.parametrize(
    ("offset", "value", "words"),
    [
        (0, 0, None),
        (0, 0x08, "media read only"),
        (0, 0x40, "reserved bits"),
        (5, 100, None),
        (5, 101, "101 %"),
        (160, 2, "2 during this case"),
    ],
)
def test_health(offset: int, value: int, words: str | None) -> None:
    raw = bytearray(SMART)
    raw[offset] = value
    found = health.unfit(health.read(bytes(raw), bytes(SMART)), Health())
    assert len(found) == (words is not None)
    if words is not None:
        assert words in found[0]


def test_health_as_the_operator_allows() -> None:
    raw = bytearray(SMART)
    raw[0], raw[5] = 1, 120
    allowed = Health(max_percentage_used=150, allow_critical_warning=True)
    record = health.read(bytes(raw))
    assert health.unfit(record, allowed) == ()
    assert record.temperature_kelvin == 323


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"firmware": "EVIL"}, "firmware 'FW1', found 'EVIL'"),
        ({"total_bytes": 5}, "1073741824 bytes in total, found 5"),
        ({"namespaces": ()}, "expected namespace 1, found none"),
        ({"namespaces": (NamespaceLayout(1, 1 << 21, 512, 0),)}, "block_bytes 4096, found 512"),
        (
            {"namespaces": (*FACTS.namespaces, NamespaceLayout(2, 8, 512, 0))},
            "expected no namespace 2",
        ),
    ],
)
def test_profile_sees_what_a_tenant_changed(change: dict[str, object], words: str) -> None:
    proposed = profile.propose(IDENTITY, FACTS, FEATURES)
    assert profile.compare(proposed, IDENTITY, FACTS, FEATURES) == ()
    changed = dataclasses.replace(FACTS, **change)  # type: ignore[arg-type]
    assert words in "; ".join(profile.compare(proposed, IDENTITY, changed, FEATURES))


def test_profile_features_and_identity() -> None:
    proposed = profile.propose(IDENTITY, FACTS, FEATURES, "mine")
    assert proposed.name == "mine"
    set_off = tuple(dataclasses.replace(rule, value=0) for rule in FEATURES)
    assert profile.compare(proposed, IDENTITY, FACTS, set_off) == (
        "profile: expected feature 0x06 (volatile write cache) 0x1, found 0x0",
    )
    other = dataclasses.replace(IDENTITY, vendor_id=9, device_id=9, model="M2", serial="S2")
    found = profile.compare(proposed, other, FACTS, FEATURES)
    assert [line.split()[2] for line in found] == ["vendor", "device", "model"]
    with pytest.raises(BadInputError, match="active namespace"):
        profile.propose(IDENTITY, dataclasses.replace(FACTS, namespaces=()), ())


def test_an_only_drive_is_unique(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", "SERIAL2", "MODEL")
    fake.seen("nvme7", "0000:03:00.0", "SERIAL1", "OTHER")
    unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize("serial", ["SERIAL1", "SERIAL1   "])
def test_twins_are_held(tmp_path: Path, serial: str) -> None:
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", serial, "MODEL")
    with pytest.raises(IdentityError, match=r"another at 0000:02:00\.0"):
        unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize(("nqn", "held"), [("nqn.mine", True), ("nqn.other", False), ("", False)])
def test_a_second_way_to_the_same_subsystem_is_held(
    tmp_path: Path, nqn: str, *, held: bool
) -> None:
    """Other serial, same NQN: the kernel would join the namespaces of two drives."""
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", "SERIAL2", "MODEL")
    fake.put("/sys/class/nvme/nvme5/subsysnqn", nqn and "nqn.mine")
    fake.put("/sys/class/nvme/nvme6/subsysnqn", nqn)
    expected = pytest.raises(IdentityError, match="same NQN") if held else contextlib.nullcontext()
    with expected:
        unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize(("number", "held"), [(errno.ENODEV, False), (errno.EIO, True)])
def test_a_controller_that_goes_while_it_is_read_is_no_twin(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, *, held: bool
) -> None:
    """libvirt takes another guest's drive at that moment: the kernel answers ENODEV."""
    fake = FakeHost(tmp_path)
    fake.seen("nvme6", "0000:02:00.0", "SERIAL2", "MODEL")

    def read(_host: object, _path: str) -> str:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(unique, "_attribute", read)
    expected = pytest.raises(IdentityError) if held else contextlib.nullcontext()
    with expected:
        unique.check_unique(fake.host, IDENTITY, ADDRESS)


@pytest.mark.parametrize("serial", ["", "   ", "\0x"])
def test_an_empty_serial_is_held(tmp_path: Path, serial: str) -> None:
    nameless = dataclasses.replace(IDENTITY, serial=serial)
    with pytest.raises(IdentityError, match="empty one"):
        unique.check_unique(FakeHost(tmp_path).host, nameless, ADDRESS)


def bus(fake: FakeHost, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The PCI bus as far as binding writes to it."""
    writes: list[str] = []

    def write(_host: object, path: str, value: str) -> None:
        writes.append(f"{path.rsplit('/', 1)[1]}={value.strip()}")
        if path.endswith("unbind"):
            fake.driver(None)
        elif path.endswith("drivers_probe"):
            fake.driver("nvme")

    monkeypatch.setattr(binding, "_write", write)
    monkeypatch.setattr("eraser.host.idle.refused_claims", lambda *_arguments: ())
    return writes


def test_a_free_drive_is_bound_to_nvme(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHost(tmp_path)
    writes = bus(fake, monkeypatch)
    fake.driver("vfio-pci")
    fake.put(f"{FUNCTION}/driver_override", "vfio-pci")
    assert ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert writes == ["driver_override=", f"unbind={ADDRESS}", f"drivers_probe={ADDRESS}"]
    fake.put(f"{FUNCTION}/driver_override", "(null)")
    assert not ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert len(writes) == 3


def test_a_drive_in_use_is_not_unbound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeHost(tmp_path)
    writes = bus(fake, monkeypatch)
    fake.driver("vfio-pci")
    fake.domain("/etc/libvirt/qemu/off.xml")
    with pytest.raises(InUseError, match="'guest'"):
        ensure_nvme_driver(fake.host, ADDRESS, timeout=5)
    assert writes == []


def test_binding_an_absent_or_dead_drive(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    with pytest.raises(AbsentError):
        ensure_nvme_driver(fake.host, "0000:55:00.0", timeout=1)
    fake.put(f"{CONTROLLER}/state", "dead")
    with pytest.raises(DriveError, match="live NVMe controller"):
        ensure_nvme_driver(fake.host, ADDRESS, timeout=0.05)


def test_writing_where_nothing_is_names_the_file(tmp_path: Path) -> None:
    fake = FakeHost(tmp_path)
    with pytest.raises(DriveError, match="/sys/nowhere/bind"):
        binding._write(fake.host, "/sys/nowhere/bind", "x")
    assert not os.path.exists(fake.path("/sys/nowhere"))


PORT = "sys/devices/pci0000:00/0000:00:01.0"


def linked(root: Path, own: dict[str, str], port: dict[str, str]) -> LinkRecord | None:
    """A function below a port, as sysfs shows both."""
    for directory, values in ((f"{PORT}/0000:01:00.0", own), (PORT, port)):
        (root / directory).mkdir(parents=True, exist_ok=True)
        for name, text in values.items():
            (root / directory / name).write_text(f"{text}\n")
    bus = root / "sys/bus/pci/devices"
    bus.mkdir(parents=True, exist_ok=True)
    if not (bus / "0000:01:00.0").exists():
        (bus / "0000:01:00.0").symlink_to(f"../../../../{PORT}/0000:01:00.0")
    return health.link(PciFunction(Host(root), "0000:01:00.0"))


GEN4 = {
    "current_link_speed": "16.0 GT/s PCIe",
    "current_link_width": "4",
    "max_link_speed": "16.0 GT/s PCIe",
    "max_link_width": "4",
}


@pytest.mark.parametrize(
    ("own", "port", "expected"),
    [
        (GEN4, GEN4, LinkRecord(16, 4, 16, 4)),
        (
            GEN4 | {"current_link_width": "2", "current_link_speed": "8.0 GT/s PCIe"},
            {"max_link_speed": "8.0 GT/s PCIe", "max_link_width": "2"},
            LinkRecord(8, 2, 8, 2),  # the slot has no more: nothing is wrong
        ),
        (GEN4, {}, LinkRecord(16, 4, 16, 4)),
        (GEN4, {"max_link_speed": "Unknown", "max_link_width": "255"}, LinkRecord(16, 4, 16, 4)),
        (GEN4 | {"current_link_speed": "Unknown", "current_link_width": "0"}, GEN4, None),
        (GEN4 | {"current_link_width": ""}, GEN4, None),
        ({}, GEN4, None),
    ],
)
def test_the_link_and_what_both_its_ends_can(
    tmp_path: Path, own: dict[str, str], port: dict[str, str], expected: LinkRecord | None
) -> None:
    assert linked(tmp_path, own, port) == expected
