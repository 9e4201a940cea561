"""A second look at a certified drive, and what the drive's own status says of a failing read."""

from __future__ import annotations

import json
import time
from pathlib import Path

import pytest

from tests.emulated.erasing import Bench, Erased, bench
from tests.lab.nvme.composed import corpus
from tests.lab.nvme.faults import HEALTHY, Faults, MediaError
from tests.lab.rack import Rack
from tests.lab.services.process import wait_until

CRYPTO, BLOCK = 4, 2
BAD = 0x281
"""Unrecovered Read Error."""
NOT_READY = 0x082
"""Namespace Not Ready, with Do Not Retry clear."""


_BOTH_WAYS = """
import mmap, os, sys
from eraser.media.iocommand import Namespace
from eraser.clock import MACHINE
from eraser.host.sysfs import Host
from eraser.media.passread import PassthroughReader, Patience
from eraser.media.reader import BlockDevice
with BlockDevice(sys.argv[1]) as device:
    index = int(sys.argv[2])
    [(_index, block)] = [(n, bytes(b)) for n, b in device.read_blocks([index])]
    into = memoryview(mmap.mmap(-1, 4096))
    travels = Namespace(1, device.logical_block, 0, False, False, 10.0, Host())
    reader = PassthroughReader(travels, Patience(0.0, MACHINE))
    fd = os.open(sys.argv[1], os.O_RDONLY)
    status = reader.read(fd, index * 4096, into)
    print(status, bytes(into) == block and any(block))
"""


def argv(made: Bench, certificate: str) -> list[str]:
    slot = ["--pci", made.drive.address]
    return ["nvme-eraser", "verify", *slot, "--certificate", certificate, "-f", "json"]


def verify(made: Bench, certificate: str) -> Erased:
    done = made.compute.run(argv(made, certificate), check=False, timeout=120)
    return Erased(done.returncode, done.stdout, done.stderr)


@pytest.mark.rack
def test_an_independent_reader_checks_an_erased_drive(rack: Rack) -> None:
    made = bench(rack)
    erased = made.erase()
    assert (erased.code, erased.fit) == (0, True), erased.reasons
    [claimed] = made.report(erased)["verification"]["namespaces"]
    assert claimed["reread"] >= 700
    assert claimed["changed"] == 0
    before = len(made.drive.commands())

    found = verify(made, erased.report)
    assert (found.code, found.agreement, found.differ) == (0, "agrees", 0), found.reasons
    assert found.read == claimed["read"]
    assert found.seal.startswith("unbroken")
    sent = {command.name for command in made.drive.commands()[before:]}
    assert sent <= {"identify", "get_log_page", "get_features"}, "it only reads"

    # All that it is asked for comes later: the kernel gives up at once, we do not.
    later = MediaError(0, 1 << 40, status=NOT_READY)
    made.drive.set_faults(Faults(media_errors=[later], log_io=True))
    waking = made.compute.spawn(argv(made, erased.report))
    wait_until(lambda: len(made.drive.commands("read")) > 30, "reads that are refused", 60)
    time.sleep(2.0)  # as long as an honest drive was seen to say so
    made.drive.set_faults(HEALTHY)
    assert waking.wait() == 0, waking.stderr()

    held = made.compute.spawn(["sh", "-c", "exec sleep 100 < /dev/nvme0n1"])
    assert verify(made, erased.report).code == 3, "a drive in use is not read"
    held.signal(9)
    held.wait(30)

    made.compute.sh("dd if=/dev/urandom of=/dev/nvme0n1 bs=4096 count=3 seek=77 oflag=direct")
    found = verify(made, erased.report)
    assert (found.code, found.agreement, found.differ) == (8, "differs", 3)
    assert found.seal.startswith("broken")

    both = ["python3", "-c", _BOTH_WAYS, "/dev/nvme0n1", "77"]
    done = made.compute.run(both, env={"PYTHONPATH": "/opt/src"})
    assert done.stdout == "0 True\n", "a Read command of ours brings what the kernel's does"

    other = json.loads(made.compute.get(erased.report))
    other["identity"]["serial"] = "ANOTHER"
    made.compute.put("/tmp/other.json", json.dumps(other).encode())
    assert verify(made, "/tmp/other.json").code == 4


@pytest.mark.rack
def test_a_block_that_stays_unreadable_is_named_by_its_status_and_held(rack: Rack) -> None:
    made = bench(rack, faults=Faults(media_errors=[MediaError(65536, 65551)]))
    erased = made.erase()
    assert (erased.code, erased.verdict, erased.fit) == (1, "unknown", False)
    assert "2 blocks cannot be read (2: status 0x281, unrecovered read error)" in erased.reasons[0]
    assert made.sanitizes() == [CRYPTO, BLOCK, BLOCK], "one more erase, and no third"
    [found] = made.report(erased)["verification"]["namespaces"]
    assert found["statuses"] == [{"status": BAD, "blocks": 2}]


@pytest.mark.rack
def test_what_shows_after_a_reset_of_the_function_is_found(rack: Rack, tmp_path: Path) -> None:
    """vfio-pci resets the function before a guest has the drive: so does the second reading."""
    [lying] = [drive for drive in corpus.read() if drive.name == "function level reset"]
    chosen = tmp_path / "drive.json"
    chosen.write_text(json.dumps(lying.to_json()))
    made = bench(rack, options=["--composed", str(chosen)])
    erased = made.erase()
    assert (erased.verdict, erased.fit) == ("not_erased", False), erased.reasons
    assert "still there" in erased.reasons[0]
