"""The open controller: what is sent, what an answer means, and that it is the right one."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import pytest

from eraser.controller import adminqueue, passthru
from eraser.controller.binding import find_again
from eraser.controller.nvme import Controller, open_controller
from eraser.controller.passthru import CommandError, status_of
from eraser.drive import featuresurvey, inspect, profile
from eraser.errors import DriveError
from eraser.host.sysfs import AbsentError
from tests.unit.host.fakehost import ADDRESS, CONTROLLER, DISK, FakeHost

SAMPLES = Path(__file__).parent / "samples"
SUCCESS = "Admin Command X is Success and result: 0x00000000\n"


class Cli:
    """The stand-in for nvme-cli, with answers from the samples."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.program = directory / "nvme"
        source = Path(__file__).with_name("fake_nvme.py").read_text()
        self.program.write_text(f"#!{sys.executable} -S\n{source}")
        self.program.chmod(0o755)
        self.answers: dict[str, list[object]] = {}
        self.answer("6 1 0", output="id-ctrl.bin")
        self.answer("6 2 0", output="active.bin")
        self.answer("6 10 0", output="active.bin")
        self.answer("6 0 1", output="id-ns-1.bin")
        self.answer("2 7f0002 ffffffff", output="smart.bin")

    def answer(self, key: str, code: int = 0, errors: str = SUCCESS, output: str = "") -> None:
        self.answers[key] = [code, errors, str(SAMPLES / output) if output else ""]
        (self.directory / "answers.json").write_text(json.dumps(self.answers))

    @property
    def calls(self) -> list[str]:
        path = self.directory / "calls"
        return path.read_text().splitlines() if path.exists() else []


@pytest.fixture
def cli(tmp_path: Path) -> Cli:
    (tmp_path / "cli").mkdir()
    return Cli(tmp_path / "cli")


@pytest.fixture
def fake(tmp_path: Path, cli: Cli) -> FakeHost:
    return FakeHost(tmp_path / "root", str(cli.program))


@pytest.fixture
def controller(fake: FakeHost) -> Controller:
    return open_controller(fake.host, ADDRESS, timeout=5)


def test_identity_is_the_controllers_and_the_functions(controller: Controller) -> None:
    found = controller.identity()
    assert (found.serial, found.model) == ("STOCK <b>&0", "QEMU NVMe Ctrl")
    assert (found.vendor_id, found.device_id) == (0x1B36, 0x10)
    assert (found.subsystem_vendor_id, found.subsystem_device_id) == (0x1AF4, 0x1100)
    assert controller.records[-1].argv[1:3] == ("admin-passthru", controller.path)


def test_what_is_sent(controller: Controller, cli: Cli) -> None:
    controller.smart_log()
    assert cli.calls == [
        f"admin-passthru {controller.path} --opcode=0x02 --namespace-id=0xffffffff "
        "--cdw10=0x007f0002 --cdw11=0x00000000 --timeout=30000 --data-len=512 --read --raw-binary"
    ]


def test_facts_and_profile_of_the_sample(controller: Controller, cli: Cli) -> None:
    cli.answer("a 206 0", errors="Admin Command Get Features is Success and result: 0x00000001\n")
    facts, rules = inspect.facts(controller), featuresurvey.survey(controller)
    assert [n.size for n in facts.namespaces] == [64 << 20]
    assert facts.dlfeat == (9,)
    assert [(f.fid, f.value) for f in rules] == [(6, 1)]
    proposed = profile.propose(controller.identity(), facts, rules)
    assert profile.compare(proposed, controller.identity(), facts, rules) == ()
    assert profile.compare(proposed, controller.identity(), facts, ()) == (
        "profile: expected feature 0x06 (volatile write cache) 0x1, found none",
    )


