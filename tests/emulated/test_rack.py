"""The rack itself: what every other emulated test takes for granted."""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from tests.lab.errors import CommandFailed, GuestError, LabError
from tests.lab.guest import build
from tests.lab.guest.argv import SHORT_TIMEOUTS
from tests.lab.guest.payload import REPOSITORY
from tests.lab.rack import Rack

BOOT_ID = "/proc/sys/kernel/random/boot_id"
SECRET = "the-first-tenant-was-here"


def test_a_drive_is_a_real_pci_function_on_the_nvme_driver(rack: Rack) -> None:
    first, second = rack.drive(0), rack.drive(2, serial="THIRD-SLOT")
    compute = rack.compute()

    assert (first.address, second.address) == ("0000:01:00.0", "0000:03:00.0")
    assert compute.driver(first.address) == "nvme"
    serial = compute.sh(f"cat /sys/bus/pci/devices/{second.address}/nvme/nvme*/serial")
    assert serial.stdout.strip() == "THIRD-SLOT"
    model = compute.run(["nvme", "id-ctrl", f"/dev/{compute.controller(second.address)}", "-b"])
    assert model.raw[4:24] == b"THIRD-SLOT".ljust(20)
    assert second.commands("identify")


@pytest.mark.rack
def test_each_drive_has_an_iommu_group_of_its_own(rack: Rack) -> None:
    drives = [rack.drive(0), rack.drive(1)]
    compute = rack.compute()

    for drive in drives:
        group = compute.sh(f"ls /sys/bus/pci/devices/{drive.address}/iommu_group/devices")
        assert group.stdout.split() == [drive.address]


def test_a_tenants_files_are_seen_from_outside_and_by_the_host_afterwards(rack: Rack) -> None:
    drive = rack.drive(0)
    compute = rack.compute()
    tenant = rack.tenant([drive])
    assert compute.driver(drive.address) == "vfio-pci"
    tenant.sh(
        f"mkfs.xfs -q {tenant.block_device(drive.address)}; "
        f"mount {tenant.block_device(drive.address)} /mnt; "
        f"yes {SECRET} | head -c 1M >/mnt/secret; sync"
    )
    known = drive.fingerprints()
    rack.delete(tenant)

    assert compute.driver(drive.address) == "nvme"
    assert drive.audit_blocks(lambda block: SECRET.encode() in block)
    assert drive.count_leaked(known) >= len(known)
    device = compute.block_device(drive.address)
    assert compute.run(["blkid", "-p", "-o", "value", "-s", "TYPE", device]).stdout == "xfs\n"

    compute.run(["nvme", "format", device, "-s", "1", "-l", "0", "--force"])
    assert drive.count_leaked(known) == 0
    assert [command.succeeded for command in drive.commands("format_nvm")] == [True]


def test_a_power_cut_keeps_what_was_synced_and_nothing_else(rack: Rack) -> None:
    drive = rack.drive(0)
    compute = rack.compute()
    boot = compute.get(BOOT_ID)
    cycles = drive.commands()[-1].power_cycle
    compute.sh("echo rule >/etc/udev/rules.d/10-mine.rules; echo 1 >/var/lib/nvme-eraser/journal")
    compute.sh("sync; echo 2 >>/var/lib/nvme-eraser/journal; echo gone >/root/file")

    rack.power_cut(compute)
    assert not compute.is_on
    with pytest.raises(GuestError, match="it is off"):
        compute.run(["true"])
    rack.power_on(compute)

    assert compute.get("/var/lib/nvme-eraser/journal") == b"1\n"
    assert compute.get("/etc/udev/rules.d/10-mine.rules") == b"rule\n"
    assert compute.run(["test", "-e", "/root/file"], check=False).returncode == 1
    assert compute.get(BOOT_ID) != boot
    assert drive.commands()[-1].power_cycle == cycles + 1


@pytest.mark.rack
def test_a_power_cut_ends_the_hosts_tenants_and_drives_may_change_slots(rack: Rack) -> None:
    drive = rack.drive(0)
    compute = rack.compute()
    tenant = rack.tenant([drive])
    with pytest.raises(LabError, match="host of 'LAB0000001' to be off"):
        rack.move(drive, 3)

    rack.power_cut(compute)
    assert not tenant.is_on
    rack.move(drive, 3)
    rack.power_on(compute)
    assert compute.driver("0000:04:00.0") == "nvme"
    assert compute.driver("0000:01:00.0") is None


@pytest.mark.rack
def test_two_guests_of_one_saved_state_are_two_machines(rack: Rack) -> None:
    one, two = rack.compute("compute-1"), rack.compute("compute-2")

    for path in (BOOT_ID, "/etc/machine-id", "/proc/sys/kernel/hostname"):
        assert one.get(path) != two.get(path)
    random = ["head", "-c", "64", "/dev/urandom"]
    assert one.run(random).raw != two.run(random).raw


@pytest.mark.rack
def test_a_guests_clock_is_not_that_of_the_saved_state(rack: Rack) -> None:
    before = int(time.time())
    compute = rack.compute()

    assert int(compute.run(["date", "+%s"]).stdout) >= before


