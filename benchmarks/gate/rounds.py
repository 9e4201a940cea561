"""On the host that has the drives: ``rounds.py ROUNDS ADDRESS...`` prints one JSON.

Makes a host whose gate knows each drive's owner and the case that it was certified by, and calls
libvirt's hook as libvirt does: for one drive, for all of them, for a guest without any.
"""

import dataclasses
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import eraser
from eraser.gate import by_person, hook, hookfile
from eraser.host.sysfs import Host
from eraser.protocol import codec
from eraser.protocol.hostcard import HostCard
from eraser.protocol.identity import Slot
from eraser.protocol.order import EraseOrder
from eraser.protocol.policy import Policy
from eraser.protocol.profile import Profile
from eraser.protocol.report import EraseReport
from eraser.state import hostcard
from eraser.state.case_files import CaseFiles

STATE, RUN = Path("/var/lib/nvme-eraser"), Path("/run/nvme-quarantine")
HOOK = Path("/etc/libvirt/hooks/qemu.d/50-nvme-quarantine")
PROFILE = Path("/run/profile.json")
PATIENCE = 600.0
"""Seconds, for the hook and its gate: an emulated host is slower than any real one."""


def certified(addresses: list[str]) -> None:
    """The files of one real erase, as if each drive had had it."""
    argv = ["nvme-eraser", "inspect", "--pci", addresses[0], "--save", str(PROFILE)]
    subprocess.run([*argv, "--name", "bench"], check=True, stdout=subprocess.DEVNULL)
    argv = ["nvme-eraser", "erase", "--pci", addresses[0], "--profile", str(PROFILE)]
    done = subprocess.run([*argv, "--any-drive", "-f", "json"], stdout=subprocess.PIPE)
    report = codec.load(EraseReport, Path(json.loads(done.stdout)["report"]).read_bytes(), "report")
    profile = codec.load(Profile, PROFILE.read_bytes(), "profile")
    card = HostCard("compute-1", "1" * 32, {})
    (STATE / hostcard.CARD_FILE).write_bytes(codec.canonical(card))
    for number, address in enumerate(addresses):
        slot, name = Slot("compute-1", address), f"order-0000-0000-{number:04}"
        assert report.identity is not None
        order = EraseOrder(
            name, slot, report.identity, profile, Policy("bench"), 1, "n" * 16, "1" * 32, 3600
        )
        path = hostcard.order_file(STATE, address)
        path.parent.mkdir(exist_ok=True)
        path.write_bytes(codec.canonical(order))
        files = CaseFiles.of_order(STATE, name)
        files.make()
        files.write_report(dataclasses.replace(report, slot=slot, order_id=name, generation=1))


def domain(name: str, addresses: list[str]) -> bytes:
    """A guest as libvirt hands it to a hook."""
    devices = "".join(
        "<hostdev mode='subsystem' type='pci' managed='yes'><source>"
        "<address domain='0x{}' bus='0x{}' slot='0x{}' function='0x{}'/></source></hostdev>".format(
            *address.replace(".", ":").split(":")
        )
        for address in addresses
    )
    head = f"<name>{name}</name><uuid>{len(addresses):08x}-0000-0000-0000-000000000000</uuid>"
    return f"<domain>{head}<devices>{devices}</devices></domain>".encode()


def install(settings: hookfile.HookSettings) -> None:
    """The hook, with more time for an emulated host."""
    text = hookfile.text(settings)
    before = f"\nBUDGET = {hook.BUDGET}\n"
    assert text.count(before) == 1, before
    hookfile.install(HOOK, text.replace(before, f"\nBUDGET = {PATIENCE}\n").encode())


def quickest(rounds: int, calls: dict[str, tuple[list[str], bytes]]) -> dict[str, float]:
    """Seconds of the quickest of some rounds of each; they take turns, others work here too."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        for name, (argv, text) in calls.items():
            began = time.perf_counter()
            done = subprocess.run(argv, input=text, capture_output=True)
            found[name].append(time.perf_counter() - began)
            if done.returncode:
                raise SystemExit(f"{name}: {done.stderr.decode()}")
    return {name: min(times) for name, times in found.items()}


def main() -> None:
    """Prepares and measures."""
    rounds, addresses = int(sys.argv[1]), sys.argv[2:]
    guests = {"plain": [], "one": addresses[:1], "all": addresses}
    certified(addresses)
    libvirt = Path("/etc/libvirt/qemu")
    libvirt.mkdir(parents=True, exist_ok=True)
    library = str(Path(eraser.__file__).parents[1])
    python = os.path.realpath(sys.executable)
    install(hookfile.HookSettings(python, library, str(STATE), str(RUN)))
    found = {}
    for name in ("one", "all"):
        # Its drives are its own from here on: the other guest's records go first.
        for path in (STATE / "gate").glob("book.json"):
            path.unlink()
        (libvirt / "guest.xml").write_bytes(domain(name, guests[name]))
        by_person.adopt_all(STATE, Host(), "bench", plan=False, renew=False)
        xml = domain(name, guests[name])
        calls = {
            "python": (["python3", "-IS", "-c", ""], b""),
            "plain": ([str(HOOK), "plain", "prepare", "begin", "-"], domain("plain", [])),
            name: ([str(HOOK), name, "prepare", "begin", "-"], xml),
        }
        times = quickest(rounds, calls)
        seconds = times.pop("python")
        found.update({kind: time / seconds for kind, time in times.items()})
        found["seconds"] = seconds
    print(json.dumps(found))


if __name__ == "__main__":
    main()