@pytest.mark.parametrize(
    ("exit_code", "stderr", "status"),
    [
        (0, SUCCESS, 0),
        (1, "NVMe status: Access Denied: (0x of) rights(0x4286)\n", 0x286),
        (1, "NVMe status: Sanitize In Progress(0x1d)\n", 0x1D),
        (1, "NVMe status: INVALID_OPCODE: field is not valid(0x4001)", 0x001),
        (1, "NVMe status: Host Aborted Command(0x4371)", None),
        (1, "passthru: Interrupted system call\n", None),
        (1, "", None),
        (-9, "", None),
        (None, "NVMe status: x(0x2)", None),
    ],
)
def test_status(exit_code: int | None, stderr: str, status: int | None) -> None:
    assert status_of(exit_code, stderr) == status


def test_a_bad_status_is_a_result_of_admin_and_an_error_of_a_read(
    controller: Controller, cli: Cli
) -> None:
    cli.answer("84 2 0", 1, "NVMe status: Sanitize In Progress: running(0x401d)\n")
    record, data = controller.admin(passthru.SANITIZE, cdw10=2, timeout=5, note="sanitize")
    assert (record.status, record.exit_code, data) == (0x1D, 1, b"")
    with pytest.raises(CommandError, match="status 0x002") as caught:
        controller.sanitize_log()
    assert caught.value.status == 2
    assert [r.opcode for r in controller.records] == [0x84, 0x02]


def test_short_output_is_refused(controller: Controller, cli: Cli) -> None:
    cli.answer("6 1 0", output="smart.bin")
    with pytest.raises(CommandError, match="expected 4096 bytes of Identify Controller, found 512"):
        controller.identify()