@pytest.mark.rack
def test_a_failing_test_shows_the_logs_of_its_rack(tmp_path: Path) -> None:
    (tmp_path / "test_failing.py").write_text(
        "def test_failing(rack):\n    rack.drive(0)\n    rack.compute()\n    raise ValueError\n"
    )
    argv = [sys.executable, "-m", "pytest", "-p", "tests.emulated.conftest", str(tmp_path)]
    argv += ["--rootdir", str(tmp_path), "--basetemp", str(tmp_path / "base"), "-c", "/dev/null"]
    done = subprocess.run(
        argv,
        cwd=REPOSITORY,
        env=os.environ | {"PYTHONPATH": str(REPOSITORY)},
        capture_output=True,
        text=True,
    )

    assert "1 failed" in done.stdout
    for title in ("console of compute-1", "QEMU of compute-1", "commands of drive 'LAB0000001'"):
        assert title in done.stdout
    kept = tmp_path / "base" / "test_failing0" / "rack"
    assert f"everything is kept in {kept}" in done.stdout
    assert (kept / "compute-1" / "console.log").exists()


@pytest.mark.rack
def test_a_guest_runs_the_project_with_its_python_packages(rack: Rack) -> None:
    compute = rack.compute()

    done = compute.run(
        ["python3", "-c", "import celery, cryptography, eraser; print(eraser.__file__)"]
    )
    assert done.stdout == "/opt/src/eraser/__init__.py\n"


@pytest.mark.rack
def test_a_guest_reaches_services_on_our_loopback(rack: Rack) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]

        def greet() -> None:
            client, _ = server.accept()
            with client:
                client.sendall(b"welcome")

        threading.Thread(target=greet, daemon=True).start()
        compute = rack.compute()
        script = f"import socket; print(socket.create_connection(('10.0.2.2', {port})).recv(9))"
        assert compute.run(["python3", "-c", script]).stdout == "b'welcome'\n"


@pytest.mark.rack
def test_a_tenants_array_and_volume_group_are_assembled_by_an_unprepared_host(rack: Rack) -> None:
    """Otherwise a test that a prepared host leaves them alone would prove nothing."""
    array, volume = rack.drive(0), rack.drive(1)
    compute = rack.compute()
    tenant = rack.tenant([array, volume])
    first, second = (tenant.block_device(drive.address) for drive in (array, volume))
    tenant.sh(f"mdadm --create /dev/md7 --run --force --level=0 --raid-devices=1 {first}")
    tenant.sh(f"pvcreate -q {second}; vgcreate -q theirs {second}; lvcreate -q -n lv -L 64M theirs")
    rack.delete(tenant)

    compute.wait_for("/dev/md/*")
    compute.wait_for("/dev/theirs/lv")


@pytest.mark.rack
def test_commands_report_codes_output_input_and_time(rack: Rack) -> None:
    compute = rack.compute()

    assert compute.run(["cat"], stdin=b"\x00\xff").raw == b"\x00\xff"
    assert compute.run(["sh", "-c", "exit 3"], check=False).returncode == 3
    with pytest.raises(CommandFailed, match="ended with 3"):
        compute.run(["sh", "-c", "exit 3"])
    with pytest.raises(GuestError, match="expected sleep to end"):
        compute.run(["sleep", "60"], timeout=0.5)
    with pytest.raises(GuestError, match="FileNotFoundError"):
        compute.run(["no-such-program"])
    large = os.urandom(1 << 20)
    compute.put("/tmp/large", large)
    assert compute.get("/tmp/large") == large


@pytest.mark.rack
def test_a_background_command_can_be_watched_and_killed(rack: Rack) -> None:
    compute = rack.compute()

    process = compute.spawn(["sh", "-c", "echo begun; sleep 600"])
    compute.wait_for(f"/proc/{process.pid}")
    assert process.poll() is None
    process.kill()
    assert process.wait() == -9
    assert process.stdout() == "begun\n"


@pytest.mark.rack
def test_a_guest_that_dies_is_noticed_at_once(rack: Rack) -> None:
    compute = rack.compute()
    threading.Timer(0.5, os.kill, (compute.machine.process.pid, signal.SIGKILL)).start()

    with pytest.raises(GuestError, match=r"gone|died"):
        compute.run(["sleep", "600"], timeout=600)


@pytest.mark.rack
def test_the_kernel_of_the_other_flavour_gives_up_sooner(rack: Rack) -> None:
    parameter = "/sys/module/nvme_core/parameters/admin_timeout"

    assert rack.compute("compute-1").get(parameter) == b"60\n"
    assert rack.compute("compute-2", flavour=SHORT_TIMEOUTS).get(parameter) == b"5\n"


@pytest.mark.rack
def test_closing_a_rack_leaves_no_process(images: build.Images, tmp_path: Path) -> None:
    with Rack(tmp_path, images) as rack:
        drive = rack.drive(0)
        compute = rack.compute()
        pids = [drive.pid, compute.machine.process.pid]
        assert all(map(exists, pids))

    assert not any(map(exists, pids))


def test_killing_the_holder_of_a_rack_leaves_no_process(
    images: build.Images, tmp_path: Path
) -> None:
    script = f"""
import pathlib, threading
from tests.lab.rack import Rack
with Rack(pathlib.Path({str(tmp_path / "rack")!r})) as rack:
    drive = rack.drive(0)
    made = []
    # In a thread that ends: the processes must outlive it, but not their holder.
    thread = threading.Thread(target=lambda: made.append(rack.compute()))
    thread.start(); thread.join()
    made[0].run(["true"])
    print(drive.pid, made[0].machine.process.pid, flush=True)
    input()
"""
    holder = subprocess.Popen(
        [sys.executable, "-c", script],
        cwd=REPOSITORY,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        pids = [int(word) for word in holder.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(exists, pids))
        holder.kill()
    deadline = time.monotonic() + 30
    while any(map(exists, pids)):
        assert time.monotonic() < deadline
        time.sleep(0.05)


def exists(pid: int) -> bool:
    """Whether a process runs; one that has ended and waits to be reaped does not."""
    try:
        return ") Z " not in Path(f"/proc/{pid}/stat").read_text()
    except FileNotFoundError:
        return False
