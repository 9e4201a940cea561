"""Many guests that start at once, as after a host's boot: who is let in, and when.

On this machine, without a drive: libvirt's hook runs as it is installed, once for each guest, and
its gate takes its locks and writes its book. Two things are made up: each fsync takes some
milliseconds more, as on a slow system disk, and the kernel calls each drive ready only some seconds
after its guest began to start, as after a hard reboot.
"""

from __future__ import annotations

import argparse
import dataclasses
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import eraser
from benchmarks.gate.rounds import domain
from eraser.gate import hook, hookfile
from eraser.ownership import store as books
from eraser.ownership.model import Owner, PciIds, SlotEntry
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.identity import ControllerIdentity
from eraser.state import hostcard

_INCARNATION = "1" * 32
_CLASS = "0x010802"

SLOW = '''
"""The eraser as it is installed, on a host whose disk and drives are slow."""

import os, time
__path__ = [{package!r}]
from eraser.gate import door, read_drives
from eraser.host import sysfs
from eraser.protocol.identity import ControllerIdentity
from types import SimpleNamespace

sync = os.fsync

def fsync(descriptor):
    time.sleep({fsync!r})
    sync(descriptor)

class Drive:
    descriptor = None

    def __init__(self, address):
        self.address = address

    def __enter__(self):
        return self

    def __exit__(self, *_error):
        pass

    def identity_of(self, _identify):
        return ControllerIdentity(0x144D, 0xA824, 0x144D, 0xA801, self.address, "Model", "nqn.x")

class Answers:
    def __init__(self, *_arguments):
        pass

    def identify(self):
        return SimpleNamespace(can_sanitize=False)

    def smart_log(self):
        return bytes(512)

def hold(host, address, *, timeout):
    ready = os.stat(host.path(f"/sys/bus/pci/devices/{{address}}/class")).st_mtime + {ready!r}
    host.wait_for(f"a live NVMe controller at {{address}}", timeout, lambda: time.time() >= ready)
    return Drive(address)

os.fsync, read_drives.hold, read_drives.AdminReader = fsync, hold, Answers
door.Host = lambda: sysfs.Host(sysfs.Path({root!r}))
'''
"""What stands in the place of the eraser's package; all but the made-up is the real one."""


@dataclasses.dataclass(frozen=True)
class Started:
    """One guest's start: after how many seconds the hook answered, and why not where it did not."""

    seconds: float
    refused: str


def _address(number: int) -> str:
    return f"0000:{number + 1:02x}:00.0"


def _host(place: Path, drives: int) -> None:
    """The host's card, and each drive on the nvme driver."""
    for name in ("state", "run"):
        (place / name).mkdir()
    card = HostCard("compute-1", _INCARNATION, {})
    (place / "state" / hostcard.CARD_FILE).write_bytes(codec.canonical(card))
    for number in range(drives):
        function = place / "root/sys/bus/pci/devices" / _address(number)
        function.mkdir(parents=True)
        (function / "class").write_text(f"{_CLASS}\n")
        (function / "driver").symlink_to("../../drivers/nvme")


def _own(place: Path, guests: list[list[str]]) -> list[bytes]:
    """Each guest owns its drives from an earlier start; the guests as libvirt has them."""
    texts = []
    with books.opened(place / "state") as book:
        found = book.book
        for number, addresses in enumerate(guests):
            uuid = f"{number:08x}-0000-0000-0000-000000000000"
            text = domain(f"guest-{number}", addresses).decode()
            before = text[text.index("<uuid>") : text.index("</uuid>")]
            texts.append(text.replace(before, f"<uuid>{uuid}").encode())
            for address in addresses:
                drive = ControllerIdentity(
                    0x144D, 0xA824, 0x144D, 0xA801, address, "Model", "nqn.x"
                )
                owner = Owner(
                    uuid, f"guest-{number}", drive, PciIds.of(drive), _INCARNATION, "then",
                    adopted=False, let_in=None,
                )  # fmt: skip
                found = found.with_entry(SlotEntry(address, owner=owner))
        book.write(found)
    return texts


def storm(guests: int, drives: int, fsync: float, ready: float) -> list[Started]:
    """Starts ``guests`` guests of ``drives`` drives each at once. Seconds."""
    with tempfile.TemporaryDirectory(prefix="nvq-bench-") as scratch:
        place = Path(scratch)
        _host(place, guests * drives)
        having = [
            [_address(number * drives + drive) for drive in range(drives)]
            for number in range(guests)
        ]
        texts = _own(place, having)
        package = place / "library" / "eraser"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(
            SLOW.format(
                package=os.path.dirname(eraser.__file__),
                fsync=fsync,
                ready=ready,
                root=str(place / "root"),
            )
        )
        settings = hookfile.HookSettings(
            os.path.realpath(sys.executable),
            str(place / "library"),
            str(place / "state"),
            str(place / "run"),
        )
        file = place / "hooks" / "qemu.d" / "hook"
        hookfile.install(file, hookfile.text(settings).encode())
        _run(file, [domain("first", ["0000:ff:1f.7"])])  # whatever is compiled, is by now
        for number in range(guests * drives):
            os.utime(place / "root/sys/bus/pci/devices" / _address(number) / "class")
        return _run(file, texts)


def _run(file: Path, texts: list[bytes]) -> list[Started]:
    began = time.monotonic()
    calls = []
    for number, text in enumerate(texts):
        call = subprocess.Popen(
            [str(file), f"guest-{number}", "prepare", "begin", "-"],
            stdin=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        assert call.stdin is not None
        call.stdin.write(text)
        call.stdin.close()
        calls.append(call)
    found: dict[int, Started] = {}
    while len(found) < len(calls):
        for number, call in enumerate(calls):
            if number not in found and call.poll() is not None:
                assert call.stderr is not None
                words = call.stderr.read().decode().strip()
                call.stderr.close()
                found[number] = Started(time.monotonic() - began, words if call.returncode else "")
        time.sleep(0.02)
    return [found[number] for number in range(len(calls))]


def main() -> int:
    """Run the command line."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate.storm", description=__doc__)
    parser.add_argument("--guests", type=int, default=24, help="that start at once (%(default)s)")
    parser.add_argument("--drives", type=int, default=1, help="of each guest (%(default)s)")
    parser.add_argument(
        "--fsync-ms", type=float, default=60.0, help="that each fsync takes longer (%(default)g)"
    )
    parser.add_argument(
        "--ready-s", type=float, default=8.0, help="until a drive is ready (%(default)g)"
    )
    chosen = parser.parse_args()
    found = storm(chosen.guests, chosen.drives, chosen.fsync_ms / 1000, chosen.ready_s)
    refused = [each.refused for each in found if each.refused]
    print(
        f"{chosen.guests} guests with {chosen.drives} drives each, fsync {chosen.fsync_ms:g} ms, "
        f"drives ready after {chosen.ready_s:g} s: {len(refused)} refused, the slowest answer "
        f"after {max(each.seconds for each in found):.1f} s (budget {hook.BUDGET:g} s)"
    )
    for words in dict.fromkeys(refused):
        print(f"  {words}")
    return 1 if refused else 0


if __name__ == "__main__":
    sys.exit(main())