def test_a_hung_command_ends_without_a_status(
    controller: Controller, cli: Cli, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(adminqueue, "EXIT_GRACE", 0.2)
    cli.answer("84 2 0", -1)
    record, _data = controller.admin(passthru.SANITIZE, cdw10=2, timeout=0.3)
    assert (record.status, record.exit_code) == (None, None)


def test_polls_are_listed_once_and_everything_else_each_time(
    controller: Controller, cli: Cli
) -> None:
    for _ in range(3):
        controller.smart_log()
    controller.identify()
    cli.answer("84 2 0")
    for _ in range(2):
        controller.admin(passthru.SANITIZE, cdw10=2, timeout=5)
    assert [r.opcode for r in controller.records] == [0x02, 0x06, 0x84, 0x84]
    assert len(cli.calls) == 6


def test_namespaces_come_from_sysfs_by_their_own_id(fake: FakeHost, controller: Controller) -> None:
    fake.put(f"{DISK}/nsid", "7")
    assert controller.block_devices() == {7: str(fake.path("/dev/nvme5n1"))}


def test_the_multipath_head_stands_for_the_hidden_disk(
    fake: FakeHost, controller: Controller
) -> None:
    """Names of the controller and of its subsystem differ; NSIDs must agree."""
    fake.path(DISK).rename(fake.path(f"{CONTROLLER}/nvme2c5n1"))
    with pytest.raises(DriveError, match="multipath head"):
        controller.block_devices()
    subsystem = "/sys/class/nvme-subsystem/nvme-subsys2"
    fake.put(f"{subsystem}/nvme5/state", "live")
    fake.put(f"{subsystem}/nvme2n1/nsid", "2")
    fake.put(f"{subsystem}/nvme2n1/dev", "259:9")
    with pytest.raises(DriveError, match="multipath head"):
        controller.block_devices()
    fake.put(f"{subsystem}/nvme2n1/nsid", "1")
    fake.put(f"{subsystem}/ng2n1/dev", "1:8")
    assert controller.block_devices() == {1: str(fake.path("/dev/nvme2n1"))}
    assert {n.name for n in controller.function.nodes()} >= {"nvme5", "nvme2n1", "ng2n1"}


def test_a_namesake_is_not_the_controller(fake: FakeHost, controller: Controller) -> None:
    fake.put(f"{CONTROLLER}/dev", "1:9")
    with pytest.raises(DriveError, match="found another's"):
        controller.identity()
    fake.path(CONTROLLER).rename(fake.path(CONTROLLER).with_name("nvme6"))
    with pytest.raises(DriveError, match="found it gone"):
        controller.identity()


def test_opening_checks_the_numbers_behind_the_name(fake: FakeHost) -> None:
    fake.path("/dev/nvme5").unlink()
    fake.path("/dev/nvme5").symlink_to("/dev/zero")
    with pytest.raises(DriveError, match="found another"):
        open_controller(fake.host, ADDRESS, timeout=1)


def test_absent_and_not_live(fake: FakeHost) -> None:
    with pytest.raises(AbsentError):
        open_controller(fake.host, "0000:77:00.0", timeout=1)
    fake.put(f"{CONTROLLER}/state", "resetting")
    with pytest.raises(DriveError, match="live NVMe controller"):
        open_controller(fake.host, ADDRESS, timeout=0.05)
    fake.driver("vfio-pci")
    with pytest.raises(AbsentError, match="vfio-pci"):
        open_controller(fake.host, ADDRESS, timeout=1)


def test_nothing_is_sent_after_close(controller: Controller, cli: Cli) -> None:
    descriptor = controller._descriptor
    assert descriptor is not None
    os.fstat(descriptor)
    controller.close()
    controller.close()
    with pytest.raises(OSError, match="Bad file"):
        os.fstat(descriptor)
    with pytest.raises(DriveError, match="closed"):
        controller.smart_log()
    assert cli.calls == []


def test_a_function_is_reset_by_the_kernel_where_it_can(
    fake: FakeHost, controller: Controller
) -> None:
    reset = f"{controller.function.directory}/reset"
    assert controller.reset_function(timeout=5) == "the kernel knows none for it"
    fake.put(reset, "")
    assert controller.reset_function(timeout=5) == ""
    assert fake.path(reset).read_text() == "1"
    fake.path(reset).unlink()
    fake.path(reset).mkdir()  # no write goes into it, as where the kernel finds no way
    assert "Is a directory" in controller.reset_function(timeout=5)


def test_wait_live_wants_every_namespace(fake: FakeHost, controller: Controller) -> None:
    with pytest.raises(DriveError, match=r"namespaces \[1\]"):
        controller.wait_live(0.05)
    fake.put("/dev/nvme5n1", "")
    controller.wait_live(5)


def test_a_function_is_forgotten_and_looked_for_on_its_own_bus(fake: FakeHost) -> None:
    """On that bus alone: the rescan of the bridge above is one of the bus that *it* sits on, with
    everything below. Where the bus has no such file (before Linux 3.3, or 5.6), there; else
    everywhere."""
    function = fake.path(f"/sys/bus/pci/devices/{ADDRESS}")
    bridge, everywhere = function.resolve().parent / "rescan", fake.path("/sys/bus/pci/rescan")
    everywhere.write_text("")
    find_again(fake.host, ADDRESS, timeout=5)
    assert ((function / "remove").read_text(), everywhere.read_text()) == ("1", "1")
    everywhere.write_text("")
    bridge.write_text("")
    find_again(fake.host, ADDRESS, timeout=5)
    assert (bridge.read_text(), everywhere.read_text()) == ("1", "")
    bridge.write_text("")
    own = f"/sys/class/pci_bus/{ADDRESS[:7]}/rescan"
    fake.put(own, "")
    find_again(fake.host, ADDRESS, timeout=5)
    assert (fake.path(own).read_text(), bridge.read_text(), everywhere.read_text()) == ("1", "", "")
    fake.path(f"/sys/bus/pci/devices/{ADDRESS}").rename(fake.path("/sys/gone"))
    with pytest.raises(DriveError, match="a PCI function at"):
        find_again(fake.host, ADDRESS, timeout=0.05)
